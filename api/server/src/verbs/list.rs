//! `GET` of a collection.

use std::cell::OnceCell;

use bytes::{BufMut, BytesMut};
use serde_json::{Value, json};

use super::{Call, decode_stored, put_stored, type_prefix};
use crate::{
    error::{ApiError, Cause},
    object,
    output::metadata_only,
    paging::Token,
    request::{Format, VersionMatch},
    selector::{FieldSelector, LabelSelector, Labels},
    server::Core,
    service::Reply,
    store::{Kept, Key, Range},
    table::{Columns, table},
};

/// The objects a list request selects.
pub(super) struct Selected {
    pub(super) records: Vec<(Key, Kept)>,
    revision: u64,
    next: Option<Token>,
    /// How many are left for later pages; `None` where a selector would have to look at each of them.
    remaining: Option<usize>,
}

/// What the fields of an object must be for this request to see it.
pub(super) fn fields(call: &Call) -> Result<FieldSelector, ApiError> {
    FieldSelector::parse(&call.query.field_selector, &call.resource)
        .map_err(|e| ApiError::bad_request(e.to_string()))
}

/// Selects what a list (or a deletecollection) asks for.
pub(super) fn select(core: &Core, call: &Call) -> Result<Selected, ApiError> {
    let query = &call.query;
    let labels =
        LabelSelector::parse(&query.label_selector).map_err(|e| ApiError::bad_request(e.to_string()))?;
    let fields = fields(call)?;
    let token = match query.continue_token.as_str() {
        "" => None,
        text => {
            let here = |t: &Token| t.is_of(&call.resource.table, call.path.namespace.as_deref());
            let token = Token::parse(text).filter(here);
            Some(token.ok_or_else(|| ApiError::bad_request("continue key is not valid"))?)
        }
    };
    let asked = parse_version(&query.resource_version)?;
    if token.is_some() && asked.is_some_and(|v| v > 0) {
        return Err(ApiError::bad_request(
            "specifying resource version is not allowed when using continue",
        ));
    }
    // Of a limited list a version means that one also where nothing is said of it (`shouldDelegateList`).
    let legacy = |version: &u64| query.version_match.is_none() && query.limit.is_some() && *version > 0;
    let exact = asked.filter(|version| query.version_match == Some(VersionMatch::Exact) || legacy(version));
    check_reached(core, asked)?;
    let mut range = Range {
        table: call.resource.table.clone(),
        namespace: call.path.namespace.as_deref().map(Into::into),
        after: token.as_ref().map(|t| (t.namespace.clone(), t.name.clone())),
        passed: token.as_ref().map_or(Some(0), |t| t.passed),
        limit: query.limit.map_or(usize::MAX, |l| l.max(64)),
        revision: token.as_ref().map(|t| t.revision).or(exact),
    };
    let everything = labels.is_empty() && fields.is_empty();
    let wanted = |key: &Key, kept: &Kept| {
        if everything {
            return true;
        }
        let read = OnceCell::new();
        let bytes = || &read.get_or_init(|| kept.record()).bytes;
        (labels.is_empty() || labels.matches(&Labels::of(bytes())))
            && fields.matches(key, || object::decode(bytes()))
    };
    let limit = query.limit.unwrap_or(usize::MAX);
    let mut records = vec![];
    let mut next = None;
    let mut remaining = None;
    let revision = loop {
        let page = core
            .store
            .list(&range)
            .map_err(|e| ApiError::expired(e.to_string()))?;
        let last = page
            .records
            .last()
            .map(|(key, _)| (key.namespace.to_string(), key.name.to_string()));
        let found = page.records.len();
        for (index, (key, kept)) in page.records.into_iter().enumerate() {
            if !wanted(&key, &kept) {
                continue;
            }
            if records.len() == limit {
                let after: Option<&(Key, Kept)> = records.last();
                // What is passed over is counted with the next page.
                let passed = range
                    .passed
                    .filter(|_| everything)
                    .map(|passed| passed.saturating_add(index));
                next = after.map(|(k, _)| Token::new(page.revision, &range, (&k.namespace, &k.name), passed));
                remaining = everything.then_some(found - index + page.remaining);
                break;
            }
            records.push((key, kept));
        }
        match last {
            // The pages of one request are all of the revision of the first.
            Some(last) if page.remaining > 0 && next.is_none() => {
                range.after = Some(last);
                range.passed = range.passed.map(|passed| passed.saturating_add(found));
                range.revision = Some(page.revision);
            }
            _ => break page.revision,
        }
    };
    Ok(Selected {
        records,
        revision,
        next,
        remaining,
    })
}

