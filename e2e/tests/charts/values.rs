//! Values, their schema, their comments and the templates say the same.

use crate::charts;
use anyhow::{Context, Result, ensure};
use roundhouse_api::cluster::LONGEST_CERTIFICATE;
use roundhouse_e2e::charts::{schema, values};
use serde_json::{Value, json};

/// Parts that are as Kubernetes has them, and are checked by the API server.
const AS_IN_KUBERNETES: [&str; 6] = [
    "affinity.nodeAffinity",
    "affinity.podAffinity",
    "affinity.podAntiAffinity",
    "networkPolicy.metricsFrom[].ipBlock",
    "networkPolicy.metricsFrom[].namespaceSelector",
    "networkPolicy.metricsFrom[].podSelector",
];

/// The schema of a value.
fn schema_of<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(schema, |at, key| {
        at["properties"]
            .get(key)
            .or_else(|| Some(&at["additionalProperties"]).filter(|of| of.is_object()))
    })
}

#[test]
fn every_value_has_a_comment_and_the_schema_says_the_same() -> Result<()> {
    for (chart, _) in charts()? {
        let name = &chart.metadata.name;
        let described = values::described(&chart.values_text);
        for one in &described {
            let schema =
                schema_of(&chart.schema, &one.path).with_context(|| format!("{name}: {}", one.path))?;
            assert_eq!(
                schema["description"],
                one.comment.as_str(),
                "{name}: {}",
                one.path
            );
        }
        for path in values::leaves(&chart.values).keys() {
            let has = described.iter().any(|one| values::is_within(path, &one.path));
            ensure!(has, "{name}: {path} has no comment in values.yaml");
            schema_of(&chart.schema, path).with_context(|| format!("{name}: {path} has no schema"))?;
        }
    }
    Ok(())
}

#[test]
fn schemas_are_closed_and_describe_everything() -> Result<()> {
    for (chart, _) in charts()? {
        let name = &chart.metadata.name;
        assert_eq!(
            chart.schema["$schema"], "http://json-schema.org/draft-07/schema#",
            "{name}"
        );
        for (path, schema) in schema::all(&chart.schema) {
            if schema["type"] == "object" {
                let open = AS_IN_KUBERNETES.contains(&path.as_str());
                let others = &schema["additionalProperties"];
                let closed = others == false || others.is_object();
                ensure!(closed != open, "{name}: {path}: additionalProperties {others}");
                ensure!(others != true || open, "{name}: {path} takes anything");
            }
            let is_part = path.ends_with("[]") || path.ends_with(".*") || path == "*";
            let described = schema["description"]
                .as_str()
                .is_some_and(|text| text.ends_with('.'));
            ensure!(described || is_part, "{name}: {path:?} is not described");
            if let Some(pattern) = schema["pattern"].as_str() {
                regex::Regex::new(pattern).with_context(|| format!("{name}: {path}"))?;
            }
        }
    }
    Ok(())
}

#[test]
fn every_value_is_used_and_every_value_that_is_used_is_there() -> Result<()> {
    for (chart, _) in charts()? {
        let name = &chart.metadata.name;
        let used = chart.templates.values();
        for path in values::leaves(&chart.values).keys() {
            let by = used.iter().any(|used| values::is_within(path, used));
            ensure!(by, "{name}: no template uses {path}");
        }
        for path in used {
            let pointer = format!("/{}", path.replace('.', "/"));
            ensure!(
                chart.values.pointer(&pointer).is_some(),
                "{name}: values.yaml has no {path}"
            );
        }
    }
    Ok(())
}

#[test]
fn every_value_is_set_by_the_values_that_turn_everything_on() -> Result<()> {
    for (chart, _) in charts()? {
        let name = &chart.metadata.name;
        let everything = values::merge(&chart.values, &chart.ci["everything"]);
        for (path, value) in values::leaves(&chart.values) {
            let pointer = format!("/{}", path.replace('.', "/"));
            // What is on, and safe, by default stays so; so does who turns off one thing for another.
            let kept = value == &json!(true)
                || value == &json!(false)
                || path.starts_with("securityContext")
                || path.starts_with("podSecurityContext")
                || path == "existingSecret";
            ensure!(
                kept || everything.pointer(&pointer) != Some(value),
                "{name}: ci/everything-values.yaml leaves {path} as it is"
            );
        }
        chart.render("all", &chart.ci["everything"])?;
    }
    Ok(())
}

