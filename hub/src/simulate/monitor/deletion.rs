//! P5: nothing is deleted without positive evidence that was written before. What no list shows is evidence of nothing.

use super::{
    commit::Commit,
    fields::{annotation_of, is_marked, names},
    model::{
        APPLICATIONS, BUNDLES, CLUSTERS, Carried, Content, LEDGERS, Ledger, Model, NAMESPACES, Name,
        PLACEMENTS, carried, is_at, is_of,
    },
    promise::{Check, Found, Note, Promise},
};
use crate::simulate::HUB;
use roundhouse_api::{
    application::{ClusterVerb, HeldDeletes, StepKind, ValidStep},
    bundle::{
        ApplyOnce, Bundle, BundlePhase, Deletion, ManifestConfig, PropagationPolicy, UpdateStrategyType,
    },
    cluster::Leave,
    decision::DecisionSpec,
    ledger::LedgerOutcome,
    names::{annotation, bundle_name, cluster_namespace, cluster_of_namespace, step_of_bundle},
};
use roundhouse_apiserver::Key;
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

#[derive(Debug, Default)]
pub(super) struct Deletions {
    /// What was ever confirmed of each Application, and is not spent.
    confirmed: BTreeMap<Name, BTreeSet<String>>,
    /// When agents removed what on evidence: so it may be removed once more where a request that something on the way repeated
    /// made it again.
    removed: BTreeMap<(Arc<str>, Key), Duration>,
    /// What each Application has ever asked to be confirmed, by its hash.
    asked: BTreeMap<(Name, String), HeldDeletes>,
    /// The clusters that lose an Application by a confirmation, by its hash.
    confirmed_away: BTreeMap<(Name, String), BTreeSet<String>>,
    /// What was to go by a ledger when its server was put back, and when that was: a pass that had begun ends.
    going: BTreeMap<(Arc<str>, Carried), Duration>,
}

/// So long a pass may take that has begun: a call that is not answered is given up after half of it.
const PASS: Duration = Duration::from_secs(60);

/// So long after something a request of before it may still arrive: who waits for it counts from when it was sent, and no clock
/// goes as another does.
const LATE: Duration = Duration::from_secs(660);

impl Check for Deletions {
    fn committed(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        let by_hub = commit.by().is_some_and(|who| who.is_hub());
        let place = (&*commit.server, &*commit.key.table);
        if place == (HUB, APPLICATIONS) {
            self.note_confirmation(commit);
        }
        match place {
            (HUB, BUNDLES) if by_hub => self.by_hub(commit, model, found),
            (HUB, APPLICATIONS | CLUSTERS | PLACEMENTS | NAMESPACES) if by_hub => {
                of_users(commit, model, found);
            }
            (HUB, _) => {}
            (_, LEDGERS) => {}
            _ => self.by_agent(commit, model, found),
        }
    }

    fn noted(&mut self, note: &Note, model: &Model, found: &mut Found<'_>) {
        let Note::Restored(server) = note else { return };
        let own = model.ledgers.iter().filter(|((of, _), _)| of == server);
        let entries = own.flat_map(|(_, ledger)| ledger.spec.objects.iter().zip(&ledger.objects));
        for (entry, object) in entries {
            if matches!(
                entry.outcome,
                LedgerOutcome::Removing | LedgerOutcome::Unconfirmed
            ) {
                self.going.insert((server.clone(), object.clone()), found.at);
            }
        }
    }
}

