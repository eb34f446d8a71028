//! What a person does with kubectl while `roundhouse demo` runs. Skipped, with the reason, where kubectl is not installed.

#[path = "kubectl/apply.rs"]
mod apply;
#[path = "kubectl/bare.rs"]
mod bare;
#[path = "kubectl/transcripts.rs"]
mod transcripts;

use anyhow::{Context, Result, ensure};
use roundhouse_e2e::{
    binaries::binaries,
    kubectl::{Kubectl, table},
    process::{Process, Signal, soon},
    world::{APP, REGIONS},
};
use tempfile::TempDir;

const MEMBERS: [&str; 5] = ["east-1", "east-2", "east-3", "west-1", "west-2"];

/// A running demo and kubectl for its hub.
struct Demo {
    home: TempDir,
    process: Process,
    hub: Kubectl,
}

impl Demo {
    /// All three samples are applied when it returns.
    async fn start() -> Result<Demo> {
        let home = tempfile::tempdir()?;
        let words = ["demo", "--data-dir", "d"];
        let mut process = Process::start(&binaries()?.roundhouse, words, home.path())?;
        process
            .stdout_line(|line| line.contains("look around while this runs"))
            .await?;
        let hub = Kubectl::new(&home.path().join("d/hub.kubeconfig"));
        Ok(Demo { home, process, hub })
    }

    fn member(&self, name: &str) -> Kubectl {
        Kubectl::new(&self.home.path().join(format!("d/{name}.kubeconfig")))
    }

    async fn phase(&self, application: &str, phase: &str) -> Result<()> {
        self.hub
            .until(
                &[
                    "get",
                    "application",
                    application,
                    "-o",
                    "jsonpath={.status.phase}",
                ],
                phase,
            )
            .await
    }

    /// Waits until a revision has run and everything is ready.
    async fn delivered(&self, application: &str, revision: &str) -> Result<()> {
        let path = "jsonpath={.status.workflow.appRevision} {.status.workflow.finished} {.status.phase}";
        let words = ["get", "application", application, "-o", path];
        self.hub.until(&words, format!("{revision} true running")).await
    }

    async fn end(self) -> Result<()> {
        let ended = self.process.end(Signal::Interrupt).await?;
        ensure!(ended.status.success(), "{}", ended.stderr);
        Ok(())
    }
}

/// The table of a kind.
async fn rows(kubectl: &Kubectl, kind: &str) -> Result<(Vec<String>, Vec<Vec<String>>)> {
    Ok(table(&kubectl.run(&["get", kind, "-A"]).await?))
}

/// The row of a name, under some words of the header.
fn row(table: &(Vec<String>, Vec<Vec<String>>), name: [&str; 2], columns: &[&str]) -> Result<Vec<String>> {
    let (header, rows) = table;
    let column = |word: &str| {
        let at = header.iter().position(|cell| cell == word);
        at.with_context(|| format!("no column {word} in {header:?}"))
    };
    let at = column("NAME")?;
    // Cluster-scoped kinds have no column for the namespace.
    let namespace = column("NAMESPACE").ok();
    let is_it = |row: &&Vec<String>| row[at] == name[1] && namespace.is_none_or(|at| row[at] == name[0]);
    let row = rows
        .iter()
        .find(is_it)
        .with_context(|| format!("no row {name:?} in {rows:?}"))?;
    columns
        .iter()
        .map(|word| Ok(row[column(word)?].clone()))
        .collect()
}

