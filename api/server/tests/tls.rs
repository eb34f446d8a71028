//! Over the network: TLS, client certificates, kubeconfigs, shutdown.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot go on fails"
)]

use std::{os::unix::fs::PermissionsExt, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Config,
    api::{ListParams, WatchParams},
    config::{KubeConfigOptions, Kubeconfig as ClientConfig},
};
use roundhouse_apiserver::{Authority, Identity, Kubeconfig, Server, serve, system_clock, write_private};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::CancellationToken;

struct Running {
    authority: Authority,
    url: String,
    shutdown: CancellationToken,
    task: JoinHandle<std::io::Result<()>>,
}

async fn start() -> Running {
    let now = system_clock()();
    let made = Authority::generate(now).unwrap();
    // As after a restart.
    let authority = Authority::from_pem(made.certificate(), made.key()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let tls = authority
        .server_config(&["127.0.0.1".to_owned(), "localhost".to_owned()], now)
        .unwrap();
    let shutdown = CancellationToken::new();
    let task = tokio::spawn(serve(listener, Server::builder().build(), tls, shutdown.clone()));
    Running {
        authority,
        url,
        shutdown,
        task,
    }
}

impl Running {
    fn kubeconfig(&self, identity: &Identity) -> String {
        let now = system_clock()();
        let issued = self
            .authority
            .issue(identity, Duration::from_secs(3_600), now)
            .unwrap();
        Kubeconfig::new("test", &self.url, &self.authority, issued).to_string()
    }

    async fn client(&self, text: &str) -> Client {
        let config = ClientConfig::from_yaml(text).unwrap();
        Client::try_from(
            Config::from_custom_kubeconfig(config, &KubeConfigOptions::default())
                .await
                .unwrap(),
        )
        .unwrap()
    }
}

async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), future)
        .await
        .expect("no answer within twenty seconds")
}

fn code(error: kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn clients_are_who_their_certificate_says() {
    let running = start().await;
    let admin = running.client(&running.kubeconfig(&Identity::admin())).await;
    let spaces: Api<Namespace> = Api::all(admin);
    assert_eq!(
        within(spaces.list(&ListParams::default()))
            .await
            .unwrap()
            .items
            .len(),
        4
    );
    let agent = running
        .client(&running.kubeconfig(&Identity::agent("east")))
        .await;
    let spaces: Api<Namespace> = Api::all(agent);
    assert_eq!(
        code(within(spaces.list(&ListParams::default())).await.unwrap_err()),
        403
    );
    let full = running.kubeconfig(&Identity::admin());
    let without: String = full
        .lines()
        .filter(|l| !l.contains("client-"))
        .map(|l| format!("{l}\n"))
        .collect();
    let nobody = running.client(&without.replace("user:\n", "user: {}\n")).await;
    let spaces: Api<Namespace> = Api::all(nobody.clone());
    assert_eq!(
        code(within(spaces.list(&ListParams::default())).await.unwrap_err()),
        401
    );
    let health = http::Request::get("/readyz").body(vec![]).unwrap();
    assert_eq!(within(nobody.request_text(health)).await.unwrap(), "ok");
    let stranger = start().await;
    let other = Kubeconfig::new(
        "test",
        &running.url,
        &running.authority,
        stranger
            .authority
            .issue(&Identity::admin(), Duration::from_secs(3_600), system_clock()())
            .unwrap(),
    );
    let spaces: Api<Namespace> = Api::all(running.client(&other.to_string()).await);
    assert!(
        within(spaces.list(&ListParams::default())).await.is_err(),
        "another authority's certificate is refused"
    );
}

#[tokio::test]
async fn shutdown_ends_watches() {
    let running = start().await;
    let client = running.client(&running.kubeconfig(&Identity::admin())).await;
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut events = within(maps.watch(&WatchParams::default(), "0"))
        .await
        .unwrap()
        .boxed();
    running.shutdown.cancel();
    assert!(within(events.next()).await.is_none_or(|e| e.is_err()));
    within(running.task).await.unwrap().unwrap();
}

#[test]
fn private_files_are_private() {
    let directory = std::env::temp_dir().join(format!("roundhouse-{}", uuid::Uuid::new_v4()));
    std::fs::create_dir(&directory).unwrap();
    let path = directory.join("admin.kubeconfig");
    for text in ["one", "two"] {
        write_private(&path, text).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        assert_eq!(
            std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
            0o600
        );
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
