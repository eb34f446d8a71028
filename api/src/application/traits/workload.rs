//! Which object of a component traits change, and where its pod template is.

use serde_json::Value;

/// The field that holds a pod template, from the root of its object.
type TemplatePath = &'static [&'static str];

/// Where pod templates are: in most kinds, and in those that make Jobs.
const TEMPLATES: [TemplatePath; 2] = [
    &["spec", "template"],
    &["spec", "jobTemplate", "spec", "template"],
];

/// Where the pod template of this object is; `None` if it has none with containers.
pub fn pod_template(object: &Value) -> Option<&'static [&'static str]> {
    TEMPLATES.into_iter().find(|path| {
        let template = path.iter().try_fold(object, |at, field| at.get(field));
        let containers = template.and_then(|template| template.get("spec")?.get("containers")?.as_array());
        containers.is_some_and(|containers| !containers.is_empty())
    })
}

/// The places of the objects that have a pod template: the workload of a component is the only one.
///
/// # Errors
/// The places of all of them, where there is not exactly one.
pub fn workload_of(objects: &[Value]) -> Result<usize, Vec<usize>> {
    let with_pods = objects.iter().enumerate();
    let places: Vec<usize> = with_pods
        .filter(|(_, object)| pod_template(object).is_some())
        .map(|(place, _)| place)
        .collect();
    match places.as_slice() {
        [place] => Ok(*place),
        _ => Err(places),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_workload_is_the_only_object_with_a_pod_template() {
        let template = json!({"spec": {"containers": [{"name": "a"}]}});
        let deployment = json!({"kind": "Deployment", "spec": {"template": template}});
        let cron = json!({"kind": "CronJob", "spec": {"jobTemplate": {"spec": {"template": template}}}});
        let custom = json!({"apiVersion": "example.com/v1", "kind": "Game", "spec": {"template": template}});
        // A Pod is no template; neither is one without containers.
        let pod = json!({"kind": "Pod", "spec": {"containers": [{"name": "a"}]}});
        let empty = json!({"kind": "Deployment", "spec": {"template": {"spec": {"containers": []}}}});
        for (objects, expected) in [
            (vec![pod.clone(), deployment.clone()], Ok(1)),
            (vec![custom.clone()], Ok(0)),
            (vec![cron.clone()], Ok(0)),
            (vec![pod, empty, json!(null), json!([1])], Err(vec![])),
            (vec![deployment, json!({}), cron, custom], Err(vec![0, 2, 3])),
        ] {
            assert_eq!(workload_of(&objects), expected, "{objects:?}");
        }
    }
}
