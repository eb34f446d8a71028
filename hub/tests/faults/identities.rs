//! An agent that asks for what is another's: F34. That a certificate is over, and what the audit log has, is
//! `processes/refused.rs` of the end-to-end tests: there is no TLS here.
//!
//! Keys and signatures are of the system's dice, so that a seed has the same requests in the same order with the same faults, and
//! another trace each time.

use crate::{
    applications::runs,
    looks::{because, images, unavailable},
    runs::{SECOND, at_rest, good, struck},
};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{Api, Client, api::DeleteParams};
use parking_lot::Mutex;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use roundhouse_api::names::{AGENTS, cluster_namespace};
use roundhouse_apiserver::Identity;
use roundhouse_hub::simulate::{
    Fleet, HUB,
    fault::{Dice, Kind},
    run::{Act, Fault, Look, Script, Target, application, with_image},
};
use serde_json::{Value, json};
use std::sync::Arc;

/// The reason of what is approved.
const GIVEN: &str = "AgentAccepted";
/// Who asks.
const ME: &str = "east-1";
/// Its neighbour, whose name begins with its own.
const THEM: &str = "east-10";

/// A request for a certificate.
#[derive(Debug, Clone)]
struct Asked {
    /// What is wrong with it, in a few words.
    why: &'static str,
    by: &'static str,
    name: String,
    user: String,
    groups: Vec<&'static str>,
    /// The HTTP status of the refusal, or the reason of the hub's.
    ends: &'static str,
}

/// What an agent may not have, each with how it ends; and what it may.
fn all() -> Vec<Asked> {
    let own = format!("roundhouse-agent-{ME}");
    let user = |cluster: &str, serial: u32| format!("roundhouse:agent:{cluster}:{serial}");
    let asked = |why, by, name: &str, user: String, groups: &[&'static str], ends| Asked {
        why,
        by,
        name: name.to_owned(),
        user,
        groups: groups.to_vec(),
        ends,
    };
    let theirs = format!("roundhouse-agent-{THEM}");
    vec![
        asked(
            "the name of a neighbour",
            ME,
            &own,
            user(THEM, 1),
            &[AGENTS],
            "WrongName",
        ),
        asked(
            "a neighbour's request",
            ME,
            &theirs,
            user(THEM, 1),
            &[AGENTS],
            "403",
        ),
        asked("a request of any name", ME, "mine", user(ME, 1), &[AGENTS], "403"),
        asked("a serial to come", ME, &own, user(ME, 2), &[AGENTS], "OldSerial"),
        asked("no organization", ME, &own, user(ME, 1), &[], "WrongOrganization"),
        asked(
            "an administrator",
            ME,
            &own,
            "roundhouse:admin".to_owned(),
            &[AGENTS],
            "WrongSubject",
        ),
        asked(
            "its neighbour in its name",
            THEM,
            &own,
            user(ME, 1),
            &[AGENTS],
            "403",
        ),
        asked("its own", ME, &own, user(ME, 1), &[AGENTS], GIVEN),
    ]
}

/// In an order of the seed's.
fn shuffled(seed: u64) -> Vec<Asked> {
    let (mut dice, mut left) = (Dice::new(seed, "requests"), all());
    let mut order = Vec::new();
    while !left.is_empty() {
        let n = usize::try_from(dice.below(left.len() as u64)).unwrap();
        order.push(left.swap_remove(n));
    }
    order
}

fn client(fleet: &Fleet, cluster: &str) -> Result<Client, String> {
    let server = fleet.hub_server().map_err(|error| error.to_string())?;
    Ok(Client::new(
        server.service_as(Some(Identity::agent(cluster))),
        "default",
    ))
}

fn request(asked: &Asked) -> CertificateSigningRequest {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, &asked.user);
    for group in &asked.groups {
        params.distinguished_name.push(DnType::OrganizationName, *group);
    }
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap();
    let mut csr: CertificateSigningRequest =
        serde_json::from_value(json!({"metadata": {"name": asked.name}, "spec": {
        "request": "", "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth", "digital signature"], "expirationSeconds": 600}}))
        .unwrap();
    csr.spec.request.0 = pem.pem().unwrap().into_bytes();
    csr
}

/// Requests that ended as they should not have. Clones are the same ones.
#[derive(Debug, Clone, Default)]
struct Wrong(Arc<Mutex<Vec<String>>>);

impl Wrong {
    fn unless(&self, is_right: bool, why: impl FnOnce() -> String) {
        if !is_right {
            self.0.lock().push(why());
        }
    }