#[tokio::test]
async fn the_tables_say_what_a_person_needs() -> Result<()> {
    if let Err(reason) = Kubectl::installed().await {
        println!("{reason}");
        return Ok(());
    }
    let demo = Demo::start().await?;
    demo.delivered("web", "web-v1").await?;
    demo.delivered("shop", "shop-v1").await?;
    demo.phase("checkout", "workflowSuspending").await?;

    let all = demo
        .hub
        .run(&["get", "applications,decisions,bundles,clusters", "-A"])
        .await?;
    for name in [
        "application.core.oam.dev/web",
        "decision.roundhouse.dev/web-step-0",
        "bundle.roundhouse.dev/default.web",
        "cluster.roundhouse.dev/west-2",
    ] {
        assert!(all.contains(name), "{name} is missing in\n{all}");
    }

    let applications = rows(&demo.hub, "applications").await?;
    let columns = ["PHASE", "REVISION", "STEP", "CLUSTERS", "REPLICAS", "UNPLACED"];
    let web = row(&applications, ["default", "web"], &columns)?;
    assert_eq!(web, ["running", "web-v1", "step-0 (1/1)", "5/5", "9/9", "1"]);
    let checkout = row(&applications, ["default", "checkout"], &columns)?;
    assert_eq!(
        checkout,
        [
            "workflowSuspending",
            "checkout-v1",
            "look-first (1/3)",
            "3/3",
            "6/6",
            "0"
        ]
    );

    let decisions = rows(&demo.hub, "decisions").await?;
    let columns = [
        "APPLICATION",
        "STEP",
        "REPLICAS",
        "PLACED",
        "UNPLACED",
        "CLUSTERS",
        "SATISFIED",
    ];
    let web = row(&decisions, ["default", "web-step-0"], &columns)?;
    assert_eq!(web, ["web", "step-0", "10", "9", "1", "5", "true"]);

    let bundles = rows(&demo.hub, "bundles").await?;
    let columns = ["REVISION", "PHASE", "OBJECTS", "APPLIED", "READY", "FAILED"];
    for member in MEMBERS {
        let namespace = format!("cluster-{member}");
        let shop = row(&bundles, [&namespace, "default.shop"], &columns)?;
        assert_eq!(shop, ["shop-v1", "Ready", "3", "3", "3", "0"], "{member}");
    }

    let clusters = rows(&demo.hub, "clusters").await?;
    for member in MEMBERS {
        let (region, _) = member.split_once('-').context("region")?;
        let cells = row(
            &clusters,
            ["", member],
            &["ACCEPTED", "JOINED", "AVAILABLE", "REGION"],
        )?;
        assert_eq!(cells, ["true", "True", "True", region], "{member}");
    }

    let explained = demo.hub.run(&["explain", "application.spec.workflow"]).await?;
    for part in ["Application", "v1beta1", "workflow", "steps"] {
        assert!(explained.contains(part), "{part} is missing in\n{explained}");
    }
    demo.end().await
}

#[tokio::test]
async fn what_people_do_by_hand() -> Result<()> {
    if let Err(reason) = Kubectl::installed().await {
        println!("{reason}");
        return Ok(());
    }
    let demo = Demo::start().await?;
    demo.delivered("web", "web-v1").await?;
    let east = demo.member("east-2");
    east.run(&["annotate", "deployment", "web", "team=payments"])
        .await?;

    let editor = [("EDITOR", "sed -i s/nginx:1.28/nginx:1.29/"), ("KUBE_EDITOR", "")];
    demo.hub
        .run_with(&["edit", "application", "web"], &editor)
        .await?;
    demo.delivered("web", "web-v2").await?;
    for name in MEMBERS {
        let path = "jsonpath={.spec.template.spec.containers[0].image}";
        let image = demo
            .member(name)
            .run(&["get", "deployment", "web", "-o", path])
            .await?;
        assert_eq!(image, "nginx:1.29", "{name}");
    }
    let revisions = demo
        .hub
        .run(&["get", "applicationrevisions", "-o", "name"])
        .await?;
    assert!(
        revisions.contains("/web-v1\n") && revisions.contains("/web-v2\n"),
        "{revisions}"
    );

    let before = east
        .run(&[
            "get",
            "deployment",
            "web",
            "-o",
            "jsonpath={.metadata.generation}",
        ])
        .await?;
    east.run(&["scale", "deployment", "web", "--replicas", "9"])
        .await?;
    let state = [
        "get",
        "deployment",
        "web",
        "-o",
        "jsonpath={.spec.replicas} {.status.readyReplicas}",
    ];
    east.until(&state, "3 3").await?;
    let after = east
        .run(&[
            "get",
            "deployment",
            "web",
            "-o",
            "jsonpath={.metadata.generation}",
        ])
        .await?;
    assert_eq!(
        after.parse::<i64>()?,
        before.parse::<i64>()? + 2,
        "scaled by hand, and back"
    );
    let team = east
        .run(&[
            "get",
            "deployment",
            "web",
            "-o",
            "jsonpath={.metadata.annotations.team}",
        ])
        .await?;
    assert_eq!(team, "payments", "it outlives a revision and a repair");

    demo.phase("checkout", "workflowSuspending").await?;
    let west = demo.member("west-1");
    let absent = west.run(&["get", "deployment", "checkout"]).await;
    assert!(format!("{absent:?}").contains("NotFound"), "{absent:?}");
    let resume = r#"{"status":{"workflow":{"suspend":false}}}"#;
    demo.hub
        .run(&[
            "patch",
            "application",
            "checkout",
            "--subresource=status",
            "--type",
            "merge",
            "-p",
            resume,
        ])
        .await?;
    demo.delivered("checkout", "checkout-v1").await?;
    west.run(&["get", "deployment", "checkout"]).await?;
    demo.end().await
}

