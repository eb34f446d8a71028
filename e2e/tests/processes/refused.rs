//! Who asks for what they may not have: every refusal is in the audit log, and nobody else notices.

use crate::{
    audit::Audit,
    joining::{cluster, may_list, may_not},
    neighbours::Neighbour,
    yard::{Yard, invitation},
};
use anyhow::{Context, Result, ensure};
use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::api::{certificates::v1::CertificateSigningRequest, core::v1::ServiceAccount};
use kube::{
    Api, Client, Config, Error, ResourceExt,
    api::{Patch, PatchParams},
};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use roundhouse_api::{
    clock::{Clock, SystemClock},
    cluster::Cluster,
    names::JOIN_ACCOUNT,
};
use roundhouse_apiserver::{Authority, Identity};
use roundhouse_e2e::{
    process::{Signal, client, config, soon},
    skipped::{Need, skipped},
};
use serde_json::json;
use std::time::Duration;

pub(crate) const AGENTS: &str = "roundhouse:agents";
/// The user of the hub's own controllers.
const HUB: &str = "roundhouse:hub";
/// The reason of what is approved.
const GIVEN: &str = "AgentAccepted";
pub(crate) type Requests = Api<CertificateSigningRequest>;

/// A request for a certificate by a new key.
pub(crate) fn request(name: &str, user: &str, groups: &[&str]) -> Result<CertificateSigningRequest> {
    request_by(&KeyPair::generate()?, name, user, groups)
}

fn request_by(key: &KeyPair, name: &str, user: &str, groups: &[&str]) -> Result<CertificateSigningRequest> {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    // Of each type rcgen keeps one: the second organization is one by its number.
    let organizations = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (type_, group) in organizations.into_iter().zip(groups) {
        params.distinguished_name.push(type_, *group);
    }
    let pem = params.serialize_request(key)?.pem()?;
    Ok(serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": {
        "request": STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth", "digital signature"], "expirationSeconds": 600}}),
    )?)
}

/// The HTTP status of a refusal.
pub(crate) fn refusal<T: std::fmt::Debug>(answer: kube::Result<T>) -> Result<u16> {
    match answer {
        Err(Error::Api(status)) => Ok(status.code),
        other => anyhow::bail!("no refusal: {other:?}"),
    }
}

/// Waits for the hub's word on a request: the type and the reason of its condition.
async fn decided(all: &Requests, name: &str) -> Result<(String, String)> {
    soon(&format!("a decision on {name}"), async || {
        let status = all.get(name).await?.status.unwrap_or_default();
        let first = status.conditions.clone().unwrap_or_default().into_iter().next();
        Ok(match first {
            Some(condition) => Ok((condition.type_, condition.reason.unwrap_or_default())),
            None => Err(status),
        })
    })
    .await
}

/// Waits until nobody is invited to become the agent of a cluster.
async fn until_ended(yard: &Yard, name: &str) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(yard.client.clone(), &format!("cluster-{name}"));
    soon("the end of the invitation", async || {
        let account = accounts.get_opt(JOIN_ACCOUNT).await?;
        Ok(account.map_or(Ok(()), |account| Err(account.name_any())))
    })
    .await
}

/// The user that a cluster's agent is, or may become.
pub(crate) async fn agent_of(yard: &Yard, name: &str) -> Result<String> {
    let serial = cluster(yard, name).await?.spec.serial;
    Ok(format!("roundhouse:agent:{name}:{serial}"))
}

/// How to reach the hub by the invitation of the command that was printed.
async fn invited(yard: &Yard, printed: &str) -> Result<Config> {
    let (_, word) = invitation(printed)?;
    let kubeconfig = yard.home.path().join("invitation.kubeconfig");
    std::fs::write(&kubeconfig, STANDARD.decode(word)?)?;
    config(&kubeconfig).await
}

/// The same with a certificate, both PEM.
fn certified(config: &Config, certificate: &str, key: &str) -> Result<Client> {
    let mut config = config.clone();
    config.auth_info = serde_json::from_value(json!({
        "client-certificate-data": STANDARD.encode(certificate), "client-key-data": STANDARD.encode(key)}))?;
    Ok(Client::try_from(config)?)
}