impl Deletions {
    /// An agent deletes an object of its member.
    fn by_agent(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        let Some(cluster) = commit.by().and_then(|who| who.agent()) else {
            return;
        };
        if commit.is_change() && is_marked(commit.before()) && !is_marked(commit.after()) {
            found.judges_part(Promise::P5, "agents let go");
            if !may_let_go(commit, model) {
                let expected = "a Bundle of it that lets go what it does not want";
                found.broke(Promise::P5, commit.object(), expected, "none ever did");
            }
        }
        if !commit.deletes() {
            return;
        }
        found.judges_part(Promise::P5, "agents remove");
        let place = (commit.server.clone(), commit.key.clone());
        let before = self.removed.get(&place).filter(|_| is_marked(commit.before()));
        let is_again = before.is_some_and(|at| commit.at.saturating_sub(*at) <= LATE);
        let cause = match model.ledger_of(&commit.server, &commit.key) {
            None if is_again => return,
            None => Err("no ledger answers for it".to_owned()),
            Some((name, ledger)) => cause(commit, cluster, (name, ledger), model).map_err(|why| {
                format!(
                    "its ledger {name} follows generation {}: {why}",
                    ledger.spec.generation
                )
            }),
        };
        let is_ending = self.going.iter().any(|((server, object), at)| {
            *server == commit.server && is_of(object, &commit.key) && commit.at.saturating_sub(*at) <= PASS
        });
        match cause {
            Err(_) if is_ending => {}
            Ok(()) => drop(self.removed.insert(place, commit.at)),
            Err(why) => {
                let expected = "evidence on the hub that it is to go, from before";
                found.broke(Promise::P5, commit.object(), expected, why);
            }
        }
    }
}

/// Kinds that stay when their Bundle gives them up, unless somebody says otherwise; as the agent has it.
const KEPT: [&str; 3] = [
    NAMESPACES,
    "persistentvolumeclaims",
    "customresourcedefinitions.apiextensions.k8s.io",
];

/// Whether the option of a Bundle says that an object stays when it is given up.
fn is_orphaned(content: &Content, key: &Key) -> bool {
    let option = content.spec.delete_option.as_ref();
    option.is_some_and(|option| match option.propagation_policy {
        None | Some(PropagationPolicy::Foreground) => false,
        Some(PropagationPolicy::Orphan) => true,
        Some(PropagationPolicy::SelectivelyOrphan) => {
            let orphans = option.selectively_orphans.iter();
            let mut rules = orphans.flat_map(|orphans| &orphans.orphaning_rules);
            rules.any(|rule| names(rule, key))
        }
    })
}

/// Why an object stays although its Bundle gives it up with this content. `confirmed`: somebody has said that it goes whatever it runs.
fn stays(content: &Content, commit: &Commit, confirmed: bool) -> Option<&'static str> {
    let (key, before) = (&commit.key, commit.before());
    if is_orphaned(content, key) {
        return Some("its deleteOption lets it stay");
    }
    let prunes = annotation_of(before, annotation::PRUNE) == Some("true");
    let option = content.spec.delete_option.as_ref();
    let has_policy = option.is_some_and(|option| option.propagation_policy.is_some());
    if KEPT.contains(&&*key.table) && !has_policy && !prunes {
        return Some("of its kind nothing goes unless somebody says so");
    }
    // Rules may leave it out.
    let is_guarded = content.spec.apply_once.unwrap_or_default() != ApplyOnce::Never
        && content.spec.apply_once_rules.is_empty();
    let runs = is_guarded && !confirmed && !prunes && runs(&key.table, before) > 0;
    runs.then_some("it still runs something, apply-once is on, and nobody has confirmed that it goes")
}

/// How much a workload still runs, or asks to run.
fn runs(table: &str, live: &Value) -> u64 {
    let (at, without) = match table {
        "daemonsets.apps" => ("/status/currentNumberScheduled", 0),
        "jobs.batch" => ("/status/active", 0),
        "deployments.apps" | "statefulsets.apps" | "replicasets.apps" => ("/spec/replicas", 1),
        _ => ("/spec/replicas", 0),
    };
    live.pointer(at).and_then(Value::as_u64).unwrap_or(without)
}