    fn none(&self) -> Look {
        let wrong = self.clone();
        Look::new(move |_| {
            let wrong = wrong.0.lock().clone();
            Box::pin(async move { because(wrong.is_empty(), || format!("{wrong:?}")) })
        })
    }
}

/// It is asked for until there is a word on it. A hub that is away meanwhile decides later.
fn ends(asked: Asked, wrong: &Wrong) -> Look {
    let csr = request(&asked);
    ends_with(asked, csr, wrong)
}

/// The same of a request that is there already.
fn ends_with(asked: Asked, csr: CertificateSigningRequest, wrong: &Wrong) -> Look {
    let (csr, wrong) = (Arc::new(csr), wrong.clone());
    Look::new(move |fleet| {
        let (csr, asked, wrong) = (csr.clone(), asked.clone(), wrong.clone());
        Box::pin(async move {
            let why = asked.why;
            let all: Api<CertificateSigningRequest> = Api::all(fleet.hub_client());
            let there = all
                .get_opt(&asked.name)
                .await
                .map_err(|error| format!("{why}: {error}"))?;
            let Some(there) = there else {
                let own: Api<CertificateSigningRequest> = Api::all(client(fleet, asked.by)?);
                return match own.create(&Default::default(), &csr).await {
                    Ok(_) => Err(format!("{why}: it waits")),
                    Err(kube::Error::Api(status)) if status.code < 500 => {
                        wrong.unless(status.code.to_string() == asked.ends, || {
                            format!("{why}: {status:?}")
                        });
                        Ok(())
                    }
                    Err(error) => Err(format!("{why}: {error}")),
                };
            };
            let conditions = there.status.unwrap_or_default().conditions.unwrap_or_default();
            let (is_this, found) = (there.spec.request == csr.spec.request, conditions.first());
            let Some(found) = found.filter(|_| is_this) else {
                if !is_this {
                    // That of before, whose deletion was lost.
                    let gone = all.delete(&asked.name, &DeleteParams::default()).await;
                    gone.map_err(|error| format!("{why}: {error}"))?;
                }
                return Err(format!("{why}: there is no word on it"));
            };
            let gone = all.delete(&asked.name, &DeleteParams::default()).await;
            gone.map_err(|error| format!("{why}: {error}"))?;
            let is_right = (found.type_ == "Approved") == (asked.ends == GIVEN)
                && found.reason.as_deref() == Some(asked.ends);
            wrong.unless(is_right, || format!("{why}: {found:?}"));
            Ok(())
        })
    })
}

/// What a neighbour has is nobody else's to read or to write, and its own may be read as long as it is let in. What is once given that
/// is another's, is `wrong` ever after.
fn sees_its_own(is_in: bool, wrong: &Wrong) -> Look {
    let wrong = wrong.clone();
    Look::new(move |fleet| {
        let wrong = wrong.clone();
        Box::pin(async move {
            let client = client(fleet, ME)?;
            for (method, path) in of_a_neighbour() {
                let body = json!({"metadata": {"annotations": {"of": ME}}}).to_string();
                let asked = http::Request::builder()
                    .method(&method)
                    .uri(&path)
                    .header("content-type", media_of(&method))
                    .body(body.into_bytes())
                    .unwrap();
                match client.request::<Value>(asked).await {
                    Ok(_) => wrong.unless(false, || format!("{method} {path} was done")),
                    Err(kube::Error::Api(status)) => because(status.code == 403, || {
                        format!("{method} {path}: {}", status.message)
                    })?,
                    Err(error) => return Err(error.to_string()),
                }
            }
            for (path, is_own) in [
                (
                    format!(
                        "/apis/roundhouse.dev/v1alpha1/namespaces/{}/bundles",
                        cluster_namespace(ME)
                    ),
                    true,
                ),
                (
                    format!(
                        "/apis/roundhouse.dev/v1alpha1/namespaces/{}/bundles",
                        cluster_namespace(THEM)
                    ),
                    false,
                ),
                ("/apis/roundhouse.dev/v1alpha1/bundles".to_owned(), false),
                ("/apis/roundhouse.dev/v1alpha1/clusters".to_owned(), false),
                (
                    format!("/api/v1/namespaces/{}/secrets", cluster_namespace(ME)),
                    false,
                ),
                (
                    format!(
                        "/apis/coordination.k8s.io/v1/namespaces/{}/leases/agent",
                        cluster_namespace(THEM)
                    ),
                    false,
                ),
            ] {
                let asked = http::Request::get(&path).body(Vec::new()).unwrap();
                let found = match client.request::<Value>(asked).await {
                    Ok(_) => 200,
                    Err(kube::Error::Api(status)) => status.code,
                    Err(error) => return Err(error.to_string()),
                };
                let wanted = if is_own && is_in { 200 } else { 403 };
                wrong.unless(is_own || found != 200, || format!("GET {path} was answered"));
                because(found == wanted, || format!("{path}: {found}"))?;
            }
            Ok(())
        })
    })
}

