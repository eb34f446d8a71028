//! A Bundle spec and, after a byte 0xFF (which UTF-8 does not have), a list of live objects; behind a second one a
//! ledger. Whatever the hub or the member sends: the agent decodes and decides without a panic, says something of every
//! manifest, and shows no value of a Secret.

#![no_main]

use libfuzzer_sys::fuzz_target;
use roundhouse_agent::preview::{Part, Setting, offline};
use roundhouse_api::{
    bundle::{ApplyOnce, BundleSpec},
    ledger::AppliedBundleSpec,
};
use serde_json::Value;

/// A value that a Secret of the corpus has.
const SECRET: &str = "aHVudGVyMg==";

fuzz_target!(|bytes: &[u8]| {
    let mut parts = bytes.splitn(3, |byte| *byte == 0xFF);
    let Some(Ok(spec)) = parts.next().map(serde_json::from_slice::<BundleSpec>) else {
        return;
    };
    let live = parts
        .next()
        .and_then(|text| serde_json::from_slice::<Vec<Value>>(text).ok())
        .unwrap_or_default();
    let ledger = parts
        .next()
        .and_then(|text| serde_json::from_slice::<AppliedBundleSpec>(text).ok())
        .unwrap_or_default();
    let manifests = spec.workload.manifests.len();
    let only_in_secrets = spec
        .workload
        .manifests
        .iter()
        .chain(&live)
        .all(|object| !object.to_string().contains(SECRET) || holds_only_in_data(object));
    let part = Part {
        name: "default.web".to_owned(),
        uid: "u".to_owned(),
        generation: 1,
        deleting: false,
        applied: true,
        spec,
    };
    for apply_once in [ApplyOnce::Never, ApplyOnce::Once, ApplyOnce::Force] {
        let setting = Setting {
            hub_id: "0123456789".to_owned(),
            apply_once,
            salt: [7; 16],
        };
        let preview = offline(part.clone(), &ledger, &setting, &live);
        let said = preview
            .objects
            .iter()
            .filter(|object| object.ordinal.is_some())
            .count();
        assert_eq!(said, manifests, "something is said of every manifest");
        if only_in_secrets {
            assert!(
                !format!("{preview:?}").contains(SECRET),
                "a secret value is shown"
            );
        }
        assert_eq!(
            offline(part.clone(), &ledger, &setting, &live),
            preview,
            "the same input, another answer"
        );
    }
});

/// Whether the value is in the data of a Secret and nowhere else in the object.
fn holds_only_in_data(object: &Value) -> bool {
    let mut rest = object.clone();
    let is_secret = object["kind"] == "Secret" && object["apiVersion"] == "v1";
    if let Some(fields) = rest.as_object_mut() {
        fields.remove("data");
    }
    is_secret && !rest.to_string().contains(SECRET)
}
