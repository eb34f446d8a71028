//! What clusters refuse because `--fail` says so.

use super::{Args, asked::Fail, never::Asked};
use crate::{
    cli::Failure,
    plan::ApplicationPlan,
    simulate::{
        fault::{Asks, Dice, Effect, On, Parties, Rule, Side},
        run::{Act, Fault},
    },
    words,
};
use std::collections::{BTreeMap, BTreeSet};

/// In the paths of what an agent writes for itself: its ledgers, and reviews of what it may do. Their definition is there before
/// anything is refused.
const OWN: [&str; 2] = ["/appliedbundles", "/authorization.k8s.io/"];

/// What an option makes some clusters refuse.
#[derive(Debug)]
pub(super) struct Refusal {
    /// The version with which it begins, the first being 0.
    pub(super) version: usize,
    option: String,
    step: String,
    clusters: Vec<String>,
}

/// The clusters of each placing step of a version.
type Steps = BTreeMap<String, BTreeSet<String>>;

/// What `--fail` makes clusters refuse, over the plans of each version.
///
/// # Errors
/// An option names a step that no version has, or that places nothing; a version cannot be planned in which it may be.
pub(super) fn of(
    args: &Args,
    versions: Vec<Result<Vec<ApplicationPlan>, Failure>>,
) -> Result<Vec<Refusal>, Failure> {
    let (mut steps, mut unplanned) = (Vec::new(), None);
    for plans in versions {
        match plans {
            Ok(plans) => steps.push(steps_of(&plans)),
            Err(failure) => {
                unplanned = Some(failure);
                break;
            }
        }
    }
    let mut refusals: Vec<Refusal> = Vec::new();
    for fail in &args.fail {
        if refusals.iter().any(|refusal| refusal.step == fail.step) {
            let what = format!("--fail: step {:?} is there twice", fail.step);
            return Err(Failure::new("E-STEP", what).advise("one --fail for each step"));
        }
        let placed = |steps: &Steps| steps.get(&fail.step).filter(|placed| !placed.is_empty()).cloned();
        let mut found = steps.iter().enumerate();
        let found = found.find_map(|(version, steps)| Some((version, placed(steps)?)));
        let Some((version, placed)) = found else {
            return Err(unplanned.unwrap_or_else(|| no_step(fail, &steps)));
        };
        refusals.push(Refusal {
            version,
            option: fail.to_string(),
            step: fail.step.clone(),
            clusters: chosen(fail, args.seed, &placed),
        });
    }
    Ok(refusals)
}

impl Refusal {
    /// How it begins.
    pub(super) fn begins(&self) -> (Act, Asked) {
        let who = Parties::these(self.clusters.iter().map(String::as_str));
        let on = On::all_of(who).to(Side::Member).that(Asks::Write).but_at(&OWN);
        let refuse = Effect::Answer {
            code: 403,
            retry_after: None,
        };
        let rule = Rule::always(on, refuse).once_begins(&self.step);
        let asked = Asked {
            option: self.option.clone(),
            step: Some(self.step.clone()),
        };
        (Act::Begin(Fault::Network(rule), None), asked)
    }
}

fn steps_of(plans: &[ApplicationPlan]) -> Steps {
    let mut steps = Steps::new();
    for decision in plans.iter().flat_map(|plan| &plan.decisions) {
        let of_step = steps.entry(decision.spec.step.clone()).or_default();
        of_step.extend(decision.spec.clusters.iter().cloned());
    }
    steps
}

fn no_step(fail: &Fail, steps: &[Steps]) -> Failure {
    let all: BTreeSet<&String> = steps.iter().flat_map(BTreeMap::keys).collect();
    if all.contains(&fail.step) {
        let why = format!("--fail: step {:?} places nothing on any cluster", fail.step);
        return Failure::new("E-STEP", why).advise("a step that does");
    }
    let names: Vec<String> = all.into_iter().cloned().collect();
    let what = format!("--fail: no placing step is named {:?}", fail.step);
    Failure::new("E-STEP", what)
        .because(format!("the placing steps are {}", words::listed(&names, 10)))
        .advise("one of these names")
}

/// So many of the clusters that the placement gives to a step.
fn chosen(fail: &Fail, seed: u64, placed: &BTreeSet<String>) -> Vec<String> {
    let placed: Vec<String> = placed.iter().cloned().collect();
    let many = (placed.len() * usize::from(fail.percent)).div_ceil(100);
    Dice::new(seed, &format!("fail {}", fail.step)).sample(&placed, many)
}
