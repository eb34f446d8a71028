//! Tables of what each operation makes of managed fields.

#![allow(
    clippy::needless_pass_by_value,
    reason = "tables of literals read better without borrows"
)]

mod apply;
mod properties;
mod update;
mod wire;

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-02T03:04:05Z";
const LATER: &str = "2026-01-02T03:04:06Z";

fn write<'a>(manager: &'a str, api_version: &'a str) -> Write<'a> {
    Write {
        manager,
        api_version,
        subresource: "",
        now: NOW,
    }
}

/// An object with its managed fields, as a server keeps them.
#[derive(Debug, Clone)]
struct Object {
    api_version: &'static str,
    kind: &'static str,
    live: Option<Value>,
    entries: Vec<Entry>,
}

impl Object {
    fn new(api_version: &'static str, kind: &'static str) -> Self {
        Self {
            api_version,
            kind,
            live: None,
            entries: vec![],
        }
    }

    fn topology(&self) -> BuiltIn {
        built_in(self.api_version, self.kind).unwrap()
    }

    fn try_apply(&mut self, manager: &str, force: bool, config: &Value) -> Result<(), ApplyError> {
        let request = Apply {
            write: write(manager, self.api_version),
            force,
        };
        let entries = self.entries.clone();
        let scope = Scope::all();
        let done = apply(
            self.live.as_ref(),
            config,
            entries,
            &request,
            self.topology(),
            &scope,
        )?;
        self.live = Some(done.object);
        self.entries = done.entries;
        Ok(())
    }

    #[track_caller]
    fn apply(&mut self, manager: &str, config: Value) -> &mut Self {
        self.try_apply(manager, false, &config).unwrap();
        self
    }

    #[track_caller]
    fn force(&mut self, manager: &str, config: Value) -> &mut Self {
        self.try_apply(manager, true, &config).unwrap();
        self
    }

    #[track_caller]
    fn refused(&mut self, manager: &str, config: Value, message: &str) -> &mut Self {
        let error = self.try_apply(manager, false, &config).unwrap_err();
        assert_eq!(error.to_string(), message);
        self
    }

    fn update(&mut self, manager: &str, after: Value) -> &mut Self {
        self.renew(manager, &after);
        let entries = std::mem::take(&mut self.entries);
        let who = write(manager, self.api_version);
        self.entries = update(
            self.live.as_ref(),
            &after,
            entries,
            &who,
            self.topology(),
            &Scope::all(),
        );
        self.live = Some(after);
        self
    }

    /// Whether a write at a later time only renews its writer's entry; what is made of that is what is made of any write.
    #[track_caller]
    fn renew(&self, manager: &str, after: &Value) -> bool {
        let who = Write {
            now: LATER,
            ..write(manager, self.api_version)
        };
        let (scope, topology) = (Scope::all(), self.topology());
        let mut stored = write_entries(self.entries.clone());
        let before = stored.clone();
        let renews = Change::between(self.live.as_ref(), after, topology, &scope).renews(&mut stored, &who);
        let expected = match renews {
            true => {
                let entries = self.entries.clone();
                write_entries(update(self.live.as_ref(), after, entries, &who, topology, &scope))
            }
            false => before,
        };
        assert_eq!(stored, expected, "{manager}");
        renews
    }

    #[track_caller]
    fn is(&mut self, live: Value) -> &mut Self {
        assert_eq!(self.live.as_ref(), Some(&live));
        self
    }

    /// `manager` or `manager/Update`, with its fields.
    #[track_caller]
    fn owned(&mut self, want: Value) -> &mut Self {
        let entry = |e: &Entry| {
            let suffix = if e.operation == Operation::Update {
                "/Update"
            } else {
                ""
            };
            (format!("{}{suffix}", e.manager), e.fields.to_fields_v1())
        };
        let have: serde_json::Map<String, Value> = self.entries.iter().map(entry).collect();
        assert_eq!(Value::Object(have), want);
        self
    }
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

fn pod(containers: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}})
}

fn of_config_map() -> Object {
    Object::new("v1", "ConfigMap")
}
