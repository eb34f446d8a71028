//! Every (type, phase, event) of a step, with what becomes of it: `table/<type>.txt` has the expectations.
//!
//! The step stands between two others: `before` it a placing step, `after` it a placing step that always runs; where
//! `before` is out of time, a `break` ends the workflow. Phases are reached by real runs ([`world`]), and each event is one
//! call of the engine. A line of a table reads
//!
//! ```text
//! <the step> · <the step after it> [· <the run>] | <effects> | <when to look again> : <events>
//! ```
//!
//! The run is shown where it is not simply running. What cannot occur is in [`IMPOSSIBLE`], by name and with the reason; a
//! triple that is in neither or in both fails the test, and so does a variant of the engine's types that nothing here names.

use super::*;
use crate::action::Outcome;
use roundhouse_api::application::{ClusterVerb, WaitStep};
use std::{collections::BTreeMap, fmt::Write as _};

mod world;

/// An enum whose variants are all known by name.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        enum $name { $($variant),* }

        impl $name {
            const ALL: &[$name] = &[$($name::$variant),*];

            fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
        }
    };
}

named!(
    /// What the step does.
    Type {
        Deploy = "deploy",
        Suspend = "suspend",
        Wait = "wait",
        // A `wait` over an object on the hub.
        Look = "look",
        Act = "act",
        // An object step with `clusters`.
        Object = "object",
        // `delete-object` with `clusters`; the step before it is the one that applies.
        Taking = "taking",
        Export = "export",
        Rollback = "rollback",
        Group = "group",
        Break = "break",
        Fail = "fail",
    }
);

named!(
    /// Where it stands.
    Phase {
        Pending = "pending",
        Running = "running",
        Suspending = "suspending",
        Succeeded = "succeeded",
        Retrying = "failed with retries left",
        Failed = "failed for good",
        Skipped = "skipped",
    }
);

named!(
    /// What happens.
    Event {
        Nothing = "nothing",
        Ready = "ready",
        Stale = "stale",
        FailedWithin = "failed-within",
        FailedOver = "failed-over",
        Unreachable = "unreachable",
        Refused = "refused",
        Blocked = "blocked",
        NoCluster = "no-cluster",
        MayBeEmpty = "may-be-empty",
        TimeOut = "time-out",
        BackOff = "back-off",
        Done = "done",
        Waits = "waits",
        Fails = "fails",
        OtherAttempt = "other-attempt",
        Resume = "resume",
        Pause = "pause",
        Terminate = "terminate",
        RestartAll = "restart-all",
        RestartHere = "restart-here",
        EarlierFailed = "earlier-failed",
        EarlierSucceeded = "earlier-succeeded",
        EarlierEnded = "earlier-ended",
        NewRevision = "new-revision",
        IfTrue = "if-true",
        IfFalse = "if-false",
        IfInvalid = "if-invalid",
    }
);

/// Of these types, in these phases, these events cannot occur; an empty list is all of them.
type Impossible = (&'static [Type], &'static [Phase], &'static [Event], &'static str);

const IMPOSSIBLE: &[Impossible] = {
    use Event::*;
    use Phase::{Failed, Pending, Retrying, Running, Skipped, Succeeded, Suspending};
    use Type::{Act, Break, Deploy, Export, Fail, Group, Look, Object, Rollback, Suspend, Taking, Wait};
    const CLUSTERS: &[Event] = &[
        Ready,
        Stale,
        FailedWithin,
        FailedOver,
        Unreachable,
        Refused,
        Blocked,
        NoCluster,
        MayBeEmpty,
    ];
    const OUTCOMES: &[Event] = &[Done, Waits, Fails, OtherAttempt];
    &[
        // Phases that a type does not know.
        (
            &[Export, Break, Fail],
            &[Running, Retrying, Suspending],
            &[],
            "it is over as soon as it starts",
        ),
        (
            &[Suspend],
            &[Running],
            &[],
            "it is suspended as soon as it starts",
        ),
        (&[Suspend], &[Retrying], &[], "nothing of its own is tried again"),
        (
            &[Rollback],
            &[Succeeded],
            &[],
            "the revision that it goes back to has a run of its own",
        ),
        (&[Fail], &[Succeeded], &[], "it is there to fail"),
        // Events of a step that has not started.
        (
            &[],
            &[Pending],
            CLUSTERS,
            "nothing of it is dispatched before it starts",
        ),
        (&[], &[Pending], OUTCOMES, "nothing is asked for before it starts"),
        (&[], &[Pending], &[TimeOut], "its time begins when it starts"),
        // Events that are of other types.
        (
            &[Suspend, Look, Act, Export, Rollback, Break, Fail],
            &[],
            CLUSTERS,
            "it has no clusters",
        ),
        (&[Wait], &[], &[Refused, Blocked, MayBeEmpty], "it places nothing"),
        (
            &[Object],
            &[],
            &[Blocked, MayBeEmpty],
            "it names its clusters itself: no Placement holds it up or lets it be without",
        ),
        (
            &[Taking],
            &[],
            &[Blocked],
            "it names its clusters itself: no Placement holds it up",
        ),
        (
            &[Deploy, Suspend, Wait, Object, Taking, Export, Group, Break, Fail],
            &[],
            OUTCOMES,
            "it has no executor",
        ),
        (
            &[Rollback],
            &[],
            &[Done, Waits],
            "a write that went through is seen as a new revision",
        ),
        // Events that are over.
        (
            &[],
            &[Running, Suspending, Succeeded, Retrying, Failed, Skipped],
            &[EarlierFailed, EarlierSucceeded, EarlierEnded],
            "a step starts or is passed over when those before it are over",
        ),
        (
            &[],
            &[Running, Suspending, Succeeded, Retrying, Failed, Skipped],
            &[IfTrue, IfFalse, IfInvalid],
            "`if` is looked at once, before the step starts",
        ),
        (&[], &[Running, Retrying], &[Resume], "the run is not suspended"),
        (&[], &[Suspending], &[Pause], "the run is suspended already"),
    ]
};

