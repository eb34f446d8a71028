//! Addresses and header values: plain, or what a Secret holds.

use super::super::node::{Node, Shape};
use super::object::is_name;
use crate::application::{SecretKey, TextSource};

const SOURCE: Shape = Shape {
    known: &[&["value", "secretRef", "valueFrom"]],
    refused: &[],
};
const VALUE_FROM: Shape = Shape {
    known: &[&["secretKeyRef"]],
    refused: &[(
        "configMapKeyRef",
        "configMapKeyRef is not supported: use secretKeyRef, or write the value",
    )],
};
const SECRET: Shape = Shape {
    known: &[&["name", "key"]],
    refused: &[(
        "namespace",
        "a Secret is read in the application's namespace only: leave it out",
    )],
};

/// At most this many characters of a scheme are shown.
const MAX_SCHEME: usize = 20;

/// A text, `{value: text}`, `{valueFrom: {secretKeyRef: {name, key}}}`, or KubeVela's `{secretRef: {name, key}}`.
pub(super) fn text_source(node: &Node<'_>) -> Option<TextSource> {
    if !node.value.is_object() {
        return Some(TextSource::Plain(node.text()?.to_owned()));
    }
    let object = node.object(&SOURCE)?;
    let given: Vec<&str> = SOURCE
        .names()
        .filter(|field| object.optional(field).is_some())
        .collect();
    match given.as_slice() {
        ["value"] => {
            let value = object.optional("value")?;
            Some(TextSource::Plain(value.text()?.to_owned()))
        }
        ["secretRef"] => secret(&object.optional("secretRef")?),
        ["valueFrom"] => {
            let from = object.optional("valueFrom")?.object(&VALUE_FROM)?;
            secret(&from.required("secretKeyRef", "name the Secret and its key")?)
        }
        [] => {
            node.refuse("is empty: write value, or valueFrom: {secretKeyRef: {name, key}}");
            None
        }
        several => {
            node.refuse(format!("{} exclude each other: keep one", several.join(" and ")));
            None
        }
    }
}

fn secret(node: &Node<'_>) -> Option<TextSource> {
    let object = node.object(&SECRET)?;
    let name = object.required("name", "name the Secret");
    let key = object.required("key", "name the key of the Secret");
    let (name_node, key) = (name?, key?);
    let name = name_node.text()?;
    if !is_name(name) {
        name_node.refuse(format!("{name:?} is no name of a Secret"));
        return None;
    }
    Some(TextSource::Secret(SecretKey {
        name: name.to_owned(),
        key: key.text()?.to_owned(),
    }))
}

/// An address as it is written, or as a Secret holds it: `http` or `https`, with a host, without credentials.
///
/// # Errors
/// What is wrong with it, without the address: it may be a secret.
pub fn check_url(url: &str) -> Result<(), String> {
    const SUCH_AS: &str = "write one such as https://example.org/hook";
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(format!("is no address: {SUCH_AS}"));
    };
    if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return Err(format!(
            "has the scheme {}: only http and https are sent",
            shown(scheme)
        ));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(
            "has a user or password in it: put them into a header whose value comes from a Secret".to_owned(),
        );
    }
    if authority.is_empty() || authority.starts_with(':') {
        return Err(format!("names no host: {SUCH_AS}"));
    }
    let plain = |b: u8| b.is_ascii_graphic() && !b"\\\"<>^`{|}".contains(&b);
    if !url.bytes().all(plain) {
        return Err("has characters that an address cannot have: encode them as %XX".to_owned());
    }
    Ok(())
}

/// The beginning of a scheme, which somebody else may have written.
fn shown(scheme: &str) -> String {
    match scheme.char_indices().nth(MAX_SCHEME) {
        Some((end, _)) => format!("{:?}…", scheme.get(..end).unwrap_or_default()),
        None => format!("{scheme:?}"),
    }
}
