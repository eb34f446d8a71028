//! What people read.

use super::{draw, heard, view::ClusterView};
use crate::{cli::format::Format, fleet::Load};
use jiff::Timestamp;
use kube::Client;
use roundhouse_api::cluster::Cluster;
use roundhouse_apiserver::{Identity, Server};
use serde_json::json;
use std::collections::BTreeMap;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

/// One that is well, one that is silent and cordoned, one that nobody has accepted.
fn views() -> Vec<ClusterView> {
    let condition = |type_: &str, status: &str, since: &str, message: &str| json!({"type": type_, "status": status, "reason": "R", "message": message, "lastTransitionTime": since});
    let clusters = json!([
        {"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "east-1", "labels": {"region": "east", "tier": "gold"}, "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"accepted": true},
            "status": {"conditions": [
                condition("Joined", "True", "2026-01-01T00:01:00Z", "the agent has reported"),
                condition("Available", "True", "2026-03-01T11:57:00Z", "the agent renews its Lease")],
                "kubernetesVersion": "v1.36.0", "agentVersion": "0.1.0", "lastSeen": "2026-03-01T11:57:00Z",
                "capacity": {"replicas": "40", "cpu": "8"}, "allocatable": {"cpu": "7500m"}}},
        {"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster",
            "metadata": {"name": "west-1", "labels": {"region": "west"}, "creationTimestamp": "2026-02-28T12:00:00Z"},
            "spec": {"accepted": true, "taints": [{"key": "roundhouse.dev/cordoned", "effect": "NoSchedule", "timeAdded": "2026-03-01T10:00:00Z"}]},
            "status": {"conditions": [
                condition("Joined", "True", "2026-02-28T12:01:00Z", "the agent has reported"),
                condition("Available", "Unknown", "2026-03-01T11:58:30Z", "the agent did not renew its Lease for 40 s")],
                "taints": [{"key": "roundhouse.dev/unreachable", "effect": "NoSchedule", "timeAdded": "2026-03-01T11:58:30Z"}]}},
        {"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "x-1"}, "spec": {}}]);
    let clusters: Vec<Cluster> = serde_json::from_value(clusters).unwrap();
    let load = |all: &[(&str, u64)]| {
        all.iter()
            .map(|(name, n)| ((*name).to_owned(), *n))
            .collect::<Load>()
    };
    let mut loads = BTreeMap::from([
        (
            "east-1".to_owned(),
            load(&[("default/shop", 3), ("default/web", 1_200)]),
        ),
        ("west-1".to_owned(), load(&[("default/web", 2)])),
    ]);
    let heard = BTreeMap::from([("east-1".to_owned(), "2026-03-01T11:59:50Z".parse().unwrap())]);
    clusters
        .iter()
        .map(|cluster| ClusterView::of(cluster, &mut loads, &heard))
        .collect()
}

#[test]
fn the_fleet() {
    let views = views();
    insta::assert_snapshot!("table", draw::list(&views, Format::Table, now()));
    insta::assert_snapshot!("wide", draw::list(&views, Format::Wide, now()));
    insta::assert_snapshot!("tree", draw::list(&views, Format::Tree, now()));
    assert_eq!(draw::list(&[], Format::Table, now()), "");
}

#[test]
fn one_cluster() {
    let views = views();
    insta::assert_snapshot!("detail", draw::detail(&views[1], now()));
    insta::assert_snapshot!("detail-well", draw::detail(&views[0], now()));
    insta::assert_snapshot!(
        "json",
        serde_json::to_string_pretty(&views[1].structured()).unwrap()
    );
}

#[test]
fn a_fleet_is_never_cut() {
    let one = views().remove(0);
    let views: Vec<ClusterView> = (0..1_000)
        .map(|n| ClusterView {
            name: format!("c{n:03}"),
            ..one.clone()
        })
        .collect();
    for format in [Format::Table, Format::Wide, Format::Tree] {
        let text = draw::list(&views, format, now());
        assert_eq!(text.lines().count(), 1_001, "{format:?}");
    }
}

#[test]
fn an_agent_that_waits_to_be_let_in_is_shown_also_where_one_was_before() {
    let of = |identity: serde_json::Value| {
        let cluster = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "c1"},
            "spec": {"accepted": true, "serial": 3, "joinUntil": "2026-03-01T13:00:00Z"}, "status": {"identity": identity}});
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        let view = ClusterView::of(&cluster, &mut BTreeMap::new(), &BTreeMap::new());
        let all = std::slice::from_ref(&view);
        let table = draw::list(all, Format::Table, now());
        let row = table.lines().nth(1).unwrap().split_whitespace().nth(2).unwrap();
        let tree = draw::list(all, Format::Tree, now());
        let detail = draw::detail(&view, now());
        let accepted = detail.lines().find(|line| line.starts_with("Accepted:")).unwrap();
        let accepted = accepted.trim_start_matches("Accepted:").trim().to_owned();
        (
            row.to_owned(),
            tree.contains("an agent waits to be let in"),
            accepted,
        )
    };
    assert_eq!(
        of(json!({"serial": 2, "observedSerial": 3, "user": "u", "waitingKey": "sha256:12"})),
        (
            "waits".to_owned(),
            true,
            "yes; an agent waits with key sha256:12: roundhouse accept c1".to_owned()
        )
    );
    assert_eq!(
        of(json!({"serial": 2, "observedSerial": 3, "method": "Token"})),
        (
            "waits".to_owned(),
            true,
            "yes; an agent waits: roundhouse accept c1".to_owned()
        )
    );
    assert_eq!(
        of(json!({"serial": 3, "observedSerial": 3, "method": "Token", "user": "u"})),
        ("yes".to_owned(), false, "yes".to_owned())
    );
}