/// Why a triple cannot occur: all reasons that hold.
fn impossible(type_: Type, phase: Phase, event: Event) -> impl Iterator<Item = &'static str> {
    fn among<T: PartialEq>(list: &[T], one: &T) -> bool {
        list.is_empty() || list.contains(one)
    }
    let hold = IMPOSSIBLE.iter().filter(move |(types, phases, events, _)| {
        among(types, &type_) && among(phases, &phase) && among(events, &event)
    });
    hold.map(|(.., why)| *why)
}

fn triples() -> impl Iterator<Item = (Type, Phase, Event)> {
    let phases = |type_| Phase::ALL.iter().map(move |phase| (type_, *phase));
    let events = |(type_, phase)| Event::ALL.iter().map(move |event| (type_, phase, *event));
    Type::ALL.iter().copied().flat_map(phases).flat_map(events)
}

/// What becomes of a step: one line.
fn cell(type_: Type, phase: Phase, event: Event) -> Option<String> {
    let cases = world::cases(type_, phase, event)?;
    let mut cells: Vec<String> = cases.iter().map(|case| case.cell(event)).collect();
    cells.dedup();
    assert_eq!(
        cells.len(),
        1,
        "{type_:?} {phase:?} {event:?}: its cases differ: {cells:#?}"
    );
    cells.pop()
}

/// The table of a type as it is: events with the same cell stand together, in the order of their first.
fn table(type_: Type) -> String {
    let mut text = String::new();
    for phase in Phase::ALL {
        let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
        for event in Event::ALL {
            let Some(cell) = cell(type_, *phase, *event) else {
                continue;
            };
            match lines.iter_mut().find(|(line, _)| *line == cell) {
                Some((_, events)) => events.push(event.name()),
                None => lines.push((cell, vec![event.name()])),
            }
        }
        if lines.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{}", phase.name());
        for (cell, events) in lines {
            let _ = writeln!(text, "  {cell} : {}", events.join(" "));
        }
    }
    text
}

/// (phase, event) -> what a table says.
fn read(type_: Type, text: &str) -> BTreeMap<(Phase, Event), String> {
    let mut cells = BTreeMap::new();
    let mut phase = None;
    for line in text
        .lines()
        .filter(|line| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let Some(rest) = line.strip_prefix("  ") else {
            let known = Phase::ALL.iter().find(|phase| phase.name() == line.trim_end());
            phase = Some(*known.unwrap_or_else(|| panic!("{type_:?}: no phase {line:?}")));
            continue;
        };
        let (cell, events) = rest
            .rsplit_once(" : ")
            .unwrap_or_else(|| panic!("{type_:?}: {line:?}"));
        // Columns are there for the eye.
        let cell = cell.split_whitespace().collect::<Vec<_>>().join(" ");
        for name in events.split_whitespace() {
            let event = Event::ALL.iter().find(|event| event.name() == name);
            let event = *event.unwrap_or_else(|| panic!("{type_:?}: no event {name:?}"));
            let before = cells.insert((phase.unwrap(), event), cell.clone());
            assert_eq!(before, None, "{type_:?} {phase:?} {event:?} is there twice");
        }
    }
    cells
}

fn expected(type_: Type) -> &'static str {
    match type_ {
        Type::Deploy => include_str!("table/deploy.txt"),
        Type::Suspend => include_str!("table/suspend.txt"),
        Type::Wait => include_str!("table/wait.txt"),
        Type::Look => include_str!("table/look.txt"),
        Type::Act => include_str!("table/act.txt"),
        Type::Object => include_str!("table/object.txt"),
        Type::Taking => include_str!("table/taking.txt"),
        Type::Export => include_str!("table/export.txt"),
        Type::Rollback => include_str!("table/rollback.txt"),
        Type::Group => include_str!("table/group.txt"),
        Type::Break => include_str!("table/break.txt"),
        Type::Fail => include_str!("table/fail.txt"),
    }
}

