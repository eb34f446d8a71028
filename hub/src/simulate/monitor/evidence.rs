//! P7: a step passes on its own revision's evidence only: what its clusters have reported about the very content that they
//! hold, and that content is of the revision that the run delivers.

use super::{
    commit::Commit,
    fields::annotation_of,
    model::{APPLICATIONS, BUNDLES, Content, Held, Model, Revision},
    promise::{Check, Found, Promise},
};
use crate::simulate::{HUB, raw};
use kube::ResourceExt;
use roundhouse_api::{
    application::{
        ACCEPTED, Application, ApplicationPhase, ApplicationStatus, ClusterVerb, DELIVERED, DeployStep,
        ReadyShare, StepKind, StepPhase, StepStatus, Until, ValidStep, WaitFor, WaitStep,
    },
    bundle::{APPLIED, Bundle, BundlePhase, BundleStatus},
    cluster::Cluster,
    condition,
    names::{annotation, cluster_of_namespace, label, step_of_bundle},
    placement::PlacementSpec,
};
use roundhouse_apiserver::{Key, Record};
use serde_json::Value;
use std::{collections::BTreeSet, time::Duration};

#[derive(Debug, Default)]
pub(super) struct Passing;

/// The application whose step passes.
struct Run<'a> {
    model: &'a Model,
    namespace: &'a str,
    name: &'a str,
    /// Name of the revision that the run delivers, and what it says.
    revision: (&'a str, &'a Revision),
    /// Steps of the run that had begun before, but for those that it passes over: what they show can be known.
    begun: BTreeSet<&'a str>,
    /// Those that had failed.
    failed: BTreeSet<&'a str>,
    at: Duration,
}

impl Check for Passing {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        let reports = (&*commit.server, &*commit.key.table) == (HUB, BUNDLES);
        if reports && commit.by().is_some_and(|who| who.agent().is_some()) {
            return told(commit, model, found);
        }
        if !commit.by().is_some_and(|who| who.is_hub()) {
            return;
        }
        match (&*commit.server, &*commit.key.table) {
            (HUB, APPLICATIONS) => {}
            (HUB, BUNDLES) => return begins(commit, model, found),
            _ => return,
        }
        let Some(status) = commit.read::<Application>().and_then(|a| a.status) else {
            return;
        };
        // What others have written into it is theirs.
        let was = status_of(commit.before()).unwrap_or_default();
        if told_of(&was) != told_of(&status)
            && !(awaits_its_run(&was) && awaits_its_run(&status))
            && let Err((expected, is)) = is_of_its_run(&status, found)
        {
            found.broke(Promise::P7, commit.object(), expected, is);
        }
        let Some(after) = status.workflow else {
            return;
        };
        let before = was.workflow.unwrap_or_default();
        let (namespace, name) = (&*commit.key.namespace, &*commit.key.name);
        let Some(of) = after.app_revision.as_deref() else {
            return;
        };
        let Some(revision) = model.revisions.get(&(namespace.into(), of.into())) else {
            return;
        };
        // A run that begins again at a step keeps what comes before it.
        let same = before.app_revision == after.app_revision;
        let known = before
            .all_steps()
            .filter(|step| same && ![StepPhase::Pending, StepPhase::Skipped].contains(&step.phase));
        let failed = before
            .all_steps()
            .filter(|step| step.phase == StepPhase::Failed && step.is_over());
        let run = Run {
            failed: failed.map(|step| step.name.as_str()).collect(),
            model,
            namespace,
            name,
            revision: (of, revision),
            begun: known.map(|step| step.name.as_str()).collect(),
            at: commit.at,
        };
        let had = |step: &StepStatus| {
            let before = before.step(&step.name).filter(|_| same);
            before.is_some_and(|before| {
                before.phase == StepPhase::Succeeded && before.first_execute_time == step.first_execute_time
            })
        };
        for step in after.all_steps() {
            if step.phase != StepPhase::Succeeded || had(step) {
                continue;
            }
            let Some(valid) = revision.valid.all_steps().find(|valid| valid.name == step.name) else {
                continue;
            };
            if let Some(part) = part(&valid.kind) {
                found.judges_part(Promise::P7, part);
            }
            if let Err((expected, is)) = run.passes(valid) {
                let is = format!("step {} of {of} has passed; {is}", step.name);
                found.broke(Promise::P7, commit.object(), expected, is);
            }
        }
    }
}

