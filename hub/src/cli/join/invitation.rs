//! What an agent is invited with: a kubeconfig of the hub that says what it is for.

use crate::cli::Failure;
use base64::{Engine, engine::general_purpose::STANDARD};
use kube::Config;
use roundhouse_api::names::ClusterName;
use serde_json::{Value, json};
use std::path::Path;

/// Where agents reach the hub, and how they know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hub {
    /// `https://host:port`.
    pub(super) url: String,
    /// The certificates that it is known by, PEM; empty where they are those that everybody knows.
    pub(super) ca: String,
    /// Its name in TLS, where that is not the host's.
    pub(super) server_name: Option<String>,
}

impl Hub {
    /// As the kubeconfig of the one who invites has it, where nothing else is said.
    ///
    /// # Errors
    /// There is no way by which the hub would be known, or the file cannot be read.
    pub(super) fn of(config: &Config, url: Option<&str>, ca: Option<&Path>) -> Result<Hub, Failure> {
        let ca = match ca {
            Some(file) => std::fs::read_to_string(file).map_err(|error| {
                Failure::new("E-CA", format!("{} cannot be read", file.display()))
                    .because(error)
                    .advise("a file with the certificates that the hub is known by, PEM")
            })?,
            None if config.accept_invalid_certs => {
                return Err(Failure::new(
                    "E-CA",
                    "the kubeconfig takes any hub for the right one; an agent must not",
                )
                .advise("--hub-ca FILE, with the certificates that the hub is known by, PEM"));
            }
            None => config.root_cert.iter().flatten().map(|der| pem(der)).collect(),
        };
        let url = url.map_or_else(|| config.cluster_url.to_string(), str::to_owned);
        Ok(Hub {
            url: url.trim_end_matches('/').to_owned(),
            ca,
            server_name: config.tls_server_name.clone(),
        })
    }

    /// Whether only this machine reaches it there.
    pub(super) fn is_here_only(&self) -> bool {
        let host = self.url.split("://").nth(1).unwrap_or_default();
        ["127.", "localhost", "[::1]"]
            .iter()
            .any(|here| host.starts_with(here))
    }
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in text.as_bytes().chunks(64) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

/// An invitation: the kubeconfig, with an extension `roundhouse.dev/join` of its context that says whom it is for.
pub(super) fn kubeconfig(hub: &Hub, cluster: &ClusterName, serial: u32, method: &str, token: &str) -> Value {
    let mut server = json!({"server": hub.url});
    if !hub.ca.is_empty() {
        server["certificate-authority-data"] = STANDARD.encode(&hub.ca).into();
    }
    if let Some(name) = &hub.server_name {
        server["tls-server-name"] = name.as_str().into();
    }
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hub", "cluster": server}],
        "users": [{"name": "invited", "user": {"token": token}}],
        "contexts": [{"name": "hub", "context": {
            "cluster": "hub", "user": "invited", "namespace": cluster.namespace(),
            "extensions": [{"name": "roundhouse.dev/join", "extension": {
                "cluster": cluster.as_str(), "serial": serial, "method": method}}],
        }}],
        "current-context": "hub",
    })
}

/// The same as one word, for a command line.
pub(super) fn word(kubeconfig: &Value) -> String {
    STANDARD.encode(kubeconfig.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invitation_is_a_kubeconfig_that_says_whom_it_is_for() {
        let hub = Hub {
            url: "https://hub.example.org:6443".into(),
            ca: pem(&[7; 100]),
            server_name: None,
        };
        let cluster = ClusterName::new("c1").unwrap();
        let text = kubeconfig(&hub, &cluster, 42, "certificate", "t0ken");
        let read = kube::config::Kubeconfig::from_yaml(&text.to_string()).unwrap();
        let context = read.contexts[0].context.as_ref().unwrap();
        assert_eq!(context.namespace.as_deref(), Some("cluster-c1"));
        let extension = &context.extensions.as_ref().unwrap()[0];
        assert_eq!(extension.name, "roundhouse.dev/join");
        assert_eq!(extension.extension["serial"], 42);
        let server = read.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(server.server.as_deref(), Some("https://hub.example.org:6443"));
        let ca = STANDARD
            .decode(server.certificate_authority_data.as_ref().unwrap())
            .unwrap();
        assert!(ca.starts_with(b"-----BEGIN CERTIFICATE-----\n"));
        assert_eq!(STANDARD.decode(word(&text)).unwrap(), text.to_string().as_bytes());
        assert!(!hub.is_here_only());
    }
}