#[test]
fn every_type_phase_and_event_is_as_the_table_says() {
    let mut differ = String::new();
    for type_ in Type::ALL {
        let (cells, is) = (read(*type_, expected(*type_)), table(*type_));
        let mut same = true;
        for ((phase, event), is) in read(*type_, &is) {
            let said = cells.get(&(phase, event)).map_or("nothing", String::as_str);
            if said != is {
                let _ = writeln!(differ, "{} · {}: {is}, not {said}", phase.name(), event.name());
                same = false;
            }
        }
        if !same {
            let _ = writeln!(differ, "so {} is\n{is}", type_.name());
        }
    }
    assert!(differ.is_empty(), "{differ}");
}

#[test]
fn every_triple_is_in_the_table_or_cannot_occur() {
    for type_ in Type::ALL {
        let cells = read(*type_, expected(*type_));
        for (_, phase, event) in triples().filter(|(of, ..)| of == type_) {
            let title = format!("{} · {} · {}", type_.name(), phase.name(), event.name());
            match (
                cells.get(&(phase, event)),
                impossible(*type_, phase, event).next(),
            ) {
                (None, None) => panic!("{title}: write down what becomes of it, or why it cannot occur"),
                (Some(_), Some(why)) => panic!("{title}: is in the table, and cannot occur: {why}"),
                (cell, _) => assert_eq!(
                    cell.is_some(),
                    world::cases(*type_, phase, event).is_some(),
                    "{title}: what can occur is what can be made to occur"
                ),
            }
        }
    }
}

#[test]
fn every_reason_is_the_only_one_somewhere() {
    for (.., why) in IMPOSSIBLE {
        let only = |(type_, phase, event)| impossible(type_, phase, event).eq([*why]);
        assert!(triples().any(only), "{why}: what it says is said already");
    }
}

/// The type of an action: a new one does not compile before it is here.
fn type_of(action: &Action) -> Type {
    match action {
        Action::Deploy(_) => Type::Deploy,
        Action::Suspend(_) => Type::Suspend,
        Action::Group(_) => Type::Group,
        Action::Wait(WaitStep::Fleet { .. }) => Type::Wait,
        Action::Wait(WaitStep::Object { .. }) => Type::Look,
        Action::ClusterObject { object, .. } => match object.verb {
            ClusterVerb::Delete => Type::Taking,
            ClusterVerb::Apply | ClusterVerb::Read => Type::Object,
        },
        Action::Break { .. } => Type::Break,
        Action::Fail { .. } => Type::Fail,
        Action::Export(_) => Type::Export,
        Action::Rollback { .. } => Type::Rollback,
        Action::Act(_) => Type::Act,
    }
}

/// The phase that a status is; a group that is at work stands where its step stands.
fn phase_of(state: &StepStatus) -> Phase {
    match state.phase {
        StepPhase::Running if !state.sub_steps.is_empty() => phase_of(&state.sub_steps[0]),
        StepPhase::Pending => Phase::Pending,
        StepPhase::Running => Phase::Running,
        StepPhase::Suspending => Phase::Suspending,
        StepPhase::Succeeded => Phase::Succeeded,
        StepPhase::Failed if state.is_over() => Phase::Failed,
        StepPhase::Failed => Phase::Retrying,
        StepPhase::Skipped => Phase::Skipped,
    }
}

/// The events by which the engine is told of something: a new variant does not compile before an event tells of it.
mod told {
    use super::*;

    pub(super) fn command(command: &Command) -> Event {
        match command {
            Command::Start => Event::RestartAll,
            Command::RestartFrom(_) => Event::RestartHere,
            Command::Terminate => Event::Terminate,
            Command::Pause => Event::Pause,
            Command::Resume => Event::Resume,
            Command::Continue | Command::Rest => Event::Nothing,
        }
    }

    pub(super) fn state(state: ClusterState) -> Event {
        match state {
            // Of what is not dispatched or not reported on there is no evidence.
            ClusterState::Dispatching | ClusterState::Waiting => Event::Stale,
            ClusterState::Progressing | ClusterState::Applied => Event::Nothing,
            ClusterState::Ready => Event::Ready,
            ClusterState::Failed | ClusterState::Unhealthy => Event::FailedOver,
            ClusterState::Unreachable => Event::Unreachable,
        }
    }

    pub(super) fn evidence(evidence: &StepEvidence) -> Event {
        match evidence {
            StepEvidence::Refused { .. } => Event::Refused,
            StepEvidence::Blocked { .. } => Event::Blocked,
            StepEvidence::AllowedEmpty => Event::MayBeEmpty,
            StepEvidence::Placed { clusters, .. } => {
                clusters.last().map_or(Event::NoCluster, |c| state(c.state))
            }
        }
    }

    pub(super) fn outcome(outcome: &Outcome) -> Event {
        match outcome {
            Outcome::Done { .. } => Event::Done,
            Outcome::Waiting { .. } => Event::Waits,
            Outcome::Failed { .. } => Event::Fails,
        }
    }
}