#[test]
fn the_lease_says_when_an_agent_was_seen_and_the_status_only_of_one_that_is_silent() {
    let seen = |available: &str, status: Option<&str>, lease: Option<&str>| {
        let cluster = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster", "metadata": {"name": "c1"}, "spec": {},
            "status": {"lastSeen": status, "conditions": [{"type": "Available", "status": available, "reason": "R",
                "message": "", "lastTransitionTime": "2026-03-01T11:00:00Z"}]}});
        let cluster: Cluster = serde_json::from_value(cluster).unwrap();
        let heard = lease.map(|at| ("c1".to_owned(), at.parse().unwrap()));
        let view = ClusterView::of(&cluster, &mut BTreeMap::new(), &heard.into_iter().collect());
        let detail = draw::detail(&view, now());
        let row = detail.lines().find_map(|line| line.strip_prefix("Last seen:"));
        row.unwrap().trim().to_owned()
    };
    let (early, late) = (Some("2026-03-01T11:56:00Z"), Some("2026-03-01T11:59:57Z"));
    for (available, status, lease, expected) in [
        ("True", early, late, "3s"),
        ("True", early, None, "-"),
        ("True", None, late, "3s"),
        ("Unknown", early, None, "4m"),
        ("Unknown", None, early, "4m"),
        // The clock of the agent is late.
        ("Unknown", late, early, "3s"),
        ("Unknown", None, None, "-"),
    ] {
        assert_eq!(
            seen(available, status, lease),
            expected,
            "{available} {status:?} {lease:?}"
        );
    }
}

#[tokio::test]
async fn who_may_not_see_leases_sees_the_clusters_all_the_same() {
    let server = Server::builder().rbac().build();
    let jane = Identity::new("jane", ["system:authenticated"]);
    let client = Client::new(server.service_as(Some(jane)), "default");
    let refused = crate::cli::hub::heard(&client).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(answer) if answer.code == 403));
    assert_eq!(heard(&client).await.unwrap(), BTreeMap::new());
}
