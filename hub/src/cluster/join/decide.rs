//! The decision: whether a request for a certificate is what the agent of a cluster may have.

use super::{identity_of, used};
use jiff::Timestamp;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use kube::ResourceExt;
use roundhouse_api::{
    cluster::Cluster,
    names::{AGENTS, AgentName, CLIENT_SIGNER, JOIN_ACCOUNT, cluster_of_namespace},
};
use roundhouse_apiserver::CertificateRequest;
use std::time::Duration;

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It waits until somebody accepts the cluster; the digest of its key.
    Wait(String),
    /// It is approved; the digest of its key, if it is the first of its serial.
    Approve(Option<String>),
    /// It is denied: a reason in CamelCase, and a sentence.
    Deny(&'static str, String),
}

/// A request as far as it is judged.
#[derive(Debug, Clone)]
pub(crate) struct Requested<'a> {
    csr: &'a CertificateSigningRequest,
    /// Who asks, as the API server noted it.
    requester: &'a str,
    /// What is asked for; `None` if it is no request.
    content: Option<CertificateRequest>,
}

impl<'a> Requested<'a> {
    /// Reads a request that concerns agents and is not decided: one by an agent or an invitation, or one whose subject is, or
    /// looks like, an agent. `None` is everybody else's.
    pub(crate) fn of(csr: &'a CertificateSigningRequest) -> Option<Self> {
        if csr.spec.signer_name != CLIENT_SIGNER || is_decided(csr) {
            return None;
        }
        let requester = csr.spec.username.as_deref().unwrap_or_default();
        let content = CertificateRequest::parse(&csr.spec.request.0).ok();
        let in_group = csr.spec.groups.iter().flatten().any(|group| group == AGENTS);
        let subject = content.as_ref().is_some_and(|content| {
            content
                .users
                .iter()
                .any(|user| user.starts_with(AgentName::PREFIX))
                || content.groups.iter().any(|group| group == AGENTS)
        });
        let ours = requester.starts_with(AgentName::PREFIX)
            || in_group
            || cluster_of_invitation(requester).is_some()
            || subject;
        ours.then_some(Requested {
            csr,
            requester,
            content,
        })
    }

    /// The cluster by whose name the request is called, of those that `exists` knows.
    pub(crate) fn cluster(&self, exists: impl Fn(&str) -> bool) -> Option<String> {
        let name = self.csr.name_any();
        let cluster = name.strip_prefix("roundhouse-agent-")?;
        exists(cluster).then(|| cluster.to_owned())
    }
}

fn is_decided(csr: &CertificateSigningRequest) -> bool {
    let conditions = csr
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|condition| matches!(condition.type_.as_str(), "Approved" | "Denied" | "Failed"))
}

/// The cluster that a ServiceAccount invites an agent of.
fn cluster_of_invitation(user: &str) -> Option<&str> {
    let (namespace, account) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    let cluster = cluster_of_namespace(namespace)?;
    (account == JOIN_ACCOUNT).then_some(cluster)
}

/// Judges a request. `cluster` is the Cluster that its name is of, if there is one; `invited` the uid of the account whose
/// tokens invite to it now; `longest` the longest life that a certificate may be asked for.
pub(crate) fn decide(
    requested: &Requested<'_>,
    cluster: Option<&Cluster>,
    invited: Option<&str>,
    longest: Duration,
    now: Timestamp,
) -> Verdict {
    judged(requested, cluster, invited, longest, now)
        .unwrap_or_else(|(reason, message)| Verdict::Deny(reason, message))
}