pub(super) fn status_of(application: &Value) -> Option<ApplicationStatus> {
    serde_json::from_value(application.get("status")?.clone()).ok()
}

/// Whether somebody has asked for another run by taking away the one that was there, and none has begun.
fn awaits_its_run(status: &ApplicationStatus) -> bool {
    status.workflow.is_none() && status.phase == Some(ApplicationPhase::RunningWorkflow)
}

/// What a status says of which spec, and the run that this is about.
fn told_of(status: &ApplicationStatus) -> impl PartialEq {
    let run = status.workflow.as_ref();
    let delivered = condition::get(&status.conditions, DELIVERED);
    (
        status.observed_generation,
        status.phase,
        run.map(|run| (run.generation, run.status, run.finished)),
        delivered.map(|delivered| (delivered.status.clone(), delivered.observed_generation)),
    )
}

/// What a status tells of a spec is how the run of that spec went. One that was refused has none, nor has what goes.
fn is_of_its_run(status: &ApplicationStatus, found: &mut Found<'_>) -> Result<(), (String, String)> {
    use ApplicationPhase as Phase;
    let run = status.workflow.as_ref();
    let of_run = run.and_then(|run| run.generation);
    let said = of_run.map_or("there is none".to_owned(), |run| format!("it is of {run}"));
    let delivered = condition::get(&status.conditions, DELIVERED).filter(|told| told.status == "True");
    if let Some(delivered) = delivered
        && delivered.observed_generation != of_run
    {
        let of = delivered.observed_generation.unwrap_or_default();
        return Err((format!("generation {of} to be delivered by its run"), said));
    }
    let (Some(of), Some(phase)) = (status.observed_generation, status.phase) else {
        return Ok(());
    };
    let ended = match phase {
        Phase::Deleting => return Ok(()),
        Phase::Rendering if is_refused(status, of) => return Ok(()),
        Phase::Rendering => return Err((format!("a reason to refuse generation {of}"), "none".to_owned())),
        Phase::RunningWorkflow | Phase::WorkflowSuspending => None,
        Phase::Running | Phase::Unhealthy => Some(StepPhase::Succeeded),
        Phase::WorkflowTerminated | Phase::WorkflowFailed => Some(StepPhase::Failed),
    };
    found.judges_part(Promise::P7, "statuses are of their run");
    if of_run != Some(of) {
        return Err((
            format!("{phase:?} of generation {of} to be the phase of its run"),
            said,
        ));
    }
    let is = run.and_then(|run| run.status.filter(|_| run.finished));
    if ended != is {
        let expected = format!("{phase:?} where the run has ended as {ended:?}");
        return Err((expected, format!("{is:?}")));
    }
    Ok(())
}

fn is_refused(status: &ApplicationStatus, generation: i64) -> bool {
    let accepted = condition::get(&status.conditions, ACCEPTED);
    accepted.is_some_and(|told| told.status == "False" && told.observed_generation == Some(generation))
}

/// By which part a step is judged, if what it waits for is known here.
fn part(kind: &StepKind) -> Option<&'static str> {
    match kind {
        StepKind::Deploy(_) => Some("steps that place pass"),
        StepKind::Wait(WaitStep::Fleet { until, .. }) if asks(until).is_some() => {
            Some("steps that wait pass")
        }
        StepKind::ClusterObject(object) if object.verb != ClusterVerb::Delete => {
            Some("steps of objects pass")
        }
        _ => None,
    }
}

