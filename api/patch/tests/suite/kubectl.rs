//! `kubectl patch --local` applies the same patches to the same objects, where kubectl is installed.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use crate::{corpus::without_leftovers, recorded::cases};
use roundhouse_patch::{json_patch, schema, strategic_merge};
use serde_json::{Value, json};

fn kubectl(object: &Value, patch: &Value, patch_type: &str) -> Result<Value, String> {
    let mut child = Command::new("kubectl")
        .args([
            "patch",
            "--local",
            "-f",
            "-",
            "-o",
            "json",
            "--type",
            patch_type,
            "-p",
            &patch.to_string(),
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(object.to_string().as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    serde_json::from_slice(&output.stdout).map_err(|_| String::from_utf8_lossy(&output.stderr).into_owned())
}

fn is_installed() -> bool {
    let installed = Command::new("kubectl")
        .args(["version", "--client"])
        .output()
        .is_ok_and(|output| output.status.success());
    if !installed {
        println!("skipped: kubectl is not installed");
    }
    installed
}

fn ours(object: &Value, patch: &Value) -> Result<Value, String> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let node = schema::lookup(text("apiVersion"), text("kind")).unwrap();
    let mut merged = object.clone();
    strategic_merge(&mut merged, patch, node)
        .map(|()| merged)
        .map_err(|error| error.to_string())
}

#[test]
fn recorded_patches() {
    if !is_installed() {
        return;
    }
    let step = if std::env::var_os("ROUNDHOUSE_LONG").is_some() {
        1
    } else {
        60
    };
    for case in cases()
        .iter()
        .filter(|case| case.strategy == "strategic")
        .step_by(step)
    {
        let theirs = kubectl(&case.live, &case.patch, "strategic");
        // As with the recorded results: kubectl leaves nulls in elements that a patch adds whole.
        let theirs = theirs.map(|result| without_leftovers(&result, false));
        assert_eq!(ours(&case.live, &case.patch), theirs, "{}", case.id);
    }
}

/// Patches written by hand, for the rules that the recorded ones do not reach.
#[test]
fn directives() {
    if !is_installed() {
        return;
    }
    let names = |names: &str| {
        names
            .split_whitespace()
            .map(|name| json!({"name": name}))
            .collect::<Value>()
    };
    let live = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "finalizers": ["x/c", "x/a", "x/b"], "ownerReferences": [{"uid": "1"}, {"uid": "2"}]},
        "spec": {
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}},
            "template": {"spec": {"containers": names("a b c d"), "nodeSelector": {"a": "1"}, "hostAliases": []}},
        },
    });
    let pod = |spec: Value| json!({"spec": {"template": {"spec": spec}}});
    let patches = [
        pod(json!({"containers": [{"name": "d", "image": "x"}, {"name": "a", "image": "y"}]})),
        pod(
            json!({"containers": [{"name": "e"}, {"name": "a", "$patch": "delete"}], "$setElementOrder/containers": names("e")}),
        ),
        pod(
            json!({"containers": [{"name": "e"}, {"name": "f"}, {"name": "b", "$patch": "delete"}], "$setElementOrder/containers": names("d e f a")}),
        ),
        pod(
            json!({"containers": [{"name": "d", "$patch": "delete"}, {"name": "e"}], "$setElementOrder/containers": names("c e")}),
        ),
        pod(json!({"$setElementOrder/containers": names("c a z")})),
        pod(json!({"containers": [{"$patch": "replace"}, {"name": "only"}]})),
        pod(json!({"nodeSelector": {"$patch": "replace", "b": "2"}})),
        pod(json!({"nodeSelector": {"$patch": "delete"}})),
        pod(json!({"nodeSelector": {"$patch": "merge"}})),
        pod(json!({"affinity": {"$patch": "replace", "nodeAffinity": {}}})),
        pod(json!({"affinity": {"nodeAffinity": null, "podAffinity": {"$patch": "delete"}}})),
        pod(json!({"containers": [{"name": "a", "$patch": "merge"}]})),
        pod(json!({"containers": [{"image": "no name"}]})),
        pod(json!({"containers": [{"name": "e"}], "$setElementOrder/containers": names("a")})),
        pod(json!({"volumes": [{"name": "v"}], "$setElementOrder/volumes": names("v")})),
        json!({"metadata": {"finalizers": ["x/z", "x/a"]}}),
        json!({"metadata": {"finalizers": ["x/z"], "$setElementOrder/finalizers": ["x/b", "x/z", "x/c"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["x/a", "x/q"], "$setElementOrder/finalizers": ["x/b", "x/c"]}}),
        json!({"metadata": {"$deleteFromPrimitiveList/labels": ["a"]}}),
        json!({"metadata": {"ownerReferences": [{"uid": "2", "$patch": "delete"}, {"uid": "3"}]}}),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
        json!({"spec": {"strategy": {"$retainKeys": ["rollingUpdate"], "type": "Recreate"}}}),
        json!({"spec": {"strategy": null, "replicas": 3}}),
    ];
    for patch in patches {
        let (ours, theirs) = (ours(&live, &patch), kubectl(&live, &patch, "strategic"));
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{patch}"),
            (Err(_), Err(_)) => {}
            _ => panic!("{patch}\n  ours {ours:?}\n  kubectl {theirs:?}"),
        }
    }
}

#[test]
fn json_patches() {
    if !is_installed() {
        return;
    }
    let live = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"a": "1", "b/c": "2"}});
    let patches = [
        json!([{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/b~1c"}]),
        json!([{"op": "test", "path": "/data/none", "value": null}]),
        json!([{"op": "test", "path": "/none/a", "value": null}]),
        json!([{"op": "test", "path": "/data/a", "value": null}]),
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "replace", "path": "/data/none", "value": "1"}]),
        json!([{"op": "add", "path": "/none/a", "value": "1"}]),
        json!([{"op": "copy", "from": "/data/a", "path": "/data/z"}, {"op": "move", "from": "/data/z", "path": "/data/y"}]),
    ];
    for patch in patches {
        let mut ours = live.clone();
        let ours = json_patch(&mut ours, &patch).map(|()| ours);
        let theirs = kubectl(&live, &patch, "json");
        match (&ours, &theirs) {
            (Ok(ours), Ok(theirs)) => assert_eq!(ours, theirs, "{patch}"),
            (Err(_), Err(_)) => {}
            _ => panic!("{patch}\n  ours {ours:?}\n  kubectl {theirs:?}"),
        }
    }
}
