//! Whole workflows as users write them: groups, DAG, conditions, times, values.

use super::*;
use crate::action::Outcome;
use roundhouse_api::application::{ActionProperties, validate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

mod taking;

/// A workflow on its way.
struct Flow {
    spec: Spec,
    status: Status,
    evidence: Evidence,
    now: Timestamp,
    effects: Vec<Effect>,
}

fn region(name: &str) -> Value {
    json!({"name": name, "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": name}}]}})
}

fn with(mut step: Value, field: &str, value: Value) -> Value {
    step[field] = value;
    step
}

impl Flow {
    fn new(steps: &Value) -> Flow {
        Flow::of(&json!({"steps": steps}))
    }

    fn of(workflow: &Value) -> Flow {
        let mut workflow = workflow.clone();
        if !workflow.to_string().contains("\"placement\"")
            && !workflow.to_string().contains("apply-component")
        {
            // A workflow has to place something; it is of no interest here.
            let steps = workflow["steps"].as_array_mut().unwrap();
            steps.push(with(region("end"), "if", json!("false")));
        }
        let valid = validate(&json!({
            "components": [{"name": "web", "type": "worker", "properties": {"image": "x"}}],
            "policies": [{"name": "all", "type": "placement", "properties": {"placement": [{}]}}],
            "workflow": workflow,
        }));
        let valid = valid.unwrap_or_else(|violations| panic!("{violations:#?}"));
        Flow {
            spec: Spec::new("app-v2", 2, ("default", "app"), &valid, Limits::default()),
            status: Status::default(),
            evidence: Evidence::default(),
            now: t0(),
            effects: Vec::new(),
        }
    }

    /// Advances until nothing changes any more; each status is stored and read back on the way.
    fn settle(&mut self) -> String {
        for _ in 0..50 {
            let stored = serde_json::to_value(&self.status.workflow).unwrap();
            self.status.workflow = serde_json::from_value(stored).unwrap();
            let (next, effects) = advance(&self.spec, &self.status, &self.evidence, self.now);
            self.effects = effects;
            if next == self.status {
                return self.shown();
            }
            self.status = next;
        }
        panic!("does not settle: {:?}", self.status);
    }

    fn after(&mut self, seconds: i64) -> String {
        self.now += SignedDuration::from_secs(seconds);
        self.settle()
    }

    /// Clusters of a step.
    fn clusters(&mut self, step: &str, states: &[ClusterState]) -> String {
        self.evidence.steps.insert(step.to_owned(), placed(states));
        self.settle()
    }

    fn came(&mut self, step: &str, attempt: u32, outcome: Outcome) -> String {
        let at = self.now;
        let came = ActionEvidence { attempt, at, outcome };
        self.evidence.actions.insert(step.to_owned(), came);
        self.settle()
    }

    fn workflow(&mut self) -> &mut WorkflowStatus {
        self.status.workflow.as_mut().unwrap()
    }

    /// `running east:running(a:succeeded) west:pending`; a reason where it says more than the phase.
    fn shown(&self) -> String {
        fn step(state: &StepStatus) -> String {
            let phase = format!("{:?}", state.phase).to_lowercase();
            let reason = match state.reason {
                None | Some(StepReason::Wait | StepReason::Skip | StepReason::Suspend) => String::new(),
                Some(reason) => format!("/{reason:?}"),
            };
            let inner: Vec<String> = state.sub_steps.iter().map(step).collect();
            let inner = match inner.is_empty() {
                true => String::new(),
                false => format!("({})", inner.join(" ")),
            };
            format!("{}:{phase}{reason}{inner}", state.name)
        }
        let steps = steps(&self.status).iter().filter(|state| state.name != "end");
        let steps: Vec<String> = steps.map(step).collect();
        format!("{:?} {}", self.status.phase.unwrap(), steps.join(" "))
    }

    fn message(&self, step: &str) -> String {
        let state = workflow(&self.status).step(step).unwrap();
        state.message.clone().unwrap_or_default()
    }

    fn acts(&self) -> Vec<(String, u32, ActionProperties)> {
        let acts = self.effects.iter().filter_map(|effect| match effect {
            Effect::Act {
                step,
                attempt,
                action,
            } => Some((step.clone(), *attempt, action.clone())),
            _ => None,
        });
        acts.collect()
    }

    fn wakes(&self) -> Option<u64> {
        self.effects.iter().find_map(|effect| match effect {
            Effect::Wake { after } => Some(after.as_secs()),
            _ => None,
        })
    }
}

use ClusterState::{Applied, Dispatching, Failed, Ready, Unhealthy, Unreachable};

const GROUP: &str = "group";

fn group(steps: &[Value]) -> Value {
    json!({"name": GROUP, "type": "step-group", "subSteps": steps})
}

fn asks(type_: &str, properties: &Value) -> ActionProperties {
    ActionProperties::read(type_, properties).unwrap()
}

#[test]
fn the_steps_of_a_group_run_side_by_side_and_it_is_done_when_all_are() {
    let mut flow = Flow::new(&json!([
        group(&[region("east"), region("west")]),
        region("north")
    ]));
    assert_eq!(
        flow.settle(),
        "RunningWorkflow group:running(east:running west:running) north:pending"
    );
    assert_eq!(
        flow.clusters("west", &[Ready]),
        "RunningWorkflow group:running(east:running west:succeeded) north:pending"
    );
    assert_eq!(
        flow.clusters("east", &[Ready]),
        "RunningWorkflow group:succeeded(east:succeeded west:succeeded) north:running"
    );
    assert_eq!(
        flow.clusters("north", &[Ready]),
        "Running group:succeeded(east:succeeded west:succeeded) north:succeeded"
    );
}

#[test]
fn a_group_step_by_step_and_dependencies_in_it() {
    let steps = [region("a"), region("b")];
    let mut flow = Flow::new(&json!([with(group(&steps), "mode", json!("StepByStep"))]));
    assert_eq!(
        flow.settle(),
        "RunningWorkflow group:running(a:running b:pending)"
    );
    let steps = [
        with(region("a"), "dependsOn", json!(["b"])),
        region("b"),
        region("c"),
    ];
    let mut flow = Flow::new(&json!([group(&steps)]));
    assert_eq!(
        flow.settle(),
        "RunningWorkflow group:running(a:pending b:running c:running)"
    );
    assert_eq!(
        flow.clusters("b", &[Ready]),
        "RunningWorkflow group:running(a:running b:succeeded c:running)"
    );
}

#[test]
fn a_step_with_dependencies_does_not_wait_for_those_listed_before_it() {
    let mut flow = Flow::new(&json!([
        region("a"),
        region("b"),
        with(region("c"), "dependsOn", json!(["a"])),
        region("d"),
    ]));
    assert_eq!(
        flow.settle(),
        "RunningWorkflow a:running b:pending c:pending d:pending"
    );
    assert_eq!(
        flow.clusters("a", &[Ready]),
        "RunningWorkflow a:succeeded b:running c:running d:pending"
    );
    flow.clusters("b", &[Ready]);
    assert_eq!(
        flow.clusters("c", &[Ready]),
        "RunningWorkflow a:succeeded b:succeeded c:succeeded d:running"
    );
}

#[test]
fn a_dag_starts_all_and_skips_what_depends_on_a_failure() {
    let mut flow = Flow::of(&json!({"mode": {"steps": "DAG"}, "steps": [
        region("a"),
        {"name": "fails", "type": "fail", "properties": {"message": "on purpose"}},
        with(region("b"), "dependsOn", json!(["fails"])),
        with(region("c"), "dependsOn", json!(["b"])),
        {"name": "told", "type": "export", "if": "always", "dependsOn": ["c"], "properties": {"value": 1}},
    ]}));
    assert_eq!(
        flow.settle(),
        "RunningWorkflow a:running fails:failed/Action b:skipped c:skipped told:succeeded"
    );
    assert_eq!(flow.message("b"), "step fails failed");
    assert_eq!(flow.message("c"), "step b was skipped");
    assert_eq!(
        flow.clusters("a", &[Ready]),
        "WorkflowFailed a:succeeded fails:failed/Action b:skipped c:skipped told:succeeded"
    );
    assert_eq!(
        workflow(&flow.status).message.as_deref(),
        Some("step fails failed: on purpose")
    );
}

