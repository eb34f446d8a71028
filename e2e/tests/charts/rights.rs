//! The Roles of the charts are the tables of the binaries.

use crate::charts;
use anyhow::{Context, Result};
use roundhouse_agent::rights::{ON_MEMBER, ON_OBJECTS};
use roundhouse_api::rights::{self, AGENT_ON_HUB, HANDED_OUT, Right, Scope};
use roundhouse_e2e::charts::{Chart, generated, object};
use roundhouse_hub::rights::ON_HUB;
use serde_json::{Value, json};

/// A chart, the name of its table, and the table.
const TABLES: [(usize, &str, &[Right]); 2] = [
    (0, "roundhouse_hub::rights::ON_HUB", ON_HUB),
    (1, "roundhouse_agent::rights::ON_MEMBER", ON_MEMBER),
];

fn template(chart: &Chart, constant: &str, table: &[Right]) -> Result<()> {
    let text = roundhouse_e2e::charts::rights::template(&chart.metadata.name, constant, table);
    generated::file(&chart.directory.join("templates/rights.yaml"), &text)
}

#[test]
fn the_roles_are_made_of_the_tables() -> Result<()> {
    let charts = charts()?;
    for (index, constant, table) in TABLES {
        template(&charts[index].0, constant, table)?;
    }
    Ok(())
}

#[test]
fn the_rendered_roles_give_exactly_the_rights_of_the_tables() -> Result<()> {
    let charts = charts()?;
    for (index, constant, table) in TABLES {
        let (chart, release) = &charts[index];
        let objects = chart.objects(release, &json!({}))?;
        let name = match index {
            0 => *release,
            _ => chart.metadata.name.as_str(),
        };
        for (scope, kind) in [(Scope::Cluster, "ClusterRole"), (Scope::Own, "Role")] {
            let expected = serde_json::to_value(rights::rules(table, scope))?;
            let role = objects
                .iter()
                .find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
            let rules = role.map_or(json!([]), |role| role["rules"].clone());
            assert_eq!(rules, expected, "{constant}, {kind} {name}");
        }
        let elsewhere = table.iter().find(|right| right.scope == Scope::OfCluster);
        assert_eq!(
            elsewhere, None,
            "{constant}: no chart makes Roles in namespaces of clusters"
        );
    }
    Ok(())
}

#[test]
fn a_right_that_is_added_to_a_table_or_taken_from_it_is_noticed() -> Result<()> {
    if generated::updating() {
        return Ok(());
    }
    let charts = charts()?;
    for (index, constant, table) in TABLES {
        let chart = &charts[index].0;
        assert!(template(chart, constant, &table[1..]).is_err());
        let mut more = table.to_vec();
        more.push(AGENT_ON_HUB[0]);
        more.last_mut().expect("one was pushed").scope = Scope::Cluster;
        assert!(template(chart, constant, &more).is_err());
    }
    Ok(())
}

/// What an agent asks of what bundles carry is noted and compared with the table where agents are tested.
#[test]
fn each_rule_on_what_bundles_carry_has_the_verbs_of_the_table() -> Result<()> {
    let (chart, release) = &charts()?[1];
    let objects = chart.objects(release, &json!({}))?;
    let rules = object(&objects, "ClusterRole", "-carried")?["rules"].clone();
    let rules = rules.as_array().context("no rules")?;
    assert!(!rules.is_empty());
    for rule in rules {
        assert_eq!(crate::strings(&rule["verbs"]), ON_OBJECTS.verbs, "{rule}");
    }
    Ok(())
}

/// Kubernetes refuses a Role that gives more than its maker has.
#[test]
fn the_hub_has_what_it_hands_out() {
    let lacking = |own: &[Right]| -> Vec<(&str, &str)> {
        let given = HANDED_OUT.into_iter().flatten();
        // Each verb may be of another rule.
        let single = given.flat_map(|right| {
            right
                .verbs
                .iter()
                .map(move |verb| (right, std::slice::from_ref(verb)))
        });
        let lacks = |(right, verbs): &(&Right, &'static [&'static str])| {
            let one = Right { verbs, ..**right };
            !own.iter().any(|own| own.covers(&one))
        };
        single
            .filter(lacks)
            .map(|(right, verbs)| (verbs[0], right.resource))
            .collect()
    };
    assert_eq!(lacking(ON_HUB), []);
    // Nothing that the hub has for this alone could be taken away.
    for (index, right) in ON_HUB.iter().enumerate() {
        if right.why.starts_with("handed out") {
            let without = [&ON_HUB[..index], &ON_HUB[index + 1..]].concat();
            assert_ne!(lacking(&without), [], "{}", right.resource);
        }
    }
}

#[test]
fn nothing_is_given_by_a_wildcard() -> Result<()> {
    for (chart, release) in &charts()? {
        for object in chart.objects(release, &json!({}))? {
            let rules = object["rules"].as_array();
            for rule in rules.into_iter().flatten() {
                assert!(
                    !rule.to_string().contains("\"*\""),
                    "{}: {rule}",
                    object["metadata"]["name"]
                );
            }
        }
    }
    let (chart, release) = &charts()?[1];
    let objects = chart.objects(release, &json!({"rights": {"executors": ["deployer"]}}))?;
    let rules = object(&objects, "ClusterRole", "-carried")?["rules"].clone();
    let impersonates = |rule: &&Value| crate::strings(&rule["verbs"]).contains(&"impersonate");
    let rules: Vec<&Value> = rules
        .as_array()
        .into_iter()
        .flatten()
        .filter(impersonates)
        .collect();
    assert_eq!(rules.len(), 1);
    assert_eq!(rules[0]["resourceNames"], json!(["deployer"]));
    Ok(())
}
