//! Histories by name, for the tests: to read them, and to make up any.

use crate::placement::{Previous, previous::Divided};
use roundhouse_api::decision::WorkloadRef;
use std::collections::{BTreeMap, BTreeSet};

impl Previous {
    /// What each rule gave, by cluster.
    pub(crate) fn assigned(&self) -> BTreeMap<Divided, BTreeMap<String, u32>> {
        let named = |counts: &Vec<(usize, u32)>| {
            let named = counts
                .iter()
                .map(|(place, count)| (self.clusters[*place].clone(), *count));
            named.collect()
        };
        let assignments = self.assignments.iter();
        assignments
            .map(|(key, counts)| (key.clone(), named(counts)))
            .collect()
    }

    /// The clusters that had a bundle, by step.
    pub(crate) fn enrolled(&self) -> BTreeMap<String, BTreeSet<String>> {
        let named = |places: &Vec<usize>| places.iter().map(|place| self.clusters[*place].clone()).collect();
        let members = self.members.iter();
        members
            .map(|(step, places)| (step.clone(), named(places)))
            .collect()
    }

    /// The clusters that were chosen and got nothing, by step.
    pub(crate) fn noted(&self) -> BTreeMap<String, BTreeSet<String>> {
        let named = |places: &Vec<usize>| places.iter().map(|place| self.clusters[*place].clone()).collect();
        let chosen = self.chosen.iter();
        chosen
            .map(|(step, places)| (step.clone(), named(places)))
            .collect()
    }

    /// The same, where a rule of a step gave these replicas.
    pub(crate) fn assigning<N: Into<String>>(
        self,
        (step, workload, rule): (&str, &WorkloadRef, &str),
        counts: impl IntoIterator<Item = (N, u32)>,
    ) -> Self {
        let (mut assigned, enrolled) = (self.assigned(), self.enrolled());
        let key = (step.to_owned(), workload.clone(), rule.to_owned());
        let counts = counts.into_iter().map(|(name, count)| (name.into(), count));
        assigned.insert(key, counts.collect());
        self.of(&assigned, &enrolled)
    }

    /// The same, where these clusters had a bundle of a step.
    pub(crate) fn enrolling(self, step: &str, names: &[&str]) -> Self {
        let (assigned, mut enrolled) = (self.assigned(), self.enrolled());
        let names = names.iter().map(|name| (*name).to_owned());
        enrolled.insert(step.to_owned(), names.collect());
        self.of(&assigned, &enrolled)
    }

    fn of(
        self,
        assigned: &BTreeMap<Divided, BTreeMap<String, u32>>,
        enrolled: &BTreeMap<String, BTreeSet<String>>,
    ) -> Self {
        let noted = self.noted();
        let names = assigned
            .values()
            .flat_map(BTreeMap::keys)
            .chain(enrolled.values().flatten())
            .chain(noted.values().flatten());
        let clusters: Vec<String> = names.cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let place = |name: &String| clusters.binary_search(name).unwrap();
        Previous {
            assignments: assigned
                .iter()
                .map(|(key, counts)| (key.clone(), counts.iter().map(|(n, c)| (place(n), *c)).collect()))
                .collect(),
            members: enrolled
                .iter()
                .map(|(step, names)| (step.clone(), names.iter().map(place).collect()))
                .collect(),
            chosen: noted
                .iter()
                .map(|(step, names)| (step.clone(), names.iter().map(place).collect()))
                .collect(),
            clusters,
            ..self
        }
    }
}
