//! Real API servers as hub and members, where `KUBEBUILDER_ASSETS` names them.

use crate::process::{Signal, send};
use anyhow::{Context, Result};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams},
    runtime::{WatchStreamExt, watcher},
};
use roundhouse_api::clock::{Clock, SharedClock, SystemClock};
use roundhouse_apiserver::{Identity, envtest::Envtest};
use roundhouse_hub::simulate::workloads::{self, Model};
use serde_json::{Value, json};
use std::{path::Path, sync::Arc, time::Duration};
use tokio::sync::{Mutex, MutexGuard};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// How long a server that was told to end may take.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(100);

/// One test with real servers at a time: each is two programs of some hundred MiB.
static TURN: Mutex<()> = Mutex::const_new(());

/// How many members of a fleet are on real API servers beside its hub, unless the environment says otherwise: each is two programs
/// of some hundred MiB, and what differs between many members is the hub's doing.
const MEMBERS: usize = 2;

/// How many members of a fleet in one process are on real API servers at the most: `ROUNDHOUSE_REAL_MEMBERS`, or two.
///
/// # Errors
/// The variable is no number.
pub fn members() -> Result<usize> {
    members_of(std::env::var("ROUNDHOUSE_REAL_MEMBERS").ok().as_deref())
}

fn members_of(said: Option<&str>) -> Result<usize> {
    match said {
        None | Some("") => Ok(MEMBERS),
        Some(number) => number
            .parse()
            .with_context(|| format!("ROUNDHOUSE_REAL_MEMBERS is {number:?}: give a number of members")),
    }
}

/// Waits until no other test has real servers.
pub async fn turn() -> MutexGuard<'static, ()> {
    TURN.lock().await
}

/// A real API server that is ready. It ends when this is dropped.
#[derive(Debug)]
pub struct RealServer {
    envtest: Arc<parking_lot::Mutex<Envtest>>,
    /// Its administrator's kubeconfig.
    pub kubeconfig: String,
    controllers: bool,
    /// The signer of certificates, and the workload simulator.
    players: Vec<AbortOnDropHandle<()>>,
}

impl RealServer {
    /// Starts one and waits until it is ready; where no controller manager runs, what is approved is signed here.
    ///
    /// # Errors
    /// It does not start: the error names the program, its flags and the end of its log.
    pub async fn start(assets: &Path) -> Result<(RealServer, Client)> {
        let mut envtest = Envtest::start(assets, SystemClock.now())?;
        let kubeconfig = envtest.kubeconfig().to_owned();
        let client = client(&kubeconfig).await?;
        envtest
            .until_ready(async || {
                let request = http::Request::get("/readyz").body(Vec::new());
                match request {
                    Ok(request) => client.request_text(request).await.is_ok(),
                    Err(_) => false,
                }
            })
            .await?;
        let controllers = envtest.has_controllers();
        let envtest = Arc::new(parking_lot::Mutex::new(envtest));
        let mut players = vec![];
        if !controllers {
            let (client, envtest) = (client.clone(), envtest.clone());
            let sign = move |request: &Value| envtest.lock().sign(request, SystemClock.now());
            players.push(AbortOnDropHandle::new(tokio::spawn(sign_requests(client, sign))));
        }
        let server = RealServer {
            envtest,
            kubeconfig,
            controllers,
            players,
        };
        Ok((server, client))
    }

    /// Plays Deployments and the like on it, as a cluster with nodes would.
    pub fn simulate_workloads(&mut self, client: Client) {
        let clock: SharedClock = Arc::new(SystemClock);
        let playing = workloads::run(client, Model::default(), clock, CancellationToken::new());
        self.players.push(AbortOnDropHandle::new(tokio::spawn(playing)));
    }

    /// Whether a controller manager runs there.
    pub fn has_controllers(&self) -> bool {
        self.controllers
    }

    /// A kubeconfig of somebody.
    ///
    /// # Errors
    /// The identity has more than one group.
    pub fn kubeconfig_of(&self, identity: &Identity) -> Result<String> {
        Ok(self.envtest.lock().kubeconfig_of(identity, SystemClock.now())?)
    }

    /// Sends `kube-apiserver` a signal.
    ///
    /// # Errors
    /// It has ended already.
    pub async fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.envtest.lock().id();
        send(id, signal).await
    }

    /// Sends `kube-apiserver` a signal and waits until it has ended.
    ///
    /// # Errors
    /// It does not end within a minute.
    pub async fn end(self, signal: Signal) -> Result<()> {
        self.signal(signal).await?;
        let ended = async {
            while self.envtest.lock().check().is_ok() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(PATIENCE, ended)
            .await
            .context("kube-apiserver does not end")
    }
}

async fn client(kubeconfig: &str) -> Result<Client> {
    // A second installation could only be this one again.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let file = kube::config::Kubeconfig::from_yaml(kubeconfig)?;
    let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
    Ok(Client::try_from(config)?)
}

