//! What people read, and what scripts can tell apart.

use super::{State, StatusView, Style, draw};
use crate::cli::format::Format;
use jiff::Timestamp;
use serde_json::{Value, json};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn view(status: &Value) -> StatusView {
    let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "default", "generation": 2}, "status": status});
    StatusView::of(&serde_json::from_value(application).unwrap())
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-03-01T11:55:00Z"})
}

/// About the present spec.
fn deletes_held(status: &str, reason: &str, message: &str) -> Value {
    let mut held = condition("DeletesHeld", status, reason, message);
    held["observedGeneration"] = json!(2);
    held
}

fn region(name: &str, clusters: [u32; 4], replicas: [u64; 2]) -> Value {
    let [all, ready, failed, unreachable] = clusters;
    json!({"region": name, "clusters": all, "ready": ready, "failed": failed, "unreachable": unreachable,
        "replicas": replicas[0], "replicasReady": replicas[1]})
}

/// Two regions with an approval between them, east at work.
fn delivering() -> Value {
    json!({
        "observedGeneration": 2, "phase": "runningWorkflow",
        "conditions": [condition("Accepted", "True", "Valid", "")],
        "latestRevision": {"name": "web-v2", "revision": 2, "revisionHash": "h"},
        "workflow": {"appRevision": "web-v2", "generation": 2, "status": "running", "stepIndex": 0,
            "message": "waiting for 2 of 4 clusters", "steps": [
            {"name": "east", "type": "deploy", "phase": "running", "reason": "Wait",
                "message": "waiting for 2 of 4 clusters: east-3 (1/2 ready), east-4 (agent unreachable since 2026-03-01T11:40:00Z)",
                "firstExecuteTime": "2026-03-01T11:58:30Z", "lastExecuteTime": "2026-03-01T11:59:50Z"},
            {"name": "approve", "type": "suspend", "phase": "pending"},
            {"name": "west", "type": "deploy", "phase": "pending"}]},
        "delivery": {"clustersReady": "4/6", "replicasReady": "6/9", "placed": 9, "unplaced": 1,
            "unplacedReasons": ["1 of Deployment web: no rule claims them (the remainder that no rule claims)"],
            "regions": [region("east", [4, 2, 0, 1], [7, 4]), region("west", [2, 2, 0, 0], [2, 2])],
            "notReady": [
                {"cluster": "east-3", "phase": "Progressing", "message": "Deployment web: 1/2 ready"},
                {"cluster": "east-4", "phase": "Unreachable", "message": "agent unreachable since 2026-03-01T11:40:00Z"}]}
    })
}

fn suspended() -> Value {
    let mut status = delivering();
    status["phase"] = json!("workflowSuspending");
    let run = &mut status["workflow"];
    run["status"] = json!("suspending");
    run["suspend"] = json!(true);
    run["message"] = json!("look at the graphs of east");
    run["steps"] = json!([
        {"name": "east", "type": "deploy", "phase": "succeeded", "firstExecuteTime": "2026-03-01T11:50:00Z"},
        {"name": "approve", "type": "suspend", "phase": "suspending", "reason": "Suspend",
            "message": "look at the graphs of east", "firstExecuteTime": "2026-03-01T11:58:00Z"},
        {"name": "west", "type": "deploy", "phase": "pending"}]);
    status["delivery"] = json!({"clustersReady": "4/4", "replicasReady": "7/7", "placed": 7, "unplaced": 0,
        "regions": [region("east", [4, 4, 0, 0], [7, 7])]});
    status
}

fn failed() -> Value {
    let mut status = delivering();
    status["phase"] = json!("workflowFailed");
    let run = &mut status["workflow"];
    run["status"] = json!("failed");
    run["finished"] = json!(true);
    run["terminated"] = json!(true);
    run["message"] = json!(
        "The workflow terminates automatically because the failed times of steps have reached the limit"
    );
    run["steps"] = json!([
        {"name": "east", "type": "deploy", "phase": "failed", "reason": "FailedAfterRetries", "retries": 10,
            "message": "cluster east-3: override 0 names no container", "firstExecuteTime": "2026-03-01T11:50:00Z"},
        {"name": "approve", "type": "suspend", "phase": "skipped", "reason": "Skip"},
        {"name": "west", "type": "deploy", "phase": "skipped", "reason": "Skip"}]);
    status
}

