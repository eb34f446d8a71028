//! Which rights the agent lacks in its member: asked on the spot, so that somebody hears of it before a bundle fails.

use crate::config::Config;
use crate::error::{CallError, Fault};
use crate::reviews::{self, Need};
use crate::rights::ON_MEMBER;
use kube::Client;
use roundhouse_api::rights::Scope;

/// Most rights that are named.
const MAX: usize = 50;

/// What is known of the agent's rights.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    /// As `create deployments.apps`.
    pub(super) missing: Vec<String>,
    /// Why it is not known.
    pub(super) unknown: Option<String>,
}

/// What the agent needs, as it is configured.
fn needs(config: &Config) -> Vec<Need<'_>> {
    let mut needs = Vec::new();
    for right in ON_MEMBER {
        let (namespace, own) = match (right.scope, &config.identity_secret) {
            (Scope::Own, None) => continue,
            (Scope::Own, Some((namespace, name))) => (namespace.as_str(), name.as_str()),
            (Scope::Cluster | Scope::OfCluster, _) => ("", ""),
        };
        let name = match right.names.first() {
            Some(_) if !own.is_empty() => own,
            Some(name) => name,
            None => "",
        };
        needs.extend(right.verbs.iter().map(|verb| Need {
            verb,
            group: right.group,
            resource: right.resource,
            namespace,
            name,
        }));
    }
    needs
}

/// Asks the member.
///
/// # Errors
/// What passes by itself, or is no answer of a member to a review. A member that does not tell is an answer.
pub(super) async fn ask(member: &Client, config: &Config) -> Result<Known, CallError> {
    match reviews::missing(member, config.call_timeout, needs(config)).await {
        Ok(missing) => Ok(Known {
            missing: missing.iter().map(Need::words).take(MAX).collect(),
            unknown: None,
        }),
        Err(error) if matches!(error.fault(), Fault::Lasting(_)) || error.fault().is_404() => Ok(Known {
            missing: Vec::new(),
            unknown: Some(error.message()),
        }),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use parking_lot::Mutex;
    use roundhouse_api::names::ClusterName;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn config() -> Config {
        let mut config = Config::new(ClusterName::new("c1").unwrap());
        config.identity_secret = Some(("agents".to_owned(), "mine".to_owned()));
        config
    }

    /// A member that answers reviews so; and what was asked.
    fn member(answer: fn(&Value) -> (u16, Value)) -> (Client, Arc<Mutex<Vec<Value>>>) {
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let noted = Arc::clone(&asked);
        let service = tower::service_fn(move |request: Request<Body>| {
            let noted = Arc::clone(&noted);
            async move {
                let bytes = request.into_body().collect_bytes().await?;
                let review: Value = serde_json::from_slice(&bytes).map_err(kube::Error::SerdeError)?;
                noted.lock().push(review.clone());
                let (code, status) = answer(&review);
                let body = if code >= 400 {
                    status
                } else {
                    let mut answered = review;
                    answered["status"] = status;
                    answered
                };
                let body = Body::from(body.to_string().into_bytes());
                Ok::<_, kube::Error>(Response::builder().status(code).body(body).unwrap())
            }
        });
        (Client::new(service, "default"), asked)
    }

    fn rule(verbs: &[&str], group: &str, resource: &str, names: &[&str]) -> Value {
        json!({"verbs": verbs, "apiGroups": [group], "resources": [resource], "resourceNames": names})
    }

    #[tokio::test]
    async fn rules_tell_what_is_missing() {
        let (client, asked) = member(|review| {
            let rules = if review["spec"]["namespace"] == "agents" {
                // A Role of its own namespace counts there and nowhere else.
                vec![
                    rule(&["*"], "*", "nodes", &[]),
                    rule(&["get"], "", "secrets", &["mine", "other"]),
                    rule(&["patch"], "", "secrets", &["other"]),
                    rule(&["create"], "", "secrets", &["mine"]),
                ]
            } else {
                vec![
                    rule(&["*"], "roundhouse.dev", "*", &[]),
                    rule(
                        &["create", "get", "list", "watch"],
                        "apiextensions.k8s.io",
                        "customresourcedefinitions",
                        &[],
                    ),
                ]
            };
            (
                201,
                json!({"resourceRules": rules, "nonResourceRules": [], "incomplete": false}),
            )
        });
        let known = ask(&client, &config()).await.unwrap();
        let expected = [
            "patch customresourcedefinitions.apiextensions.k8s.io appliedbundles.roundhouse.dev",
            "list nodes",
            "create secrets in agents",
            "patch secrets mine in agents",
        ];
        assert_eq!(
            (known.missing, known.unknown),
            (expected.map(str::to_owned).to_vec(), None)
        );
        assert_eq!(asked.lock().len(), 2);
    }

    #[tokio::test]
    async fn where_rules_are_not_all_each_right_is_asked_for() {
        let (client, asked) = member(|review| {
            if review["kind"] == "SelfSubjectRulesReview" {
                return (
                    201,
                    json!({"resourceRules": [], "nonResourceRules": [], "incomplete": true}),
                );
            }
            let attributes = &review["spec"]["resourceAttributes"];
            let refused = attributes["resource"] == "nodes" || attributes["namespace"] == "agents";
            (201, json!({"allowed": !refused}))
        });
        let known = ask(&client, &config()).await.unwrap();
        let expected = [
            "list nodes",
            "create secrets in agents",
            "get secrets mine in agents",
            "patch secrets mine in agents",
        ];
        assert_eq!(
            (known.missing, known.unknown),
            (expected.map(str::to_owned).to_vec(), None)
        );
        let verbs: usize = ON_MEMBER.iter().map(|right| right.verbs.len()).sum();
        assert_eq!(asked.lock().len(), 1 + verbs);
    }

    #[tokio::test]
    async fn a_member_that_does_not_tell_makes_no_right_missing() {
        let (client, _) = member(|_| {
            (
                403,
                json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden",
                "message": "no reviews here"}),
            )
        });
        let known = ask(&client, &config()).await.unwrap();
        assert_eq!(
            (known.missing, known.unknown),
            (vec![], Some("no reviews here".to_owned()))
        );
    }

    #[test]
    fn an_agent_without_a_secret_needs_none() {
        let config = Config {
            identity_secret: None,
            ..config()
        };
        assert!(needs(&config).iter().all(|need| need.resource != "secrets"));
        assert!(needs(&config).iter().map(Need::words).count() <= MAX);
    }
}
