//! Steps that send requests, and what a hub's tenancy admits.

use crate::yard::serve;
use anyhow::Result;
use kube::{
    Api, Client,
    api::{DynamicObject, PostParams},
    core::ApiResource,
};
use roundhouse_api::{
    application::{ACCEPTED, Application, ApplicationStatus, StepPhase, StepStatus},
    condition,
};
use roundhouse_e2e::process::{Process, client, soon};
use serde_json::{Value, json};
use std::net::SocketAddr;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    sync::mpsc,
};

/// A receiver of webhooks on this machine, and the bodies that it got.
async fn receiver() -> Result<(SocketAddr, mpsc::UnboundedReceiver<Value>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (sender, bodies) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let mut stream = BufReader::new(stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                stream.read_line(&mut line).await?;
                if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse()?;
                }
                if line.trim().is_empty() {
                    break;
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).await?;
            sender.send(serde_json::from_slice(&body)?)?;
            let answer = "HTTP/1.1 202 Accepted\r\nContent-Type: application/json\r\nContent-Length: 11\r\n\r\n{\"id\": 417}";
            stream.write_all(answer.as_bytes()).await?;
        }
        anyhow::Ok(())
    });
    Ok((address, bodies))
}

struct Hub {
    _home: TempDir,
    _process: Process,
    client: Client,
}

impl Hub {
    async fn start(flags: &[&str]) -> Result<Hub> {
        let home = tempfile::tempdir()?;
        let verb = [&["serve", "--embedded"], flags].concat();
        let (process, admin) = serve(home.path(), "hub", &verb).await?;
        Ok(Hub {
            client: client(&admin).await?,
            _home: home,
            _process: process,
        })
    }

    async fn apply(&self, spec: Value) -> Result<()> {
        let resource = ApiResource::erase::<Application>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), "default", &resource);
        let object: DynamicObject = serde_json::from_value(json!({"apiVersion": "core.oam.dev/v1beta1",
            "kind": "Application", "metadata": {"name": "web"}, "spec": spec}))?;
        api.create(&PostParams::default(), &object).await?;
        Ok(())
    }

    /// Waits until the application's status is as `is` wants it.
    async fn until<T>(&self, what: &str, is: impl Fn(&ApplicationStatus) -> Option<T>) -> Result<T> {
        let api: Api<Application> = Api::namespaced(self.client.clone(), "default");
        soon(what, async || {
            let status = api.get("web").await?.status.unwrap_or_default();
            Ok(is(&status).ok_or(status))
        })
        .await
    }
}

fn calls(address: SocketAddr) -> Value {
    json!({
        "components": [{"name": "web", "type": "webservice", "properties": {"image": "nginx"}}],
        "workflow": {"steps": [
            {"name": "call", "type": "webhook", "properties": {"url": format!("http://{address}/hook"), "timeout": "5s"}},
            {"name": "ask", "type": "suspend", "if": "call.output.body.id == 417"},
            {"name": "deploy", "type": "deploy", "properties": {"placement": [{}]}}]}
    })
}

fn step<'s>(status: &'s ApplicationStatus, name: &str) -> Option<&'s StepStatus> {
    status.workflow.as_ref()?.step(name)
}

#[tokio::test]
async fn a_webhook_reaches_this_machine_where_the_hub_allows_it_and_its_answer_picks_the_next_step()
-> Result<()> {
    let (address, mut bodies) = receiver().await?;
    let hub = Hub::start(&["--egress-allow", "127.0.0.0/8"]).await?;
    hub.apply(calls(address)).await?;
    hub.until("the step behind the answer", |status| {
        let suspended = step(status, "ask")?.phase == StepPhase::Suspending;
        suspended.then_some(())
    })
    .await?;
    let body = bodies.recv().await.unwrap_or_default();
    assert_eq!(
        (&body["kind"], &body["metadata"]["name"]),
        (&json!("Application"), &json!("web"))
    );
    assert!(bodies.try_recv().is_err(), "it was called once");
    Ok(())
}

#[tokio::test]
async fn a_webhook_does_not_reach_this_machine_by_itself() -> Result<()> {
    let (address, mut bodies) = receiver().await?;
    let hub = Hub::start(&[]).await?;
    hub.apply(calls(address)).await?;
    let message = hub
        .until("the refusal", |status| {
            let message = step(status, "call")?.message.clone()?;
            message.contains("refused").then_some(message)
        })
        .await?;
    assert!(
        message.contains("127.0.0.1 is refused: 127.0.0.1 is loopback; an administrator of the hub may allow it with --egress-allow"),
        "{message}"
    );
    assert!(bodies.try_recv().is_err(), "nothing was sent");
    Ok(())
}

#[tokio::test]
async fn the_tenancy_of_a_hub_is_said_when_it_starts() -> Result<()> {
    let hub = Hub::start(&["--tenancy", "namespace"]).await?;
    hub.apply(json!({
        "components": [{"name": "web", "type": "k8s-objects", "properties": {"objects": [
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system"}}]}}],
        "policies": [{"name": "all", "type": "placement", "properties": {"placement": [{}]}}]
    }))
    .await?;
    let message = hub
        .until("the refusal", |status| {
            let accepted = condition::get(&status.conditions, ACCEPTED)?;
            (accepted.status == "False").then(|| accepted.message.clone())
        })
        .await?;
    assert!(
        message.contains("spec.components[0].properties.objects[0].kind: Namespace kube-system is not known to have a namespace"),
        "{message}"
    );
    Ok(())
}
