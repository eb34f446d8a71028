//! Calls to the member's API, on plain JSON: whatever the kind, nothing of an object is lost in between.

use crate::apply::deletions::{Deletions, another_version};
use crate::apply::unchanged::Fingerprint;
use crate::error::{CallError, Fault};
use crate::executor::Account;
use crate::kinds::Kind;
use crate::object::{self, ObjectKey};
use crate::secrecy;
use kube::Client;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions, Request};
use kube::core::{DynamicObject, Resource};
use roundhouse_api::names::AGENT_FIELD_MANAGER;
use roundhouse_patch::PatchType;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// What a look at an object found.
#[derive(Debug)]
pub(crate) enum Sighting {
    /// There is none.
    Missing,
    /// The answer is the one that was known.
    Known,
    /// The object, and its answer.
    Live(Value, Fingerprint),
}

/// A member's API.
#[derive(Clone)]
pub(crate) struct Member {
    client: Client,
    timeout: Duration,
    /// Whom calls act as; `None`: the agent itself.
    account: Option<Account>,
    /// What was asked to be deleted, on whosever behalf.
    deletions: Arc<Deletions>,
}

impl Member {
    pub(crate) fn new(client: Client, timeout: Duration) -> Self {
        Member {
            client,
            timeout,
            account: None,
            deletions: Arc::default(),
        }
    }

    /// The same API, on behalf of an account.
    pub(crate) fn on_behalf_of(&self, account: Option<Account>) -> Self {
        Member {
            account,
            ..self.clone()
        }
    }

    /// Requests to delete objects that may still arrive.
    pub(crate) fn deletions(&self) -> &Deletions {
        &self.deletions
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    fn request(kind: &Kind, key: &ObjectKey) -> Request {
        let namespace = (!key.namespace.is_empty()).then_some(key.namespace.as_str());
        Request::new(DynamicObject::url_path(&kind.resource, namespace))
    }

    async fn call(
        &self,
        kind: &Kind,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<Value, CallError> {
        parse(&self.answer(kind, request).await?)
    }

    /// Makes a call; the body of its answer.
    async fn answer(
        &self,
        kind: &Kind,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<String, CallError> {
        let mut request = request.map_err(kube::Error::BuildRequest)?;
        if let Some(account) = &self.account {
            account.sign(request.headers_mut());
        }
        let mut answer = within(self.timeout, self.client.request_text(request)).await;
        if let Err(CallError::Kube(kube::Error::Api(status))) = &mut answer
            && secrecy::is_secret(kind)
        {
            secrecy::hush(status);
        }
        answer
    }

    /// The live object; `None` if there is none. A path that is not served is an error, and no word about the object.
    pub(crate) async fn get(&self, kind: &Kind, key: &ObjectKey) -> Result<Option<Value>, CallError> {
        let request = Self::request(kind, key).get(&key.name, &GetParams::default());
        found_or_missing(self.call(kind, request).await, key)
    }

    /// The live object, parsed only if the answer is not the known one.
    pub(crate) async fn look(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        known: Option<Fingerprint>,
    ) -> Result<Sighting, CallError> {
        let request = Self::request(kind, key).get(&key.name, &GetParams::default());
        let Some(text) = found_or_missing(self.answer(kind, request).await, key)? else {
            return Ok(Sighting::Missing);
        };
        let answer = Fingerprint::of(&text);
        if known == Some(answer) {
            return Ok(Sighting::Known);
        }
        Ok(Sighting::Live(parse(&text)?, answer))
    }

    /// Makes an object.
    pub(crate) async fn create(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        object: &Value,
    ) -> Result<Value, CallError> {
        let params = PostParams {
            field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        self.call(kind, Self::request(kind, key).create(&params, body))
            .await
    }

    /// Asks whether an object could be made, without storing it (`dryRun`).
    pub(crate) async fn try_create(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        object: &Value,
    ) -> Result<(), CallError> {
        let params = PostParams {
            dry_run: true,
            field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
        };
        let body = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        self.call(kind, Self::request(kind, key).create(&params, body))
            .await
            .map(|_| ())
    }

    /// Changes an object.
    pub(crate) async fn patch(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        patch: &Value,
        patch_type: PatchType,
    ) -> Result<Value, CallError> {
        let params = PatchParams {
            field_manager: Some(AGENT_FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = match patch_type {
            PatchType::Strategic => Patch::Strategic(patch),
            PatchType::Merge => Patch::Merge(patch),
        };
        self.call(kind, Self::request(kind, key).patch(&key.name, &params, &patch))
            .await
    }

    /// Applies a configuration on the server side.
    pub(crate) async fn apply(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        config: &Value,
        manager: &str,
        force: bool,
    ) -> Result<Value, CallError> {
        let params = PatchParams {
            field_manager: Some(manager.to_owned()),
            force,
            ..PatchParams::default()
        };
        self.call(
            kind,
            Self::request(kind, key).patch(&key.name, &params, &Patch::Apply(config)),
        )
        .await
    }

    /// Deletes an object if it is still as it was read, by uid and version: so no deletion that arrives late takes away what is
    /// wanted again, and nothing is decided on replicas that somebody has changed since. What it owns goes in the background. A
    /// missing object is as wanted.
    ///
    /// # Errors
    /// 409: it changed or was made anew since it was read, or something stands against it.
    pub(crate) async fn delete(&self, kind: &Kind, key: &ObjectKey, read: &Value) -> Result<(), CallError> {
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: object::uid(read).map(str::to_owned),
            resource_version: object::resource_version(read).map(str::to_owned),
        });
        self.deletions.sends(key, read);
        let answer = self
            .call(kind, Self::request(kind, key).delete(&key.name, &params))
            .await;
        if answer.as_ref().err().is_none_or(|error| error.says_missing(key)) {
            self.deletions.settled(key);
        }
        match answer {
            Err(error) if error.fault() != Fault::NotFound => Err(error),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Gives an object that was read another version, so that no deletion finds the one that it names; whether it has one now.
    ///
    /// # Errors
    /// 409: it changed since it was read; so it may have another version already.
    pub(crate) async fn outdate(
        &self,
        kind: &Kind,
        key: &ObjectKey,
        read: &Value,
    ) -> Result<bool, CallError> {
        let patch = another_version(read);
        let now = self.patch(kind, key, &patch, PatchType::Merge).await?;
        Ok(object::resource_version(&now) != object::resource_version(read))
    }
}

fn parse(text: &str) -> Result<Value, CallError> {
    serde_json::from_str(text).map_err(|error| CallError::Kube(kube::Error::SerdeError(error)))
}

/// Limits the time of a call.
pub(crate) async fn within<T>(
    timeout: Duration,
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, CallError> {
    match tokio::time::timeout(timeout, call).await {
        Ok(answer) => answer.map_err(CallError::Kube),
        Err(_) => Err(CallError::Timeout(timeout)),
    }
}

/// As [`found`], only if the answer is about this object.
fn found_or_missing<T>(answer: Result<T, CallError>, key: &ObjectKey) -> Result<Option<T>, CallError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.says_missing(key) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A missing object is an answer.
pub(crate) fn found<T>(answer: Result<T, CallError>) -> Result<Option<T>, CallError> {
    match answer {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.fault() == Fault::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
