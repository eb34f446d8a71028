//! Requests that the hub decided, and what is asked anew.

use super::*;
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use roundhouse_apiserver::{Authority, Identity as Caller, Server};
use serde_json::{Value, json};

/// An identity of serial 1 that is due for renewal, and good for another 10 000 seconds.
fn due(fake: &Fake) -> Identity {
    let now = fake.clock.now();
    let (from, until) = (
        now - jiff::SignedDuration::from_secs(40_000),
        now + jiff::SignedDuration::from_secs(10_000),
    );
    let (key, request) = certificate::new_request(&certificate::tests::name(1)).unwrap();
    Identity {
        credential: Credential::Certificate {
            certificate: certificate::tests::sign(&request, from, until),
            key,
        },
        from,
        until,
        ..crate::identity::tests::identity()
    }
}

async fn pending_key(place: &Place) -> String {
    let pending = async || stored(place).await.pending;
    until("a key that waits", pending).await.key
}

fn condition(type_: &str) -> Value {
    json!([{"type": type_, "status": "True", "reason": "Test", "message": "by a test"}])
}

/// What an API server of ours has of the agent's request.
struct Real {
    server: Server,
    requests: Api<CertificateSigningRequest>,
}

const NAME: &str = "roundhouse-agent-c1";

impl Real {
    async fn start(fake: &Fake) -> Real {
        let clock = Arc::clone(&fake.clock);
        let server = Server::builder()
            .seed(1)
            .rbac()
            .signer(Arc::new(Authority::generate(clock.now()).unwrap()))
            .clock(Arc::new(move || clock.now()))
            .build();
        let admin = Client::new(server.service_as(Some(Caller::admin())), "default");
        let role = json!({"metadata": {"name": NAME}, "rules": [
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]},
            {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["delete", "get"],
                "resourceNames": [NAME]}]});
        let role: ClusterRole = serde_json::from_value(role).unwrap();
        let binding = json!({"metadata": {"name": NAME},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "roundhouse:agent:c1:1"}]});
        let binding: ClusterRoleBinding = serde_json::from_value(binding).unwrap();
        let params = PostParams::default();
        Api::all(admin.clone()).create(&params, &role).await.unwrap();
        Api::all(admin.clone()).create(&params, &binding).await.unwrap();
        Real {
            server,
            requests: Api::all(admin),
        }
    }

    /// Whoever dials is the agent.
    fn dial(&self) -> Dial {
        let service = self
            .server
            .service_as(Some(Caller::new("roundhouse:agent:c1:1", ["roundhouse:agents"])));
        Arc::new(move |_| {
            let client = Client::new(service.clone(), "default");
            Box::pin(async move { Ok(client) })
        })
    }

    /// Approves the request that is there, which signs it.
    async fn approve(&self) {
        let approved = Patch::Merge(json!({"status": {"conditions": condition("Approved")}}));
        let params = PatchParams::default();
        let answer = self
            .requests
            .patch_subresource("approval", NAME, &params, &approved)
            .await
            .unwrap();
        assert!(answer.status.unwrap().certificate.is_some());
    }
}

/// It is signed while the agent is away, and gone before it is back.
#[tokio::test(start_paused = true)]
async fn a_certificate_that_was_never_fetched_is_asked_for_with_a_new_key() {
    for renews in [true, false] {
        let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
        let real = Real::start(&fake).await;
        let held = due(&fake);
        if renews {
            place.store(&Stored::with(held.clone())).await.unwrap();
        }
        let starts = || {
            let source = if renews {
                Source::None
            } else {
                given(1, Method::Certificate)
            };
            let mut keeper = keeper(&fake, &place, source);
            keeper.dial = real.dial();
            run(keeper)
        };
        let (_, task) = starts();
        let present = async || real.requests.get_opt(NAME).await.unwrap();
        until("a request", present).await;
        let key = pending_key(&place).await;
        task.abort();
        let _ = task.await;
        real.approve().await;
        real.requests
            .delete(NAME, &DeleteParams::default())
            .await
            .unwrap();
        assert_eq!(pending_key(&place).await, key);
        let (_, _again) = starts();
        until("another request", present).await;
        real.approve().await;
        let Credential::Certificate { key: new, .. } = until("a new identity", async || {
            let identity = stored(&place).await.identity?;
            (identity.from != held.from).then_some(identity.credential)
        })
        .await
        else {
            panic!("no certificate");
        };
        assert_ne!(new, key);
        assert!(fake.clock.now() < held.until, "renews: {renews}");
    }
}

/// Times between the requests that were made, in seconds, and whether all had the same key.
async fn asked_in_vain(
    fake: &Fake,
    place: &Place,
    keeper: Keeper,
) -> (Vec<i64>, bool, Client, JoinHandle<()>) {
    let (client, task) = run(keeper);
    let mut keys = Vec::new();
    for n in 1..=3 {
        until("one more request", async || {
            (fake.hub.lock().asked_for(CREATE).len() == n).then_some(())
        })
        .await;
        keys.push(pending_key(place).await);
    }
    let made = fake.hub.lock().asked_for(CREATE);
    let apart = made
        .windows(2)
        .map(|pair| pair[1].0.duration_since(pair[0].0).as_secs());
    keys.dedup();
    assert!(keys.len() == 1 || keys.len() == 3, "{}", keys.len());
    (apart.collect(), keys.len() == 1, client, task)
}

