//! A hub with its cluster controller, and who asks it for certificates.

use super::*;
use crate::{
    cluster::tests::{controller, until},
    simulate::TokioClock,
};
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ServiceAccount};
use kube::{
    Api, Client, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use roundhouse_api::{clock::SharedClock, names::AGENT_LEASE};
use roundhouse_apiserver::{Authority, Identity, Server};
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::DropGuard;

pub(super) struct Hub {
    pub(super) client: Client,
    server: Server,
    pub(super) clock: SharedClock,
    stop: Option<DropGuard>,
}

impl Hub {
    pub(super) async fn start() -> Hub {
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

    pub(super) fn restart(&mut self) {
        self.stop = Some(controller(&self.client, &self.clock));
    }

    pub(super) fn kill(&mut self) {
        self.stop = None;
    }

    /// Who holds a token of the account that invites now.
    pub(super) async fn invited(&self, cluster: &str) -> Client {
        let user = format!("system:serviceaccount:cluster-{cluster}:{JOIN_ACCOUNT}");
        let mut identity = Identity::new(user, ["system:serviceaccounts", "system:authenticated"]);
        let accounts: Api<ServiceAccount> =
            Api::namespaced(self.client.clone(), &format!("cluster-{cluster}"));
        let account = accounts.get(JOIN_ACCOUNT).await.unwrap();
        identity.uid = account.uid().unwrap();
        Client::new(self.server.service_as(Some(identity)), "default")
    }

    pub(super) fn agent(&self, name: &str) -> Client {
        let identity = Identity::new(name, [AGENTS]);
        Client::new(self.server.service_as(Some(identity)), "default")
    }

    pub(super) async fn join(&self, name: &str, serial: u32, accepted: bool) {
        let end = self.clock.now() + SignedDuration::from_hours(1);
        let api: Api<Cluster> = Api::all(self.client.clone());
        if api.get_opt(name).await.unwrap().is_none() {
            let new = Cluster::new(name, ClusterSpec::default());
            api.create(&PostParams::default(), &new).await.unwrap();
        }
        let patch = json!({"spec": {"serial": serial, "joinUntil": end.to_string(), "accepted": accepted,
            "autoAccept": accepted, "acceptedKey": null}});
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), &format!("cluster-{name}"));
        until("the invitation", async || {
            let account = accounts.get_opt(JOIN_ACCOUNT).await.unwrap()?;
            let of = account.annotations().get("roundhouse.dev/serial")?;
            (*of == serial.to_string()).then_some(())
        })
        .await;
    }

    /// Sends a request, and waits for its end: `approved`, or why it is denied.
    pub(super) async fn ask(&self, client: &Client, name: &str, user: &str, groups: &[&str]) -> String {
        let key = KeyPair::generate().unwrap();
        self.send(client, &csr(name, "", pem(&key, user, groups, |_| ())))
            .await
    }

    pub(super) async fn send(&self, client: &Client, request: &CertificateSigningRequest) -> String {
        let api: Api<CertificateSigningRequest> = Api::all(client.clone());
        match api.create(&PostParams::default(), request).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) => return status.code.to_string(),
            Err(error) => panic!("{error}"),
        }
        self.end_of(&request.name_any()).await
    }

    pub(super) async fn end_of(&self, name: &str) -> String {
        let all: Api<CertificateSigningRequest> = Api::all(self.client.clone());
        let end = until("the end of a request", async || {
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

    pub(super) async fn can_renew(&self, user: &str, cluster: &str) -> bool {
        let leases: Api<Lease> = Api::namespaced(self.agent(user), &format!("cluster-{cluster}"));
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

    pub(super) async fn wait_until_heard(&self, user: &str, cluster: &str) {
        until("the first heartbeat", async || {
            self.can_renew(user, cluster).await.then_some(())
        })
        .await;
    }
}
