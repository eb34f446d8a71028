//! Whether the tenancy of the hub admits what an application contains.

use super::{cache::Stored, error::PassError, pass::Hub};
use crate::{
    render::{self, Rendered},
    tenancy::{self, AllowList, Tenancy},
};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt};
use roundhouse_api::application::{ValidApplication, Violation};
use std::time::Duration;

/// Namespaces are not watched: this is how soon an application that was refused sees that it is allowed.
pub(super) const ADMIT_AGAIN: Duration = Duration::from_secs(30);

impl Hub {
    /// What an application contains that it may not. The hub's Namespace is read only where the rules alone refuse.
    pub(super) async fn admit(
        &self,
        app: &Stored,
        valid: &ValidApplication,
        rendered: &Rendered,
    ) -> Result<Vec<Violation>, PassError> {
        if self.tenancy == Tenancy::Open {
            return Ok(Vec::new());
        }
        let variants = render::variants(&app.namespace, &app.name, valid);
        let judge =
            |allowed: &AllowList| tenancy::violations(&app.namespace, valid, rendered, &variants, allowed);
        let violations = judge(&AllowList::default());
        if violations.is_empty() {
            return Ok(violations);
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = namespaces.get_opt(&app.namespace).await.map_err(|error| {
            let title = format!("{}/{}", app.namespace, app.name);
            PassError::api(&title, format!("reading Namespace {}", app.namespace), error)
        })?;
        Ok(match namespace {
            Some(namespace) => judge(&AllowList::of(namespace.annotations())),
            None => violations,
        })
    }
}
