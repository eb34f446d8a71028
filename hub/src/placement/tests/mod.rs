//! Tests of placement as a whole.

mod cases;
mod choosing;
mod definition;
mod division;
mod fixture;
mod generate;
mod jobs;
mod known;
mod messages;
mod overriding;
mod past;
mod refusals;
mod room;
mod seen;
mod weighing;
mod whole;

use proptest::test_runner::Config;

pub(crate) use fixture::cluster;

/// How many cases a property test runs: 1,000, or 100,000 with `ROUNDHOUSE_LONG=1`.
pub(crate) fn runs() -> Config {
    let long = std::env::var("ROUNDHOUSE_LONG").is_ok_and(|value| value == "1");
    Config {
        cases: if long { 100_000 } else { 1_000 },
        failure_persistence: None,
        ..Config::default()
    }
}

/// Any request, owned: for those who explain it.
pub(crate) fn any_setting() -> impl proptest::strategy::Strategy<Value = crate::explain::Setting> {
    use proptest::strategy::Strategy;
    // Who types a rule's number in has to find it by that name.
    let scope = generate::Scope {
        names: false,
        overrides: false,
        ..generate::ALL
    };
    generate::any_case(scope).prop_map(|case| crate::explain::Setting {
        application: "default/shop".to_owned(),
        steps: case
            .steps
            .into_iter()
            .map(|(name, spec)| crate::explain::Step {
                name,
                spec,
                only: None,
            })
            .collect(),
        workloads: case.workloads,
        inventory: case.clusters.into_iter().collect(),
        previous: case.previous,
        now: case.now,
        ..crate::explain::Setting::default()
    })
}
