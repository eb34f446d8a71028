use super::*;
use kube::api::PostParams;
use kube::api::{Patch, PatchParams};
use roundhouse_api::cluster::{Cluster, ClusterSpec};
use roundhouse_apiserver::Server;
use serde_json::Value;

const CLUSTERS: &str = "clusters.roundhouse.dev";
/// The fields of the spec of a Cluster.
const FIELDS: &str = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";

struct Installed {
    server: Server,
    client: Client,
    definitions: Api<CustomResourceDefinition>,
}

impl Installed {
    async fn new() -> Installed {
        let server = Server::builder().seed(1).strict().build();
        let client = Client::new(server.service(), "default");
        let installed = Installed {
            definitions: Api::all(client.clone()),
            server,
            client,
        };
        installed.again().await;
        installed
    }

    /// Installs as a hub of this version does.
    async fn again(&self) {
        install(&self.client, &HubOptions::default()).await.unwrap();
    }

    async fn change(&self, operations: Value) {
        let patch: Patch<Value> = Patch::Json(serde_json::from_value(operations).unwrap());
        self.definitions
            .patch(CLUSTERS, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn there(&self) -> Value {
        serde_json::to_value(self.definitions.get(CLUSTERS).await.unwrap()).unwrap()
    }
}

fn version(version: u32) -> Value {
    json!({"op": "add", "path": "/metadata/annotations/roundhouse.dev~1schema-version", "value": version.to_string()})
}

#[tokio::test(start_paused = true)]
async fn a_later_version_stays_and_keeps_what_is_stored_by_it() {
    let hub = Installed::new().await;
    let field = json!({"op": "add", "path": format!("{FIELDS}/colour"), "value": {"type": "string"}});
    hub.change(json!([version(crds::SCHEMA_VERSION + 1), field]))
        .await;
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    clusters
        .create(
            &PostParams::default(),
            &Cluster::new("c1", ClusterSpec::default()),
        )
        .await
        .unwrap();
    let painted = Patch::Merge(json!({"spec": {"colour": "red"}}));
    clusters
        .patch("c1", &PatchParams::default(), &painted)
        .await
        .unwrap();
    let (stored, before) = (hub.server.counter().total_stored(), hub.there().await);
    hub.again().await;
    assert_eq!(hub.server.counter().total_stored(), stored, "nothing is written");
    assert_eq!(hub.there().await, before);

    // What this hub says of itself it says there, too.
    let mut options = HubOptions::default();
    options.application.tenancy = crate::tenancy::Tenancy::Namespace;
    let raised = Patch::Merge(json!({"metadata": {"annotations": {annotation::SCHEMA_VERSION: "7"}}}));
    hub.definitions
        .patch(APPLICATIONS, &PatchParams::default(), &raised)
        .await
        .unwrap();
    install(&hub.client, &options).await.unwrap();
    let applications = hub.definitions.get(APPLICATIONS).await.unwrap();
    assert_eq!(applications.annotations()[annotation::TENANCY], "namespace");
    assert_eq!(crds::version_of(&applications.metadata), 7);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_version_is_replaced() {
    let hub = Installed::new().await;
    let wanted = hub.there().await;
    let gone = json!({"op": "remove", "path": format!("{FIELDS}/serial")});
    let extra = json!({"op": "add", "path": format!("{FIELDS}/colour"), "value": {"type": "string"}});
    let noted = json!({"op": "add", "path": "/metadata/labels/team", "value": "platform"});
    hub.change(json!([version(crds::SCHEMA_VERSION - 1), gone, extra, noted]))
        .await;
    hub.again().await;
    let there = hub.there().await;
    assert_eq!(there["spec"], wanted["spec"]);
    assert_eq!(
        there["metadata"]["annotations"],
        wanted["metadata"]["annotations"]
    );
    assert_eq!(
        there["metadata"]["labels"]["team"],
        json!("platform"),
        "others' labels stay"
    );
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_somebody_changed_is_put_back_whatever_its_annotations_say() {
    let hub = Installed::new().await;
    let wanted = hub.there().await;
    let pruned = json!({"op": "remove", "path": format!("{FIELDS}/joinUntil")});
    hub.change(json!([pruned])).await;
    assert_ne!(hub.there().await["spec"], wanted["spec"]);
    hub.again().await;
    assert_eq!(hub.there().await["spec"], wanted["spec"]);
}
