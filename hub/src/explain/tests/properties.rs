//! What holds of every explanation.

use super::fixture::{decisive, has_replicas, with};
use crate::{
    explain::{Aim, Reason, conditions, search},
    placement::tests::{any_setting, runs},
};
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #![proptest_config(runs())]

    #[test]
    fn the_decisive_reason_is_the_engines(setting in any_setting()) {
        let decisions = setting.place();
        let mut counted: Vec<BTreeMap<String, u32>> = vec![BTreeMap::new(); decisions.len()];
        for facts in setting.inventory.clusters() {
            let answers = conditions(&setting, &decisions, &facts.name).unwrap();
            for (step, answer) in answers.iter().enumerate() {
                let placed = has_replicas(&setting, &facts.name, step);
                prop_assert_eq!(answer.reason.is_placed(), placed);
                let expected = match answer.reason {
                    Reason::Placed | Reason::Member => continue,
                    Reason::NotChosen(reason) => {
                        *counted[step].entry(reason.as_str().to_owned()).or_default() += 1;
                        match reason.as_str() {
                            "NotMatched" => &["clusterSelector", "clusters"][..],
                            "NotAccepted" => &["accepted"],
                            "NotJoined" => &["joined"],
                            "Tainted" => &["taint"],
                            "Unreachable" => &["reachable"],
                            "Skewed" | "NoTopologyLabel" => &["spread"],
                            _ => &["maxClusters"],
                        }
                    }
                    Reason::ZeroShare("NoAdditional") => &["taint", "reachable"],
                    Reason::ZeroShare("Capacity") => &["capacity"],
                    Reason::ZeroShare(bound) => {
                        let rows = decisions[step].workloads.iter().flat_map(|workload| &workload.clusters);
                        let mut own = rows.filter(|row| row.name == facts.name);
                        let is_a_bound = ["Max", "ZeroWeight"].contains(&bound);
                        prop_assert!(!is_a_bound || own.any(|row| row.bound.as_deref() == Some(bound)));
                        &["share"]
                    }
                };
                prop_assert!(expected.contains(&decisive(answer)[0].as_str()), "{:#?}", answer);
            }
        }
        for (counted, decision) in counted.into_iter().zip(&decisions) {
            let excluded = decision.excluded.iter().map(|e| (e.reason.clone(), e.count));
            prop_assert_eq!(counted, excluded.collect::<BTreeMap<_, _>>());
        }
    }

    #[test]
    fn what_is_said_to_flip_does_flip(setting in any_setting(), which in any::<prop::sample::Index>()) {
        if setting.inventory.is_empty() {
            return Ok(());
        }
        let cluster = setting.inventory.clusters()[which.index(setting.inventory.len())].name.clone();
        for step in 0..setting.steps.len() {
            let placed = has_replicas(&setting, &cluster, step);
            let aim = if placed { Aim::Exclude } else { Aim::Include };
            for flip in search(&setting, &cluster, step, aim).unwrap().flips {
                let changed = with(&setting, &cluster, &flip.changes);
                prop_assert_eq!(has_replicas(&changed, &cluster, step), !placed, "{:?}", flip);
            }
        }
    }

    #[test]
    fn what_applies_in_full_is_needed_in_full(setting in any_setting(), which in any::<prop::sample::Index>()) {
        if setting.inventory.is_empty() {
            return Ok(());
        }
        let cluster = setting.inventory.clusters()[which.index(setting.inventory.len())].name.clone();
        if has_replicas(&setting, &cluster, 0) {
            return Ok(());
        }
        // The smallest flip has no part that would do alone.
        let found = search(&setting, &cluster, 0, Aim::Include).unwrap();
        let Some(flip) = found.flips.first() else { return Ok(()) };
        for change in flip.changes.iter().filter(|_| flip.changes.len() > 1) {
            let changed = with(&setting, &cluster, std::slice::from_ref(change));
            prop_assert!(!has_replicas(&changed, &cluster, 0), "{:?} alone of {:?}", change, flip);
        }
    }
}
