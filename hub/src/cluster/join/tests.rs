use super::{decide::*, *};
use crate::{
    cluster::{ClusterOptions, run},
    leader::Leading,
    simulate::TokioClock,
};
use jiff::Timestamp;
use k8s_openapi::{
    ByteString,
    api::{
        certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec},
        core::v1::ServiceAccount,
        rbac::v1::{ClusterRoleBinding, RoleBinding},
    },
};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use roundhouse_api::{
    clock::SharedClock,
    cluster::{Cluster, ClusterSpec},
    names::{AGENT_LEASE, AGENT_ROLE, AGENTS, CLIENT_SIGNER, JOIN_ACCOUNT, annotation},
};
use roundhouse_apiserver::{Authority, Identity, Server};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::{CancellationToken, DropGuard};

const LONGEST: Duration = Duration::from_secs(90 * 86_400);
/// Of the account that invites.
const UID: &str = "11111111-2222-3333-4444-555555555555";
const INVITED: &str = "system:serviceaccount:cluster-c1:roundhouse-join";

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// The PEM of a request by `key`.
fn pem(key: &KeyPair, user: &str, groups: &[&str], more: impl FnOnce(&mut CertificateParams)) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    for group in groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    more(&mut params);
    params.serialize_request(key).unwrap().pem().unwrap().into_bytes()
}

fn csr(name: &str, requester: &str, request: Vec<u8>) -> CertificateSigningRequest {
    let mut csr = CertificateSigningRequest {
        spec: CertificateSigningRequestSpec {
            expiration_seconds: Some(3_600),
            request: ByteString(request),
            signer_name: CLIENT_SIGNER.to_owned(),
            usages: Some(vec!["client auth".to_owned(), "digital signature".to_owned()]),
            username: Some(requester.to_owned()),
            ..CertificateSigningRequestSpec::default()
        },
        ..CertificateSigningRequest::default()
    };
    csr.metadata.name = Some(name.to_owned());
    csr.spec.uid = requester.contains(JOIN_ACCOUNT).then(|| UID.to_owned());
    csr
}

fn ask(requester: &str, user: &str) -> CertificateSigningRequest {
    let key = KeyPair::generate().unwrap();
    csr(
        "roundhouse-agent-c1",
        requester,
        pem(&key, user, &[AGENTS], |_| ()),
    )
}

/// Cluster c1 with serial 3, invited for an hour.
fn cluster(accepted: bool) -> Cluster {
    Cluster::new(
        "c1",
        ClusterSpec {
            accepted,
            auto_accept: true,
            serial: 3,
            join_until: Some(Time(now() + SignedDuration::from_hours(1))),
            ..ClusterSpec::default()
        },
    )
}

fn claimed(serial: u32, key: &str) -> Cluster {
    let mut cluster = cluster(true);
    let status = cluster.status.get_or_insert_default();
    status.identity = Some(AgentIdentity {
        serial,
        key: Some(key.to_owned()),
        since: Some(Time(now())),
        ..AgentIdentity::default()
    });
    cluster
}

/// What becomes of a request, in a word: `wait`, `approve`, `approve first`, a reason, or `not ours`.
fn judged(csr: &CertificateSigningRequest, cluster: Option<&Cluster>) -> String {
    let Some(requested) = Requested::of(csr) else {
        return "not ours".to_owned();
    };
    match decide(&requested, cluster, Some(UID), LONGEST, now()) {
        Verdict::Wait(_) => "wait".to_owned(),
        Verdict::Approve(None) => "approve".to_owned(),
        Verdict::Approve(Some(_)) => "approve first".to_owned(),
        Verdict::Deny(reason, _) => reason.to_owned(),
    }
}

