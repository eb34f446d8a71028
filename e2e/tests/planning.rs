//! `roundhouse plan`, `apply` and `test` as processes: without a hub, and against the one of `roundhouse demo`.

use anyhow::{Result, ensure};
use kube::{Api, Client, api::ListParams};
use roundhouse_api::{application::Application, bundle::Bundle, names::label};
use roundhouse_e2e::{
    binaries::binaries,
    process::{Ended, Process, Signal, client, soon},
    world::SEED,
};
use serde_json::Value;
use std::{
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("samples")
}

/// A directory with files.
fn home(files: &[(&str, &str)]) -> Result<TempDir> {
    let home = tempfile::tempdir()?;
    for (name, text) in files {
        std::fs::write(home.path().join(name), text)?;
    }
    Ok(home)
}

async fn roundhouse(words: &[&str], home: &Path) -> Result<Ended> {
    let ended = Process::start(&binaries()?.roundhouse, words, home)?
        .wait()
        .await?;
    for text in [&ended.stdout, &ended.stderr] {
        ensure!(!text.contains('\u{1b}') && !text.contains("panicked"), "{text}");
    }
    Ok(ended)
}

/// Runs it, and says what it should not have done.
async fn expect(status: i32, words: &[&str], home: &Path) -> Result<Ended> {
    let ended = roundhouse(words, home).await?;
    let code = ended.status.code();
    ensure!(
        code == Some(status),
        "{words:?}: {code:?}\n{}\n{}",
        ended.stdout,
        ended.stderr
    );
    Ok(ended)
}

const FLEET: &str = "
- metadata: {name: east-1, labels: {region: east}}
- metadata: {name: east-2, labels: {region: east}}
- metadata: {name: west-1, labels: {region: west}}
";

#[tokio::test]
async fn a_plan_needs_no_hub_and_is_the_same_each_time() -> Result<()> {
    let turned: String = FLEET
        .trim()
        .lines()
        .rev()
        .map(|line| format!("{line}\n"))
        .collect();
    let home = home(&[
        ("app.yaml", SEED),
        ("fleet.yaml", FLEET),
        ("turned.yaml", &turned),
    ])?;
    let plan = ["plan", "-f", "app.yaml", "--inventory", "fleet.yaml"];
    let table = expect(0, &plan, home.path()).await?;
    for shown in [
        "Plan  default/web  new → web-v1   3 clusters, offline: an inventory on which nothing runs",
        "rule-0  region=east  70%      -    7     2 clusters: east-1 ",
        "Plan: 3 to add, 0 to change, 0 to destroy.",
    ] {
        assert!(
            table.stdout.contains(shown),
            "{shown:?} is missing in\n{}",
            table.stdout
        );
    }
    assert_eq!(table.stderr, "");
    // One replica is without a place: that is no change, and changes are no error unless asked for.
    expect(2, &[&plan[..], &["--detailed-exitcode"]].concat(), home.path()).await?;
    let json = expect(0, &[&plan[..], &["-o", "json"]].concat(), home.path()).await?;
    let other = [
        "plan",
        "-f",
        "app.yaml",
        "--inventory",
        "turned.yaml",
        "-o",
        "json",
    ];
    assert_eq!(json.stdout, expect(0, &other, home.path()).await?.stdout);
    let json: Value = serde_json::from_str(&json.stdout)?;
    let decision = &json["decisions"][0];
    assert_eq!(
        (&decision["replicas"], &decision["placed"]),
        (&10.into(), &9.into())
    );
    assert_eq!(
        decision["unplaced"],
        serde_json::json!([{"rule": null, "count": 1, "reason": "Unclaimed"}])
    );
    assert_eq!(json["bundles"].as_array().map(Vec::len), Some(3));
    let nowhere = SEED
        .replace("region: east", "region: x")
        .replace("region: west", "region: x");
    std::fs::write(home.path().join("app.yaml"), nowhere)?;
    expect(0, &[&plan[..], &["--detailed-exitcode"]].concat(), home.path()).await?;
    Ok(())
}

