//! Since when the request on the hub is known to be as it is.

use jiff::{SignedDuration, Timestamp};

/// Remembers one request, and what was seen of it first.
#[derive(Debug, Default)]
pub(super) struct Since(Option<(String, Timestamp)>);

impl Since {
    /// How long it is known that the request of this uid is so; the first look at it begins the time. A clock that was set back
    /// begins it anew.
    pub(super) fn known(&mut self, uid: &str, so: &str, now: Timestamp) -> SignedDuration {
        let what = format!("{uid} {so}");
        let lasted = match &self.0 {
            Some((known, at)) if *known == what => now.duration_since(*at),
            _ => SignedDuration::MIN,
        };
        if lasted.is_negative() {
            self.0 = Some((what, now));
        }
        lasted.max(SignedDuration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_has_its_own_time_and_so_has_what_is_seen_of_it() {
        let mut since = Since::default();
        for (uid, so, second, expected) in [
            ("a", "approved", 1000, 0),
            ("a", "approved", 1059, 59),
            ("a", "refused", 1060, 0),
            ("a", "refused", 1660, 600),
            ("b", "refused", 1661, 0),
            ("b", "refused", 1700, 39),
            // The clock was set back.
            ("b", "refused", 900, 0),
            ("b", "refused", 910, 10),
        ] {
            let known = since.known(uid, so, Timestamp::from_second(second).unwrap());
            assert_eq!(known, SignedDuration::from_secs(expected), "{uid} {so} {second}");
        }
    }
}