#[tokio::test(start_paused = true)]
async fn what_was_denied_or_failed_is_asked_for_anew_after_ten_minutes_or_so() {
    for (type_, reason) in [
        ("Denied", "NotAccepted"),
        ("Denied", "OldSerial"),
        ("Failed", "Why"),
    ] {
        for renews in [true, false] {
            // An invitation that ended is another story.
            if !renews && reason == "OldSerial" {
                continue;
            }
            let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
            {
                let mut hub = fake.hub.lock();
                (hub.signs, hub.decides) = (true, Some((type_, reason)));
            }
            let begun = fake.clock.now();
            let source = if renews {
                place.store(&Stored::with(due(&fake))).await.unwrap();
                Source::None
            } else {
                given(1, Method::Certificate)
            };
            let (apart, same_key, _client, _task) =
                asked_in_vain(&fake, &place, keeper(&fake, &place, source)).await;
            // Ten minutes, jittered, seen half a minute later at the most, and a look before each request.
            let is_due = |seconds: &i64| (420..=780 + 45).contains(seconds);
            assert!(apart.iter().all(is_due), "{apart:?} s: {type_} {reason} {renews}");
            assert_eq!(same_key, !renews, "{type_} {reason}");
            fake.hub.lock().decides = None;
            until("what was asked for", async || {
                let identity = stored(&place).await.identity?;
                (identity.from > begun).then_some(())
            })
            .await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_invitation_that_ended_is_not_tried_again_until_its_request_is_gone() {
    for reason in ["InvitationUsed", "InvitationExpired", "OldSerial", "OtherKey"] {
        let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
        {
            let mut hub = fake.hub.lock();
            (hub.signs, hub.decides) = (true, Some(("Denied", reason)));
        }
        let (_, _task) = run(keeper(&fake, &place, given(1, Method::Certificate)));
        tokio::time::sleep(Duration::from_secs(3600)).await;
        assert_eq!(fake.hub.lock().asked_for(CREATE).len(), 1, "{reason}");
        assert!(fake.hub.lock().asked_for("DELETE").is_empty(), "{reason}");
        {
            let mut hub = fake.hub.lock();
            (hub.request, hub.decides) = (None, None);
        }
        identity_of(&place, 1).await;
    }
}

/// What one look at the request says, and whether it is trouble.
async fn said(keeper: &Keeper, state: &mut State, voucher: Voucher<'_>) -> (String, bool) {
    match keeper.ask(state, voucher, keeper.clock.now()).await.unwrap() {
        Progress::Waits { words, is_trouble } => (words, is_trouble),
        Progress::Given(_) | Progress::Again | Progress::Cleared(_) => panic!("it waits"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_decided_request_waits_for_is_said() {
    let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
    let (keeper, invited) = (
        keeper(&fake, &place, Source::None),
        invitation(1, Method::Certificate),
    );
    let (mut state, held) = (State::new(0.5), due(&fake));
    for voucher in [Voucher::Invitation(&invited), Voucher::Identity(&held)] {
        assert!(matches!(
            keeper.ask(&mut state, voucher, fake.clock.now()).await,
            Ok(Progress::Again)
        ));
        // Approved, and nobody signs: a minute later that is what is wrong.
        fake.hub.lock().decide("Approved", "Accepted");
        let (words, is_trouble) = said(&keeper, &mut state, voucher).await;
        assert!(!is_trouble && !words.contains("let in"), "{words}");
        tokio::time::sleep(Duration::from_secs(59)).await;
        assert!(!said(&keeper, &mut state, voucher).await.1);
        tokio::time::sleep(Duration::from_secs(1)).await;
        let (words, is_trouble) = said(&keeper, &mut state, voucher).await;
        assert!(is_trouble);
        for part in [
            "signer kubernetes.io/kube-apiserver-client has signed nothing",
            "`--agent-identity token`",
            "`roundhouse join c1`",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        for (reason, invites) in [("OtherKey", true), ("NotAccepted", false)] {
            fake.hub.lock().decide("Denied", reason);
            let (words, is_trouble) = said(&keeper, &mut state, voucher).await;
            let is_invited = matches!(voucher, Voucher::Invitation(_));
            assert!(
                is_trouble && words.contains(&format!("Denied: {reason}: no")),
                "{words}"
            );
            assert_eq!(
                words.contains("roundhouse join c1"),
                invites && is_invited,
                "{words}"
            );
            assert_eq!(words.contains("asks again"), !(invites && is_invited), "{words}");
        }
        fake.hub.lock().request = None;
    }
}
