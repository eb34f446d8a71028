//! `roundhouse explain`: why, why not, the arithmetic, and the smallest change that flips it.

mod arithmetic;
mod cluster;
mod read;
mod structured;
#[cfg(test)]
mod tests;

use super::{Failure, format::Format, hub, terminal};
use crate::{
    explain::{self, Aim, Hold, Kept, Reason, Search, Setting, Source, StepAnswer},
    placement::StepDecision,
    tenancy::Tenancy,
};
use roundhouse_api::{decision::DecisionSpec, names::ClusterName};
use std::{collections::BTreeMap, path::PathBuf, process::ExitCode};

/// Explain where an application goes: the arithmetic, and for one cluster why, why not, and what would flip it
///
/// Without --cluster: how the replicas of each workload come to their clusters, step by step and rule by rule. With
/// --cluster: every condition in the order in which it is asked, the one that decides, and the smallest changes that
/// would flip it; of a run that has ended without success none would, before it is started again (`runEnded` of -o json).
/// Nothing is written; every change that is named was tried out with the placement function itself. What the hub does not
/// accept is not explained: it says why, as `roundhouse plan` does.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Name of the application
    #[arg(value_name = "APP")]
    pub(super) application: String,
    /// Explain this cluster only
    #[arg(long, value_name = "C", value_parser = |name: &str| ClusterName::new(name))]
    pub(super) cluster: Option<ClusterName>,
    /// Namespace of the application
    #[arg(short, long, value_name = "NS", default_value = "default")]
    pub(super) namespace: String,
    /// Explain this step only
    #[arg(long, value_name = "S")]
    pub(super) step: Option<String>,
    /// Read the application from these files or directories (- for stdin) instead of the hub
    #[arg(short, long = "filename", value_name = "FILE")]
    pub(super) files: Vec<PathBuf>,
    /// A YAML or JSON list of Clusters: ask no hub; needs -f
    #[arg(long, value_name = "F", requires = "files", conflicts_with = "kubeconfig")]
    pub(super) inventory: Option<PathBuf>,
    /// Kubeconfig of the hub; $KUBECONFIG or ~/.kube/config if absent
    #[arg(long, value_name = "F")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Judge by this tenancy: what Applications may contain (see `roundhouse serve --help`) [default: what the hub says of
    /// itself; with --inventory everything]
    ///
    /// With --inventory, Namespaces among the files say what they allow.
    #[arg(long, value_enum, value_name = "T")]
    pub(super) tenancy: Option<Tenancy>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(super) output: Format,
}

/// An application that can be explained.
pub(super) struct Subject {
    /// All that its decisions depend on.
    pub(super) setting: Setting,
    /// Where its steps are written.
    pub(super) source: Source,
    /// What is decided, in the order of the steps.
    pub(super) decisions: Vec<explain::InForce>,
    /// The steps that are held, by name: why, and what stays in force.
    pub(super) held: BTreeMap<String, (Hold, DecisionSpec)>,
    /// What a run has come to that has ended without success.
    pub(super) ended: Option<Ended>,
    /// Whether nothing can be placed at all: what is said is what was decided before.
    pub(super) unresolved: bool,
    /// The clusters that are to lose the application and have not yet.
    pub(super) leaving: BTreeMap<String, Leaving>,
    /// Places of the steps that are explained.
    pub(super) steps: Vec<usize>,
}

/// A run that has ended without success: where it has not come to, everything stays as it is.
pub(super) struct Ended {
    /// The steps that it had begun, as they were decided.
    begun: BTreeMap<String, DecisionSpec>,
    /// Cluster -> the step that its Bundles are of, and the replicas that they ask for.
    runs: BTreeMap<String, (String, u64)>,
}

impl Ended {
    /// Whether it has brought a step to a cluster.
    fn reached(&self, step: &str, cluster: &str) -> bool {
        self.begun.get(step).is_some_and(|decided| {
            decided.clusters.iter().any(|name| name == cluster) && decided.waits(cluster).is_none()
        })
    }

    /// What a cluster keeps of a step that has not come to it.
    fn kept(&self, step: &str, cluster: &str) -> Kept {
        let runs = self.runs.get(cluster).filter(|(of, _)| of == step);
        Kept {
            hold: Hold::RunEnded,
            placed: runs.is_some(),
            replicas: runs.map_or(0, |(_, replicas)| *replicas),
        }
    }
}

impl Subject {
    /// What holds a step, one line each; empty if nothing does.
    fn holds(&self, decision: &StepDecision) -> Vec<String> {
        if let Some((hold, _)) = self.held.get(&decision.step) {
            return hold.lines();
        }
        let Some(ended) = &self.ended else {
            return Vec::new();
        };
        let mut lacking = decision.clusters.iter().map(ToString::to_string);
        match lacking.any(|cluster| !ended.reached(&decision.step, &cluster)) {
            true => Hold::RunEnded.lines(),
            false => Vec::new(),
        }
    }
}