/// Whether the agent was told to let an object stay without it: its Bundle goes or has it no more, with an option that says so; or it
/// is of those which are kept unless somebody says otherwise. Of a request that came late nothing but the option is asked: what it
/// went by is over.
fn may_let_go(commit: &Commit, model: &Model) -> bool {
    let prunes = annotation_of(commit.before(), annotation::PRUNE).is_some();
    if KEPT.contains(&&*commit.key.table) && !prunes {
        return true;
    }
    let overdue = commit.asked.as_ref().is_some_and(|asked| asked.overdue.is_some());
    let Some((_, ledger)) = model.ledger_of(&commit.server, &commit.key) else {
        return overdue;
    };
    let Some(held) = model.by_uid(&ledger.spec.bundle_uid) else {
        return false;
    };
    let key = &commit.key;
    let is_let = |content: &Content| is_orphaned(content, key);
    if overdue {
        return held.contents_of(ledger.spec.epoch).values().any(is_let);
    }
    let goes = !ledger.spec.dispatched && (held.deleting || held.gone);
    let mut since = held
        .contents_of(ledger.spec.epoch)
        .range(ledger.spec.generation..);
    since.any(|(generation, content)| {
        let lacks =
            *generation == ledger.spec.generation && !content.carries(&key.table, &key.namespace, &key.name);
        is_let(content) && (goes || lacks || content.spec.deletion.is_some())
    })
}

/// The hub takes away nothing that people have made, nor where their objects are, unless they let the cluster leave.
fn of_users(commit: &Commit, model: &Model, found: &mut Found<'_>) {
    if !commit.deletes() {
        return;
    }
    found.judges_part(Promise::P5, "what people have made stays");
    let leaves = cluster_of_namespace(&commit.key.name).is_some_and(|cluster| model.leaves(cluster));
    if &*commit.key.table != NAMESPACES || !leaves {
        let expected = "whoever made it to delete it";
        found.broke(Promise::P5, commit.object(), expected, "the hub does");
    }
}

/// What lets an agent delete an object that a ledger answers for.
fn cause(
    commit: &Commit,
    cluster: &str,
    (name, ledger): (&str, &Ledger),
    model: &Model,
) -> Result<(), String> {
    let spec = &ledger.spec;
    let Some(held) = model.by_uid(&spec.bundle_uid) else {
        return Err(format!("its Bundle {} was never there", spec.bundle));
    };
    let contents = held.contents_of(spec.epoch);
    // What is sent late goes by terms that were.
    let overdue = commit.asked.as_ref().is_some_and(|asked| asked.overdue.is_some());
    let stays = |content: &Content, confirmed: bool| match overdue {
        true => None,
        false => stays(content, commit, confirmed),
    };
    let by_itself = !spec.dispatched && model.goes_by_itself(cluster, held);
    // One that was withdrawn before what the agent follows is none.
    let since = contents.range(spec.generation..).map(|(_, content)| content);
    let mut kept = None;
    for content in since.filter(|content| by_itself || content.spec.deletion.is_some()) {
        kept = stays(content, confirms(content, spec.dispatched));
        if kept.is_none() {
            return Ok(());
        }
    }
    let Some(content) = contents.get(&spec.generation) else {
        return Err("its Bundle never had that".to_owned());
    };
    let key = &commit.key;
    let recreated = |content: &Content| {
        let mut configs = content.spec.manifest_configs.iter();
        configs.any(|config| recreates(config, key))
    };
    if recreated(content) {
        return Ok(());
    }
    let carries = |content: &Content| content.carries(&key.table, &key.namespace, &key.name);
    // What comes after the content that it follows it may not know yet: by that one the object goes, if it lacks it.
    if let Some(why) = kept.filter(|_| content.spec.deletion.is_some() || carries(content)) {
        return Err(why.to_owned());
    }
    // What it went by when it was sent may be over.
    let was_let = |sent: Duration| {
        let followed = model.followed((&commit.server, name), &spec.bundle_uid, sent);
        let mut since = contents.range(followed.unwrap_or(i64::MAX)..);
        since.any(|(generation, earlier)| {
            let lets = Some(*generation) == followed && (!carries(earlier) || recreated(earlier));
            earlier.at <= sent && (lets || earlier.spec.deletion.is_some())
        })
    };
    if carries(content) {
        return match is_late(commit, ledger, was_let) {
            true => Ok(()),
            false => Err("that has it, and there is no word of its removal".to_owned()),
        };
    }
    let namespace = cluster_namespace(cluster);
    let others = model.bundles.iter().filter(|((of, _), other)| {
        **of == *namespace
            && other.uid != held.uid
            && !other.gone
            && other.application() == held.application()
    });
    let moved = others
        .filter(|((_, name), _)| step_of_bundle(name).is_none())
        .find(|(_, other)| other.present().is_some_and(carries));
    match moved {
        Some(((_, name), _)) if held.application().is_some() => Err(format!("{name} has it now")),
        _ => stays(content, false).map_or(Ok(()), |why| Err(why.to_owned())),
    }
}