/// An agent reports: what it says is applied, or ready, has been so in its cluster since that content was written.
fn told(commit: &Commit, model: &Model, found: &mut Found<'_>) {
    let name = (commit.key.namespace.clone(), commit.key.name.clone());
    let (Some(bundle), Some(held)) = (commit.read::<Bundle>(), model.bundles.get(&name)) else {
        return;
    };
    let Some(status) = bundle
        .status
        .filter(|_| bundle.metadata.uid.as_ref() == Some(&held.uid))
    else {
        return;
    };
    let Some(generation) = held.reports_anew(&status) else {
        return;
    };
    if status.phase == Some(BundlePhase::Cleaned) {
        return cleaned(commit, held, model, found);
    }
    let content = held.contents.get(&generation);
    let Some(content) = content.filter(|content| content.spec.deletion.is_none()) else {
        return;
    };
    let ready = shows(&status, WaitFor::Ready);
    if !ready && !shows(&status, WaitFor::Applied) {
        return;
    }
    found.judges_part(Promise::P7, "what agents report");
    let unlike: Vec<String> = content
        .unlike(ready)
        .map(|(table, namespace, name)| format!("{table} {namespace}/{name}"))
        .collect();
    if !unlike.is_empty() {
        let said = if ready { "ready" } else { "applied" };
        let expected =
            format!("what is reported {said} of generation {generation} to have been so there since");
        found.broke(
            Promise::P7,
            commit.object(),
            expected,
            format!("never was: {}", unlike.join(", ")),
        );
    }
}

/// An agent reports that nothing of a Bundle is left: nothing is that it marked as this Bundle's. What a member that is put back has
/// again it may not have seen where its report was under way already.
fn cleaned(commit: &Commit, held: &Held, model: &Model, found: &mut Found<'_>) {
    let member = cluster_of_namespace(&commit.key.namespace).unwrap_or_default();
    if model.is_put_back_since(member, commit.sent()) {
        return;
    }
    let manifests = held.all_contents().flat_map(|content| &content.manifests);
    let carried: BTreeSet<_> = manifests.filter_map(|(object, _)| object.as_ref()).collect();
    found.judges_part(Promise::P7, "what agents report to be gone");
    let is_left = |(key, record): &(&Key, &Record)| {
        let live: Value = serde_json::from_slice(&record.bytes).unwrap_or_default();
        let owner = annotation_of(&live, annotation::OWNED_BY).and_then(|owner| owner.split_once('/'));
        owner.is_some_and(|(_, bundle)| *bundle == *commit.key.name) && !model.is_remade(member, key)
    };
    let mut left = carried
        .into_iter()
        .flat_map(|object| model.live(member, object))
        .filter(is_left);
    if let Some((key, _)) = left.next() {
        let expected = "nothing of a Bundle that is reported to be cleaned up to be left";
        let is = format!("{} {}/{} is there", key.table, key.namespace, key.name);
        found.broke(Promise::P7, commit.object(), expected, is);
    }
}

/// The number of a revision, by its name.
fn number(revision: &str) -> Option<u64> {
    revision.rsplit_once("-v")?.1.parse().ok()
}

/// What a run delivers gets to a cluster when the step that brings it there has begun: so not before those have passed that it
/// comes after.
fn begins(commit: &Commit, model: &Model, found: &mut Found<'_>) {
    let Some(bundle) = commit.read::<Bundle>() else {
        return;
    };
    let was = commit.before().pointer("/spec/revision").and_then(Value::as_str);
    let labels = bundle.metadata.labels.as_ref();
    let (Some(of), Some(revision), Some(step)) = (
        &bundle.spec.application_ref,
        bundle
            .spec
            .revision
            .as_deref()
            .filter(|revision| was != Some(revision)),
        labels.and_then(|all| all.get(label::STEP)),
    ) else {
        return;
    };
    // One that is made by a request that was given up long ago: what has no version yet cannot be fenced.
    let overdue = commit.asked.as_ref().and_then(|asked| asked.overdue);
    if bundle.spec.deletion.is_some() || (commit.before.is_none() && overdue.is_some()) {
        return;
    }
    let name = (of.namespace.as_str().into(), of.name.as_str().into());
    let application = model.applications.get(&name);
    let Some(workflow) = application.and_then(|application| application.status.workflow.as_ref()) else {
        return;
    };
    let Some(present) = workflow.app_revision.as_deref() else {
        return;
    };
    // What an earlier run has left goes on.
    if present != revision && number(revision) < number(present) {
        return;
    }
    found.judges_part(Promise::P7, "steps begin");
    if present != revision {
        let expected = format!("nothing of {revision} before a run of it");
        found.broke(
            Promise::P7,
            commit.object(),
            expected,
            format!("the run is of {present}"),
        );
        return;
    }
    let has_begun = |step: &str| {
        let phase = workflow.step(step).map(|step| step.phase);
        phase.is_some_and(|phase| phase != StepPhase::Pending)
    };
    // A cluster that is going over from a later step, whose Decision of an earlier run still has it, to one that has begun is
    // under both for a while, and its Bundle says the later one.
    let cluster = cluster_of_namespace(&commit.key.namespace).unwrap_or_default();
    let own = || {
        let decided = model
            .decisions
            .values()
            .chain(model.deleted.values().map(|(decision, _)| decision));
        decided.filter(|decision| {
            let owner = &decision.application_ref;
            (&owner.namespace, &owner.name) == (&of.namespace, &of.name)
                && decision.clusters.iter().any(|placed| placed == cluster)
        })
    };
    // Nor is one that has vanished told from one that an earlier run of this revision has decided on and never made: it is made again.
    let decided_before = own().any(|decision| decision.step == *step && decision.revision == revision);
    if commit.before.is_none() && decided_before {
        return;
    }
    let had = own().any(|decision| decision.step == *step && decision.revision != revision);
    let mut decided = own().filter(|decision| decision.revision == revision);
    let comes_from = had && decided.any(|decision| has_begun(&decision.step));
    if !has_begun(step) && !comes_from {
        let expected = format!("step {step} to have begun before it brings {revision} anywhere");
        found.broke(Promise::P7, commit.object(), expected, "it has not");
    }
}