#[test]
fn who_may_become_the_agent_of_c1() {
    let (open, closed) = (cluster(true), cluster(false));
    let own = "roundhouse:agent:c1:3";
    let known = claimed(3, "sha256:0");
    let (mut over, mut uninvited, mut left) = (open.clone(), open.clone(), open.clone());
    over.spec.join_until = Some(Time(now()));
    uninvited.spec.join_until = None;
    left.metadata.deletion_timestamp = Some(Time(now()));
    let mut known_no_more = known.clone();
    known_no_more.spec.accepted = false;
    for (why, requester, user, cluster, expected) in [
        ("invited and accepted", INVITED, own, Some(&open), "approve first"),
        ("invited only", INVITED, own, Some(&closed), "wait"),
        ("itself again", own, own, Some(&known), "approve"),
        ("itself, claimed by nobody", own, own, Some(&open), "NotAccepted"),
        (
            "itself, no longer accepted",
            own,
            own,
            Some(&known_no_more),
            "NotAccepted",
        ),
        (
            "an invitation again",
            INVITED,
            own,
            Some(&known),
            "InvitationUsed",
        ),
        ("too late", INVITED, own, Some(&over), "InvitationExpired"),
        (
            "never invited",
            INVITED,
            own,
            Some(&uninvited),
            "InvitationExpired",
        ),
        ("on its way out", INVITED, own, Some(&left), "Leaving"),
        (
            "an old serial, by itself",
            "roundhouse:agent:c1:2",
            "roundhouse:agent:c1:2",
            Some(&known),
            "OldSerial",
        ),
        (
            "the present serial, by an old one",
            "roundhouse:agent:c1:2",
            own,
            Some(&known),
            "WrongRequester",
        ),
        (
            "a serial to come",
            INVITED,
            "roundhouse:agent:c1:4",
            Some(&open),
            "OldSerial",
        ),
        (
            "for c10, by c1",
            own,
            "roundhouse:agent:c10:3",
            Some(&known),
            "WrongName",
        ),
        (
            "for c1, by c10",
            "roundhouse:agent:c10:3",
            own,
            Some(&known),
            "WrongRequester",
        ),
        (
            "by the invitation of c10",
            "system:serviceaccount:cluster-c10:roundhouse-join",
            own,
            Some(&open),
            "WrongRequester",
        ),
        (
            "by another account",
            "system:serviceaccount:cluster-c1:roundhouse-join2",
            own,
            Some(&open),
            "WrongRequester",
        ),
        (
            "by an account elsewhere",
            "system:serviceaccount:kube-system:roundhouse-join",
            own,
            Some(&open),
            "WrongRequester",
        ),
        (
            "by an administrator",
            "kubernetes-admin",
            own,
            Some(&open),
            "WrongRequester",
        ),
        ("no such cluster", INVITED, own, None, "UnknownCluster"),
        (
            "no serial",
            INVITED,
            "roundhouse:agent:c1",
            Some(&open),
            "WrongSubject",
        ),
        (
            "another spelling",
            INVITED,
            "roundhouse:agent:c1:03",
            Some(&open),
            "WrongSubject",
        ),
        (
            "no agent",
            INVITED,
            "roundhouse:admin",
            Some(&open),
            "WrongSubject",
        ),
        ("an agent for a user", own, "jane", Some(&known), "WrongSubject"),
    ] {
        assert_eq!(judged(&ask(requester, user), cluster), expected, "{why}");
    }
}

