//! The verbs that steer a run, as processes against a running hub, by their exit status and what they print.

use crate::yard::Yard;
use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use roundhouse_e2e::{
    kubectl::Kubectl,
    process::{Signal, soon},
};
use serde_json::{Value, json};

/// Ends in progress, failed or refused, awaiting a person, too late.
const IN_PROGRESS: i32 = 2;
const FAILED: i32 = 3;
const REFUSED: i32 = 3;
const AWAITING: i32 = 5;
const TIMED_OUT: i32 = 124;

fn spec(image: &str, steps: &Value) -> Value {
    json!({"components": [{"name": "web", "type": "webservice", "properties": {"image": image, "replicas": 10}}],
        "workflow": {"steps": steps}})
}

fn region(name: &str, share: &str) -> Value {
    json!({"name": name, "type": "deploy", "properties": {"placement": [
        {"clusterSelector": {"region": name}, "replicas": share}]}})
}

/// Both regions in one step.
fn at_once(image: &str) -> Value {
    let both = json!({"name": "both", "type": "deploy", "properties": {"placement": [
        {"clusterSelector": {"region": "east"}, "replicas": "70%"},
        {"clusterSelector": {"region": "west"}, "replicas": "30%"}]}});
    spec(image, &json!([both]))
}

async fn apply(yard: &Yard, spec: Value) -> Result<()> {
    let applications = yard.applications();
    if applications.get_opt("web").await?.is_none() {
        let object = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "web", "namespace": "default"}, "spec": spec});
        let object: DynamicObject = serde_json::from_value(object)?;
        applications.create(&PostParams::default(), &object).await?;
        return Ok(());
    }
    let operations = json!([{"op": "replace", "path": "/spec", "value": spec}]);
    let patch: Patch<Value> = Patch::Json(serde_json::from_value(operations)?);
    applications.patch("web", &PatchParams::default(), &patch).await?;
    Ok(())
}

/// The replicas that are asked for in a member; `None` without a Deployment.
async fn asked(yard: &Yard, member: &str) -> Result<Option<i32>> {
    let web: Option<Deployment> = yard.deployments(member).await?.get_opt("web").await?;
    Ok(web.and_then(|web| web.spec?.replicas))
}

#[tokio::test]
async fn region_east_first_then_approval_then_west() -> Result<()> {
    let yard = Yard::start().await?;
    let absent = yard.ends(1, &["status", "web"]).await?;
    ensure!(
        absent.contains("there is no application default/web [E-APPLICATION]"),
        "{absent}"
    );
    let approve = json!({"name": "approve", "type": "suspend", "properties": {"message": "look at the graphs of east"}});
    let steps = json!([region("east", "70%"), approve, region("west", "30%")]);
    apply(&yard, spec("nginx:1.28", &steps)).await?;

    let watched = yard
        .ends(
            AWAITING,
            &["watch", "web", "--until", "ready", "--timeout", "60s"],
        )
        .await?;
    ensure!(watched.contains("look at the graphs of east"), "{watched}");
    assert_eq!(
        (asked(&yard, "east-1").await?, asked(&yard, "west-1").await?),
        (Some(7), None)
    );
    let status = yard.ends(AWAITING, &["status", "web"]).await?;
    ensure!(status.contains("try:   roundhouse resume web"), "{status}");
    let json = yard.ends(AWAITING, &["status", "web", "-o", "json"]).await?;
    let json: Value = serde_json::from_str(&json)?;
    assert_eq!(
        (json["state"].as_str(), json["exitStatus"].as_i64()),
        (Some("awaiting"), Some(5))
    );
    let refused = yard
        .ends(REFUSED, &["approve", "web", "--hash", "0123456789abcdef"])
        .await?;
    ensure!(refused.contains("no removal waits for an approval"), "{refused}");

    let resumed = yard.ends(0, &["resume", "web"]).await?;
    assert_eq!(resumed, "application default/web resumed\n");
    let watched = yard
        .ends(0, &["watch", "web", "--until", "ready", "--timeout", "60s"])
        .await?;
    ensure!(watched.contains("delivered"), "{watched}");
    assert_eq!(asked(&yard, "west-1").await?, Some(3));
    let status = yard.ends(0, &["status", "web", "-o", "tree"]).await?;
    ensure!(status.contains("2/2 clusters, 10/10 replicas ready"), "{status}");
    let again = yard.ends(REFUSED, &["resume", "web"]).await?;
    ensure!(again.contains("it is not suspended: it is delivered"), "{again}");

    if let Err(skipped) = Kubectl::installed().await {
        eprintln!("{skipped}");
        return Ok(());
    }
    let kubectl = Kubectl::new(&yard.home.path().join("hub/admin.kubeconfig"));
    soon("the story in kubectl describe", async || {
        let described = kubectl.run(&["describe", "application", "web"]).await?;
        let story = [
            "RunStarted",
            "StepSucceeded",
            "Suspended",
            "Resumed",
            "RunSucceeded",
            "web-v1 was delivered",
        ];
        let events = described.split("Events:").nth(1).unwrap_or_default().to_owned();
        Ok(match story.iter().all(|word| events.contains(word)) {
            true => Ok(()),
            false => Err(events),
        })
    })
    .await
}

