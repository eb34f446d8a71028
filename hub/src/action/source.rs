//! What actions read of the hub's API: Secrets for addresses and headers, and the Application itself.

use super::{Job, runner::Means};
use crate::words::said;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, api::DynamicObject, core::ApiResource};
use roundhouse_api::application::{Application, SecretKey, TextSource};
use serde_json::Value;

/// A text, and whether it came out of a Secret.
pub(super) struct Text {
    pub(super) value: String,
    pub(super) secret: bool,
}

/// Reads what a text is.
///
/// # Errors
/// The Secret, its key or its content is missing; the content is never shown.
pub(super) async fn text(means: &Means, job: &Job, of: &TextSource) -> Result<Text, String> {
    match of {
        TextSource::Plain(text) => Ok(Text {
            value: text.clone(),
            secret: false,
        }),
        TextSource::Secret(SecretKey { name, key }) => {
            let namespace = &job.application.namespace;
            let api: Api<Secret> = Api::namespaced(means.client.clone(), namespace);
            let title = format!("Secret {namespace}/{name}");
            let found = api.get_opt(name).await;
            let found = found.map_err(|error| format!("reading {title} failed: {}", said(&error)))?;
            let found =
                found.ok_or_else(|| format!("{title} does not exist: create it, or correct its name"))?;
            let value = found.data.as_ref().and_then(|data| data.get(key));
            let value =
                value.ok_or_else(|| format!("{title} has no key {key:?}: add it, or correct the key"))?;
            let value = String::from_utf8(value.0.clone());
            let value = value.map_err(|_| format!("{title}, key {key:?}, is no text"))?;
            Ok(Text {
                // Files end with a line break, and so do Secrets made of them.
                value: value.trim_end_matches(['\r', '\n']).to_owned(),
                secret: true,
            })
        }
    }
}

/// What a text is called in a message.
pub(super) fn title(of: &TextSource) -> String {
    match of {
        TextSource::Plain(_) => "it".to_owned(),
        TextSource::Secret(SecretKey { name, key }) => format!("the value of Secret {name}, key {key:?},"),
    }
}

/// The Application as it is stored, without what the API server notes about its writers.
///
/// # Errors
/// It cannot be read, or is another one by now.
pub(super) async fn application(means: &Means, job: &Job) -> Result<Value, String> {
    let reference = &job.application;
    let resource = ApiResource::erase::<Application>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(means.client.clone(), &reference.namespace, &resource);
    let title = format!("Application {}/{}", reference.namespace, reference.name);
    let found = api.get_opt(&reference.name).await;
    let found = found.map_err(|error| format!("reading {title} failed: {}", said(&error)))?;
    let own = found.filter(|found| found.metadata.uid.as_deref() == Some(reference.uid.as_str()));
    let mut own = own.ok_or_else(|| format!("{title} is gone"))?;
    own.metadata.managed_fields = None;
    serde_json::to_value(own).map_err(|error| format!("{title} does not read: {error}"))
}
