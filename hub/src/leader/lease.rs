//! The Lease of the hubs as it is read and written, with the fields and the meaning that client-go gives them.

use super::timing::LONGEST;
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta},
};
use kube::ResourceExt;
use roundhouse_api::names::{annotation, label};
use std::time::Duration;

/// Name of the Lease.
pub const LEASE: &str = roundhouse_api::names::HUB_LEASE;
/// Its namespace, unless somebody says otherwise.
pub const NAMESPACE: &str = "roundhouse-system";

/// What a Lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty if nobody holds it.
    pub(super) holder: String,
    /// How long its holder asks others to wait.
    pub(super) duration: Duration,
    /// Only whether it changes counts: it was written by another clock.
    pub(super) renewed: Option<Timestamp>,
    pub(super) acquired: Option<Timestamp>,
    /// How often another holder took it.
    pub(super) transitions: i32,
    /// The epoch of the last term that began.
    pub(super) epoch: Option<i64>,
}

impl Record {
    pub(super) fn of(lease: &Lease) -> Record {
        let spec = lease.spec.clone().unwrap_or_default();
        let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
        let epoch = lease.annotations().get(annotation::EPOCH);
        Record {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds).min(LONGEST),
            renewed: spec.renew_time.map(|time| time.0),
            acquired: spec.acquire_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or(0),
            epoch: epoch.and_then(|epoch| epoch.trim().parse().ok()),
        }
    }
}

/// The Lease as `me` takes it, from whoever held it: with the resourceVersion of the one that was looked at.
pub(super) fn taken(
    before: Option<&Lease>,
    namespace: &str,
    me: &str,
    duration: Duration,
    now: Timestamp,
) -> Lease {
    let mut lease = before.cloned().unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(LEASE.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some([(label::MANAGED_BY.to_owned(), label::MANAGED_BY_VALUE.to_owned())].into()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    lease.metadata.managed_fields = None;
    let transitions = before.map_or(0, |before| Record::of(before).transitions.saturating_add(1));
    lease.spec = Some(LeaseSpec {
        holder_identity: Some(me.to_owned()),
        lease_duration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: Some(MicroTime(now)),
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions),
        ..LeaseSpec::default()
    });
    lease
}

/// Renews it.
pub(super) fn renew(lease: &mut Lease, now: Timestamp) {
    lease.spec.get_or_insert_default().renew_time = Some(MicroTime(now));
}

/// Marks it with the epoch of a term.
pub(super) fn mark(lease: &mut Lease, epoch: i64) {
    lease
        .annotations_mut()
        .insert(annotation::EPOCH.to_owned(), epoch.to_string());
}

/// Gives it up, as client-go's `ReleaseOnCancel` does; how often it was taken and the epoch stay.
pub(super) fn release(lease: &mut Lease, now: Timestamp) {
    let spec = lease.spec.get_or_insert_default();
    spec.holder_identity = Some(String::new());
    spec.lease_duration_seconds = Some(1);
    spec.renew_time = Some(MicroTime(now));
    spec.acquire_time = Some(MicroTime(now));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn every_taking_counts_and_keeps_the_epoch() {
        let fifteen = Duration::from_secs(15);
        let mut lease = taken(None, "ns", "a", fifteen, at(1));
        assert_eq!(lease.metadata.resource_version, None, "it is created");
        mark(&mut lease, 7);
        lease.metadata.resource_version = Some("41".to_owned());
        renew(&mut lease, at(3));
        let record = Record::of(&lease);
        assert_eq!(record.holder, "a");
        assert_eq!((record.transitions, record.epoch), (0, Some(7)));
        assert_eq!((record.acquired, record.renewed), (Some(at(1)), Some(at(3))));

        release(&mut lease, at(4));
        assert_eq!(Record::of(&lease).holder, "");
        let again = taken(Some(&lease), "ns", "b", fifteen, at(5));
        let record = Record::of(&again);
        assert_eq!((record.transitions, record.epoch), (1, Some(7)));
        assert_eq!(record.duration, fifteen);
        assert_eq!(again.metadata.resource_version.as_deref(), Some("41"));
    }

    #[test]
    fn nonsense_is_read_as_nothing() {
        let mut lease = taken(None, "ns", "a", Duration::from_secs(15), at(1));
        let spec = lease.spec.as_mut().unwrap();
        spec.lease_duration_seconds = Some(-4);
        spec.lease_transitions = Some(i32::MAX);
        lease
            .annotations_mut()
            .insert(annotation::EPOCH.to_owned(), "soon".to_owned());
        let record = Record::of(&lease);
        assert_eq!((record.duration, record.epoch), (Duration::ZERO, None));
        let next = taken(Some(&lease), "ns", "b", Duration::from_secs(15), at(2));
        assert_eq!(Record::of(&next).transitions, i32::MAX);
        lease.spec = None;
        assert_eq!(Record::of(&lease).holder, "");
    }
}