#[tokio::test]
async fn what_cannot_be_planned_is_named() -> Result<()> {
    let refused = SEED.replace("replicas: \"70%\"", "replicas: \"90%\"");
    let files = [
        ("refused.yaml", refused.as_str()),
        ("broken.yaml", "a: 1\n---\nb: [\n"),
        (
            "other.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n",
        ),
        ("app.yaml", SEED),
        ("fleet.yaml", FLEET),
        ("twice.yaml", "- metadata: {name: a}\n- metadata: {name: a}\n"),
    ];
    let home = home(&files)?;
    for (file, fleet, said) in [
        (
            "refused.yaml",
            "fleet.yaml",
            "refused.yaml, document 1 (line 3): Application default/web is not accepted [E-REFUSED]",
        ),
        (
            "broken.yaml",
            "fleet.yaml",
            "broken.yaml, document 2 (line 3) does not parse [E-INPUT]",
        ),
        ("other.yaml", "fleet.yaml", "cause: it is a ConfigMap of v1"),
        ("app.yaml", "twice.yaml", "cause: cluster a is there twice"),
        ("app.yaml", "no.yaml", "no.yaml cannot be read [E-INPUT]"),
    ] {
        let ended = expect(1, &["plan", "-f", file, "--inventory", fleet], home.path()).await?;
        assert!(
            ended.stderr.contains(said),
            "{said:?} is missing in\n{}",
            ended.stderr
        );
        assert!(
            ended.stderr.contains("\ntry:   ") && ended.stdout.is_empty(),
            "{}",
            ended.stderr
        );
    }
    Ok(())
}

/// The seed with an override that fits nothing.
fn stopped() -> String {
    SEED.replace(
        "      properties:\n        placement:\n",
        "      properties:\n        overrides:\n        - target: {kind: Deployment, name: nobody}\n          patch: {spec: {paused: true}}\n        placement:\n",
    )
}

#[tokio::test]
async fn a_plan_reads_stdin_and_writes_yaml() -> Result<()> {
    let home = home(&[
        ("app.yaml", SEED),
        ("fleet.yaml", FLEET),
        ("stopped.yaml", &stopped()),
    ])?;
    let binary = binaries()?.roundhouse.display().to_string();
    let piped = async |verb: &str| {
        let line = format!("cat app.yaml | '{binary}' {verb}");
        Process::start(Path::new("sh"), ["-c", line.as_str()], home.path())?
            .wait()
            .await
    };
    let plan = ["plan", "-f", "app.yaml", "--inventory", "fleet.yaml", "-o"];
    let json = expect(0, &[&plan[..], &["json"]].concat(), home.path())
        .await?
        .stdout;
    let of_stdin = piped("plan -f - --inventory fleet.yaml -o json").await?;
    assert_eq!(of_stdin.stdout, json, "{}", of_stdin.stderr);
    let yaml = expect(0, &[&plan[..], &["yaml"]].concat(), home.path())
        .await?
        .stdout;
    assert_eq!(
        roundhouse_e2e::world::object(&yaml)?,
        serde_json::from_str::<Value>(&json)?
    );
    // The place of what is wrong in it is named too.
    let wrong = piped("plan -f - -f fleet.yaml --inventory fleet.yaml").await?;
    assert!(
        wrong.status.code() == Some(1) && wrong.stderr.contains("fleet.yaml"),
        "{}",
        wrong.stderr
    );
    // A plan that is stopped fails, with a status of its own asked for or not.
    for more in [&[][..], &["--detailed-exitcode"]] {
        let words = [
            "plan",
            "-f",
            "stopped.yaml",
            "--inventory",
            "fleet.yaml",
            "-o",
            "json",
        ];
        let ended = expect(1, &[&words[..], more].concat(), home.path()).await?;
        let json: Value = serde_json::from_str(&ended.stdout)?;
        assert_eq!(json["stopped"][0]["step"], "step-0");
        assert!(ended.stderr.contains("[E-OVERRIDE]"), "{}", ended.stderr);
    }
    Ok(())
}

