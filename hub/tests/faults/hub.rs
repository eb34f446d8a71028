//! Faults of the hub and its disk: F1 to F9.

use crate::runs::good;
use roundhouse_hub::simulate::{
    HUB,
    fault::{Moment, When},
    run::{Act, Script, application},
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn fleet() -> Script {
    Script::of_regions(4, &["east", "west"]).with(application("web", 16, &[("east", "50%"), ("west", "50%")]))
}

#[test]
fn f01_a_hub_that_is_killed_in_the_middle_of_a_delivery_goes_on_where_it_was() {
    let outcomes = good(|seed| {
        let moment = Moment {
            nth: 1 + u32::try_from(seed % 40).unwrap(),
            when: if seed % 2 == 0 {
                When::BeforeRequest
            } else {
                When::BeforeAnswer
            },
            writes_only: true,
        };
        fleet().at(
            Duration::ZERO,
            Act::KillAt {
                who: HUB.to_owned(),
                moment,
                away: SECOND * 3,
            },
        )
    });
    for outcome in outcomes {
        assert!(outcome.converged_after.unwrap() < SECOND * 60, "{outcome}");
    }
}
