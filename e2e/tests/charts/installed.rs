//! A chart installed on a server that obeys RBAC, and a cluster that joins there.

use crate::{admitted, of_kind};
use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use futures::FutureExt;
use http::header::{AUTHORIZATION, HeaderValue};
use jiff::{Timestamp, ToSpan};
use k8s_openapi::{api::core::v1::ServiceAccount, apimachinery::pkg::apis::meta::v1::Time};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    config::Kubeconfig,
};
use parking_lot::Mutex;
use roundhouse_agent::identity::{Dial, EXTENSION, IdentityError, Invitation};
use roundhouse_api::{
    clock::SharedClock,
    cluster::{Cluster, ClusterSpec, IdentityMethod},
    names::{JOIN_ACCOUNT, annotation},
};
use roundhouse_apiserver::{AuditSink, Authority, Identity, Server, TokenKey};
use roundhouse_e2e::{
    charts::{Chart, NAMESPACE},
    world::eventually,
};
use roundhouse_hub::{
    application::ApplicationOptions,
    cluster::ClusterOptions,
    run::{self, HubOptions},
    simulate::TokioClock,
    tenancy::Tenancy,
};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;

/// The release of the agent's chart, and its cluster.
pub(crate) const CLUSTER: &str = "east-1";

/// What was refused, as `user: verb uri`.
#[derive(Clone, Default)]
pub(crate) struct Refusals(pub(crate) Arc<Mutex<Vec<String>>>);

impl AuditSink for Refusals {
    fn record(&self, _: &Value) {}

    fn record_refusal(&self, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (user, verb) = (text(&event["user"]["username"]), text(&event["verb"]));
        self.0
            .lock()
            .push(format!("{user}: {verb} {}", text(&event["requestURI"])));
    }
}

/// A server on which a chart was installed.
pub(crate) struct Installed {
    pub(crate) server: Server,
    pub(crate) administrator: Client,
    /// As the service account of the chart's pods.
    pub(crate) account: Client,
    pub(crate) refusals: Refusals,
}

pub(crate) async fn install(
    chart: &Chart,
    release: &str,
    values: &Value,
    clock: &SharedClock,
) -> Result<Installed> {
    let refusals = Refusals::default();
    let clock = clock.clone();
    let signer = Authority::generate(clock.now())?;
    let server = Server::builder()
        .seed(1)
        .clock(Arc::new(move || clock.now()))
        .audit(Arc::new(refusals.clone()))
        .signer(Arc::new(signer))
        .tokens(TokenKey::generate()?)
        .rbac()
        .strict()
        .build();
    let administrator = Client::new(server.service(), "default");
    admitted::prepare(&administrator).await?;
    admitted::define(&administrator, chart).await?;
    let objects = chart.objects(release, values)?;
    for object in &objects {
        let params = PatchParams::apply("helm").validation_strict();
        admitted::apply(&administrator, object, params).await?;
    }
    let deployment = of_kind(&objects, "Deployment").next().context("no Deployment")?;
    let name = deployment["spec"]["template"]["spec"]["serviceAccountName"]
        .as_str()
        .context("no account")?;
    Ok(Installed {
        account: Client::new(server.service_as(Some(account(NAMESPACE, name))), NAMESPACE),
        administrator,
        refusals,
        server,
    })
}

/// A service account, as the server knows who shows its token.
fn account(namespace: &str, name: &str) -> Identity {
    let all = "system:serviceaccounts".to_owned();
    let groups = [
        all.clone(),
        format!("{all}:{namespace}"),
        "system:authenticated".to_owned(),
    ];
    Identity::new(format!("system:serviceaccount:{namespace}:{name}"), groups)
}

/// The hub as whoever a kubeconfig is of: the server itself says whom a token or a certificate is of.
pub(crate) fn dial(hub: &Server) -> Dial {
    let hub = hub.clone();
    Arc::new(move |kubeconfig| {
        let client = client_of(&hub, &kubeconfig);
        let client = client.ok_or_else(|| IdentityError::Access("nobody's kubeconfig".to_owned()));
        std::future::ready(client).boxed()
    })
}

