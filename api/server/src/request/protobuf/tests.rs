use proptest::prelude::*;

use super::*;

/// A part of bytes; shorter than 128.
fn part(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend(bytes);
    out
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let type_meta = [part(1, api_version.as_bytes()), part(2, kind.as_bytes())].concat();
    [
        MAGIC.to_vec(),
        part(1, &type_meta),
        part(2, raw),
        part(3, b""),
        part(4, b""),
    ]
    .concat()
}

#[test]
fn a_secret() {
    let meta = [
        part(1, b"s"),
        part(2, b""),
        part(8, b""),
        part(11, &[part(1, b"k"), part(2, b"v")].concat()),
    ];
    let raw = [
        part(1, &meta.concat()),
        part(2, &[part(1, b"a"), part(2, b"b")].concat()),
        part(2, &[part(1, b"c"), part(2, b"d")].concat()),
        part(3, b"Opaque"),
        vec![5 << 3, 0],
    ];
    let got = parse(&envelope("v1", "Secret", &raw.concat())).unwrap();
    let want = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": false,
        "metadata": {"name": "s", "labels": {"k": "v"}}, "data": {"a": "Yg==", "c": "ZA=="}});
    assert_eq!(got, want);
}

#[test]
fn numbers_times_and_quantities() {
    let port = [
        vec![3 << 3, 80],
        part(4, &[vec![8, 1], vec![16, 0], part(3, b"web")].concat()),
        vec![5 << 3, 0],
    ];
    let spec = part(1, &port.concat());
    let meta = part(9, &[8, 60, 16, 0]);
    let got = parse(&envelope(
        "v1",
        "Service",
        &[part(1, &meta), part(2, &spec)].concat(),
    ))
    .unwrap();
    assert_eq!(got["spec"]["ports"], json!([{"port": 80, "targetPort": "web"}]));
    assert_eq!(got["metadata"]["deletionTimestamp"], "1970-01-01T00:01:00Z");
    let hard = part(1, &[part(1, b"pods"), part(2, &part(1, b"5"))].concat());
    let got = parse(&envelope("v1", "ResourceQuota", &part(2, &hard))).unwrap();
    assert_eq!(got["spec"]["hard"]["pods"], "5");
    // A pointer to zero replicas is no absence.
    let got = parse(&envelope("apps/v1", "Deployment", &part(2, &[8, 0]))).unwrap();
    assert_eq!(got["spec"]["replicas"], 0);
}

#[test]
fn bytes_lists_and_managed_fields() {
    let list = [part(1, b"k"), part(2, &[part(1, b"a"), part(1, b"b")].concat())].concat();
    let spec = [part(1, b"pem"), part(6, &list), vec![8 << 3, 60]].concat();
    let entry = [part(1, b"m"), part(7, &part(1, br#"{"f:a":{}}"#))].concat();
    // The number 17 takes a tag of two bytes.
    let entry = [vec![0x8a, 0x01, u8::try_from(entry.len()).unwrap()], entry].concat();
    let meta = part(1, &entry);
    let got = parse(&envelope(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        &[meta, part(2, &spec)].concat(),
    ));
    let got = got.unwrap();
    assert_eq!(
        got["spec"],
        json!({"request": "cGVt", "extra": {"k": ["a", "b"]}, "expirationSeconds": 60})
    );
    assert_eq!(
        got["metadata"]["managedFields"],
        json!([{"manager": "m", "fieldsV1": {"f:a": {}}}])
    );
}

#[test]
fn what_is_not_known_is_refused() {
    for (body, code) in [
        (b"{}".to_vec(), 400),
        ([MAGIC, &[0x0a, 0x7f]].concat(), 400),
        (envelope("v1", "Secret", &part(1, &[0x0a, 1, 0xff])), 400),
        (envelope("v1", "Secret", &[8, 1]), 400),
        (envelope("v1", "Secret", &part(9, b"x")), 415),
        (envelope("v1", "Node", b""), 415),
    ] {
        let error = parse(&body).unwrap_err();
        assert_eq!(error.code, code, "{body:?} {error}");
    }
}

proptest! {
    #[test]
    fn any_bytes_are_answered(raw: Vec<u8>, kind in "Secret|Deployment|Job|Service|ResourceQuota|PriorityClass") {
        let _ = parse(&[MAGIC, &raw].concat());
        let raw = raw.get(..raw.len().min(100)).unwrap();
        let _ = parse(&envelope("v1", &kind, raw));
    }
}
