//! The application that a verb is about.

use super::{Failure, hub};
use crate::words;
use kube::{
    Api, Client, Error, ResourceExt,
    api::{DynamicObject, ListParams},
    core::ApiResource,
};
use roundhouse_api::application::{Application, ApplicationStatus};
use serde_json::Value;
use std::path::PathBuf;

/// An application on a hub.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Subject {
    /// Name of the application
    #[arg(value_name = "APP")]
    pub(super) application: String,
    /// Namespace of the application
    #[arg(short, long, value_name = "NS", default_value = "default")]
    pub(super) namespace: String,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    pub(super) kubeconfig: Option<PathBuf>,
}

impl Subject {
    /// A client for the hub.
    pub(super) async fn connect(&self) -> Result<Client, Failure> {
        hub::connect(self.kubeconfig.as_deref()).await
    }

    /// The Applications of its namespace, with their fields as they are.
    pub(super) fn api(&self, client: &Client) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<Application>(&());
        Api::namespaced_with(client.clone(), &self.namespace, &resource)
    }

    /// Reads it.
    ///
    /// # Errors
    /// There is none of that name (the others are named), or the hub cannot be asked.
    pub(super) async fn read(&self, client: &Client) -> Result<DynamicObject, Failure> {
        let api = self.api(client);
        match api.get_opt(&self.application).await {
            Ok(Some(application)) => Ok(application),
            Ok(None) => Err(self.absent(&api).await),
            Err(error) => Err(self.unread(error)),
        }
    }

    /// There is no such application.
    pub(super) async fn absent(&self, api: &Api<DynamicObject>) -> Failure {
        let failure = Failure::new(
            "E-APPLICATION",
            format!("there is no application {}", self.title()),
        );
        let list = match api.list_metadata(&ListParams::default()).await {
            Ok(list) => list,
            Err(error) if hub::is_unknown(&error) => {
                return Failure::new("E-HUB", "this API server has no Applications: it is no hub")
                    .because(format!("application {} was asked for", self.title()))
                    .advise("--kubeconfig F of the hub; this one may be of a cluster");
            }
            Err(_) => return failure.advise("-n with another namespace"),
        };
        let names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
        match names.is_empty() {
            true => failure
                .because(format!("namespace {} has no applications", self.namespace))
                .advise("-n with another namespace, or --kubeconfig of another hub"),
            false => failure
                .because(format!(
                    "the applications of namespace {} are {}",
                    self.namespace,
                    hub::listed(&names)
                ))
                .advise("one of them, or -n with another namespace"),
        }
    }

    /// The hub cannot be asked about it.
    pub(super) fn unread(&self, error: Error) -> Failure {
        let failure = Failure::new("E-HUB", format!("application {} cannot be read", self.title()));
        hub::refused(failure, error).advise("kubectl get applications with the same kubeconfig")
    }

    /// `<namespace>/<name>`.
    pub(super) fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.application)
    }

    /// A command on this application, as it can be typed.
    pub(super) fn command(&self, verb: &str) -> String {
        words::command(verb, &self.namespace, &self.application)
    }
}

/// The status of an application as it is stored; what does not read counts as absent.
pub(super) fn status_of(application: &DynamicObject) -> ApplicationStatus {
    let status = application.data.get("status").cloned().unwrap_or(Value::Null);
    serde_json::from_value(status).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use roundhouse_apiserver::Server;

    #[tokio::test]
    async fn where_applications_are_not_known_there_is_no_hub() {
        let client = Client::new(Server::builder().build().service(), "default");
        let subject = Subject {
            application: "web".to_owned(),
            namespace: "default".to_owned(),
            kubeconfig: None,
        };
        let read = async || subject.read(&client).await.unwrap_err().to_string();
        let failure = read().await;
        let start = "error: this API server has no Applications: it is no hub [E-HUB]\ncause: application default/web ";
        assert!(failure.starts_with(start), "{failure}");
        let options = crate::run::HubOptions::default();
        crate::run::install(&client, &options).await.unwrap();
        let failure = read().await;
        assert!(
            failure.starts_with("error: there is no application default/web [E-APPLICATION]"),
            "{failure}"
        );
    }
}