type Judged = Result<(), (String, String)>;

impl Run<'_> {
    fn passes(&self, step: &ValidStep) -> Judged {
        match &step.kind {
            StepKind::Deploy(deploy) => self.placed(&step.name, deploy),
            StepKind::Wait(WaitStep::Fleet { until, steps }) => self.waited(until, steps),
            StepKind::ClusterObject(object) if object.verb != ClusterVerb::Delete => {
                self.applied(&step.name, &object.placement)
            }
            _ => Ok(()),
        }
    }

    /// A placing step: by its Decision, and by what each of its clusters has reported.
    fn placed(&self, step: &str, deploy: &DeployStep) -> Judged {
        let (of, _) = self.revision;
        let Some(decision) = self.model.decided(self.namespace, self.name, step) else {
            return Err(("a Decision".to_owned(), "there is none".to_owned()));
        };
        if decision.revision != of {
            let is = format!("its Decision is of {}", decision.revision);
            return Err((format!("a Decision of {of}"), is));
        }
        if !decision.satisfied {
            let is = decision.reasons.join("; ");
            return Err((
                "a Decision that is satisfied".to_owned(),
                format!("its Decision is not: {is}"),
            ));
        }
        let all = decision.clusters.len();
        let lacks = |wait| self.lacking(decision.clusters.iter(), wait);
        let Some(until) = &deploy.until else {
            let missing = lacks(deploy.wait);
            let expected = format!("the evidence of {all} clusters for {:?}", deploy.wait);
            return match missing.is_empty() {
                true => Ok(()),
                false => Err((expected, missing.join("; "))),
            };
        };
        // Before anybody is counted everybody has got it.
        let missing = lacks(WaitFor::None);
        if !missing.is_empty() {
            return Err((format!("Bundles of {all} clusters"), missing.join("; ")));
        }
        match all {
            0 => Ok(()),
            _ => is_shown(until, all, lacks),
        }
    }

    /// A step that waits for what others place: of those of its steps that the run has come to.
    fn waited(&self, until: &Until, steps: &[String]) -> Judged {
        let (of, revision) = self.revision;
        let placing = revision.valid.all_steps().filter(|step| {
            let is_named = steps.is_empty() || steps.contains(&step.name);
            is_named && step.kind.deploy().is_some() && self.begun.contains(step.name.as_str())
        });
        let decided = placing.filter_map(|step| self.model.decided(self.namespace, self.name, &step.name));
        // One that has failed and has decided nothing for it has come to nobody.
        let decided =
            decided.filter(|decision| decision.revision == of || !self.failed.contains(&*decision.step));
        let clusters: BTreeSet<&String> = decided.flat_map(|decision| &decision.clusters).collect();
        is_shown(until, clusters.len(), |wait| {
            self.lacking(clusters.iter().copied(), wait)
        })
    }

    /// The clusters that have not shown this of the revision, and why. One that leaves is asked for nothing any more; the next
    /// Decision is without it.
    fn lacking<'c>(&self, clusters: impl Iterator<Item = &'c String>, wait: WaitFor) -> Vec<String> {
        let asked = clusters.filter(|cluster| !self.model.leaves(cluster));
        let missing = asked.filter_map(|cluster| Some((cluster, self.cluster(cluster, wait).err()?)));
        missing
            .map(|(cluster, why)| format!("{cluster}: {why}"))
            .collect()
    }

    /// What one cluster of a placing step has shown.
    fn cluster(&self, cluster: &str, wait: WaitFor) -> Result<(), String> {
        let own = self.model.bundles_of((self.namespace, self.name));
        let parts = own.filter(|(of, (_, name), _)| *of == cluster && step_of_bundle(name).is_none());
        let parts: Vec<&Held> = parts.map(|(_, _, held)| held).collect();
        if parts.is_empty() {
            return Err("there is no Bundle".to_owned());
        }
        if let Some(why) = self.unlike(&parts) {
            return Err(format!("its Bundle is not what {} says: {why}", self.revision.0));
        }
        parts.into_iter().try_for_each(|held| self.part(held, wait))
    }

    /// What in the Bundles of a cluster is not as the revision has it. Where a Placement may change that on its way, only images are
    /// looked at.
    fn unlike(&self, parts: &[&Held]) -> Option<String> {
        let (_, revision) = self.revision;
        let mut placing = revision.valid.all_steps().filter_map(|step| step.kind.deploy());
        if placing.any(|deploy| deploy.references().next().is_some()) {
            return None;
        }
        let contents = || parts.iter().filter_map(|held| held.present());
        let manifests =
            || contents().flat_map(|content| content.manifests.iter().map(|(_, manifest)| &**manifest));
        raw::unlike(&self.revision.1.everywhere, manifests).next()
    }

    fn part(&self, held: &Held, wait: WaitFor) -> Result<(), String> {
        let Some(content) = held.present().filter(|_| !held.deleting) else {
            return Err("its Bundle is being deleted".to_owned());
        };
        if let Some(image) = self.foreign_image(content) {
            return Err(format!(
                "its Bundle has the image {image}, which is none of {}",
                self.revision.0
            ));
        }
        if wait != WaitFor::None && !content.reports.iter().any(|report| shows(report, wait)) {
            let generation = held.generation;
            return Err(format!(
                "nothing was reported of generation {generation} that shows it"
            ));
        }
        Ok(())
    }

    /// An image that neither the revision nor any Placement names. Of content that was written for an earlier revision it
    /// tells whether it is still what is wanted.
    fn foreign_image<'c>(&self, content: &'c Content) -> Option<&'c str> {
        let (of, revision) = self.revision;
        if content.spec.revision.as_deref() == Some(of) {
            return None;
        }
        let named = |image: &&str| {
            let quoted = Value::from(*image).to_string();
            let mut placements = self.model.placements.values();
            revision.text.contains(&quoted) || placements.any(|placement| placement.contains(&quoted))
        };
        let images = content
            .manifests
            .iter()
            .flat_map(|(_, manifest)| images(manifest));
        images.into_iter().find(|image| !named(image))
    }

    /// A step whose object travels in Bundles of its own. Every cluster that it is for has one, as far as labels and names alone say
    /// which these are, and the hub has to know them.
    fn applied(&self, step: &str, placement: &PlacementSpec) -> Judged {
        let own = || self.model.bundles_of((self.namespace, self.name));
        let has = |cluster: &str| {
            own().any(|(of, (_, name), _)| of == cluster && step_of_bundle(name) == Some(step))
        };
        let mut asked =
            self.model.clusters.iter().filter(|(name, cluster)| {
                is_for(placement, name, cluster) && self.model.is_known(name, self.at)
            });
        if let Some((cluster, _)) = asked.find(|(name, _)| !has(name)) {
            let expected = format!("a Bundle of {step} for {cluster}, which it is for");
            return Err((expected, "there is none".to_owned()));
        }
        // One that the object is not for any more is asked for nothing; its Bundle may stay until somebody confirms that it goes.
        let may_go_without = |cluster: &str| {
            let there = self.model.clusters.get(cluster);
            there.is_some_and(|there| !selects(placement, cluster, there))
                || self.model.may_be_labelled_otherwise(cluster, self.at)
        };
        for (cluster, (_, name), held) in own() {
            if step_of_bundle(name) != Some(step) || held.deleting || may_go_without(cluster) {
                continue;
            }
            let reports = held.present().map_or(&[][..], |content| &content.reports);
            if !reports.iter().any(|report| shows(report, WaitFor::Applied)) {
                let is = format!("{cluster} has reported nothing of generation {}", held.generation);
                return Err((format!("a report of {cluster} that {name} is applied"), is));
            }
        }
        Ok(())
    }
}

