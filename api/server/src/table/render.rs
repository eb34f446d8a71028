//! Rendering objects into rows.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{age::age, builtin};
use crate::{kinds::Resource, object};

/// The columns of a kind.
#[derive(Clone)]
pub(crate) struct Columns {
    resource: Arc<Resource>,
}

/// How much of the object a row carries (`includeObject`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Include {
    None,
    Metadata,
    Object,
}

impl Include {
    fn parse(text: &str) -> Self {
        match text {
            "None" => Self::None,
            "Object" => Self::Object,
            _ => Self::Metadata,
        }
    }

    /// What a row carries of an object.
    fn of(self, value: &Value) -> Value {
        match self {
            Self::None => Value::Null,
            Self::Metadata => crate::output::metadata_only(value),
            Self::Object => value.clone(),
        }
    }
}

fn definition(name: &str, ty: &str, format: &str, description: &str, priority: i64) -> Value {
    json!({"name": name, "type": ty, "format": format, "description": description, "priority": priority})
}

impl Columns {
    /// The columns of `resource`.
    pub(crate) fn of(resource: Arc<Resource>) -> Self {
        Self { resource }
    }

    fn definitions(&self) -> Vec<Value> {
        let Some(custom) = &self.resource.custom else {
            let columns = self.builtin().iter();
            return columns
                .map(|c| definition(c.name, c.ty, c.format, c.description, c.priority))
                .collect();
        };
        let name = "Name must be unique within a namespace.";
        let mut out = vec![definition("Name", "string", "name", name, 0)];
        out.extend(
            custom
                .columns
                .iter()
                .map(|c| definition(&c.name, &c.ty, &c.format, &c.description, c.priority)),
        );
        if custom.columns.is_empty() {
            let age = "CreationTimestamp of the object.";
            out.push(definition("Age", "date", "", age, 0));
        }
        out
    }

    fn builtin(&self) -> &'static [builtin::Column] {
        let stored = self.resource.conversion.as_ref();
        let group = stored.map_or(&*self.resource.group, |c| c.stored_group);
        builtin::columns(group, &self.resource.kind)
    }

    fn cells(&self, value: &Value, now: Timestamp) -> Vec<Value> {
        let Some(custom) = &self.resource.custom else {
            // Whatever the version asked for, the columns are those of the stored one.
            let stored = self.resource.conversion.as_ref().map(|c| c.stored(value));
            let value = stored.as_ref().unwrap_or(value);
            return self.builtin().iter().map(|c| (c.cell)(value, now)).collect();
        };
        let mut out = vec![object::meta(value, "name").into()];
        out.extend(
            custom
                .columns
                .iter()
                .map(|c| custom_cell(&c.ty, &c.path.find(value), now)),
        );
        if custom.columns.is_empty() {
            let created = object::meta(value, "creationTimestamp");
            out.push(age(created, now).into());
        }
        out
    }

    fn row(&self, value: &Value, include: Include, now: Timestamp) -> Value {
        json!({"cells": self.cells(value, now), "object": include.of(value)})
    }
}

/// A `Table` of objects. `list_meta` is the metadata of the list, or of the one object.
pub(crate) fn table(
    columns: &Columns,
    values: &[Value],
    list_meta: &Value,
    include: &str,
    now: Timestamp,
) -> Value {
    let include = Include::parse(include);
    let rows: Vec<Value> = values.iter().map(|v| columns.row(v, include, now)).collect();
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": list_meta,
        "columnDefinitions": columns.definitions(), "rows": rows,
    })
}

/// The `Table` of one Scale.
pub(crate) fn scale_table(scale: &Value, include: &str, now: Timestamp) -> Value {
    let columns = builtin::columns("autoscaling", "Scale");
    let definitions: Vec<Value> = columns
        .iter()
        .map(|c| definition(c.name, c.ty, c.format, c.description, c.priority))
        .collect();
    let cells: Vec<Value> = columns.iter().map(|c| (c.cell)(scale, now)).collect();
    let object = Include::parse(include).of(scale);
    let meta = json!({"resourceVersion": object::meta(scale, "resourceVersion")});
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": meta,
        "columnDefinitions": definitions, "rows": [{"cells": cells, "object": object}],
    })
}

/// Numbers and booleans keep their type; dates become ages, as in `tableconvertor`.
fn custom_cell(ty: &str, found: &[&Value], now: Timestamp) -> Value {
    let text = |v: &&Value| match v {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    };
    let Some(first) = found.first() else {
        return Value::Null;
    };
    match ty {
        "date" => first
            .as_str()
            .map_or_else(|| Value::Null, |then| age(then, now).into()),
        "integer" => first.as_i64().map_or_else(
            || first.as_f64().map_or(Value::Null, |f| Value::from(f as i64)),
            Value::from,
        ),
        "number" => first.as_f64().map_or(Value::Null, Value::from),
        "boolean" => first.as_bool().map_or(Value::Null, Value::from),
        _ => found.iter().map(text).collect::<Vec<_>>().join(",").into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Registry;

    #[test]
    fn columns_of_built_in_and_custom_kinds() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let registry = Registry::default();
        let meta = json!({"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z"});
        let shown = |resource: Arc<Resource>, value: Value| {
            let table = table(&Columns::of(resource), &[value], &json!({}), "None", now);
            let names: Vec<&Value> = table["columnDefinitions"]
                .as_array()
                .unwrap()
                .iter()
                .map(|c| &c["name"])
                .collect();
            (json!(names), table["rows"][0]["cells"].clone())
        };
        let deployment = json!({"metadata": meta, "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
            "status": {"readyReplicas": 2, "updatedReplicas": 3, "availableReplicas": 1}});
        assert_eq!(
            shown(registry.by_kind("apps/v1", "Deployment").unwrap(), deployment),
            (
                json!([
                    "Name",
                    "Ready",
                    "Up-to-date",
                    "Available",
                    "Age",
                    "Containers",
                    "Images",
                    "Selector"
                ]),
                json!(["web", "2/3", 3, 1, "10m", "c", "i:1", "app=web"])
            )
        );
        let definition = json!({"spec": {"group": "x.dev", "scope": "Cluster", "names": {"kind": "W", "plural": "ws"},
            "versions": [{"name": "v1", "served": true, "storage": true, "additionalPrinterColumns": [
                {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                {"name": "None", "type": "string", "jsonPath": ".none"}]}]}});
        let custom = crate::crd::resources(&definition).remove(0);
        let value = json!({"metadata": meta, "spec": {"size": 4}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(
            shown(custom, value),
            (
                json!(["Name", "Size", "Ready", "Age", "None"]),
                json!(["web", 4, "True", "10m", null])
            )
        );
    }
}
