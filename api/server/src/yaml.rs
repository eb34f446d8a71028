//! YAML bodies, read as kubectl reads them.

use serde_saphyr::options::DuplicateKeyPolicy;

use crate::{
    error::ApiError,
    request::{MAX_DEPTH, Noted, too_deep},
};

/// Reads one YAML document (JSON is YAML too), and notes the fields that come twice: the last one counts.
///
/// # Errors
/// 400 if it is malformed or nested too deeply.
pub(crate) fn parse(bytes: &[u8]) -> Result<Noted, ApiError> {
    let bad = |why: String| ApiError::bad_request(format!("error decoding the body of the request: {why}"));
    let text = std::str::from_utf8(bytes).map_err(|e| bad(e.to_string()))?;
    let options =
        serde_saphyr::options! { legacy_octal_numbers: true, duplicate_keys: DuplicateKeyPolicy::LastWins };
    let noted: Noted = serde_saphyr::from_str_with_options(text, options).map_err(|e| bad(e.to_string()))?;
    if too_deep(&noted.value, MAX_DEPTH) {
        return Err(bad(format!("nested deeper than {MAX_DEPTH} levels")));
    }
    Ok(noted)
}