#[test]
fn values_that_cannot_work_are_refused_by_name() -> Result<()> {
    let charts = charts()?;
    for (index, values, expected) in [
        (0, json!({"replica": 2}), "replica: there is no such value"),
        (0, json!({"replicas": "2"}), "replicas: \"2\" is not of type"),
        (0, json!({"tenancy": "opne"}), "tenancy: \"opne\" is not of enum"),
        (
            0,
            json!({"agentIdentity": "Token"}),
            "agentIdentity: \"Token\" is not of enum",
        ),
        (0, json!({"image": {"repository": "a:b"}}), "image.repository"),
        (
            0,
            json!({"metrics": {"port": 70_000}}),
            "metrics.port: 70000 is not of maximum",
        ),
        (0, json!({"metrics": {"address": "::"}}), "metrics.address"),
        (0, json!({"egressAllow": ["a\" b"]}), "egressAllow[0]"),
        (
            0,
            json!({"podSecurityContext": {"runAsUser": 0}}),
            "podSecurityContext.runAsUser: 0 is not of minimum",
        ),
        (
            0,
            json!({"nodeSelector": {"a": 1}}),
            "nodeSelector.a: 1 is not of type",
        ),
        (
            1,
            json!({"cluster": "East"}),
            "cluster: \"East\" is not of pattern",
        ),
        (
            1,
            json!({"applyOnceOnly": "maybe"}),
            "applyOnceOnly: \"maybe\" is not of enum",
        ),
        (1, json!({"invitation": "apiVersion: v1"}), "invitation"),
        (
            1,
            json!({"certificateLifetime": 60}),
            "certificateLifetime: 60 is not of minimum 600",
        ),
        // What a hub gives at the most.
        (
            1,
            json!({"certificateLifetime": LONGEST_CERTIFICATE.as_secs() + 1}),
            "certificateLifetime: 7776001 is not of maximum 7776000",
        ),
        (
            1,
            json!({"labels": ["region"]}),
            "labels[0]: \"region\" is not of pattern",
        ),
        (
            1,
            json!({"rights": {"rules": [{"apiGroups": [""]}]}}),
            "rights.rules[0]",
        ),
        (
            1,
            json!({"rights": {"mode": "admin"}}),
            "rights.mode: there is no such value",
        ),
    ] {
        let (chart, release) = &charts[index];
        let error = chart.render(release, &values).expect_err(&values.to_string());
        let text = format!("{error:#}");
        assert!(text.contains(expected), "{values}: {text}");
    }
    Ok(())
}

#[test]
fn apply_once_only_is_as_in_the_seed_and_booleans_are_on_and_off() -> Result<()> {
    let (chart, release) = &charts()?[1];
    for (value, expected) in [
        (json!("off"), "--apply-once-only=off"),
        (json!("on"), "--apply-once-only=on"),
        (json!("force"), "--apply-once-only=force"),
        (json!(true), "--apply-once-only=true"),
        (json!(false), "--apply-once-only=false"),
    ] {
        let objects = chart.objects(release, &json!({"applyOnceOnly": value}))?;
        let arguments = crate::strings(&crate::container(&objects)?["args"]);
        assert!(arguments.contains(&expected), "{arguments:?}");
    }
    Ok(())
}

#[test]
fn the_charts_are_of_the_version_of_the_workspace() -> Result<()> {
    for (chart, release) in charts()? {
        let metadata = &chart.metadata;
        assert_eq!(metadata.app_version, env!("CARGO_PKG_VERSION"));
        // ValidatingAdmissionPolicy, which the chart of the hub brings, is served from 1.30 on.
        let from = if release == "roundhouse" {
            ">=1.30.0-0"
        } else {
            ">=1.28.0-0"
        };
        assert_eq!(
            (metadata.api_version.as_str(), metadata.kube_version.as_str()),
            ("v2", from)
        );
        for (case, values) in chart.cases() {
            let files = chart.render(release, &values)?;
            let notes = files.iter().find(|(file, _)| file.ends_with("NOTES.txt"));
            let (_, notes) = notes.context("no NOTES.txt")?;
            let upgrade = "kubectl apply --server-side --force-conflicts -f charts/";
            assert!(
                notes.contains(upgrade) && notes.contains("roundhouse"),
                "{case}: {notes}"
            );
            let image = crate::container(&chart.objects(release, &values)?)?["image"].clone();
            let tag = values["image"]["tag"]
                .as_str()
                .unwrap_or(env!("CARGO_PKG_VERSION"));
            assert!(
                image
                    .as_str()
                    .is_some_and(|image| image.ends_with(&format!(":{tag}"))),
                "{image}"
            );
        }
    }
    Ok(())
}