#[test]
fn always_runs_after_a_failure_and_so_does_what_asks_for_it() {
    let mut flow = Flow::new(&json!([
        {"name": "deploy-app", "type": "fail"},
        region("skipped"),
        {"name": "always", "type": "export", "if": "always", "properties": {"value": 1}},
        {"name": "if-failed", "type": "export", "if": "status.deploy-app.failed", "properties": {"value": 1}},
        {"name": "if-not", "type": "export", "if": "!status.deploy-app.failed", "properties": {"value": 1}},
        {"name": "mad", "type": "export", "if": "inputs['context.x'].y", "inputs": [{"from": "context.nothing"}, {"from": "context.x"}],
            "properties": {"value": 1}},
    ]));
    assert_eq!(
        flow.settle(),
        "WorkflowFailed deploy-app:failed/Action skipped:skipped always:succeeded if-failed:succeeded if-not:skipped mad:skipped"
    );
    assert_eq!(
        flow.message("if-not"),
        "if: !status.deploy-app.failed does not hold"
    );
    assert!(
        flow.message("mad").starts_with("if: inputs['context.x'].y: "),
        "{}",
        flow.message("mad")
    );
}

#[test]
fn a_step_that_takes_too_long_fails_and_later_ones_can_tell() {
    let mut flow = Flow::new(&json!([
        with(region("east"), "timeout", json!("90s")),
        {"name": "told", "type": "export", "if": "status.east.timeout", "properties": {"value": "status.east.message"}},
    ]));
    flow.settle();
    assert_eq!(flow.wakes(), Some(1));
    flow.clusters("east", &[Applied]);
    assert_eq!(flow.after(89), "RunningWorkflow east:running told:pending");
    assert_eq!(flow.wakes(), Some(1), "its end comes before the next look");
    assert_eq!(flow.after(1), "WorkflowFailed east:failed/Timeout told:succeeded");
    assert_eq!(
        flow.message("east"),
        "not done within 90 s: waiting for 1 of 1 clusters: c0 (Applied)"
    );
}

#[test]
fn the_time_of_a_group_ends_its_steps() {
    let mut flow = Flow::new(&json!([with(
        group(&[
            region("a"),
            with(region("b"), "dependsOn", json!(["a"])),
            json!({"name": "s", "type": "suspend"})
        ]),
        "timeout",
        json!("10s")
    )]));
    assert_eq!(
        flow.settle(),
        "WorkflowSuspending group:running(a:running b:pending s:suspending)"
    );
    assert_eq!(
        flow.after(10),
        "WorkflowFailed group:failed/Timeout(a:failed/Timeout b:skipped s:failed/Timeout)"
    );
    assert!(!flow.workflow().suspend);
}

#[test]
fn a_suspension_ends_after_its_time_also_beside_others() {
    let mut flow = Flow::new(&json!([
        {"name": "s", "type": "suspend", "properties": {"duration": "1h", "message": "look"}},
        region("east"),
    ]));
    assert_eq!(flow.settle(), "WorkflowSuspending s:suspending east:pending");
    assert_eq!((flow.wakes(), flow.message("s").as_str()), (Some(3600), "look"));
    assert_eq!(flow.after(3599), "WorkflowSuspending s:suspending east:pending");
    assert_eq!(flow.wakes(), Some(1));
    assert_eq!(flow.after(1), "RunningWorkflow s:succeeded east:running");
    // A person is quicker.
    let mut flow = Flow::new(
        &json!([{"name": "s", "type": "suspend", "properties": {"duration": "1h"}}, region("east")]),
    );
    flow.settle();
    assert_eq!(
        workflow(&flow.status).message.as_deref(),
        Some(
            "waiting until 2026-01-01T01:00:00Z or for a person: set status.workflow.suspend to false to go on"
        )
    );
    flow.workflow().suspend = false;
    assert_eq!(flow.settle(), "RunningWorkflow s:succeeded east:running");
    // Steps beside it go on.
    let mut flow = Flow::new(&json!([
        group(&[region("a"), json!({"name": "s", "type": "suspend"})]),
        region("b")
    ]));
    flow.settle();
    assert_eq!(
        flow.clusters("a", &[Ready]),
        "WorkflowSuspending group:running(a:succeeded s:suspending) b:pending"
    );
    flow.workflow().suspend = false;
    assert_eq!(
        flow.settle(),
        "RunningWorkflow group:succeeded(a:succeeded s:succeeded) b:running"
    );
}

#[test]
fn what_began_later_than_now_takes_its_time_from_now_on() {
    let steps = json!([
        group(&[
            json!({"name": "s", "type": "suspend", "properties": {"duration": "1m"}}),
            with(region("b"), "timeout", json!("2m")),
        ]),
        region("c"),
    ]);
    for (back, left) in [(3600, 60), (11, 60), (9, 69), (0, 60)] {
        let mut flow = Flow::new(&steps);
        let suspends = "WorkflowSuspending group:running(s:suspending b:running) c:pending";
        assert_eq!(flow.settle(), suspends);
        flow.now = t0() - SignedDuration::from_secs(back);
        assert_eq!(flow.settle(), suspends);
        // The same moment once more changes nothing.
        let before = flow.status.clone();
        assert_eq!(flow.settle(), suspends);
        assert_eq!(flow.status, before);
        assert_eq!(flow.after(left - 1), suspends, "back by {back} s");
        assert_eq!(
            flow.after(1),
            "RunningWorkflow group:running(s:succeeded b:running) c:pending",
            "back by {back} s"
        );
        assert_eq!(
            flow.after(60),
            "WorkflowFailed group:failed/Timeout(s:succeeded b:failed/Timeout) c:skipped"
        );
    }
}

#[test]
fn a_person_pauses_all_steps_and_their_time_goes_on() {
    let mut flow = Flow::new(&json!([group(&[
        region("a"),
        with(region("b"), "timeout", json!("1m")),
    ])]));
    flow.settle();
    flow.workflow().suspend = true;
    assert_eq!(
        flow.settle(),
        "WorkflowSuspending group:running(a:suspending b:suspending)"
    );
    assert_eq!(
        flow.clusters("a", &[Ready]),
        "WorkflowSuspending group:running(a:suspending b:suspending)"
    );
    assert_eq!(
        flow.after(60),
        "WorkflowSuspending group:running(a:suspending b:failed/Timeout)"
    );
    flow.workflow().suspend = false;
    assert_eq!(
        flow.settle(),
        "WorkflowFailed group:failed/Timeout(a:succeeded b:failed/Timeout)"
    );
}

#[test]
fn terminate_ends_groups_too() {
    let mut flow = Flow::new(&json!([
        region("x"),
        group(&[region("a"), with(region("b"), "dependsOn", json!(["a"]))]),
        region("y")
    ]));
    flow.clusters("x", &[Ready]);
    flow.workflow().terminated = true;
    assert_eq!(
        flow.settle(),
        "WorkflowTerminated x:succeeded group:failed/Terminate(a:failed/Terminate b:skipped) y:skipped"
    );
    let message = flow.workflow().message.clone().unwrap();
    assert!(
        message.starts_with("terminated: roundhouse restart "),
        "{message}"
    );
}

/// While a spec is refused, by its team say, its phase is that of a refusal, whatever became of its run before.
#[test]
fn what_was_refused_and_is_accepted_again_stands_where_its_run_has_ended() {
    let failed = {
        let mut flow = Flow::new(&json!([with(region("a"), "timeout", json!("1m"))]));
        flow.settle();
        flow.after(60);
        flow
    };
    let terminated = {
        let mut flow = Flow::new(&json!([region("a")]));
        flow.settle();
        flow.workflow().terminated = true;
        flow.settle();
        flow
    };
    let ended = {
        let mut flow = Flow::new(&json!([{"name": "enough", "type": "break"}]));
        flow.settle();
        flow
    };
    let delivered = {
        let mut flow = Flow::new(&json!([region("a")]));
        flow.clusters("a", &[Ready]);
        flow.settle();
        flow
    };
    // A step that a person has stopped once, in a run that was started again behind it.
    let mut again = Flow::new(&json!([region("a"), region("b")]));
    again.settle();
    again.workflow().terminated = true;
    again.settle();
    again.workflow().restart_from = Some("b".to_owned());
    again.settle();
    for (mut flow, phase) in [
        (again, ApplicationPhase::WorkflowFailed),
        (failed, ApplicationPhase::WorkflowFailed),
        (terminated, ApplicationPhase::WorkflowTerminated),
        (ended, ApplicationPhase::WorkflowTerminated),
        (delivered, ApplicationPhase::Running),
    ] {
        let (before, stood) = (flow.status.phase, flow.settle());
        assert_eq!(before, Some(phase), "{stood}");
        flow.status.phase = Some(ApplicationPhase::Rendering);
        assert_eq!(flow.settle(), stood);
    }
}

