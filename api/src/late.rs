//! Requests that nobody answered: what they ask for may be done later.

use std::time::Duration;

/// How late a request may arrive: longer than anything between a client and its API server holds one back.
pub const ARRIVES_WITHIN: Duration = Duration::from_secs(600);

/// What an API server answers, with 500, when a webhook could not be asked; nothing is stored before (Kubernetes,
/// `apiserver/pkg/admission/plugin/webhook`).
const WEBHOOK: &str = "failed calling webhook";
/// What the embedded API server answers, with 503, when its store takes no writes, as with a full disk.
const STORE: &str = "the store refuses writes";

/// Whether an answer of this code and message is the word of who decides about a request: it was done, or never will be. Other
/// servers' errors may come from something on the way, behind which the request goes on.
pub fn is_decided(code: u16, message: &str) -> bool {
    code < 500 || message.contains(WEBHOOK) || message.contains(STORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_decides_is_told_from_who_stands_before() {
        for (code, message, decided) in [
            (200, "", true),
            (409, "Operation cannot be fulfilled", true),
            (429, "too many requests", true),
            (
                500,
                "Internal error occurred: failed calling webhook \"w\": refused",
                true,
            ),
            (503, "the store refuses writes: the disk is full", true),
            (500, "Internal error occurred", false),
            (502, "Bad Gateway", false),
            (503, "no healthy upstream", false),
            (
                504,
                "the server was unable to return a response in the time allotted",
                false,
            ),
        ] {
            assert_eq!(is_decided(code, message), decided, "{code} {message}");
        }
    }
}