fn delivered() -> Value {
    let mut status = suspended();
    status["phase"] = json!("running");
    status["conditions"] = json!([
        condition("Accepted", "True", "Valid", ""),
        condition("Placed", "True", "Satisfied", ""),
        condition("Delivered", "True", "Ready", "4/4 clusters ready"),
        deletes_held("False", "NothingHeld", "")
    ]);
    let run = &mut status["workflow"];
    run["status"] = json!("succeeded");
    run["suspend"] = json!(false);
    run["finished"] = json!(true);
    run["message"] = Value::Null;
    for step in run["steps"].as_array_mut().unwrap() {
        step["phase"] = json!("succeeded");
        step["message"] = Value::Null;
        step["reason"] = Value::Null;
    }
    status
}

fn held() -> Value {
    let mut status = delivered();
    let message = "2 clusters would lose default/web: west-1, west-2; with what the last hour removed that is 2 of 6, more than 10 %: annotate the application with roundhouse.dev/confirm-deletes=1f6e0c2b9a8d7e54 to confirm";
    status["conditions"][3] = deletes_held("True", "ConfirmationNeeded", message);
    status["heldDeletes"] = json!({"hash": "1f6e0c2b9a8d7e54", "count": 2, "clusters": ["west-1", "west-2"]});
    status
}

fn refused() -> Value {
    json!({"observedGeneration": 2, "phase": "rendering", "conditions": [condition("Accepted", "False", "Invalid",
        "spec.workflow.steps[0].properties.placment: unknown field; did you mean placement?")]})
}

fn text(status: &Value, format: Format) -> String {
    draw(&view(status), format, Style::default(), now())
}

#[test]
fn an_application_on_one_screen() {
    insta::assert_snapshot!("delivering", text(&delivering(), Format::Table));
    insta::assert_snapshot!("delivering-wide", text(&delivering(), Format::Wide));
    insta::assert_snapshot!("delivering-tree", text(&delivering(), Format::Tree));
    insta::assert_snapshot!("suspended", text(&suspended(), Format::Table));
    insta::assert_snapshot!("failed", text(&failed(), Format::Table));
    insta::assert_snapshot!("delivered", text(&delivered(), Format::Table));
    insta::assert_snapshot!("held", text(&held(), Format::Table));
    insta::assert_snapshot!("refused", text(&refused(), Format::Table));
    insta::assert_snapshot!("new", text(&json!({}), Format::Table));
    insta::assert_snapshot!(
        "suspended-json",
        serde_json::to_string_pretty(&view(&suspended()).structured()).unwrap()
    );
}

#[test]
fn the_steps_of_a_group_are_below_it() {
    let mut status = delivering();
    status["workflow"]["steps"] = json!([
        {"name": "both", "type": "step-group", "phase": "running", "reason": "Wait", "firstExecuteTime": "2026-03-01T11:58:30Z", "subSteps": [
            {"name": "east", "type": "deploy", "phase": "succeeded", "firstExecuteTime": "2026-03-01T11:58:30Z"},
            {"name": "west", "type": "deploy", "phase": "running", "reason": "Wait", "message": "waiting for 1 of 2 clusters: west-1 (applying)",
                "firstExecuteTime": "2026-03-01T11:58:30Z"}]},
        {"name": "tell", "type": "notification", "phase": "pending"}]);
    insta::assert_snapshot!("group", text(&status, Format::Table));
    insta::assert_snapshot!("group-tree", text(&status, Format::Tree));
}

#[test]
fn a_run_that_is_suspended_for_a_time_awaits_nobody() {
    let view = |duration: Value| {
        let spec = json!({"components": [{"name": "web", "type": "webservice", "properties": {"image": "nginx"}}],
            "workflow": {"steps": [
                {"name": "east", "type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}},
                {"name": "approve", "type": "suspend", "properties": duration}]}});
        let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "web", "namespace": "default", "generation": 2}, "spec": spec, "status": suspended()});
        StatusView::of(&serde_json::from_value(application).unwrap()).verdict
    };
    let soaks = view(json!({"duration": "15m"}));
    assert_eq!(soaks.state, State::InProgress);
    assert_eq!(
        soaks.why.as_deref(),
        Some("step approve: look at the graphs of east; it goes on by itself at 2026-03-01T12:13:00Z")
    );
    assert_eq!(view(json!({})).state, State::Awaiting);
}