#[tokio::test]
async fn a_run_is_paused_goes_on_is_terminated_and_starts_again() -> Result<()> {
    let yard = Yard::start().await?;
    yard.agents[1].signal(Signal::Stop).await?;
    apply(&yard, at_once("nginx:1.28")).await?;
    let late = yard
        .ends(
            TIMED_OUT,
            &["watch", "web", "--until", "ready", "--timeout", "3s"],
        )
        .await?;
    ensure!(late.contains("[E-TIMEOUT]") && late.contains("west-1"), "{late}");
    yard.ends(IN_PROGRESS, &["status", "web"]).await?;
    let refused = yard.ends(REFUSED, &["resume", "web"]).await?;
    ensure!(
        refused.contains("it is not suspended: it is delivering"),
        "{refused}"
    );

    yard.ends(0, &["suspend", "web"]).await?;
    yard.ends(
        AWAITING,
        &["watch", "web", "--until", "ready", "--timeout", "60s"],
    )
    .await?;
    let again = yard.ends(0, &["suspend", "web"]).await?;
    assert_eq!(again, "application default/web is suspended already\n");
    yard.ends(0, &["resume", "web"]).await?;

    yard.ends(0, &["terminate", "web"]).await?;
    yard.ends(
        FAILED,
        &["watch", "web", "--until", "delivered", "--timeout", "60s"],
    )
    .await?;
    let status = yard.ends(FAILED, &["status", "web"]).await?;
    ensure!(status.contains("try:   roundhouse restart web"), "{status}");
    let again = yard.ends(0, &["terminate", "web"]).await?;
    assert_eq!(again, "application default/web is terminated already\n");
    yard.ends(REFUSED, &["suspend", "web"]).await?;

    let unknown = yard.ends(REFUSED, &["restart", "web", "--step", "north"]).await?;
    ensure!(
        unknown.contains("it has no step north; its steps are both"),
        "{unknown}"
    );
    yard.agents[1].signal(Signal::Continue).await?;
    yard.ends(0, &["restart", "web"]).await?;
    yard.ends(0, &["watch", "web", "--until", "ready", "--timeout", "60s"])
        .await?;
    let ended = yard.ends(REFUSED, &["terminate", "web"]).await?;
    ensure!(ended.contains("its run has ended"), "{ended}");
    Ok(())
}

#[tokio::test]
async fn a_run_starts_again_from_a_step_and_keeps_what_is_before_it() -> Result<()> {
    let yard = Yard::start().await?;
    let ready = ["watch", "web", "--until", "ready", "--timeout", "60s"];
    let mut east = region("east", "70%");
    east["meta"] = json!({"alias": "East first"});
    let approve = json!({"name": "approve", "type": "suspend"});
    apply(
        &yard,
        spec("nginx:1.28", &json!([east, approve, region("west", "30%")])),
    )
    .await?;
    yard.ends(AWAITING, &ready).await?;
    yard.ends(0, &["resume", "web"]).await?;
    yard.ends(0, &ready).await?;
    let steps = async |code| -> Result<Value> {
        let text = yard.ends(code, &["status", "web", "-o", "json"]).await?;
        let status: Value = serde_json::from_str(&text).context(text)?;
        Ok(status["status"]["workflow"]["steps"].clone())
    };
    let before = steps(0).await?;

    let restarted = yard.ends(0, &["restart", "web", "--step", "approve"]).await?;
    assert_eq!(restarted, "application default/web restarted from step approve\n");
    yard.ends(AWAITING, &ready).await?;
    let again = steps(AWAITING).await?;
    assert_eq!(again[0], before[0], "east keeps its outcome");
    assert_eq!(
        (again[1]["phase"].as_str(), again[2]["phase"].as_str()),
        (Some("suspending"), Some("pending"))
    );
    let refused = yard.ends(REFUSED, &["restart", "web", "--step", "west"]).await?;
    ensure!(refused.contains("step west has not started"), "{refused}");
    let status = yard.ends(AWAITING, &["status", "web"]).await?;
    ensure!(status.contains("east (East first)"), "{status}");
    assert_eq!(
        (asked(&yard, "east-1").await?, asked(&yard, "west-1").await?),
        (Some(7), Some(3)),
        "what was delivered stays"
    );
    yard.ends(0, &["resume", "web"]).await?;
    yard.ends(0, &ready).await?;
    let after = steps(0).await?;
    assert_eq!(after[0], before[0]);
    assert_ne!(
        after[2]["firstExecuteTime"], before[2]["firstExecuteTime"],
        "west has run again"
    );
    Ok(())
}

