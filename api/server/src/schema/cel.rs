//! `x-kubernetes-validations`: CEL rules, transition rules included.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kube_cel::CompiledSchema;
use roundhouse_expression::{Allowance, Expression, with_stack};
use serde_json::{Map, Value};

use super::{
    metered::{BUDGET, Metered, Parsed, to_cel},
    model::same_item,
    path::Path,
};
use crate::error::Cause;

const RULES: &str = "x-kubernetes-validations";

/// Rules of at most this depth are evaluated on the stack of whoever asks.
const SHALLOW: usize = 10;

/// The compiled rules of a schema, or why there are none: such a definition is refused, and objects of one that was not are.
#[derive(Clone)]
pub(crate) struct Rules(Result<Arc<Node>, String>);

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
        let compiled = with_stack(|| {
            let mut errors = vec![];
            check_expressions(schema, &mut errors);
            if errors.is_empty() {
                collect_errors(&kube_cel::compile_schema(schema), &mut errors);
            }
            match errors.is_empty() {
                true => Ok(Node::of(schema).map(|node| Self(Ok(Arc::new(node))))),
                false => Err(errors),
            }
        });
        compiled.unwrap_or_else(|unworked| Err(vec![unworked.to_string()]))
    }

    /// The rules of a schema, whatever is wrong with it.
    pub(crate) fn of(schema: &Value) -> Option<Self> {
        let refused = |errors: Vec<String>| Some(Self(Err(errors.join("; "))));
        Self::compile(schema).unwrap_or_else(refused)
    }

    /// The rules that do not hold. Transition rules are evaluated only where there is an old value.
    pub(crate) fn check(&self, value: &Value, old: Option<&Value>) -> Vec<Cause> {
        match &self.0 {
            Ok(node) => {
                let mut findings = Findings {
                    allowance: Allowance::of(BUDGET),
                    causes: vec![],
                };
                node.check(value, old, Path::Root(""), &mut findings);
                findings.causes
            }
            Err(why) => vec![unchecked(Path::Root(""), why)],
        }
    }
}

/// What is found while an object is checked.
struct Findings {
    /// What is left for rules that may cost much.
    allowance: Allowance,
    causes: Vec<Cause>,
}

/// A place in a schema that has rules, or has one below it. Only these are visited: the values of all others are never made
/// values of expressions.
#[derive(Default)]
struct Node {
    /// The rules of the place itself.
    own: Option<Own>,
    properties: BTreeMap<String, Node>,
    items: Option<Box<Items>>,
    additional: Option<Box<Additional>>,
    /// `allOf`, `oneOf` and `anyOf`, of the same value.
    branches: Vec<Node>,
}

/// The rules of one place.
struct Own {
    /// With what of the schema below says how values are read.
    rules: CompiledSchema,
    /// The rules that may cost much, and are not among those.
    metered: Vec<Metered>,
    /// What of the schema says how their values are read.
    reading: Value,
    /// The fields of the value that the rules look at, where they look at nothing else of it.
    fields: Option<BTreeSet<String>>,
    /// Whether a rule looks at the value before.
    is_of_changes: bool,
    /// Whether evaluation needs more stack than a thread has.
    is_deep: bool,
}

impl Own {
    fn of(schema: &Value) -> Own {
        let (mut metered, mut plain, mut is_deep) = (vec![], vec![], false);
        for rule in rules_of(schema) {
            let parsed = Parsed::of(rule);
            is_deep |= parsed.depth() > SHALLOW;
            match Metered::of(parsed) {
                Some(rule) => metered.push(rule),
                None => plain.push(rule.clone()),
            }
        }
        let reading = reading(schema);
        Own {
            rules: compile_own(&reading, plain),
            is_deep,
            metered,
            reading,
            fields: fields(schema),
            is_of_changes: schema
                .get(RULES)
                .is_some_and(|rules| rules.to_string().contains("oldSelf")),
        }
    }