#[test]
fn break_ends_the_run_and_fail_fails_it() {
    let mut flow = Flow::new(&json!([
        {"name": "enough", "type": "break", "properties": {"message": "no more today"}},
        region("skipped"),
        {"name": "always", "type": "export", "if": "always", "properties": {"value": 1}},
    ]));
    assert_eq!(
        flow.settle(),
        "WorkflowTerminated enough:succeeded/Terminate skipped:skipped always:succeeded"
    );
    assert_eq!(
        workflow(&flow.status).message.as_deref(),
        Some("ended by step enough: no more today")
    );
    assert_eq!(flow.message("skipped"), "the workflow was ended by step enough");
}

#[test]
fn a_request_is_asked_for_until_its_outcome_is_there_and_picks_the_next_step() {
    for (code, expected) in [
        (
            200,
            "RunningWorkflow request:succeeded handle-200:running handle-400:pending",
        ),
        (
            400,
            "WorkflowFailed request:succeeded handle-200:skipped handle-400:failed/Action",
        ),
        (
            500,
            "Running request:succeeded handle-200:skipped handle-400:skipped",
        ),
    ] {
        let mut flow = Flow::new(&json!([
            {"name": "request", "type": "webhook", "properties": {"url": "https://x"}},
            with(with(region("east"), "name", json!("handle-200")), "if", json!("request.output.responseCode == 200")),
            {"name": "handle-400", "type": "fail", "if": "request.output.responseCode == 400"},
        ]));
        assert_eq!(
            flow.settle(),
            "RunningWorkflow request:running handle-200:pending handle-400:pending"
        );
        let asked = [(
            "request".to_owned(),
            1,
            asks("webhook", &json!({"url": "https://x"})),
        )];
        assert_eq!(flow.acts(), asked);
        flow.after(3600);
        assert_eq!(flow.acts(), asked, "the same execution");
        // What came of another one is no evidence.
        let output = json!({"responseCode": code, "body": "x".repeat(100_000)});
        flow.came(
            "request",
            2,
            Outcome::Done {
                output: output.clone(),
            },
        );
        assert_eq!(flow.acts(), asked);
        assert_eq!(flow.came("request", 1, Outcome::Done { output }), expected);
        let state = workflow(&flow.status).step("request").unwrap();
        assert_eq!(
            state.output,
            Some(json!({"responseCode": code})),
            "only what is named is kept"
        );
    }
}

#[test]
fn an_execution_that_fails_is_repeated_ten_times_with_a_number_of_its_own() {
    let mut flow = Flow::new(&json!([
        {"name": "ask", "type": "request", "properties": {"url": "https://x"}},
        {"name": "told", "type": "export", "if": "ask.output.responseCode == 503", "properties": {"value": 1}},
    ]));
    flow.settle();
    let mut waits = Vec::new();
    for attempt in 1..=11 {
        assert_eq!(flow.acts().first().map(|act| act.1), Some(attempt));
        let failed = Outcome::Failed {
            message: "503 Service Unavailable".to_owned(),
            output: Some(json!({"responseCode": 503})),
        };
        flow.came("ask", attempt, failed);
        if let Some(wait) = flow.wakes() {
            waits.push(wait);
            assert_eq!(flow.acts(), [], "not before its time");
            flow.after(i64::try_from(wait).unwrap());
        }
    }
    assert_eq!(waits, [1, 1, 1, 1, 1, 1, 3, 6, 12, 25]);
    assert_eq!(
        flow.shown(),
        "WorkflowFailed ask:failed/FailedAfterRetries told:succeeded"
    );
    assert_eq!(
        workflow(&flow.status).message.as_deref(),
        Some(TERMINATED_BY_FAILURE)
    );
    assert_eq!(flow.message("ask"), "503 Service Unavailable");
}

#[test]
fn what_is_not_done_yet_is_looked_at_again() {
    let mut flow = Flow::new(&json!([
        {"name": "read", "type": "read-object", "properties": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"},
            "outputs": [{"name": "url", "valueFrom": "output.data.url"}]},
        {"name": "tell", "type": "request", "inputs": [{"from": "url", "parameterKey": "url"},
            {"from": "context.appName", "parameterKey": "headers[\"x-app\"]"}], "properties": {"method": "POST"}},
    ]));
    flow.settle();
    flow.came(
        "read",
        1,
        Outcome::Waiting {
            message: "no such ConfigMap".to_owned(),
        },
    );
    assert_eq!(
        (flow.message("read").as_str(), flow.wakes()),
        ("no such ConfigMap", Some(1))
    );
    flow.after(1);
    assert_eq!(flow.acts()[0].1, 2);
    assert_eq!(
        flow.came(
            "read",
            2,
            Outcome::Done {
                output: json!({"data": {"url": "https://y"}})
            }
        ),
        "RunningWorkflow read:succeeded tell:running"
    );
    let expected = json!({"method": "POST", "url": "https://y", "headers": {"x-app": "app"}});
    assert_eq!(flow.acts(), [("tell".to_owned(), 1, asks("request", &expected))]);
}