#[tokio::test]
async fn what_is_asked_for_in_somebody_elses_name_is_denied_and_audited() -> Result<()> {
    // One begins like the other.
    let yard = Yard::of(&[("c1", "east"), ("c10", "west")]).await?;
    let (mine, theirs) = ("c1", "c10");
    let neighbour = Neighbour::of(&yard, theirs).await?;
    let me = client(&yard.agent_kubeconfig(mine)?).await?;
    let serial = async |name: &str| Ok::<u32, anyhow::Error>(cluster(&yard, name).await?.spec.serial);
    let own_name = format!("roundhouse-agent-{mine}");
    let own = format!("roundhouse:agent:{mine}:{}", serial(mine).await?);
    let other = format!("roundhouse:agent:{theirs}:{}", serial(theirs).await?);
    let later = format!("roundhouse:agent:{mine}:{}", serial(mine).await? + 1);
    let earlier = format!("roundhouse:agent:{mine}:{}", serial(mine).await? - 1);
    let longer = format!("roundhouse:agent:{mine}-x:{}", serial(mine).await?);
    let agents = AGENTS;
    let neighbours = format!("roundhouse-agent-{theirs}");
    let mut bodies = Vec::new();
    // What is refused before the hub sees it says so by its status: the rights of an agent end with its own request's name, and
    // nobody is given what the signer would not sign.
    for (why, name, user, groups, ends) in [
        (
            "the name of a neighbour",
            own_name.as_str(),
            other.as_str(),
            &[agents][..],
            "WrongName",
        ),
        ("a neighbour's request", &neighbours, &other, &[agents], "403"),
        ("a request of any name", "mine", &own, &[agents], "403"),
        ("a longer name", &own_name, &longer, &[agents], "WrongName"),
        ("a serial to come", &own_name, &later, &[agents], "OldSerial"),
        ("a serial that was", &own_name, &earlier, &[agents], "OldSerial"),
        ("no organization", &own_name, &own, &[], "WrongOrganization"),
        (
            "another organization",
            &own_name,
            &own,
            &["system:masters"],
            "403",
        ),
        (
            "an organization more",
            &own_name,
            &own,
            &[agents, "system:masters"],
            "403",
        ),
        (
            "an administrator",
            &own_name,
            "roundhouse:admin",
            &[agents],
            "WrongSubject",
        ),
        (
            "no serial",
            &own_name,
            &format!("roundhouse:agent:{mine}"),
            &[agents],
            "WrongSubject",
        ),
    ] {
        bodies.push((why, request(name, user, groups)?, ends));
    }
    for (why, usages, ends) in [
        (
            "the usage of servers",
            &["client auth", "server auth"][..],
            "WrongUsages",
        ),
        (
            "the usage of authorities",
            &["client auth", "cert sign"],
            "WrongUsages",
        ),
        ("no usage of clients", &["digital signature"], "WrongUsages"),
    ] {
        let mut body = request(&own_name, &own, &[agents])?;
        body.spec.usages = Some(usages.iter().map(|usage| (*usage).to_owned()).collect());
        bodies.push((why, body, ends));
    }
    let mut body = request(&own_name, &own, &[agents])?;
    body.spec.expiration_seconds = Some(400 * 86_400);
    bodies.push(("more than a year", body, "TooLong"));
    // What is right is given, or all of the others could have been denied for nothing.
    bodies.push(("its own", request(&own_name, &own, &[agents])?, GIVEN));
    let requests: Api<CertificateSigningRequest> = Api::all(me.clone());
    // The one of its own that is over.
    requests.delete(&own_name, &Default::default()).await?;
    let all: Api<CertificateSigningRequest> = Api::all(yard.client.clone());
    // On real servers nobody writes an audit log here.
    let test = "the audit of what_is_asked_for_in_somebody_elses_name";
    let audit = match skipped(test, Need::Embedded)? {
        true => None,
        false => Some(Audit::of(&yard)?),
    };
    let mut expected: Vec<(String, u64)> = Vec::new();
    let (mut ended, mut right) = (Vec::new(), Vec::new());
    for (why, body, ends) in bodies {
        let name = body.name_any();
        right.push((why, ends.to_owned()));
        match requests.create(&Default::default(), &body).await {
            refused if may_not(&refused) => {
                let code = refusal(refused)?;
                ended.push((why, code.to_string()));
                expected.push((name, u64::from(code)));
                continue;
            }
            Ok(_) => {}
            Err(error) => anyhow::bail!("{why}: {error}"),
        }
        let (verdict, reason) = decided(&all, &name).await?;
        ensure!(
            (verdict == "Approved") == (reason == GIVEN),
            "{why}: {verdict}, {reason}"
        );
        ended.push((why, reason));
        expected.push((name.clone(), 201));
        all.delete(&name, &Default::default()).await?;
    }
    assert_eq!(ended, right);
    if let Some(audit) = audit {
        for asked in &expected {
            let (name, code) = asked;
            let count = expected.iter().filter(|other| *other == asked).count();
            // The path of a create has no name: what is said of a refusal has.
            let told = match code {
                201 => name.clone(),
                _ => format!("{name:?} is forbidden"),
            };
            audit.has(count, &own, "create", &told, *code).await?;
        }
        let decided = expected.iter().filter(|(_, code)| *code == 201).count();
        audit
            .has(decided, HUB, "patch", &format!("{own_name}/approval"), 200)
            .await?;
    }
    neighbour.has_noticed_nothing(&yard).await
}

