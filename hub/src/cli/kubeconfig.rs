//! The kubeconfigs that a user names.

use super::Failure;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use std::path::Path;

/// How a kubeconfig is called where nobody has named it.
pub(super) fn title(file: Option<&Path>) -> String {
    match (file, std::env::var("KUBECONFIG")) {
        (Some(file), _) => file.display().to_string(),
        (None, Ok(files)) if !files.is_empty() => files,
        (None, _) => "~/.kube/config".to_owned(),
    }
}

/// The configuration of a client by the kubeconfig at `file`; without one by `$KUBECONFIG` or `~/.kube/config`, as
/// kubectl does.
pub(super) async fn config(file: Option<&Path>) -> Result<Config, Failure> {
    let failed = || match file {
        Some(file) => Failure::new("E-KUBECONFIG", format!("{} cannot be used", file.display()))
            .advise("kubectl --kubeconfig with this file, to see what it says"),
        None => Failure::new("E-KUBECONFIG", "no kubeconfig can be used").advise(
            "--kubeconfig F, or the environment variable KUBECONFIG; kubectl config view shows what is there",
        ),
    };
    let kubeconfig = match file {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let kubeconfig = kubeconfig.map_err(|error| failed().because(error))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .map_err(|error| failed().because(error))
}
