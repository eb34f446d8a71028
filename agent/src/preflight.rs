//! What the executor of a bundle lacks: asked before its objects are touched, so that all of it is named at once, and not verb by verb
//! as each one's turn comes.
//!
//! It decides nothing: every object is tried all the same, and says itself what it was refused.

use crate::apply::prune::policy;
use crate::apply::strategy::treatment;
use crate::error::{CallError, Fault};
use crate::executor::Account;
use crate::kinds::Kind;
use crate::object::ObjectKey;
use crate::reviews::{self, Need};
use kube::Client;
use roundhouse_api::bundle::{
    BundleSpec, EXECUTOR_PERMITTED, PropagationPolicy, ServiceAccountRef, UpdateStrategyType,
};
use roundhouse_api::condition::{Status, Verdict};
use std::collections::BTreeMap;
use std::time::Duration;

/// Most rights that are named.
const MAX: usize = 10;
/// What an executor does with what it applies, and takes away again.
const APPLIES: Verbs = &["get", "create", "patch", "delete"];
/// What it does with what stays when its bundle goes.
const ORPHANS: Verbs = &["get", "create", "patch"];
/// What it does with what is only looked at.
const READS: Verbs = &["get"];

/// Group, plural and namespace of objects (the namespace is empty for those that have none), and what is done with them.
pub(crate) type Resources = BTreeMap<(String, String, String), Verbs>;

/// The verbs that an executor needs. Of two sets the longer one has all of the other.
type Verbs = &'static [&'static str];

/// Adds what the executor of a bundle needs for one object, as the member names it.
pub(crate) fn need(resources: &mut Resources, spec: &BundleSpec, kind: &Kind, target: &ObjectKey) {
    let resource = &kind.resource;
    let place = (
        resource.group.clone(),
        resource.plural.clone(),
        target.namespace.clone(),
    );
    let verbs = verbs(spec, kind, target);
    let needed = resources.entry(place).or_insert(verbs);
    if needed.len() < verbs.len() {
        *needed = verbs;
    }
}

fn verbs(spec: &BundleSpec, kind: &Kind, target: &ObjectKey) -> Verbs {
    let strategy = treatment(&spec.manifest_configs, kind, target).type_;
    let stays = policy(spec.delete_option.as_ref(), kind, target) == Some(PropagationPolicy::Orphan);
    match (strategy, stays) {
        (UpdateStrategyType::ReadOnly, _) => READS,
        (_, true) => ORPHANS,
        (_, false) => APPLIES,
    }
}

/// Asks the member as the account.
///
/// # Errors
/// What passes by itself. A member that does not tell is an answer.
pub(crate) async fn ask(
    member: &Client,
    timeout: Duration,
    (account, named): (&Account, &ServiceAccountRef),
    resources: &Resources,
) -> Result<Verdict, CallError> {
    let needs = resources
        .iter()
        .flat_map(|((group, resource, namespace), verbs)| {
            verbs.iter().map(move |verb| Need {
                verb,
                group,
                resource,
                namespace,
                name: "",
            })
        });
    match reviews::missing(&account.client(member), timeout, needs.collect()).await {
        Ok(missing) => Ok(verdict(named, &missing)),
        Err(error) if matches!(error.fault(), Fault::Passing(_)) => Err(error),
        Err(error) => Ok(Verdict {
            type_: EXECUTOR_PERMITTED,
            status: Status::Unknown,
            reason: "NotTold",
            message: format!(
                "whether service account {}/{} has the rights it needs is not told: {}",
                named.namespace,
                named.name,
                error.message()
            ),
        }),
    }
}