/// A running demo that has delivered all samples.
struct Demo {
    home: TempDir,
    process: Process,
    hub: Client,
}

impl Demo {
    async fn start(files: &[(&str, &str)]) -> Result<Demo> {
        let home = home(files)?;
        let words = ["demo", "--data-dir", "d"];
        let mut process = Process::start(&binaries()?.roundhouse, words, home.path())?;
        process
            .stdout_line(|line| line.contains("look around while this runs"))
            .await?;
        let hub = client(&home.path().join("d/hub.kubeconfig")).await?;
        let demo = Demo { home, process, hub };
        demo.dispatched("web", 5).await?;
        Ok(demo)
    }

    /// A verb with the hub's kubeconfig.
    async fn run(&self, status: i32, words: &[&str]) -> Result<Ended> {
        let words = [words, &["--kubeconfig", "d/hub.kubeconfig"]].concat();
        expect(status, &words, self.home.path()).await
    }

    /// Waits until an application has finished its run, with Bundles on that many clusters.
    async fn dispatched(&self, name: &str, clusters: usize) -> Result<()> {
        let applications: Api<Application> = Api::namespaced(self.hub.clone(), "default");
        let bundles: Api<Bundle> = Api::all(self.hub.clone());
        let labels = ListParams::default().labels(&format!("{}={name}", label::APP_NAME));
        soon("the run to finish", async || {
            let application = applications.get(name).await?;
            let count = bundles.list_metadata(&labels).await?.items.len();
            let status = application.status.unwrap_or_default();
            let current = status.observed_generation == application.metadata.generation;
            let finished = status.workflow.is_some_and(|workflow| workflow.finished);
            Ok(if current && finished && count == clusters {
                Ok(())
            } else {
                Err((current, finished, count))
            })
        })
        .await
    }

    async fn end(self) -> Result<()> {
        let ended = self.process.end(Signal::Interrupt).await?;
        ensure!(ended.status.success(), "{}", ended.stderr);
        Ok(())
    }
}

#[tokio::test]
async fn a_plan_against_a_hub_says_what_would_change_and_is_applied_once() -> Result<()> {
    let changed = SEED
        .replace("nginx:1.28", "nginx:1.29")
        .replace("\"20%\"", "\"30%\"");
    let demo = Demo::start(&[("web.yaml", SEED), ("new.yaml", &changed)]).await?;
    let same = demo
        .run(0, &["plan", "-f", "web.yaml", "--detailed-exitcode"])
        .await?;
    assert!(same.stdout.contains("no cluster changes"), "{}", same.stdout);
    assert!(
        same.stdout
            .contains("compared with the bundles dispatched last, not with live state")
    );

    // What would not be carried out in full is no plan to apply.
    std::fs::write(demo.home.path().join("stopped.yaml"), stopped())?;
    let unsaved = demo
        .run(1, &["plan", "-f", "stopped.yaml", "--out", "p.plan"])
        .await?;
    for said in [
        "[E-OVERRIDE]",
        "error: the plan was not saved to p.plan [E-STOPPED]\n",
        "\ntry:   mending what is named there",
    ] {
        assert!(
            unsaved.stderr.contains(said),
            "{said:?} is missing in\n{}",
            unsaved.stderr
        );
    }
    assert!(!demo.home.path().join("p.plan").exists());

    let plan = demo
        .run(
            2,
            &["plan", "-f", "new.yaml", "--out", "p.plan", "--detailed-exitcode"],
        )
        .await?;
    for shown in [
        "web-v1 → web-v2",
        "rule-1  region=west  30%      2    3  +1",
        "~ Deployment.apps default/web  (5 clusters, 1 variant)",
        "~ spec.template.spec.containers[web].image  nginx:1.28 → nginx:1.29  (restarts pods)",
        "9 restarted, 1 started, 0 stopped",
        "Plan: 0 to add, 5 to change, 0 to destroy.",
    ] {
        assert!(
            plan.stdout.contains(shown),
            "{shown:?} is missing in\n{}",
            plan.stdout
        );
    }
    assert!(plan.stderr.contains("roundhouse apply p.plan"), "{}", plan.stderr);
    let mode = std::fs::metadata(demo.home.path().join("p.plan"))?
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    let dry = demo.run(0, &["apply", "p.plan", "--dry-run"]).await?;
    assert_eq!(dry.stdout, "application default/web configured (dry run)\n");
    let applied = demo.run(0, &["apply", "p.plan"]).await?;
    assert_eq!(applied.stdout, "application default/web configured\n");
    demo.dispatched("web", 5).await?;
    let again = demo.run(4, &["apply", "p.plan"]).await?;
    assert!(
        again.stderr.contains("[E-STALE]") && again.stderr.contains("Application default/web has changed"),
        "{}",
        again.stderr
    );
    assert_eq!(again.stdout, "");
    // What was planned is what was dispatched.
    let after = demo
        .run(0, &["plan", "-f", "new.yaml", "--detailed-exitcode"])
        .await?;
    assert!(after.stdout.contains("no cluster changes"), "{}", after.stdout);
    demo.end().await
}

