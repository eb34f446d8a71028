//! What the steps that act outside of the fleet are asked to do: requests, and objects on the hub.

use super::validate::Violation;
use serde_json::Value;

/// What a step that acts is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActionProperties {
    /// The kind of action.
    pub kind: ActionKind,
    /// Its properties, inputs put in.
    pub properties: Value,
}

/// The kinds of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ActionKind {
    /// `request`: an HTTP request.
    Request,
    /// `webhook`: an HTTP request, by default a POST.
    Webhook,
    /// `notification`: a message to people.
    Notification,
    /// `apply-object`: writes an object on the hub.
    ApplyObject,
    /// `read-object`: reads an object on the hub.
    ReadObject,
    /// `delete-object`: deletes an object on the hub.
    DeleteObject,
}

impl ActionKind {
    /// All of them.
    pub const ALL: [ActionKind; 6] = [
        ActionKind::Request,
        ActionKind::Webhook,
        ActionKind::Notification,
        ActionKind::ApplyObject,
        ActionKind::ReadObject,
        ActionKind::DeleteObject,
    ];

    /// The kind that a step type names.
    pub fn of_type(type_: &str) -> Option<ActionKind> {
        ActionKind::ALL.into_iter().find(|kind| kind.as_str() == type_)
    }

    /// The step type.
    pub fn as_str(self) -> &'static str {
        match self {
            ActionKind::Request => "request",
            ActionKind::Webhook => "webhook",
            ActionKind::Notification => "notification",
            ActionKind::ApplyObject => "apply-object",
            ActionKind::ReadObject => "read-object",
            ActionKind::DeleteObject => "delete-object",
        }
    }

    /// Properties that there have to be, and what to say where there are not.
    fn required(self) -> &'static [(&'static str, &'static str)] {
        const OBJECT: &[(&str, &str)] = &[
            ("apiVersion", "name the API version of the object"),
            ("kind", "name the kind of the object"),
            ("name", "name the object"),
        ];
        match self {
            ActionKind::Request | ActionKind::Webhook => {
                &[("url", "name the address, such as https://example.org/hook")]
            }
            ActionKind::Notification => &[],
            ActionKind::ApplyObject => &[("value", "write the object")],
            ActionKind::ReadObject | ActionKind::DeleteObject => OBJECT,
        }
    }
}

impl ActionProperties {
    /// Reads the properties of a step of type `type_`.
    ///
    /// # Errors
    /// All violations, their paths beginning with `properties`; never empty.
    pub fn read(type_: &str, properties: &Value) -> Result<ActionProperties, Vec<Violation>> {
        let refuse = |path: &str, reason: String| Violation {
            path: path.to_owned(),
            reason,
        };
        let Some(kind) = ActionKind::of_type(type_) else {
            return Err(vec![refuse("type", format!("{type_:?} is no step that acts"))]);
        };
        let violations: Vec<Violation> = match properties {
            Value::Null | Value::Object(_) => kind
                .required()
                .iter()
                .filter(|(field, _)| properties.get(field).is_none_or(Value::is_null))
                .map(|(field, what)| refuse(&format!("properties.{field}"), format!("is required: {what}")))
                .collect(),
            _ => vec![refuse("properties", "expected a map".to_owned())],
        };
        match violations.is_empty() {
            true => Ok(ActionProperties {
                kind,
                properties: properties.clone(),
            }),
            false => Err(violations),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_named() {
        let lines = |type_: &str, properties: Value| -> Vec<String> {
            let read = ActionProperties::read(type_, &properties);
            read.err().into_iter().flatten().map(|v| v.to_string()).collect()
        };
        assert_eq!(
            lines("request", json!({})),
            ["properties.url: is required: name the address, such as https://example.org/hook"]
        );
        assert_eq!(lines("request", json!({"url": "https://x"})), [""; 0]);
        assert_eq!(lines("notification", Value::Null), [""; 0]);
        assert_eq!(lines("webhook", json!([])), ["properties: expected a map"]);
        assert_eq!(lines("read-object", json!({"kind": "ConfigMap"})).len(), 2);
        assert_eq!(
            lines("deploy", json!({})),
            ["type: \"deploy\" is no step that acts"]
        );
        for kind in ActionKind::ALL {
            assert_eq!(ActionKind::of_type(kind.as_str()), Some(kind));
        }
    }
}