/// A version that is still to come cannot be waited for: 504, with the cause clients know it by.
pub(super) fn check_reached(core: &Core, asked: Option<u64>) -> Result<(), ApiError> {
    let now = core.store.revision();
    let Some(asked) = asked.filter(|v| *v > now) else {
        return Ok(());
    };
    let message = format!("Timeout: Too large resource version: {asked}, current: {now}");
    let mut error = ApiError::new(504, "Timeout", message);
    error.details.causes = vec![Cause::version_too_large()];
    Err(error)
}

/// A `resourceVersion` parameter.
pub(super) fn parse_version(text: &str) -> Result<Option<u64>, ApiError> {
    match text {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            ApiError::unclassified(format!(
                "resourceVersion: Invalid value: {text:?}: it must be a number the server gave out"
            ))
        }),
    }
}

/// Answers with the objects selected, in the shape asked for.
pub(super) fn list(core: &Core, call: &Call) -> Result<Reply, ApiError> {
    let selected = select(core, call)?;
    Ok(reply(core, call, &selected))
}

/// The list object of a selection.
pub(super) fn reply(core: &Core, call: &Call, selected: &Selected) -> Reply {
    let resource = &call.resource;
    let mut meta = json!({"resourceVersion": selected.revision.to_string()});
    if let Some(token) = &selected.next {
        object::set(&mut meta, "continue", Some(token.text().into()));
    }
    if let Some(remaining) = selected.remaining {
        object::set(&mut meta, "remainingItemCount", Some(remaining.into()));
    }
    let values = || -> Vec<Value> {
        selected
            .records
            .iter()
            .map(|(_, kept)| decode_stored(resource, &kept.record().bytes))
            .collect()
    };
    match call.output.format {
        Format::Table => {
            let columns = Columns::of(resource.clone());
            Reply::ok(table(
                &columns,
                &values(),
                &meta,
                &call.query.include_object,
                (core.clock)(),
            ))
        }
        Format::Metadata => {
            let items: Vec<Value> = values().iter().map(metadata_only).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": meta, "items": items});
            Reply::ok(list)
        }
        Format::Object | Format::Discovery => {
            let size: usize = selected.records.iter().map(|(_, kept)| kept.length() + 64).sum();
            let mut out = BytesMut::with_capacity(size + 256);
            let (kind, api_version) = (
                Value::from(resource.list_kind.as_ref()),
                Value::from(resource.api_version()),
            );
            let head =
                format!("{{\"kind\":{kind},\"apiVersion\":{api_version},\"metadata\":{meta},\"items\":[");
            out.put_slice(head.as_bytes());
            // Items of built-in lists carry no type, those of custom ones do, as in Kubernetes.
            let prefix = if resource.custom.is_some() {
                type_prefix(resource)
            } else {
                "{".to_owned()
            };
            for (i, (_, kept)) in selected.records.iter().enumerate() {
                if i > 0 {
                    out.put_u8(b',');
                }
                let record = kept.record();
                put_stored(&mut out, resource, &prefix, record.revision, &record.bytes);
            }
            out.put_slice(b"]}");
            let bytes = out.freeze();
            if call.output.yaml {
                Reply::ok(object::decode(&bytes))
            } else {
                Reply::json(200, bytes)
            }
        }
    }
}
