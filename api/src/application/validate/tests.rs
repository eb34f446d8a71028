use super::*;
use serde_json::json;

#[test]
fn the_seeds_example_is_accepted_as_it_stands() {
    let spec = json!({
        "components": [{"name": "web", "type": "webservice", "properties": {"image": "nginx"}}],
        "workflow": {"steps": [{"type": "open-cluster-management", "properties": {"placement": [
            {"clusterSelector": {"region": "east"}, "replicas": "70%"},
            {"clusterSelector": {"region": "west"}, "replicas": "20%"}]}}]}
    });
    let application = validate(&spec).unwrap();
    assert_eq!(application.steps[0].name, "step-0");
}