#[test]
fn an_output_that_is_not_there_fails_its_step_and_an_input_that_is_missing_the_one_that_takes_it() {
    let read = json!({"name": "read", "type": "read-object", "properties": {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"},
        "outputs": [{"name": "url", "valueFrom": "output.data.url"}]});
    let take = json!({"name": "take", "type": "request", "if": "always", "properties": {},
        "inputs": [{"from": "url", "parameterKey": "url"}]});
    let mut flow = Flow::new(&json!([read, take]));
    flow.settle();
    assert_eq!(
        flow.came(
            "read",
            1,
            Outcome::Done {
                output: json!({"data": {}})
            }
        ),
        "WorkflowFailed read:failed/Output take:failed/Input"
    );
    assert!(
        flow.message("read")
            .starts_with("output \"url\": output.data.url: "),
        "{}",
        flow.message("read")
    );
    assert_eq!(
        flow.message("take"),
        "input from \"url\": there is no output \"url\": step read failed"
    );
    // What is refused once its inputs are in.
    let mut flow = Flow::new(&json!([
        {"name": "give", "type": "export", "properties": {"value": 7}, "outputs": [{"name": "seven", "valueFrom": "output"}]},
        {"name": "take", "type": "request", "properties": {"url": "x"}, "inputs": [{"from": "seven", "parameterKey": "url.x"}]},
    ]));
    assert_eq!(flow.settle(), "WorkflowFailed give:succeeded take:failed/Input");
    assert!(
        flow.message("take").contains("cannot be put in: url.x"),
        "{}",
        flow.message("take")
    );
}

#[test]
fn values_are_bounded_by_name() {
    let mut flow = Flow::new(&json!([
        {"name": "small", "type": "export", "properties": {"value": "y".repeat(1000)}, "outputs": [{"name": "s", "valueFrom": "output"}]},
        {"name": "big", "type": "export", "properties": {"value": "x".repeat(70_000)}, "outputs": [{"name": "b", "valueFrom": "output"}]},
        region("east"),
    ]));
    assert_eq!(
        flow.settle(),
        "WorkflowFailed small:succeeded big:failed/Output east:skipped"
    );
    assert_eq!(
        flow.message("big"),
        "the values of this run weigh 71004 bytes, more than 65536: 70002 of step big, 1002 of step small; give only what \
         other steps need"
    );
    assert!(workflow(&flow.status).step("big").unwrap().values.is_empty());
}

#[test]
fn a_step_waits_for_a_part_of_its_clusters_when_all_is_dispatched() {
    let wait = |until: Value| {
        let mut step = region("east");
        step["properties"]["wait"] = json!({"until": until});
        Flow::new(&json!([step]))
    };
    let mut flow = wait(json!({"ready": "75%"}));
    flow.clusters("east", &[Ready, Ready, Applied, Failed]);
    assert_eq!(
        flow.message("east"),
        "waiting until 75% of the clusters are ready: 2 of 4 are; waiting for 2 of 4 clusters: c2 (Applied), c3 (Failed)"
    );
    assert_eq!(
        flow.clusters("east", &[Ready, Ready, Ready, Dispatching]),
        "RunningWorkflow east:running"
    );
    assert_eq!(
        flow.clusters("east", &[]),
        "RunningWorkflow east:running",
        "of no clusters none is ready"
    );
    assert_eq!(
        flow.clusters("east", &[Ready, Ready, Ready, Failed]),
        "Unhealthy east:succeeded"
    );
    let mut flow = wait(json!("fleet.ready >= 2 && fleet.unreachable < 2"));
    assert_eq!(
        flow.clusters("east", &[Ready, Ready, Unreachable, Unreachable]),
        "RunningWorkflow east:running"
    );
    assert_eq!(
        flow.clusters("east", &[Ready, Ready, Unreachable, Applied]),
        "Unhealthy east:succeeded"
    );
    let mut flow = wait(json!("fleet.red >= 2"));
    assert_eq!(
        flow.clusters("east", &[Ready]),
        "RunningWorkflow east:failed/Execute"
    );
    assert!(
        flow.message("east").starts_with("until: fleet.red >= 2: "),
        "{}",
        flow.message("east")
    );
}

#[test]
fn a_wait_step_looks_at_the_clusters_of_the_steps_before_it() {
    let mut deploy = region("east");
    deploy["properties"]["wait"] = json!("none");
    let mut flow = Flow::new(&json!([
        deploy,
        {"name": "w", "type": "wait", "properties": {"until": {"ready": "100%"}}},
        {"name": "s", "type": "suspend"},
    ]));
    assert_eq!(
        flow.clusters("east", &[Applied, Ready]),
        "RunningWorkflow east:succeeded w:running s:pending"
    );
    assert_eq!(
        flow.message("w"),
        "waiting until 100% of the clusters are ready: 1 of 2 are"
    );
    assert_eq!(
        flow.clusters("east", &[Ready, Ready]),
        "WorkflowSuspending east:succeeded w:succeeded s:suspending"
    );
}

#[test]
fn only_more_failed_clusters_than_allowed_fail_a_step() {
    let mut step = region("east");
    step["properties"]["maxFailedClusters"] = json!(1);
    let mut flow = Flow::new(&json!([step, region("west")]));
    assert_eq!(
        flow.clusters("east", &[Ready, Failed, Unreachable]),
        "RunningWorkflow east:running west:pending"
    );
    assert_eq!(
        flow.clusters("east", &[Ready, Failed, Failed, Unreachable]),
        "WorkflowFailed east:failed/Action west:skipped"
    );
    assert_eq!(
        flow.message("east"),
        "2 clusters failed, more than maxFailedClusters 1: c1 (Failed), c2 (Failed)"
    );
}

#[test]
fn restart_from_a_step_runs_it_and_what_depends_on_it() {
    let mut flow = Flow::new(&json!([
        {"name": "ask", "type": "request", "properties": {"url": "https://x"}, "outputs": [{"name": "code", "valueFrom": "output.code"}]},
        group(&[region("a"), with(region("b"), "dependsOn", json!(["a"])), region("c")]),
        {"name": "f", "type": "fail", "if": "inputs.code == 1", "inputs": [{"from": "code"}]},
    ]));
    flow.settle();
    flow.came(
        "ask",
        1,
        Outcome::Done {
            output: json!({"code": 1}),
        },
    );
    for step in ["a", "b", "c"] {
        flow.clusters(step, &[Ready]);
    }
    let ended =
        "WorkflowFailed ask:succeeded group:succeeded(a:succeeded b:succeeded c:succeeded) f:failed/Action";
    assert_eq!(flow.shown(), ended);
    let run = flow.workflow().run;
    // A step of a group, and what comes behind.
    flow.evidence.steps.clear();
    flow.workflow().restart_from = Some("a".to_owned());
    assert_eq!(
        flow.settle(),
        "RunningWorkflow ask:succeeded group:running(a:running b:pending c:succeeded) f:pending"
    );
    assert_eq!(flow.workflow().restart_from, None);
    assert_ne!(flow.workflow().run, run, "executions count anew");
    flow.clusters("a", &[Ready]);
    assert_eq!(flow.clusters("b", &[Ready]), ended);
    // The first one: all of it, its values too.
    flow.workflow().restart_from = Some("ask".to_owned());
    flow.evidence = Evidence::default();
    assert_eq!(
        flow.settle(),
        "RunningWorkflow ask:running group:pending(a:pending b:pending c:pending) f:pending"
    );
    assert!(workflow(&flow.status).step("ask").unwrap().values.is_empty());
    // Nobody has that name.
    let mut flow = Flow::new(&json!([{"name": "f", "type": "fail"}, region("east")]));
    flow.settle();
    flow.workflow().restart_from = Some("g".to_owned());
    assert_eq!(flow.settle(), "WorkflowFailed f:failed/Action east:skipped");
    assert_eq!(
        flow.workflow().message.as_deref(),
        Some("restartFrom: there is no step named \"g\"; step f failed: the step is there to fail")
    );
    // It stays said, and is no answer to what else is asked.
    assert_eq!(flow.settle(), "WorkflowFailed f:failed/Action east:skipped");
    assert!(
        flow.workflow()
            .message
            .as_deref()
            .unwrap_or_default()
            .starts_with("restartFrom")
    );
    // Taken away, it is said no more, whatever somebody had called it and however the run had ended.
    for name in ["g", "\"; \\", "", &"é".repeat(2000)] {
        flow.workflow().restart_from = Some(name.to_owned());
        flow.settle();
        let said = flow.workflow().message.clone().unwrap_or_default();
        assert!(said.starts_with("restartFrom: there is no step named"), "{said}");
        flow.workflow().restart_from = None;
        assert_eq!(flow.settle(), "WorkflowFailed f:failed/Action east:skipped");
        assert_eq!(
            flow.workflow().message.as_deref(),
            Some("step f failed: the step is there to fail")
        );
    }
    let mut delivered = Flow::new(&json!([region("east")]));
    delivered.clusters("east", &[Ready]);
    delivered.workflow().restart_from = Some("g".to_owned());
    assert_eq!(delivered.settle(), "Running east:succeeded");
    assert!(delivered.workflow().message.is_some());
    delivered.workflow().restart_from = None;
    assert_eq!(delivered.settle(), "Running east:succeeded");
    assert_eq!(delivered.workflow().message, None);
    let mut flow = Flow::new(&json!([region("east"), region("west")]));
    flow.settle();
    flow.workflow().suspend = true;
    flow.settle();
    flow.workflow().restart_from = Some("g".to_owned());
    let paused = "WorkflowSuspending east:suspending west:pending";
    assert_eq!(flow.settle(), paused, "a paused run stays paused");
    assert_eq!(
        flow.workflow().message.as_deref(),
        Some(
            "restartFrom: there is no step named \"g\"; paused: set status.workflow.suspend to false to go on"
        )
    );
    flow.workflow().restart_from = None;
    assert_eq!(flow.settle(), paused);
}

#[test]
fn a_step_in_a_group_is_started_again_only_where_the_group_may_start() {
    let steps = json!([region("east"), {"name": "approve", "type": "suspend"},
        {"name": "g", "type": "step-group", "subSteps": [region("west")]}]);
    let mut flow = Flow::new(&steps);
    flow.settle();
    // The run goes on: its turn has not come.
    flow.workflow().restart_from = Some("west".to_owned());
    assert_eq!(
        flow.settle(),
        "RunningWorkflow east:running approve:pending g:pending(west:pending)"
    );
    assert_eq!(flow.workflow().restart_from, None);
    // It was terminated before the approval.
    flow.workflow().terminated = true;
    flow.settle();
    flow.workflow().restart_from = Some("west".to_owned());
    assert_eq!(
        flow.settle(),
        "WorkflowFailed east:failed/Terminate approve:skipped g:skipped(west:skipped)"
    );
    // The group is there for a failure that has not happened.
    let mut flow = Flow::new(&json!([region("east"),
        {"name": "g", "type": "step-group", "if": "status.east.failed", "subSteps": [region("west")]}]));
    flow.clusters("east", &[Ready]);
    flow.workflow().restart_from = Some("west".to_owned());
    assert_eq!(flow.settle(), "Running east:succeeded g:skipped(west:skipped)");
}

#[test]
fn a_wait_that_names_no_steps_waits_for_all_that_place() {
    let mut west = region("west");
    west["dependsOn"] = json!(["east"]);
    let mut after = region("after");
    after["dependsOn"] = json!(["w"]);
    let wait = json!({"name": "w", "type": "wait", "properties": {"until": {"ready": "100%"}}});
    let mut flow = Flow::of(&json!({"mode": {"steps": "DAG"}, "steps": [wait, region("east"), west, after]}));
    assert_eq!(
        flow.clusters("east", &[Ready]),
        "RunningWorkflow w:pending east:succeeded west:running after:pending"
    );
    assert_eq!(
        flow.clusters("west", &[Ready]),
        "RunningWorkflow w:succeeded east:succeeded west:succeeded after:running"
    );
}

#[test]
fn a_clock_that_jumped_back_holds_nothing_up() {
    let mut flow =
        Flow::new(&json!([{"name": "ask", "type": "request", "properties": {"url": "https://x"}}]));
    let acts = |flow: &Flow, number| {
        let is_it = |effect: &Effect| matches!(effect, Effect::Act { attempt, .. } if *attempt == number);
        flow.effects.iter().any(is_it)
    };
    flow.settle();
    flow.came("ask", 1, Outcome::failed("503"));
    assert!(!acts(&flow, 2));
    flow.after(-3600);
    assert!(acts(&flow, 2));
    let mut flow = Flow::new(&json!([region("east")]));
    flow.settle();
    flow.evidence.steps.insert("east".to_owned(), refused());
    flow.settle();
    let tries = |flow: &mut Flow| flow.workflow().steps[0].retries;
    assert_eq!(tries(&mut flow), Some(1));
    flow.after(-3600);
    assert_eq!(tries(&mut flow), Some(2));
}

#[test]
fn a_step_that_asks_for_approval_dispatches_nothing_before() {
    let ask = |name: &str| {
        let mut step = with(region(name), "timeout", json!("1h"));
        step["properties"]["auto"] = json!(false);
        step
    };
    let mut flow = Flow::new(&json!([region("east"), ask("west")]));
    flow.clusters("west", &[Ready]);
    assert_eq!(
        flow.clusters("east", &[Ready]),
        "WorkflowSuspending east:succeeded west:suspending"
    );
    assert_eq!(
        flow.message("west"),
        "waiting for approval before it dispatches (auto: false)"
    );
    assert_eq!(
        reach(&flow.spec, flow.status.workflow.as_ref()),
        [Some(Reach::Placed), Some(Reach::Unreached)]
    );
    // Its time does not run, and a pause is no approval.
    assert_eq!(
        flow.after(7200),
        "WorkflowSuspending east:succeeded west:suspending"
    );
    flow.workflow().paused = true;
    flow.settle();
    flow.workflow().suspend = false;
    assert_eq!(flow.settle(), "WorkflowSuspending east:succeeded west:suspending");
    assert!(!workflow(&flow.status).paused);
    flow.workflow().suspend = false;
    // What was gathered before the approval is no evidence of it.
    let (next, effects) = advance(&flow.spec, &flow.status, &flow.evidence, flow.now);
    assert!(
        effects.contains(&Effect::Dispatch {
            step: "west".to_owned()
        }),
        "{effects:?}"
    );
    flow.status = next;
    assert_eq!(flow.shown(), "RunningWorkflow east:succeeded west:running");
    flow.evidence.steps.remove("west");
    assert_eq!(flow.settle(), "RunningWorkflow east:succeeded west:running");
    assert_eq!(
        flow.after(3600),
        "WorkflowFailed east:succeeded west:failed/Timeout"
    );
    // Paused before its turn, it asks when that comes.
    let mut flow = Flow::new(&json!([region("east"), ask("west")]));
    flow.settle();
    flow.workflow().suspend = true;
    flow.settle();
    flow.workflow().suspend = false;
    flow.settle();
    assert_eq!(
        flow.clusters("east", &[Ready]),
        "WorkflowSuspending east:succeeded west:suspending"
    );
    flow.workflow().suspend = false;
    flow.settle();
    assert_eq!(
        flow.clusters("west", &[Ready]),
        "Running east:succeeded west:succeeded"
    );
}

#[test]
fn times_are_kept_to_the_millisecond() {
    let late = |flow: &mut Flow, milliseconds: i64| {
        flow.now += SignedDuration::from_millis(milliseconds);
        flow.settle()
    };
    let mut flow = Flow::new(&json!([
        {"name": "brief", "type": "request", "timeout": "700ms", "properties": {"url": "https://x"}},
        {"name": "nap", "type": "suspend", "if": "always", "properties": {"duration": "1500ms"}},
    ]));
    flow.now += SignedDuration::from_millis(900);
    assert_eq!(flow.settle(), "RunningWorkflow brief:running nap:pending");
    assert_eq!(late(&mut flow, 699), "RunningWorkflow brief:running nap:pending");
    assert_eq!(
        late(&mut flow, 1),
        "WorkflowSuspending brief:failed/Timeout nap:suspending"
    );
    assert_eq!(
        late(&mut flow, 1499),
        "WorkflowSuspending brief:failed/Timeout nap:suspending"
    );
    assert_eq!(
        late(&mut flow, 1),
        "WorkflowFailed brief:failed/Timeout nap:succeeded"
    );
}

#[test]
fn a_wait_for_steps_that_were_all_passed_over_is_passed_over() {
    let wait = |steps: Value| json!({"name": "wait", "type": "wait", "properties": {"until": {"ready": 1}, "steps": steps}});
    let skipped = |name| with(region(name), "if", json!("false"));
    for (steps, says) in [
        (json!(["west"]), "step west was skipped"),
        (json!(["west", "east"]), "steps west, east were skipped"),
        (json!([]), "steps east, west were skipped"),
    ] {
        let mut wait = wait(steps);
        if wait["properties"]["steps"] == json!([]) {
            wait["properties"].as_object_mut().unwrap().remove("steps");
        }
        let mut flow = Flow::new(&json!([skipped("east"), skipped("west"), wait]));
        // What an earlier run placed there is not of this one.
        assert_eq!(
            flow.clusters("east", &[Ready]),
            "Running east:skipped west:skipped wait:skipped"
        );
        assert_eq!(flow.message("wait"), says);
    }
    // One of them is enough to wait for.
    let mut flow = Flow::new(&json!([
        region("east"),
        skipped("west"),
        wait(json!(["east", "west"]))
    ]));
    flow.clusters("east", &[Ready]);
    assert_eq!(flow.shown(), "Running east:succeeded west:skipped wait:succeeded");
}

#[test]
fn who_waits_until_all_is_applied_does_not_ask_how_it_fares() {
    let step = |wait: &str| {
        let mut step = region("east");
        step["properties"]["wait"] = json!(wait);
        step["properties"]["maxFailedClusters"] = json!(0);
        Flow::new(&json!([step]))
    };
    let applied = [Unhealthy, Applied, Ready];
    assert_eq!(
        step("applied").clusters("east", &applied),
        "Unhealthy east:succeeded"
    );
    assert_eq!(
        step("applied").clusters("east", &[Unhealthy, Failed]),
        "WorkflowFailed east:failed/Action"
    );
    assert_eq!(
        step("ready").clusters("east", &applied),
        "WorkflowFailed east:failed/Action"
    );
    let mut counting = region("east");
    counting["properties"]["wait"] = json!({"until": "fleet.applied == 3 && fleet.failed == 1"});
    assert_eq!(
        Flow::new(&json!([counting])).clusters("east", &applied),
        "Unhealthy east:succeeded"
    );
}

#[test]
fn a_rollback_goes_to_the_last_revision_that_was_delivered_whole() {
    let rollback = |to: Option<&str>| {
        let mut flow = Flow::new(
            &json!([{"name": "back", "type": "rollback", "properties": {"to": to}}, region("east")]),
        );
        flow.evidence.delivered = Some("app-v1".to_owned());
        flow.evidence.revisions = ["app-v1", "app-v2"].map(str::to_owned).into();
        flow
    };
    let mut flow = rollback(None);
    assert_eq!(flow.settle(), "RunningWorkflow back:running east:pending");
    let goes_back = |flow: &Flow, attempt| {
        flow.effects.contains(&Effect::RollBack {
            step: "back".to_owned(),
            attempt,
            revision: "app-v1".to_owned(),
        })
    };
    assert!(goes_back(&flow, 1), "{:?}", flow.effects);
    // A refusal counts as one of any other step, and is said.
    for attempt in 1..=11 {
        flow.came("back", attempt, Outcome::failed("replicas: too many"));
        assert!(!goes_back(&flow, attempt + 1), "not before its time");
        assert_eq!(flow.message("back"), "replicas: too many");
        flow.after(60);
        assert_eq!(goes_back(&flow, attempt + 1), attempt <= 10);
    }
    assert_eq!(
        flow.settle(),
        "WorkflowFailed back:failed/FailedAfterRetries east:skipped"
    );
    for (to, delivered, says) in [
        (None, None, "no revision was delivered whole yet"),
        (
            Some("app-v2"),
            Some("app-v1"),
            "is the one that is being delivered",
        ),
        (Some("app-v7"), Some("app-v1"), "there is no revision app-v7"),
    ] {
        let mut flow = rollback(to);
        flow.evidence.delivered = delivered.map(str::to_owned);
        assert_eq!(flow.settle(), "WorkflowFailed back:failed/Action east:skipped");
        assert!(flow.message("back").contains(says), "{}", flow.message("back"));
    }
}

#[test]
fn a_value_of_a_component_is_waited_for_and_put_into_another() {
    let mut flow = Flow::new(&json!([
        {"name": "db", "type": "apply-component", "outputs": [{"name": "connSecret", "valueFrom": "output.status.connSecret"}],
            "properties": {"name": "web"}},
        {"name": "app", "type": "apply-component", "inputs": [{"from": "connSecret", "parameterKey": "patch.valueFrom.field"}],
            "properties": {"name": "web", "patch": {"to": {"field": "spec.containers[0].name"}}}},
    ]));
    assert_eq!(
        flow.clusters("db", &[Ready, Ready]),
        "RunningWorkflow db:running app:pending"
    );
    assert_eq!(
        flow.message("db"),
        "waiting for output \"connSecret\": no cluster has reported"
    );
    for (evidence, message) in [
        (
            OutputEvidence::Missing {
                clusters: vec!["c1".to_owned()],
            },
            "waiting for output \"connSecret\": no value from c1",
        ),
        (
            OutputEvidence::Differs {
                one: "c0".to_owned(),
                other: "c1".to_owned(),
            },
            "waiting for output \"connSecret\": clusters c0 and c1 report different values, and they have to agree",
        ),
    ] {
        flow.evidence.outputs.insert("connSecret".to_owned(), evidence);
        flow.settle();
        assert_eq!(flow.message("db"), message);
    }
    let agreed = OutputEvidence::Agreed(json!("secret-1"));
    flow.evidence.outputs.insert("connSecret".to_owned(), agreed);
    assert_eq!(flow.settle(), "RunningWorkflow db:succeeded app:running");
    let resolved = patches(&flow.spec, flow.status.workflow.as_ref());
    assert_eq!(resolved.keys().collect::<Vec<_>>(), ["app"]);
    let ResolvedChange::Field(field, value) = &resolved["app"][0].change else {
        panic!("{resolved:?}");
    };
    assert_eq!(
        (field.as_str(), value),
        ("spec.containers[0].name", &json!("secret-1"))
    );
    // What the cluster says later changes nothing that was settled.
    let other = OutputEvidence::Agreed(json!("secret-2"));
    flow.evidence.outputs.insert("connSecret".to_owned(), other);
    flow.settle();
    assert_eq!(patches(&flow.spec, flow.status.workflow.as_ref()), resolved);
}

#[test]
fn an_exported_patch_is_for_the_steps_behind_it() {
    let mut flow = Flow::new(&json!([
        region("east"),
        {"name": "set", "type": "export", "properties": {"type": "patch", "component": "web", "value": {"spec": {"paused": true}}}},
        region("west"),
        with(region("south"), "dependsOn", json!(["east"])),
    ]));
    flow.clusters("east", &[Ready]);
    let resolved = patches(&flow.spec, flow.status.workflow.as_ref());
    let keys: BTreeMap<_, _> = resolved
        .iter()
        .map(|(step, patches)| (step.as_str(), patches.len()))
        .collect();
    assert_eq!(keys, BTreeMap::from([("west", 1)]));
    assert_eq!(
        resolved["west"][0].change,
        ResolvedChange::Merge(json!({"spec": {"paused": true}}))
    );
}

#[test]
fn the_samples_are_understood() {
    for (name, text) in [
        (
            "regions-together",
            include_str!("../../../../e2e/samples/workflows/regions-together.yaml"),
        ),
        (
            "response",
            include_str!("../../../../e2e/samples/workflows/response.yaml"),
        ),
        (
            "database",
            include_str!("../../../../e2e/samples/workflows/database.yaml"),
        ),
        (
            "flags",
            include_str!("../../../../e2e/samples/workflows/flags.yaml"),
        ),
    ] {
        let sample: Value = serde_saphyr::from_str(text).unwrap();
        let valid = validate(&sample["spec"]).unwrap_or_else(|violations| panic!("{name}: {violations:#?}"));
        let spec = Spec::new("r", 1, ("default", "app"), &valid, Limits::default());
        let (status, _) = advance(&spec, &Status::default(), &Evidence::default(), t0());
        assert_eq!(status.phase, Some(ApplicationPhase::RunningWorkflow), "{name}");
    }
}

#[test]
fn a_persons_pause_stops_a_suspensions_timer_until_it_is_resumed() {
    let mut flow = Flow::new(&json!([
        {"name": "s", "type": "suspend", "properties": {"duration": "8s"}},
        region("a"),
    ]));
    assert_eq!(flow.settle(), "WorkflowSuspending s:suspending a:pending");
    // `suspend: true` is there already, so that it takes a word of its own.
    flow.workflow().suspend = true;
    flow.workflow().paused = true;
    assert_eq!(flow.after(3), "WorkflowSuspending s:suspending a:pending");
    assert_eq!(workflow(&flow.status).message.as_deref(), Some(run::PAUSED));
    assert_eq!(flow.message("s"), "", "the step keeps its own words");
    assert_eq!(flow.after(60), "WorkflowSuspending s:suspending a:pending");
    assert_eq!(flow.effects, [Effect::Keep]);
    // Its time is over when the pause is.
    flow.workflow().suspend = false;
    assert_eq!(flow.settle(), "RunningWorkflow s:succeeded a:running");
    assert!(!workflow(&flow.status).paused);
}

#[test]
fn who_ends_a_pause_has_approved_nothing() {
    let mut flow = Flow::new(&json!([{"name": "s", "type": "suspend"}, region("a")]));
    flow.settle();
    flow.workflow().paused = true;
    flow.settle();
    for (resumed, expected) in [
        (1, "WorkflowSuspending s:suspending a:pending"),
        (2, "RunningWorkflow s:succeeded a:running"),
    ] {
        flow.workflow().suspend = false;
        assert_eq!(flow.settle(), expected, "resumed {resumed} times");
        assert!(!workflow(&flow.status).paused);
    }
}

#[test]
fn a_persons_pause_stops_what_runs_beside_a_suspension() {
    let ask = json!({"name": "ask", "type": "request", "properties": {"url": "https://example.org"}});
    let next = with(region("b"), "dependsOn", json!(["ask"]));
    let mut flow = Flow::new(&json!([group(&[
        json!({"name": "s", "type": "suspend"}),
        ask,
        next
    ])]));
    let at_work = "WorkflowSuspending group:running(s:suspending ask:running b:pending)";
    assert_eq!(flow.settle(), at_work);
    assert_eq!(flow.acts().len(), 1);
    flow.workflow().paused = true;
    let paused = "WorkflowSuspending group:running(s:suspending ask:suspending b:pending)";
    assert_eq!(flow.settle(), paused);
    let done = || Outcome::Done { output: json!({}) };
    assert_eq!(flow.came("ask", 1, done()), paused, "its answer waits");
    assert_eq!(flow.effects, [Effect::Keep]);
    flow.workflow().suspend = false;
    assert_eq!(
        flow.settle(),
        "WorkflowSuspending group:running(s:suspending ask:succeeded b:running)"
    );
}

#[test]
fn a_pause_is_marked_however_it_is_said_and_every_way_out_takes_the_mark_away() {
    let new = || {
        let mut flow = Flow::new(&json!([region("a"), region("b")]));
        flow.settle();
        flow
    };
    let paused = "WorkflowSuspending a:suspending b:pending";
    for (suspend, marked) in [(true, false), (false, true), (true, true)] {
        let mut flow = new();
        flow.workflow().suspend = suspend;
        flow.workflow().paused = marked;
        assert_eq!(flow.settle(), paused);
        assert!(workflow(&flow.status).suspend && workflow(&flow.status).paused);
        // Taking the mark alone away is no resume: a hub that set none has paused runs too.
        flow.workflow().paused = false;
        assert_eq!(flow.settle(), paused);
        assert!(workflow(&flow.status).paused);
    }
    let out = |change: fn(&mut WorkflowStatus)| {
        let mut flow = new();
        flow.workflow().paused = true;
        flow.settle();
        change(flow.workflow());
        let shown = flow.settle();
        assert!(!workflow(&flow.status).paused, "{shown}");
        shown
    };
    assert_eq!(
        out(|run| run.suspend = false),
        "RunningWorkflow a:running b:pending"
    );
    assert_eq!(
        out(|run| run.terminated = true),
        "WorkflowTerminated a:failed/Terminate b:skipped"
    );
    assert_eq!(
        out(|run| run.restart_from = Some("a".to_owned())),
        "RunningWorkflow a:running b:pending"
    );
    assert_eq!(
        out(|run| *run = WorkflowStatus::default()),
        "RunningWorkflow a:running b:pending"
    );
}

#[test]
fn the_time_of_a_paused_step_ends_it_and_nothing_behind_it_starts() {
    let mut flow = Flow::new(&json!([
        with(region("a"), "timeout", json!("1m")),
        with(region("b"), "if", json!("always")),
    ]));
    flow.settle();
    flow.workflow().suspend = true;
    flow.settle();
    assert_eq!(flow.after(60), "WorkflowSuspending a:failed/Timeout b:suspending");
    flow.workflow().suspend = false;
    assert_eq!(flow.settle(), "RunningWorkflow a:failed/Timeout b:running");
}

#[test]
fn a_step_that_is_tried_again_says_when() {
    let mut flow = Flow::new(&json!([region("a")]));
    flow.settle();
    flow.evidence.steps.insert("a".to_owned(), refused());
    flow.after(10);
    let next = |flow: &Flow| {
        let next = workflow(&flow.status).step("a").unwrap().next_try.clone();
        next.map(|next| (next.number, next.of, next.at.0.duration_since(flow.now).as_secs()))
    };
    assert_eq!(next(&flow), Some((2, 11, 1)));
    for _ in 0..7 {
        flow.after(60);
    }
    assert_eq!(next(&flow), Some((9, 11, 6)));
    for _ in 0..3 {
        flow.after(60);
    }
    assert_eq!(next(&flow), None, "it has failed for good");
    assert_eq!(flow.settle(), "WorkflowFailed a:failed/FailedAfterRetries");
}

#[test]
fn what_others_say_is_cut_at_a_kibibyte_between_characters() {
    let ask = json!({"name": "ask", "type": "request", "properties": {"url": "https://example.org"}});
    let mut flow = Flow::new(&json!([group(&[ask])]));
    flow.settle();
    for attempt in 1..=11 {
        flow.after(60);
        let message = format!("x{}", "é".repeat(12_500));
        flow.came(
            "ask",
            attempt,
            Outcome::Failed {
                message,
                output: None,
            },
        );
        let cut = flow.message("ask");
        assert_eq!(cut, format!("x{}…", "é".repeat(510)));
        assert_eq!(cut.len(), 1024);
        let run = workflow(&flow.status).message.clone().unwrap_or_default();
        assert!(run.len() <= 1024, "{run}");
    }
    assert!(workflow(&flow.status).finished);
}

#[test]
fn a_condition_over_the_fleet_is_asked_again_outside_a_run() {
    let mut a = region("a");
    a["properties"]["wait"] = json!({"until": "fleet.ready >= 2"});
    let flow = Flow::new(&json!([a, region("b")]));
    let clusters = |states: &[ClusterState]| {
        let StepEvidence::Placed { clusters, .. } = placed(states) else {
            panic!("placed")
        };
        clusters
    };
    let holds = |step: &str, states: &[ClusterState]| {
        let shown = clusters(states);
        let shown: Vec<&ClusterEvidence> = shown.iter().collect();
        until_holds(&flow.spec, &flow.status, step, &shown, flow.now)
    };
    assert!(holds("a", &[Ready, Failed, Ready]));
    assert!(!holds("a", &[Ready, Failed, Applied]));
    assert!(!holds("b", &[Ready, Ready]), "it waits for all of them");
    assert!(!holds("none", &[Ready, Ready]));
}

/// A ConfigMap at this version with this value.
fn flags(version: &str, ready: &str) -> Value {
    json!({"kind": "ConfigMap", "metadata": {"uid": "u", "resourceVersion": version}, "data": {"ready": ready}})
}

fn waits_for_object(until: &str) -> Value {
    json!({"name": "gate", "type": "wait", "properties": {"until": until,
        "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}}})
}

#[test]
fn a_wait_for_an_object_passes_when_it_is_as_wanted_and_never_on_absence() {
    let mut flow = Flow::new(&json!([waits_for_object("object.data.ready == 'yes'")]));
    assert_eq!(flow.settle(), "RunningWorkflow gate:running");
    let ActionProperties::LookAt(object) = &flow.acts()[0].2 else {
        panic!("{:?}", flow.acts());
    };
    assert_eq!(
        (object.to_string().as_str(), flow.acts()[0].1),
        ("ConfigMap flags", 1)
    );
    let saw = |output: Value| Outcome::Done { output };
    assert_eq!(
        flow.came("gate", 1, saw(Value::Null)),
        "RunningWorkflow gate:running"
    );
    assert_eq!(
        flow.message("gate"),
        "waiting until object.data.ready == 'yes': ConfigMap flags does not exist"
    );
    assert_eq!((flow.wakes(), flow.acts()), (Some(1), vec![]));
    flow.after(1);
    flow.came("gate", 2, saw(flags("1", "no")));
    assert_eq!(
        flow.message("gate"),
        "waiting until object.data.ready == 'yes': ConfigMap flags is not so far"
    );
    // What is not there yet may come.
    flow.after(1);
    flow.came(
        "gate",
        3,
        saw(json!({"kind": "ConfigMap", "metadata": {"uid": "u", "resourceVersion": "2"}})),
    );
    assert!(
        flow.message("gate")
            .starts_with("waiting until object.data.ready == 'yes': "),
        "{}",
        flow.message("gate")
    );
    flow.after(1);
    assert_eq!(
        flow.came("gate", 4, saw(flags("3", "yes"))),
        "Running gate:succeeded"
    );
    assert_eq!(
        flow.workflow().step("gate").unwrap().output,
        None,
        "nothing of it is kept"
    );
}

#[test]
fn a_wait_for_an_object_is_looked_at_ever_more_rarely_and_soon_again_when_it_changes() {
    let mut flow = Flow::new(&json!([waits_for_object("object.data.ready == 'yes'")]));
    flow.settle();
    let mut attempt = 0;
    let mut look = |flow: &mut Flow, version: &str| {
        attempt += 1;
        let asked: Vec<u32> = flow.acts().into_iter().map(|(_, attempt, _)| attempt).collect();
        assert_eq!(asked, [attempt], "it is due");
        let output = flags(version, "no");
        flow.came("gate", attempt, Outcome::Done { output });
        let next = flow.wakes().unwrap();
        if next > 1 {
            flow.after(1);
            assert_eq!(flow.acts(), [], "not before its time");
            flow.after(i64::try_from(next).unwrap() - 1);
        } else {
            flow.after(1);
        }
        next
    };
    let waits: Vec<u64> = (0..12).map(|_| look(&mut flow, "1")).collect();
    assert_eq!(waits, [1, 1, 1, 1, 1, 1, 3, 6, 12, 25, 51, 60]);
    let waits: Vec<u64> = ["2", "2", "2", "3", "3"]
        .map(|version| look(&mut flow, version))
        .into();
    assert_eq!(waits, [1, 1, 1, 1, 1], "each change begins anew");
    let waits: Vec<u64> = (0..6).map(|_| look(&mut flow, "3")).collect();
    assert_eq!(waits, [1, 1, 1, 1, 3, 6]);
    // A change that somebody tells of is looked at at once.
    let output = flags("3", "no");
    flow.came("gate", 24, Outcome::Done { output });
    assert_eq!((flow.wakes(), flow.acts()), (Some(12), vec![]));
    flow.after(2);
    assert_eq!(flow.acts(), []);
    flow.evidence.changed.insert("gate".to_owned());
    flow.settle();
    assert_eq!(flow.acts().len(), 1);
}

#[test]
fn looks_at_an_object_that_stays_as_it_is_leave_nothing_behind() {
    let mut flow = Flow::new(&json!([waits_for_object("object.data.ready == 'yes'")]));
    flow.settle();
    let saw = |version: &str| Outcome::Done {
        output: flags(version, "no"),
    };
    flow.came("gate", 1, saw("1"));
    let before = flow.status.clone();
    for number in 2..40 {
        flow.after(60);
        assert_eq!(flow.acts().first().map(|act| act.1), Some(number));
        // It is looked at just now: what was seen before says nothing more, and is not waited for.
        flow.evidence.changed.insert("gate".to_owned());
        flow.after(5);
        assert_eq!(flow.acts().first().map(|act| act.1), Some(number));
        flow.evidence.changed.clear();
        flow.came("gate", number, saw("1"));
        assert_eq!(flow.status, before);
        assert_eq!(flow.acts(), []);
    }
    // A hub that has just started knows of no look.
    flow.evidence.actions.clear();
    flow.settle();
    assert_eq!(flow.acts().first().map(|act| act.1), Some(1));
    flow.came("gate", 1, saw("1"));
    assert_eq!(flow.status, before);
    flow.came("gate", 2, saw("2"));
    assert_ne!(flow.status, before, "it has changed");
}

#[test]
fn a_wait_for_an_object_that_cannot_be_read_fails_in_the_end() {
    let mut flow = Flow::new(&json!([waits_for_object("object.data.ready == 'yes'")]));
    flow.settle();
    for attempt in 1..=11 {
        assert_eq!(flow.workflow().step("gate").unwrap().attempt, Some(attempt));
        let outcome = Outcome::Failed {
            message: "no such kind".to_owned(),
            output: None,
        };
        flow.came("gate", attempt, outcome);
        flow.after(60);
    }
    assert_eq!(flow.settle(), "WorkflowFailed gate:failed/FailedAfterRetries");
}

fn in_clusters(name: &str, type_: &str, outputs: &Value) -> Value {
    let object =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}, "data": {"a": "1"}});
    let properties = match type_ {
        "apply-object" => json!({"clusters": {"region": "east"}, "value": object}),
        _ => json!({"clusters": ["c1", "c2"], "apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}),
    };
    json!({"name": name, "type": type_, "outputs": outputs, "properties": properties})
}

/// How the object of a step is treated, and what it is.
type Wanted = (Option<Reach>, Option<Result<Value, String>>);

impl Flow {
    fn objects(&mut self, step: &str, states: &[ClusterState]) -> String {
        self.evidence.objects.insert(step.to_owned(), placed(states));
        self.settle()
    }

    /// The objects of steps: how they are treated, and what they are.
    fn wanted(&self) -> Vec<Wanted> {
        let all = objects(&self.spec, self.status.workflow.as_ref());
        all.into_iter()
            .map(|object| (object.reach, object.manifest))
            .collect()
    }
}

#[test]
fn an_object_in_clusters_is_waited_for_and_follows_the_fleet_once_the_run_has_succeeded() {
    let mut flow = Flow::new(&json!([
        in_clusters("flags", "apply-object", &json!([])),
        {"name": "ask", "type": "suspend"},
    ]));
    assert_eq!(flow.wanted(), [(Some(Reach::Unreached), None)]);
    assert_eq!(flow.settle(), "RunningWorkflow flags:running ask:pending");
    assert!(flow.effects.contains(&Effect::Dispatch {
        step: "flags".to_owned()
    }));
    let manifest = in_clusters("", "apply-object", &json!([]))["properties"]["value"].clone();
    let live = (Some(Reach::Live), Some(Ok(manifest)));
    assert_eq!(flow.wanted(), std::slice::from_ref(&live));
    // A placing step's evidence is not its own.
    assert_eq!(
        flow.clusters("flags", &[Ready]),
        "RunningWorkflow flags:running ask:pending"
    );
    assert_eq!(
        flow.objects("flags", &[]),
        "RunningWorkflow flags:running ask:pending"
    );
    assert_eq!(
        flow.objects("flags", &[Ready, Applied]),
        "RunningWorkflow flags:running ask:pending"
    );
    assert_eq!(flow.message("flags"), "waiting for 1 of 2 clusters: c1 (Applied)");
    assert_eq!(
        flow.objects("flags", &[Ready, Ready]),
        "WorkflowSuspending flags:succeeded ask:suspending"
    );
    assert_eq!(flow.wanted(), [(Some(Reach::Placed), None)], "it stays as it is");
    flow.workflow().suspend = false;
    assert_eq!(flow.settle(), "Running flags:succeeded ask:succeeded");
    assert_eq!(flow.wanted(), [live]);
    assert_eq!(
        flow.objects("flags", &[Ready, Failed]),
        "Unhealthy flags:succeeded ask:succeeded"
    );
}

#[test]
fn what_a_run_passed_over_or_only_read_is_wanted_no_more() {
    let mut flow = Flow::new(&json!([
        with(in_clusters("flags", "apply-object", &json!([])), "if", json!("false")),
        in_clusters("look", "read-object", &json!([{"name": "a", "valueFrom": "output.data.a"}])),
        {"name": "told", "type": "export", "inputs": [{"from": "a", "parameterKey": "value"}]
            , "properties": {"value": null}, "outputs": [{"name": "b", "valueFrom": "output"}]},
    ]));
    assert_eq!(
        flow.settle(),
        "RunningWorkflow flags:skipped look:running told:pending"
    );
    assert_eq!(
        flow.wanted()[0].0,
        Some(Reach::Unreached),
        "it is known when the run has succeeded"
    );
    let identity = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}});
    assert_eq!(flow.wanted()[1], (Some(Reach::Live), Some(Ok(identity))));
    flow.objects("look", &[Applied, Applied]);
    assert_eq!(
        flow.message("look"),
        "waiting for output \"a\": no cluster has reported"
    );
    let differs = OutputEvidence::Differs {
        one: "c1".to_owned(),
        other: "c2".to_owned(),
    };
    flow.evidence.outputs.insert("a".to_owned(), differs);
    flow.settle();
    assert_eq!(
        flow.message("look"),
        "waiting for output \"a\": clusters c1 and c2 report different values, and they have to agree"
    );
    flow.evidence
        .outputs
        .insert("a".to_owned(), OutputEvidence::Agreed(json!("1")));
    assert_eq!(
        flow.settle(),
        "Running flags:skipped look:succeeded told:succeeded"
    );
    assert_eq!(flow.workflow().step("told").unwrap().values["b"], json!("1"));
    assert_eq!(flow.wanted(), [(None, None), (None, None)]);
    // What is not there is not looked at, and says nothing of the application's health.
    flow.evidence.objects.clear();
    assert_eq!(
        flow.settle(),
        "Running flags:skipped look:succeeded told:succeeded"
    );
}

