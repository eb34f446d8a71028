//! What somebody may in a member, in its own words (`SelfSubjectRulesReview`), and where those are not all, right by right.

use crate::error::CallError;
use crate::member::within;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, ResourceRule, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
    SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use std::collections::BTreeSet;
use std::time::Duration;

/// Rules are asked for by namespace. In one that nobody has, only those of the whole cluster hold.
const NO_NAMESPACE: &str = "roundhouse-asks-for-no-namespace";

/// One verb on one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Need<'a> {
    pub(crate) verb: &'a str,
    /// Empty for core.
    pub(crate) group: &'a str,
    /// With its subresource behind a slash.
    pub(crate) resource: &'a str,
    /// Where; empty for the whole cluster.
    pub(crate) namespace: &'a str,
    /// The one object; empty for all.
    pub(crate) name: &'a str,
}

impl Need<'_> {
    /// As `create deployments.apps in team-a`.
    pub(crate) fn words(&self) -> String {
        let Need { group, resource, .. } = self;
        let dot = if group.is_empty() { "" } else { "." };
        let mut words = format!("{} {resource}{dot}{group}", self.verb);
        if !self.name.is_empty() {
            words = format!("{words} {}", self.name);
        }
        if !self.namespace.is_empty() {
            words = format!("{words} in {}", self.namespace);
        }
        words
    }

    /// Whether a rule grants it (Kubernetes' `RuleAllows`).
    fn is_granted(&self, rule: &ResourceRule) -> bool {
        let has = |list: &Option<Vec<String>>, wanted: &str| {
            list.iter().flatten().any(|given| given == wanted || given == "*")
        };
        let names = rule.resource_names.as_deref().unwrap_or_default();
        rule.verbs.iter().any(|verb| verb == self.verb || verb == "*")
            && has(&rule.api_groups, self.group)
            && has(&rule.resources, self.resource)
            && (names.is_empty() || names.iter().any(|name| name == self.name))
    }
}

/// Those that whoever `member` acts as has not.
///
/// # Errors
/// The member does not tell.
pub(crate) async fn missing<'a>(
    member: &Client,
    timeout: Duration,
    mut needs: Vec<Need<'a>>,
) -> Result<Vec<Need<'a>>, CallError> {
    let namespaces: BTreeSet<&str> = needs.iter().map(|need| need.namespace).collect();
    for namespace in namespaces {
        let Some(rules) = rules(member, timeout, namespace).await? else {
            // Other authorizers than RBAC have a say: each right is asked for.
            return refused(member, timeout, needs).await;
        };
        needs.retain(|need| need.namespace != namespace || !rules.iter().any(|rule| need.is_granted(rule)));
    }
    Ok(needs)
}

/// The rules that hold for who asks; `None` if those are not all that grants.
async fn rules(
    member: &Client,
    timeout: Duration,
    namespace: &str,
) -> Result<Option<Vec<ResourceRule>>, CallError> {
    let api: Api<SelfSubjectRulesReview> = Api::all(member.clone());
    let namespace = if namespace.is_empty() {
        NO_NAMESPACE
    } else {
        namespace
    };
    let review = SelfSubjectRulesReview {
        spec: SelfSubjectRulesReviewSpec {
            namespace: Some(namespace.to_owned()),
        },
        ..SelfSubjectRulesReview::default()
    };
    let answer = within(timeout, api.create(&PostParams::default(), &review)).await?;
    let status = answer.status.filter(|status| !status.incomplete);
    Ok(status.map(|status| status.resource_rules))
}

/// Those that are refused, each asked for.
async fn refused<'a>(
    member: &Client,
    timeout: Duration,
    needs: Vec<Need<'a>>,
) -> Result<Vec<Need<'a>>, CallError> {
    let api: Api<SelfSubjectAccessReview> = Api::all(member.clone());
    let mut refused = Vec::new();
    for need in needs {
        let (resource, subresource) = need.resource.split_once('/').unwrap_or((need.resource, ""));
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let attributes = ResourceAttributes {
            group: text(need.group),
            name: text(need.name),
            namespace: text(need.namespace),
            resource: text(resource),
            subresource: text(subresource),
            verb: text(need.verb),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let answer = within(timeout, api.create(&PostParams::default(), &review)).await?;
        if !answer.status.is_some_and(|status| status.allowed) {
            refused.push(need);
        }
    }
    Ok(refused)
}