/// Writes of what is a neighbour's, and of what is the hub's.
fn of_a_neighbour() -> Vec<(http::Method, String)> {
    let bundles = format!(
        "/apis/roundhouse.dev/v1alpha1/namespaces/{}/bundles",
        cluster_namespace(THEM)
    );
    let leases = format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
        cluster_namespace(THEM)
    );
    let own = format!(
        "/apis/roundhouse.dev/v1alpha1/namespaces/{}/bundles",
        cluster_namespace(ME)
    );
    vec![
        (http::Method::POST, bundles.clone()),
        (http::Method::PATCH, format!("{bundles}/web/status")),
        (http::Method::DELETE, format!("{bundles}/web")),
        (http::Method::PATCH, format!("{leases}/agent")),
        (
            http::Method::PATCH,
            format!(
                "/apis/roundhouse.dev/v1alpha1/namespaces/{}/clusterreports/{THEM}",
                cluster_namespace(THEM)
            ),
        ),
        (
            http::Method::PATCH,
            format!("/apis/roundhouse.dev/v1alpha1/clusters/{ME}/status"),
        ),
        // What its own Bundles say is the hub's.
        (http::Method::PATCH, format!("{own}/web")),
        (http::Method::DELETE, format!("{own}/web")),
    ]
}

fn media_of(method: &http::Method) -> &'static str {
    match *method {
        http::Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    }
}

#[test]
fn f34_who_asks_for_what_is_anothers_is_refused_whatever_happens_to_the_hub() {
    let outcomes = good(|seed| {
        let web = application("web", 16, &[("east", "100%")]);
        let mut script = Script::of_regions(10, &["east"]).with(web.clone());
        let (names, wrong) = (script.names(), Wrong::default());
        let killed = usize::try_from(seed % 8).unwrap();
        for (n, asked) in shuffled(seed).into_iter().enumerate() {
            if n == killed {
                let fault = Fault::Killed(HUB.to_owned());
                script = script
                    .then(Act::Apply(with_image(&web, "web:2")))
                    .then(Act::for_a_while(fault, SECOND * 3));
            }
            let what = format!("a word on {}", asked.why);
            script = script
                .then(Act::wait(&what, ends(asked, &wrong)))
                .then(Act::wait("it sees its own", sees_its_own(true, &wrong)));
        }
        let renewal = all().into_iter().find(|asked| asked.ends == GIVEN).unwrap();
        // What was given is asked for again, by whom it was given to and by a neighbour who has heard it.
        let csr = request(&renewal);
        let again = Asked {
            why: "its own, again",
            ..renewal.clone()
        };
        let mut heard = csr.clone();
        heard.metadata.name = Some(format!("roundhouse-agent-{THEM}"));
        let by_them = Asked {
            why: "its own, heard by a neighbour",
            by: THEM,
            name: format!("roundhouse-agent-{THEM}"),
            ends: "WrongName",
            ..renewal.clone()
        };
        let given = Asked {
            why: "its own, once",
            ..renewal.clone()
        };
        for (asked, csr) in [(given, csr.clone()), (again, csr), (by_them, heard)] {
            let what = format!("a word on {}", asked.why);
            script = script.then(Act::wait(&what, ends_with(asked, csr, &wrong)));
        }
        // Its identity is revoked: it asks with a name that is good for nothing any more.
        let revoked = Asked {
            why: "its own, when that was revoked",
            ends: "OldSerial",
            ..renewal
        };
        script
            .then(Act::wait("the newest is delivered", runs("web")))
            .then(Act::Patch(Target::cluster(ME), json!({"spec": {"serial": 2}})))
            .then(Act::wait("a word on what was revoked", ends(revoked, &wrong)))
            .then(Act::wait("it sees nothing any more", sees_its_own(false, &wrong)))
            .until(at_rest())
            .finally("nobody gets what is another's", wrong.none())
            .finally("it is refused", sees_its_own(false, &wrong))
            .finally("nobody hears of it, and of all others", unavailable(&[ME]))
            .finally("the newest runs everywhere", images("web", "web:2", names))
    });
    struck(&outcomes, &[Kind::HubKilled]);
}
