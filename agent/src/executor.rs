//! The executor of a bundle: a service account of the member on whose behalf its objects are read and written.
//!
//! The agent impersonates it, so that the member's own rules decide (escalation checks of RBAC included) and nothing has
//! to be guessed beforehand. An account needs `get`, `create` and `patch` on what its bundle has, and `delete` unless all of
//! it stays when the bundle goes; the agent needs `impersonate` on service accounts. Discovery, watches and the ledger stay the agent's.

use http::HeaderValue;
use http::header::{HeaderMap, HeaderName};
use kube::Client;
use kube::client::Body;
use roundhouse_api::bundle::{Executor, ExecutorSubject, ExecutorType, ServiceAccountRef};

/// The header by which Kubernetes knows whom a request acts as. It adds the groups of a service account by itself, if no
/// group is named: the agent needs no right to impersonate groups.
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// The longest name of an object.
const MAX_NAME: usize = 253;
/// The longest name of a namespace.
const MAX_LABEL: usize = 63;

/// A service account, as a request names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Account(HeaderValue);

/// Why a bundle has no executor that can be used. Its objects are left alone: the agent's own rights are no substitute.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExecutorError {
    #[error("spec.executor names no service account: set spec.executor.subject.serviceAccount")]
    NoServiceAccount,
    #[error(
        "spec.executor.subject.serviceAccount.{field} is {value:?}, which names no service account: give the name of \
         one in this cluster"
    )]
    InvalidName { field: &'static str, value: String },
}

impl ExecutorError {
    /// The reason in a condition.
    pub(crate) fn reason(&self) -> &'static str {
        "InvalidExecutor"
    }
}

impl Account {
    /// The account of an executor.
    ///
    /// # Errors
    /// If it names none.
    pub(crate) fn of(executor: &Executor) -> Result<Account, ExecutorError> {
        let ExecutorSubject {
            type_: ExecutorType::ServiceAccount,
            service_account,
        } = &executor.subject;
        let account = service_account.as_ref().ok_or(ExecutorError::NoServiceAccount)?;
        let ServiceAccountRef { namespace, name } = account;
        let invalid = |field, value: &str| ExecutorError::InvalidName {
            field,
            value: value.to_owned(),
        };
        if !is_label(namespace) {
            return Err(invalid("namespace", namespace));
        }
        // A name with a colon would be taken for another user.
        if name.len() > MAX_NAME || !name.split('.').all(is_label_of_any_length) {
            return Err(invalid("name", name));
        }
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let value = HeaderValue::try_from(user).map_err(|_| invalid("name", name))?;
        Ok(Account(value))
    }

    /// A client that acts as the account.
    pub(crate) fn client(&self, client: &Client) -> Client {
        let (account, client) = (self.clone(), client.clone());
        let service = tower::service_fn(move |mut request: http::Request<Body>| {
            account.sign(request.headers_mut());
            let client = client.clone();
            async move { client.send(request).await }
        });
        Client::new(service, "default")
    }

    /// Makes a request act as the account.
    pub(crate) fn sign(&self, headers: &mut HeaderMap) {
        headers.insert(IMPERSONATE_USER, self.0.clone());
    }
}

/// The executor that names an account.
pub(crate) fn executor_of(account: ServiceAccountRef) -> Executor {
    Executor {
        subject: ExecutorSubject {
            type_: ExecutorType::ServiceAccount,
            service_account: Some(account),
        },
    }
}

fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_label_of_any_length(text)
}

/// Lower-case letters, digits and dashes, a dash neither first nor last (RFC 1123).
fn is_label_of_any_length(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.iter().all(|&byte| plain(byte) || byte == b'-')
        && bytes.first().is_some_and(|&byte| plain(byte))
        && bytes.last().is_some_and(|&byte| plain(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_api::bundle::BundleSpec;
    use serde_json::json;

    fn executor(namespace: &str, name: &str) -> Executor {
        executor_of(ServiceAccountRef {
            namespace: namespace.into(),
            name: name.into(),
        })
    }

    #[test]
    fn an_account_becomes_a_user() {
        let mut headers = HeaderMap::new();
        Account::of(&executor("team-a", "web.v1"))
            .unwrap()
            .sign(&mut headers);
        assert_eq!(headers["Impersonate-User"], "system:serviceaccount:team-a:web.v1");
        assert_eq!(headers.len(), 1);
    }

    #[test]
    fn what_names_no_account_is_refused() {
        let long = "a".repeat(64);
        for (namespace, name, field) in [
            ("", "web", "namespace"),
            ("team:kube-system", "web", "namespace"),
            ("Team", "web", "namespace"),
            ("-team", "web", "namespace"),
            (long.as_str(), "web", "namespace"),
            ("team", "", "name"),
            ("team", "a:b", "name"),
            ("team", "web\r\nImpersonate-Group: system:masters", "name"),
            ("team", "a..b", "name"),
            ("team", "web-", "name"),
        ] {
            match Account::of(&executor(namespace, name)) {
                Err(ExecutorError::InvalidName { field: got, .. }) => assert_eq!(got, field),
                other => panic!("{namespace:?} {name:?}: {other:?}"),
            }
        }
        assert_eq!(
            Account::of(&Executor::default()),
            Err(ExecutorError::NoServiceAccount)
        );
    }

    #[test]
    fn a_subject_of_an_unknown_type_does_not_parse() {
        let spec = |kind: &str| {
            let account = json!({"namespace": "team", "name": "web"});
            serde_json::from_value::<BundleSpec>(json!({"workload": {"manifests": []},
                "executor": {"subject": {"type": kind, "serviceAccount": account}}}))
        };
        assert!(spec("ServiceAccount").unwrap().executor.is_some());
        let error = spec("User").unwrap_err().to_string();
        assert!(error.contains("`User`, expected `ServiceAccount`"), "{error}");
    }
}
