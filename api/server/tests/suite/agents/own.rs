//! What is an agent's own, and for how long.

use super::*;

#[tokio::test]
async fn an_agent_keeps_its_own_lease_and_report_and_no_others() {
    let server = hub().await;
    let agent = Raw::as_somebody(&server, Some(Identity::agent("c1")));
    let leases = "/apis/coordination.k8s.io/v1/namespaces/cluster-c1/leases".to_owned();
    let reports = "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-c1/clusterreports".to_owned();
    let apply = "application/apply-patch+yaml";
    for (path, own, api_version, kind, spec, large) in [
        (
            &leases,
            roundhouse_api::names::AGENT_LEASE,
            "coordination.k8s.io/v1",
            "Lease",
            json!({"holderIdentity": "a"}),
            8 << 10,
        ),
        (
            &reports,
            "c1",
            "roundhouse.dev/v1alpha1",
            "ClusterReport",
            json!({"agentVersion": "1"}),
            64 << 10,
        ),
    ] {
        let object = |name: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec});
        for other in ["n", "c10", "agent-2", "agents", "default"] {
            let mut answers = vec![
                agent.post(path, object(other)).await,
                agent.put(&format!("{path}/{other}"), object(other)).await,
                agent.post(&format!("{path}?dryRun=All"), object(other)).await,
            ];
            let applied = format!("{path}/{other}?fieldManager=m");
            answers.push(
                agent
                    .ask(Method::PATCH, &applied, apply, object(other).to_string())
                    .await,
            );
            for (code, status) in answers {
                let message = status["message"].as_str().unwrap();
                assert_eq!(code, 403, "{other} {status}");
                assert!(
                    message.contains("User \"roundhouse:agent:c1:1\" cannot "),
                    "{message}"
                );
                assert!(message.contains(other), "{message}");
            }
        }
        let mut generated = object("x");
        generated["metadata"] = json!({"generateName": format!("{own}-")});
        assert_eq!(agent.post(path, generated).await.0, 403);
        // Its own, up to a size.
        let mut whale = object(own);
        whale["metadata"]["annotations"] = json!({"a": "v".repeat(large)});
        let (code, status) = agent.post(path, whale.clone()).await;
        let message = format!("Request entity too large: limit is {large}");
        assert_eq!((code, &status["message"]), (413, &json!(message)), "{status}");
        let (code, answer) = agent.post(path, object(own)).await;
        assert_eq!(code, 201, "{answer}");
        let one = format!("{path}/{own}");
        let fat = json!({"metadata": {"annotations": {"a": "v".repeat(large)}}});
        assert_eq!(agent.merge(&one, fat.clone()).await.0, 413);
        whale["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"].clone();
        assert_eq!(agent.put(&one, whale).await.0, 413);
        let half = json!({"metadata": {"annotations": {"a": "v".repeat(large / 2)}}});
        assert_eq!(agent.merge(&one, half).await.0, 200);
        // Others are not bounded so.
        let (code, answer) = Raw::new(&server).merge(&one, fat).await;
        assert_eq!(code, 200, "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_agent_has_what_is_bound_to_its_serial_until_the_binding_names_the_next() {
    let server = unbound().await;
    let admin = Raw::new(&server);
    let rbac = |cluster: &str, kind: &str| {
        format!("/apis/rbac.authorization.k8s.io/v1/namespaces/cluster-{cluster}/{kind}")
    };
    let binding = |cluster: &str, serial: u32| {
        json!({"metadata": {"name": "agent"},
            "subjects": [{"kind": "User", "name": format!("roundhouse:agent:{cluster}:{serial}")}],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "agent"}})
    };
    for cluster in ["c1", "c10", "c1-x"] {
        let role = json!({"metadata": {"name": "agent"}, "rules": [
            {"apiGroups": ["roundhouse.dev"], "resources": ["bundles"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]}]});
        assert_eq!(admin.post(&rbac(cluster, "roles"), role).await.0, 201);
        let path = rbac(cluster, "rolebindings");
        assert_eq!(admin.post(&path, binding(cluster, 1)).await.0, 201);
    }
    let agent = |name: &str| {
        let user = format!("roundhouse:agent:{name}");
        Raw::as_somebody(&server, Some(Identity::new(user, ["roundhouse:agents"])))
    };
    let bundles =
        |cluster: &str| format!("/apis/roundhouse.dev/v1alpha1/namespaces/cluster-{cluster}/bundles");
    let leases = |cluster: &str| format!("/apis/coordination.k8s.io/v1/namespaces/cluster-{cluster}/leases");
    let lease = json!({"metadata": {"name": "agent"}});
    for (name, sees) in [
        ("c1:1", "c1"),
        ("c10:1", "c10"),
        ("c1-x:1", "c1-x"),
        ("c1:2", ""),
        ("c1:11", ""),
        ("c1:10", ""),
        ("c1:01", ""),
        ("c1:+1", ""),
        ("c1:0", ""),
        ("c1:", ""),
        ("c1", ""),
        ("c:1", ""),
        ("c1:1:1", ""),
        ("c1-y:1", ""),
    ] {
        for cluster in ["c1", "c10", "c1-x"] {
            let own = agent(name);
            let (read, wrote) = if sees == cluster { (200, 201) } else { (403, 403) };
            assert_eq!(own.get(&bundles(cluster)).await.0, read, "{name} {cluster}");
            let (code, _) = own.post(&leases(cluster), lease.clone()).await;
            assert_eq!(code, wrote, "{name} {cluster}");
            // The server's own rule would let it, but nothing binds it; and what is bound beyond that rule is nothing.
            let reports = bundles(cluster).replace("bundles", "clusterreports") + &format!("/{cluster}");
            assert_eq!(own.get(&reports).await.0, 403, "{name} {cluster}");
            assert_eq!(own.get(&leases(cluster)).await.0, 403, "{name} {cluster}");
        }
    }
    // What it is told that it may is the same.
    let review = json!({"spec": {"namespace": "cluster-c1"}});
    for (name, told) in [("c1:1", true), ("c1:2", false), ("c10:1", false)] {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let (code, answer) = agent(name).post(path, review.clone()).await;
        assert_eq!(code, 201, "{answer}");
        let rules = answer["status"]["resourceRules"].as_array().unwrap();
        let about = |plural: &str| rules.iter().any(|rule| rule["resources"] == json!([plural]));
        assert_eq!(
            (about("bundles"), about("leases")),
            (told, told),
            "{name} {answer}"
        );
        assert!(!about("clusterreports") && !about("*"), "{answer}");
    }
    // Revoked, or joined again: what the last one has open ends, and the next one goes on.
    let watch = format!("{}?watch=true&resourceVersion=0", bundles("c1"));
    let open = |name: &str| {
        let agent = agent(name);
        let watch = watch.clone();
        async move { agent.send(Method::GET, &watch, "", "").await }
    };
    let mut last = open("c1:1").await.into_body();
    let path = format!("{}/agent", rbac("c1", "rolebindings"));
    assert_eq!(admin.put(&path, binding("c1", 2)).await.0, 200);
    let end = tokio::time::timeout(Duration::from_secs(20), Raw::line(&mut last)).await;
    let end = end.unwrap().unwrap();
    assert_eq!(
        (&end["type"], &end["object"]["code"]),
        (&json!("ERROR"), &json!(403))
    );
    assert_eq!(open("c1:1").await.status(), 403);
    assert_eq!(open("c1:2").await.status(), 200);
    assert_eq!(agent("c1:1").get(&bundles("c1")).await.0, 403);
    assert_eq!(
        agent("c10:1").get(&bundles("c10")).await.0,
        200,
        "the neighbour stays"
    );
}