#[test]
fn the_form_of_a_request_is_exact() {
    let open = cluster(true);
    let key = KeyPair::generate().unwrap();
    let (own, name) = ("roundhouse:agent:c1:3", "roundhouse-agent-c1");
    let of =
        |groups: &[&str], more: fn(&mut CertificateParams)| csr(name, INVITED, pem(&key, own, groups, more));
    for (groups, expected) in [
        (&[AGENTS][..], "approve first"),
        (&[], "WrongOrganization"),
        (&["system:masters"], "WrongOrganization"),
        (&[AGENTS, "system:masters"], "WrongOrganization"),
        (&["roundhouse:agent"], "WrongOrganization"),
    ] {
        assert_eq!(judged(&of(groups, |_| ()), Some(&open)), expected, "{groups:?}");
    }
    let country = of(&[AGENTS], |params| {
        params.distinguished_name.push(DnType::CountryName, "NL")
    });
    assert_eq!(judged(&country, Some(&open)), "WrongSubject");
    let host = of(&[AGENTS], |params| {
        params.subject_alt_names = vec![rcgen::SanType::DnsName("hub".try_into().unwrap())];
    });
    assert_eq!(judged(&host, Some(&open)), "WrongSubject");
    let mut other = of(&[AGENTS], |_| ());
    other.metadata.name = Some("roundhouse-agent-c2".to_owned());
    assert_eq!(judged(&other, Some(&open)), "WrongName");
    for (usages, expected) in [
        (&["client auth"][..], "approve first"),
        (&["client auth", "server auth"], "WrongUsages"),
        (&["digital signature"], "WrongUsages"),
    ] {
        let mut request = of(&[AGENTS], |_| ());
        request.spec.usages = Some(usages.iter().map(|usage| (*usage).to_owned()).collect());
        assert_eq!(judged(&request, Some(&open)), expected, "{usages:?}");
    }
    for (seconds, expected) in [
        (Some(90 * 86_400), "approve first"),
        (Some(90 * 86_400 + 1), "TooLong"),
        (Some(-1), "TooLong"),
        (None, "TooLong"),
    ] {
        let mut request = of(&[AGENTS], |_| ());
        request.spec.expiration_seconds = seconds;
        assert_eq!(judged(&request, Some(&open)), expected, "{seconds:?}");
    }
    let garbage = csr(name, INVITED, b"garbage".to_vec());
    assert_eq!(judged(&garbage, Some(&open)), "NoRequest");
}

#[test]
fn requests_of_others_are_left_alone() {
    let key = KeyPair::generate().unwrap();
    let jane = csr("jane", "eve", pem(&key, "jane", &["people"], |_| ()));
    assert_eq!(judged(&jane, None), "not ours");
    let mut elsewhere = ask(INVITED, "roundhouse:agent:c1:3");
    elsewhere.spec.signer_name = "example.com/other".to_owned();
    assert_eq!(judged(&elsewhere, None), "not ours");
    let in_group = csr("x", "eve", pem(&key, "jane", &[AGENTS], |_| ()));
    assert_eq!(judged(&in_group, None), "WrongSubject");
}

#[test]
fn one_key_is_let_in_by_an_invitation() {
    let key = KeyPair::generate().unwrap();
    let request = csr(
        "roundhouse-agent-c1",
        INVITED,
        pem(&key, "roundhouse:agent:c1:3", &[AGENTS], |_| ()),
    );
    let digest = match decide(
        &Requested::of(&request).unwrap(),
        Some(&cluster(false)),
        Some(UID),
        LONGEST,
        now(),
    ) {
        Verdict::Wait(digest) => digest,
        other => panic!("{other:?}"),
    };
    assert!(digest.starts_with("sha256:") && digest.len() == 71, "{digest}");
    let mut named = cluster(true);
    named.spec.accepted_key = Some(digest.clone());
    assert_eq!(judged(&request, Some(&named)), "approve first");
    assert_eq!(
        judged(&ask(INVITED, "roundhouse:agent:c1:3"), Some(&named)),
        "OtherKey"
    );
    // The hub was killed between the claim and the approval: the same key is let in, and no other.
    let claimed = claimed(3, &digest);
    assert_eq!(judged(&request, Some(&claimed)), "approve first");
    assert_eq!(
        judged(&ask(INVITED, "roundhouse:agent:c1:3"), Some(&claimed)),
        "InvitationUsed"
    );
}

#[test]
fn an_invitation_ends_with_its_time_or_its_use() {
    let minutes = |n: i64| now() + SignedDuration::from_mins(n);
    let open = |until: i64| Invitation {
        open: true,
        until: Some(minutes(until)),
    };
    let over = Invitation {
        open: false,
        until: None,
    };
    let (fresh, used) = (cluster(false), claimed(3, "k"));
    assert_eq!(invitation_of(&fresh, None, now()), open(60));
    assert_eq!(invitation_of(&fresh, None, minutes(60)), over);
    // Used, and not heard of yet: its agent fetches the certificate.
    assert_eq!(invitation_of(&used, None, minutes(1)), open(10));
    assert_eq!(
        invitation_of(&used, Some(now() - SignedDuration::from_mins(5)), minutes(1)),
        open(10)
    );
    assert_eq!(invitation_of(&used, Some(minutes(1)), minutes(1)), over);
    assert_eq!(invitation_of(&used, None, minutes(10)), over);
    // Of an earlier serial: this one is open.
    assert_eq!(
        invitation_of(&claimed(2, "k"), Some(minutes(1)), minutes(1)),
        open(60)
    );
    assert_eq!(
        invitation_of(&Cluster::new("c1", ClusterSpec::default()), None, now()),
        over
    );
}