#[tokio::test]
async fn samples_are_deleted_and_applied_again() -> Result<()> {
    if let Err(reason) = Kubectl::installed().await {
        println!("{reason}");
        return Ok(());
    }
    let demo = Demo::start().await?;
    demo.delivered("shop", "shop-v1").await?;
    demo.phase("checkout", "workflowSuspending").await?;
    // Something of a person's own, which no deletion of an application may touch.
    let east = demo.member("east-1");
    let mine = demo.home.path().join("mine.yaml");
    std::fs::write(&mine, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: mine}\n")?;
    east.run(&["apply", "-f", mine.to_str().context("path")?]).await?;
    demo.hub
        .run(&["delete", "application", "shop", "checkout", "--timeout", "60s"])
        .await?;
    for name in MEMBERS {
        let ours = "deployments,services,configmaps";
        let words = ["get", ours, "-o", "name", "-l", "!kubernetes.io/metadata.name"];
        let member = demo.member(name);
        soon(&format!("{name} without what was deleted"), async || {
            let left = member.run(&words).await?;
            let gone = !left.contains("/shop") && !left.contains("/checkout");
            Ok(if gone { Ok(()) } else { Err(left) })
        })
        .await?;
        member.run(&["get", "deployment", "web"]).await?;
    }
    east.run(&["get", "configmap", "mine"]).await?;

    for (name, text) in [("02-app", APP), ("03-regions", REGIONS)] {
        let file = demo.home.path().join(name).with_extension("yaml");
        std::fs::write(&file, text)?;
        let file = file.to_str().context("path")?;
        demo.hub.run(&["apply", "-f", file]).await?;
        let again = demo.hub.run(&["apply", "-f", file]).await?;
        assert!(again.contains("unchanged"), "{again}");
    }
    demo.phase("shop", "running").await?;
    demo.phase("checkout", "workflowSuspending").await?;
    let value = "jsonpath={.data.currency}";
    assert_eq!(
        east.run(&["get", "configmap", "shop-settings", "-o", value])
            .await?,
        "EUR"
    );
    demo.end().await
}

#[tokio::test]
async fn the_definitions_apply_to_a_bare_server() -> Result<()> {
    if let Err(reason) = Kubectl::installed().await {
        println!("{reason}");
        return Ok(());
    }
    let home = tempfile::tempdir()?;
    let roundhouse = &binaries()?.roundhouse;
    let words = ["apiserver", "--data-dir", "d", "--listen", "127.0.0.1:0"];
    let mut server = Process::start(roundhouse, words, home.path())?;
    server
        .stdout_line(|line| line.ends_with("admin.kubeconfig"))
        .await?;
    let kubectl = Kubectl::new(&home.path().join("d/admin.kubeconfig"));
    let crds = Process::start(roundhouse, ["crds"], home.path())?.wait().await?;
    let file = home.path().join("crds.yaml");
    std::fs::write(&file, crds.stdout)?;
    let file = file.to_str().context("path")?;
    let applied = kubectl.run(&["apply", "-f", file]).await?;
    assert_eq!(
        applied.matches(" created").count(),
        applied.lines().count(),
        "{applied}"
    );
    kubectl
        .run(&[
            "wait",
            "--for",
            "condition=Established",
            "crd",
            "--all",
            "--timeout",
            "60s",
        ])
        .await?;
    let again = kubectl.run(&["apply", "-f", file]).await?;
    assert_eq!(
        again.matches(" unchanged").count(),
        again.lines().count(),
        "{again}"
    );
    let kinds = kubectl.run(&["api-resources", "-o", "name"]).await?;
    for kind in [
        "applications.core.oam.dev",
        "bundles.roundhouse.dev",
        "clusters.roundhouse.dev",
    ] {
        assert!(
            kinds.lines().any(|line| line == kind),
            "{kind} is missing in\n{kinds}"
        );
    }
    let bad = kubectl.run(&["create", "-f", &bad_application(&home)?]).await;
    assert!(bad.is_err(), "the definitions check what is created");
    Ok(())
}

/// A file with an Application whose components are no list.
fn bad_application(home: &TempDir) -> Result<String> {
    let file = home.path().join("bad.yaml");
    let text = "apiVersion: core.oam.dev/v1beta1\nkind: Application\nmetadata: {name: bad}\nspec: {components: none}\n";
    std::fs::write(&file, text)?;
    Ok(file.to_str().context("path")?.to_owned())
}
