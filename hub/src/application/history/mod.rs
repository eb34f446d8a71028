//! Which revisions are kept, which were delivered, and which one a rollback goes to. Pure; `keeping` does the writes.

mod keeping;

use jiff::Timestamp;
use kube::ResourceExt;
use roundhouse_api::{names::annotation, revision::ApplicationRevision};
use std::{borrow::Borrow, collections::BTreeSet};

/// When a run that delivered this revision last succeeded, as the hub noted it on the revision.
pub(crate) fn delivered_at(revision: &ApplicationRevision) -> Option<Timestamp> {
    revision.annotations().get(annotation::DELIVERED)?.parse().ok()
}

/// Where a rollback goes if nobody says: to the revision that was delivered last, the present one apart. `None` if there is
/// no other that ever was.
pub(crate) fn rollback_target<'a>(
    revisions: impl IntoIterator<Item = &'a ApplicationRevision>,
    present: &str,
) -> Option<&'a ApplicationRevision> {
    let others = revisions
        .into_iter()
        .filter(|revision| revision.name_any() != present && revision.metadata.deletion_timestamp.is_none());
    others
        .filter_map(|revision| Some(((delivered_at(revision)?, revision.spec.revision), revision)))
        .max_by_key(|(when, _)| *when)
        .map(|(_, revision)| revision)
}

/// What may go: all but those in use and the `limit` newest of the others. The one with the highest number stays in any
/// case, because the next number follows from it.
fn surplus<R: Borrow<ApplicationRevision>>(
    revisions: &[R],
    used: &BTreeSet<String>,
    limit: usize,
) -> Vec<String> {
    let mut others: Vec<&ApplicationRevision> = revisions
        .iter()
        .map(Borrow::borrow)
        .filter(|revision| !used.contains(&revision.name_any()))
        .collect();
    others.sort_by_key(|revision| std::cmp::Reverse(revision.spec.revision));
    let highest = revisions.iter().map(|r| r.borrow().spec.revision).max();
    let gone = others.into_iter().skip(limit);
    gone.filter(|revision| Some(revision.spec.revision) != highest)
        .filter(|revision| revision.metadata.deletion_timestamp.is_none())
        .map(ResourceExt::name_any)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use roundhouse_api::revision::ApplicationRevisionSpec;

    fn revision(number: u64, delivered: Option<&str>) -> ApplicationRevision {
        let mut revision = ApplicationRevision::new(
            &format!("web-v{number}"),
            ApplicationRevisionSpec {
                revision: number,
                ..ApplicationRevisionSpec::default()
            },
        );
        if let Some(time) = delivered {
            revision
                .annotations_mut()
                .insert(annotation::DELIVERED.to_owned(), time.to_owned());
        }
        revision
    }

    #[test]
    fn a_rollback_goes_to_what_was_delivered_last_and_back_again() {
        let target = |all: &[ApplicationRevision], present: &str| {
            rollback_target(all, present).map(|revision| revision.spec.revision)
        };
        let (one, two) = ("2026-01-01T00:00:00Z", "2026-01-01T00:00:02Z");
        let mut all = vec![revision(1, Some(one)), revision(2, Some(two)), revision(3, None)];
        assert_eq!(target(&all, "web-v3"), Some(2), "v3 is under way");
        assert_eq!(target(&all, "web-v2"), Some(1), "v3 was never delivered");
        all[0] = revision(1, Some("2026-01-01T00:00:03Z"));
        assert_eq!(target(&all, "web-v1"), Some(2), "v1 is there again");
        assert_eq!(target(&[revision(1, Some(one))], "web-v1"), None);
        assert_eq!(target(&[revision(1, Some("yesterday"))], "web-v2"), None);
    }

    #[test]
    fn the_newest_stay_and_those_in_use_do_not_count() {
        let all: Vec<_> = (1..=8).map(|n| revision(n, None)).collect();
        let used = BTreeSet::from(["web-v1".to_owned(), "web-v7".to_owned()]);
        assert_eq!(surplus(&all, &used, 2), ["web-v5", "web-v4", "web-v3", "web-v2"]);
        assert_eq!(
            surplus(&all, &used, 0),
            ["web-v6", "web-v5", "web-v4", "web-v3", "web-v2"]
        );
        assert!(surplus(&all, &used, 6).is_empty());
    }

    proptest! {
        #[test]
        fn nothing_in_use_goes_and_the_limit_holds(count in 0_u64..40, used in proptest::collection::btree_set(0_u64..40, 0..10), limit in 0_usize..15) {
            let all: Vec<_> = (1..=count).map(|n| revision(n, None)).collect();
            let used: BTreeSet<String> = used.iter().map(|n| format!("web-v{n}")).collect();
            let gone = surplus(&all, &used, limit);
            prop_assert!(gone.iter().all(|name| !used.contains(name)));
            let stay = all.iter().filter(|r| !gone.contains(&r.name_any()) && !used.contains(&r.name_any())).count();
            prop_assert!(stay <= limit.max(1), "{stay} stay");
            let free = all.iter().filter(|r| !used.contains(&r.name_any())).count();
            prop_assert!(stay >= limit.min(free), "{stay} of {free} stay");
            if let Some(last) = all.last() {
                prop_assert!(!gone.contains(&last.name_any()));
            }
        }
    }
}
