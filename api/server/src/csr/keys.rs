//! The keys that certificates were issued for: a key is of one identity.
//!
//! Who has a request of somebody else, from a log or from the wire, cannot use its key, but could have it signed again, or,
//! with a key that leaked, have the same key signed for another name. A request that went an hour after it was decided tells
//! of that no longer, and one that is encoded anew has another text, so the key itself is remembered: the SHA-256 of its
//! SubjectPublicKeyInfo, in the store, so that it outlives a restart and goes into backups.
//!
//! For the same requester and the same subject a key is signed again, as in Kubernetes; an agent's is signed once. Kubernetes
//! would sign it again; here renewal is what bounds the worth of a stolen key, and it would not if the key lived on. A kubelet
//! makes a new key each time, too.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{CertificateRequest, signer};
use crate::{
    auth::cluster_of_agent,
    error::ApiError,
    object::{self, at, meta, text},
    server::Core,
    store::{Change, Expect, Key, Range, Record, WriteError},
};

/// No kind is stored in such a table: a resource has no such name.
const TABLE: &str = "#issued-keys";

/// Most keys that are remembered. Then those go whose certificates end first: whoever replays them has longest had the time.
const MOST: usize = 16_384;
/// How many go at once: one part in so many.
const PART: usize = 16;

/// What is said of a key that may not be signed.
const USED: &str =
    "a certificate was issued for the key of this request before; make a new key, and a request with it";

fn place(request: &CertificateRequest) -> Key {
    Key::new(&TABLE.into(), "", &request.key_digits())
}

/// For whom a key is signed.
fn owner(request: &CertificateRequest, value: &Value) -> Value {
    json!({
        "users": request.users, "groups": request.groups, "signer": signer(value),
        "requester": text(value, &["spec", "username"]).unwrap_or_default(),
    })
}

/// Refuses a key that has a certificate already, unless it is this very request's, or the signer takes it again.
///
/// # Errors
/// What to do about it.
pub(super) fn check_key(
    core: &Core,
    request: &CertificateRequest,
    value: &Value,
) -> Result<(), &'static str> {
    check_record(core.store.get(&place(request)).as_ref(), request, value)
}

fn check_record(
    record: Option<&Record>,
    request: &CertificateRequest,
    value: &Value,
) -> Result<(), &'static str> {
    let Some(record) = record else { return Ok(()) };
    let issued = object::decode(&record.bytes);
    let uid = meta(value, "uid");
    let again = !uid.is_empty() && text(&issued, &["request"]) == Some(uid);
    let once = request.users.iter().any(|user| cluster_of_agent(user).is_some());
    let renewed = !once && at(&issued, &["owner"]) == Some(&owner(request, value));
    if again || renewed { Ok(()) } else { Err(USED) }
}

/// Remembers the key of a certificate that is about to be given out.
///
/// # Errors
/// 409 if it has been signed meanwhile, 503 if the store takes no writes: then there is no certificate.
pub(super) fn remember_key(
    core: &Core,
    request: &CertificateRequest,
    value: &Value,
    lifetime: Duration,
) -> Result<(), ApiError> {
    make_room(core);
    let now = (core.clock)();
    let until = now
        .checked_add(jiff::SignedDuration::try_from(lifetime).unwrap_or_default())
        .unwrap_or(Timestamp::MAX);
    let mut issued = json!({"metadata": {}, "owner": owner(request, value), "request": meta(value, "uid"),
        "until": until.as_second()});
    let key = place(request);
    let record = core.store.get(&key);
    let used = |why| ApiError::new(409, "Conflict", why);
    // Somebody else may have had the same key signed meanwhile, up to the write itself.
    check_record(record.as_ref(), request, value).map_err(used)?;
    let expect = match record {
        Some(record) => Expect::Revision(record.revision),
        None => Expect::Absent,
    };
    let put = Change::Put(&mut |revision| {
        object::set_meta(&mut issued, "resourceVersion", Some(revision.to_string().into()));
        object::encode(&issued)
    });
    match core.store.write(&key, expect, put) {
        Ok(_) => Ok(()),
        Err(WriteError::Unexpected) => Err(used(USED)),
        Err(refused @ WriteError::Refused(_)) => Err(ApiError::unavailable(refused.to_string())),
    }
}

fn remove(core: &Core, key: &Key, record: &Record) {
    let mut last = object::decode(&record.bytes);
    let gone = Change::Remove(&mut |revision| {
        object::set_meta(&mut last, "resourceVersion", Some(revision.to_string().into()));
        object::encode(&last)
    });
    // Whoever was quicker has seen to it.
    if let Err(error) = core.store.write(key, Expect::Revision(record.revision), gone) {
        tracing::debug!(%error, "a remembered key was not removed");
    }
}

fn make_room(core: &Core) {
    let one = Range {
        limit: 1,
        ..Range::all(TABLE, None)
    };
    let Ok(first) = core.store.list(&one) else {
        return;
    };
    if first.records.len() + first.remaining < MOST {
        return;
    }
    let until = |record: &Record| at(&object::decode(&record.bytes), &["until"]).and_then(Value::as_i64);
    let mut by_end: Vec<_> = core
        .records(TABLE, None)
        .map(|(key, record)| (until(&record).unwrap_or(0), key, record))
        .collect();
    by_end.sort_by_key(|(until, ..)| *until);
    for (_, key, record) in by_end.iter().take(MOST / PART) {
        remove(core, key, record);
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;
    use crate::{
        Server,
        csr::{CLIENT_SIGNER, parse},
    };

    fn request(key: &KeyPair, user: &str) -> CertificateRequest {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        parse(params.serialize_request(key).unwrap().pem().unwrap().as_bytes()).unwrap()
    }

    #[test]
    fn one_key_one_place_whatever_the_request_says() {
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        assert_eq!(place(&request(&key, "a")), place(&request(&key, "b")));
        assert_ne!(place(&request(&key, "a")), place(&request(&other, "a")));
    }

    #[test]
    fn those_that_end_first_make_room() {
        let server = Server::builder().seed(1).build();
        let core = &server.core;
        for i in 0..MOST {
            let key = Key::new(&TABLE.into(), "", &format!("{i:05}"));
            // The later ones end first.
            let bytes = object::encode(&json!({"until": MOST - i}));
            let put = Change::Put(&mut |_| bytes.clone());
            core.store.write(&key, Expect::Absent, put).unwrap();
        }
        let key = KeyPair::generate().unwrap();
        let value = json!({"metadata": {"uid": "u"}, "spec": {"signerName": CLIENT_SIGNER}});
        let request = request(&key, "roundhouse:agent:c1:1");
        remember_key(core, &request, &value, Duration::from_secs(600)).unwrap();
        let has = |name: String| core.store.get(&Key::new(&TABLE.into(), "", &name)).is_some();
        assert!(has("00000".to_owned()) && has(format!("{:05}", MOST - MOST / PART - 1)));
        assert!(!has(format!("{:05}", MOST - MOST / PART)) && !has(format!("{:05}", MOST - 1)));
        assert!(core.store.get(&place(&request)).is_some());
        // Its own request may be signed again, another one may not.
        assert_eq!(check_key(core, &request, &value), Ok(()));
        let other = json!({"metadata": {"uid": "v"}, "spec": {"signerName": CLIENT_SIGNER}});
        assert_eq!(check_key(core, &request, &other), Err(USED));
    }
}
