use super::*;
use crate::path::Step;

fn path(name: &str) -> FieldPath {
    FieldPath(vec![Step::Field("spec".into()), Step::Field(name.into())])
}

fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

/// An object whose fields somebody rewrites, looked at as an agent does: at each rewrite and when something is due.
struct Arena {
    history: History,
    start: Instant,
    writes: Vec<u64>,
}

impl Arena {
    fn new() -> Self {
        Arena {
            history: History::default(),
            start: Instant::now(),
            writes: Vec::new(),
        }
    }

    fn look(&mut self, content: &str, at: Duration, differing: &[FieldPath]) -> Verdict {
        let now = self.start + at;
        self.history.look(content, false, differing, now);
        if differing.is_empty() {
            return Verdict::Repair;
        }
        let verdict = self.history.verdict(differing, now);
        if verdict == Verdict::Repair {
            self.history.repaired(differing, now);
            self.writes.push(at.as_secs());
        }
        verdict
    }

    /// Somebody rewrites `field` every `period`, for as long as `until`.
    fn rewrite(&mut self, field: &str, period: Duration, until: Duration) {
        let differing = [path(field)];
        let mut next = period;
        while next <= until {
            if self.look("c", next, &differing) != Verdict::Repair {
                let rewritten = self.start + next + period;
                if let Some(due) = self.history.due().filter(|due| *due < rewritten) {
                    self.look("c", due.saturating_duration_since(self.start), &differing);
                }
            }
            next += period;
        }
    }
}

#[test]
fn against_an_autoscaler_that_never_gives_up_the_writes_of_an_hour_are_bounded() {
    let mut arena = Arena::new();
    arena.rewrite("replicas", Duration::from_secs(15), minutes(60));
    assert_eq!(arena.writes.len(), REPAIRS + 5, "{:?}", arena.writes);
    assert!(arena.history.is_fought());
    let fought: Vec<String> = arena.history.fought().map(ToString::to_string).collect();
    assert_eq!(fought, ["spec.replicas"]);
    let mut arena = Arena::new();
    arena.rewrite("replicas", Duration::from_secs(15), minutes(24 * 60));
    assert!(
        arena.writes.len() <= REPAIRS + 5 + 2 * 23,
        "{}",
        arena.writes.len()
    );
}

#[test]
fn every_writer_that_comes_back_within_five_minutes_is_noticed_and_slower_ones_cost_little() {
    for (period, fought) in [
        (1, true),
        (15, true),
        (180, true),
        (299, true),
        (360, false),
        (3600, false),
    ] {
        let mut arena = Arena::new();
        arena.rewrite("replicas", Duration::from_secs(period), minutes(120));
        assert_eq!(arena.history.is_fought(), fought, "every {period} s");
        assert!(
            arena.writes.len() <= 24,
            "every {period} s: {} writes in two hours",
            arena.writes.len()
        );
    }
}

#[test]
fn a_field_that_is_not_fought_over_is_repaired_at_once() {
    let mut arena = Arena::new();
    arena.rewrite("replicas", Duration::from_secs(15), minutes(5));
    let (replicas, image) = (path("replicas"), path("image"));
    let now = minutes(5) + Duration::from_secs(1);
    assert!(matches!(
        arena.look("c", now, std::slice::from_ref(&replicas)),
        Verdict::BackOff { .. }
    ));
    assert_eq!(arena.look("c", now, &[replicas, image]), Verdict::Repair);
}

#[test]
fn a_fight_is_over_when_the_value_stays_ours_or_the_content_changes_or_the_field_is_no_longer_minded() {
    let begun = || {
        let mut arena = Arena::new();
        arena.rewrite("replicas", Duration::from_secs(15), minutes(4));
        assert!(arena.history.is_fought());
        arena
    };
    // It stays ours.
    let mut arena = begun();
    arena.look("c", minutes(5), &[]);
    assert_eq!(arena.history.due(), Some(arena.start + minutes(5) + QUIET));
    arena.look("c", minutes(5) + QUIET - Duration::from_secs(1), &[]);
    assert!(arena.history.is_fought());
    arena.look("c", minutes(5) + QUIET, &[]);
    assert!(arena.history.is_empty());
    // It is ours for a while only.
    let mut arena = begun();
    arena.look("c", minutes(5), &[]);
    arena.look("c", minutes(6), &[path("replicas")]);
    arena.look("c", minutes(7), &[]);
    arena.look("c", minutes(5) + QUIET, &[]);
    assert!(arena.history.is_fought());
    // The content changes: it is written at once.
    let mut arena = begun();
    assert_eq!(
        arena.look("other", minutes(5), &[path("replicas")]),
        Verdict::Repair
    );
    assert!(!arena.history.is_fought());
    // The bundle was written anew, and the field is none that differs now.
    let mut arena = begun();
    arena.history.look("c", true, &[], arena.start + minutes(5));
    assert!(!arena.history.is_fought());
    // The bundle was written anew, and nothing changed for this object.
    let mut arena = begun();
    arena
        .history
        .look("c", true, &[path("replicas")], arena.start + minutes(5));
    assert!(arena.history.is_fought());
}

#[test]
fn an_answer_that_overrules_the_write_is_a_fight_at_once() {
    let mut arena = Arena::new();
    let (differing, start) = ([path("replicas")], arena.start);
    arena.look("c", minutes(0), &differing);
    arena.history.overruled(&differing, start);
    assert!(arena.history.is_fought());
    let mut writes = 1;
    let mut now = start;
    while let Some(due) = arena.history.due().filter(|due| *due <= start + minutes(60)) {
        assert!(due > now, "time goes on");
        now = due;
        arena.history.look("c", false, &differing, now);
        assert_eq!(arena.history.verdict(&differing, now), Verdict::Repair);
        arena.history.repaired(&differing, now);
        arena.history.overruled(&differing, now);
        writes += 1;
    }
    assert_eq!(writes, 6, "1, 2, 4, 8 and 16 minutes after one another");
}

#[test]
fn what_is_remembered_is_bounded() {
    let many: Vec<FieldPath> = (0..10_000)
        .map(|n| {
            FieldPath(vec![
                Step::Field("data".into()),
                Step::Field("k".into()),
                Step::Field(format!("{n}").into()),
            ])
        })
        .collect();
    let mut arena = Arena::new();
    for round in 0..10 {
        arena.look("c", Duration::from_secs(round), &many);
    }
    assert_eq!(arena.history.fields.len(), 1);
    assert!(arena.history.is_fought());
    for n in 0..10 {
        arena.history.seen_rival(format!("manager-{n}"));
    }
    assert_eq!(arena.history.rivals().count(), MAX_RIVALS);
}
