//! What the figures of a fleet are counted by: changes that are under way, and what a hub's API server has written.

use std::collections::{BTreeMap, BTreeSet};

/// Changes that are not over: for each application the versions, with what is kept of each (the moment at which it was due).
#[derive(Debug, Clone)]
pub struct Open<T>(BTreeMap<String, BTreeMap<usize, T>>);

impl<T> Default for Open<T> {
    fn default() -> Open<T> {
        Open(BTreeMap::new())
    }
}

impl<T> Open<T> {
    /// A version of an application is asked for.
    pub fn add(&mut self, name: &str, version: usize, due: T) {
        self.0.entry(name.to_owned()).or_default().insert(version, due);
    }

    /// Ends a version, and those that it has overtaken; what was kept of each of them.
    pub fn end(&mut self, name: &str, version: usize) -> impl Iterator<Item = T> + use<T> {
        let over = self.0.get_mut(name).map(|open| {
            let later = open.split_off(&(version + 1));
            std::mem::replace(open, later)
        });
        over.into_iter().flat_map(BTreeMap::into_values)
    }

    /// Applications and versions.
    pub fn names(&self) -> BTreeSet<(String, usize)> {
        let each = |(name, open): (&String, &BTreeMap<usize, T>)| {
            let one = |version: &usize| (name.clone(), *version);
            open.keys().map(one).collect::<Vec<_>>()
        };
        self.0.iter().flat_map(each).collect()
    }

    /// What was kept of all that are not over.
    pub fn left(&self) -> impl Iterator<Item = &T> {
        self.0.values().flat_map(BTreeMap::values)
    }
}

/// Write requests that an API server has taken, by table, out of the text of its `/metrics`. Leases are what agents and hubs live
/// by, and reviews write nothing: both are left out.
///
/// # Errors
/// What counts has to be a number; and a text without any request at all is none of an API server.
pub fn writes(metrics: &str) -> anyhow::Result<BTreeMap<String, u64>> {
    let mut lines = metrics
        .lines()
        .filter(|line| line.starts_with("apiserver_request_total{"))
        .peekable();
    anyhow::ensure!(lines.peek().is_some(), "/metrics counts no request:\n{metrics}");
    let mut writes = BTreeMap::new();
    for line in lines {
        let label = |name: &str| {
            let rest = line.split_once(&format!("{name}=\""))?.1;
            rest.split_once('"').map(|(value, _)| value)
        };
        let is_write = matches!(
            label("verb"),
            Some("create" | "update" | "patch" | "delete" | "deletecollection")
        );
        let table = label("resource").unwrap_or_default();
        let group = table.split_once('.').map_or("", |(_, group)| group);
        let is_review = matches!(group, "authorization.k8s.io" | "authentication.k8s.io");
        let counts = is_write
            && label("code").is_some_and(|code| code.starts_with('2'))
            && !table.starts_with("leases.")
            && !is_review;
        if counts {
            let count: u64 = line.rsplit(' ').next().unwrap_or_default().parse()?;
            *writes.entry(table.to_owned()).or_default() += count;
        }
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_ends_those_that_it_has_overtaken_and_no_later_one() {
        let mut open = Open::default();
        for (name, version, due) in [("a", 2, 20), ("a", 3, 30), ("a", 4, 40), ("b", 2, 21)] {
            open.add(name, version, due);
        }
        assert_eq!(open.end("a", 3).collect::<Vec<_>>(), [20, 30]);
        assert_eq!(
            open.end("a", 3).count(),
            0,
            "what is reported once more is over already"
        );
        assert_eq!(open.end("c", 9).count(), 0);
        assert_eq!(open.names(), [("a".to_owned(), 4), ("b".to_owned(), 2)].into());
        assert_eq!(open.left().copied().collect::<Vec<_>>(), [40, 21]);
        assert_eq!(open.end("b", 7).collect::<Vec<_>>(), [21]);
        assert_eq!(open.left().count(), 1);
    }

    #[test]
    fn writes_are_what_was_done_but_leases_and_reviews() {
        let line = |verb: &str, resource: &str, code: u16, count: u64| {
            format!(
                "apiserver_request_total{{verb=\"{verb}\",resource=\"{resource}\",code=\"{code}\"}} {count}\n"
            )
        };
        let bundles = "bundles.roundhouse.dev";
        let text = [
            "# TYPE apiserver_request counter\n".to_owned(),
            line("create", bundles, 201, 4),
            line("patch", bundles, 200, 3),
            line("patch", bundles, 409, 9),
            line("list", bundles, 200, 9),
            line("update", "leases.coordination.k8s.io", 200, 9),
            line("create", "subjectaccessreviews.authorization.k8s.io", 201, 9),
            line("delete", "configmaps", 200, 1),
        ]
        .concat();
        let wanted = [(bundles.to_owned(), 7), ("configmaps".to_owned(), 1)];
        assert_eq!(writes(&text).unwrap(), wanted.into());
        // Nothing that is read is not nothing that was written.
        assert!(writes("").is_err());
        assert!(writes("apiserver_request_total{verb=\"create\",resource=\"x\",code=\"201\"} many").is_err());
        assert!(writes(&line("get", bundles, 200, 1)).unwrap().is_empty());
    }
}
