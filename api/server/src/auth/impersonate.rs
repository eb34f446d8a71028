//! Acting as somebody else: the `Impersonate-*` headers, read as Kubernetes' own filter reads them. Whoever asks needs
//! the verb `impersonate` on each user, service account, group and extra that the headers name; what is asked for is
//! then decided by the rights of the one impersonated.

use http::{HeaderMap, HeaderName};

use super::{Action, Attributes, Authorizer, Identity, denied};
use crate::{error::ApiError, names, request::percent_decode};

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";

/// Where uids and extras of users are rights to be given.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// Whom the headers of a request name, whether or not the sender may act as them.
pub(crate) fn asked_to_act_as(headers: &HeaderMap) -> Option<Identity> {
    let user = values(headers, USER).ok()?.into_iter().next()?;
    Some(Identity::new(user, values(headers, GROUP).unwrap_or_default()))
}

/// Whom a request acts as: whoever sent it, or the one its headers name.
///
/// # Errors
/// 403 if the sender may not impersonate, 500 (as in Kubernetes) if the headers name no user but something else, 400 if
/// they are no text.
pub(crate) fn effective(
    headers: &HeaderMap,
    sender: &Identity,
    authorizer: &dyn Authorizer,
) -> Result<Identity, ApiError> {
    let user = values(headers, USER)?.into_iter().next().unwrap_or_default();
    let groups = values(headers, GROUP)?;
    let uids = values(headers, UID)?;
    let extras = extras(headers)?;
    if user.is_empty() {
        if groups.is_empty() && uids.is_empty() && extras.is_empty() {
            return Ok(sender.clone());
        }
        return Err(ApiError::internal(
            "Internal error occurred: groups, extras or a uid are to be impersonated without a user: set Impersonate-User too",
        ));
    }
    let check = |attributes: Attributes<'_>| {
        let decision = authorizer.decide(sender, &Action::Resource(attributes));
        if decision.allowed {
            Ok(())
        } else {
            Err(denied(sender, &attributes, &decision.reason))
        }
    };
    let account = service_account(&user);
    check(match account {
        Some((namespace, name)) => subject("", "serviceaccounts", namespace, name),
        None => subject("", "users", "", &user),
    })?;
    for group in &groups {
        check(subject("", "groups", "", group))?;
    }
    for (key, value) in &extras {
        check(Attributes {
            subresource: key,
            ..subject(AUTHENTICATION, "userextras", "", value)
        })?;
    }
    for uid in &uids {
        check(subject(AUTHENTICATION, "uids", "", uid))?;
    }
    let groups = match account {
        Some((namespace, _)) if groups.is_empty() => vec![
            "system:serviceaccounts".to_owned(),
            format!("system:serviceaccounts:{namespace}"),
        ],
        _ => groups,
    };
    let mut identity = Identity::new(user, groups).with_everybody();
    identity.uid = uids.into_iter().next().unwrap_or_default();
    for (key, value) in extras {
        identity.extra.entry(key).or_default().push(value);
    }
    Ok(identity)
}

fn subject<'a>(group: &'a str, resource: &'a str, namespace: &'a str, name: &'a str) -> Attributes<'a> {
    Attributes {
        verb: "impersonate",
        group,
        resource,
        subresource: "",
        namespace,
        name,
    }
}

/// Namespace and name in the user name of a service account.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let valid = names::dns_label(namespace).is_empty() && names::dns_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

fn values(headers: &HeaderMap, name: &str) -> Result<Vec<String>, ApiError> {
    let texts = headers.get_all(name).iter().map(|value| match value.to_str() {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(ApiError::bad_request(format!("header {name} is no text"))),
    });
    texts.collect()
}

