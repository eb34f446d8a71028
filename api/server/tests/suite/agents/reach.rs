//! Everything that is served, asked by an agent, by those whose names are almost one, and by strangers.

use super::*;

// To wait for its turn takes an agent that writes so much no real time.
#[tokio::test(start_paused = true)]
async fn the_agent_of_c1_gets_what_is_listed_and_nothing_else() {
    let server = hub().await;
    let admin = Raw::new(&server);
    let agent = Raw::as_somebody(&server, Some(Identity::agent("c1")));
    let kinds = kinds(&admin).await;
    assert!(kinds.len() > 55, "{}", kinds.len());
    for ours in [
        "bundles",
        "clusters",
        "clusterreports",
        "placements",
        "decisions",
        "applications",
    ] {
        assert!(kinds.iter().any(|(.., plural)| plural == ours), "{ours}");
    }
    let (mut checked, mut allowed) = (0, BTreeSet::new());
    for (root, group, plural) in &kinds {
        for place in PLACES {
            let all = requests(root, plural, place).into_iter().map(|one| (one, ""));
            let own = own_name(plural).map(|name| requests_for(root, plural, place, name));
            // Those of no name are the same for both.
            let own = own
                .into_iter()
                .flatten()
                .filter(|(verb, ..)| !matches!(*verb, "list" | "watch" | "deletecollection"));
            for ((verb, sub, method, path), own) in all.chain(own.map(|one| (one, " own"))) {
                let dot = if group.is_empty() { "" } else { "." };
                let slash = if sub.is_empty() { "" } else { "/" };
                let what = format!("{verb} {plural}{dot}{group}{slash}{sub} {place}{own}");
                let (code, message) = ask(&agent, &method, &path, &[]).await;
                let denied = code == 403 && message.contains("User \"roundhouse:agent:c1:1\" cannot ");
                let listed = ALLOWED.contains(&what.as_str());
                assert_eq!(!denied, listed, "{what}: {code} {message}");
                if listed {
                    assert_ne!(code, 401, "{what}");
                    allowed.insert(what.clone());
                }
                // What is asked for as somebody else is refused before it is looked at: one of the masks in turn.
                let mask = MASKS[checked % MASKS.len()];
                let (code, message) = ask(&agent, &method, &path, mask).await;
                let refused =
                    code == 403 && message.contains("User \"roundhouse:agent:c1:1\" cannot impersonate");
                assert!(refused, "{what} as {mask:?}: {code} {message}");
                checked += 1;
            }
        }
    }
    let listed: BTreeSet<String> = ALLOWED.iter().map(|s| (*s).to_owned()).collect();
    assert_eq!(allowed, listed, "everything that is listed was asked for");
    assert!(checked > 30_000, "{checked}");
}

#[tokio::test]
async fn agents_that_are_named_almost_alike_get_nothing() {
    let server = hub().await;
    let mut checked = 0;
    for (user, group) in [
        ("roundhouse:agent:c10:1", "roundhouse:agents"),
        ("roundhouse:agent:c1-x:1", "roundhouse:agents"),
        ("roundhouse:agent:C1:1", "roundhouse:agents"),
        ("roundhouse:agent:", "roundhouse:agents"),
        ("roundhouse:agent::1", "roundhouse:agents"),
        ("roundhouse:agent:c1", "roundhouse:agents"),
        ("roundhouse:agent:c1 :1", "roundhouse:agents"),
        ("roundhouse:agent:c1/:1", "roundhouse:agents"),
        ("roundhouse:agent:c1:", "roundhouse:agents"),
        ("roundhouse:agent:c1:0", "roundhouse:agents"),
        ("roundhouse:agent:c1:01", "roundhouse:agents"),
        ("roundhouse:agent:c1:+1", "roundhouse:agents"),
        ("roundhouse:agent:c1:1 ", "roundhouse:agents"),
        ("roundhouse:agent:c1:1:1", "roundhouse:agents"),
        ("roundhouse:agent:c1:4294967296", "roundhouse:agents"),
        ("c1", "roundhouse:agents"),
        ("roundhouse:agent:c10:1", "system:masters"),
    ] {
        let agent = Raw::as_somebody(&server, Some(Identity::new(user, [group])));
        for (root, plural) in [
            ("/apis/roundhouse.dev/v1alpha1", "bundles"),
            ("/apis/roundhouse.dev/v1alpha1", "clusterreports"),
            ("/apis/coordination.k8s.io/v1", "leases"),
        ] {
            for (verb, sub, method, path) in requests(root, plural, "cluster-c1") {
                let (code, message) = ask(&agent, &method, &path, &[]).await;
                assert_eq!(code, 403, "{user} {verb} {plural}/{sub} {message}");
                checked += 1;
            }
        }
    }
    assert!(checked > 1_000, "{checked}");
}

#[tokio::test]
async fn strangers_get_health_and_nothing_else() {
    let server = hub().await;
    let admin = Raw::new(&server);
    let nobody = Raw::as_somebody(&server, None);
    for path in ["/healthz", "/livez", "/readyz"] {
        assert_eq!(ask(&nobody, &Method::GET, path, &[]).await.0, 200, "{path}");
    }
    let mut checked = 0;
    let masks: [&[(&str, &str)]; 3] = [
        &[],
        &[
            ("impersonate-user", "roundhouse:admin"),
            ("impersonate-group", "system:masters"),
        ],
        &[("authorization", "Bearer eyJhbGciOiJub25lIn0.e30.")],
    ];
    for mask in masks {
        for path in [
            "/",
            "/api",
            "/apis",
            "/version",
            "/openapi/v2",
            "/openapi/v3",
            "/metrics",
            "/api/v1",
            "/nope",
        ] {
            assert_eq!(ask(&nobody, &Method::GET, path, mask).await.0, 401, "{path}");
        }
        for (root, _, plural) in kinds(&admin).await {
            for place in ["-", "cluster-c1", "default"] {
                for (verb, sub, method, path) in requests(&root, &plural, place) {
                    let (code, _) = ask(&nobody, &method, &path, mask).await;
                    assert_eq!(code, 401, "{verb} {plural}/{sub} {place} {mask:?}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 20_000, "{checked}");
}
