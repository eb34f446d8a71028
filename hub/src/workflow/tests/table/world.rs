//! Runs that bring a step into a phase, and events that happen then.

use super::*;
use crate::{
    dispatch::{Observed, evidence::held_evidence},
    workflow::HeldObject,
};
use jiff::{SignedDuration, Timestamp};
use roundhouse_api::{
    application::validate,
    bundle::{BundlePhase, BundleSpec, BundleStatus},
};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The step that is looked at.
const STEP: &str = "x";
/// Its clusters are those of this step: its own, of a group those of the step in it, of a wait those before it.
fn placing(type_: Type) -> &'static str {
    match type_ {
        Type::Group => "inner",
        Type::Wait => "before",
        _ => STEP,
    }
}

/// A run on its way.
#[derive(Clone)]
pub(super) struct World {
    type_: Type,
    spec: Spec,
    status: Status,
    evidence: Evidence,
    now: Timestamp,
    wake: Option<Duration>,
}

fn placing_step(name: &str) -> Value {
    json!({"name": name, "type": "deploy", "properties": {"placement": [{"clusterSelector": {"region": name}}],
        "maxFailedClusters": 1}})
}

fn step(type_: Type) -> Value {
    let mut step = match type_ {
        Type::Deploy => placing_step(STEP),
        Type::Suspend => json!({"type": "suspend", "properties": {"duration": "30m"}}),
        // Nothing is called `lost`: with two failed clusters it has no result.
        Type::Wait => {
            json!({"type": "wait", "properties": {"until": "fleet.failed < 2 ? fleet.ready == fleet.clusters : fleet.lost == 0"}})
        }
        Type::Look => json!({"type": "wait", "properties": {"until": "!has(object.closed)",
            "object": {"apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}}}),
        Type::Object => json!({"type": "apply-object", "properties": {"clusters": {"region": "east"},
            "value": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "flags"}}}}),
        Type::Taking => json!({"type": "delete-object", "properties": {"clusters": {"region": "east"},
            "apiVersion": "v1", "kind": "ConfigMap", "name": "flags"}}),
        Type::Act => json!({"type": "request", "properties": {"url": "https://example.org"}}),
        Type::Export => json!({"type": "export", "properties": {"value": 1}}),
        Type::Rollback => json!({"type": "rollback"}),
        Type::Group => json!({"type": "step-group", "subSteps": [placing_step("inner")]}),
        Type::Break => json!({"type": "break"}),
        Type::Fail => json!({"type": "fail"}),
    };
    step["name"] = json!(STEP);
    step["timeout"] = json!("1h");
    step
}

/// How the step differs from what it is otherwise, to come into a phase or to be hit by an event.
fn varied(type_: Type, phase: Phase, event: Event) -> Value {
    let mut step = step(type_);
    match (phase, type_) {
        (Phase::Failed, Type::Export) => {
            step["inputs"] = json!([{"from": "context.nothing", "parameterKey": "value"}]);
        }
        (Phase::Failed, Type::Break) => {
            step["outputs"] = json!([{"name": "o", "valueFrom": "context.nothing"}]);
        }
        (Phase::Skipped, _) => step["if"] = json!("status.before.failed"),
        _ => {}
    }
    match event {
        Event::IfTrue => step["if"] = json!("status.before.succeeded"),
        Event::IfFalse => step["if"] = json!("status.before.failed"),
        Event::IfInvalid => step["if"] = json!("context.nothing"),
        _ => {}
    }
    step
}

fn clusters(states: &[ClusterState]) -> StepEvidence {
    placed(states)
}

/// What clusters show whose reports are all of something else: of another hash, of another generation, and none at all of
/// a Bundle that was made again.
fn stale() -> [StepEvidence; 3] {
    let report = |hash: &str, generation| BundleStatus {
        hash: Some(hash.to_owned()),
        observed_generation: Some(generation),
        phase: Some(BundlePhase::Ready),
        ..BundleStatus::default()
    };
    [Some(report("other", 2)), Some(report("own", 1)), None].map(|status| {
        let bundle = Arc::new(Observed {
            uid: "another".to_owned(),
            generation: 2,
            spec: Arc::new(BundleSpec {
                hash: Some("own".to_owned()),
                ..BundleSpec::default()
            }),
            status: status.map(Arc::new),
            ..Observed::default()
        });
        let clusters =
            ["c0", "c1"].map(|cluster| held_evidence(cluster, std::slice::from_ref(&bundle), None));
        StepEvidence::Placed {
            unsatisfied: vec![],
            clusters: clusters.into(),
        }
    })
}

use ClusterState::{Applied, Failed, Ready, Unhealthy, Unreachable};

impl World {
    fn new(type_: Type, step: &Value) -> World {
        let mut before = placing_step("before");
        if type_ == Type::Taking {
            before = self::step(Type::Object);
            before["name"] = json!("before");
            before["properties"]["maxFailedClusters"] = json!(1);
        }
        before["timeout"] = json!("2h");
        let mut after = placing_step("after");
        after["if"] = json!("always");
        let stop = json!({"name": "stop", "type": "break", "if": "status.before.timeout"});
        let spec = json!({
            "components": [{"name": "web", "type": "worker", "properties": {"image": "x"}}],
            "workflow": {"steps": [before, stop, step, after]},
        });
        let valid = validate(&spec).unwrap_or_else(|violations| panic!("{violations:#?}"));
        let waiting = clusters(&[Applied, Applied]);
        let held = ["c0", "c1"].map(|cluster| HeldObject {
            step: "before".to_owned(),
            cluster: cluster.to_owned(),
            named: true,
            gone: false,
        });
        let mut world = World {
            type_,
            spec: Spec::new("app-v2", 2, ("default", "app"), &valid, Limits::default()),
            status: Status::default(),
            evidence: Evidence {
                held: match type_ {
                    Type::Taking => [(STEP.to_owned(), held.into())].into(),
                    _ => BTreeMap::new(),
                },
                delivered: Some("app-v1".to_owned()),
                revisions: BTreeSet::from(["app-v1".to_owned()]),
                ..Evidence::default()
            },
            now: t0(),
            wake: None,
        };
        world.show("before", waiting);
        world
    }

    fn look(&mut self) -> Vec<Effect> {
        let stored = serde_json::to_value(&self.status.workflow).unwrap();
        self.status.workflow = serde_json::from_value(stored).unwrap();
        let (next, effects) = advance(&self.spec, &self.status, &self.evidence, self.now);
        self.status = next;
        self.wake = effects.iter().find_map(|effect| match effect {
            Effect::Wake { after } => Some(*after),
            _ => None,
        });
        effects
    }

    fn workflow(&mut self) -> &mut WorkflowStatus {
        self.status.workflow.as_mut().unwrap()
    }

    fn state(&self, name: &str) -> &StepStatus {
        workflow(&self.status).step(name).unwrap()
    }

    fn show(&mut self, step: &str, evidence: StepEvidence) {
        let of = match (self.type_, step) {
            (Type::Object, STEP) | (Type::Taking, STEP | "before") => &mut self.evidence.objects,
            _ => &mut self.evidence.steps,
        };
        of.insert(step.to_owned(), evidence);
    }

    fn came(&mut self, attempt: u32, outcome: Outcome) {
        let at = self.now;
        let came = ActionEvidence { attempt, at, outcome };
        self.evidence.actions.insert(STEP.to_owned(), came);
    }

    fn pass(&mut self, time: Duration) {
        self.now += SignedDuration::try_from(time).unwrap();
    }

    /// The step before it is done, and it is its turn.
    fn enter(&mut self) {
        self.pass(Duration::from_secs(10));
        self.show("before", clusters(&[Ready, Ready]));
        self.look();
        self.show("before", clusters(&[Applied, Applied]));
        if matches!(
            self.type_,
            Type::Deploy | Type::Object | Type::Taking | Type::Group
        ) {
            self.show(placing(self.type_), clusters(&[Applied, Applied]));
        }
    }

    /// A run in which the step is in this phase; `None` if there is none.
    fn reach(type_: Type, phase: Phase, event: Event) -> Option<World> {
        let mut world = World::new(type_, &varied(type_, phase, event));
        world.look();
        if phase == Phase::Pending {
            world.look();
            return Some(world);
        }
        if (phase, type_) == (Phase::Failed, Type::Rollback) {
            world.evidence.delivered = None;
        }
        world.enter();
        let at_work = matches!(phase_of(world.state(STEP)), Phase::Running | Phase::Suspending);
        match phase {
            Phase::Pending | Phase::Running | Phase::Skipped => {}
            Phase::Suspending if type_ == Type::Suspend => {}
            Phase::Suspending => world.workflow().suspend = true,
            Phase::Succeeded => match type_ {
                Type::Suspend => world.workflow().suspend = false,
                Type::Look | Type::Act => world.came(1, done()),
                _ => world.show(placing(type_), clusters(&[Ready, Ready])),
            },
            Phase::Retrying => match type_ {
                Type::Deploy | Type::Object | Type::Taking | Type::Group => {
                    world.show(placing(type_), refused());
                }
                Type::Wait => world.show("before", clusters(&[Failed, Failed])),
                Type::Look | Type::Act | Type::Rollback => world.came(1, fails()),
                _ => return None,
            },
            Phase::Failed => match type_ {
                Type::Deploy | Type::Group => world.show(placing(type_), clusters(&[Failed, Failed])),
                Type::Suspend | Type::Wait | Type::Look | Type::Act | Type::Object | Type::Taking => {
                    world.pass(Duration::from_secs(3600));
                }
                _ => {}
            },
        }
        if at_work {
            world.look();
        }
        if world.state("after").phase == StepPhase::Running {
            world.show("after", clusters(&[Applied, Applied]));
        }
        // What follows is another look than the one that brought it there.
        world.look();
        (phase_of(world.state(STEP)) == phase).then_some(world)
    }
}

fn done() -> Outcome {
    Outcome::Done { output: json!({}) }
}

fn waits() -> Outcome {
    Outcome::Waiting {
        message: "not yet".to_owned(),
    }
}

fn fails() -> Outcome {
    Outcome::Failed {
        message: "503".to_owned(),
        output: None,
    }
}

/// The ways in which an event happens to a step in a phase, which all come to the same; `None` if it cannot.
pub(super) fn cases(type_: Type, phase: Phase, event: Event) -> Option<Vec<World>> {
    let reached = World::reach(type_, phase, event)?;
    assert_eq!(type_of(&reached.spec.at(spec_at()).unwrap().action), type_);
    let started = phase != Phase::Pending;
    let open = matches!(phase, Phase::Running | Phase::Retrying | Phase::Suspending);
    let placing_type = matches!(type_, Type::Deploy | Type::Group);
    let own_clusters = placing_type || matches!(type_, Type::Object | Type::Taking);
    let watching = started && (own_clusters || type_ == Type::Wait);
    let asking = started && matches!(type_, Type::Look | Type::Act);
    let acting = asking || (started && type_ == Type::Rollback);
    let one = |change: &dyn Fn(&mut World)| {
        let mut world = reached.clone();
        change(&mut world);
        vec![world]
    };
    let show = |evidence: StepEvidence| one(&|world| world.show(placing(type_), evidence.clone()));
    let told = |evidence: StepEvidence| {
        assert_eq!(told::evidence(&evidence), event);
        show(evidence)
    };
    let attempt = reached.state(STEP).attempt.unwrap_or(1);
    let came = |outcome: Outcome| {
        assert_eq!(told::outcome(&outcome), event);
        one(&|world| world.came(attempt, outcome.clone()))
    };
    let command = |change: &dyn Fn(&mut World)| {
        let cases = one(change);
        for world in &cases {
            assert_eq!(told::command(&Command::read(&world.spec, &world.status)), event);
        }
        cases
    };
    Some(match event {
        Event::Nothing => one(&|_| {}),
        Event::Ready if watching => told(clusters(&[Ready, Ready])),
        Event::Stale if watching => {
            let cases = stale().into_iter().map(told);
            cases.flatten().collect()
        }
        Event::FailedWithin if watching => show(clusters(&[Failed, Ready])),
        Event::FailedOver if watching => {
            let cases = [[Failed, Failed], [Unhealthy, Failed], [Failed, Unhealthy]];
            cases.iter().flat_map(|states| told(clusters(states))).collect()
        }
        Event::Unreachable if watching => told(clusters(&[Ready, Unreachable])),
        Event::Refused if started && own_clusters => told(refused()),
        Event::Blocked if started && placing_type => told(StepEvidence::Blocked {
            message: "there is no Placement \"regions\"".to_owned(),
        }),
        Event::NoCluster if watching => told(clusters(&[])),
        Event::MayBeEmpty if started && own_clusters && type_ != Type::Object => {
            told(StepEvidence::AllowedEmpty)
        }
        Event::TimeOut if started => {
            let start = reached.state(STEP).first_execute_time.clone();
            let start = start.map_or(reached.now, |time| time.0);
            one(&|world| world.now = start.max(t0()) + SignedDuration::from_hours(1))
        }
        Event::BackOff => {
            let wake = reached.wake?;
            one(&|world| world.pass(wake))
        }
        Event::Done if asking => came(done()),
        // What is looked at is there, and not as it is waited for.
        Event::Waits if asking && type_ == Type::Look => {
            let output = json!({"closed": true});
            one(&|world| {
                world.came(
                    attempt,
                    Outcome::Done {
                        output: output.clone(),
                    },
                );
            })
        }
        Event::Waits if asking => came(waits()),
        Event::Fails if acting => came(fails()),
        // A look that comes later is as good.
        Event::OtherAttempt if acting && type_ == Type::Look => one(&|world| world.came(attempt - 1, done())),
        Event::OtherAttempt if acting => one(&|world| world.came(attempt + 1, done())),
        Event::Resume if phase == Phase::Suspending => command(&|world| world.workflow().suspend = false),
        // The run is paused at another step.
        Event::Resume if !open => command(&|world| {
            world.workflow().suspend = true;
            world.look();
            world.workflow().suspend = false;
        }),
        Event::Pause if phase != Phase::Suspending => command(&|world| world.workflow().suspend = true),
        Event::Terminate => command(&|world| world.workflow().terminated = true),
        Event::RestartAll => command(&|world| *world.workflow() = WorkflowStatus::default()),
        Event::RestartHere => command(&|world| world.workflow().restart_from = Some(STEP.to_owned())),
        Event::EarlierFailed if !started => one(&|world| world.show("before", clusters(&[Failed, Failed]))),
        Event::EarlierSucceeded | Event::IfTrue | Event::IfFalse | Event::IfInvalid if !started => {
            one(&|world| world.show("before", clusters(&[Ready, Ready])))
        }
        Event::EarlierEnded if !started => one(&|world| world.pass(Duration::from_secs(7200))),
        Event::NewRevision => one(&|world| {
            world.spec.generation = 3;
            world.spec.revision = "app-v3".to_owned();
        }),
        _ => return None,
    })
}

fn spec_at() -> super::super::super::spec::At {
    super::super::super::spec::At {
        index: 2,
        inner: None,
    }
}

impl World {
    /// Lets the engine look once, and shows what came of it.
    pub(super) fn cell(&self, event: Event) -> String {
        let title = format!("{:?} {:?}", self.type_, event);
        let mut world = self.clone();
        let effects = world.look();
        let again = advance(&self.spec, &self.status, &self.evidence, self.now);
        assert_eq!(
            again,
            (world.status.clone(), effects.clone()),
            "{title}: the same again"
        );
        let read = Command::read(&world.spec, &world.status);
        // A pause lasts until somebody ends it.
        let paused = workflow(&world.status).paused && read == Command::Pause;
        assert!(
            paused || matches!(read, Command::Continue | Command::Rest),
            "{title}: the engine commands itself: {read:?}"
        );
        let mut line = format!("{} · {}", shown(world.state(STEP)), shown(world.state("after")));
        let run = workflow(&world.status);
        match (world.status.phase.unwrap(), run.finished) {
            (ApplicationPhase::RunningWorkflow, false) => {}
            (phase, false) => line.push_str(&format!(" · {phase:?}")),
            (phase, true) => line.push_str(&format!(" · {phase:?} finished")),
        }
        let all: Vec<String> = effects.iter().filter_map(effect).collect();
        let wake = world
            .wake
            .map_or("-".to_owned(), |wake| format!("{} s", wake.as_secs()));
        let effects = match all.is_empty() {
            true => "-".to_owned(),
            false => all.join(", "),
        };
        // From here on it comes to rest.
        let settled = (0..10).any(|_| {
            let before = world.status.clone();
            world.look();
            world.status == before
        });
        assert!(settled, "{title}: does not come to rest");
        format!("{line} | {effects} | {wake}")
    }
}

fn shown(state: &StepStatus) -> String {
    let phase = format!("{:?}", state.phase).to_lowercase();
    let reason = state
        .reason
        .map_or(String::new(), |reason| format!("/{reason:?}"));
    let inner: Vec<String> = state.sub_steps.iter().map(shown).collect();
    match inner.is_empty() {
        true => format!("{phase}{reason}"),
        false => format!("{phase}{reason}({})", inner.join(" ")),
    }
}

fn effect(effect: &Effect) -> Option<String> {
    Some(match effect {
        Effect::Dispatch { step } => format!("dispatch {step}"),
        Effect::Keep => "keep".to_owned(),
        Effect::Act { attempt, .. } => format!("act {attempt}"),
        Effect::RollBack {
            revision, attempt, ..
        } => format!("back to {revision} {attempt}"),
        Effect::Refresh => "refresh".to_owned(),
        Effect::CollectGarbage => "collect".to_owned(),
        Effect::Wake { .. } => return None,
    })
}
