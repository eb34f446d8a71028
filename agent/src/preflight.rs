//! What the executor of a bundle lacks: asked before its objects are touched, so that all of it is named at once, and not verb by verb
//! as each one's turn comes.
//!
//! It decides nothing: every object is tried all the same, and says itself what it was refused.

use crate::error::{CallError, Fault};
use crate::executor::Account;
use crate::reviews::{self, Need};
use kube::Client;
use roundhouse_api::bundle::{
    BundleSpec, EXECUTOR_PERMITTED, ManifestConfig, PropagationPolicy, ServiceAccountRef, UpdateStrategyType,
};
use roundhouse_api::condition::{Status, Verdict};
use std::collections::BTreeSet;
use std::time::Duration;

/// Most rights that are named.
const MAX: usize = 10;
/// What an executor does with what it applies, and takes away again.
const APPLIES: &[&str] = &["get", "create", "patch", "delete"];
/// What it does with what stays when its bundle goes.
const ORPHANS: &[&str] = &["get", "create", "patch"];
/// What it does with what is only looked at.
const READS: &[&str] = &["get"];

/// Group, plural and namespace of objects; the namespace is empty for those that have none.
pub(crate) type Resources = BTreeSet<(String, String, String)>;

/// The verbs that the executor of a bundle needs.
pub(crate) fn verbs(spec: &BundleSpec) -> &'static [&'static str] {
    let only_read = |config: &ManifestConfig| {
        let strategy = config.update_strategy.as_ref();
        strategy.is_some_and(|strategy| strategy.type_ == UpdateStrategyType::ReadOnly)
    };
    let configs = &spec.manifest_configs;
    let orphans = spec
        .delete_option
        .as_ref()
        .is_some_and(|option| option.propagation_policy == Some(PropagationPolicy::Orphan));
    match (!configs.is_empty() && configs.iter().all(only_read), orphans) {
        (true, _) => READS,
        (false, true) => ORPHANS,
        (false, false) => APPLIES,
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
    verbs: &'static [&'static str],
) -> Result<Verdict, CallError> {
    let needs = resources.iter().flat_map(|(group, resource, namespace)| {
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
    use roundhouse_api::bundle::{DeleteOption, UpdateStrategy};

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
        let config = |type_| ManifestConfig {
            update_strategy: Some(UpdateStrategy {
                type_,
                ..UpdateStrategy::default()
            }),
            ..ManifestConfig::default()
        };
        let spec = |manifest_configs| BundleSpec {
            manifest_configs,
            ..BundleSpec::default()
        };
        assert_eq!(verbs(&spec(vec![])), APPLIES);
        assert_eq!(verbs(&spec(vec![config(UpdateStrategyType::ReadOnly)])), READS);
        let both = vec![
            config(UpdateStrategyType::ReadOnly),
            config(UpdateStrategyType::Update),
        ];
        assert_eq!(verbs(&spec(both)), APPLIES);
        for (propagation_policy, expected) in [
            (None, APPLIES),
            (Some(PropagationPolicy::Foreground), APPLIES),
            (Some(PropagationPolicy::SelectivelyOrphan), APPLIES),
            (Some(PropagationPolicy::Orphan), ORPHANS),
        ] {
            let spec = BundleSpec {
                delete_option: Some(DeleteOption {
                    propagation_policy,
                    ..DeleteOption::default()
                }),
                ..BundleSpec::default()
            };
            assert_eq!(verbs(&spec), expected, "{propagation_policy:?}");
        }
    }
}
