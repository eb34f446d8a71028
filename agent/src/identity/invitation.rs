//! An invitation: the kubeconfig that `roundhouse join` gives, which says whom it is for.

use super::error::IdentityError;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{Context, Kubeconfig};
use roundhouse_api::names::ClusterName;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::{Path, PathBuf};

/// Name of the extension of a context that makes a kubeconfig an invitation.
pub const EXTENSION: &str = "roundhouse.dev/join";

/// Longest invitation that is read, in bytes.
const MAX: u64 = 64 << 10;

/// What kind of credential an agent gets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A client certificate, for a key that only the agent has.
    #[default]
    Certificate,
    /// Tokens of the agent's ServiceAccount on the hub, where the hub signs no certificates.
    Token,
}

/// The extension [`EXTENSION`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// The cluster that is invited.
    pub cluster: ClusterName,
    /// The serial of the identity that is to be asked for; it counts from 1.
    pub serial: u32,
    /// How it is asked for.
    #[serde(default)]
    pub method: Method,
}

/// An invitation that was read.
#[derive(Clone)]
pub struct Invitation {
    pub(crate) terms: Terms,
    pub(crate) kubeconfig: Kubeconfig,
    /// The hub's address and authority, as the identity keeps them.
    pub(crate) hub: kube::config::Cluster,
    /// The sha256 of its text: which one it is.
    pub(crate) digest: String,
}

impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Never its token.
        f.debug_struct("Invitation")
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}

impl Invitation {
    /// Reads a kubeconfig with the extension [`EXTENSION`] in its current context.
    ///
    /// # Errors
    /// [`IdentityError::Invitation`] says what is wrong with it.
    pub fn from_yaml(text: &str) -> Result<Self, IdentityError> {
        let kubeconfig =
            Kubeconfig::from_yaml(text).map_err(|error| wrong(format!("is no kubeconfig: {error}")))?;
        let context = current(&kubeconfig).ok_or_else(|| wrong("has no current context"))?;
        let extension = context.extensions.iter().flatten().find(|e| e.name == EXTENSION);
        let Some(extension) = extension else {
            return Err(wrong(format!(
                "has no extension {EXTENSION} in its current context"
            )));
        };
        let terms = Terms::deserialize(&extension.extension)
            .map_err(|error| wrong(format!("says in {EXTENSION} what is not understood: {error}")))?;
        if terms.serial == 0 {
            return Err(wrong("has the serial 0, and serials count from 1"));
        }
        let named = kubeconfig
            .clusters
            .iter()
            .find(|named| named.name == context.cluster);
        let Some(hub) = named.and_then(|named| named.cluster.clone()) else {
            return Err(wrong(format!(
                "does not have the cluster {:?} of its context",
                context.cluster
            )));
        };
        if hub.server.is_none() {
            return Err(wrong("does not say where the hub is"));
        }
        // The identity that comes of it must hold when this file is gone.
        if hub.certificate_authority.is_some() {
            return Err(wrong(
                "names a file for the hub's authority where it should contain it",
            ));
        }
        Ok(Invitation {
            terms,
            hub,
            digest: roundhouse_api::hash::sha256(text.as_bytes()),
            kubeconfig,
        })
    }

    /// Reads the base64 of such a kubeconfig, as `roundhouse join` prints it.
    ///
    /// # Errors
    /// [`IdentityError::Invitation`] says what is wrong with it.
    pub fn from_base64(text: &str) -> Result<Self, IdentityError> {
        let compact: String = text.split_whitespace().collect();
        let bytes = STANDARD
            .decode(compact)
            .map_err(|_| wrong("is not base64: it was cut or changed on the way"))?;
        let yaml = String::from_utf8(bytes).map_err(|_| wrong("is no text"))?;
        Invitation::from_yaml(&yaml)
    }
}

fn wrong(why: impl Into<String>) -> IdentityError {
    IdentityError::Invitation { why: why.into() }
}

/// The current context, or the only one.
fn current(kubeconfig: &Kubeconfig) -> Option<&Context> {
    let contexts = &kubeconfig.contexts;
    let named = match (&kubeconfig.current_context, contexts.as_slice()) {
        (Some(current), _) => contexts.iter().find(|named| named.name == *current)?,
        (None, [only]) => only,
        (None, _) => return None,
    };
    named.context.as_ref()
}

/// Where an invitation comes from.
#[derive(Debug, Clone)]
pub enum Source {
    /// There is none: the identity that is stored has to do.
    None,
    /// One that was given whole.
    Given(Box<Invitation>),
    /// One that was given and is none, and what is wrong with it.
    Wrong(String),
    /// A file, which is read again and again: a new invitation may be put there at any time.
    File(PathBuf),
}

impl Source {
    /// What was given in one line of base64, as `roundhouse join` prints it. What is wrong with it is said by who reads it: an agent
    /// that has an identity needs none.
    pub fn given(text: &str) -> Source {
        match Invitation::from_base64(text) {
            Ok(invitation) => Source::Given(Box::new(invitation)),
            Err(IdentityError::Invitation { why }) => Source::Wrong(why),
            Err(error) => Source::Wrong(error.to_string()),
        }
    }

