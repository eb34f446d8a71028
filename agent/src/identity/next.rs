//! What is to be done about an identity, given what there is. Pure.

use super::invitation::Invitation;
use super::stored::{Identity, Voucher};
use jiff::{SignedDuration, Timestamp};

/// The part of its life after which a credential is renewed, at the earliest and at the latest. The fleet does not come all at
/// once, and enough time is left to try again (as kubelets do, at 70 to 90 percent: KEP-266).
const RENEWED: (f64, f64) = (0.7, 0.8);

/// What to do.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Next<'a> {
    /// Nothing before then.
    Rest(Timestamp),
    /// To ask for a credential.
    Ask(Voucher<'a>),
    /// Nothing that the agent could do.
    Stuck(Stuck),
}

/// Why an agent cannot go on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Stuck {
    #[error("this agent has no identity and no invitation")]
    Uninvited,
    #[error("the identity of this agent expired at {0}")]
    Expired(Timestamp),
}

/// Decides. `spent` says that the hub does not know the invitation: then an identity that is still good goes first. `draw` is
/// from 0 to 1, and the same for the whole life of a credential.
pub(crate) fn next<'a>(
    identity: Option<&'a Identity>,
    invitation: Option<&'a Invitation>,
    spent: bool,
    now: Timestamp,
    draw: f64,
) -> Next<'a> {
    match (identity, invitation) {
        (None, None) => Next::Stuck(Stuck::Uninvited),
        (None, Some(invitation)) => Next::Ask(Voucher::Invitation(invitation)),
        (Some(identity), Some(invitation)) if now >= identity.until => {
            Next::Ask(Voucher::Invitation(invitation))
        }
        (Some(identity), None) if now >= identity.until => Next::Stuck(Stuck::Expired(identity.until)),
        (Some(identity), Some(invitation)) if invitation.terms.serial > identity.serial && !spent => {
            Next::Ask(Voucher::Invitation(invitation))
        }
        (Some(identity), _) => {
            let due = renewal(identity.from, identity.until, draw);
            if now < due {
                Next::Rest(due)
            } else {
                Next::Ask(Voucher::Identity(identity))
            }
        }
    }
}

/// When a credential that is good from `from` until `until` is renewed.
pub(crate) fn renewal(from: Timestamp, until: Timestamp, draw: f64) -> Timestamp {
    let (least, most) = RENEWED;
    let part = least + (most - least) * draw.clamp(0.0, 1.0);
    let life = until.duration_since(from).max(SignedDuration::ZERO);
    from.checked_add(life.mul_f64(part)).unwrap_or(until)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::invitation::{Method, tests::invitation};
    use crate::identity::tests::identity;
    use proptest::prelude::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// An identity of serial 2, good from 0 to 1000 seconds.
    fn held() -> Identity {
        Identity {
            serial: 2,
            from: at(0),
            until: at(1000),
            ..identity()
        }
    }

    fn words(next: Next<'_>) -> String {
        match next {
            Next::Rest(until) => format!("rest until {}", until.as_second()),
            Next::Ask(Voucher::Invitation(invitation)) => format!("join as {}", invitation.terms.serial),
            Next::Ask(Voucher::Identity(identity)) => format!("renew {}", identity.serial),
            Next::Stuck(stuck) => stuck.to_string(),
        }
    }

    #[test]
    fn what_is_there_decides_what_is_done() {
        let expired = "the identity of this agent expired at 1970-01-01T00:16:40Z";
        for (has_identity, invited, spent, now, expected) in [
            (
                false,
                None,
                false,
                0,
                "this agent has no identity and no invitation",
            ),
            (false, Some(1), false, 0, "join as 1"),
            // It may be that only its answer was lost.
            (false, Some(1), true, 0, "join as 1"),
            (true, None, false, 0, "rest until 750"),
            (true, None, false, 749, "rest until 750"),
            (true, None, false, 750, "renew 2"),
            (true, None, false, 999, "renew 2"),
            (true, None, false, 1000, expired),
            // The invitation that this identity came of, and one before it.
            (true, Some(2), false, 0, "rest until 750"),
            (true, Some(1), false, 800, "renew 2"),
            (true, Some(2), false, 1000, "join as 2"),
            // Joined again.
            (true, Some(3), false, 0, "join as 3"),
            (true, Some(3), false, 800, "join as 3"),
            (true, Some(3), true, 0, "rest until 750"),
            (true, Some(3), true, 800, "renew 2"),
            (true, Some(3), true, 1000, "join as 3"),
        ] {
            let identity = has_identity.then(held);
            let invitation = invited.map(|serial| invitation(serial, Method::Certificate));
            let next = next(identity.as_ref(), invitation.as_ref(), spent, at(now), 0.5);
            assert_eq!(words(next), expected, "{has_identity} {invited:?} {spent} {now}");
        }
    }

    proptest! {
        #[test]
        fn a_renewal_is_due_at_70_to_80_percent_of_a_life(
            from in -1_000_000_000_i64..4_000_000_000,
            life in 1_i64..1_000_000_000,
            draw in 0.0..1.0_f64,
        ) {
            let due = renewal(at(from), at(from + life), draw).duration_since(at(from)).as_secs_f64();
            let whole = life as f64;
            prop_assert!(due >= 0.7 * whole - 1e-3 && due <= 0.8 * whole + 1e-3, "{due} of {whole}");
        }

        #[test]
        fn a_later_draw_is_never_an_earlier_renewal(life in 1_i64..1_000_000, a in 0.0..1.0_f64, b in 0.0..1.0_f64) {
            let due = |draw| renewal(at(0), at(life), draw);
            prop_assert!(due(a.min(b)) <= due(a.max(b)));
        }

        #[test]
        fn an_identity_that_is_good_never_leaves_an_agent_stuck(
            now in 0_i64..1000, serial in proptest::option::of(1_u32..5), spent: bool, draw in 0.0..1.0_f64,
        ) {
            let (identity, invitation) = (held(), serial.map(|serial| invitation(serial, Method::Token)));
            let next = next(Some(&identity), invitation.as_ref(), spent, at(now), draw);
            let stuck = matches!(next, Next::Stuck(_));
            prop_assert!(!stuck);
            if let Next::Rest(until) = next {
                prop_assert!(until > at(now) && until < identity.until);
            }
        }
    }

    #[test]
    fn a_life_that_ends_before_it_begins_is_due_at_once() {
        assert_eq!(renewal(at(10), at(5), 0.5), at(10));
    }
}