    /// As much of a value as the rules look at: the rest need not become values of expressions.
    fn part<'a>(&self, value: &'a Value) -> Cow<'a, Value> {
        match (&self.fields, value) {
            (Some(fields), Value::Object(map)) => {
                let part = fields.iter().filter_map(|name| map.get_key_value(name));
                let part = part.map(|(name, value)| (name.clone(), value.clone()));
                Cow::Owned(Value::Object(part.collect()))
            }
            _ => Cow::Borrowed(value),
        }
    }

    fn check(&self, value: &Value, old: Option<&Value>, path: Path<'_>, allowance: &Allowance) -> Vec<Cause> {
        let (value, old) = (self.part(value), old.map(|old| self.part(old)));
        let evaluate = || {
            let plain = kube_cel::validate_compiled(&self.rules, &value, old.as_deref());
            let plain = plain.err().into_iter().flatten().map(|error| Broken {
                message: error.message,
                reason: error.reason,
                field: error.field_path,
            });
            plain
                .chain(self.metered(&value, old.as_deref(), allowance))
                .collect()
        };
        // The interpreter panics where it is unfinished.
        let outcome = match self.is_deep {
            true => with_stack(evaluate).map_err(|unworked| unworked.to_string()),
            false => catch_unwind(AssertUnwindSafe(evaluate)).map_err(|_| "it breaks off".to_owned()),
        };
        match outcome {
            Ok(broken) => {
                let broken: Vec<Broken> = broken;
                broken.into_iter().map(|broken| broken.cause(path)).collect()
            }
            Err(why) => vec![unchecked(path, &why)],
        }
    }
}

impl Own {
    /// What the metered rules say.
    fn metered(&self, value: &Value, old: Option<&Value>, allowance: &Allowance) -> Vec<Broken> {
        if self.metered.is_empty() {
            return vec![];
        }
        let (value, old) = (
            to_cel(value, &self.reading),
            old.map(|old| to_cel(old, &self.reading)),
        );
        let refused = self.metered.iter().filter_map(|rule| {
            Some(Broken {
                message: rule.refuses(&value, old.as_ref(), allowance)?,
                reason: rule.reason.clone(),
                field: rule.field.clone(),
            })
        });
        refused.collect()
    }
}

/// What is said where a rule does not hold.
struct Broken {
    message: String,
    reason: Option<String>,
    /// Below the place of the rule.
    field: String,
}

impl Broken {
    fn cause(self, path: Path<'_>) -> Cause {
        let message = format!("Invalid value: {}", self.message);
        let path = match self.field.as_str() {
            "" => path.to_string(),
            below if below.starts_with(['.', '[']) => format!("{path}{below}"),
            below => Path::Field(&path, below).to_string(),
        };
        match self.reason.as_deref() {
            Some("FieldValueForbidden") => Cause::forbidden(path, message),
            Some("FieldValueRequired") => Cause::required(path, message),
            Some("FieldValueDuplicate") => Cause::duplicate(path, message),
            _ => Cause::invalid(path, message),
        }
    }
}

struct Items {
    node: Node,
    /// `x-kubernetes-list-map-keys` of a list that is a map: what tells which old item is an item's. Items of other lists
    /// have no old value, as in Kubernetes.
    keys: Vec<String>,
}

struct Additional {
    node: Node,
    /// Keys that have a schema of their own.
    declared: BTreeSet<String>,
}

impl Node {
    fn of(schema: &Value) -> Option<Node> {
        if !mentions_rules(schema) {
            return None;
        }
        let of = |key: &str| schema.get(key).and_then(Node::of);
        let declared = schema.get("properties").and_then(Value::as_object);
        let properties = declared.into_iter().flatten();
        let branches = ["allOf", "oneOf", "anyOf"].into_iter();
        let branches = branches.filter_map(|key| schema.get(key)?.as_array()).flatten();
        let keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
        let additional = of("additionalProperties").filter(|_| !keeps_unknown);
        Some(Node {
            own: schema.get(RULES).is_some().then(|| Own::of(schema)),
            properties: properties
                .filter_map(|(name, schema)| Some((name.clone(), Node::of(schema)?)))
                .collect(),
            items: of("items").map(|node| {
                let keys = list_map_keys(schema);
                Box::new(Items { node, keys })
            }),
            additional: additional.map(|node| {
                let declared = declared.into_iter().flat_map(Map::keys).cloned().collect();
                Box::new(Additional { node, declared })
            }),
            branches: branches.filter_map(Node::of).collect(),
        })
    }