#[tokio::test]
async fn a_rollback_delivers_an_old_content_and_the_history_shows_it() -> Result<()> {
    let yard = Yard::start().await?;
    let ready = ["watch", "web", "--until", "ready", "--timeout", "60s"];
    for image in ["nginx:1.28", "nginx:1.29"] {
        apply(&yard, at_once(image)).await?;
        yard.ends(0, &ready).await?;
    }
    let history = async || -> Result<Value> {
        let text = yard.ends(0, &["history", "web", "-o", "json"]).await?;
        serde_json::from_str(&text).context(text)
    };
    let delivered = |history: &Value, at: usize| history[at]["deliveredAt"].is_string();
    soon("both deliveries in the history", async || {
        let history = history().await?;
        let both = delivered(&history, 0) && delivered(&history, 1);
        Ok(if both { Ok(()) } else { Err(history) })
    })
    .await?;
    let seen = history().await?;
    assert_eq!(
        seen[1]["changes"],
        json!(["component web: image nginx:1.28 → nginx:1.29"])
    );
    assert_eq!(
        (&seen[0]["current"], &seen[1]["current"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(
        (&seen[0]["clusters"], &seen[1]["clusters"]),
        (&json!(0), &json!(2))
    );

    let back = yard.ends(0, &["rollback", "web"]).await?;
    assert_eq!(back, "application default/web goes back to web-v1\n");
    yard.ends(0, &ready).await?;
    for member in ["east-1", "west-1"] {
        assert_eq!(yard.web(member).await?.2, "nginx:1.28", "{member}");
    }
    assert_eq!(history().await?[0]["current"], json!(true));
    let already = yard.ends(REFUSED, &["rollback", "web", "--to", "1"]).await?;
    ensure!(
        already.contains("its spec is that of web-v1 already"),
        "{already}"
    );
    let unknown = yard.ends(REFUSED, &["rollback", "web", "--to", "9"]).await?;
    ensure!(
        unknown.contains("no revision 9 of it; it has web-v1, web-v2"),
        "{unknown}"
    );
    yard.ends(0, &["rollback", "web", "--to", "web-v2"]).await?;
    yard.ends(0, &ready).await?;
    assert_eq!(yard.web("west-1").await?.2, "nginx:1.29");
    Ok(())
}

#[tokio::test]
async fn held_removals_go_ahead_when_their_hash_is_approved() -> Result<()> {
    let yard = Yard::of(&[("east-1", "east"), ("west-1", "west"), ("west-2", "west")]).await?;
    let ready = ["watch", "web", "--until", "ready", "--timeout", "60s"];
    apply(&yard, at_once("nginx:1.28")).await?;
    yard.ends(0, &ready).await?;
    apply(&yard, spec("nginx:1.28", &json!([region("east", "70%")]))).await?;
    soon("the removals held", async || {
        let ended = yard.roundhouse(&["status", "web", "-o", "json"]).await?;
        Ok(if ended.status.code() == Some(AWAITING) {
            Ok(())
        } else {
            Err(ended.stdout)
        })
    })
    .await?;
    let status: Value = serde_json::from_str(&yard.ends(AWAITING, &["status", "web", "-o", "json"]).await?)?;
    let advice = status["try"][0].as_str().context("no advice")?.to_owned();
    let hash = advice
        .strip_prefix("roundhouse approve web --hash ")
        .context(advice.clone())?;
    let wrong = yard
        .ends(REFUSED, &["approve", "web", "--hash", "0123456789abcdef"])
        .await?;
    ensure!(
        wrong.contains(&format!("what waits for an approval is {hash}")),
        "{wrong}"
    );
    assert!(asked(&yard, "west-1").await?.is_some(), "nothing was removed");
    assert_eq!(status["status"]["heldDeletes"]["hash"], json!(hash));
    assert_eq!(
        status["status"]["heldDeletes"]["clusters"],
        json!(["west-1", "west-2"])
    );
    yard.ends(0, &["approve", "web", "--hash", hash]).await?;
    // What is approved awaits nobody any more, whether the hub has taken it up or not.
    yard.ends(0, &ready).await?;
    soon("west lets go", async || {
        let left = (asked(&yard, "west-1").await?, asked(&yard, "west-2").await?);
        Ok(if left == (None, None) { Ok(()) } else { Err(left) })
    })
    .await?;
    yard.ends(0, &["approve", "web", "--hash", hash]).await?;
    // The Bundles go before the status says so.
    soon("nothing held", async || {
        let ended = yard.roundhouse(&["status", "web"]).await?;
        Ok(if ended.status.code() == Some(0) {
            Ok(())
        } else {
            Err(ended.stdout)
        })
    })
    .await?;
    yard.ends(0, &ready).await?;
    Ok(())
}