type Denied = (&'static str, String);

fn judged(
    requested: &Requested<'_>,
    cluster: Option<&Cluster>,
    invited: Option<&str>,
    longest: Duration,
    now: Timestamp,
) -> Result<Verdict, Denied> {
    let deny = |reason: &'static str, message: String| Err((reason, message));
    let Some(content) = &requested.content else {
        return deny(
            "NoRequest",
            "spec.request is no PKCS#10 request that its key has signed".to_owned(),
        );
    };
    let agent = subject(content)?;
    check_form(&requested.csr.spec, longest)?;
    let own = AgentName::request(&agent.cluster);
    if requested.csr.name_any() != own {
        return deny("WrongName", format!("the request of {agent} is named {own:?}"));
    }
    let Some(cluster) = cluster.filter(|cluster| cluster.name_any() == agent.cluster.as_str()) else {
        return deny(
            "UnknownCluster",
            format!("there is no Cluster {:?}", agent.cluster.as_str()),
        );
    };
    let spec = &cluster.spec;
    if agent.serial != spec.serial {
        return deny(
            "OldSerial",
            format!(
                "the serial of cluster {} is {}, not {}: it was joined again, or its identity was revoked",
                agent.cluster, spec.serial, agent.serial
            ),
        );
    }
    if requested.requester == agent.to_string() {
        return renewal(cluster, &agent);
    }
    if cluster_of_invitation(requested.requester) != Some(agent.cluster.as_str()) {
        return deny(
            "WrongRequester",
            format!(
                "{:?} may not ask for a certificate of {agent}",
                requested.requester
            ),
        );
    }
    let verdict = first(cluster, content.key_digest(), now)?;
    // An earlier invitation had an account of the same name.
    if invited.is_none() || requested.csr.spec.uid.as_deref() != invited {
        return deny(
            "OldInvitation",
            format!("this is not the present invitation of cluster {}", agent.cluster),
        );
    }
    Ok(verdict)
}

/// The agent that a request is for: exactly one name, exactly one organization, and nothing else.
fn subject(content: &CertificateRequest) -> Result<AgentName, Denied> {
    let [user] = content.users.as_slice() else {
        return Err(("WrongSubject", "the subject must have one common name".to_owned()));
    };
    let Some(agent) = AgentName::parse(user) else {
        return Err((
            "WrongSubject",
            format!("the common name must be roundhouse:agent:<cluster>:<serial>, not {user:?}"),
        ));
    };
    if content.groups != [AGENTS] {
        return Err((
            "WrongOrganization",
            format!("the organization must be {AGENTS:?} and no other"),
        ));
    }
    if content.more_subject || content.alternative_names {
        return Err((
            "WrongSubject",
            "the request may have a common name and an organization, and nothing else".to_owned(),
        ));
    }
    Ok(agent)
}

fn check_form(spec: &CertificateSigningRequestSpec, longest: Duration) -> Result<(), Denied> {
    const USAGES: [&str; 3] = ["digital signature", "key encipherment", "client auth"];
    let usages = spec.usages.as_deref().unwrap_or_default();
    if !usages.iter().any(|usage| usage == "client auth")
        || usages.iter().any(|usage| !USAGES.contains(&usage.as_str()))
    {
        return Err((
            "WrongUsages",
            format!("the usages must be \"client auth\" and at most {USAGES:?}"),
        ));
    }
    let asked = spec
        .expiration_seconds
        .and_then(|seconds| u64::try_from(seconds).ok());
    if asked.is_none_or(|seconds| seconds > longest.as_secs()) {
        return Err((
            "TooLong",
            format!(
                "spec.expirationSeconds must say how long the certificate is good for, at most {}",
                longest.as_secs()
            ),
        ));
    }
    Ok(())
}

/// An agent that asks for itself has the right to, as long as it is the present one.
fn renewal(cluster: &Cluster, agent: &AgentName) -> Result<Verdict, Denied> {
    let claimed = identity_of(cluster).map(|identity| identity.serial);
    if !cluster.spec.accepted || claimed != Some(agent.serial) {
        return Err((
            "NotAccepted",
            format!("cluster {} does not let {agent} in", agent.cluster),
        ));
    }
    Ok(Verdict::Approve(None))
}

/// The first certificate of a serial: by the invitation, for one key.
fn first(cluster: &Cluster, key: String, now: Timestamp) -> Result<Verdict, Denied> {
    let (spec, name) = (&cluster.spec, cluster.name_any());
    if cluster.metadata.deletion_timestamp.is_some() {
        return Err(("Leaving", format!("cluster {name} is leaving")));
    }
    let wait = || Ok(Verdict::Wait(key.clone()));
    if used(cluster).is_some() {
        // The one that was claimed, and the hub was killed before it approved.
        let claimed = identity_of(cluster).and_then(|identity| identity.key.as_ref());
        return match (claimed == Some(&key), spec.accepted) {
            (true, true) => Ok(Verdict::Approve(Some(key))),
            (true, false) => wait(),
            (false, _) => Err((
                "InvitationUsed",
                format!(
                    "the invitation of cluster {name} was used: roundhouse join {name} makes another one"
                ),
            )),
        };
    }
    if spec.join_until.as_ref().is_none_or(|until| now >= until.0) {
        return Err((
            "InvitationExpired",
            format!("the invitation of cluster {name} is over: roundhouse join {name} makes another one"),
        ));
    }
    match (&spec.accepted_key, spec.accepted) {
        (Some(accepted), _) if *accepted != key => Err((
            "OtherKey",
            format!("cluster {name} accepts another key than {key}: who holds the invitation?"),
        )),
        (Some(_), true) => Ok(Verdict::Approve(Some(key))),
        (None, true) if spec.auto_accept => Ok(Verdict::Approve(Some(key))),
        (_, _) => wait(),
    }
}