    fn check(&self, value: &Value, old: Option<&Value>, path: Path<'_>, out: &mut Findings) {
        // What was so before is let pass (Kubernetes: ratcheting), but for a rule about the change itself.
        if let Some(own) = &self.own
            && (own.is_of_changes || old != Some(value))
        {
            let causes = own.check(value, old, path, &out.allowance);
            out.causes.extend(causes);
        }
        if let Value::Object(map) = value {
            let below = |key: &str| old.and_then(|old| old.get(key));
            for (name, node) in &self.properties {
                if let Some(value) = map.get(name) {
                    node.check(value, below(name), Path::Field(&path, name), out);
                }
            }
            if let Some(additional) = &self.additional {
                for (key, value) in map.iter().filter(|(key, _)| !additional.declared.contains(*key)) {
                    let path = Path::Key(&path, key);
                    additional.node.check(value, below(key), path, out);
                }
            }
        }
        if let (Some(items), Value::Array(list)) = (&self.items, value) {
            let old = old.and_then(Value::as_array);
            for (index, item) in list.iter().enumerate() {
                let old = old.and_then(|old| same_item(item, old, &items.keys));
                items.node.check(item, old, Path::Index(&path, index), out);
            }
        }
        for branch in &self.branches {
            branch.check(value, old, path, out);
        }
    }
}

fn list_map_keys(schema: &Value) -> Vec<String> {
    let keys = schema.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
    let is_map = schema.get("x-kubernetes-list-type").and_then(Value::as_str) == Some("map");
    let keys = keys.into_iter().flatten().filter(|_| is_map);
    keys.filter_map(|key| key.as_str().map(str::to_owned)).collect()
}

/// The fields that the rules of one place look at, if every rule, and every message that is an expression, says `self` and
/// `oldSelf` only to select one of them by its name. Whatever is not plainly so is taken for a look at the whole value.
fn fields(schema: &Value) -> Option<BTreeSet<String>> {
    let rules = schema.get(RULES)?.as_array()?;
    let mut all = BTreeSet::new();
    for rule in rules {
        for text in ["rule", "messageExpression"]
            .iter()
            .filter_map(|key| rule.get(*key))
        {
            all.extend(selected(text.as_str()?)?);
        }
    }
    Some(all)
}

/// What `self` and `oldSelf` are followed by in an expression: names of fields, or `None` if they are used in another way.
fn selected(expression: &str) -> Option<Vec<String>> {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut names = Vec::new();
    let mut rest = expression;
    while let Some(at) = rest.find(is_word) {
        let (skipped, from) = rest.split_at(at);
        let end = from.find(|letter| !is_word(letter)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        rest = after;
        if matches!(word, "self" | "oldSelf") {
            let field = after.strip_prefix('.')?;
            let end = field.find(|letter| !is_word(letter)).unwrap_or(field.len());
            let (name, after) = field.split_at(end);
            // A call is of the value itself, and what is escaped has another name.
            let is_plain = !name.is_empty() && !name.contains("__") && !skipped.ends_with('.');
            if !is_plain || after.trim_start().starts_with('(') {
                return None;
            }
            names.push(name.to_owned());
            rest = after;
        }
    }
    Some(names)
}

/// Rules of one place, compiled. What lies below it matters as far as it says how values are read.
fn compile_own(reading: &Value, rules: Vec<Value>) -> CompiledSchema {
    let mut own = reading.clone();
    if let Value::Object(own) = &mut own {
        own.insert(RULES.to_owned(), Value::Array(rules));
    }
    kube_cel::compile_schema(&own)
}

/// A part of a schema without rules, and without the properties that are read as any JSON value is.
fn reading(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let parts = map.iter().filter(|(key, _)| *key != RULES);
            let parts = parts.map(|(key, part)| match (key.as_str(), part) {
                ("properties", Value::Object(properties)) => {
                    let special = properties.iter().filter(|(_, schema)| is_special(schema));
                    let special = special.map(|(name, schema)| (name.clone(), reading(schema)));
                    (key.clone(), Value::Object(special.collect()))
                }
                // All else with schemas in it; a default may look like one.
                ("items" | "additionalProperties" | "allOf" | "oneOf" | "anyOf", part) => {
                    (key.clone(), reading(part))
                }
                (_, part) => (key.clone(), part.clone()),
            });
            Value::Object(parts.collect())
        }
        Value::Array(list) => Value::Array(list.iter().map(reading).collect()),
        other => other.clone(),
    }
}

/// Whether a schema, or a part of it, has a value read in another way than its JSON says: times, durations and bytes, keys
/// of maps, whole objects, and defaults.
fn is_special(schema: &Value) -> bool {
    const SPECIAL: [&str; 3] = [
        "additionalProperties",
        "default",
        "x-kubernetes-embedded-resource",
    ];
    const FORMATS: [&str; 3] = ["byte", "date-time", "duration"];
    match schema {
        Value::Object(map) => map.iter().any(|(key, part)| match (key.as_str(), part) {
            ("format", Value::String(format)) => FORMATS.contains(&format.as_str()),
            (key, part) => SPECIAL.contains(&key) || is_special(part),
        }),
        Value::Array(list) => list.iter().any(is_special),
        _ => false,
    }
}

