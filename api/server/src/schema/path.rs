//! Where in an object a value is.

use std::fmt;

/// A field path as Kubernetes writes it. It is written out only where something is said about a value, which is true of few
/// values of few objects.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Path<'a> {
    /// The path of what is walked through; empty for a whole object.
    Root(&'a str),
    /// `a` + `b` -> `a.b`.
    Field(&'a Path<'a>, &'a str),
    /// `a` + map key `b` -> `a[b]`.
    Key(&'a Path<'a>, &'a str),
    /// `a` + 3 -> `a[3]`.
    Index(&'a Path<'a>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root(path) => f.write_str(path),
            Path::Field(Path::Root(""), name) => f.write_str(name),
            Path::Field(above, name) => write!(f, "{above}.{name}"),
            Path::Key(above, key) => write!(f, "{above}[{key}]"),
            Path::Index(above, index) => write!(f, "{above}[{index}]"),
        }
    }
}

impl From<Path<'_>> for String {
    fn from(path: Path<'_>) -> String {
        path.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_written_as_kubernetes_does() {
        let (whole, spec) = (Path::Root(""), Path::Root("spec"));
        let list = Path::Field(&spec, "list");
        for (path, expected) in [
            (whole, ""),
            (Path::Field(&whole, "spec"), "spec"),
            (Path::Key(&whole, "a.b"), "[a.b]"),
            (list, "spec.list"),
            (Path::Field(&Path::Index(&list, 3), "name"), "spec.list[3].name"),
            (
                Path::Key(&Path::Field(&spec, "labels"), "a/b"),
                "spec.labels[a/b]",
            ),
        ] {
            assert_eq!(path.to_string(), expected);
        }
    }
}