fn invitation_of(cluster: &Cluster, heard: Option<Timestamp>, now: Timestamp) -> Invitation {
    invitation(cluster, IdentityMethod::Certificate, heard, now)
}

#[test]
fn an_accepted_cluster_waits_for_the_key_of_its_next_agent() {
    let mut again = cluster(true);
    again.spec.auto_accept = false;
    let request = ask(INVITED, "roundhouse:agent:c1:3");
    assert_eq!(judged(&request, Some(&again)), "wait");
    // An earlier invitation had an account of the same name: its token is of another uid.
    let mut old = request.clone();
    old.spec.uid = Some("0".to_owned());
    assert_eq!(judged(&old, Some(&cluster(true))), "OldInvitation");
    old.spec.uid = None;
    assert_eq!(judged(&old, Some(&cluster(true))), "OldInvitation");
    // Claimed, the hub killed, and the cluster accepted no longer.
    let key = Requested::of(&request).unwrap();
    let Verdict::Approve(Some(digest)) = decide(&key, Some(&cluster(true)), Some(UID), LONGEST, now()) else {
        panic!()
    };
    let mut shut = claimed(3, &digest);
    shut.spec.accepted = false;
    assert_eq!(judged(&request, Some(&shut)), "wait");
}

struct Hub {
    client: Client,
    server: Server,
    clock: SharedClock,
    stop: Option<DropGuard>,
}

impl Hub {
    async fn start() -> Hub {
        let clock: SharedClock = Arc::new(TokioClock::starting_at(now()));
        let here = clock.clone();
        let authority = Arc::new(Authority::generate(now()).unwrap());
        let server = Server::builder()
            .seed(1)
            .rbac()
            .strict()
            .signer(authority)
            .clock(Arc::new(move || here.now()))
            .build();
        let client = Client::new(server.service_as(Some(Identity::admin())), "default");
        crate::run::install(&client, &crate::run::HubOptions::default())
            .await
            .unwrap();
        let mut hub = Hub {
            client,
            server,
            clock,
            stop: None,
        };
        hub.restart();
        hub
    }

    fn restart(&mut self) {
        let stop = CancellationToken::new();
        let (client, clock) = (self.client.clone(), self.clock.clone());
        tokio::spawn(run(
            client,
            ClusterOptions::default(),
            Leading::always(1),
            clock,
            stop.clone(),
        ));
        self.stop = Some(stop.drop_guard());
    }

    fn kill(&mut self) {
        self.stop = None;
    }