#[test]
fn steps_show_what_people_call_them() {
    let spec = json!({"components": [{"name": "web", "type": "webservice", "properties": {"image": "nginx"}}],
        "workflow": {"steps": [{"name": "both", "type": "step-group", "meta": {"alias": "Both regions"}, "subSteps": [
            {"name": "east", "type": "deploy", "meta": {"alias": "East first"},
                "properties": {"placement": [{"replicas": "100%"}]}}]},
            {"name": "tell", "type": "notification"}]}});
    let step = |name: &str, type_: &str| json!({"name": name, "type": type_, "phase": "pending"});
    let mut both = step("both", "step-group");
    both["subSteps"] = json!([step("east", "deploy")]);
    let status = json!({"observedGeneration": 2, "phase": "runningWorkflow",
        "workflow": {"status": "running", "steps": [both, step("tell", "notification")]}});
    let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "default", "generation": 2}, "spec": spec, "status": status});
    let view = StatusView::of(&serde_json::from_value(application).unwrap());
    let table = draw(&view, Format::Table, Style::default(), now());
    let tree = draw(&view, Format::Tree, Style::default(), now());
    for name in ["both (Both regions)", "east (East first)"] {
        assert!(
            table.contains(name) && tree.contains(name),
            "{name}\n{table}\n{tree}"
        );
    }
    assert!(!table.contains("tell ("), "{table}");
    assert_eq!(view.structured()["aliases"]["east"], "East first");
}

#[test]
fn colours_change_nothing_but_colours() {
    let view = view(&delivering());
    let colored = draw(&view, Format::Tree, Style { color: true }, now());
    let stripped = console::strip_ansi_codes(&colored);
    assert!(colored.contains("\u{1b}["));
    assert_eq!(stripped, text(&delivering(), Format::Tree));
}

#[test]
fn a_list_says_what_it_leaves_out() {
    let mut status = delivering();
    let clusters =
        (0..50).map(|n| json!({"cluster": format!("c{n:02}"), "phase": "Waiting", "message": "m"}));
    status["delivery"]["notReady"] = clusters.collect();
    status["delivery"]["omitted"] = json!(950);
    let table = text(&status, Format::Table);
    assert!(
        table.contains("1000 not ready:") && table.contains("… and 990 more: -o wide"),
        "{table}"
    );
    let wide = text(&status, Format::Wide);
    assert!(wide.contains("… and 950 more: kubectl get bundles -A"), "{wide}");
}

#[test]
fn what_a_cluster_reports_cannot_move_the_cursor() {
    let mut status = delivering();
    status["delivery"]["notReady"][0]["message"] = json!("\u{1b}[2Jgone\r\n");
    for format in [Format::Table, Format::Wide, Format::Tree] {
        let text = text(&status, format);
        assert!(!text.contains('\u{1b}') && !text.contains('\r'), "{text:?}");
    }
}

