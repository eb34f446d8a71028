//! The path grammar of the Kubernetes API.

use crate::health::Endpoint;

/// A path below a group version.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ResourcePath {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) namespace: Option<String>,
    pub(crate) plural: String,
    pub(crate) name: Option<String>,
    pub(crate) subresource: Option<String>,
}

/// What a path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Path {
    /// `/healthz`, `/readyz/{check}`
    Health(Endpoint, Option<String>),
    /// `/metrics`
    Metrics,
    Version,
    /// `/`
    Root,
    /// `/api`
    Core,
    /// `/apis`
    Groups,
    /// `/apis/{group}`
    Group(String),
    /// `/api/v1`, `/apis/{group}/{version}`
    GroupVersion(String, String),
    OpenApiV2,
    /// `/openapi/v3`
    OpenApiIndex,
    /// `/openapi/v3/apis/{group}/{version}`
    OpenApi(String, String),
    Resource(ResourcePath),
}

impl Path {
    /// Reads a path; `None` if it names nothing.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<String> = path
            .split('/')
            .filter(|p| !p.is_empty())
            .map(super::query::percent_decode)
            .collect::<Option<_>>()?;
        let words: Vec<&str> = parts.iter().map(String::as_str).collect();
        let own = |s: &&str| (*s).to_owned();
        Some(match words.as_slice() {
            [] => Self::Root,
            ["metrics"] => Self::Metrics,
            [probe] if Endpoint::parse(probe).is_some() => Self::Health(Endpoint::parse(probe)?, None),
            [probe, check] if Endpoint::parse(probe).is_some() => {
                Self::Health(Endpoint::parse(probe)?, Some(own(check)))
            }
            ["version"] => Self::Version,
            ["api"] => Self::Core,
            ["apis"] => Self::Groups,
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApiIndex,
            ["openapi", "v3", "api", version] => Self::OpenApi(String::new(), own(version)),
            ["openapi", "v3", "apis", group, version] => Self::OpenApi(own(group), own(version)),
            ["api", version] => Self::GroupVersion(String::new(), own(version)),
            ["apis", group] => Self::Group(own(group)),
            ["apis", group, version] => Self::GroupVersion(own(group), own(version)),
            ["api", version, rest @ ..] => Self::Resource(resource("", version, rest)?),
            ["apis", group, version, rest @ ..] => Self::Resource(resource(group, version, rest)?),
            _ => return None,
        })
    }
}

fn resource(group: &str, version: &str, rest: &[&str]) -> Option<ResourcePath> {
    let (namespace, rest) = match rest {
        // `namespaces/{name}` alone, and its subresources, name the namespace itself.
        ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
        ["namespaces", namespace, rest @ ..] => (Some((*namespace).to_owned()), rest),
        rest => (None, rest),
    };
    let (plural, name, subresource) = match rest {
        [plural] => (plural, None, None),
        [plural, name] => (plural, Some(name), None),
        [plural, name, sub @ ..] => (plural, Some(name), Some(sub.join("/"))),
        [] => return None,
    };
    Some(ResourcePath {
        group: group.to_owned(),
        version: version.to_owned(),
        namespace,
        plural: (*plural).to_owned(),
        name: name.map(|s| (*s).to_owned()),
        subresource,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(path: &str) -> String {
        match Path::parse(path) {
            Some(Path::Resource(r)) => format!(
                "{}|{}|{}|{}|{}|{}",
                r.group,
                r.version,
                r.namespace.unwrap_or_default(),
                r.plural,
                r.name.unwrap_or_default(),
                r.subresource.unwrap_or_default()
            ),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn grammar() {
        let table = [
            ("/api/v1/pods", "|v1||pods||"),
            ("/api/v1/namespaces", "|v1||namespaces||"),
            ("/api/v1/namespaces/a", "|v1||namespaces|a|"),
            ("/api/v1/namespaces/a/status", "|v1||namespaces|a|status"),
            ("/api/v1/namespaces/a/pods", "|v1|a|pods||"),
            ("/api/v1/namespaces/a/pods/b", "|v1|a|pods|b|"),
            (
                "/apis/apps/v1/namespaces/a/deployments/b/scale",
                "apps|v1|a|deployments|b|scale",
            ),
            ("/apis/x.dev/v1/gadgets/g%3A1", "x.dev|v1||gadgets|g:1|"),
            ("/healthz/ping", "Some(Health(Healthz, Some(\"ping\")))"),
            ("/readyz", "Some(Health(Readyz, None))"),
            ("/readyz/a/b", "None"),
            ("/nope", "None"),
            ("/api/v1/pods/%zz", "None"),
        ];
        for (path, want) in table {
            assert_eq!(parsed(path), want, "{path}");
        }
    }

    proptest! {
        #[test]
        fn any_path_is_answered(path in "\\PC{0,60}|(/[a-z%0-9]{0,6}){0,9}") {
            let _ = Path::parse(&path);
        }
    }
}
