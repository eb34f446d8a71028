//! The same on servers that are started as real ones are.

use anyhow::Result;
use roundhouse_e2e::double::told_again;

#[test]
fn a_cluster_joins_and_hubs_follow_each_other_on_servers_that_are_started_as_real_ones() -> Result<()> {
    let test = "joining::a_cluster_joins_is_accepted_by_its_key_renews_is_revoked_and_joins_again";
    if let Some(said) = told_again(test, 1)? {
        let counted = "members on embedded API servers beside real ones: 1 in 1 tests";
        assert!(said.contains(counted), "{said}");
    }
    told_again("leader::a_leader_that_is_told_to_end_hands_over_at_once", 2)?;
    // What they cannot show there is counted.
    let test = "joining::clusters_leave_with_or_without_what_they_have_or_are_forgotten";
    if let Some(said) = told_again(test, 2)? {
        assert!(said.contains("skipped with real API servers: 1\n"), "{said}");
        assert!(said.contains("needs kube-controller-manager"), "{said}");
    }
    Ok(())
}
