//! Objects that the hub keeps as they should be, read before they are written.

use super::ClusterError;
use crate::writes;
use kube::{Api, Error, ResourceExt};
use roundhouse_api::names::{annotation, label};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::fmt::Debug;

/// Objects of one kind, of one cluster.
pub(super) struct Kept<'a, K> {
    pub(super) api: Api<K>,
    pub(super) cluster: &'a str,
    /// What they are to people: `its Role`.
    pub(super) what: &'static str,
    /// The serial of the cluster that this is decided by; objects of a later one are left alone.
    pub(super) serial: u32,
}

/// The serial that an object is for.
fn serial_of<K: kube::Resource>(object: &K) -> u32 {
    let said = object.annotations().get(annotation::SERIAL);
    said.and_then(|serial| serial.parse().ok()).unwrap_or(0)
}

impl<K> Kept<'_, K>
where
    K: kube::Resource + Serialize + DeserializeOwned + Clone + Debug,
{
    /// Makes the object what it should be; one that is there and is so is not written.
    pub(super) async fn put(&self, wanted: &K) -> Result<(), ClusterError> {
        let name = wanted.name_any();
        let Some(found) = self.find(&name).await? else {
            let made = self.api.create(&writes::post(), wanted).await;
            return match made {
                // Made meanwhile: looked at with the next pass.
                Err(Error::Api(status)) if status.is_already_exists() => Err(ClusterError::Changed {
                    cluster: self.cluster.to_owned(),
                    what: self.what,
                }),
                made => made.map(drop).map_err(self.failed()),
            };
        };
        if is_as(&found, wanted) {
            return Ok(());
        }
        self.not_later(&found)?;
        let mut next = wanted.clone();
        next.meta_mut().resource_version = found.resource_version();
        match self.api.replace(&name, &writes::post(), &next).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.is_conflict() || status.is_not_found() => {
                Err(ClusterError::Changed {
                    cluster: self.cluster.to_owned(),
                    what: self.what,
                })
            }
            Err(error) => Err(self.failed()(error)),
        }
    }

    /// Makes a binding what it should be. One that binds `nobody` is emptied where it is and not made where it is not: it still says
    /// which serial decided that, so that a hub that lags behind does not bind anybody again.
    pub(super) async fn bind(&self, wanted: &K, nobody: bool) -> Result<(), ClusterError> {
        if nobody && self.find(&wanted.name_any()).await?.is_none() {
            return Ok(());
        }
        self.put(wanted).await
    }

    /// Makes sure that there is no such object. One that is not ours stays.
    pub(super) async fn remove(&self, name: &str) -> Result<(), ClusterError> {
        match self.find(name).await? {
            Some(found) => self.delete(&found).await,
            None => Ok(()),
        }
    }

    /// Refuses to touch what is for a later serial: what was decided here is decided by what was.
    fn not_later(&self, found: &K) -> Result<(), ClusterError> {
        if serial_of(found) > self.serial {
            return Err(ClusterError::Changed {
                cluster: self.cluster.to_owned(),
                what: self.what,
            });
        }
        Ok(())
    }

    /// Removes the object that was looked at, and no other.
    pub(super) async fn delete(&self, found: &K) -> Result<(), ClusterError> {
        self.not_later(found)?;
        match self.api.delete(&found.name_any(), &writes::delete(found)).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.is_not_found() => Ok(()),
            Err(Error::Api(status)) if status.is_conflict() => Err(ClusterError::Changed {
                cluster: self.cluster.to_owned(),
                what: self.what,
            }),
            Err(error) => Err(self.failed()(error)),
        }
    }

    /// The object, if it is there.
    ///
    /// # Errors
    /// It is not the hub's: it would be overwritten, or what it gives would not be known.
    pub(super) async fn find(&self, name: &str) -> Result<Option<K>, ClusterError> {
        let found = self.api.get_opt(name).await.map_err(self.failed())?;
        let ours = |object: &K| {
            let labels = object.labels();
            let is = |key: &str, value: &str| labels.get(key).is_some_and(|v| v == value);
            is(label::MANAGED_BY, label::MANAGED_BY_VALUE) && is(label::CLUSTER, self.cluster)
        };
        match found {
            Some(object) if !ours(&object) => Err(ClusterError::Foreign {
                cluster: self.cluster.to_owned(),
                what: self.what,
                name: name.to_owned(),
            }),
            found => Ok(found),
        }
    }

    fn failed(&self) -> impl FnOnce(Error) -> ClusterError {
        let (cluster, action) = (self.cluster.to_owned(), self.what);
        move |source| ClusterError::Api {
            cluster,
            action,
            source: Box::new(source),
        }
    }
}

/// Whether an object has all that is wanted: labels, annotations and owners among others, everything else exactly.
fn is_as<K: kube::Resource + Serialize>(found: &K, wanted: &K) -> bool {
    let has = |there: &std::collections::BTreeMap<String, String>,
               asked: &std::collections::BTreeMap<String, String>| {
        asked.iter().all(|(key, value)| there.get(key) == Some(value))
    };
    let content = |object: &K| match serde_json::to_value(object) {
        Ok(Value::Object(mut map)) => {
            map.remove("metadata");
            Some(map)
        }
        Ok(_) | Err(_) => None,
    };
    let (Some(there), Some(asked)) = (content(found), content(wanted)) else {
        return false;
    };
    let mut owners = wanted.owner_references().iter();
    has(found.labels(), wanted.labels())
        && owners.all(|owner| found.owner_references().contains(owner))
        && has(found.annotations(), wanted.annotations())
        && asked.iter().all(|(key, value)| match there.get(key) {
            // An API server leaves an empty list out.
            None => value.as_array().is_some_and(Vec::is_empty),
            Some(found) => found == value,
        })
}