/// Whether somebody has said that a Bundle of this content goes whatever runs there; as the agent has it.
fn confirms(content: &Content, dispatched: bool) -> bool {
    match &content.spec.deletion {
        Some(deletion) => deletion.confirmed_by != Deletion::GARBAGE_COLLECTION,
        None => !dispatched,
    }
}

/// Whether a deletion arrives that nobody waits for any more, sent when something let it be, before the agent has come so far as
/// to say that the object is there as it is wanted now.
fn is_late(commit: &Commit, ledger: &Ledger, was_let: impl Fn(Duration) -> bool) -> bool {
    let overdue = commit.asked.as_ref().is_some_and(|asked| asked.overdue.is_some());
    let entries = ledger.spec.objects.iter().zip(&ledger.objects);
    let mut own = entries.filter(|(_, object)| is_of(object, &commit.key));
    let is_open = own.any(|(entry, _)| entry.outcome == LedgerOutcome::Intended);
    is_open && overdue && was_let(commit.sent())
}

fn recreates(config: &ManifestConfig, key: &Key) -> bool {
    if !names(&config.resource_identifier, key) {
        return false;
    }
    let strategy = config.update_strategy.as_ref();
    strategy.is_some_and(|s| s.type_ == UpdateStrategyType::Recreate || !s.recreate_fields.is_empty())
}

impl Deletions {
    /// What is spent confirms nothing any more, though the annotation stays.
    fn note_confirmation(&mut self, commit: &Commit) {
        let name = (commit.key.namespace.clone(), commit.key.name.clone());
        let held = commit.after().pointer("/status/heldDeletes").cloned();
        if let Some(held) = held.and_then(|held| serde_json::from_value::<HeldDeletes>(held).ok()) {
            self.asked.insert((name.clone(), held.hash.clone()), held);
        }
        let confirmed = self.confirmed.entry(name).or_default();
        if let Some(hash) = annotation_of(commit.after(), annotation::CONFIRM_DELETES) {
            confirmed.insert(hash.to_owned());
        }
        let spent = commit.after().pointer("/status/spentConfirmation");
        if let Some(spent) = spent.and_then(Value::as_str) {
            confirmed.remove(spent);
        }
    }

    fn by_hub(&mut self, commit: &Commit, model: &Model, found: &mut Found<'_>) {
        let cluster = cluster_of_namespace(&commit.key.namespace).unwrap_or_default();
        let forgotten = asked_to(model, cluster, Leave::Forget);
        let before: Option<Bundle> = commit
            .before
            .as_ref()
            .and_then(|record| serde_json::from_slice(&record.bytes).ok());
        let deletion = before.as_ref().and_then(|bundle| bundle.spec.deletion.as_ref());
        if commit.deletes() {
            found.judges_part(Promise::P5, "the hub removes");
        }
        // With the namespace of a cluster that leaves goes what was on its way there; held, until it is told what becomes of its objects.
        let own = commit.asked.as_ref().and_then(|asked| asked.target.as_ref());
        let beside = !own.is_some_and(|target| target.is(&commit.key));
        let is_held = commit.after.is_some() && beside && model.leaves(cluster);
        if commit.deletes() && deletion.is_none() && !forgotten && !is_held {
            let expected = "spec.deletion, written before the Bundle is deleted";
            found.broke(Promise::P5, commit.object(), expected, "none");
        }
        if let (None, Some(bundle), Some(_)) = (&commit.after, &before, deletion)
            && !forgotten
            && !is_let_go(bundle)
        {
            let phase = bundle.status.as_ref().map(|s| (s.phase, s.observed_generation));
            let expected = "the report of its agent that all is removed, of this generation";
            found.broke(Promise::P5, commit.object(), expected, format!("{phase:?}"));
        }
        let Some(written) = commit.read::<Bundle>() else {
            return;
        };
        if let (None, Some(before)) = (&written.spec.deletion, &before)
            && commit.is_change()
        {
            drops(commit, before, &written, model, found);
        }
        if written.spec.deletion.as_ref() == deletion {
            return;
        }
        if let Some(evidence) = &written.spec.deletion
            && let Err(why) = self.stands(&written, cluster, evidence, commit.sent(), model)
        {
            let expected = format!("a reason for spec.deletion {:?}", evidence.confirmed_by);
            found.broke(Promise::P5, commit.object(), expected, why);
        }
        if let (Some(evidence), Some(of)) = (&written.spec.deletion, &written.spec.application_ref) {
            let of = (of.namespace.as_str().into(), of.name.as_str().into());
            if let Err(why) = self.counts(of, &evidence.confirmed_by, cluster) {
                let expected = "no more to go than was confirmed";
                found.broke(Promise::P5, commit.object(), expected, why);
            }
        }
    }

