//! Where an agent keeps its identity.

use super::error::IdentityError;
use super::stored::Stored;
use crate::error::Fault;
use crate::file::{self, Durable};
use crate::member::{found, within};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use roundhouse_api::names::{AGENT_FIELD_MANAGER, ClusterName};
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The file in a directory, and the key in a Secret.
pub const DOCUMENT: &str = "identity.json";
/// A call to the member that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where an identity is kept.
#[derive(Clone)]
pub enum Place {
    /// A directory that only this agent reads: mode 0700, its file 0600.
    Directory(PathBuf),
    /// A Secret of the member cluster.
    Secret {
        /// A client of the member.
        client: Client,
        /// Namespace of the Secret.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// Nowhere that lasts.
    #[cfg(test)]
    Memory(std::sync::Arc<parking_lot::Mutex<Option<Vec<u8>>>>),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Directory(directory) => write!(f, "{}", directory.join(DOCUMENT).display()),
            Place::Secret { namespace, name, .. } => write!(f, "Secret {namespace}/{name}"),
            #[cfg(test)]
            Place::Memory(_) => write!(f, "memory"),
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Place {
    /// What is kept here for `cluster`; nothing, if nothing is.
    ///
    /// # Errors
    /// If it cannot be read, or is of another cluster.
    pub(crate) async fn load(&self, cluster: &ClusterName) -> Result<Stored, IdentityError> {
        let bytes = match self {
            #[cfg(test)]
            Place::Memory(bytes) => bytes.lock().clone(),
            Place::Directory(directory) => {
                let path = directory.join(DOCUMENT);
                file::read(&path).map_err(|source| IdentityError::File { path, source })?
            }
            Place::Secret {
                client,
                namespace,
                name,
            } => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                let secret = found(within(TIMEOUT, api.get(name)).await)
                    .map_err(|error| IdentityError::call("reading the Secret of the identity", &error))?;
                let data = secret.and_then(|secret| secret.data);
                data.and_then(|mut data| data.remove(DOCUMENT))
                    .map(|bytes| bytes.0)
            }
        };
        match bytes {
            Some(bytes) => Stored::parse(&bytes, &self.to_string(), cluster),
            None => Ok(Stored::default()),
        }
    }

    /// Keeps `stored`, wholly or not at all; when this has answered, it outlives a crash.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(crate) async fn store(&self, stored: &Stored) -> Result<(), IdentityError> {
        let bytes = serde_json::to_vec(stored).map_err(|error| IdentityError::Stored {
            place: self.to_string(),
            why: error.to_string(),
        })?;
        match self {
            #[cfg(test)]
            Place::Memory(kept) => {
                *kept.lock() = Some(bytes);
                Ok(())
            }
            Place::Directory(directory) => {
                file::replace(directory, DOCUMENT, &bytes, Durable::Yes).map_err(|source| {
                    IdentityError::File {
                        path: directory.join(DOCUMENT),
                        source,
                    }
                })
            }
            Place::Secret {
                client,
                namespace,
                name,
            } => {
                let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
                keep(&api, name, bytes)
                    .await
                    .map_err(|error| IdentityError::call("writing the Secret of the identity", &error))
            }
        }
    }
}

/// What else is in the Secret, and its labels, is somebody else's.
async fn keep(api: &Api<Secret>, name: &str, bytes: Vec<u8>) -> Result<(), crate::error::CallError> {
    let bytes = ByteString(bytes);
    let patch = Patch::Merge(json!({"data": {DOCUMENT: bytes}}));
    let params = PatchParams {
        field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match within(TIMEOUT, api.patch_metadata(name, &params, &patch)).await {
        Err(error) if error.fault() == Fault::NotFound => {}
        answer => return answer.map(|_| ()),
    }
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        data: Some(BTreeMap::from([(DOCUMENT.to_owned(), bytes)])),
        ..Secret::default()
    };
    let params = PostParams {
        field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    within(TIMEOUT, api.create(&params, &secret)).await.map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::stored::{Identity, Pending};
    use crate::identity::tests::identity;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn cluster() -> ClusterName {
        ClusterName::new("c1").unwrap()
    }

    fn stored(serial: u32) -> Stored {
        Stored {
            identity: Some(Identity { serial, ..identity() }),
            pending: Some(Pending {
                serial,
                key: "k".to_owned(),
                request: "r".to_owned(),
            }),
        }
    }

    async fn keeps(place: &Place) {
        assert!(place.load(&cluster()).await.unwrap().identity.is_none());
        for serial in [1, 2] {
            place.store(&stored(serial)).await.unwrap();
            let loaded = place.load(&cluster()).await.unwrap();
            assert_eq!(loaded.identity.unwrap().serial, serial);
            assert_eq!(loaded.pending.unwrap().serial, serial);
        }
        let other = place
            .load(&ClusterName::new("c2").unwrap())
            .await
            .unwrap_err()
            .to_string();
        assert!(other.contains("c1") && other.contains("c2"), "{other}");
    }

    #[tokio::test]
    async fn a_directory_keeps_it_for_nobody_else() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("a/b");
        let place = Place::Directory(directory.clone());
        // What a crash left, readable by all.
        keeps(&place).await;
        std::fs::write(directory.join(".identity.json.new"), "torn").unwrap();
        place.store(&stored(3)).await.unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&directory), 0o700);
        assert_eq!(mode(&directory.join(DOCUMENT)), 0o600);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
        std::fs::write(directory.join(DOCUMENT), "{\"key\": \"hush\"").unwrap();
        let error = place.load(&cluster()).await.unwrap_err().to_string();
        assert!(error.contains(DOCUMENT) && !error.contains("hush"), "{error}");
    }

    #[tokio::test]
    async fn a_secret_keeps_it_beside_what_is_there() {
        let server = roundhouse_apiserver::Server::builder().seed(1).build();
        let client = Client::new(server.service(), "default");
        let place = |name: &str| Place::Secret {
            client: client.clone(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        };
        keeps(&place("made")).await;
        let api: Api<Secret> = Api::namespaced(client.clone(), "default");
        let charted = Secret {
            metadata: ObjectMeta {
                name: Some("charted".to_owned()),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([("other".to_owned(), ByteString(b"x".to_vec()))])),
            ..Secret::default()
        };
        api.create(&PostParams::default(), &charted).await.unwrap();
        keeps(&place("charted")).await;
        let data = api.get("charted").await.unwrap().data.unwrap();
        assert_eq!(data.keys().collect::<Vec<_>>(), [DOCUMENT, "other"]);
    }
}