#[test]
fn scripts_can_tell_the_states_apart() {
    use State::{Awaiting, Done, Failed, InProgress};
    let with = |mut status: Value, changes: &[(&str, Value)]| {
        for (pointer, value) in changes {
            *status.pointer_mut(pointer).unwrap() = value.clone();
        }
        status
    };
    let cases = [
        (delivering(), InProgress, "delivering"),
        (suspended(), Awaiting, "suspended"),
        (failed(), Failed, "failed"),
        (delivered(), Done, "delivered"),
        (held(), Awaiting, "deletes held"),
        (refused(), Failed, "refused"),
        (json!({}), InProgress, "changed"),
        (json!({"observedGeneration": 2}), InProgress, "starting"),
        // Delivered, but of the spec before this one.
        (
            with(delivered(), &[("/observedGeneration", json!(1))]),
            InProgress,
            "changed",
        ),
        (
            with(delivered(), &[("/phase", json!("unhealthy"))]),
            InProgress,
            "unhealthy",
        ),
        (
            with(delivered(), &[("/conditions/1/status", json!("False"))]),
            InProgress,
            "not as placed",
        ),
        (
            with(failed(), &[("/phase", json!("workflowTerminated"))]),
            Failed,
            "terminated",
        ),
        // Asked for, and not taken up yet: what stands there is about to change.
        (
            with(suspended(), &[("/workflow/suspend", json!(false))]),
            InProgress,
            "resuming",
        ),
        (
            with(failed(), &[("/phase", json!("runningWorkflow"))]),
            InProgress,
            "restarting",
        ),
        (
            with(delivered(), &[("/phase", json!("runningWorkflow"))]),
            InProgress,
            "restarting",
        ),
    ];
    // Removals that were judged of an earlier spec, or are not judged yet.
    let of_another = |mut status: Value| {
        status["conditions"][3]["observedGeneration"] = json!(1);
        status
    };
    let unjudged = |mut status: Value| {
        status["conditions"][3] = deletes_held("Unknown", "NotJudged", "");
        status
    };
    let never = with(delivered(), &[("/conditions/3/type", json!("Other"))]);
    let waits = deletes_held("False", "WaitsForClusters", "2 clusters keep default/web");
    let waits = with(delivered(), &[("/conditions/3", waits)]);
    let cases = cases.into_iter().chain([
        (of_another(held()), InProgress, "delivered"),
        (of_another(delivered()), InProgress, "delivered"),
        (unjudged(delivered()), InProgress, "delivered"),
        (never, InProgress, "delivered"),
        (waits, InProgress, "delivered"),
    ]);
    for (status, state, headline) in cases {
        let verdict = view(&status).verdict;
        assert_eq!((verdict.state, verdict.headline), (state, headline), "{status:#}");
    }
    // Approved by name, or other clusters by now than those that somebody approved.
    for (hash, state, headline) in [
        ("1f6e0c2b9a8d7e54", InProgress, "removing"),
        ("0123456789abcdef", Awaiting, "deletes held"),
    ] {
        let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {
            "name": "web", "namespace": "default", "generation": 2,
            "annotations": {"roundhouse.dev/confirm-deletes": hash}}, "status": held()});
        let verdict = StatusView::of(&serde_json::from_value(application).unwrap()).verdict;
        assert_eq!((verdict.state, verdict.headline), (state, headline), "{hash}");
    }
    // Approved where nothing is judged, or where it waits for something: the cause is what somebody has to know.
    let approved = |status: Value| {
        let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application", "metadata": {
            "name": "web", "namespace": "default", "generation": 2,
            "annotations": {"roundhouse.dev/confirm-deletes": "1f6e0c2b9a8d7e54"}}, "status": status});
        let verdict = StatusView::of(&serde_json::from_value(application).unwrap()).verdict;
        (verdict.state, verdict.headline, verdict.why.unwrap_or_default())
    };
    let missing = condition(
        "Placed",
        "False",
        "PlacementMissing",
        "there is no Placement \"regions\"",
    );
    assert_eq!(
        approved(with(held(), &[("/conditions/1", missing)])),
        (
            InProgress,
            "not as placed",
            "PlacementMissing: there is no Placement \"regions\"; until then no removal is judged, whether it is approved or not"
                .to_owned()
        )
    );
    let mut behind = held();
    behind["delivery"]["notReady"] =
        json!([{"cluster": "c1", "phase": "Progressing", "message": "1/2 ready"}]);
    assert_eq!(
        approved(behind),
        (
            InProgress,
            "removing",
            "the removals are approved, and the hub takes that up; not ready yet: cluster c1 (Progressing: 1/2 ready)"
                .to_owned()
        )
    );
    let mut stuck = held();
    stuck["conditions"][2] = condition(
        "Delivered",
        "False",
        "NotWritten",
        "writing Decision web-east failed: exceeded quota",
    );
    stuck["conditions"][2]["observedGeneration"] = json!(2);
    assert_eq!(
        approved(stuck).2,
        "the removals are approved, and wait for this: writing Decision web-east failed: exceeded quota"
    );
    // Of a spec that cannot be recorded there is no run, however the one before ended.
    let mut unrecorded = failed();
    unrecorded["workflow"]["generation"] = json!(1);
    let mut told = condition("Delivered", "False", "NotRecorded", "exceeded quota");
    told["observedGeneration"] = json!(2);
    unrecorded["conditions"].as_array_mut().unwrap().push(told);
    let verdict = view(&unrecorded).verdict;
    assert_eq!((verdict.state, verdict.headline), (InProgress, "changed"));
    assert_eq!(verdict.why.as_deref(), Some("exceeded quota"));
    // A step that nobody has is no restart that is under way.
    for (status, state, headline) in [
        (delivered(), Done, "delivered"),
        (failed(), Failed, "failed"),
        (delivering(), InProgress, "delivering"),
    ] {
        let mut mistaken = status.clone();
        mistaken["workflow"]["restartFrom"] = json!("est");
        let verdict = view(&mistaken).verdict;
        assert_eq!((verdict.state, verdict.headline), (state, headline));
        let why = verdict.why.unwrap_or_default();
        assert!(
            why.starts_with("restartFrom: there is no step named \"est\""),
            "{why}"
        );
        let last = verdict.advice.last().map(String::as_str);
        assert_eq!(last, Some("roundhouse restart web --step with one of its steps"));
        mistaken["workflow"]["restartFrom"] = json!("east");
        assert_eq!(view(&mistaken).verdict.headline, "restarting");
    }
    let mut asked = delivering();
    asked["workflow"]["suspend"] = json!(true);
    assert_eq!(view(&asked).verdict.headline, "suspending");
    let mut asked = delivering();
    asked["workflow"]["terminated"] = json!(true);
    assert_eq!(view(&asked).verdict.headline, "terminating");
    let codes = [Done, InProgress, Failed, Awaiting].map(State::code);
    assert_eq!(codes, [0, 2, 3, 5]);
}