/// Keys and values of the extras; a key is percent-encoded in the name of its header.
fn extras(headers: &HeaderMap) -> Result<Vec<(String, String)>, ApiError> {
    let mut out = vec![];
    for name in headers.keys().map(HeaderName::as_str) {
        let Some(key) = name.strip_prefix(EXTRA) else {
            continue;
        };
        let key = percent_decode(key).unwrap_or_else(|| key.to_owned());
        out.extend(
            values(headers, name)?
                .into_iter()
                .map(|value| (key.clone(), value)),
        );
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use parking_lot::Mutex;

    use super::*;
    use crate::auth::identity::{ANONYMOUS, AUTHENTICATED, UNAUTHENTICATED};

    /// Writes down what is asked, and allows what does not name `secret`.
    #[derive(Default)]
    struct Asked(Mutex<Vec<String>>);

    impl Authorizer for Asked {
        fn allows(&self, identity: &Identity, a: &Attributes<'_>) -> bool {
            assert_eq!((identity.user.as_str(), a.verb), ("admin", "impersonate"));
            let text = format!(
                "{}|{}|{}|{}|{}",
                a.group, a.resource, a.subresource, a.namespace, a.name
            );
            self.0.lock().push(text);
            a.name != "secret"
        }
    }

    fn act(pairs: &[(&'static str, &str)]) -> (Result<Identity, ApiError>, Vec<String>) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let asked = Asked::default();
        let sender = Identity::new("admin", ["system:masters"]);
        let result = effective(&headers, &sender, &asked);
        (result, asked.0.into_inner())
    }

    #[test]
    fn who_is_acted_as_and_what_is_asked_for_it() {
        let sa = "system:serviceaccount:team:web";
        type Row<'a> = (
            &'a [(&'static str, &'a str)],
            &'a str,
            &'a [&'a str],
            &'a [&'a str],
        );
        let table: [Row<'_>; 8] = [
            (&[], "admin", &["system:masters"], &[]),
            (
                &[(USER, sa)],
                sa,
                &[
                    "system:serviceaccounts",
                    "system:serviceaccounts:team",
                    AUTHENTICATED,
                ],
                &["|serviceaccounts||team|web"],
            ),
            (
                &[(USER, sa), (GROUP, "a"), (GROUP, "b")],
                sa,
                &["a", "b", AUTHENTICATED],
                &["|serviceaccounts||team|web", "|groups|||a", "|groups|||b"],
            ),
            (&[(USER, "jane")], "jane", &[AUTHENTICATED], &["|users|||jane"]),
            (
                &[(USER, ANONYMOUS)],
                ANONYMOUS,
                &[UNAUTHENTICATED],
                &["|users|||system:anonymous"],
            ),
            (
                &[(USER, "jane"), (GROUP, AUTHENTICATED)],
                "jane",
                &[AUTHENTICATED],
                &["|users|||jane", "|groups|||system:authenticated"],
            ),
            // No service account is named like this, so it is a user of that name.
            (
                &[(USER, "system:serviceaccount:team:a:b")],
                "system:serviceaccount:team:a:b",
                &[AUTHENTICATED],
                &["|users|||system:serviceaccount:team:a:b"],
            ),
            (
                &[
                    (USER, "jane"),
                    ("impersonate-extra-example.com%2fscopes", "x"),
                    (UID, "7"),
                ],
                "jane",
                &[AUTHENTICATED],
                &[
                    "|users|||jane",
                    "authentication.k8s.io|userextras|example.com/scopes||x",
                    "authentication.k8s.io|uids|||7",
                ],
            ),
        ];
        for (headers, user, groups, questions) in table {
            let (result, asked) = act(headers);
            let mut who = result.unwrap();
            let named = |name: &str| headers.iter().any(|(h, _)| h.starts_with(name));
            assert_eq!((who.uid == "7", !who.uid.is_empty()), (named(UID), named(UID)));
            assert_eq!(
                who.extra.get("example.com/scopes"),
                named(EXTRA).then(|| vec!["x".to_owned()]).as_ref()
            );
            who.uid.clear();
            who.extra.clear();
            assert_eq!(who, Identity::new(user, groups.iter().copied()), "{headers:?}");
            assert_eq!(asked, questions, "{headers:?}");
        }
    }

    #[test]
    fn what_may_not_be() {
        let (refused, _) = act(&[(USER, "jane"), (GROUP, "secret")]);
        let refused = refused.unwrap_err();
        assert_eq!((refused.code, refused.reason), (403, "Forbidden"));
        assert_eq!(
            refused.message,
            "groups \"secret\" is forbidden: User \"admin\" cannot impersonate resource \"groups\" in API group \"\" at the cluster scope"
        );
        for header in [GROUP, UID, "impersonate-extra-a"] {
            let (refused, asked) = act(&[(header, "a")]);
            assert_eq!(refused.unwrap_err().code, 500, "{header}");
            assert_eq!(asked, Vec::<String>::new());
        }
    }
}
