//! What is applied of several objects when one of them stops it.

use super::send::{Guard, Sender};
use crate::cli::{
    documents,
    proposals::{self, Proposed},
    snapshot::{ABSENT, state_of},
};
use k8s_openapi::{
    api::core::v1::Namespace, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::DeleteParams,
    core::{DynamicObject, ObjectMeta},
};
use roundhouse_apiserver::Server;
use std::path::Path;

/// A hub with the namespace `shop`.
async fn hub() -> Client {
    let client = Client::new(Server::builder().seed(1).build().service(), "shop");
    crate::run::install(&client, &crate::run::HubOptions::default())
        .await
        .unwrap();
    let namespace = Namespace {
        metadata: ObjectMeta {
            name: Some("shop".to_owned()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    };
    let namespaces: Api<Namespace> = Api::all(client.clone());
    namespaces.create(&Default::default(), &namespace).await.unwrap();
    client
}

fn placement(namespace: &str, name: &str) -> String {
    format!(
        "{{apiVersion: roundhouse.dev/v1alpha1, kind: Placement, metadata: {{namespace: {namespace}, name: {name}}}, spec: {{placement: [{{replicas: 50%}}]}}}}\n"
    )
}

fn proposed(texts: &[String]) -> Vec<Proposed> {
    let documents = documents::split("a.yaml", &texts.join("---\n")).unwrap();
    proposals::of_documents(documents, None).unwrap()
}

async fn there(client: &Client, proposed: &Proposed) -> Option<DynamicObject> {
    let api: Api<DynamicObject> =
        Api::namespaced_with(client.clone(), &proposed.namespace, &proposed.kind.resource());
    api.get_opt(&proposed.name).await.unwrap()
}

fn guard(before: &str) -> Option<Guard<'_>> {
    let file = Path::new("p.plan");
    Some(Guard { before, file })
}

#[tokio::test(start_paused = true)]
async fn a_plan_of_which_one_object_has_changed_is_not_begun() {
    let client = hub().await;
    let sender = Sender {
        client: &client,
        dry_run: false,
    };
    let both = proposed(&[placement("shop", "one"), placement("shop", "two")]);
    let [one, two] = both.as_slice() else {
        panic!("{both:?}")
    };
    sender.send_all(&[(two, None)]).await.unwrap();
    let was = state_of(&there(&client, two).await.unwrap());
    let stale = sender
        .send_all(&[(one, guard(ABSENT)), (two, guard(ABSENT))])
        .await;
    let stale = stale.unwrap_err();
    assert_eq!(
        stale.to_string(),
        "error: the plan p.plan does not hold any more; nothing was applied [E-STALE]\n\
         cause: Placement shop/two has changed\n\
         try:   roundhouse plan again, with --out p.plan, and look at what is different"
    );
    assert_eq!(stale.status(), 4);
    assert!(there(&client, one).await.is_none(), "nothing was applied");
    sender
        .send_all(&[(one, guard(ABSENT)), (two, guard(&was))])
        .await
        .unwrap();
    assert!(there(&client, one).await.is_some());
}

#[tokio::test(start_paused = true)]
async fn what_was_applied_before_a_failure_is_counted() {
    let client = hub().await;
    let sender = Sender {
        client: &client,
        dry_run: false,
    };
    let application = "{apiVersion: core.oam.dev/v1beta1, kind: Application, metadata: {namespace: shop, name: web}, spec: {\
        components: [{name: web, type: worker, properties: {image: a}}], \
        workflow: {steps: [{type: deploy, properties: {placement: [{replicas: 50%}]}}]}}}\n";
    let all = proposed(&[
        placement("shop", "one"),
        placement("shop", "two"),
        application.to_owned(),
    ]);
    let [one, two, application] = all.as_slice() else {
        panic!("{all:?}")
    };
    // It changes between the look at all of them and its own turn.
    let changed = sender
        .send_all(&[(one, guard(ABSENT)), (one, guard(ABSENT))])
        .await;
    let changed = changed.unwrap_err().to_string();
    assert!(
        changed.starts_with(
            "error: the plan p.plan does not hold any more; 1 of 2 objects was applied [E-STALE]\n"
        ),
        "{changed}"
    );
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions
        .delete("applications.core.oam.dev", &DeleteParams::default())
        .await
        .unwrap();
    let failure = sender
        .send_all(&[(one, None), (two, None), (application, None)])
        .await;
    let failure = failure.unwrap_err().to_string();
    assert!(
        failure.contains("[E-APPLY]\n") && failure.contains("\ncause: 2 of 3 objects were applied\ntry: "),
        "{failure}"
    );
    let failure = sender
        .send_all(&[(application, None)])
        .await
        .unwrap_err()
        .to_string();
    assert!(
        failure.contains("[E-APPLY]\n") && !failure.contains("applied\n"),
        "{failure}"
    );
}
