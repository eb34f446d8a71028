//! Joining, renewing and joining again against a hub that is as slow, deaf or unwilling as it may be.

mod decided;

use super::fake::{Fake, Fate, REQUEST};
use super::*;
use crate::delay::SeededJitter;
use crate::identity::invitation::Method;
use crate::identity::invitation::tests::{invitation, kubeconfig};
use crate::identity::stored::{Credential, Pending};
use crate::identity::{certificate, request};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const LIFETIME: Duration = Duration::from_secs(10_000);
const DEADLINE: Duration = Duration::from_secs(100_000);
const CREATE: &str = "POST /apis/certificates.k8s.io/v1/certificatesigningrequests";
const TOKEN: &str = "POST /api/v1/namespaces/cluster-c1/serviceaccounts/roundhouse-agent/token";

fn cluster() -> ClusterName {
    ClusterName::new("c1").unwrap()
}

fn keeper(fake: &Fake, place: &Place, source: Source) -> Keeper {
    let (clock, jitter) = (Arc::clone(&fake.clock), Arc::new(SeededJitter::new(7)));
    let mut keeper = Keeper::new(cluster(), place.clone(), source, clock, jitter);
    (keeper.dial, keeper.lifetime) = (fake.dial(), LIFETIME);
    keeper
}

fn given(serial: u32, method: Method) -> Source {
    Source::Given(Box::new(invitation(serial, method)))
}

/// A keeper that runs until it is killed.
fn run(keeper: Keeper) -> (Client, JoinHandle<()>) {
    (keeper.client(), tokio::spawn(keeper.keep()))
}

async fn stored(place: &Place) -> Stored {
    place.load(&cluster()).await.unwrap()
}

async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + DEADLINE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < deadline, "not in time: {what}");
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
}

async fn identity_of(place: &Place, serial: u32) -> Identity {
    until("an identity is stored", async || {
        stored(place)
            .await
            .identity
            .filter(|identity| identity.serial == serial)
    })
    .await
}

/// As whom the hub sees requests of this client.
async fn seen_as(client: &Client) -> Result<String, String> {
    let version = client
        .apiserver_version()
        .await
        .map_err(|error| error.to_string())?;
    Ok(version.git_version)
}

