//! Requests that nobody answered: what they ask for may be done later.

use std::time::Duration;

/// How late a request may arrive: longer than anything between a client and its API server holds one back.
pub const ARRIVES_WITHIN: Duration = Duration::from_secs(600);

/// Whether this answer of an API server, 5xx though it is, was given by who decides about the request: a webhook is asked
/// before anything is stored, so that one that could not be asked means that nothing was (Kubernetes'
/// `apiserver/pkg/admission/plugin/webhook`: "failed calling webhook").
pub fn is_for_want_of_a_webhook(message: &str) -> bool {
    message.contains("failed calling webhook")
}
