//! TLS ports for hub and members, with kubeconfigs to look around.

use crate::{
    endpoint::{Endpoint, EndpointError, make_private_directory},
    simulate::{Fleet, HarnessError},
};
use roundhouse_apiserver::{Authority, Identity, Server};
use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

/// Why hub and members cannot be reached from outside.
#[derive(Debug, thiserror::Error)]
pub(super) enum AccessError {
    /// A port or a file.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A server that is not ours to open.
    #[error(transparent)]
    Harness(#[from] HarnessError),
}

/// Open ports and the kubeconfigs written for them.
pub(super) struct Access {
    pub(super) hub: PathBuf,
    pub(super) members: BTreeMap<String, PathBuf>,
    pub(super) hub_url: String,
    directory: PathBuf,
    is_ours: bool,
    endpoints: Vec<Endpoint>,
}

impl Access {
    /// Opens a port for each server and writes the kubeconfigs into `directory`, or into a new temporary one.
    pub(super) async fn open(fleet: &Fleet, directory: Option<&Path>) -> Result<Access, AccessError> {
        let (directory, is_ours) = match directory {
            // The printed paths hold wherever they are pasted.
            Some(directory) => (
                std::path::absolute(directory).unwrap_or_else(|_| directory.to_owned()),
                false,
            ),
            None => {
                let name = format!("roundhouse-demo-{}", std::process::id());
                (std::env::temp_dir().join(name), true)
            }
        };
        make_private_directory(&directory)?;
        let mut access = Access {
            hub: directory.join("hub.kubeconfig"),
            members: BTreeMap::new(),
            hub_url: String::new(),
            directory,
            is_ours,
            endpoints: Vec::new(),
        };
        let hub = access.hub.clone();
        access.hub_url = access.add(fleet, fleet.hub_server()?, "hub", &hub).await?;
        for name in fleet.members() {
            let path = access.directory.join(format!("{name}.kubeconfig"));
            access
                .add(fleet, fleet.member_server(&name)?, &name, &path)
                .await?;
            access.members.insert(name, path);
        }
        Ok(access)
    }

    async fn add(
        &mut self,
        fleet: &Fleet,
        server: &Server,
        context: &str,
        path: &Path,
    ) -> Result<String, EndpointError> {
        let clock = fleet.options().clock.clone();
        let authority = Authority::generate(clock.now())?;
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        let endpoint = Endpoint::open(server.clone(), address, &[], authority, clock).await?;
        endpoint.write_kubeconfig(path, context, &Identity::admin())?;
        let url = endpoint.url().to_owned();
        self.endpoints.push(endpoint);
        Ok(url)
    }
}

impl Drop for Access {
    /// The ports close by themselves; kubeconfigs in a temporary directory go with them.
    fn drop(&mut self) {
        if self.is_ours
            && let Err(error) = std::fs::remove_dir_all(&self.directory)
        {
            tracing::debug!(%error, directory = %self.directory.display(), "the demo's directory was not removed");
        }
    }
}