    /// Who holds a token of the account that invites now.
    async fn invited(&self, cluster: &str) -> Client {
        let user = format!("system:serviceaccount:cluster-{cluster}:{JOIN_ACCOUNT}");
        let mut identity = Identity::new(user, ["system:serviceaccounts", "system:authenticated"]);
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.client.clone(), &format!("cluster-{cluster}"));
        let account = accounts.get(JOIN_ACCOUNT).await.unwrap();
        identity.uid = account.uid().unwrap();
        Client::new(self.server.service_as(Some(identity)), "default")
    }

    fn agent(&self, name: &str) -> Client {
        let identity = Identity::new(name, [AGENTS]);
        Client::new(self.server.service_as(Some(identity)), "default")
    }

    async fn join(&self, name: &str, serial: u32, accepted: bool) {
        let until = self.clock.now() + SignedDuration::from_hours(1);
        let api: Api<Cluster> = Api::all(self.client.clone());
        if api.get_opt(name).await.unwrap().is_none() {
            let new = Cluster::new(name, ClusterSpec::default());
            api.create(&PostParams::default(), &new).await.unwrap();
        }
        let patch = json!({"spec": {"serial": serial, "joinUntil": until.to_string(), "accepted": accepted,
            "autoAccept": accepted, "acceptedKey": null}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &format!("cluster-{name}"));
        self.until("the invitation", async || {
            let account = accounts.get_opt(JOIN_ACCOUNT).await.unwrap()?;
            let of = account.annotations().get("roundhouse.dev/serial")?;
            (*of == serial.to_string()).then_some(())
        })
        .await;
    }

    /// Waits, for at most two minutes of virtual time, until `look` finds something.
    async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        for _ in 0..2_400 {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("waited two minutes for {what}");
    }

    /// Sends a request, and waits for its end: `approved`, or why it is denied.
    async fn ask(&self, client: &Client, name: &str, user: &str, groups: &[&str]) -> String {
        let key = KeyPair::generate().unwrap();
        self.send(client, &csr(name, "", pem(&key, user, groups, |_| ())))
            .await
    }

    async fn send(&self, client: &Client, request: &CertificateSigningRequest) -> String {
        let api: Api<CertificateSigningRequest> = Api::all(client.clone());
        match api.create(&PostParams::default(), request).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) => return status.code.to_string(),
            Err(error) => panic!("{error}"),
        }
        self.end_of(&request.name_any()).await
    }

    async fn end_of(&self, name: &str) -> String {
        let all: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let end = self
            .until("the end of a request", async || {
                let status = all.get(name).await.unwrap().status?;
                let condition = status.conditions?.into_iter().next()?;
                let signed = status.certificate.is_some();
                assert_eq!(condition.type_ == "Approved", signed, "{condition:?}");
                Some(match signed {
                    true => "approved".to_owned(),
                    false => condition.reason.unwrap(),
                })
            })
            .await;
        all.delete(name, &DeleteParams::default()).await.unwrap();
        end
    }

    async fn can_renew(&self, user: &str, cluster: &str) -> bool {
        let leases: Api<k8s_openapi::api::coordination::v1::Lease> =
            Api::namespaced(self.agent(user), &format!("cluster-{cluster}"));
        let patch = json!({"spec": {"renewTime": self.clock.now().to_string(), "holderIdentity": "a"}});
        let renewed = leases
            .patch(AGENT_LEASE, &PatchParams::default(), &Patch::Merge(patch))
            .await;
        match renewed {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 403 => false,
            Err(error) => panic!("{error}"),
        }
    }

    async fn wait_until_heard(&self, user: &str, cluster: &str) {
        self.until("the first heartbeat", async || {
            self.can_renew(user, cluster).await.then_some(())
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_is_invited_accepted_renewed_joined_again_and_revoked() {
    let hub = Hub::start().await;
    hub.join("c1", 7, false).await;
    let (name, first) = ("roundhouse-agent-c1", "roundhouse:agent:c1:7");
    let invited = hub.invited("c1").await;

    // What is asked for waits until somebody accepts, and the hub says with which key.
    let key = KeyPair::generate().unwrap();
    let request = csr(name, "", pem(&key, first, &[AGENTS], |_| ()));
    let requests: Api<CertificateSigningRequest> = Api::all(invited.clone());
    requests.create(&PostParams::default(), &request).await.unwrap();
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    let waiting = hub
        .until("the waiting key", async || {
            let status = clusters.get("c1").await.unwrap().status?;
            status.identity?.waiting_key
        })
        .await;
    assert!(!hub.can_renew(first, "c1").await, "nobody has let it in");
    let accept = json!({"spec": {"accepted": true, "acceptedKey": waiting}});
    clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(accept))
        .await
        .unwrap();
    let certificate = hub
        .until("the certificate", async || {
            requests.get(name).await.unwrap().status?.certificate
        })
        .await;
    assert!(certificate.0.starts_with(b"-----BEGIN CERTIFICATE-----"));
    requests.delete(name, &DeleteParams::default()).await.unwrap();

    // The invitation was used: whoever holds the token gets nothing more, and it goes with the first sign of life.
    assert_eq!(hub.ask(&invited, name, first, &[AGENTS]).await, "InvitationUsed");
    tokio::time::sleep(Duration::from_secs(5)).await;
    hub.wait_until_heard(first, "c1").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(hub.client.clone(), "cluster-c1");
    hub.until("the end of the invitation", async || {
        accounts
            .get_opt(JOIN_ACCOUNT)
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    let bindings: Api<ClusterRoleBinding> = Api::all(hub.client.clone());
    let subjects = bindings.get(name).await.unwrap().subjects.unwrap();
    assert_eq!(
        subjects.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        [first],
        "the agent may ask, the invited may no longer"
    );

    // It renews itself, and asks for nobody else.
    let agent = hub.agent(first);
    assert_eq!(hub.ask(&agent, name, first, &[AGENTS]).await, "approved");
    assert_eq!(
        hub.ask(&agent, name, first, &[AGENTS, "system:masters"]).await,
        "403"
    );
    assert_eq!(
        hub.ask(&agent, name, first, &["people"]).await,
        "WrongOrganization"
    );
    assert_eq!(
        hub.ask(&agent, name, "roundhouse:agent:c10:7", &[AGENTS]).await,
        "WrongName"
    );
    assert_eq!(
        hub.ask(&agent, "roundhouse-agent-c10", first, &[AGENTS]).await,
        "403"
    );

    // Joined again: the old identity ends, also before the new agent has asked.
    hub.join("c1", 8, true).await;
    let roles: Api<RoleBinding> = Api::namespaced(hub.client.clone(), "cluster-c1");
    let subjects = roles.get(AGENT_ROLE).await.unwrap().subjects.unwrap();
    assert_eq!(subjects[0].name, "roundhouse:agent:c1:8");
    assert!(!hub.can_renew(first, "c1").await);
    assert_eq!(
        hub.ask(&agent, name, first, &[AGENTS]).await,
        "403",
        "nor may it ask"
    );
    let second = "roundhouse:agent:c1:8";
    assert_eq!(
        hub.ask(&hub.invited("c1").await, name, second, &[AGENTS]).await,
        "approved"
    );
    tokio::time::sleep(Duration::from_secs(5)).await;
    hub.wait_until_heard(second, "c1").await;

    // Revoked: the serial is raised without an invitation.
    let revoke = json!({"spec": {"serial": 9, "joinUntil": null}});
    clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(revoke))
        .await
        .unwrap();
    hub.until("the end of the identity", async || {
        (!hub.can_renew(second, "c1").await).then_some(())
    })
    .await;
    let lowered = json!({"spec": {"serial": 8}});
    let refused = clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(lowered))
        .await;
    assert!(
        refused
            .unwrap_err()
            .to_string()
            .contains("the serial may not decrease")
    );

    // Shut out: nobody is bound, and what says so is of this serial. It is written once.
    let shut_out = json!({"spec": {"accepted": false}});
    clusters
        .patch("c1", &PatchParams::default(), &Patch::Merge(shut_out))
        .await
        .unwrap();
    let emptied = hub
        .until("the end of the binding", async || {
            let binding = roles.get(AGENT_ROLE).await.unwrap();
            binding
                .subjects
                .as_ref()
                .is_none_or(Vec::is_empty)
                .then_some(binding)
        })
        .await;
    assert_eq!(emptied.annotations()[annotation::SERIAL], "9");
    tokio::time::sleep(Duration::from_secs(1_500)).await;
    let later = roles.get(AGENT_ROLE).await.unwrap();
    assert_eq!(later.resource_version(), emptied.resource_version());
}

#[tokio::test(start_paused = true)]
async fn neighbours_of_almost_the_same_name_are_not_affected() {
    let hub = Hub::start().await;
    for name in ["c1", "c10", "c1-x"] {
        hub.join(name, 1, true).await;
        let user = format!("roundhouse:agent:{name}:1");
        let request = format!("roundhouse-agent-{name}");
        assert_eq!(
            hub.ask(&hub.invited(name).await, &request, &user, &[AGENTS])
                .await,
            "approved"
        );
        tokio::time::sleep(Duration::from_secs(5)).await;
        hub.wait_until_heard(&user, name).await;
    }
    for (user, other) in [
        ("roundhouse:agent:c1:1", "c10"),
        ("roundhouse:agent:c10:1", "c1"),
        ("roundhouse:agent:c1-x:1", "c1"),
        ("roundhouse:agent:c1:1", "c1-x"),
        ("roundhouse:agent:c1:2", "c1"),
        ("roundhouse:agent:c1:01", "c1"),
        ("roundhouse:agent:c1", "c1"),
    ] {
        assert!(!hub.can_renew(user, other).await, "{user} in {other}");
    }
    // The requests of one stand in nobody's way.
    for n in 0..20 {
        let key = KeyPair::generate().unwrap();
        let request = csr(
            &format!("flood-{n}"),
            "",
            pem(&key, "roundhouse:agent:c10:1", &[AGENTS], |_| ()),
        );
        let admin: Api<CertificateSigningRequest> = Api::all(hub.client.clone());
        admin.create(&PostParams::default(), &request).await.unwrap();
    }
    assert_eq!(
        hub.ask(
            &hub.agent("roundhouse:agent:c10:1"),
            "roundhouse-agent-c10",
            "roundhouse:agent:c10:1",
            &[AGENTS]
        )
        .await,
        "approved"
    );
    for n in 0..20 {
        assert_eq!(hub.end_of(&format!("flood-{n}")).await, "WrongName");
    }
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_was_killed_lets_one_key_in() {
    let mut hub = Hub::start().await;
    hub.join("c1", 1, true).await;
    hub.kill();
    tokio::time::sleep(Duration::from_secs(1)).await;
    // As if it had been killed between the claim and the approval.
    let (claimed, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let user = "roundhouse:agent:c1:1";
    let ask = |key: &KeyPair| csr("roundhouse-agent-c1", "", pem(key, user, &[AGENTS], |_| ()));
    let digest = roundhouse_apiserver::CertificateRequest::parse(&ask(&claimed).spec.request.0)
        .unwrap()
        .key_digest();
    let clusters: Api<Cluster> = Api::all(hub.client.clone());
    let status =
        json!({"status": {"identity": {"serial": 1, "key": digest, "since": hub.clock.now().to_string()}}});
    clusters
        .patch_status("c1", &PatchParams::default(), &Patch::Merge(status))
        .await
        .unwrap();
    hub.restart();
    assert_eq!(
        hub.send(&hub.invited("c1").await, &ask(&other)).await,
        "InvitationUsed"
    );
    assert_eq!(
        hub.send(&hub.invited("c1").await, &ask(&claimed)).await,
        "approved"
    );
}

#[tokio::test(start_paused = true)]
async fn rights_that_somebody_changes_are_put_back() {
    let mut hub = Hub::start().await;
    hub.join("c1", 1, true).await;
    let roles: Api<RoleBinding> = Api::namespaced(hub.client.clone(), "cluster-c1");
    let wider =
        json!({"subjects": [{"kind": "Group", "name": AGENTS, "apiGroup": "rbac.authorization.k8s.io"}]});
    roles
        .patch(AGENT_ROLE, &PatchParams::default(), &Patch::Merge(wider))
        .await
        .unwrap();
    hub.restart();
    hub.until("the binding as it was", async || {
        let subjects = roles.get(AGENT_ROLE).await.unwrap().subjects?;
        (subjects[0].name == "roundhouse:agent:c1:1").then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_role_of_that_name_that_is_somebody_elses_is_not_overwritten() {
    let hub = Hub::start().await;
    let roles: Api<k8s_openapi::api::rbac::v1::ClusterRole> = Api::all(hub.client.clone());
    let foreign = serde_json::from_value(json!({"metadata": {"name": "roundhouse-agent-c1"},
        "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}))
    .unwrap();
    roles.create(&PostParams::default(), &foreign).await.unwrap();
    let api: Api<Cluster> = Api::all(hub.client.clone());
    let spec = ClusterSpec {
        serial: 1,
        accepted: true,
        join_until: Some(Time(hub.clock.now() + SignedDuration::from_hours(1))),
        ..ClusterSpec::default()
    };
    api.create(&PostParams::default(), &Cluster::new("c1", spec))
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let kept = roles.get("roundhouse-agent-c1").await.unwrap();
    assert_eq!(kept.rules.unwrap()[0].resources.as_ref().unwrap(), &["pods"]);
    // The others have theirs all the same.
    hub.join("c2", 1, true).await;
}