    /// Whether a cluster is one of those that lose an application by a confirmation. What was confirmed without being asked for, as a
    /// plan said beforehand, has no number here.
    fn counts(&mut self, of: Name, hash: &str, cluster: &str) -> Result<(), String> {
        let question = (of, hash.to_owned());
        let Some(asked) = self.asked.get(&question) else {
            return Ok(());
        };
        let is_whole = usize::try_from(asked.count).is_ok_and(|count| count == asked.clusters.len());
        if is_whole && !asked.clusters.iter().any(|named| named == cluster) {
            return Err(format!("{cluster}, and {hash} is about {:?}", asked.clusters));
        }
        let most = asked.count;
        let away = self.confirmed_away.entry(question).or_default();
        away.insert(cluster.to_owned());
        match u32::try_from(away.len()).is_ok_and(|all| all <= most) {
            true => Ok(()),
            false => Err(format!("{away:?}, and {hash} is about {most} clusters")),
        }
    }

    /// Whether what confirms a removal was there before.
    fn stands(
        &self,
        bundle: &Bundle,
        cluster: &str,
        evidence: &Deletion,
        sent: Duration,
        model: &Model,
    ) -> Result<(), String> {
        let by = evidence.confirmed_by.as_str();
        if by == Deletion::CLUSTER_LEFT {
            let left = model.left.contains_key(cluster) || !model.clusters.contains_key(cluster);
            let going = |c: &roundhouse_api::cluster::Cluster| c.metadata.deletion_timestamp.is_some();
            let going = left || model.clusters.get(cluster).is_some_and(going);
            let option = bundle.spec.delete_option.as_ref();
            let orphans =
                option.is_some_and(|option| option.propagation_policy == Some(PropagationPolicy::Orphan));
            return match going {
                false => Err("nobody lets the cluster leave".to_owned()),
                true if model.leaves_everything(cluster) && !orphans => Err(
                    "what is in the cluster is to stay, and its deleteOption says nothing of that".to_owned(),
                ),
                true => Ok(()),
            };
        }
        let Some(of) = &bundle.spec.application_ref else {
            return Err("the hub does not remove what it has not written".to_owned());
        };
        let name = (Arc::from(of.namespace.as_str()), Arc::from(of.name.as_str()));
        if by == Deletion::APPLICATION_DELETED {
            let application = model.applications.get(&name);
            let deleting = application.is_some_and(|application| application.deleting);
            return deleting
                .then_some(())
                .ok_or_else(|| "the Application is not being deleted".to_owned());
        }
        if let Some(step) = evidence.step() {
            let revision = (name.0, Arc::from(evidence.revision.as_str()));
            let known = model.revisions.get(&revision);
            let removes = |valid: &ValidStep| {
                valid.name == step
                    && matches!(&valid.kind, StepKind::ClusterObject(object) if object.verb == ClusterVerb::Delete)
            };
            let said = known.is_some_and(|known| known.valid.all_steps().any(removes));
            return said
                .then_some(())
                .ok_or_else(|| format!("{} has no such step", evidence.revision));
        }
        if by != Deletion::GARBAGE_COLLECTION {
            let confirmed = self.confirmed.get(&name).is_some_and(|all| all.contains(by));
            return confirmed
                .then_some(())
                .ok_or_else(|| "nobody has confirmed that".to_owned());
        }
        // What is left of an application that was deleted is its namesake's to collect.
        let present = model.applications.get(&name);
        let uid = present.and_then(|present| present.object.pointer("/metadata/uid")?.as_str());
        let of_revision = |decision: &DecisionSpec, namespace: &str| {
            let owner = &decision.application_ref;
            namespace == of.namespace
                && owner.name == of.name
                && [Some(of.uid.as_str()), uid].contains(&Some(owner.uid.as_str()))
                && decision.revision == evidence.revision
        };
        // What was there when it was sent counts, too.
        let deleted = model.deleted.iter().filter(|(_, (_, at))| *at >= sent);
        let deleted = deleted.map(|(name, (decision, _))| (name, decision));
        let mut all = model.decisions.iter().chain(deleted);
        if !all.any(|((namespace, _), decision)| of_revision(decision, namespace)) {
            return Err(format!("no Decision is of revision {:?}", evidence.revision));
        }
        let main = bundle.metadata.name.as_deref() == Some(bundle_name(&of.namespace, &of.name, 1).as_str());
        let placed = model.decisions.iter().find(|((namespace, _), decision)| {
            of_revision(decision, namespace) && decision.clusters.iter().any(|c| c == cluster)
        });
        match placed {
            Some(((_, decision), _)) if main => Err(format!("Decision {decision} places it there")),
            _ => Ok(()),
        }
    }
}