/// Gives requests for certificates the status that `sign` has for them, as the controller manager does. Ends never.
pub async fn sign_requests(client: Client, sign: impl Fn(&Value) -> Option<Value>) {
    let requests: Api<CertificateSigningRequest> = Api::all(client);
    let mut seen = watcher(requests.clone(), watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .boxed();
    loop {
        let request = match seen.try_next().await {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(error) => {
                eprintln!("requests for certificates are not seen: {error}");
                continue;
            }
        };
        let Some(status) = serde_json::to_value(&request).ok().and_then(|value| sign(&value)) else {
            continue;
        };
        // One that has changed meanwhile is seen again.
        let version = request.resource_version();
        let patch = Patch::Merge(json!({"metadata": {"resourceVersion": version}, "status": status}));
        let name = request.name_any();
        if let Err(error) = requests
            .patch_status(&name, &PatchParams::default(), &patch)
            .await
        {
            eprintln!("request {name} is not signed: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::{
        ByteString,
        api::certificates::v1::{CertificateSigningRequestSpec, CertificateSigningRequestStatus},
    };
    use kube::api::PostParams;
    use roundhouse_apiserver::{Authority, Server, envtest};
    use std::os::unix::fs::PermissionsExt;

    const CLIENT: &str = "kubernetes.io/kube-apiserver-client";
    /// Of CN=roundhouse:agent:c1:1 and O=roundhouse:agents, by openssl.
    const REQUEST: &str = "-----BEGIN CERTIFICATE REQUEST-----\n\
MIH3MIGeAgEAMDwxGjAYBgNVBAoMEXJvdW5kaG91c2U6YWdlbnRzMR4wHAYDVQQD\n\
DBVyb3VuZGhvdXNlOmFnZW50OmMxOjEwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNC\n\
AAT6vJSuVQgC9zu/gjnO/MZUmtqoHaxTFaUsofMaQAGA5CPKzs3Nr4RdVH2yRpN9\n\
zvo5pmtyMnoPTqua0xisUW+ToAAwCgYIKoZIzj0EAwIDSAAwRQIhAN2HxHUdyooq\n\
Sb16VrYu1+3BwjXgHAYjktQh1sowfb1AAiA0PGYgHWWKkW393EUZ1yW4jGl76P5o\n\
56JP6dVK0rp4KQ==\n\
-----END CERTIFICATE REQUEST-----\n";

    fn request(name: &str, signer: &str) -> CertificateSigningRequest {
        let spec = CertificateSigningRequestSpec {
            request: ByteString(REQUEST.into()),
            signer_name: signer.to_owned(),
            usages: Some(vec!["client auth".to_owned()]),
            ..Default::default()
        };
        let mut request = CertificateSigningRequest {
            spec,
            ..Default::default()
        };
        request.metadata.name = Some(name.to_owned());
        request
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_approved_is_signed_where_nobody_else_signs() {
        let server = Server::builder().seed(1).rbac().build();
        let client = Client::new(server.service(), "default");
        let authority = Authority::generate(SystemClock.now()).unwrap();
        let sign = move |request: &Value| envtest::signed_status(&authority, request, SystemClock.now());
        let _signer = AbortOnDropHandle::new(tokio::spawn(sign_requests(client.clone(), sign)));
        let requests: Api<CertificateSigningRequest> = Api::all(client);
        for (name, signer) in [
            ("early", CLIENT),
            ("other", "example.com/other"),
            ("waits", CLIENT),
            ("late", CLIENT),
        ] {
            requests
                .create(&PostParams::default(), &request(name, signer))
                .await
                .unwrap();
        }
        let approved =
            json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "Test"}]}});
        for name in ["early", "other", "late"] {
            let patch = Patch::Merge(&approved);
            requests
                .patch_approval(name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
        let status = async |name: &str| -> CertificateSigningRequestStatus {
            requests.get(name).await.unwrap().status.unwrap_or_default()
        };
        crate::world::eventually("what was approved last to be signed", async || {
            let late = status("late").await;
            Ok(if late.certificate.is_some() {
                Ok(())
            } else {
                Err(late)
            })
        })
        .await
        .unwrap();
        let early = status("early").await;
        assert!(
            early
                .certificate
                .unwrap()
                .0
                .starts_with(b"-----BEGIN CERTIFICATE-----")
        );
        assert_eq!(early.conditions.unwrap().len(), 1);
        assert!(status("other").await.certificate.is_none());
        assert!(status("waits").await.certificate.is_none());
    }

    #[test]
    fn the_environment_says_how_many_members_are_real() {
        let of = |said| members_of(said).ok();
        assert_eq!(
            [None, Some(""), Some("0"), Some("5")].map(of),
            [2, 2, 0, 5].map(Some)
        );
        assert!(
            members_of(Some("all"))
                .unwrap_err()
                .to_string()
                .contains("\"all\"")
        );
    }

    #[tokio::test]
    async fn a_server_that_does_not_start_is_told_with_its_flags_and_its_log() {
        let assets = tempfile::tempdir().unwrap();
        for (name, script) in [
            ("etcd", "exec sleep 600"),
            ("kube-apiserver", "echo no such flag >&2; exit 2"),
        ] {
            let path = assets.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o700)).unwrap();
        }
        let error = RealServer::start(assets.path()).await.err().unwrap();
        let text = format!("{error:#}");
        for part in [
            "/kube-apiserver ended with exit status: 2",
            "--client-ca-file=",
            "\nno such flag",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
