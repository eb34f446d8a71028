//! The token of an invitation: whether one can be given at all, and the token.

use crate::cli::{Failure, hub};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, Error, api::PostParams, core::Status};
use roundhouse_api::names::{ClusterName, JOIN_ACCOUNT};

/// Asks as [`given`] does, and has nothing given: the account that the token is to be of may not be there yet.
///
/// # Errors
/// None would be given: this user may not, or nobody gets one here.
pub(super) async fn tried(
    client: &Client,
    cluster: &ClusterName,
    ttl: SignedDuration,
) -> Result<(), Failure> {
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    // It is looked at before, too, until the hub has made it.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &cluster.namespace());
    let seen = accounts.get_opt(JOIN_ACCOUNT).await.map(drop);
    let tried = match seen {
        Ok(()) => accounts
            .create_token_request(JOIN_ACCOUNT, &dry, &request(ttl))
            .await
            .map(drop),
        refused => refused,
    };
    match tried {
        Err(error) if !is_of_what_is_not_there(&error) => {
            Err(refused(cluster, error).because("nothing was changed"))
        }
        _ => Ok(()),
    }
}

/// A token of the account that the hub has made, and until when it holds.
///
/// # Errors
/// None is given.
pub(super) async fn given(
    client: &Client,
    cluster: &ClusterName,
    ttl: SignedDuration,
) -> Result<(String, Timestamp), Failure> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &cluster.namespace());
    let given = accounts
        .create_token_request(JOIN_ACCOUNT, &PostParams::default(), &request(ttl))
        .await;
    let status = given
        .map_err(|error| refused(cluster, error))?
        .status
        .unwrap_or_default();
    match (status.token, status.expiration_timestamp) {
        (Some(token), Some(until)) => Ok((token, until.0)),
        _ => Err(none(cluster).because("the answer of the API server has no token")),
    }
}

fn request(ttl: SignedDuration) -> TokenRequest {
    TokenRequest {
        spec: Some(TokenRequestSpec {
            expiration_seconds: Some(ttl.as_secs()),
            ..TokenRequestSpec::default()
        }),
        ..TokenRequest::default()
    }
}

/// Whether it is the account, or its namespace, that is not found: an API server that serves no such request has no name to tell.
fn is_of_what_is_not_there(error: &Error) -> bool {
    let named = |status: &Status| {
        let details = status.details.as_ref();
        details.is_some_and(|details| !details.name.is_empty())
    };
    matches!(error, Error::Api(status) if status.code == 404 && named(status))
}

fn none(cluster: &ClusterName) -> Failure {
    Failure::new(
        "E-TOKEN",
        format!("no token is given to invite cluster {cluster} with"),
    )
}

fn refused(cluster: &ClusterName, error: Error) -> Failure {
    let code = match &error {
        Error::Api(status) => status.code,
        _ => 0,
    };
    let advice = match code {
        404 if !is_of_what_is_not_there(&error) => {
            "another hub: the hub gives no tokens of ServiceAccounts, as that of roundhouse demo, and no cluster can join it; roundhouse serve --embedded and Kubernetes give them".to_owned()
        }
        401 | 403 => format!(
            "kubectl auth can-i create serviceaccounts/{JOIN_ACCOUNT} --subresource=token -n {namespace} (and get serviceaccounts/{JOIN_ACCOUNT}) with the same kubeconfig",
            namespace = cluster.namespace()
        ),
        _ => "check that the API server of the hub is well".to_owned(),
    };
    hub::refused(none(cluster), error).advise(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_yet_is_told_from_what_is_not_served() {
        let answer = |code: u16, details: &str| {
            let status = format!(
                r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"m","reason":"NotFound","code":{code},"details":{details}}}"#
            );
            Error::Api(serde_json::from_str::<Status>(&status).unwrap().boxed())
        };
        let account = answer(404, r#"{"name":"roundhouse-join","kind":"serviceaccounts"}"#);
        let namespace = answer(404, r#"{"name":"cluster-c1","kind":"namespaces"}"#);
        for error in [account, namespace] {
            assert!(is_of_what_is_not_there(&error), "{error:?}");
        }
        for error in [
            answer(404, "{}"),
            answer(404, "null"),
            answer(403, r#"{"name":"roundhouse-join","kind":"serviceaccounts"}"#),
        ] {
            assert!(!is_of_what_is_not_there(&error), "{error:?}");
        }
    }
}