#[tokio::test(start_paused = true)]
async fn an_agent_joins_when_it_is_let_in_and_stores_before_it_tells() {
    let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
    let (client, _task) = run(keeper(&fake, &place, given(3, Method::Certificate)));
    let error = seen_as(&client).await.unwrap_err();
    assert!(error.contains("not joined"), "{error}");
    let live = until("a request", async || fake.hub.lock().request.clone()).await;
    let pending = stored(&place).await.pending.unwrap();
    assert_eq!(
        live["spec"]["request"],
        serde_json::json!(k8s_openapi::ByteString(pending.request.into_bytes()))
    );
    assert_eq!(live["spec"]["signerName"], "kubernetes.io/kube-apiserver-client");
    assert_eq!(
        live["spec"]["usages"],
        serde_json::json!(["digital signature", "client auth"])
    );
    assert_eq!(live["spec"]["expirationSeconds"], 10_000);
    // Nobody lets it in for an hour: it asks on, ever less often.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(stored(&place).await.identity.is_none());
    let looks = fake.hub.lock().asked_for(&format!("GET {REQUEST}")).len();
    assert!((100..200).contains(&looks), "{looks}");
    fake.hub.lock().sign(fake.clock.now());
    let identity = identity_of(&place, 3).await;
    assert!(matches!(identity.credential, Credential::Certificate { .. }));
    assert!(stored(&place).await.pending.is_none());
    until("the credential is used", async || {
        seen_as(&client)
            .await
            .ok()?
            .starts_with("certificate")
            .then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_with_a_new_key_and_without_a_restart() {
    let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
    fake.hub.lock().signs = true;
    let (client, _task) = run(keeper(&fake, &place, given(1, Method::Certificate)));
    let mut last = identity_of(&place, 1).await;
    let mut keys = Vec::new();
    for _ in 0..4 {
        let next = until("a renewal", async || {
            let identity = stored(&place).await.identity.unwrap();
            (identity.from != last.from).then_some(identity)
        })
        .await;
        let part = next.from.duration_since(last.from).as_secs_f64() / LIFETIME.as_secs_f64();
        assert!((0.7..0.81).contains(&part), "renewed at {part} of its life");
        let Credential::Certificate { key, .. } = &next.credential else {
            panic!("no certificate");
        };
        keys.push(key.clone());
        assert!(seen_as(&client).await.unwrap().starts_with("certificate"));
        last = next;
    }
    keys.dedup();
    assert_eq!(keys.len(), 4);
    let made = fake.hub.lock().asked_for(CREATE);
    let by_certificate = made
        .iter()
        .filter(|(_, caller)| caller.starts_with("certificate"))
        .count();
    assert_eq!((made.len(), by_certificate), (5, 4), "the invitation asks once");
}

/// Crashes before or after each request of joining and of the first renewal, and starts again.
#[tokio::test(start_paused = true)]
async fn a_crash_at_any_point_is_recovered_from() {
    for fate in [Fate::Lost, Fate::Unanswered] {
        let mut crashes = 0;
        for number in 0.. {
            let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
            fake.hub.lock().signs = true;
            fake.hub.lock().fate = Some((number, fate));
            let starts = || {
                let mut keeper = keeper(&fake, &place, given(1, Method::Certificate));
                keeper.lifetime = Duration::from_secs(600);
                run(keeper)
            };
            let (_, task) = starts();
            let renewed = async || {
                let made = fake.hub.lock().asked_for(CREATE);
                let (asked, _) = made.into_iter().find(|(_, by)| by.starts_with("certificate"))?;
                let identity = stored(&place).await.identity?;
                (identity.from >= asked).then_some(())
            };
            let struck = async || (fake.hub.lock().asked.len() > number).then_some(());
            until("the fate strikes or all is done", async || {
                struck().await.or(renewed().await)
            })
            .await;
            if struck().await.is_none() {
                break;
            }
            crashes += 1;
            task.abort();
            let _ = task.await;
            let left = stored(&place).await;
            let (client, _again) = starts();
            let identity = identity_of(&place, 1).await;
            if let (None, Some(pending), Credential::Certificate { key, .. }) =
                (left.identity, left.pending, &identity.credential)
            {
                assert_eq!(
                    pending.key, *key,
                    "the key that was stored goes on, {fate:?} {number}"
                );
            }
            until("renewed after a crash", renewed).await;
            until("the hub answers", async || seen_as(&client).await.ok()).await;
        }
        // A look, the request, a look; the same for the renewal, whose old request goes first.
        assert!(crashes >= 7, "{crashes} crashes, {fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_of_another_key_makes_room() {
    let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
    let (key, text) = certificate::new_request(&certificate::tests::name(1)).unwrap();
    let foreign = Pending {
        serial: 1,
        key,
        request: text,
    };
    let foreign = serde_json::to_value(request::request("roundhouse-agent-c1", &foreign, LIFETIME)).unwrap();
    fake.hub.lock().put(foreign);
    fake.hub.lock().signs = true;
    let (_, _task) = run(keeper(&fake, &place, given(1, Method::Certificate)));
    identity_of(&place, 1).await;
    assert_eq!(fake.hub.lock().asked_for(&format!("DELETE {REQUEST}")).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_renewed_in_time_and_never_more_than_once_a_minute() {
    for (seconds, least, most) in [(3600, 2500, 2900), (40, 60, 61)] {
        let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
        fake.hub.lock().token_seconds = seconds;
        let (client, _task) = run(keeper(&fake, &place, given(1, Method::Token)));
        until("tokens", async || {
            (fake.hub.lock().asked_for(TOKEN).len() >= 4).then_some(())
        })
        .await;
        let asked = fake.hub.lock().asked_for(TOKEN);
        for pair in asked.windows(2) {
            let apart = pair[1].0.duration_since(pair[0].0).as_secs();
            assert!(
                (least..=most).contains(&apart),
                "{apart} s for tokens of {seconds} s"
            );
        }
        assert_eq!(asked[0].1, "join-1");
        if seconds > 60 {
            assert_eq!(asked[2].1, "agent-2");
            assert!(seen_as(&client).await.unwrap().starts_with("agent-"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_identity_that_expired_waits_for_an_invitation_and_takes_it() {
    let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
    let home = tempfile::tempdir().unwrap();
    fake.hub.lock().signs = true;
    let expired = Identity {
        until: fake.clock.now(),
        ..crate::identity::tests::identity()
    };
    place.store(&Stored::with(expired)).await.unwrap();
    let file = home.path().join("invitation");
    let (client, task) = run(keeper(&fake, &place, Source::File(file.clone())));
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!task.is_finished());
    assert!(fake.hub.lock().asked.is_empty());
    // Torn, or of somebody else: it goes on waiting.
    std::fs::write(&file, "apiVer").unwrap();
    tokio::time::sleep(Duration::from_secs(100)).await;
    std::fs::write(&file, kubeconfig("c2", 9, "certificate").to_string()).unwrap();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert!(fake.hub.lock().asked.is_empty());
    std::fs::write(&file, kubeconfig("c1", 2, "certificate").to_string()).unwrap();
    identity_of(&place, 2).await;
    until("the hub answers", async || seen_as(&client).await.ok()).await;
    // Joined again while the identity is good.
    std::fs::write(&file, kubeconfig("c1", 3, "certificate").to_string()).unwrap();
    let before = fake.clock.now();
    let identity = identity_of(&place, 3).await;
    assert!(identity.from.duration_since(before).as_secs() < 120);
    assert_eq!(fake.hub.lock().asked_for(CREATE).last().unwrap().1, "join-3");
}

#[tokio::test(start_paused = true)]
async fn an_invitation_that_ended_does_not_keep_a_good_identity_from_its_renewal() {
    let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
    fake.hub.lock().signs = true;
    fake.hub.lock().ended.insert("join-2".to_owned());
    let (from, until_) = (
        fake.clock.now(),
        fake.clock.now() + jiff::SignedDuration::from_secs(1000),
    );
    let (key, request) = certificate::new_request(&certificate::tests::name(1)).unwrap();
    let held = Identity {
        credential: Credential::Certificate {
            certificate: certificate::tests::sign(&request, from, until_),
            key,
        },
        from,
        until: until_,
        ..crate::identity::tests::identity()
    };
    place.store(&Stored::with(held)).await.unwrap();
    let (client, _task) = run(keeper(&fake, &place, given(2, Method::Certificate)));
    until("a renewal", async || {
        stored(&place)
            .await
            .identity
            .filter(|identity| identity.serial == 1 && identity.from > from)
    })
    .await;
    assert!(fake.clock.now().duration_since(from).as_secs() < 1000);
    assert!(seen_as(&client).await.unwrap().starts_with("certificate"));
    assert!(
        fake.hub
            .lock()
            .asked_for("GET")
            .iter()
            .any(|(_, by)| by == "join-2")
    );
}

#[tokio::test(start_paused = true)]
async fn a_wrong_invitation_stops_only_an_agent_that_has_nothing_else() {
    let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("invitation");
    let of_file = || keeper(&fake, &place, Source::File(file.clone()));
    assert!(of_file().check().await.is_ok(), "it may come later");
    std::fs::write(&file, kubeconfig("c2", 9, "certificate").to_string()).unwrap();
    let cut = || keeper(&fake, &place, Source::given("YXBpVmVyc2lvbjog"));
    for (keeper, wrong) in [(of_file(), "c2"), (cut(), "roundhouse join")] {
        let error = keeper.check().await.unwrap_err().to_string();
        assert!(error.contains(wrong), "{error}");
    }
    let held = Identity {
        from: fake.clock.now(),
        until: fake.clock.now() + jiff::SignedDuration::from_secs(1000),
        ..crate::identity::tests::identity()
    };
    place.store(&Stored::with(held)).await.unwrap();
    for keeper in [of_file(), cut()] {
        assert!(keeper.check().await.is_ok());
        // It works with what it has.
        let (client, _task) = run(keeper);
        let seen = until("the hub answers", async || seen_as(&client).await.ok()).await;
        assert_eq!(seen, "t");
    }
}

#[tokio::test(start_paused = true)]
async fn two_agents_of_one_invitation_take_turns_ever_more_rarely() {
    let (fake, places) = (Fake::new(), [(); 2].map(|()| Place::Memory(Arc::default())));
    let tasks = places
        .each_ref()
        .map(|place| run(keeper(&fake, place, given(1, Method::Certificate))).1);
    let cleared = || fake.hub.lock().asked_for(&format!("DELETE {REQUEST}")).len();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let first = cleared();
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let second = cleared() - first;
    assert!((10..150).contains(&second), "{second} in the second hour");
    // One that is alone again asks as ever.
    let [other, _task] = tasks;
    other.abort();
    until("it waits for its own", async || {
        let pending = stored(&places[1]).await.pending?;
        let live = fake.hub.lock().request.clone()?;
        let own = serde_json::json!(k8s_openapi::ByteString(pending.request.into_bytes()));
        (live["spec"]["request"] == own).then_some(())
    })
    .await;
    fake.hub.lock().sign(fake.clock.now());
    identity_of(&places[1], 1).await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_is_to_get_a_token_waits_until_it_is_let_in() {
    let (fake, place) = (Fake::new(), Place::Memory(Arc::default()));
    fake.hub.lock().withholds_tokens = true;
    let mut keeper = keeper(&fake, &place, given(1, Method::Token));
    let mut state = State::new(0.5);
    let invitation = invitation(1, Method::Token);
    let asked = keeper
        .ask(&mut state, Voucher::Invitation(&invitation), fake.clock.now())
        .await
        .unwrap();
    let Progress::Waits { words, is_trouble } = asked else {
        panic!("it does not wait");
    };
    assert!(
        words.contains("waits to be let in: run `roundhouse accept c1`") && !is_trouble,
        "{words}"
    );
    keeper.lifetime = LIFETIME;
    let (_, _task) = run(keeper);
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let asked = fake.hub.lock().asked_for(TOKEN).len();
    assert!((100..200).contains(&asked), "{asked}");
    fake.hub.lock().withholds_tokens = false;
    identity_of(&place, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_stored_is_not_told() {
    let (fake, home) = (Fake::new(), tempfile::tempdir().unwrap());
    fake.hub.lock().signs = true;
    let blocked = home.path().join("blocked");
    std::fs::write(&blocked, "a file where a directory should be").unwrap();
    let place = Place::Directory(blocked.join("d"));
    let (_, _task) = run(keeper(&fake, &place, given(1, Method::Certificate)));
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert!(fake.hub.lock().asked_for(CREATE).is_empty());
    std::fs::remove_file(&blocked).unwrap();
    identity_of(&place, 1).await;
}

/// What is stored makes a client of the real kind: the key, the certificate and the authority are read.
#[tokio::test]
async fn a_certificate_that_is_stored_makes_a_client() {
    // Whoever is first in this process.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (from, until) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
    let (key, request) = certificate::new_request(&certificate::tests::name(1)).unwrap();
    let certificate = certificate::tests::sign(&request, from, until);
    let mut identity = crate::identity::tests::identity();
    let authority = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, &certificate);
    identity.hub.certificate_authority_data = Some(authority);
    identity.credential = Credential::Certificate { key, certificate };
    let kubeconfig = identity.kubeconfig().unwrap();
    assert!(dial()(kubeconfig).await.is_ok());
    identity.hub.server = Some("no address".to_owned());
    let kubeconfig = identity.kubeconfig().unwrap();
    assert!(dial()(kubeconfig).await.is_err());
}
