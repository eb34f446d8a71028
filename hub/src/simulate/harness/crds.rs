//! Installs CustomResourceDefinitions.

use super::HarnessError;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client, ResourceExt,
    api::PostParams,
    runtime::{conditions::is_crd_established, wait::await_condition},
};
use std::time::Duration;

/// How long a server may take to serve a definition.
const ESTABLISHED: Duration = Duration::from_secs(10);

/// Creates the definitions that are not there, and waits until each is served.
///
/// # Errors
/// The server refuses one, or does not serve it in time.
pub async fn install(client: &Client, definitions: &[CustomResourceDefinition]) -> Result<(), HarnessError> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in definitions {
        let name = definition.name_any();
        match api.create(&PostParams::default(), definition).await {
            Err(kube::Error::Api(answer)) if answer.is_already_exists() => {}
            Err(error) => return Err(HarnessError::api(format!("creating definition {name}"))(error)),
            Ok(_) => {}
        }
        let served = await_condition(api.clone(), &name, is_crd_established());
        if tokio::time::timeout(ESTABLISHED, served).await.is_err() {
            let late = std::io::Error::from(std::io::ErrorKind::TimedOut);
            let what = format!("waiting until definition {name} is served");
            return Err(HarnessError::api(what)(kube::Error::Service(late.into())));
        }
    }
    Ok(())
}
