//! What was asked for and never came about.

use super::script::Made;
use crate::simulate::run::{Act, Fault, Missed, Outcome};

/// An option that something of a script stands for.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    /// As it was written.
    pub(super) option: String,
    /// The step that it is about.
    pub(super) step: Option<String>,
}

/// What never came about, and why, in sentences.
pub(super) fn of(made: &Made, outcome: &Outcome) -> Vec<String> {
    let missed = outcome.missed.iter();
    let mut all: Vec<String> = missed
        .filter_map(|missed| sentence(*missed, made, outcome))
        .collect();
    // A file has several objects.
    all.dedup();
    all
}

/// What to try for it, each once.
pub(super) fn advice(made: &Made, outcome: &Outcome) -> Vec<&'static str> {
    let missed = outcome.missed.iter();
    let mut all: Vec<&'static str> = Vec::new();
    for tries in missed.filter_map(|missed| tries(*missed, made, outcome)) {
        if !all.contains(&tries) {
            all.push(tries);
        }
    }
    all
}

fn tries(missed: Missed, made: &Made, outcome: &Outcome) -> Option<&'static str> {
    let begun = |step: &String| outcome.steps_begun.contains(step);
    let gate = "--resume with the step that waits for a person, if one does";
    Some(match missed {
        Missed::Cue(cue) => {
            made.asked.get(&cue)?;
            "a later --until, or @TIME behind it"
        }
        Missed::Unbegun(cue) if begun(made.asked.get(&cue)?.step.as_ref()?) => {
            "--forever, with which it is there also then"
        }
        Missed::Fault(cue) if made.asked.get(&cue)?.step.as_ref().is_none_or(begun) => {
            "more clusters, or another --seed, which chooses them"
        }
        Missed::Resume(resume) if begun(&made.script.resumes.get(resume)?.step) => {
            "the run without this --resume, or with an earlier @TIME"
        }
        Missed::Unbegun(_) | Missed::Fault(_) | Missed::Resume(_) => gate,
    })
}

fn sentence(missed: Missed, made: &Made, outcome: &Outcome) -> Option<String> {
    let begun = |step: &String| outcome.steps_begun.contains(step);
    match missed {
        Missed::Cue(cue) => {
            let asked = made.asked.get(&cue)?;
            Some(format!("{} never came: the run was over before", asked.option))
        }
        Missed::Unbegun(cue) => {
            let Asked { option, step } = made.asked.get(&cue)?;
            let step = step.as_ref()?;
            let why = match begun(step) {
                true => "began only when all faults had ended",
                false => "never began",
            };
            Some(format!("{option} never struck: step {step} {why}"))
        }
        Missed::Fault(cue) => {
            let Asked { option, step } = made.asked.get(&cue)?;
            let why = match step.as_ref().filter(|step| !begun(step)) {
                Some(step) => format!("step {step} never began"),
                None => format!(
                    "nothing was written in {}",
                    whom(&made.script.cues.get(cue)?.act)?
                ),
            };
            Some(format!("{option} never struck: {why}"))
        }
        Missed::Resume(resume) => {
            let step = &made.script.resumes.get(resume)?.step;
            let why = match begun(step) {
                true => "it made no run wait then",
                false => "it never began",
            };
            Some(format!("--resume {step} never came: {why}"))
        }
    }
}

/// Whom a fault of the network is to befall.
fn whom(act: &Act) -> Option<String> {
    match act {
        Act::Begin(Fault::Network(rule), _) => Some(rule.on.who.to_string()),
        _ => None,
    }
}