/// An object that the revision of a Bundle has as it is written there, and the Bundle had, is there further on: its absence would be
/// evidence for an agent. Where several Bundles of an application share a cluster, what is in which is not judged.
fn drops(commit: &Commit, before: &Bundle, after: &Bundle, model: &Model, found: &mut Found<'_>) {
    let (Some(of), Some(name)) = (&after.spec.application_ref, &after.spec.revision) else {
        return;
    };
    let key = (of.namespace.as_str().into(), name.as_str().into());
    let Some(revision) = model.revisions.get(&key) else {
        return;
    };
    let own = model.bundles_of((&of.namespace, &of.name));
    let here = own.filter(|(_, (namespace, _), _)| *namespace == commit.key.namespace);
    if here.count() > 1 {
        return;
    }
    let has = |bundle: &Bundle, (table, namespace, name): &Carried| {
        let mut all = bundle.spec.workload.manifests.iter().filter_map(carried);
        all.any(|one| is_at(&one, table, namespace, name))
    };
    let had = revision
        .everywhere
        .iter()
        .filter_map(|one| carried(&one.manifest));
    for one in had.filter(|one| has(before, one)) {
        found.judges_part(Promise::P5, "nothing falls out of a Bundle");
        if !has(after, &one) {
            let expected = format!("{} {}, which {name} has, to be there further on", one.0, one.2);
            found.broke(Promise::P5, commit.object(), expected, "it is not");
        }
    }
}

fn asked_to(model: &Model, cluster: &str, leave: Leave) -> bool {
    model
        .left
        .get(cluster)
        .is_some_and(|all| all.contains(&format!("{leave:?}")))
}

/// Whether the agent says that all of this generation is removed, or that it keeps what is to be taken up again.
fn is_let_go(bundle: &Bundle) -> bool {
    let Some(status) = &bundle.status else {
        return false;
    };
    let own = status.observed_generation == bundle.metadata.generation;
    let refused = status.conditions.iter().any(|condition| {
        condition.reason == roundhouse_api::bundle::REMOVAL_REFUSED
            && condition.observed_generation == bundle.metadata.generation
    });
    (own && status.phase == Some(BundlePhase::Cleaned)) || refused
}