fn verdict(named: &ServiceAccountRef, missing: &[Need<'_>]) -> Verdict {
    let (status, reason, message) = match missing {
        [] => (Status::True, "RightsGiven", String::new()),
        missing => {
            let mut words: Vec<String> = missing.iter().take(MAX).map(Need::words).collect();
            if let Some(more) = missing.len().checked_sub(MAX).filter(|more| *more > 0) {
                words.push(format!("{more} more"));
            }
            let account = format!("{}/{}", named.namespace, named.name);
            let message = format!("service account {account} lacks: {}", words.join(", "));
            (Status::False, "RightsMissing", message)
        }
    };
    Verdict {
        type_: EXECUTOR_PERMITTED,
        status,
        reason,
        message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::{ApiResource, GroupVersionKind};
    use roundhouse_api::bundle::{self, DeleteOption, ManifestConfig, ResourceIdentifier, UpdateStrategy};

    #[test]
    fn what_is_missing_is_named_up_to_a_bound() {
        let named = ServiceAccountRef {
            namespace: "team-a".to_owned(),
            name: "deployer".to_owned(),
        };
        assert_eq!(verdict(&named, &[]).status, Status::True);
        let need = Need {
            verb: "create",
            group: "apps",
            resource: "deployments",
            namespace: "team-a",
            name: "",
        };
        let one = verdict(&named, &[need]);
        assert_eq!(
            (one.status, one.message.as_str()),
            (
                Status::False,
                "service account team-a/deployer lacks: create deployments.apps in team-a"
            )
        );
        let many = verdict(&named, &[need; 13]);
        assert!(many.message.ends_with("in team-a, 3 more"), "{}", many.message);
        assert_eq!(verdict(&named, &[need; 10]).message.matches("create").count(), 10);
    }

    #[test]
    fn what_is_only_read_needs_no_right_to_write_and_what_stays_none_to_delete() {
        let kind = Kind {
            resource: ApiResource::from_gvk_with_plural(
                &GroupVersionKind::gvk("", "v1", "Secret"),
                "secrets",
            ),
            namespaced: true,
        };
        let identifier = |name: &str| ResourceIdentifier {
            resource: "secrets".to_owned(),
            namespace: "*".to_owned(),
            name: name.to_owned(),
            ..ResourceIdentifier::default()
        };
        let config = |name: &str, type_| ManifestConfig {
            resource_identifier: identifier(name),
            update_strategy: Some(UpdateStrategy {
                type_,
                ..UpdateStrategy::default()
            }),
            ..ManifestConfig::default()
        };
        let reads = config("a", UpdateStrategyType::ReadOnly);
        let updates = config("b", UpdateStrategyType::Update);
        use PropagationPolicy::{Foreground, Orphan, SelectivelyOrphan};
        for (configs, policy, of_a, of_b) in [
            (vec![], None, APPLIES, APPLIES),
            (vec![reads.clone()], None, READS, APPLIES),
            (vec![reads.clone(), updates], None, READS, APPLIES),
            (vec![reads], Some(Orphan), READS, ORPHANS),
            (vec![], Some(Foreground), APPLIES, APPLIES),
            (vec![], Some(Orphan), ORPHANS, ORPHANS),
            (vec![], Some(SelectivelyOrphan), APPLIES, ORPHANS),
        ] {
            let spec = BundleSpec {
                manifest_configs: configs,
                delete_option: policy.map(|policy| DeleteOption {
                    propagation_policy: Some(policy),
                    selectively_orphans: Some(bundle::SelectivelyOrphan {
                        orphaning_rules: vec![identifier("b")],
                    }),
                    ..DeleteOption::default()
                }),
                ..BundleSpec::default()
            };
            let secret = |name: &str| ObjectKey {
                kind: "Secret".to_owned(),
                namespace: "x".to_owned(),
                name: name.to_owned(),
                ..ObjectKey::default()
            };
            let (a, b) = (secret("a"), secret("b"));
            let got = (verbs(&spec, &kind, &a), verbs(&spec, &kind, &b));
            assert_eq!(got, (of_a, of_b), "{spec:?}");
            // Whichever comes first, a kind needs what any of its objects needs.
            for objects in [[&a, &b], [&b, &a]] {
                let mut resources = Resources::new();
                for object in objects {
                    need(&mut resources, &spec, &kind, object);
                }
                let most = if of_a.len() > of_b.len() { of_a } else { of_b };
                assert_eq!(resources.into_values().collect::<Vec<_>>(), [most]);
            }
        }
    }
}