/// A run with these steps that goes on.
fn with_steps(steps: Value) -> Value {
    let mut status = delivering();
    status["workflow"]["steps"] = steps;
    status
}

#[test]
fn a_step_that_failed_for_good_is_not_the_one_at_work() {
    let failed = json!({"name": "east", "type": "deploy", "phase": "failed", "reason": "FailedAfterRetries", "message": "no"});
    let tells = json!({"name": "tell", "type": "request", "phase": "running", "reason": "Wait", "message": "waiting for an answer"});
    let verdict = view(&with_steps(json!([failed, tells]))).verdict;
    assert_eq!(verdict.why.as_deref(), Some("step tell: waiting for an answer"));
}

#[test]
fn a_step_that_is_tried_again_says_so() {
    let status = with_steps(json!([
        {"name": "gone", "type": "deploy", "phase": "failed", "reason": "Timeout", "message": "not done within 60 s"},
        {"name": "tell", "type": "request", "phase": "failed", "reason": "Execute", "message": "503 of hook.example.org",
            "if": "always", "retries": 7, "nextTry": {"at": "2026-03-01T12:00:05Z", "number": 8, "of": 11}}]));
    let verdict = view(&status).verdict;
    assert_eq!(
        verdict.why.as_deref(),
        Some("step tell is tried again, try 8 of 11 at 2026-03-01T12:00:05Z: 503 of hook.example.org")
    );
    assert_eq!(
        verdict.advice.first().map(String::as_str),
        Some("roundhouse restart web --step tell, to try at once when the cause is gone")
    );
    insta::assert_snapshot!("retried", text(&status, Format::Table));
    insta::assert_snapshot!("retried-tree", text(&status, Format::Tree));
}

#[test]
fn a_break_says_why_and_a_person_need_not() {
    let mut status = failed();
    status["phase"] = json!("workflowTerminated");
    status["workflow"]["message"] = json!("ended by step enough: no more today");
    status["workflow"]["steps"] =
        json!([{"name": "enough", "type": "break", "phase": "succeeded", "reason": "Terminate"}]);
    let why = view(&status).verdict.why;
    assert_eq!(why.as_deref(), Some("ended by step enough: no more today"));
    // A step that a person had stopped before it was restarted behind it does not hide that.
    let stopped = json!({"name": "first", "type": "deploy", "phase": "failed", "reason": "Terminate"});
    status["workflow"]["steps"]
        .as_array_mut()
        .unwrap()
        .insert(0, stopped);
    let why = view(&status).verdict.why;
    assert_eq!(why.as_deref(), Some("ended by step enough: no more today"));
    status["workflow"]["message"] = json!("terminated: roundhouse restart web starts it again");
    assert_eq!(view(&status).verdict.why, None);
}

