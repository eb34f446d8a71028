//! Content negotiation: in which form the client wants the answer.

use http::{HeaderMap, header::ACCEPT};

use crate::{discovery::SWAGGER, error::ApiError};

/// The shape of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Format {
    #[default]
    Object,
    Table,
    Metadata,
    /// Aggregated discovery, `apidiscovery.k8s.io/v2`.
    Discovery,
}

/// The shape and encoding of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Output {
    pub(crate) format: Format,
    pub(crate) yaml: bool,
    /// Whether the metadata asked for is that of a list.
    pub(crate) list: bool,
    /// OpenAPI v2 in protobuf.
    pub(crate) swagger: bool,
}

impl Output {
    /// The first entry of the `Accept` headers that can be served.
    pub(crate) fn negotiate(headers: &HeaderMap) -> Result<Self, ApiError> {
        let mut any = false;
        for header in headers.get_all(ACCEPT) {
            let Ok(text) = header.to_str() else { continue };
            for entry in text.split(',').map(str::trim).filter(|e| !e.is_empty()) {
                any = true;
                if let Some(output) = entry_output(entry) {
                    return Ok(output);
                }
            }
        }
        if any {
            Err(ApiError::not_acceptable())
        } else {
            Ok(Self::default())
        }
    }
}

fn entry_output(entry: &str) -> Option<Output> {
    let mut parts = entry.split(';').map(str::trim);
    let media = parts.next()?.to_ascii_lowercase();
    // kubectl writes the version as `.v1.0` or, before 1.27, as `@v1.0`.
    if media == SWAGGER || media == SWAGGER.replace(".v1.0", "@v1.0") {
        return Some(Output {
            swagger: true,
            ..Output::default()
        });
    }
    let yaml = match media.as_str() {
        "application/json" | "*/*" | "application/*" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let (mut kind, mut group, mut version) = ("", "", "");
    for part in parts {
        match part.split_once('=') {
            Some(("as", v)) => kind = v,
            Some(("g", v)) => group = v,
            Some(("v", v)) => version = v,
            _ => {}
        }
    }
    let format = match (kind, group, version) {
        ("", _, _) => Format::Object,
        ("Table", "meta.k8s.io", "v1") => Format::Table,
        ("PartialObjectMetadata" | "PartialObjectMetadataList", "meta.k8s.io", "v1") => Format::Metadata,
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => Format::Discovery,
        _ => return None,
    };
    Some(Output {
        format,
        yaml,
        list: kind == "PartialObjectMetadataList",
        swagger: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(accept: &str) -> Option<Format> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        Output::negotiate(&headers).ok().map(|o| o.format)
    }

    #[test]
    fn first_servable_entry_wins() {
        let kubectl = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
        assert_eq!(format(kubectl), Some(Format::Table));
        assert_eq!(
            format("application/vnd.kubernetes.protobuf, application/json"),
            Some(Format::Object)
        );
        assert_eq!(format("application/vnd.kubernetes.protobuf"), None);
        assert_eq!(
            format("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
            Some(Format::Discovery)
        );
        assert_eq!(format("*/*"), Some(Format::Object));
    }
}
