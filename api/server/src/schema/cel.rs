//! `x-kubernetes-validations`: CEL rules, transition rules included.

use std::sync::Arc;

use serde_json::Value;

use crate::error::Cause;

/// The compiled rules of a schema. Rules that do not compile were refused with the definition.
#[derive(Clone)]
pub(crate) struct Rules(Arc<kube_cel::CompiledSchema>);

impl std::fmt::Debug for Rules {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Rules")
    }
}

impl Rules {
    /// The rules of a schema, or `None` if it has none.
    ///
    /// # Errors
    /// What is wrong with each rule that does not compile.
    pub(crate) fn compile(schema: &Value) -> Result<Option<Self>, Vec<String>> {
        if !mentions_rules(schema) {
            return Ok(None);
        }
        let compiled = kube_cel::compile_schema(schema);
        let mut errors = vec![];
        collect_errors(&compiled, &mut errors);
        if errors.is_empty() {
            Ok(Some(Self(Arc::new(compiled))))
        } else {
            Err(errors)
        }
    }

    /// The rules that do not hold. Transition rules are evaluated only where there is an old value.
    pub(crate) fn check(&self, value: &Value, old: Option<&Value>) -> Vec<Cause> {
        let Err(errors) = kube_cel::validate_compiled(&self.0, value, old) else {
            return vec![];
        };
        let causes = errors.into_vec().into_iter().map(|error| {
            let message = format!("Invalid value: {}", error.message);
            let path = error.field_path;
            match error.reason.as_deref() {
                Some("FieldValueForbidden") => Cause::forbidden(path, message),
                Some("FieldValueRequired") => Cause::required(path, message),
                Some("FieldValueDuplicate") => Cause::duplicate(path, message),
                _ => Cause::invalid(path, message),
            }
        });
        causes.collect()
    }
}

fn mentions_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map
            .iter()
            .any(|(k, v)| k == "x-kubernetes-validations" || mentions_rules(v)),
        Value::Array(list) => list.iter().any(mentions_rules),
        _ => false,
    }
}

fn collect_errors(schema: &kube_cel::CompiledSchema, out: &mut Vec<String>) {
    out.extend(
        schema
            .validations
            .iter()
            .filter_map(|v| v.as_ref().err())
            .map(ToString::to_string),
    );
    let children = schema
        .properties
        .values()
        .chain(schema.items.as_deref())
        .chain(schema.additional_properties.as_deref());
    for child in children
        .chain(&schema.all_of)
        .chain(&schema.any_of)
        .chain(&schema.one_of)
    {
        collect_errors(child, out);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn transition_rules_see_the_old_value() {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "epoch": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "epoch may not fall"}]},
        }}}});
        let rules = Rules::compile(&schema).unwrap().unwrap();
        let at = |epoch: i64| json!({"spec": {"epoch": epoch}});
        assert!(rules.check(&at(3), None).is_empty());
        assert!(rules.check(&at(3), Some(&at(3))).is_empty());
        assert!(rules.check(&at(4), Some(&at(3))).is_empty());
        let causes = rules.check(&at(2), Some(&at(3)));
        assert_eq!(causes.len(), 1);
        assert_eq!(
            (causes[0].reason, causes[0].field.as_str()),
            ("FieldValueInvalid", "spec.epoch")
        );
    }

    #[test]
    fn rules_that_do_not_compile_are_reported() {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]});
        assert_eq!(Rules::compile(&schema).unwrap_err().len(), 1);
        assert!(Rules::compile(&json!({"type": "object"})).unwrap().is_none());
    }
}