#[test]
fn an_object_in_clusters_takes_what_other_steps_gave() {
    let mut step = in_clusters("flags", "apply-object", &json!([]));
    step["inputs"] = json!([{"from": "made", "parameterKey": "value.data.a"}]);
    let mut flow = Flow::new(&json!([
        {"name": "gives", "type": "export", "properties": {"value": "42"}, "outputs": [{"name": "made", "valueFrom": "output"}]},
        step,
    ]));
    assert_eq!(flow.settle(), "RunningWorkflow gives:succeeded flags:running");
    let wanted = flow.wanted().remove(0).1.unwrap().unwrap();
    assert_eq!(wanted["data"], json!({"a": "42"}));
}

#[test]
fn a_step_that_may_place_nowhere_has_nobody_to_count() {
    for until in [json!({"ready": "90%"}), json!("fleet.ready >= 1")] {
        let mut step = region("mars");
        step["properties"]["wait"] = json!({"until": until});
        let mut flow = Flow::new(&json!([step]));
        flow.settle();
        flow.evidence
            .steps
            .insert("mars".to_owned(), StepEvidence::AllowedEmpty);
        assert_eq!(flow.settle(), "Running mars:succeeded");
    }
}

#[test]
fn a_wait_counts_each_cluster_as_the_last_step_brings_it_that_brings_everything() {
    let always = |step: Value| with(step, "if", json!("always"));
    let mut first = region("b");
    first["properties"]["maxFailedClusters"] = json!(0);
    let wait = always(json!({"name": "w", "type": "wait", "properties": {"until": {"ready": "100%"}}}));
    for (then, of_first, of_then, expected) in [
        // What the first has not sent comes with the second.
        ("deploy", [Failed, Dispatching], [Ready, Ready], "w:succeeded"),
        (
            "apply-component",
            [Failed, Dispatching],
            [Ready, Ready],
            "w:running",
        ),
    ] {
        let mut second = always(region("a"));
        second["type"] = json!(then);
        second["properties"]["component"] = json!("web");
        if then == "deploy" {
            second["properties"].as_object_mut().unwrap().remove("component");
        }
        let mut flow = Flow::new(&json!([first, second, wait]));
        flow.clusters("b", &of_first);
        let shown = flow.clusters("a", &of_then);
        assert!(shown.ends_with(expected), "{then} {shown}");
    }
}

