//! Printer columns: their JSONPaths lead to fields of the schema, of the type that they claim.

use serde_json::Value;

/// All violations of one printer column of a version with this root schema.
pub(crate) fn check(column: &Value, schema: &Value) -> Vec<String> {
    let text = |key: &str| column.get(key).and_then(Value::as_str).unwrap_or_default();
    let (name, path, type_) = (text("name"), text("jsonPath"), text("type"));
    let refuse = |reason: String| vec![format!("column {name} ({path}): {reason}")];
    if !["integer", "number", "string", "boolean", "date"].contains(&type_) {
        return refuse(format!("type {type_:?} does not exist"));
    }
    match resolve(path, schema) {
        Err(reason) => refuse(reason),
        Ok(found) if found == type_ || (type_ == "string" && found != "object" && found != "array") => {
            Vec::new()
        }
        Ok(found) => refuse(format!("is {found}, not {type_}")),
    }
}

/// The type at a path such as `.status.conditions[?(@.type=="Ready")].status`.
fn resolve(path: &str, root: &Value) -> Result<String, String> {
    let rest = path.strip_prefix('.').ok_or("must start with a dot")?;
    if let Some(field) = rest.strip_prefix("metadata.") {
        return match field {
            "creationTimestamp" | "deletionTimestamp" => Ok("date".to_owned()),
            "name" | "namespace" => Ok("string".to_owned()),
            "generation" => Ok("integer".to_owned()),
            _ if field.starts_with("labels.") => Ok("string".to_owned()),
            _ => Err("no such field of metadata".to_owned()),
        };
    }
    let mut node = root;
    // The dots inside a filter belong to the filter.
    let mut rest = rest.to_owned();
    while !rest.is_empty() {
        let end = rest.find(['.', '[']).unwrap_or(rest.len());
        let field = &rest[..end];
        node = node
            .get("properties")
            .and_then(|p| p.get(field))
            .ok_or(format!("no field {field}"))?;
        if let Some(filter) = rest[end..].strip_prefix("[?(@.") {
            let (filter, after) = filter.split_once(")]").ok_or("a filter that does not end")?;
            let (key, value) = filter.split_once("==").ok_or("a filter without ==")?;
            node = node.get("items").ok_or(format!("{field} is no list"))?;
            let quoted = value.len() > 2 && value.starts_with('"') && value.ends_with('"');
            if !quoted || node.get("properties").and_then(|p| p.get(key)).is_none() {
                return Err(format!("the filter on {key} finds nothing"));
            }
            rest = after.strip_prefix('.').unwrap_or(after).to_owned();
        } else {
            rest = rest[end..].strip_prefix('.').unwrap_or_default().to_owned();
        }
    }
    let type_ = node.get("type").and_then(Value::as_str).ok_or("has no type")?;
    let is_date = node.get("format").is_some_and(|f| f == "date-time");
    Ok(if is_date { "date" } else { type_ }.to_owned())
}
