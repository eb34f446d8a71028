//! Who may ask, and who may approve.

use super::*;

#[tokio::test]
async fn a_user_asks_an_approver_approves_and_the_certificate_is_signed() {
    let cluster = cluster();
    let rules = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"],
        "verbs": ["create", "get", "update"]}]);
    cluster.give("jane", "asker", rules).await;
    let approve = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/approval"], "verbs": ["update"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": ["kubernetes.io/*"], "verbs": ["approve"]}]);
    cluster.give("eve", "approver", approve).await;
    let (jane, eve) = (cluster.user("jane"), cluster.user("eve"));
    let (_, request) = asked("joe", "people", |_| ());
    let mut body = csr("joe", CLIENT, &request);
    body["spec"]["expirationSeconds"] = json!(3_600);
    let (code, object) = jane.post(CSRS, body).await;
    assert_eq!(code, 201, "{object}");
    assert_eq!(
        (&object["spec"]["username"], &object["spec"]["groups"]),
        (&json!("jane"), &json!(["people", "system:authenticated"])),
        "who asks is not taken from the body"
    );
    assert_eq!(
        (&object["spec"]["uid"], &object["spec"]["extra"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(object["status"], json!({}), "nothing is approved at the start");
    // The request cannot change.
    let mut changed = object.clone();
    changed["spec"]["signerName"] = json!(OTHER);
    changed["spec"]["username"] = json!("root");
    changed["metadata"]["labels"] = json!({"a": "b"});
    let (code, kept) = jane.put(&format!("{CSRS}/joe"), changed).await;
    assert_eq!((code, &kept["spec"]), (200, &object["spec"]));
    assert_eq!(kept["metadata"]["labels"]["a"], "b");
    assert_eq!(cluster.decide(&jane, "joe", "Approved").await.0, 403);
    let (code, approved) = cluster.decide(&eve, "joe", "Approved").await;
    assert_eq!(code, 200, "{approved}");
    let condition = &approved["status"]["conditions"][0];
    assert!(condition["lastUpdateTime"].is_string() && condition["lastTransitionTime"].is_string());
    let pem = STANDARD
        .decode(approved["status"]["certificate"].as_str().unwrap())
        .unwrap();
    assert!(pem.starts_with(b"-----BEGIN CERTIFICATE-----"));
    // What is decided stays.
    for ty in ["Denied", "Other"] {
        let (code, status) = cluster.decide(&cluster.admin, "joe", ty).await;
        assert_eq!(code, 422);
        let why = "status.conditions: Forbidden: updates may not remove a condition of type \"Approved\"";
        assert!(status["message"].as_str().unwrap().contains(why), "{status}");
    }
    let forged = json!({"status": {"certificate": STANDARD.encode("x")}});
    let (code, status) = cluster.admin.merge(&format!("{CSRS}/joe/status"), forged).await;
    assert_eq!(code, 422);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("updates may not modify existing certificate content")
    );
}

#[tokio::test]
async fn who_may_approve_for_one_signer_may_not_for_another() {
    let cluster = cluster();
    let approve = json!([
        {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests/*", "certificatesigningrequests/approval", "certificatesigningrequests/status"], "verbs": ["update", "patch"]},
        {"apiGroups": ["certificates.k8s.io"], "resources": ["signers"], "resourceNames": [OTHER], "verbs": ["approve"]}]);
    cluster.give("eve", "approver", approve).await;
    let eve = cluster.user("eve");
    let (_, request) = asked("joe", "", |_| ());
    assert_eq!(
        cluster.admin.post(CSRS, csr("joe", CLIENT, &request)).await.0,
        201
    );
    let (code, status) = cluster.decide(&eve, "joe", "Approved").await;
    assert_eq!(code, 403);
    assert_eq!(
        status["message"],
        "certificatesigningrequests.certificates.k8s.io \"joe\" is forbidden: user not permitted to approve requests with signerName \"kubernetes.io/kube-apiserver-client\""
    );
    let certificate = json!({"status": {"certificate": STANDARD.encode("x")}});
    let (code, status) = eve.merge(&format!("{CSRS}/joe/status"), certificate).await;
    assert_eq!(code, 403);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("user not permitted to sign requests with signerName")
    );
    // Through the status nobody approves.
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let (code, status) = cluster.admin.merge(&format!("{CSRS}/joe/status"), approved).await;
    assert_eq!(code, 422, "{status}");
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("updates may not add a condition of type \"Approved\"")
    );
    // Denied, it is not signed.
    let (code, denied) = cluster.decide(&cluster.admin, "joe", "Denied").await;
    assert_eq!((code, &denied["status"]["certificate"]), (200, &Value::Null));
    // Both at once are none.
    let (_, request) = asked("ann", "", |_| ());
    assert_eq!(
        cluster.admin.post(CSRS, csr("ann", CLIENT, &request)).await.0,
        201
    );
    let both = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]}});
    let (code, status) = cluster.admin.merge(&format!("{CSRS}/ann/approval"), both).await;
    assert_eq!(code, 422);
    assert!(
        status["message"]
            .as_str()
            .unwrap()
            .contains("Approved and Denied conditions are mutually exclusive")
    );
}

#[tokio::test]
async fn what_is_no_request_is_told_field_by_field() {
    let cluster = cluster();
    let (_, request) = asked("joe", "", |_| ());
    let with = |path: &str, value: Value| {
        let mut body = csr("x", CLIENT, &request);
        *body.pointer_mut(path).unwrap() = value;
        body
    };
    for (body, field, message) in [
        (
            with("/spec/request", json!(STANDARD.encode("no"))),
            "spec.request",
            "PEM block type must be CERTIFICATE REQUEST",
        ),
        (
            with("/spec/usages", json!(["fun"])),
            "spec.usages[0]",
            "Unsupported value: \"fun\": supported values: \"any\"",
        ),
        (
            with("/spec/usages", json!(["any", "any"])),
            "spec.usages[1]",
            "Duplicate value: \"any\"",
        ),
        (
            with("/spec/signerName", json!("x")),
            "spec.signerName",
            "must be a fully qualified domain and path",
        ),
        (
            with(
                "/spec",
                json!({"request": request, "signerName": CLIENT, "usages": ["any"], "expirationSeconds": 599}),
            ),
            "spec.expirationSeconds",
            "may not specify a duration less than 600 seconds (10 minutes)",
        ),
    ] {
        let (code, status) = cluster.admin.post(CSRS, body).await;
        assert_eq!(code, 422, "{status}");
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["field"], field);
        assert!(cause["message"].as_str().unwrap().contains(message), "{cause}");
    }
    // The signer refuses what Kubernetes' own refuses.
    let mut body = csr("server", CLIENT, &request);
    body["spec"]["usages"] = json!(["client auth", "server auth"]);
    assert_eq!(cluster.admin.post(CSRS, body).await.0, 201);
    let (_, failed) = cluster.decide(&cluster.admin, "server", "Approved").await;
    let condition = &failed["status"]["conditions"][1];
    assert_eq!(
        (&condition["type"], &condition["reason"], &condition["message"]),
        (
            &json!("Failed"),
            &json!("SignerValidationFailed"),
            &json!("invalid usage for client certificate: server auth")
        )
    );
    assert_eq!(failed["status"]["certificate"], Value::Null);
    let (_, request) = asked("joe", "system:masters", |_| ());
    let (code, status) = cluster.admin.post(CSRS, csr("y", CLIENT, &request)).await;
    let why = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert_eq!(code, 403);
    assert!(status["message"].as_str().unwrap().ends_with(why), "{status}");
}

#[tokio::test]
async fn who_asks_for_the_agent_of_a_cluster_asks_under_its_name_and_waits() {
    let cluster = cluster();
    cluster.admin.bind_agents().await;
    let ask = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}]);
    cluster.give(INVITED, "invited", ask).await;
    let invited = Raw::as_somebody(
        &cluster.server,
        Some(Identity::new(INVITED, ["system:serviceaccounts"])),
    );
    for (who, user) in [(&cluster.agent("c1"), C1), (&invited, INVITED)] {
        let (_, request) = asked(C1, AGENTS, |_| ());
        let mut refused = 0;
        for name in [
            "roundhouse-agent-c10",
            "roundhouse-agent-c",
            "roundhouse-agent-c1-x",
            "c1",
            "x",
        ] {
            for signer in [CLIENT, OTHER] {
                let (code, status) = who.post(CSRS, csr(name, signer, &request)).await;
                assert_eq!(code, 403, "{user} {name} {status}");
                assert!(status["message"].as_str().unwrap().contains(name), "{status}");
                refused += 1;
            }
        }
        let mut generated = csr("", CLIENT, &request);
        generated["metadata"] = json!({"generateName": OF_C1});
        assert_eq!(who.post(CSRS, generated).await.0, 403, "{user}");
        let (_, master) = asked(C1, "system:masters", |_| ());
        assert_eq!(who.post(CSRS, csr(OF_C1, CLIENT, &master)).await.0, 403, "{user}");
        assert_eq!(cluster.audited(403, user), refused + 2);
        let mut whale = csr(OF_C1, CLIENT, &request);
        whale["metadata"]["annotations"] = json!({"a": "v".repeat(32 << 10)});
        assert_eq!(who.post(CSRS, whale).await.0, 413, "{user}");
        // Whatever the subject says: who becomes an agent is not the server's to tell.
        for (subject, group) in [
            (C1, AGENTS),
            ("roundhouse:agent:c1:2", AGENTS),
            ("roundhouse:agent:c10:1", AGENTS),
            (C1, ""),
            ("joe", "people"),
        ] {
            let (_, request) = asked(subject, group, |_| ());
            let (code, object) = who.post(CSRS, csr(OF_C1, CLIENT, &request)).await;
            assert_eq!(
                (code, &object["status"]),
                (201, &json!({})),
                "{user} {subject} {object}"
            );
            assert_eq!(object["spec"]["username"], user);
            assert_eq!(
                cluster.decide(who, OF_C1, "Approved").await.0,
                403,
                "it decides nothing"
            );
            let one = format!("{CSRS}/{OF_C1}");
            let read = if user == C1 { 200 } else { 403 };
            assert_eq!(who.get(&one).await.0, read);
            assert_eq!(who.get(CSRS).await.0, 403);
            assert_eq!(who.delete(&one, json!({})).await.0, read);
            if user != C1 {
                assert_eq!(cluster.admin.delete(&one, json!({})).await.0, 200);
            }
        }
    }
}