#[test]
fn a_paused_run_awaits_a_person_also_while_a_timer_of_a_step_runs() {
    let spec = json!({"components": [{"name": "web", "type": "webservice", "properties": {"image": "nginx"}}],
        "workflow": {"steps": [
            {"name": "east", "type": "deploy", "properties": {"placement": [{"replicas": "100%"}]}},
            {"name": "approve", "type": "suspend", "properties": {"duration": "15m"}}]}});
    let mut status = suspended();
    status["workflow"]["paused"] = json!(true);
    status["workflow"]["message"] = json!("paused: set status.workflow.suspend to false to go on");
    let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
        "metadata": {"name": "web", "namespace": "default", "generation": 2}, "spec": spec, "status": status});
    let verdict = StatusView::of(&serde_json::from_value(application).unwrap()).verdict;
    assert_eq!(verdict.state, State::Awaiting);
    assert_eq!(
        verdict.why.as_deref(),
        Some("paused: set status.workflow.suspend to false to go on")
    );
}

#[test]
fn removals_that_wait_for_clusters_are_told() {
    let mut status = delivered();
    status["phase"] = json!("unhealthy");
    status["conditions"][3] = deletes_held(
        "False",
        "WaitsForClusters",
        "2 clusters keep default/web until what replaces it runs: c4, c5; waiting for c1",
    );
    status["delivery"]["notReady"] =
        json!([{"cluster": "c1", "phase": "Progressing", "message": "1/2 ready"}]);
    let verdict = view(&status).verdict;
    assert_eq!(verdict.state, State::InProgress);
    assert_eq!(
        verdict.why.as_deref(),
        Some(
            "cluster c1 (Progressing: 1/2 ready); 2 clusters keep default/web until what replaces it runs: c4, c5; waiting for c1"
        )
    );
}

#[test]
fn reasons_and_regions_say_what_they_leave_out() {
    let mut status = delivering();
    status["delivery"]["unplacedOmitted"] = json!(7);
    status["delivery"]["regions"] = json!([
        region("east", [4, 2, 0, 1], [7, 4]),
        region("(other regions)", [9, 9, 0, 0], [9, 9])
    ]);
    status["delivery"]["regionsOmitted"] = json!(3);
    let text = text(&status, Format::Table);
    assert!(
        text.contains("  … and 7 more: roundhouse explain web\n"),
        "{text}"
    );
    assert!(text.contains("\n… and 3 more regions  "), "{text}");
}

/// Objects of steps: one that is applied with a cluster out of reach, one that is being taken away.
fn with_objects() -> Value {
    let mut status = delivering();
    let region = |name: &str, [all, ready, failed, unreachable]: [u32; 4]| json!({"region": name, "clusters": all, "ready": ready, "failed": failed, "unreachable": unreachable});
    status["delivery"]["objects"] = json!([
        {"step": "flags", "type": "apply-object",
            "regions": [region("east", [3, 1, 1, 1]), region("west", [2, 2, 0, 0])],
            "notReady": [
                {"cluster": "east-2", "phase": "Failed", "message": "1/1 objects failed: ConfigMap default/flags: Forbidden: no"},
                {"cluster": "east-4", "phase": "Unreachable", "message": "agent unreachable since 2026-03-01T11:40:00Z"}]},
        {"step": "away", "type": "delete-object", "regions": [region("", [2, 2, 0, 0])]},
    ]);
    status
}

#[test]
fn the_objects_of_steps_are_counted_apart_and_their_clusters_are_named() {
    let drawn = draw(
        &view(&with_objects()),
        Format::Table,
        Style { color: false },
        now(),
    );
    let at = drawn.find("flags  ").unwrap();
    insta::assert_snapshot!("objects", drawn[at..].split("\nwaits:").next().unwrap());
}

#[test]
fn what_only_an_object_is_unhealthy_for_is_named() {
    let mut status = with_objects();
    let delivered = delivered();
    status["workflow"] = delivered["workflow"].clone();
    status["conditions"] = delivered["conditions"].clone();
    status["phase"] = json!("unhealthy");
    status["delivery"]["notReady"] = json!([]);
    status["delivery"]["unplaced"] = json!(0);
    let view = view(&status);
    assert_eq!(
        view.verdict.why.as_deref(),
        Some(
            "step flags: cluster east-2 (Failed: 1/1 objects failed: ConfigMap default/flags: Forbidden: no) and 1 more"
        )
    );
    assert_eq!(
        view.verdict.advice,
        ["kubectl -n cluster-east-2 get bundle default.web.step.flags -o yaml, for what its agent reports"]
    );
}
