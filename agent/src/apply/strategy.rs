//! Strategy: how one manifest is written, by OCM's `manifestConfigs`.

use crate::kinds::Kind;
use crate::object::ObjectKey;
use roundhouse_api::bundle::{ManifestConfig, ResourceIdentifier, UpdateStrategyType};

/// How one manifest is treated.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Treatment<'a> {
    /// The entry that matches, if one does.
    pub(crate) config: Option<&'a ManifestConfig>,
    /// How it is written.
    pub(crate) type_: UpdateStrategyType,
}

/// The treatment of an object: of the first entry that matches; `Update` if none does or it names no strategy.
pub(crate) fn treatment<'a>(configs: &'a [ManifestConfig], kind: &Kind, key: &ObjectKey) -> Treatment<'a> {
    let config = configs
        .iter()
        .find(|config| identifies(&config.resource_identifier, kind, key));
    let strategy = config.and_then(|config| config.update_strategy.as_ref());
    Treatment {
        config,
        type_: strategy.map_or(UpdateStrategyType::Update, |strategy| strategy.type_),
    }
}

/// Whether an identifier of OCM's shape names an object; `*` matches everything.
pub(crate) fn identifies(wanted: &ResourceIdentifier, kind: &Kind, key: &ObjectKey) -> bool {
    let fits = |pattern: &str, value: &str| pattern == "*" || pattern == value;
    fits(&wanted.group, &key.group)
        && fits(&wanted.resource, &kind.resource.plural)
        && fits(&wanted.namespace, &key.namespace)
        && fits(&wanted.name, &key.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::{ApiResource, GroupVersionKind};
    use roundhouse_api::bundle::UpdateStrategy;

    #[test]
    fn the_first_match_wins() {
        let config =
            |group: &str, resource: &str, name: &str, type_: Option<UpdateStrategyType>| ManifestConfig {
                resource_identifier: ResourceIdentifier {
                    group: group.into(),
                    resource: resource.into(),
                    namespace: "*".into(),
                    name: name.into(),
                },
                update_strategy: type_.map(|type_| UpdateStrategy {
                    type_,
                    ..UpdateStrategy::default()
                }),
                ..ManifestConfig::default()
            };
        let gvk = GroupVersionKind::gvk("apps", "v1", "Deployment");
        let kind = Kind {
            resource: ApiResource::from_gvk_with_plural(&gvk, "deployments"),
            namespaced: true,
        };
        let key = ObjectKey {
            group: "apps".into(),
            kind: "Deployment".into(),
            namespace: "x".into(),
            name: "a".into(),
        };
        use UpdateStrategyType::{CreateOnly, ReadOnly, Update};
        let exact = config("apps", "deployments", "a", Some(CreateOnly));
        let any = config("*", "*", "*", Some(ReadOnly));
        let other = config("", "configmaps", "a", Some(ReadOnly));
        let silent = config("apps", "deployments", "*", None);
        for (configs, expected) in [
            (vec![], Update),
            (vec![other.clone(), exact.clone(), any.clone()], CreateOnly),
            (vec![any, exact.clone()], ReadOnly),
            (vec![silent, exact], Update),
            (vec![other], Update),
        ] {
            assert_eq!(treatment(&configs, &kind, &key).type_, expected, "{configs:?}");
        }
    }
}
