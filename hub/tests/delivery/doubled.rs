//! The same on a server that is started as a real one is.

use roundhouse_apiserver::envtest;
use std::path::Path;

#[test]
fn deliveries_are_the_same_on_a_server_that_is_started_as_a_real_one() {
    if envtest::assets().is_some() {
        return;
    }
    for test in [
        "seed::seventy_and_twenty_percent_of_ten",
        "once::a_rule_about_a_component_that_is_not_there_is_refused_by_name",
        "taking::an_object_that_is_gone_everywhere_leaves_the_application_healthy",
        "hostile::a_foreign_bundle_in_the_way_is_named_and_left_alone",
        "evidence::a_deployment_whose_deadline_is_exceeded_shows_in_the_application_with_its_reason",
    ] {
        let said = envtest::told_again(Path::new(env!("CARGO_BIN_EXE_roundhouse")), test, 0).unwrap();
        assert!(!said.contains("skipped"), "{test} was not on it: {said}");
    }
    // Who cannot is counted.
    let test = "quiet::waiting_writes_nothing";
    let said = envtest::told_again(Path::new(env!("CARGO_BIN_EXE_roundhouse")), test, 0).unwrap();
    let counted = "skipped with real API servers, and run on embedded ones as ever: 1 that";
    assert!(said.contains(counted), "{said}");
}
