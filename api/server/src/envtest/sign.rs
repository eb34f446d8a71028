//! The signer of `kubernetes.io/kube-apiserver-client` where no controller manager runs.

use jiff::Timestamp;
use serde_json::Value;

use crate::{Authority, csr};

/// The status of an approved CertificateSigningRequest of signer `kubernetes.io/kube-apiserver-client` with its certificate,
/// or with the condition `Failed`, by the same rules as the embedded server signs by. `None` if there is nothing to sign: it
/// is of another signer, not approved, denied, or done.
pub fn signed_status(authority: &Authority, request: &Value, now: Timestamp) -> Option<Value> {
    if !csr::is_to_sign(request) {
        return None;
    }
    let (high, low) = uuid::Uuid::new_v4().as_u64_pair();
    let issued = csr::issue(authority, request, [high, low], now, |_| Ok(()));
    let mut request = request.clone();
    csr::conclude(&mut request, issued.map(|issued| issued.pem), now);
    request.get("status").cloned()
}
