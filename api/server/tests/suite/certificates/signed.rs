//! What a signed certificate is good for.

use super::*;

#[tokio::test]
async fn a_key_is_of_one_identity_also_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let authority = Arc::new(Authority::generate(system_clock()()).unwrap());
    let start = || {
        let store = DurableStore::open(directory.path(), DurableOptions::default()).unwrap();
        let events = Arc::<Events>::default();
        let server = Server::builder()
            .rbac()
            .store(Arc::new(store))
            .signer(authority.clone())
            .audit(events.clone())
            .build();
        Cluster {
            admin: Raw::new(&server),
            server,
            authority: authority.clone(),
            events,
        }
    };
    let (jane, jane_text) = asked("jane", "people", |_| ());
    let (key, text) = {
        let cluster = start();
        cluster.admin.bind_agents().await;
        let (code, _) = cluster.admin.post(CSRS, csr("taken", CLIENT, &jane_text)).await;
        assert_eq!(code, 201);
        let (key, text, _) = cluster.issued_to_c1().await;
        let (code, object) = cluster.decide(&cluster.admin, "taken", "Approved").await;
        assert!(
            code == 200 && object["status"]["certificate"].is_string(),
            "{object}"
        );
        // Nothing is left of them but the keys.
        for name in [OF_C1, "taken"] {
            assert_eq!(
                cluster.admin.delete(&format!("{CSRS}/{name}"), json!({})).await.0,
                200
            );
        }
        (key, text)
    };
    let cluster = start();
    let used =
        "a certificate was issued for the key of this request before; make a new key, and a request with it";
    let agent = cluster.agent("c1");
    // The same text, and the same key in another one: for itself, for its next serial, for another cluster, for a user.
    let anew = asked_again(&key, C1, AGENTS);
    assert_ne!(anew, text);
    for (who, request) in [
        (&agent, text.clone()),
        (&agent, anew),
        (&cluster.admin, text),
        (&cluster.admin, asked_again(&key, "roundhouse:agent:c1:2", AGENTS)),
        (&cluster.admin, asked_again(&key, "roundhouse:agent:c2:1", AGENTS)),
        (&cluster.admin, asked_again(&key, "eve", "people")),
        (&cluster.admin, asked_again(&jane, "eve", "people")),
        (&cluster.admin, asked_again(&jane, "jane", "more")),
        (&cluster.admin, asked_again(&jane, C1, AGENTS)),
    ] {
        let (code, status) = who.post(CSRS, csr(OF_C1, CLIENT, &request)).await;
        assert_eq!(code, 403, "{status}");
        assert!(status["message"].as_str().unwrap().ends_with(used), "{status}");
    }
    let refused = cluster.audited(403, C1) + cluster.audited(403, "roundhouse:admin");
    assert_eq!(refused, 9, "and it is audited");
    // Somebody else who asks for jane's key is refused, whoever asked first gets it again, as in Kubernetes.
    let ask = json!([{"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}]);
    cluster.give("joe", "asker", ask).await;
    let joe = cluster.user("joe");
    assert_eq!(joe.post(CSRS, csr("j", CLIENT, &jane_text)).await.0, 403);
    assert_eq!(
        cluster.admin.post(CSRS, csr("j", CLIENT, &jane_text)).await.0,
        201
    );
    let (_, object) = cluster.decide(&cluster.admin, "j", "Approved").await;
    assert!(object["status"]["certificate"].is_string(), "{object}");
    // A new key is a renewal.
    cluster.issued_to_c1().await;
}

#[tokio::test]
async fn of_two_requests_with_one_key_one_is_signed() {
    let cluster = cluster();
    let (key, request) = asked("jane", "people", |_| ());
    let other = asked_again(&key, "eve", "people");
    for (name, request) in [("a", &request), ("b", &other)] {
        assert_eq!(cluster.admin.post(CSRS, csr(name, CLIENT, request)).await.0, 201);
    }
    let (_, first) = cluster.decide(&cluster.admin, "b", "Approved").await;
    assert!(first["status"]["certificate"].is_string(), "{first}");
    let (code, second) = cluster.decide(&cluster.admin, "a", "Approved").await;
    let failed = &second["status"]["conditions"][1];
    assert_eq!((code, &failed["type"]), (200, &json!("Failed")), "{second}");
    assert!(
        failed["message"]
            .as_str()
            .unwrap()
            .starts_with("a certificate was issued for the key")
    );
    assert_eq!(second["status"]["certificate"], Value::Null);
}

#[tokio::test]
async fn a_dry_run_gives_no_certificate() {
    let cluster = cluster();
    let (_, request) = asked("joe", "people", |_| ());
    assert_eq!(
        cluster.admin.post(CSRS, csr("joe", CLIENT, &request)).await.0,
        201
    );
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let path = format!("{CSRS}/joe/approval?dryRun=All");
    let (code, object) = cluster.admin.merge(&path, approved).await;
    assert_eq!((code, &object["status"]["certificate"]), (200, &Value::Null));
    let (_, kept) = cluster.admin.get(&format!("{CSRS}/joe")).await;
    assert_eq!(kept["status"], json!({}));
}

#[tokio::test]
async fn a_signed_certificate_opens_the_door_until_it_is_revoked() {
    let cluster = cluster();
    let now = system_clock()();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = cluster
        .authority
        .server_config(&["127.0.0.1".to_owned()], now)
        .unwrap();
    let stop = CancellationToken::new();
    let task = tokio::spawn(serve(listener, cluster.server.clone(), tls, stop.clone()));
    let ns = "/api/v1/namespaces";
    assert_eq!(
        cluster
            .admin
            .post(ns, json!({"metadata": {"name": "cluster-c1"}}))
            .await
            .0,
        201
    );

    cluster.admin.bind_agents().await;
    let (key, _, object) = cluster.issued_to_c1().await;
    let pem = STANDARD
        .decode(object["status"]["certificate"].as_str().unwrap())
        .unwrap();
    let issued = ClientCertificate {
        certificate: String::from_utf8(pem).unwrap(),
        key: key.serialize_pem(),
    };
    let client = async |issued: ClientCertificate| {
        let text = Kubeconfig::new("t", &url, &cluster.authority, issued).to_string();
        let config = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(config, &Default::default())
            .await
            .unwrap();
        kube::Client::try_from(config).unwrap()
    };
    let code = async |client: &kube::Client, path: &str| {
        let request = http::Request::get(path).body(vec![]).unwrap();
        let answer = client.request_text(request);
        match tokio::time::timeout(Duration::from_secs(20), answer)
            .await
            .unwrap()
        {
            Ok(_) => 200,
            Err(kube::Error::Api(status)) => status.code,
            Err(error) => panic!("{error}"),
        }
    };
    let c1 = client(issued).await;
    let leases =
        "/apis/coordination.k8s.io/v1/namespaces/cluster-c1/leases?fieldSelector=metadata.name%3Dagent";
    assert_eq!(code(&c1, leases).await, 200);
    assert_eq!(
        code(&c1, "/apis/coordination.k8s.io/v1/namespaces/cluster-c10/leases").await,
        403
    );
    let events = cluster.events.0.lock().clone();
    let refused = events
        .iter()
        .find(|e| e["responseStatus"]["code"] == 403)
        .unwrap();
    assert_eq!(refused["sourceIPs"], json!(["127.0.0.1"]));
    assert!(refused["annotations"]["roundhouse.dev/certificate-serial"].is_string());
    let id = &refused["user"]["extra"]["authentication.kubernetes.io/credential-id"][0];
    assert!(id.as_str().unwrap().starts_with("X509SHA256="), "{id}");

    let list = |entry: &str| json!({"metadata": {"name": "roundhouse-revoked"}, "data": {"c1": entry}});
    let maps = "/api/v1/namespaces/kube-system/configmaps";
    let (answer, status) = cluster.admin.post(maps, list("user roundhouse:agent:c1:1")).await;
    assert_eq!(answer, 422, "{status}");
    let (answer, _) = cluster
        .admin
        .post(
            maps,
            list("user roundhouse:agent:c1:1 before 2999-01-01T00:00:00Z"),
        )
        .await;
    assert_eq!(answer, 201);
    assert_eq!(
        code(&c1, leases).await,
        401,
        "the connection that is open is refused too"
    );
    assert_eq!(cluster.audited(401, C1), 0, "it is nobody any longer");
    let unknown = |e: &Value| e["responseStatus"]["code"] == 401 && e["requestURI"] == leases;
    assert!(cluster.events.0.lock().iter().any(unknown), "and it is audited");
    let path = format!("{maps}/roundhouse-revoked");
    let serial = refused["annotations"]["roundhouse.dev/certificate-serial"]
        .as_str()
        .unwrap();
    for (entry, want) in [
        (
            "user roundhouse:agent:c10:1 before 2999-01-01T00:00:00Z".to_owned(),
            200,
        ),
        (format!("serial {serial}"), 401),
        (
            "user roundhouse:agent:c1:1 before 2001-01-01T00:00:00Z".to_owned(),
            200,
        ),
    ] {
        let answer = cluster.admin.merge(&path, json!({"data": {"c1": entry}})).await;
        assert_eq!(answer.0, 200);
        assert_eq!(code(&c1, leases).await, want, "{entry}");
    }

    // A certificate whose time is over does not get as far as a request.
    let long_ago = jiff::Timestamp::from_second(now.as_second() - 7_200).unwrap();
    let old = cluster
        .authority
        .issue(&Identity::agent("c1"), Duration::from_secs(3_600), long_ago)
        .unwrap();
    let old = client(old).await;
    let request = http::Request::get(leases).body(vec![]).unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(20), old.request_text(request))
        .await
        .unwrap();
    assert!(answer.is_err());
    let connect = |e: &Value| e["verb"] == "connect" && e["responseStatus"]["code"] == 401;
    assert!(cluster.events.0.lock().iter().any(connect), "it is audited");
    raw::end(&stop, task).await;
}

#[tokio::test]
async fn without_an_authority_nothing_is_signed() {
    let server = Server::builder().seed(1).build();
    let admin = Raw::new(&server);
    let (_, request) = asked("joe", "", |_| ());
    assert_eq!(admin.post(CSRS, csr("joe", CLIENT, &request)).await.0, 201);
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True"}]}});
    let path = format!("{CSRS}/joe/approval");
    let (code, object) = admin
        .ask(Method::PATCH, &path, raw::MERGE, approved.to_string())
        .await;
    assert_eq!((code, &object["status"]["certificate"]), (200, &Value::Null));
}