#[tokio::test]
async fn a_plan_is_stale_when_a_cluster_has_moved() -> Result<()> {
    let changed = SEED.replace("nginx:1.28", "nginx:1.29");
    let demo = Demo::start(&[("new.yaml", &changed)]).await?;
    demo.run(0, &["plan", "-f", "new.yaml", "--out", "p.plan"])
        .await?;
    let clusters: Api<roundhouse_api::cluster::Cluster> = Api::all(demo.hub.clone());
    let patch = serde_json::json!({"metadata": {"labels": {"tier": "gold"}}});
    clusters
        .patch(
            "west-2",
            &kube::api::PatchParams::default(),
            &kube::api::Patch::Merge(patch),
        )
        .await?;
    let stale = demo.run(4, &["apply", "p.plan"]).await?;
    assert!(
        stale.stderr.contains("cause: Cluster west-2 has changed\n"),
        "{}",
        stale.stderr
    );
    let applications: Api<Application> = Api::namespaced(demo.hub.clone(), "default");
    assert_eq!(applications.get("web").await?.metadata.generation, Some(1));
    demo.end().await
}

const REFERRING: &str = "
apiVersion: roundhouse.dev/v1alpha1
kind: Placement
metadata: {name: halves}
spec:
  placement:
  - {clusterSelector: {region: east}, replicas: \"50%\"}
  - {clusterSelector: {region: west}, replicas: \"50%\"}
---
apiVersion: core.oam.dev/v1beta1
kind: Application
metadata: {name: ref}
spec:
  components: [{name: ref, type: worker, properties: {image: a, replicas: 8}}]
  workflow: {steps: [{name: go, type: deploy, properties: {placementRef: {name: halves}}}]}
";

#[tokio::test]
async fn apply_says_what_it_did_and_a_placement_is_planned_for_those_that_refer_to_it() -> Result<()> {
    let placement = REFERRING
        .split("---")
        .next()
        .unwrap_or_default()
        .replacen("50%", "25%", 1);
    let bad = SEED.replace("replicas: \"70%\"", "replicas: \"90%\"")
        + "---"
        + &REFERRING.replace("name: ref}", "name: no}");
    let demo = Demo::start(&[
        ("ref.yaml", REFERRING),
        ("placement.yaml", &placement),
        ("bad.yaml", &bad),
    ])
    .await?;
    let dry = demo.run(0, &["apply", "-f", "ref.yaml", "--dry-run"]).await?;
    assert_eq!(
        dry.stdout,
        "placement default/halves created (dry run)\napplication default/ref created (dry run)\n"
    );
    let created = demo.run(0, &["apply", "-f", "ref.yaml"]).await?;
    assert_eq!(
        created.stdout,
        "placement default/halves created\napplication default/ref created\n"
    );
    demo.dispatched("ref", 5).await?;
    let same = demo.run(0, &["apply", "-f", "ref.yaml"]).await?;
    assert_eq!(
        same.stdout,
        "placement default/halves unchanged\napplication default/ref unchanged\n"
    );

    let plan = demo.run(0, &["plan", "-f", "placement.yaml"]).await?;
    assert!(
        plan.stdout.contains("Plan  default/ref  ref-v1"),
        "{}",
        plan.stdout
    );
    assert!(
        plan.stdout.contains("rule-0  region=east  25%      4    2  -2"),
        "{}",
        plan.stdout
    );

    // Nothing of a file is sent if one document is refused.
    let refused = demo.run(1, &["apply", "-f", "bad.yaml"]).await?;
    assert!(
        refused.stderr.contains("[E-REFUSED]") && refused.stdout.is_empty(),
        "{}",
        refused.stderr
    );
    let applications: Api<Application> = Api::namespaced(demo.hub.clone(), "default");
    assert!(applications.get_opt("no").await?.is_none());
    demo.end().await
}

#[tokio::test]
async fn policies_are_tested_and_reported_in_three_forms() -> Result<()> {
    let home = home(&[])?;
    let policies = samples().join("policies");
    let policies = policies.to_str().unwrap_or_default();
    let passed = expect(0, &["test", policies], home.path()).await?;
    assert!(
        passed.stdout.ends_with("4 tests, 4 passed, 0 failed\n"),
        "{}",
        passed.stdout
    );
    let tap = expect(0, &["test", policies, "-o", "tap"], home.path()).await?;
    assert!(
        tap.stdout.starts_with("TAP version 14\n1..4\nok 1 - "),
        "{}",
        tap.stdout
    );
    let junit = expect(0, &["test", policies, "-o", "junit"], home.path()).await?;
    assert!(
        junit.stdout.contains("<testsuites tests=\"4\" failures=\"0\">"),
        "{}",
        junit.stdout
    );

    let empty = expect(1, &["test", "."], home.path()).await?;
    assert!(empty.stderr.contains("[E-NOTESTS]"), "{}", empty.stderr);
    let case = format!(
        "name: too much\nfiles: [app.yaml]\ninventory: fleet.yaml\nexpect: {}\n",
        "{placements: [{step: step-0, workload: Deployment default/web, clusters: {west-1: 3}}]}"
    );
    for (name, text) in [
        ("a.test.yaml", case.as_str()),
        ("app.yaml", SEED),
        ("fleet.yaml", FLEET),
    ] {
        std::fs::write(home.path().join(name), text)?;
    }
    let failed = expect(1, &["test", "."], home.path()).await?;
    for line in [
        "FAILED  too much  a.test.yaml",
        "- west-1  3",
        "+ west-1  2",
        "1 test, 0 passed, 1 failed",
    ] {
        assert!(
            failed.stdout.contains(line),
            "{line:?} is missing in\n{}",
            failed.stdout
        );
    }
    let failed = expect(1, &["test", ".", "-o", "tap"], home.path()).await?;
    assert!(
        failed
            .stdout
            .contains("not ok 1 - too much (a.test.yaml)\n  ---\n"),
        "{}",
        failed.stdout
    );
    expect(0, &["test", ".", "--update"], home.path()).await?;
    expect(0, &["test", "."], home.path()).await?;
    std::fs::write(
        home.path().join("a.test.yaml"),
        case.replace("inventory", "inventry"),
    )?;
    let unknown = expect(1, &["test", "."], home.path()).await?;
    assert!(
        unknown.stderr.contains("unknown field `inventry`"),
        "{}",
        unknown.stderr
    );
    Ok(())
}
