//! What the objects of a chart say of each other holds.

use crate::{Case, cases, charts, of_kind};
use anyhow::{Context, Result, ensure};
use roundhouse_e2e::charts::{NAMESPACE, object};
use serde_json::{Value, json};

/// Whether labels have everything that a selector asks for.
fn selects(selector: &Value, labels: &Value) -> bool {
    let wanted = selector.as_object().filter(|wanted| !wanted.is_empty());
    wanted.is_some_and(|wanted| wanted.iter().all(|(key, value)| labels.get(key) == Some(value)))
}

#[test]
fn objects_have_names_labels_and_the_namespace_of_the_release() -> Result<()> {
    for Case { name, objects } in cases()? {
        let mut seen = Vec::new();
        for object in &objects {
            let metadata = &object["metadata"];
            let id = format!("{} {}", object["kind"], metadata["name"]);
            ensure!(
                object["apiVersion"].is_string() && metadata["name"].is_string(),
                "{name}: {id}"
            );
            assert_eq!(
                metadata["labels"]["app.kubernetes.io/managed-by"], "Helm",
                "{name}: {id}"
            );
            let namespace = metadata.get("namespace");
            ensure!(
                namespace.is_none_or(|own| own == NAMESPACE),
                "{name}: {id} is in {namespace:?}"
            );
            ensure!(!seen.contains(&id), "{name}: {id} is there twice");
            seen.push(id);
        }
    }
    Ok(())
}

#[test]
fn everything_that_selects_pods_selects_those_of_the_deployment() -> Result<()> {
    for Case { name, objects } in cases()? {
        let deployment = of_kind(&objects, "Deployment").next().context("no Deployment")?;
        let pod = &deployment["spec"]["template"];
        let labels = &pod["metadata"]["labels"];
        let mut selectors = vec![&deployment["spec"]["selector"]["matchLabels"]];
        for object in &objects {
            match object["kind"].as_str() {
                Some("Service") => selectors.push(&object["spec"]["selector"]),
                Some("PodDisruptionBudget") => selectors.push(&object["spec"]["selector"]["matchLabels"]),
                Some("NetworkPolicy") => selectors.push(&object["spec"]["podSelector"]["matchLabels"]),
                _ => {}
            }
        }
        let constraints = pod["spec"]["topologySpreadConstraints"].as_array();
        selectors.extend(
            constraints
                .into_iter()
                .flatten()
                .map(|of| &of["labelSelector"]["matchLabels"]),
        );
        for selector in selectors {
            ensure!(
                selects(selector, labels),
                "{name}: {selector} does not select {labels}"
            );
            // A selector never changes, whatever the version is.
            ensure!(selector.get("helm.sh/chart").is_none(), "{name}: {selector}");
        }
        for monitor in of_kind(&objects, "ServiceMonitor") {
            let service = object(&objects, "Service", "")?;
            let endpoint = &monitor["spec"]["endpoints"][0];
            assert_eq!(endpoint["port"], service["spec"]["ports"][0]["name"], "{name}");
            let selector = &monitor["spec"]["selector"]["matchLabels"];
            ensure!(
                selects(selector, &service["metadata"]["labels"]),
                "{name}: {selector}"
            );
        }
    }
    Ok(())
}

#[test]
fn bindings_bind_roles_that_are_there_to_the_account_of_the_pods() -> Result<()> {
    for Case { name, objects } in cases()? {
        let deployment = of_kind(&objects, "Deployment").next().context("no Deployment")?;
        let account = &deployment["spec"]["template"]["spec"]["serviceAccountName"];
        object(&objects, "ServiceAccount", account.as_str().unwrap_or_default())?;
        let bindings = objects.iter().filter(|object| {
            object["kind"]
                .as_str()
                .is_some_and(|kind| kind.ends_with("RoleBinding"))
        });
        let mut count = 0;
        for binding in bindings {
            count += 1;
            let role = &binding["roleRef"];
            let is_there = of_kind(&objects, role["kind"].as_str().unwrap_or_default())
                .any(|object| object["metadata"]["name"] == role["name"]);
            ensure!(
                is_there || role["name"] == "cluster-admin",
                "{name}: {role} is not there"
            );
            let subject = json!([{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]);
            assert_eq!(binding["subjects"], subject, "{name}");
        }
        ensure!(count > 0, "{name}: nothing is bound");
    }
    Ok(())
}

#[test]
fn an_invitation_is_mounted_as_the_kubeconfig_that_it_is() -> Result<()> {
    let (chart, release) = &charts()?[1];
    let objects = chart.objects(release, &chart.ci["everything"])?;
    let secret = object(&objects, "Secret", "roundhouse-agent-invitation")?;
    // What `data` holds is base64, and so is an invitation.
    assert_eq!(secret["data"]["kubeconfig"], chart.ci["everything"]["invitation"]);
    let volume = |objects: &[Value]| -> Result<Value> {
        let pod = of_kind(objects, "Deployment").next().context("no Deployment")?;
        Ok(pod["spec"]["template"]["spec"]["volumes"][0]["secret"].clone())
    };
    assert_eq!(volume(&objects)?["secretName"], secret["metadata"]["name"]);
    let named = chart.objects(release, &chart.ci["minimal"])?;
    assert_eq!(
        volume(&named)?,
        json!({"secretName": "invitation", "optional": true})
    );
    assert!(object(&named, "Secret", "invitation").is_err());
    // The agent's own Secret is made empty: an upgrade leaves alone what it keeps there.
    let own = object(&named, "Secret", "roundhouse-agent-identity")?;
    assert!(own.get("data").is_none() && own.get("stringData").is_none());
    Ok(())
}

#[test]
fn bundles_are_kept_where_the_root_file_system_is_read_only_unless_they_are_not_to_be() -> Result<()> {
    let (chart, release) = &charts()?[1];
    let paths = |objects: &[Value]| -> Result<(Option<String>, Vec<Value>)> {
        let container = crate::container(objects)?;
        assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
        let flag = crate::strings(&container["args"])
            .into_iter()
            .find_map(|argument| argument.strip_prefix("--bundles-dir=").map(str::to_owned));
        let mounts = container["volumeMounts"].as_array().context("no mounts")?.iter();
        let writable = mounts.filter(|mount| mount["readOnly"] != true);
        Ok((flag, writable.cloned().collect()))
    };
    let objects = chart.objects(release, &json!({}))?;
    let (flag, writable) = paths(&objects)?;
    let [mount] = &writable[..] else {
        anyhow::bail!("{writable:?}");
    };
    assert_eq!(mount["mountPath"], flag.context("no --bundles-dir")?);
    let pod = of_kind(&objects, "Deployment").next().context("no Deployment")?;
    let volumes = pod["spec"]["template"]["spec"]["volumes"].as_array();
    let volume = volumes
        .into_iter()
        .flatten()
        .find(|one| one["name"] == mount["name"]);
    assert_eq!(volume.context("no volume")?["emptyDir"], json!({}));
    let objects = chart.objects(release, &json!({"keepBundles": false}))?;
    assert_eq!(paths(&objects)?, (None, vec![]));
    Ok(())
}

#[test]
fn a_cluster_is_named_by_its_value_or_else_by_the_release() -> Result<()> {
    let (chart, release) = &charts()?[1];
    for (values, expected) in [
        (json!({}), "--cluster=east-1"),
        (json!({"cluster": "west"}), "--cluster=west"),
    ] {
        let objects = chart.objects(release, &values)?;
        let arguments = crate::strings(&crate::container(&objects)?["args"]);
        assert!(arguments.contains(&expected), "{arguments:?}");
    }
    Ok(())
}
