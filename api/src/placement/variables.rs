//! Variables in the string values of overrides.

/// A part of a string value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// As it is written.
    Text(&'a str),
    /// `${cluster.name}`.
    ClusterName,
    /// `${cluster.labels.<key>}`.
    ClusterLabel(&'a str),
}

/// What cannot be a variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    /// It is not closed.
    #[error("{0:?} is not closed: end the variable with }}, or write $${{cluster. for the text itself")]
    Open(String),
    /// There is no such variable.
    #[error(
        "{0:?} is no variable: known here are ${{cluster.name}} and ${{cluster.labels.<key>}}; write $${{cluster. for the text itself"
    )]
    Unknown(String),
}

const START: &str = "${cluster.";
/// Characters of a message's quotation.
const SHOWN: usize = 40;

/// Splits a string at its variables. Everything else that looks like a variable (`${HOME}`) is text.
///
/// # Errors
/// [`VariableError`] quotes what starts like one of ours and is none.
pub fn pieces(text: &str) -> Result<Vec<Piece<'_>>, VariableError> {
    let quoted = |from: &str| from.chars().take(SHOWN).collect::<String>();
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(START) {
        if let Some(plain) = before.strip_suffix('$') {
            // `$${cluster.` stands for `${cluster.`.
            pieces.extend([Piece::Text(plain), Piece::Text(START)]);
            rest = after;
            continue;
        }
        let Some((name, behind)) = after.split_once('}') else {
            return Err(VariableError::Open(quoted(&format!("{START}{after}"))));
        };
        pieces.push(Piece::Text(before));
        pieces.push(match name.strip_prefix("labels.").filter(|key| !key.is_empty()) {
            Some(key) => Piece::ClusterLabel(key),
            None if name == "name" => Piece::ClusterName,
            None => return Err(VariableError::Unknown(quoted(&format!("{START}{name}}}")))),
        });
        rest = behind;
    }
    pieces.push(Piece::Text(rest));
    pieces.retain(|piece| *piece != Piece::Text(""));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use super::{Piece::*, *};

    #[test]
    fn a_string_is_split_at_its_variables() {
        for (text, expected) in [
            ("", vec![]),
            (
                "plain ${HOME} $(cluster.name)",
                vec![Text("plain ${HOME} $(cluster.name)")],
            ),
            ("${cluster.name}", vec![ClusterName]),
            (
                "db.${cluster.labels.topology.kubernetes.io/region}.${cluster.name}:5432",
                vec![
                    Text("db."),
                    ClusterLabel("topology.kubernetes.io/region"),
                    Text("."),
                    ClusterName,
                    Text(":5432"),
                ],
            ),
            ("$${cluster.name}", vec![Text("${cluster."), Text("name}")]),
        ] {
            assert_eq!(pieces(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_variable_is_quoted() {
        for (text, message) in [
            (
                "a ${cluster.region} b",
                "\"${cluster.region}\" is no variable: known here are ${cluster.name} and ${cluster.labels.<key>}; write \
                 $${cluster. for the text itself",
            ),
            (
                "${cluster.labels.}",
                "\"${cluster.labels.}\" is no variable: known here are ${cluster.name} and ${cluster.labels.<key>}; write \
                 $${cluster. for the text itself",
            ),
            (
                "x ${cluster.name",
                "\"${cluster.name\" is not closed: end the variable with }, or write $${cluster. for the text itself",
            ),
        ] {
            assert_eq!(pieces(text).unwrap_err().to_string(), message);
        }
    }
}
