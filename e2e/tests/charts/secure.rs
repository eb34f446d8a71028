//! Pods are as restricted as Kubernetes can be told, and people's roles do not reach what is the hub's and the agents'.

use crate::{Case, cases, charts, container, of_kind};
use anyhow::{Context, Result, ensure};
use roundhouse_e2e::charts::object;
use serde_json::json;

#[test]
fn pods_keep_to_the_restricted_pod_security_standard() -> Result<()> {
    for Case { name, objects } in cases()? {
        let deployment = of_kind(&objects, "Deployment").next().context("no Deployment")?;
        let pod = &deployment["spec"]["template"]["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true, "{name}");
        assert_eq!(
            pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault",
            "{name}"
        );
        let expected = json!({
            "allowPrivilegeEscalation": false,
            "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        });
        assert_eq!(container(&objects)?["securityContext"], expected, "{name}");
        for forbidden in ["hostNetwork", "hostPID", "hostIPC"] {
            ensure!(pod.get(forbidden).is_none(), "{name}: {forbidden}");
        }
        assert_eq!(pod["containers"].as_array().map(Vec::len), Some(1), "{name}");
    }
    Ok(())
}

#[test]
fn people_who_edit_cannot_write_bundles_or_clusters_and_people_who_view_read_no_bundles() -> Result<()> {
    let (chart, release) = &charts()?[0];
    let objects = chart.objects(release, &json!({}))?;
    let mut labels = 0;
    for (suffix, reads_only) in [("-view", true), ("-edit", false)] {
        let role = object(&objects, "ClusterRole", suffix)?;
        let all = role["metadata"]["labels"].as_object().context("no labels")?;
        labels += all.keys().filter(|key| key.contains("/aggregate-to-")).count();
        for rule in role["rules"].as_array().context("no rules")? {
            let resources = crate::strings(&rule["resources"]);
            let verbs = crate::strings(&rule["verbs"]);
            let reads = verbs.iter().all(|verb| ["get", "list", "watch"].contains(verb));
            ensure!(!reads_only || reads, "{suffix}: {rule}");
            for resource in resources {
                let name = resource.split('/').next().unwrap_or_default();
                ensure!(
                    !["*", "bundles", "clusterreports"].contains(&name),
                    "{suffix}: {rule}"
                );
                ensure!(
                    reads || !["clusters", "decisions", "applicationrevisions"].contains(&name),
                    "{rule}"
                );
            }
        }
    }
    assert_eq!(labels, 5, "view flows into edit and admin, edit into admin");
    Ok(())
}

#[test]
fn an_agent_is_no_administrator_unless_it_is_told_so() -> Result<()> {
    let (chart, release) = &charts()?[1];
    for (values, admin) in chart
        .cases()
        .values()
        .map(|values| (values, values["rights"]["admin"] == true))
    {
        let objects = chart.objects(release, values)?;
        let bound = of_kind(&objects, "ClusterRoleBinding")
            .any(|binding| binding["roleRef"]["name"] == "cluster-admin");
        assert_eq!(bound, admin, "{values}");
    }
    // Nothing at all is a Role without rules, too.
    let none = json!({"rights": {"rules": [], "executors": []}});
    let objects = chart.objects(release, &none)?;
    let role = object(&objects, "ClusterRole", "-carried")?;
    assert!(role["rules"].is_null(), "{role:#}");
    Ok(())
}
