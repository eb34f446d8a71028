//! Certificates that are not taken any longer.
//!
//! ConfigMap `kube-system/roundhouse-revoked` lists them, one under each key, in words of one of two forms:
//! `serial <hex>`, or `user <name> before <time>`: whatever that user was issued before that time. A ConfigMap because it
//! is kept, watched, backed up and guarded by RBAC like everything else; a user rather than a list of serials because a
//! certificate that leaked is often one whose serial nobody noted. Agents are named with the serial of their Cluster,
//! `roundhouse:agent:<cluster>:<serial>`: a name without it is nobody's, and is refused.

use std::collections::{HashMap, HashSet};

use jiff::Timestamp;
use serde_json::Value;

use super::{Presented, identity::cluster_of_agent};
use crate::{error::Cause, schema::join_key, store::Key};

const NAMESPACE: &str = "kube-system";
const NAME: &str = "roundhouse-revoked";

/// The list as it is looked up.
#[derive(Debug, Default)]
pub(crate) struct Revoked {
    serials: HashSet<String>,
    users: HashMap<String, Timestamp>,
}

#[derive(Debug, PartialEq, Eq)]
enum Entry {
    Serial(String),
    User(String, Timestamp),
}

fn entry(text: &str) -> Result<Entry, &'static str> {
    match text.split_whitespace().collect::<Vec<_>>()[..] {
        ["serial", serial] => {
            let serial: String = serial.chars().filter(|c| *c != ':').collect();
            if bare(&serial).is_empty() || !serial.chars().all(|c| c.is_ascii_hexdigit()) {
                return Err("a serial is given in hexadecimal digits");
            }
            Ok(Entry::Serial(bare(&serial)))
        }
        ["user", user, "before", time] => {
            if cluster_of_agent(user) == Some("") {
                return Err(
                    "no agent has this name: agents are roundhouse:agent:<cluster>:<serial>, with spec.serial of the Cluster",
                );
            }
            let time = time
                .parse()
                .map_err(|_| "the time must be one such as 2026-01-31T12:00:00Z")?;
            Ok(Entry::User(user.to_owned(), time))
        }
        _ => Err("must be \"serial <hex>\" or \"user <name> before <time>\""),
    }
}

/// A serial without leading zeros, in lower case.
fn bare(serial: &str) -> String {
    serial.trim_start_matches('0').to_ascii_lowercase()
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, Result<Entry, &'static str>)> {
    let data = value.get("data").and_then(Value::as_object).into_iter().flatten();
    data.map(|(key, text)| (key, entry(text.as_str().unwrap_or_default())))
}

/// Whether a place is that of the list.
pub(crate) fn is_list(key: &Key) -> bool {
    &*key.name == NAME && &*key.namespace == NAMESPACE && &*key.table == "configmaps"
}

/// Where the list is.
pub(crate) fn list_key() -> Key {
    Key::new(&"configmaps".into(), NAMESPACE, NAME)
}

/// What is wrong with the list, if this ConfigMap is it: an entry that nobody understands would revoke nothing.
pub(crate) fn check_list(value: &Value) -> Vec<Cause> {
    if crate::object::meta(value, "name") != NAME || crate::object::meta(value, "namespace") != NAMESPACE {
        return vec![];
    }
    let wrong = entries(value).filter_map(|(key, entry)| {
        let text = value.get("data").and_then(|data| data.get(key));
        Some(Cause::invalid_value(join_key("data", key), text, entry.err()?))
    });
    wrong.collect()
}

impl Revoked {
    /// The list of an object.
    pub(crate) fn of(value: Option<&Value>) -> Self {
        let mut out = Self::default();
        for (key, entry) in value.into_iter().flat_map(entries) {
            match entry {
                Ok(Entry::Serial(serial)) => {
                    out.serials.insert(serial);
                }
                Ok(Entry::User(user, time)) => {
                    let latest = out.users.entry(user).or_insert(time);
                    *latest = (*latest).max(time);
                }
                Err(why) => tracing::warn!(key, why, "an entry of {NAME} revokes nothing"),
            }
        }
        out
    }

    /// Whether a certificate is on it.
    pub(crate) fn has(&self, certificate: &Presented) -> bool {
        let before = self.users.get(&certificate.identity.user);
        before.is_some_and(|time| certificate.not_before < *time)
            || self.serials.contains(&bare(&certificate.serial))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::auth::Identity;

    #[test]
    fn what_is_revoked() {
        let list = json!({"data": {
            "a": "serial 0A:ff", "b": "user roundhouse:agent:c1:7 before 2026-01-31T12:00:00Z",
            "c": "user roundhouse:agent:c1:7 before 2026-01-30T12:00:00Z",
        }});
        let revoked = Revoked::of(Some(&list));
        let has = |user: &str, serial: &str, not_before: &str| {
            revoked.has(&Presented {
                identity: Identity::new(user, Vec::<String>::new()),
                serial: serial.to_owned(),
                fingerprint: String::new(),
                not_before: not_before.parse().unwrap(),
                not_after: Timestamp::MAX,
            })
        };
        assert!(has("x", "aff", "2026-03-01T00:00:00Z"));
        assert!(has("x", "0AFF", "2026-03-01T00:00:00Z"));
        assert!(!has("x", "aff0", "2026-03-01T00:00:00Z"));
        assert!(has("roundhouse:agent:c1:7", "1", "2026-01-31T11:59:59Z"));
        assert!(!has("roundhouse:agent:c1:7", "1", "2026-01-31T12:00:00Z"));
        assert!(!has("roundhouse:agent:c10:7", "1", "2026-01-01T00:00:00Z"));
        assert!(!has("roundhouse:agent:c1:8", "1", "2026-01-01T00:00:00Z"));
        assert!(!Revoked::of(None).has(&Presented {
            identity: Identity::admin(),
            serial: String::new(),
            fingerprint: String::new(),
            not_before: Timestamp::MIN,
            not_after: Timestamp::MAX,
        }));
    }

    #[test]
    fn an_entry_that_nobody_understands_is_refused() {
        let named = |name: &str, entry: &str| {
            let value = json!({"metadata": {"name": name, "namespace": NAMESPACE}, "data": {"k": entry}});
            check_list(&value).len()
        };
        for (entry, wrong) in [
            ("serial 0a", 0),
            (" user a before 2026-01-31T12:00:00Z ", 0),
            ("serial", 1),
            ("serial xyz", 1),
            ("serial ::", 1),
            ("user a", 1),
            ("user a before yesterday", 1),
            ("", 1),
            // A name that no agent has would revoke nothing.
            (
                "user roundhouse:agent:c1:1767225600 before 2026-01-31T12:00:00Z",
                0,
            ),
            ("user roundhouse:agent:c1 before 2026-01-31T12:00:00Z", 1),
            ("user roundhouse:agent:c1: before 2026-01-31T12:00:00Z", 1),
            ("user roundhouse:agent:c1:0 before 2026-01-31T12:00:00Z", 1),
            ("user roundhouse:agent:c1:07 before 2026-01-31T12:00:00Z", 1),
            ("user roundhouse:agent:C1:7 before 2026-01-31T12:00:00Z", 1),
            ("user roundhouse:agent:c1:7:8 before 2026-01-31T12:00:00Z", 1),
            ("user roundhouse:agent: before 2026-01-31T12:00:00Z", 1),
        ] {
            assert_eq!(named(NAME, entry), wrong, "{entry}");
            assert_eq!(named("other", entry), 0);
        }
    }
}