#[tokio::test]
async fn an_invitation_a_key_and_a_certificate_are_good_once_and_in_time() -> Result<()> {
    // Kubernetes signs the same key again, and nobody writes an audit log of it here.
    let test = "an_invitation_a_key_and_a_certificate_are_good_once_and_in_time";
    if skipped(test, Need::Embedded)? {
        return Ok(());
    }
    let mut yard = Yard::of(&[("west-1", "west")]).await?;
    let neighbour = Neighbour::of(&yard, "west-1").await?;
    let all: Requests = Api::all(yard.client.clone());
    let audit = Audit::of(&yard)?;
    let post = Default::default();

    // An invitation that is over: what waits is denied, and its token is nobody's.
    let printed = yard.invite("north-1", &[]).await?;
    let late: Requests = Api::all(Client::try_from(invited(&yard, &printed).await?)?);
    let north = "roundhouse-agent-north-1";
    let asked = request(north, &agent_of(&yard, "north-1").await?, &[AGENTS])?;
    late.create(&post, &asked).await?;
    let over = Patch::Merge(json!({"spec": {"joinUntil": "2020-01-01T00:00:00Z"}}));
    let clusters: Api<Cluster> = Api::all(yard.client.clone());
    clusters.patch("north-1", &PatchParams::default(), &over).await?;
    let denied = ("Denied".to_owned(), "InvitationExpired".to_owned());
    assert_eq!(decided(&all, north).await?, denied);
    until_ended(&yard, "north-1").await?;
    assert_eq!(refusal(late.get(north).await)?, 401);
    assert_eq!(refusal(late.create(&post, &asked).await)?, 401);
    audit
        .has(1, HUB, "patch", &format!("{north}/approval"), 200)
        .await?;
    audit.has(1, "", "get", north, 401).await?;
    audit.has(1, "", "create", "", 401).await?;

    // An invitation that was used, before and after the cluster is invited again.
    yard.member("east-1").await?;
    let printed = yard.invite("east-1", &["--auto-accept"]).await?;
    let agent = yard.start_invited("east-1", &printed, &[])?;
    yard.until_available("east-1").await?;
    until_ended(&yard, "east-1").await?;
    agent.end(Signal::Terminate).await?;
    let east = "roundhouse-agent-east-1";
    let thief: Requests = Api::all(Client::try_from(invited(&yard, &printed).await?)?);
    assert_eq!(refusal(thief.get(east).await)?, 401);
    let printed = yard.invite("east-1", &["--auto-accept"]).await?;
    let invitation = invited(&yard, &printed).await?;
    let guest: Requests = Api::all(Client::try_from(invitation.clone())?);
    guest.delete(east, &Default::default()).await?;
    assert_eq!(refusal(thief.get(east).await)?, 401, "the account is another one");
    assert_eq!(
        refusal(thief.create(&post, &request(east, "me", &[AGENTS])?).await)?,
        401
    );
    audit.has(2, "", "get", east, 401).await?;
    audit.has(2, "", "create", "", 401).await?;

    // A request again, and another one by its key: by who made it, and in the name that it was signed for.
    let user = agent_of(&yard, "east-1").await?;
    let key = KeyPair::generate()?;
    let asked = request_by(&key, east, &user, &[AGENTS])?;
    guest.create(&post, &asked).await?;
    assert_eq!(decided(&all, east).await?.0, "Approved");
    let signed = all.get(east).await?.status.and_then(|status| status.certificate);
    let certificate = String::from_utf8(signed.context("a certificate")?.0)?;
    let me = certified(&invitation, &certificate, &key.serialize_pem())?;
    assert!(may_list(&me, "east-1").await?);
    let renewing: Requests = Api::all(me.clone());
    renewing.delete(east, &Default::default()).await?;
    let signed_anew = request_by(&key, east, &user, &[AGENTS])?;
    let renamed = request_by(&key, east, &neighbour.user, &[AGENTS])?;
    let invitee = format!("system:serviceaccount:cluster-east-1:{JOIN_ACCOUNT}");
    for (by, who) in [(&guest, &invitee), (&renewing, &user)] {
        for asked in [&asked, &signed_anew, &renamed] {
            assert_eq!(refusal(by.create(&post, asked).await)?, 403);
        }
        audit
            .has(3, who, "create", &format!("{east:?} is forbidden"), 403)
            .await?;
    }
    assert!(may_list(&me, "east-1").await?, "what it has is as good as before");

    // A certificate that is over.
    let home = yard.home.path().join("hub");
    let read = |name: &str| std::fs::read_to_string(home.join(name));
    let authority = Authority::from_pem(&read("ca.crt")?, &read("ca.key")?)?;
    let hour = Duration::from_secs(3600);
    let identity = Identity::new(user.as_str(), [AGENTS]);
    let begun = SystemClock.now().checked_sub(2 * hour)?;
    for (lifetime, is_good) in [(hour, false), (3 * hour, true)] {
        let issued = authority.issue(&identity, lifetime, begun)?;
        let client = certified(&invitation, &issued.certificate, &issued.key)?;
        assert_eq!(matches!(may_list(&client, "east-1").await, Ok(true)), is_good);
    }
    audit.has(1, "", "connect", "", 401).await?;

    neighbour.has_noticed_nothing(&yard).await
}