/// What an expression over the fleet asks for, where it has a form that is known here: how many clusters have to show what, of so
/// many. Others may hold of whatever clusters show.
fn asks(until: &Until) -> Option<(WaitFor, ReadyShare)> {
    let expression = match until {
        Until::Ready(share) => return Some((WaitFor::Ready, *share)),
        Until::Holds(expression) => expression.to_string(),
    };
    let words: Vec<&str> = expression.split_whitespace().collect();
    let [what, relation, many] = words.as_slice() else {
        return None;
    };
    let wait = match *what {
        "fleet.ready" => WaitFor::Ready,
        "fleet.applied" => WaitFor::Applied,
        _ => return None,
    };
    let share = match (*relation, *many) {
        (">=" | "==", "fleet.clusters") => ReadyShare::Percent("100%".parse().ok()?),
        (">=", many) => ReadyShare::Count(many.parse().ok()?),
        _ => return None,
    };
    Some((wait, share))
}

/// Whether so many clusters have shown what is asked for; `lacking` are those that have not.
fn is_shown(until: &Until, all: usize, lacking: impl Fn(WaitFor) -> Vec<String>) -> Judged {
    let Some((wait, share)) = asks(until) else {
        return Ok(());
    };
    let missing = lacking(wait);
    if share.is_met(all.saturating_sub(missing.len()), all) {
        return Ok(());
    }
    let expected = format!("the evidence of {share} of {all} clusters for {wait:?}");
    Err((expected, missing.join("; ")))
}