/// Rules that could not be evaluated.
fn unchecked(path: Path<'_>, why: &str) -> Cause {
    Cause::invalid(
        path,
        format!("Invalid value: the rules cannot be evaluated: {why}"),
    )
}

/// The rules of one place.
fn rules_of(schema: &Value) -> impl Iterator<Item = &Value> {
    schema.get(RULES).and_then(Value::as_array).into_iter().flatten()
}

/// The expressions of the rules of one place.
fn expressions(schema: &Value) -> impl Iterator<Item = &str> {
    let texts = rules_of(schema).flat_map(|rule| ["rule", "messageExpression"].map(|key| rule.get(key)));
    texts.flatten().filter_map(Value::as_str)
}

/// What is wrong with expressions that the interpreter must not even be given.
fn check_expressions(schema: &Value, out: &mut Vec<String>) {
    for text in expressions(schema) {
        if let Err(error) = Expression::of_rule(text) {
            let start: String = text.chars().take(64).collect();
            out.push(format!("{start:?}: {error}"));
        }
    }
    match schema {
        Value::Object(map) => map.values().for_each(|part| check_expressions(part, out)),
        Value::Array(list) => list.iter().for_each(|part| check_expressions(part, out)),
        _ => {}
    }
}

fn mentions_rules(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| key == RULES || mentions_rules(value)),
        Value::Array(list) => list.iter().any(mentions_rules),
        _ => false,
    }
}