    /// The invitation, if there is one at the moment.
    ///
    /// # Errors
    /// If what was given, or the file that is there, cannot be read or is no invitation of `cluster`.
    pub(crate) fn read(&self, cluster: &ClusterName) -> Result<Option<Invitation>, IdentityError> {
        let invitation = match self {
            Source::None => return Ok(None),
            Source::Given(invitation) => (**invitation).clone(),
            Source::Wrong(why) => return Err(wrong(why)),
            Source::File(path) => match text(path)? {
                Some(text) => Invitation::from_yaml(&text)?,
                None => return Ok(None),
            },
        };
        if invitation.terms.cluster != *cluster {
            return Err(IdentityError::OtherCluster {
                invited: invitation.terms.cluster.to_string(),
                cluster: cluster.to_string(),
            });
        }
        Ok(Some(invitation))
    }
}

/// The text of a file; `None` if there is none.
fn text(path: &Path) -> Result<Option<String>, IdentityError> {
    let failed = |source| IdentityError::File {
        path: path.to_owned(),
        source,
    };
    match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(metadata) if metadata.len() > MAX => return Err(wrong("is longer than 64 KiB")),
        Ok(_) => {}
    }
    std::fs::read_to_string(path).map(Some).map_err(failed)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// An invitation as the hub writes it.
    pub(crate) fn kubeconfig(cluster: &str, serial: u32, method: &str) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "hub",
            "clusters": [{"name": "hub", "cluster": {"server": "https://hub.example.com:6443",
                "certificate-authority-data": "Y2E="}}],
            "users": [{"name": "join", "user": {"token": format!("join-{serial}")}}],
            "contexts": [{"name": "hub", "context": {"cluster": "hub", "user": "join",
                "extensions": [{"name": EXTENSION,
                    "extension": {"cluster": cluster, "serial": serial, "method": method}}]}}],
        })
    }

    pub(crate) fn invitation(serial: u32, method: Method) -> Invitation {
        let method = if method == Method::Token {
            "token"
        } else {
            "certificate"
        };
        Invitation::from_yaml(&kubeconfig("c1", serial, method).to_string()).unwrap()
    }

    #[test]
    fn an_invitation_is_read_from_text_and_from_one_line() {
        let yaml = "apiVersion: v1\nkind: Config\ncurrent-context: hub\nclusters:\n- name: hub\n  cluster: \
                    {server: 'https://hub:6443'}\nusers:\n- name: join\n  user: {token: t}\ncontexts:\n- name: hub\n  \
                    context:\n    cluster: hub\n    user: join\n    extensions:\n    - name: roundhouse.dev/join\n      \
                    extension: {cluster: c1, serial: 3}\n";
        let read = Invitation::from_yaml(yaml).unwrap();
        let line = Invitation::from_base64(&format!(" {}\n", STANDARD.encode(yaml))).unwrap();
        assert_eq!(read.terms, line.terms);
        assert_eq!((read.terms.cluster.as_str(), read.terms.serial), ("c1", 3));
        assert_eq!(read.terms.method, Method::Certificate);
        assert!(!format!("{read:?}").contains("token"), "{read:?}");
    }

    #[test]
    fn what_is_no_invitation_is_refused_with_what_is_wrong() {
        let changed = |pointer: &str, value: Value| {
            let mut kubeconfig = kubeconfig("c1", 3, "certificate");
            *kubeconfig.pointer_mut(pointer).unwrap() = value;
            kubeconfig.to_string()
        };
        let terms = "/contexts/0/context/extensions/0";
        for (text, why) in [
            ("- a\n- b".to_owned(), "is no kubeconfig"),
            (
                changed("/current-context", json!("other")),
                "has no current context",
            ),
            (changed(&format!("{terms}/name"), json!("x")), "has no extension"),
            (
                changed(&format!("{terms}/extension/serial"), json!(0)),
                "serial 0",
            ),
            (
                changed(&format!("{terms}/extension/cluster"), json!("C_1")),
                "not understood",
            ),
            (
                changed(&format!("{terms}/extension/method"), json!("magic")),
                "not understood",
            ),
            (
                changed("/contexts/0/context/cluster", json!("x")),
                "does not have the cluster",
            ),
            (changed("/clusters/0/cluster", json!({})), "where the hub is"),
            (
                changed(
                    "/clusters/0/cluster",
                    json!({"server": "https://h", "certificate-authority": "ca.crt"}),
                ),
                "names a file",
            ),
        ] {
            let error = Invitation::from_yaml(&text).unwrap_err().to_string();
            assert!(
                error.contains(why) && error.contains("roundhouse join"),
                "{why}: {error}"
            );
        }
        let error = Invitation::from_base64("%%").unwrap_err().to_string();
        assert!(error.contains("base64"), "{error}");
    }

    #[test]
    fn a_file_may_come_later_and_is_of_this_cluster() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("invitation.yaml");
        let source = Source::File(path.clone());
        let cluster = ClusterName::new("c1").unwrap();
        assert!(source.read(&cluster).unwrap().is_none());
        std::fs::write(&path, kubeconfig("c1", 2, "token").to_string()).unwrap();
        let read = source.read(&cluster).unwrap().unwrap();
        assert_eq!((read.terms.serial, read.terms.method), (2, Method::Token));
        let other = source
            .read(&ClusterName::new("c2").unwrap())
            .unwrap_err()
            .to_string();
        assert!(other.contains("c1") && other.contains("c2"), "{other}");
    }
}
