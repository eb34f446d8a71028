//! What comes to one certificate, over a connection.

use super::*;

#[tokio::test]
async fn one_certificate_sees_one_clusters_objects() {
    let server = hub().await;
    let admin = Raw::new(&server);
    let now = system_clock()();
    let authority = Authority::generate(now).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = authority.server_config(&["127.0.0.1".to_owned()], now).unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(listener, server, tls, stop.clone()));
    let client = async |identity: &Identity| {
        let issued = authority.issue(identity, Duration::from_secs(600), now).unwrap();
        let text = Kubeconfig::new("t", &url, &authority, issued).to_string();
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &Default::default())
            .await
            .unwrap();
        kube::Client::try_from(config).unwrap()
    };
    // Each object says whose it is.
    let mark = |namespace: &str| format!("<of {namespace}>");
    let places = ["cluster-c1", "cluster-c10", "cluster-c1-x", "default"];
    let group = "/apis/roundhouse.dev/v1alpha1";
    for namespace in places {
        let report = namespace.trim_start_matches("cluster-");
        let marked = |name: &str, more: Value| {
            let mut object = json!({"metadata": {"name": name, "annotations": {"of": mark(namespace)}}});
            object
                .as_object_mut()
                .unwrap()
                .extend(more.as_object().unwrap().clone());
            object
        };
        let bundle = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
            "spec": {"workload": {"manifests": []}}});
        for (path, object) in [
            (
                format!("{group}/namespaces/{namespace}/bundles"),
                marked("n", bundle.clone()),
            ),
            (
                format!("{group}/namespaces/{namespace}/bundles"),
                marked("m", bundle),
            ),
            (
                format!("{group}/namespaces/{namespace}/clusterreports"),
                marked(
                    report,
                    json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "ClusterReport",
                    "spec": {"agentVersion": "1"}}),
                ),
            ),
            (
                format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"),
                marked("agent", json!({})),
            ),
            (
                format!("/api/v1/namespaces/{namespace}/secrets"),
                marked("n", json!({})),
            ),
        ] {
            let (code, answer) = admin.post(&path, object).await;
            assert_eq!(code, 201, "{path} {answer}");
        }
    }
    let (mut checked, mut seen) = (0, 0);
    for (cluster, sees) in [
        ("c1", Some("cluster-c1")),
        ("c10", Some("cluster-c10")),
        ("C1", None),
        ("c", None),
        ("", None),
    ] {
        let agent = client(&Identity::agent(cluster)).await;
        let named = format!("?fieldSelector=metadata.name%3D{cluster}");
        let own_lease = "?fieldSelector=metadata.name%3Dagent";
        for namespace in places {
            // With how many objects it sees there, if it may.
            for (plural, query, objects) in [
                ("bundles", "", 2),
                ("bundles", "?watch=true&timeoutSeconds=1", 2),
                ("bundles", "?fieldSelector=metadata.name%3Dn", 1),
                ("bundles", "?labelSelector=!none&limit=1", 1),
                ("bundles/n", "", 1),
                ("clusterreports", named.as_str(), 1),
                (
                    "clusterreports",
                    &format!("{named}&watch=true&timeoutSeconds=1"),
                    1,
                ),
                ("clusterreports", "", 0),
                ("leases", own_lease, 1),
                ("leases", &format!("{own_lease}&watch=true&timeoutSeconds=1"), 1),
                ("leases", "", 0),
                ("placements", "", 0),
                ("secrets", "", 0),
                ("secrets/n", "", 0),
            ] {
                let root = match plural {
                    "leases" => "/apis/coordination.k8s.io/v1",
                    "secrets" | "secrets/n" => "/api/v1",
                    _ => group,
                };
                let path = format!("{root}/namespaces/{namespace}/{plural}{query}");
                let request = Request::get(&path).body(vec![]).unwrap();
                let answer = tokio::time::timeout(Duration::from_secs(20), agent.request_text(request))
                    .await
                    .unwrap();
                let may = sees == Some(namespace) && objects > 0;
                match answer {
                    Ok(text) => {
                        assert!(may, "{cluster:?} {path} {text}");
                        assert_eq!(text.matches(&mark(namespace)).count(), objects, "{path} {text}");
                        assert_eq!(text.matches("<of ").count(), objects, "{path} {text}");
                        seen += objects;
                    }
                    Err(kube::Error::Api(status)) => {
                        assert_eq!((status.code, may), (403, false), "{cluster:?} {path}");
                        assert!(!status.message.contains("<of "));
                    }
                    Err(error) => panic!("{path} {error}"),
                }
                checked += 1;
            }
            // Nor across them all.
            for path in [
                format!("{group}/bundles"),
                "/apis/coordination.k8s.io/v1/leases".to_owned(),
            ] {
                let request = Request::get(&path).body(vec![]).unwrap();
                let answer = agent.request_text(request).await;
                assert!(matches!(answer, Err(kube::Error::Api(status)) if status.code == 403));
            }
        }
    }
    assert_eq!((checked, seen), (5 * 4 * 14, 2 * 11));
    raw::end(&stop, task).await;
}