/// What of an application is still on a cluster that is to lose it.
pub(super) struct Leaving {
    /// The step that placed it there.
    pub(super) step: String,
    /// Replicas that its Bundles ask for.
    pub(super) replicas: u64,
    /// Why it is still there.
    pub(super) hold: Hold,
}

/// What is said of one cluster in one step.
pub(super) struct Verdict {
    pub(super) answer: StepAnswer,
    /// What is looked for.
    pub(super) aim: Aim,
    /// What the cluster keeps if the step, or the cluster in it, is held.
    pub(super) kept: Option<Kept>,
    /// What was found; `None` where nobody asked: another step places the cluster, or the step is held and nothing that
    /// placement answers is carried out, or the run has ended.
    pub(super) search: Option<Search>,
    /// The run has ended without success, so that no change would do anything before it is started again.
    pub(super) ended: bool,
}

pub(super) async fn run(args: Args) -> Result<ExitCode, Failure> {
    let subject = read::subject(&args).await?;
    let color = terminal::color_on_stdout();
    let text = match &args.cluster {
        None => match args.output.structured(|| structured::arithmetic(&subject))? {
            Some(text) => text,
            None => arithmetic::draw(&subject, args.output),
        },
        Some(cluster) => {
            let verdicts = verdicts(&subject, cluster.as_str())?;
            let value = || structured::cluster(&subject, cluster.as_str(), &verdicts);
            match args.output.structured(value)? {
                Some(text) => text,
                None => cluster::draw(&subject, cluster.as_str(), &verdicts, args.output, color),
            }
        }
    };
    terminal::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Explains a cluster.
fn verdicts(subject: &Subject, cluster: &str) -> Result<Vec<Verdict>, Failure> {
    let setting = &subject.setting;
    let answers = match subject.unresolved {
        true => setting.cluster(cluster).map(|_| {
            let decisions = subject.decisions.iter();
            decisions
                .map(|decided| explain::as_decided(&decided.decision, cluster))
                .collect()
        }),
        false => explain::conditions(setting, &setting.place(), cluster),
    };
    let answers: Vec<StepAnswer> = answers.ok_or_else(|| {
        let names: Vec<String> = setting
            .inventory
            .clusters()
            .iter()
            .map(|facts| facts.name.clone())
            .collect();
        hub::no_cluster(cluster, &names, "--cluster with one of them")
    })?;
    let placed_somewhere = answers.iter().any(|answer| answer.reason.is_placed());
    let one_step = subject.steps.len() == 1;
    let wanted = answers
        .into_iter()
        .enumerate()
        .filter(|(step, _)| subject.steps.contains(step));
    Ok(wanted
        .map(|(step, mut answer)| {
            let placed = answer.reason.is_placed();
            let aim = if placed { Aim::Exclude } else { Aim::Include };
            // A step for other clusters is no riddle when this one has its own.
            let for_others = !one_step
                && placed_somewhere
                && answer.reason == Reason::NotChosen(crate::placement::NotChosen::NotMatched);
            let kept = kept(subject, step, &answer, cluster);
            if let Some(kept) = &kept {
                kept.decides(&mut answer);
            }
            // How to keep a cluster that is to lose the application; otherwise nothing that placement answers is
            // carried out where something is held.
            let may_flip = match kept.as_ref().map(|kept| &kept.hold) {
                None | Some(Hold::Removal(_) | Hold::RemovalOutOfReach) => true,
                Some(Hold::Overrides(_) | Hold::Placement(_) | Hold::RunEnded | Hold::OutOfReach) => false,
            };
            let asked = may_flip && (placed || !for_others);
            let ended = asked && subject.ended.is_some();
            Verdict {
                kept,
                search: (asked && !ended)
                    .then(|| explain::search(setting, cluster, step, aim))
                    .flatten(),
                ended,
                answer,
                aim,
            }
        })
        .collect())
}

/// What holds a step, or the cluster in it.
fn kept(subject: &Subject, step: usize, answer: &StepAnswer, cluster: &str) -> Option<Kept> {
    if let Some((hold, decision)) = subject.held.get(&answer.step) {
        return Some(Kept::of(hold.clone(), decision, cluster));
    }
    if let Some(ended) = &subject.ended
        && answer.reason.is_placed()
        && !ended.reached(&answer.step, cluster)
    {
        return Some(ended.kept(&answer.step, cluster));
    }
    let setting = &subject.setting;
    if answer.reason.is_placed() {
        let facts = setting.cluster(cluster)?;
        // A cluster out of reach is placed only where it holds something.
        return (facts.joined && !facts.reachable).then(|| Kept {
            hold: Hold::OutOfReach,
            placed: true,
            replicas: answer.replicas(),
        });
    }
    let leaving = subject.leaving.get(cluster)?;
    let knows = setting.steps.iter().any(|step| step.name == leaving.step);
    let is_it = answer.step == leaving.step || !knows && step == 0;
    is_it.then(|| Kept {
        hold: leaving.hold.clone(),
        placed: true,
        replicas: leaving.replicas,
    })
}
