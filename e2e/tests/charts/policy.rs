//! The expressions of the ValidatingAdmissionPolicy, evaluated.

use crate::charts;
use anyhow::{Context, Result};
use kube_cel::{AdmissionRequest, VapEvaluator, VapExpression};
use roundhouse_api::names::{AGENTS, AgentName, CLIENT_SIGNER, ClusterName, JOIN_ACCOUNT};
use roundhouse_e2e::charts::object;
use serde_json::{Value, json};

/// What a policy says to a request.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// The policy is not about it.
    NotAsked,
    Allowed,
    Refused,
}

fn policy() -> Result<Value> {
    let (chart, release) = &charts()?[0];
    let objects = chart.objects(release, &json!({}))?;
    object(&objects, "ValidatingAdmissionPolicy", "-requests").cloned()
}

fn judge(policy: &Value, user: &str, groups: &[&str], signer: &str, name: &str) -> Result<Verdict> {
    let request = AdmissionRequest {
        operation: "CREATE".to_owned(),
        username: user.to_owned(),
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        name: name.to_owned(),
        ..AdmissionRequest::default()
    };
    let evaluator = VapEvaluator::builder()
        .request(request)
        .object(json!({"metadata": {"name": name}, "spec": {"signerName": signer}}))
        .build();
    let spec = &policy["spec"];
    let variable = &spec["variables"][0];
    let variable = format!("variables.{}", variable["name"].as_str().context("no variable")?);
    let meant = spec["variables"][0]["expression"]
        .as_str()
        .context("no expression")?;
    let holds = |list: &Value| -> Result<bool> {
        let expressions = list.as_array().context("no list")?.iter().map(|of| {
            let text = of["expression"].as_str().unwrap_or_default();
            VapExpression {
                expression: text.replace(&variable, &format!("({meant})")),
                message: None,
                message_expression: None,
            }
        });
        let results = evaluator.evaluate(&expressions.collect::<Vec<_>>());
        assert!(!results.is_empty());
        Ok(results.iter().all(|result| result.passed))
    };
    Ok(match holds(&spec["matchConditions"])? {
        false => Verdict::NotAsked,
        true if holds(&spec["validations"])? => Verdict::Allowed,
        true => Verdict::Refused,
    })
}

#[test]
fn agents_and_invitations_ask_for_certificates_of_their_own_cluster_only() -> Result<()> {
    let policy = policy()?;
    let east = ClusterName::new("east-1")?;
    let agent = AgentName::new(east.clone(), 3).to_string();
    let invited = format!("system:serviceaccount:{}:{JOIN_ACCOUNT}", east.namespace());
    let own = AgentName::request(&east);
    let (agents, accounts) = (
        &[AGENTS, "system:authenticated"][..],
        &["system:serviceaccounts"][..],
    );
    let kubelet = "kubernetes.io/kube-apiserver-client-kubelet";
    use Verdict::{Allowed, NotAsked, Refused};
    for (user, groups, signer, name, expected) in [
        (agent.as_str(), agents, CLIENT_SIGNER, own.as_str(), Allowed),
        (invited.as_str(), accounts, CLIENT_SIGNER, &own, Allowed),
        // Another cluster's, a prefix of it, and what it is a prefix of.
        (&agent, agents, CLIENT_SIGNER, "roundhouse-agent-east-2", Refused),
        (&agent, agents, CLIENT_SIGNER, "roundhouse-agent-east-10", Refused),
        (&agent, agents, CLIENT_SIGNER, "roundhouse-agent-east", Refused),
        (
            &invited,
            accounts,
            CLIENT_SIGNER,
            "roundhouse-agent-east-2",
            Refused,
        ),
        (&invited, accounts, CLIENT_SIGNER, "x", Refused),
        // Other signers.
        (&agent, agents, kubelet, &own, Refused),
        (&invited, accounts, "kubernetes.io/kubelet-serving", &own, Refused),
        // Names that are no agent's, in the group or with the prefix.
        ("mallory", agents, CLIENT_SIGNER, &own, Refused),
        ("x:y:east-1", agents, CLIENT_SIGNER, &own, Refused),
        ("roundhouse:agent:east-1", &[], CLIENT_SIGNER, &own, Refused),
        ("roundhouse:agent:east-1:0", agents, CLIENT_SIGNER, &own, Refused),
        (
            "roundhouse:agent:east-1:3:4",
            agents,
            CLIENT_SIGNER,
            &own,
            Refused,
        ),
        // Nobody of ours.
        ("jane", &["system:masters"], kubelet, "anything", NotAsked),
        (
            "system:serviceaccount:default:roundhouse-join",
            accounts,
            kubelet,
            "anything",
            NotAsked,
        ),
        (
            "system:serviceaccount:cluster-east-1:default",
            accounts,
            kubelet,
            "anything",
            NotAsked,
        ),
    ] {
        let verdict = judge(&policy, user, groups, signer, name)?;
        assert_eq!(verdict, expected, "{user} {groups:?} asks {signer} as {name}");
    }
    Ok(())
}

#[test]
fn the_policy_is_about_requests_that_are_created_and_fails_closed() -> Result<()> {
    let policy = policy()?;
    let rule = &policy["spec"]["matchConstraints"]["resourceRules"][0];
    assert_eq!(rule["resources"], json!(["certificatesigningrequests"]));
    assert_eq!(rule["operations"], json!(["CREATE"]));
    assert_eq!(policy["spec"]["failurePolicy"], "Fail");
    let (chart, release) = &charts()?[0];
    let objects = chart.objects(release, &json!({}))?;
    let binding = object(&objects, "ValidatingAdmissionPolicyBinding", "-requests")?;
    assert_eq!(binding["spec"]["policyName"], policy["metadata"]["name"]);
    assert!(crate::strings(&binding["spec"]["validationActions"]).contains(&"Deny"));
    Ok(())
}
