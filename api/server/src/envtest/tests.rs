use std::{fs, os::unix::fs::PermissionsExt};

use base64::{Engine, engine::general_purpose::STANDARD};
use parking_lot::Mutex;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::json;
use tokio::time::Instant;

use super::*;
use crate::system_clock;

const LONG: &str = "exec sleep 600";

/// A program that is being written while another thread starts one may be busy.
static TURN: Mutex<()> = Mutex::new(());

/// Programs that are shell scripts.
fn fakes(scripts: &[(&str, &str)]) -> tempfile::TempDir {
    let assets = tempfile::tempdir().unwrap();
    for (name, script) in scripts {
        let path = assets.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assets
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

#[test]
fn a_server_that_ends_is_told_with_its_flags_and_the_end_of_its_log() {
    let _turn = TURN.lock();
    let refuses = "for i in $(seq 100); do echo line $i; done; echo 'Error: unknown flag: --x' >&2; exit 3";
    let assets = fakes(&[("etcd", LONG), ("kube-apiserver", refuses)]);
    let mut envtest = Envtest::start(assets.path(), system_clock()()).unwrap();
    let error = runtime()
        .block_on(envtest.until_ready(async || false))
        .unwrap_err();
    let text = error.to_string();
    let path = assets.path().join("kube-apiserver").display().to_string();
    assert!(
        text.starts_with(&format!("{path} ended with exit status: 3; ")),
        "{text}"
    );
    for part in [
        "--etcd-servers=http://127.0.0.1:",
        "--authorization-mode=RBAC",
        "line 82\nline 83",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.ends_with("line 100\nError: unknown flag: --x"), "{text}");
    assert!(!text.contains("line 81"), "{text}");
    // Every file that a flag names is there.
    for flag in server_flags(&envtest.directory.0, "", 1) {
        if let Some((_, file)) = flag.split_once("-file=") {
            assert!(Path::new(file).exists(), "{flag}");
        }
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let _turn = TURN.lock();
    let assets = fakes(&[("etcd", LONG)]);
    let text = Envtest::start(assets.path(), system_clock()())
        .unwrap_err()
        .to_string();
    let path = assets.path().join("kube-apiserver").display().to_string();
    assert!(text.starts_with(&format!("starting {path}: ")), "{text}");
    assert!(text.contains("KUBEBUILDER_ASSETS"), "{text}");
}

#[test]
fn the_controller_manager_is_started_if_it_is_there_once_the_server_is_ready() {
    let _turn = TURN.lock();
    let assets = fakes(&[("etcd", LONG), ("kube-apiserver", LONG)]);
    let now = system_clock()();
    let mut envtest = Envtest::start(assets.path(), now).unwrap();
    runtime().block_on(envtest.until_ready(async || true)).unwrap();
    assert!(!envtest.has_controllers());
    envtest.check().unwrap();
    assert!(envtest.sign(&approved("jane"), now).is_some());

    let leaves = [
        ("etcd", LONG),
        ("kube-apiserver", LONG),
        ("kube-controller-manager", "echo gone; exit 1"),
    ];
    let assets = fakes(&leaves);
    let mut envtest = Envtest::start(assets.path(), now).unwrap();
    assert!(!envtest.has_controllers());
    runtime().block_on(envtest.until_ready(async || true)).unwrap();
    assert!(envtest.has_controllers());
    assert_eq!(envtest.sign(&approved("jane"), now), None, "that is its part");
    let end = Instant::now() + PATIENCE;
    let text = loop {
        if let Err(error) = envtest.check() {
            break error.to_string();
        }
        assert!(Instant::now() < end, "it has ended, but nobody says so");
        std::thread::yield_now();
    };
    for part in [
        "kube-controller-manager ended with exit status: 1",
        "--cluster-signing-key-file=",
        "-deployment-controller,",
        "\ngone",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    for flag in controller_flags(&envtest.directory.0) {
        if let Some((_, file)) = flag.split_once("-file=") {
            assert!(Path::new(file).exists(), "{flag}");
        }
    }
}

#[test]
fn programs_end_with_the_process_that_started_them() {
    let _turn = TURN.lock();
    let assets = fakes(&[("etcd", LONG)]);
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("d");
    fs::create_dir(&directory).unwrap();
    let mut program = Program::spawn(assets.path(), "etcd", vec![], &directory).unwrap();
    let mut warden = Warden::start(&directory).unwrap();
    warden.watch(&program).unwrap();
    program.check().unwrap();
    // As the end of this process does.
    drop(warden.0.stdin.take());
    warden.0.wait().unwrap();
    assert!(!directory.exists());
    let end = Instant::now() + PATIENCE;
    while program.check().is_ok() {
        assert!(Instant::now() < end, "it is still there");
        std::thread::yield_now();
    }
}

fn approved(user: &str) -> Value {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, user);
    let key = KeyPair::generate().unwrap();
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    json!({"metadata": {"name": "r"},
        "spec": {"signerName": "kubernetes.io/kube-apiserver-client", "request": STANDARD.encode(pem),
            "usages": ["client auth"]},
        "status": {"conditions": [{"type": "Approved", "status": "True"}]}})
}

#[test]
fn what_is_approved_is_signed_once_and_nothing_else() {
    let now = system_clock()();
    let authority = Authority::generate(now).unwrap();
    let request = approved("roundhouse:agent:c1:1");
    let status = signed_status(&authority, &request, now).unwrap();
    assert_eq!(status["conditions"], request["status"]["conditions"]);
    let pem = STANDARD.decode(status["certificate"].as_str().unwrap()).unwrap();
    assert!(pem.starts_with(b"-----BEGIN CERTIFICATE-----"));
    let mut done = request.clone();
    done["status"] = status;
    assert_eq!(signed_status(&authority, &done, now), None);

    let but = |path: &str, value: Value| {
        let mut request = request.clone();
        *request.pointer_mut(path).unwrap() = value;
        signed_status(&authority, &request, now)
    };
    assert_eq!(but("/status/conditions", json!([])), None);
    assert_eq!(but("/spec/signerName", json!("example.com/other")), None);
    let both = json!([{"type": "Approved", "status": "True"}, {"type": "Denied", "status": "True"}]);
    assert_eq!(but("/status/conditions", both), None);
    let refused = but("/spec/usages", json!(["client auth", "server auth"])).unwrap();
    assert_eq!(refused.get("certificate"), None);
    assert_eq!(
        refused["conditions"][1]["message"],
        "invalid usage for client certificate: server auth"
    );
}