/// Whether an object is for a cluster by its labels and its name, where nothing else says that: no taint, and no other wish.
fn is_for(placement: &PlacementSpec, name: &str, cluster: &Cluster) -> bool {
    let status = cluster.status.as_ref();
    let tainted = !cluster.spec.taints.is_empty() || status.is_some_and(|status| !status.taints.is_empty());
    let leaves = cluster.metadata.deletion_timestamp.is_some();
    let limited = placement.max_clusters.is_some() || placement.spread.is_some();
    if tainted || leaves || limited || !cluster.spec.accepted {
        return false;
    }
    selects(placement, name, cluster)
}

/// Whether a rule takes a cluster by its labels and its name.
pub(super) fn selects(placement: &PlacementSpec, name: &str, cluster: &Cluster) -> bool {
    let labels = cluster.labels();
    placement.placement.iter().any(|rule| {
        let selector = rule.cluster_selector.as_ref();
        // The hub knows labels beside these, which agents tell.
        let by_label = selector.is_none_or(|s| s.match_expressions.is_empty() && s.matches(labels));
        let by_name = rule.clusters.as_ref();
        by_label && by_name.is_none_or(|names| names.iter().any(|of| of == name))
    })
}

/// Whether a report says what is waited for.
pub(super) fn shows(report: &BundleStatus, wait: WaitFor) -> bool {
    let counted = || report.counts.is_some_and(|counts| counts.applied == counts.total);
    match wait {
        WaitFor::None => true,
        WaitFor::Ready => report.phase == Some(BundlePhase::Ready),
        WaitFor::Applied => {
            report.phase == Some(BundlePhase::Ready)
                || condition::is_true(&report.conditions, APPLIED)
                || (report.phase == Some(BundlePhase::Progressing) && counted())
        }
    }
}

/// The images of a pod template.
fn images(manifest: &Value) -> Vec<&str> {
    let pod = manifest.pointer("/spec/template/spec");
    let lists = ["containers", "initContainers"].map(|list| pod.and_then(|pod| pod.get(list)?.as_array()));
    let containers = lists.into_iter().flatten().flatten();
    containers
        .filter_map(|container| container.get("image")?.as_str())
        .collect()
}
