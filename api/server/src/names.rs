//! The rules for names, labels and annotations (`k8s.io/apimachinery/pkg/util/validation`).

fn alphanumeric(c: char) -> bool {
    c.is_ascii_alphanumeric()
}

fn bounded_by(text: &str, edge: fn(char) -> bool, inner: impl Fn(char) -> bool) -> bool {
    text.starts_with(edge) && text.ends_with(edge) && text.chars().all(inner)
}

fn lower(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit()
}

/// What is wrong with a DNS label (RFC 1123).
pub(crate) fn dns_label(text: &str) -> Vec<String> {
    let mut out = vec![];
    if text.len() > 63 {
        out.push("must be no more than 63 characters".to_owned());
    }
    if !bounded_by(text, lower, |c| lower(c) || c == '-') {
        out.push("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')".to_owned());
    }
    out
}

/// What is wrong with a DNS label that must start with a letter (RFC 1035), as service names must.
pub(crate) fn dns_1035_label(text: &str) -> Vec<String> {
    let mut out = vec![];
    if text.len() > 63 {
        out.push("must be no more than 63 characters".to_owned());
    }
    if !text.starts_with(|c: char| c.is_ascii_lowercase())
        || !bounded_by(text, lower, |c| lower(c) || c == '-')
    {
        out.push("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')".to_owned());
    }
    out
}

/// What is wrong with a DNS subdomain (RFC 1123).
pub(crate) fn dns_subdomain(text: &str) -> Vec<String> {
    let mut out = vec![];
    if text.len() > 253 {
        out.push("must be no more than 253 characters".to_owned());
    }
    if !text
        .split('.')
        .all(|part| bounded_by(part, lower, |c| lower(c) || c == '-'))
    {
        out.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    out
}

/// What is wrong with a name that only has to be one path segment (RBAC objects).
pub(crate) fn path_segment(text: &str) -> Vec<String> {
    let mut out = vec![];
    if text == "." || text == ".." {
        out.push(format!("may not be '{text}'"));
    }
    for c in ['/', '%'] {
        if text.contains(c) {
            out.push(format!("may not contain '{c}'"));
        }
    }
    out
}

/// What is wrong with a label key, annotation key or finalizer: `[prefix/]name`.
pub(crate) fn qualified_name(text: &str) -> Vec<String> {
    let mut out = vec![];
    let name = match text.split_once('/') {
        None => text,
        Some((prefix, name)) => {
            if prefix.is_empty() {
                out.push("prefix part must be non-empty".to_owned());
            } else {
                out.extend(
                    dns_subdomain(prefix)
                        .into_iter()
                        .map(|why| format!("prefix part {why}")),
                );
            }
            name
        }
    };
    if name.is_empty() {
        out.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        out.push("name part must be no more than 63 characters".to_owned());
    }
    if !bounded_by(name, alphanumeric, |c| alphanumeric(c) || "-_.".contains(c)) {
        out.push("name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')".to_owned());
    }
    out
}

/// What is wrong with a label value.
pub(crate) fn label_value(text: &str) -> Vec<String> {
    let mut out = vec![];
    if text.len() > 63 {
        out.push("must be no more than 63 characters".to_owned());
    }
    if !text.is_empty() && !bounded_by(text, alphanumeric, |c| alphanumeric(c) || "-_.".contains(c)) {
        out.push("a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')".to_owned());
    }
    out
}

/// What is wrong with a key of ConfigMap or Secret data.
pub(crate) fn config_key(text: &str) -> Vec<String> {
    let mut out = vec![];
    if text.len() > 253 {
        out.push("must be no more than 253 characters".to_owned());
    }
    if text.is_empty() || !text.chars().all(|c| alphanumeric(c) || "-_.".contains(c)) {
        out.push("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')".to_owned());
    }
    match text {
        "." => out.push("must not be '.'".to_owned()),
        ".." => out.push("must not be '..'".to_owned()),
        t if t.starts_with("..") => out.push("must not start with '..'".to_owned()),
        _ => {}
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        type Row = (
            fn(&str) -> Vec<String>,
            &'static [&'static str],
            &'static [&'static str],
        );
        let table: [Row; 6] = [
            (dns_label, &["a", "a-1", "1a"], &["", "-a", "a-", "A", "a.b", "ä"]),
            (dns_1035_label, &["a", "a-1"], &["1a", "", "a-"]),
            (
                dns_subdomain,
                &["a", "a.b-1", "1.2"],
                &["", "a..b", ".a", "Bad_Name"],
            ),
            (
                qualified_name,
                &["a", "A_b.c", "x.dev/a"],
                &["", "/a", "a b", "x.dev/", "a/b/c", "X.dev/a"],
            ),
            (label_value, &["", "A", "a_b"], &["a b", "-a", "a/b"]),
            (
                config_key,
                &["a", "A_b.c", "-"],
                &["", "a/b", ".", "..", "..a", "a b"],
            ),
        ];
        for (rule, good, bad) in table {
            for text in good {
                assert!(rule(text).is_empty(), "{text:?} is fine");
            }
            for text in bad {
                assert!(!rule(text).is_empty(), "{text:?} is refused");
            }
        }
        assert!(!dns_label(&"a".repeat(64)).is_empty());
    }
}
