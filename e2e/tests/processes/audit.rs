//! What the audit log of an embedded server says.

use crate::yard::Yard;
use anyhow::{Result, ensure};
use roundhouse_e2e::process::soon;
use serde_json::Value;
use std::path::PathBuf;

/// What the audit log of an embedded server has of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Audited {
    /// Empty of who is nobody to the server.
    user: String,
    verb: String,
    /// With its subresource. The path of a create that was refused has none: then all that was said.
    name: String,
    code: u64,
}

impl Audited {
    fn of(event: &Value) -> Audited {
        let text = |pointer: &str| {
            let text = event.pointer(pointer).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        let name = match text("/objectRef/name") {
            none if none.is_empty() => text("/responseStatus/message"),
            name => match text("/objectRef/subresource") {
                none if none.is_empty() => name,
                part => format!("{name}/{part}"),
            },
        };
        let code = event.pointer("/responseStatus/code").and_then(Value::as_u64);
        Audited {
            user: text("/user/username"),
            verb: text("/verb"),
            name,
            code: code.unwrap_or(0),
        }
    }
}

/// The audit log of the hub, from now on.
pub(crate) struct Audit {
    path: PathBuf,
    before: usize,
}

impl Audit {
    pub(crate) fn of(yard: &Yard) -> Result<Audit> {
        let mut audit = Audit {
            path: yard.home.path().join("hub/audit.log"),
            before: 0,
        };
        audit.before = audit.all()?.len();
        Ok(audit)
    }

    fn all(&self) -> Result<Vec<Audited>> {
        let text = std::fs::read_to_string(&self.path)?;
        // The last line may be on its way to the disk.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        let events = whole.lines().map(serde_json::from_str::<Value>);
        events.map(|event| Ok(Audited::of(&event?))).collect()
    }

    /// Waits until it has so many requests like this one, and checks that it has no more.
    pub(crate) async fn has(
        &self,
        count: usize,
        user: &str,
        verb: &str,
        name: &str,
        code: u64,
    ) -> Result<()> {
        let is_it = |a: &Audited| a.user == user && a.verb == verb && a.code == code && a.name.contains(name);
        let what = format!("{count} times {verb} {name:?} by {user:?} with {code} in the audit log");
        let found = soon(&what, async || {
            let new = self.all()?.split_off(self.before);
            let found = new.iter().filter(|event| is_it(event)).count();
            Ok(if found < count { Err(new) } else { Ok(found) })
        })
        .await?;
        ensure!(found == count, "{found}, not {what}");
        Ok(())
    }
}
