//! F26: bodies that are too large, too deep, that grow when they are read, or are no text.

use crate::{
    applications::runs,
    looks::{Looked, because, images},
    runs::{SECOND, after, good, seeds},
};
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt, Full};
use roundhouse_apiserver::Identity;
use roundhouse_hub::simulate::{
    Fleet,
    fault::Dice,
    run::{Act, Look, Script, Until, application, with_image},
};
use serde_json::json;
use std::{process::Command, time::Duration};
use tower::ServiceExt;

/// Set in the process that this test starts for itself.
const ALONE: &str = "ROUNDHOUSE_FAULTS_ALONE";
/// How often everything is sent again.
const ROUNDS: usize = 4;
/// Growth of the process that is none, in KiB: two of the large bodies, of which sixteen are sent.
const FLAT: u64 = 8 << 10;
const LARGE: usize = 4 << 20;

/// Where a body is sent.
struct Place {
    who: Identity,
    method: Method,
    path: &'static str,
    media: &'static str,
    /// The body, with the content in the place of `CONTENT`.
    body: String,
}

/// What somebody hands in: an Application, a Bundle, the report of an agent about one, and about its cluster.
fn places() -> Vec<Place> {
    let (json, merge) = ("application/json", "application/merge-patch+json");
    let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "odd", "namespace": "default"},
        "spec": {"components": [{"name": "a", "type": "worker", "properties": {"image": "CONTENT"}}]}});
    let bundle = json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "odd", "namespace": "cluster-east-1"},
        "spec": {"workload": {"manifests": [{"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "odd", "namespace": "default"}, "data": {"a": "CONTENT"}}]}}});
    let of_bundle = json!({"status": {"hash": "CONTENT"}});
    let of_cluster = json!({"spec": {"agentVersion": "CONTENT"}});
    let place = |who, method, path, media, body: serde_json::Value| Place {
        who,
        method,
        path,
        media,
        body: body.to_string(),
    };
    let agent = || Identity::agent("east-1");
    vec![
        place(
            Identity::admin(),
            Method::POST,
            "/apis/core.oam.dev/v1beta1/namespaces/default/applications",
            json,
            application,
        ),
        place(
            Identity::admin(),
            Method::POST,
            "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-east-1/bundles",
            json,
            bundle,
        ),
        place(
            agent(),
            Method::PATCH,
            "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-east-1/bundles/default.web/status",
            merge,
            of_bundle,
        ),
        place(
            agent(),
            Method::PATCH,
            "/apis/roundhouse.dev/v1alpha1/namespaces/cluster-east-1/clusterreports/east-1",
            merge,
            of_cluster,
        ),
    ]
}

/// A few hundred bytes of YAML that are thousands of millions when every alias in them is followed.
fn bomb() -> String {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: odd, namespace: default}\nl0: &l0 [lol, lol]\n"
            .to_owned();
    for n in 1..12 {
        let aliases = vec![format!("*l{}", n - 1); 10].join(", ");
        text += &format!("l{n}: &l{n} [{aliases}]\n");
    }
    text
}

/// What an answer says, and its code.
async fn answered(fleet: &Fleet, place: &Place, body: Vec<u8>) -> Result<(u16, String), String> {
    let server = fleet.hub_server().map_err(|error| error.to_string())?;
    let request = Request::builder()
        .method(place.method.clone())
        .uri(place.path)
        .header("content-type", place.media);
    let request = request.body(Full::from(Bytes::from(body))).unwrap();
    let answer = server.service_as(Some(place.who.clone())).oneshot(request).await;
    let (head, body) = answer.unwrap().into_parts();
    let text = body.collect().await.unwrap().to_bytes();
    Ok((head.status.as_u16(), String::from_utf8_lossy(&text).into_owned()))
}

/// Everything is refused, and the limit is named.
async fn refused(fleet: &Fleet) -> Looked {
    for place in places() {
        let with = |content: &str| place.body.replace("\"CONTENT\"", content).into_bytes();
        let mut no_text = with("\"CONTENT\"");
        let at = no_text.len() - 8;
        no_text[at] = 0xff;
        let large = with(&format!("\"{}\"", "x".repeat(LARGE)));
        let deep = with(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)));
        for (what, body, word) in [
            ("too large", large, "limit"),
            ("too deep", deep, "limit"),
            ("no text", no_text, "unicode"),
        ] {
            let (code, text) = answered(fleet, &place, body).await?;
            because((400..500).contains(&code) && text.contains(word), || {
                format!("{what} at {}: {code} {text:.300}", place.path)
            })?;
        }
    }
    let grows = Place {
        who: Identity::admin(),
        method: Method::PATCH,
        path: "/api/v1/namespaces/default/configmaps/odd?fieldManager=somebody",
        media: "application/apply-patch+yaml",
        body: String::new(),
    };
    let (code, text) = answered(fleet, &grows, bomb().into_bytes()).await?;
    because((400..500).contains(&code) && text.contains("budget"), || {
        format!("a bomb: {code} {text:.300}")
    })
}

fn all_refused() -> Look {
    Look::new(|fleet| Box::pin(refused(fleet)))
}

/// What the process takes, in KiB; `None` where nobody says.
fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Everything again and again; the process is no larger for it. What it takes at first it may keep.
fn again_and_again() -> Look {
    Look::new(|fleet| {
        Box::pin(async move {
            for _ in 0..ROUNDS / 2 {
                refused(fleet).await?;
            }
            let before = resident();
            for _ in 0..ROUNDS {
                refused(fleet).await?;
            }
            let (Some(before), Some(after)) = (before, resident()) else {
                return Err("/proc does not tell how much memory this process takes".to_owned());
            };
            because(after <= before + FLAT, || {
                format!("{after} KiB are resident, and {before} were before")
            })
        })
    })
}

fn scripted(look: Look, when: Duration) -> Script {
    let web = application("web", 20, &[("east", "50%"), ("west", "50%")]);
    let script = Script::of_regions(2, &["east", "west"]).with(web.clone());
    let names = script.names();
    script
        .then(Act::wait("it is delivered", runs("web")))
        .then(Act::Apply(with_image(&web, "web:2")))
        .at(when, Act::check("everything is refused", look))
        .until(Until::Delivered {
            within: SECOND * 60,
            quiet: SECOND * 30,
        })
        .finally("the others are delivered", images("web", "web:2", names))
}

#[test]
fn f26_what_is_too_large_too_deep_or_no_text_is_refused_wherever_it_comes_in_and_hurts_nobody() {
    // In the middle of a delivery, or after it.
    good(|seed| scripted(all_refused(), after(&mut Dice::new(seed, "f26"), 0, 10_000)));
}

/// What a process takes says nothing where other tests run in it: this one runs in its own.
#[test]
fn f26_what_is_refused_leaves_nothing_in_memory() {
    if std::env::var_os(ALONE).is_some() {
        // When nothing else happens.
        good(|_| scripted(again_and_again(), SECOND * 60));
        return;
    }
    let itself = std::env::current_exe().unwrap();
    for seed in seeds() {
        let output = Command::new(&itself)
            .args([
                "--exact",
                "oversize::f26_what_is_refused_leaves_nothing_in_memory",
            ])
            .args(["--nocapture", "--test-threads=1"])
            .env(ALONE, "1")
            .env("ROUNDHOUSE_SEED", seed.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