fn client_of(hub: &Server, kubeconfig: &Kubeconfig) -> Option<Client> {
    let user = serde_json::to_value(kubeconfig.auth_infos.first()?.auth_info.as_ref()?).ok()?;
    if let Some(encoded) = user["client-certificate-data"].as_str() {
        let pem = STANDARD.decode(encoded).ok()?;
        let der = CertificateDer::from_pem_slice(&pem).ok()?;
        return Some(Client::new(hub.service_with_certificate(&der)?, "default"));
    }
    let bearer = HeaderValue::try_from(format!("Bearer {}", user["token"].as_str()?)).ok()?;
    let service = ServiceBuilder::new()
        .map_request(move |mut request: http::Request<kube::client::Body>| {
            request.headers_mut().insert(AUTHORIZATION, bearer.clone());
            request
        })
        .service(hub.service_as(None));
    Some(Client::new(service, "default"))
}

/// Invites a cluster as `roundhouse join --auto-accept` does, with a serial that it has not had yet.
pub(crate) async fn invite(hub: &Client, clock: &SharedClock, serial: u32) -> Result<Invitation> {
    let clusters: Api<Cluster> = Api::all(hub.clone());
    let until = Time(clock.now().checked_add(1.hour())?);
    let spec = json!({"accepted": true, "autoAccept": true, "serial": serial, "joinUntil": until});
    let patch = Patch::Merge(json!({"spec": spec}));
    clusters.patch(CLUSTER, &PatchParams::default(), &patch).await?;
    let accounts: Api<ServiceAccount> = Api::namespaced(hub.clone(), &format!("cluster-{CLUSTER}"));
    let method = eventually("the invitation", async || {
        let account = accounts.get(JOIN_ACCOUNT).await?;
        let said = |key: &str| account.annotations().get(key).cloned().unwrap_or_default();
        Ok(match said(annotation::SERIAL) == serial.to_string() {
            true => Ok(said(annotation::IDENTITY)),
            false => Err(account.metadata.annotations),
        })
    })
    .await?;
    let asked = serde_json::from_value(json!({"spec": {"audiences": [], "expirationSeconds": 3600}}))?;
    let given = accounts
        .create_token_request(JOIN_ACCOUNT, &PostParams::default(), &asked)
        .await?;
    let token = given.status.context("no token")?.token;
    let terms = json!({"cluster": CLUSTER, "serial": serial, "method": method});
    let kubeconfig = json!({
        "current-context": "hub",
        "clusters": [{"name": "hub", "cluster": {"server": "https://hub.example.com"}}],
        "users": [{"name": "invited", "user": {"token": token}}],
        "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "invited",
            "extensions": [{"name": EXTENSION, "extension": terms}]}}]});
    Ok(Invitation::from_yaml(&kubeconfig.to_string())?)
}

/// A Cluster that nobody has invited yet.
pub(crate) async fn registered(hub: &Client) -> Result<()> {
    let mut cluster = Cluster::new(CLUSTER, ClusterSpec::default());
    cluster.metadata.labels = Some([("region".to_owned(), "east".to_owned())].into());
    let clusters: Api<Cluster> = Api::all(hub.clone());
    clusters.create(&PostParams::default(), &cluster).await?;
    Ok(())
}

/// Runs the hub as its service account.
pub(crate) fn run_hub(
    hub: &Installed,
    identity: IdentityMethod,
    clock: &SharedClock,
    stop: &CancellationToken,
) {
    let options = HubOptions {
        application: ApplicationOptions {
            tenancy: Tenancy::Namespace,
            ..ApplicationOptions::default()
        },
        cluster: ClusterOptions {
            identity,
            ..ClusterOptions::default()
        },
        ..HubOptions::default()
    };
    tokio::spawn(run::run(
        hub.account.clone(),
        options,
        clock.clone(),
        stop.clone(),
    ));
}

pub(crate) fn clock() -> Result<SharedClock> {
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse()?;
    Ok(Arc::new(TokioClock::starting_at(epoch)))
}
