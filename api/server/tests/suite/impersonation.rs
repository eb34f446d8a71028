//! Requests on behalf of somebody else.

use std::sync::Arc;

use crate::raw::Raw;
use roundhouse_apiserver::{Attributes, Authorizer, Identity, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WEB: &str = "system:serviceaccount:team:web";

/// The administrator may do everything, service accounts of `team` may read ConfigMaps, nobody else anything.
struct Readers;

impl Authorizer for Readers {
    fn allows(&self, identity: &Identity, a: &Attributes<'_>) -> bool {
        identity.in_group("system:masters")
            || (identity.in_group("system:serviceaccounts:team")
                && (a.verb, a.resource) == ("list", "configmaps"))
    }
}

#[tokio::test]
async fn the_rights_of_the_one_impersonated_decide() {
    let server = Server::builder().seed(1).authorizer(Arc::new(Readers)).build();
    let admin = Raw::new(&server);
    let as_web = [("Impersonate-User", WEB)];
    assert_eq!(admin.get_with(MAPS, &as_web).await.0, 200);
    let (code, status) = admin
        .get_with("/api/v1/namespaces/default/secrets", &as_web)
        .await;
    assert_eq!((code, status["reason"].as_str()), (403, Some("Forbidden")));
    assert_eq!(
        status["message"],
        "secrets is forbidden: User \"system:serviceaccount:team:web\" cannot list resource \"secrets\" in API group \"\" in the namespace \"default\""
    );
    // Groups that are named replace the account's own.
    let bare = [("Impersonate-User", WEB), ("Impersonate-Group", "others")];
    assert_eq!(admin.get_with(MAPS, &bare).await.0, 403);
    let nobody = [("Impersonate-Group", "system:masters")];
    assert_eq!(admin.get_with(MAPS, &nobody).await.0, 500);
}

#[tokio::test]
async fn who_may_not_impersonate_is_told() {
    let server = Server::builder().seed(1).build();
    let agent = Raw::as_somebody(&server, Some(Identity::agent("east")));
    let leases =
        "/apis/coordination.k8s.io/v1/namespaces/cluster-east/leases?fieldSelector=metadata.name%3Dagent";
    assert_eq!(agent.get(leases).await.0, 200);
    let (code, status) = agent.get_with(leases, &[("Impersonate-User", WEB)]).await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "serviceaccounts \"web\" is forbidden: User \"roundhouse:agent:east:1\" cannot impersonate resource \"serviceaccounts\" in API group \"\" in the namespace \"team\""
    );
    let (code, status) = agent
        .get_with("/apis", &[("Impersonate-User", "roundhouse:admin")])
        .await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "users \"roundhouse:admin\" is forbidden: User \"roundhouse:agent:east:1\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope"
    );
}