#[test]
fn clusters_of_a_step_of_which_one_cannot_get_its_part_count_as_they_are() {
    let refused = |states: &[ClusterState]| StepEvidence::Refused {
        message: "cluster c1: its manifests are above the limit".to_owned(),
        clusters: placed(states).clusters().to_vec(),
    };
    let mut first = region("b");
    first["properties"]["maxFailedClusters"] = json!(1);
    for (until, expected) in [
        (json!({"ready": "100%"}), "w:running"),
        (json!({"ready": "50%"}), "w:succeeded"),
        (json!("fleet.ready == fleet.clusters"), "w:running"),
    ] {
        let wait = json!({"name": "w", "type": "wait", "if": "always", "properties": {"until": until}});
        let mut flow = Flow::new(&json!([first, wait]));
        flow.settle();
        flow.evidence
            .steps
            .insert("b".to_owned(), refused(&[Dispatching, Ready, Failed]));
        assert_eq!(
            flow.settle(),
            "RunningWorkflow b:failed/Execute w:pending",
            "it is tried again"
        );
        // Others fail beside it.
        flow.evidence
            .steps
            .insert("b".to_owned(), refused(&[Dispatching, Ready, Failed, Failed]));
        assert!(flow.settle().contains("b:failed/Action"));
        let then = refused(&[Dispatching, Ready, Ready, Failed]);
        flow.evidence.steps.insert("b".to_owned(), then);
        let shown = flow.settle();
        assert!(shown.ends_with(expected), "{until} {shown}");
    }
}