fn collect_errors(schema: &CompiledSchema, out: &mut Vec<String>) {
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
    fn only_plain_selections_of_fields_are_taken_for_such() {
        for (expression, names) in [
            (
                "!has(oldSelf.epoch) || has(self.epoch)",
                Some(vec!["epoch", "epoch"]),
            ),
            ("self.a.b == self.c['self2'] && myself.d", Some(vec!["a", "c"])),
            ("self.items.all(item, item.size() < 3)", Some(vec!["items"])),
            ("true", Some(vec![])),
            ("self >= oldSelf", None),
            ("self == oldSelf.a", None),
            ("self.size() < 3", None),
            ("self.all(key, true)", None),
            ("self['a'] == 1", None),
            ("self.?a.hasValue()", None),
            ("self.__namespace__ == ''", None),
            ("[1].exists(self, self.a == 1)", None),
            ("other.self.a == 1", None),
            ("self . a == 1", None),
            ("self.a == 'my self'", None),
        ] {
            let names = names.map(|names| names.into_iter().map(str::to_owned).collect());
            assert_eq!(selected(expression), names, "{expression}");
        }
    }

    #[test]
    fn what_no_rule_looks_at_is_not_looked_at_and_changes_nothing() {
        let rule = json!([{"rule": "!has(oldSelf.epoch) || has(self.epoch)",
            "messageExpression": "'epoch was ' + string(oldSelf.epoch)"}]);
        let properties = json!({"epoch": {"type": "integer"}, "size": {"type": "integer", "default": 3},
            "rest": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let schema = json!({"type": "object", "properties": properties, "x-kubernetes-validations": rule});
        assert_eq!(fields(&schema), Some(["epoch".to_owned()].into()));
        let (with, without) = (
            json!({"epoch": 7, "rest": {"a": [1]}}),
            json!({"rest": {"a": [1]}}),
        );
        assert_eq!(refused(&schema, &with, Some(&without)), [""; 0]);
        assert_eq!(refused(&schema, &without, Some(&without)), [""; 0]);
        let rules = Rules::compile(&schema).unwrap().unwrap();
        let causes = rules.check(&without, Some(&with));
        assert_eq!(causes[0].message, "Invalid value: epoch was 7");
    }

    /// Where the rules of `schema` do not hold.
    fn refused(schema: &Value, value: &Value, old: Option<&Value>) -> Vec<String> {
        let rules = Rules::compile(schema).unwrap().unwrap();
        let causes = rules.check(value, old);
        causes.into_iter().map(|cause| cause.field).collect()
    }

    fn refused_by(rules: &Rules, value: &Value) -> Vec<String> {
        let causes = rules.check(value, None);
        causes.into_iter().map(|cause| cause.field).collect()
    }

    #[test]
    fn rules_hold_wherever_they_are() {
        let rule = |rule: &str| json!([{"rule": rule}]);
        let small = json!({"type": "integer", "x-kubernetes-validations": rule("self < 10")});
        let schema = json!({"type": "object", "x-kubernetes-validations": rule("!has(self.status) || has(self.spec)"), "properties": {
            "spec": {"type": "object", "properties": {
                "list": {"type": "array", "items": {"type": "object", "properties": {"size": small}}},
                "sizes": {"type": "object", "additionalProperties": small},
                "either": {"type": "integer", "anyOf": [small]},
                "from": {"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}},
                    "x-kubernetes-validations": rule("self.at < timestamp(\"2026-01-01T00:00:00Z\")")},
            }},
            "status": {"type": "object", "properties": {"text": {"type": "string"}}}}});
        let wrong = json!({
            "spec": {"list": [{"size": 1}, {"size": 11}], "sizes": {"a": 12}, "either": 13, "from": {"at": "2027-01-01T00:00:00Z"}},
        });
        assert_eq!(
            refused(&schema, &wrong, None),
            ["spec.either", "spec.from", "spec.list[1].size", "spec.sizes[a]"]
        );
        let right = json!({
            "spec": {"list": [{"size": 1}], "sizes": {"a": 2}, "either": 3, "from": {"at": "2025-01-01T00:00:00Z"}},
            "status": {"text": "x"},
        });
        assert_eq!(refused(&schema, &right, None), [""; 0]);
        assert_eq!(refused(&schema, &json!({"status": {}}), None), [""]);
    }

    #[test]
    fn fields_may_be_called_as_words_of_schemas_are() {
        let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
        let schema = json!({"type": "object", "x-kubernetes-validations": [
                {"rule": "!has(self.properties) || self.properties['a-b'] == 'x'"},
                {"rule": "!has(self.items) || self.items['a-b'] == 'x'"}],
            "properties": {"properties": texts, "items": texts,
                "given": {"type": "object", "default": {"properties": {"a": 1}}}}});
        let with = |text: &str| json!({"properties": {"a-b": text}, "items": {"a-b": text}});
        assert_eq!(refused(&schema, &with("x"), None), [""; 0]);
        assert_eq!(refused(&schema, &with("y"), None), ["", ""]);
    }

    #[test]
    fn an_item_of_a_keyed_list_has_the_old_value_of_its_key() {
        let schema = |keys: Value| {
            let mut list = json!({"type": "array", "items": {"type": "object", "properties": {
                "n": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}}}});
            if !keys.is_null() {
                list["x-kubernetes-list-type"] = json!("map");
                list["x-kubernetes-list-map-keys"] = keys;
            }
            json!({"type": "object", "properties": {"list": list}})
        };
        let old = json!({"list": [{"name": "a", "n": 5}, {"name": "b", "n": 1}]});
        let turned = json!({"list": [{"name": "b", "n": 2}, {"name": "a", "n": 4}, {"name": "c", "n": 0}]});
        let keyed = schema(json!(["name"]));
        assert_eq!(refused(&keyed, &turned, Some(&old)), ["list[1].n"]);
        assert_eq!(refused(&schema(Value::Null), &turned, Some(&old)), [""; 0]);
    }

    #[test]
    fn what_would_break_the_interpreter_is_refused_with_the_definition() {
        let repeated = |first: &str, more: &str| format!("{first}{}", more.repeat(100_000));
        let ten = (0..10).fold("true".to_owned(), |inner, n| format!("[0, 1].all(v{n}, {inner})"));
        for rule in [
            repeated("self", ".a"),
            repeated("1", "+1"),
            repeated("", "("),
            repeated("", "!"),
            "Foo{a: 1} == self".to_owned(),
            "[Foo{a: 1}] == self.a".to_owned(),
            ten,
        ] {
            for key in ["rule", "messageExpression"] {
                let mut rules = json!([{"rule": "true"}]);
                rules[0][key] = rule.as_str().into();
                let schema = json!({"type": "object", "x-kubernetes-validations": rules});
                let errors = Rules::compile(&schema).unwrap_err();
                assert_eq!(errors.len(), 1, "{rule:.40}");
                assert!(errors[0].len() < 400, "{}", errors[0]);
                assert_eq!(refused_by(&Rules::of(&schema).unwrap(), &json!({})), [""]);
            }
        }
    }

    #[test]
    fn rules_that_cost_too_much_are_stopped() {
        let numbers = json!({"type": "array", "items": {"type": "integer"}});
        let schema = |rule: &str| {
            json!({"type": "object", "properties": {"list": numbers, "text": {"type": "string"}},
                "x-kubernetes-validations": [{"rule": rule}]})
        };
        let value = json!({"list": (0..2000).collect::<Vec<_>>(), "text": "x".repeat(100_000)});
        let doubling = ".map(a, a + a)".repeat(30);
        for rule in [
            "self.list.all(x, self.list.all(y, self.list.all(z, x + y + z >= 0)))",
            &format!("[[1]]{doubling}.size() > 0"),
            "self.text.replace('', self.text) != ''",
        ] {
            let rules = Rules::compile(&schema(rule)).unwrap().unwrap();
            let causes = rules.check(&value, None);
            assert_eq!(causes.len(), 1, "{rule}");
        }
        // Nor do many that cost little each.
        let items = json!({"type": "array", "items": {"type": "array", "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x + y > 0))"}]}});
        let row = json!((1..300).collect::<Vec<_>>());
        assert_eq!(refused(&items, &json!([row]), None), [""; 0]);
        assert!(!refused(&items, &json!(vec![row; 30]), None).is_empty());
        let rule = "self.list.all(x, x >= 0) && self.list.exists(x, x == 7)";
        assert_eq!(refused(&schema(rule), &value, None), [""; 0]);
    }

    /// What is read in another way than its JSON says is so for rules of either kind.
    #[test]
    fn metered_rules_see_values_as_others_do() {
        let properties = json!({"at": {"type": "string", "format": "date-time"}, "for": {"type": "string", "format": "duration"},
            "raw": {"type": "string", "format": "byte"}, "a-b": {"type": "integer"}, "in": {"type": "integer"},
            "port": {"x-kubernetes-int-or-string": true, "format": "byte"},
            "map": {"type": "object", "additionalProperties": {"type": "string", "format": "duration"}},
            "object": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}});
        let value = json!({"at": "2026-01-02T03:04:05Z", "for": "1h30m", "raw": "aGk=", "a-b": 1, "in": 2, "port": "aGk=",
            "map": {"a-b": "5s"}, "object": {}});
        for expression in [
            "self.at < timestamp('2026-01-03T00:00:00Z')",
            "self.__for__ == duration('5400s')",
            "self.raw == b'hi'",
            "self.a__dash__b == 1 && self.__in__ == 2",
            "self.port == 'aGk='",
            "self.map['a-b'] < duration('6s')",
            "self.object.kind == '' && self.object.metadata.size() == 0",
            "!has(self.missing)",
        ] {
            for rule in [expression.to_owned(), format!("[1].all(x, {expression})")] {
                let schema = |rule: &str| {
                    json!({"type": "object", "properties": properties, "x-kubernetes-validations": [{"rule": rule,
                        "messageExpression": "'no ' + string(self.a__dash__b)", "fieldPath": ".at", "reason": "FieldValueForbidden"}]})
                };
                assert_eq!(refused(&schema(&rule), &value, None), [""; 0], "{rule}");
                let wrong = schema(&format!("!({rule})"));
                let causes = Rules::compile(&wrong).unwrap().unwrap().check(&value, None);
                let expected = Cause::forbidden(".at", "Invalid value: no 1");
                assert_eq!(causes, [expected], "{rule}");
            }
        }
        let grows = json!({"type": "array", "items": {"type": "integer"},
            "x-kubernetes-validations": [{"rule": "oldSelf.all(x, x in self)"}]});
        assert_eq!(refused(&grows, &json!([1]), None), [""; 0]);
        assert_eq!(refused(&grows, &json!([1, 2]), Some(&json!([1]))), [""; 0]);
        assert_eq!(refused(&grows, &json!([2]), Some(&json!([1]))), [""]);
    }

    #[test]
    fn deep_rules_are_evaluated_on_a_stack_of_their_own() {
        let sum = |n: usize| format!("{}self.a == {n}", "1 + ".repeat(n));
        let schema = |n: usize| {
            json!({"type": "object", "properties": {"a": {"type": "integer"}},
                "x-kubernetes-validations": [{"rule": sum(n)}]})
        };
        for n in [1, 50] {
            assert_eq!(refused(&schema(n), &json!({"a": 0}), None), [""; 0], "{n}");
            assert_eq!(refused(&schema(n), &json!({"a": 1}), None), [""], "{n}");
        }
    }

    #[test]
    fn rules_that_do_not_compile_are_reported() {
        let schema = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.("}]});
        assert_eq!(Rules::compile(&schema).unwrap_err().len(), 1);
        assert!(Rules::compile(&json!({"type": "object"})).unwrap().is_none());
    }
}
