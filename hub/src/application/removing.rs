//! Garbage collection, and the deletion of an application.

use super::{
    bundles::{self, Writer, Written},
    cache::{Stored, application_of},
    error::PassError,
    fleet::Fleet,
    objects::{Objects, is_awaited},
};
use crate::dispatch::{
    MAX_PARTS, Observed, Plan, Slim, Target,
    evidence::{removal_report, worst},
    removal::{self, Held, Removal, Verdict},
};
use jiff::Timestamp;
use kube::{Api, api::ListParams};
use roundhouse_api::{
    application::{LetGo, Removals, WorkflowStatus},
    bundle::{ApplicationRef, BundleSpec, Deletion},
    names::{annotation, bundle_name, label, step_bundle_name, step_of_bundle},
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

/// What garbage collection may do. The budget is stored before anything is removed.
#[derive(Debug, Default)]
pub(super) struct Judged {
    /// The budget afterwards.
    pub(super) removals: Option<Removals>,
    /// The confirmation that confirms nothing any more, afterwards.
    pub(super) spent: Option<String>,
    /// Which removals are held and why, if any are.
    pub(super) held: Option<Held>,
    /// When earlier removals no longer count, if that matters.
    pub(super) again: Option<Duration>,
    /// The Bundles that may go, with the evidence that is written first.
    pub(super) due: Vec<(Arc<Observed>, Deletion)>,
    /// What was let go and is not wanted again: the clusters are told to remove it.
    pub(super) owed: Vec<(LetGo, Deletion)>,
    /// The clusters whose Bundle is not being deleted yet, sorted.
    pub(super) waiting: Vec<String>,
    /// Whether nothing is left to remove.
    pub(super) done: bool,
}

/// Judges what the plan and the steps' objects do not want against the delete budget; pure.
pub(super) fn judge(
    app: &Stored,
    plan: &Plan,
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    objects: &Objects,
    fleet: &Fleet,
    revision: &str,
    now: Timestamp,
) -> Judged {
    let going: BTreeSet<&(String, String)> = plan.surplus.iter().chain(&objects.surplus).collect();
    let title = app.title();
    let all = observed.values().flatten().chain(objects.bundles());
    // A cluster that leaves keeps, or loses, what the one who lets it leave says.
    let all = all.filter(|b| !fleet.is_leaving(&b.cluster));
    let (surplus, staying): (Vec<&Arc<Observed>>, Vec<&Arc<Observed>>) =
        all.partition(|b| going.contains(&(b.namespace.clone(), b.name.clone())));
    // What its cluster keeps although nobody has its Bundle any more is lost with it, too.
    let wants = |plan: &Plan, note: &LetGo| match plan.targets.get(&note.cluster) {
        None => false,
        Some(Target::Bundles(wanted)) => wanted.iter().any(|wanted| wanted.name == note.bundle),
        // It has a place there, if without replicas.
        Some(_) => true,
    };
    let may_go = |note: &LetGo| match step_of_bundle(&note.bundle) {
        None => !wants(plan, note),
        // Another one may be at work on what a step has applied.
        Some(step) => {
            let mut plans = objects.plans.values();
            !objects.untouched.contains(step) && !plans.any(|plan| wants(plan, note))
        }
    };
    let owed: Vec<LetGo> = owed(app, observed, fleet).into_iter().filter(may_go).collect();
    let clusters = observed.keys().chain(objects.bundles().map(|b| &b.cluster));
    let clusters = clusters.filter(|cluster| !fleet.is_leaving(cluster));
    let clusters = clusters.chain(owed.iter().map(|note| &note.cluster));
    let clusters: BTreeSet<&String> = clusters.collect();
    let held: BTreeSet<&String> = staying.iter().map(|b| &b.cluster).collect();
    let staying: BTreeSet<_> = staying.iter().map(|b| (&b.cluster, b.carried_step())).collect();
    // A cluster loses the application, or the object of a step, if no Bundle of it stays; a part too many is no loss, and
    // neither is what was only looked at.
    let is_lost = |b: &Observed| !staying.contains(&(&b.cluster, b.carried_step())) && !b.only_reads();
    let kept = owed
        .iter()
        .filter(|note| !staying.contains(&(&note.cluster, step_of_bundle(&note.bundle))));
    let kept: Vec<(String, String)> = kept
        .map(|note| (note.cluster.clone(), let_go_of(&note.bundle)))
        .collect();
    let confirmation = app
        .annotations
        .get(annotation::CONFIRM_DELETES)
        .map(String::as_str);
    let lost = |asked: &dyn Fn(&Observed) -> bool| {
        let lost = surplus.iter().copied().filter(|b| is_lost(b) && asked(b));
        let (told, open): (Vec<&Arc<Observed>>, Vec<_>) = lost.partition(|b| is_told(b));
        let told = told.into_iter().map(|b| (b.cluster.clone(), let_go_of(&b.name)));
        let open = open.into_iter().map(|b| (b.cluster.clone(), b.uid.clone()));
        let all = kept.iter().cloned().chain(told).chain(open);
        all.collect::<BTreeMap<String, String>>()
    };
    let losing = lost(&|b| b.spec.deletion.is_none());
    let leaving = surplus
        .iter()
        .filter(|b| b.spec.deletion.is_some() && !held.contains(&b.cluster));
    let holding = clusters.len() - leaving.map(|b| &b.cluster).collect::<BTreeSet<_>>().len();
    let before = app.status.removals.as_ref();
    let spent = app.status.spent_confirmation.as_deref();
    let verdict = removal::budget(&title, before, &losing, holding, (confirmation, spent), now);
    // What was confirmed is so until all of it has the evidence.
    let whole = lost(&|b| b.spec.deletion.is_none() || is_confirmed_by(b, confirmation));
    let verdict = match removal::confirmed(&title, &whole, (confirmation, spent)) {
        Some(hash) if !losing.is_empty() => Verdict::confirmed(hash),
        _ => verdict,
    };
    let (mut again, mut late) = (None, BTreeSet::new());
    let (removals, held, confirmed_by) = match verdict {
        Verdict::Allowed {
            removals,
            confirmed_by,
            later,
        } => {
            late = later;
            (removals, None, Some(confirmed_by))
        }
        Verdict::Held {
            hash,
            message,
            again: after,
        } => {
            again = after.and_then(|after| Duration::try_from(after).ok());
            (before.cloned(), Some(Held::of(hash, message, &losing)), None)
        }
    };
    let Refused {
        clusters: refused,
        kinds,
        approved,
    } = refusals(&title, surplus.iter().copied(), confirmation);
    let refusal = removal::refusal(&title, &refused, &kinds);
    let held = held.or(match approved {
        true => None,
        false => refusal
            .as_ref()
            .map(|(hash, message)| Held::of(hash.clone(), message.clone(), &refused)),
    });
    // What came too late, or is carried out, is of no later question.
    let rests = losing.is_empty() && refused.is_empty();
    let spent = confirmation
        .filter(|hash| rests && removal::is_confirmation(hash))
        .or(spent);
    let spent = spent.map(str::to_owned);
    let due = surplus.iter().filter_map(|bundle| {
        let deletion = match (&bundle.spec.deletion, &confirmed_by) {
            (Some(written), _)
                if approved && is_collected(written) && refused.contains_key(&bundle.cluster) =>
            {
                removal::evidence(revision, confirmation.unwrap_or_default())
            }
            (Some(deletion), _) => deletion.clone(),
            (None, Some(_)) if late.contains(&bundle.cluster) && is_lost(bundle) => return None,
            (None, Some(by)) => removal::evidence(revision, by),
            (None, None) if bundle.only_reads() => removal::evidence(revision, Deletion::GARBAGE_COLLECTION),
            (None, None) => return None,
        };
        Some(((*bundle).clone(), deletion))
    });
    let waiting = surplus.iter().filter(|b| !b.deleting).map(|b| &b.cluster);
    let waiting: BTreeSet<&String> = waiting.chain(owed.iter().map(|note| &note.cluster)).collect();
    let tells = |note: &LetGo| {
        let by = confirmed_by.as_ref().filter(|_| !late.contains(&note.cluster))?;
        Some((note.clone(), removal::evidence(revision, by)))
    };
    Judged {
        removals,
        spent,
        held,
        waiting: waiting.into_iter().cloned().collect(),
        again,
        due: due.collect(),
        owed: owed.iter().filter_map(tells).collect(),
        done: surplus.is_empty(),
    }
}

/// What a question names of a Bundle that was let go.
fn let_go_of(bundle: &str) -> String {
    format!("{bundle} was let go")
}

/// Whether it is one that tells a cluster to remove what was let go.
fn is_told(bundle: &Observed) -> bool {
    bundle.spec.hash.is_none() && bundle.spec.deletion.is_some()
}

fn is_collected(deletion: &Deletion) -> bool {
    deletion.confirmed_by == Deletion::GARBAGE_COLLECTION
}

/// Whether this confirmation is the evidence that a Bundle has.
fn is_confirmed_by(bundle: &Observed, confirmation: Option<&str>) -> bool {
    let evidence = bundle.spec.deletion.as_ref();
    evidence.is_some_and(|evidence| confirmation == Some(evidence.confirmed_by.as_str()))
}

/// Removals that agents refuse.
struct Refused {
    /// The clusters, each with the uid of its Bundle.
    clusters: BTreeMap<String, String>,
    /// Kinds of what is kept.
    kinds: BTreeSet<String>,
    /// Whether they are approved: all of them at once, or together with those that have got that as evidence already.
    approved: bool,
}

/// The Bundles among these whose removal is refused, and whether a confirmation is about them.
fn refusals<'a>(
    application: &str,
    bundles: impl Iterator<Item = &'a Arc<Observed>>,
    confirmation: Option<&str>,
) -> Refused {
    let refuses = |b: &Observed| b.spec.deletion.as_ref().is_some_and(is_collected) && removal::is_refused(b);
    let mut refused = Refused {
        clusters: BTreeMap::new(),
        kinds: BTreeSet::new(),
        approved: false,
    };
    let mut whole = BTreeMap::new();
    for bundle in bundles {
        let refuses = refuses(bundle);
        let named = || (bundle.cluster.clone(), bundle.uid.clone());
        if refuses {
            refused.clusters.extend([named()]);
            refused.kinds.extend(removal::refused_kinds(bundle));
        }
        if refuses || (bundle.deleting && is_confirmed_by(bundle, confirmation)) {
            whole.extend([named()]);
        }
    }
    let is_about = |asked: &BTreeMap<String, String>| {
        removal::confirmed(application, asked, (confirmation, None)).is_some()
    };
    refused.approved = !refused.clusters.is_empty() && (is_about(&refused.clusters) || is_about(&whole));
    refused
}

/// The approval of refused removals of which some have no evidence yet: what has it stays until then, or nobody would know any more
/// what it was about; pure.
pub(super) fn carried_out_in_part<'a>(
    app: &'a Stored,
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
) -> Option<&'a str> {
    let confirmation = app.annotations.get(annotation::CONFIRM_DELETES)?;
    let all = observed.values().flatten();
    let refused = refusals(&app.title(), all, Some(confirmation));
    refused.approved.then_some(confirmation.as_str())
}

/// For what Bundles stay that no agent has to clean any more.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Stays<'a> {
    /// A step of it may still need what was reported on a Bundle.
    pub(super) workflow: Option<&'a WorkflowStatus>,
    /// Those that have it as evidence stay: see [`carried_out_in_part`].
    pub(super) confirmation: Option<&'a str>,
}

/// Lets Bundles go that are on their way out and that no agent has to clean any more.
///
/// `keep_evidence`: the application is being deleted, so that a Bundle without the evidence for removal gets it first.
/// `noted`: where the application stays, such a Bundle goes when that is noted.
pub(super) async fn release(
    writer: Writer<'_>,
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    keep_evidence: bool,
    noted: Option<&[LetGo]>,
    stays: Stays<'_>,
) -> Written {
    let mut written = Written::default();
    let goes = goes(writer, observed)
        .filter(|bundle| !is_awaited(bundle, stays.workflow) && !is_confirmed_by(bundle, stays.confirmation));
    for bundle in goes {
        let is_noted = || noted.is_none_or(|noted| noted.contains(&bundle.let_go()));
        if bundle.spec.deletion.is_some() || (!keep_evidence && is_noted()) {
            match writer.release(bundle).await {
                Ok(()) => written.count += 1,
                Err(error) => written.fail(error),
            }
        }
    }
    written
}

/// Bundles that are on their way out and that no agent has to clean any more. Of a cluster that leaves the cluster controller lets
/// them go, when their objects are as its user said.
fn goes<'a>(
    writer: Writer<'a>,
    observed: &'a BTreeMap<String, Vec<Arc<Observed>>>,
) -> impl Iterator<Item = &'a Arc<Observed>> {
    let all = observed.values().flatten();
    let due = all.filter(|bundle| removal::next_of_wanted(bundle) == Some(removal::Removal::Release));
    due.filter(move |bundle| !writer.cache.is_leaving(&bundle.cluster))
}

/// Bundles that are to be let go without the evidence for removal: somebody deleted them, and their agents leave the objects alone.
pub(super) fn without_evidence<'a>(
    writer: Writer<'a>,
    observed: &'a BTreeMap<String, Vec<Arc<Observed>>>,
) -> impl Iterator<Item = &'a Arc<Observed>> {
    goes(writer, observed).filter(|bundle| removal::is_deleted_by_hand(bundle))
}

/// The Bundle that a note is about, if there is one again, or still.
fn there<'a>(note: &LetGo, observed: &'a BTreeMap<String, Vec<Arc<Observed>>>) -> Option<&'a Arc<Observed>> {
    let mut of_cluster = observed.get(&note.cluster)?.iter();
    of_cluster.find(|bundle| bundle.name == note.bundle)
}

/// The note of what was let go, with what is about to be; pure. What is there again needs none, and neither does a cluster that has
/// left. At most so many are noted, and let go, at a time.
pub(super) fn let_go<'a>(
    before: &[LetGo],
    (going, most): (impl Iterator<Item = &'a Arc<Observed>>, usize),
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    fleet: &Fleet,
) -> Vec<LetGo> {
    let is_back = |note: &LetGo| there(note, observed).is_some_and(|bundle| !bundle.deleting);
    let kept = before
        .iter()
        .filter(|note| !is_back(note) && fleet.members.contains_key(&note.cluster));
    let mut noted: BTreeSet<LetGo> = kept.cloned().collect();
    for bundle in going {
        if noted.len() >= most {
            break;
        }
        noted.insert(bundle.let_go());
    }
    noted.into_iter().collect()
}

/// Clusters that may hold objects of an application that were let go, and have no Bundle that says so; pure. Whoever may write
/// a status does not name Bundles of other applications there.
pub(super) fn owed(
    app: &Stored,
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    fleet: &Fleet,
) -> Vec<LetGo> {
    let is_own = |bundle: &str| {
        let mut parts = (1..=MAX_PARTS).map(|part| bundle_name(&app.namespace, &app.name, part));
        let of_step = step_of_bundle(bundle);
        parts.any(|part| part == bundle)
            || of_step.is_some_and(|step| step_bundle_name(&app.namespace, &app.name, step) == bundle)
    };
    let can_be_told = |note: &&LetGo| {
        fleet
            .members
            .get(&note.cluster)
            .is_some_and(|member| !member.leaving)
    };
    let notes = app.status.let_go.iter();
    notes
        .filter(can_be_told)
        .filter(|note| is_own(&note.bundle) && there(note, observed).is_none())
        .cloned()
        .collect()
}

/// What became of clusters that are owed it to be told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) written: Written,
    /// Whom it did not get to.
    pub(super) left: Vec<LetGo>,
    /// Whom nobody has to tell any more.
    pub(super) done: Vec<LetGo>,
    /// Confirmations of which one of these is to be tried again: see [`Writer::remove_after`].
    pub(super) open: BTreeSet<String>,
}

/// Tells those clusters: a Bundle is made that has nothing but the evidence for removal, on the `terms` of the application. Whom it
/// did not get to is still owed it; whose Bundle of that name is somebody else's, or who has no namespace any more, cannot be told.
pub(super) async fn tell_owed(
    writer: Writer<'_>,
    app: &Stored,
    terms: &BundleSpec,
    owed: Vec<(LetGo, Deletion)>,
) -> Told {
    let application = ApplicationRef {
        namespace: app.namespace.clone(),
        name: app.name.clone(),
        uid: app.uid.clone(),
    };
    let mut told = Told::default();
    for (note, deletion) in owed {
        let by = deletion.confirmed_by.clone();
        match writer.entomb(&application, terms, deletion, &note).await {
            Ok(made) => told.written.count += usize::from(made),
            Err(PassError::Foreign { .. }) => told.done.push(note),
            Err(error) if error.is_gone() => {}
            Err(error) => {
                if bundles::is_open(&by, &error) {
                    told.open.insert(by);
                }
                told.written.fail(error);
                told.left.push(note);
            }
        }
    }
    told
}

/// The same, with the evidence that the application is being deleted.
pub(super) fn with_application(app: &Stored, owed: Vec<LetGo>) -> Vec<(LetGo, Deletion)> {
    let deletion = removal::evidence(revision_of(app), Deletion::APPLICATION_DELETED);
    owed.into_iter().map(|note| (note, deletion.clone())).collect()
}

fn revision_of(app: &Stored) -> &str {
    let latest = app.status.latest_revision.as_ref();
    latest.map_or("", |latest| latest.name.as_str())
}

/// Takes the deletion of an application one step further. Deleting it is the confirmation for all of its Bundles.
pub(super) async fn delete(
    writer: Writer<'_>,
    app: &Stored,
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
) -> Written {
    let revision = revision_of(app);
    let due = observed.values().flatten().map(|bundle| {
        let evidence = || removal::evidence(revision, Deletion::APPLICATION_DELETED);
        let deletion = match &bundle.spec.deletion {
            // What garbage collection could not remove may go now.
            Some(written) if written.confirmed_by != Deletion::GARBAGE_COLLECTION => written.clone(),
            Some(_) | None => evidence(),
        };
        (bundle.clone(), deletion)
    });
    writer.remove(due.collect()).await
}

/// Asks the server, not the cache, whether Bundles of the application are left.
///
/// # Errors
/// The list fails: then nothing is known, and the application stays.
pub(super) async fn any_left(writer: Writer<'_>, app: &Stored) -> Result<bool, PassError> {
    let api: Api<Slim> = Api::all(writer.client.clone());
    let selector = format!(
        "{}={},{}={}",
        label::APP_NAMESPACE,
        app.namespace,
        label::APP_NAME,
        app.name
    );
    let list = api.list(&ListParams::default().labels(&selector)).await;
    let list = list.map_err(|error| PassError::api(&app.title(), "listing bundles", error))?;
    let mut bundles = list.items.into_iter().filter_map(Slim::observed);
    Ok(bundles.any(|bundle| application_of(&bundle) == Some(app.key())))
}

/// What is said of a cluster whose Bundles are not the application's to take away.
const LEAVES: &str = "it leaves the fleet, and its bundles go with it";

/// Says whom the deletion waits for: of clusters that have Bundles what their agents report, and of those that were let go and
/// are to clean up all the same that they are not told yet.
pub(super) fn waiting(
    observed: &BTreeMap<String, Vec<Arc<Observed>>>,
    untold: &[LetGo],
    fleet: &Fleet,
) -> String {
    const MAX_NAMED: usize = 5;
    let untold = untold.iter().map(|note| {
        (
            &note.cluster,
            "what it keeps is to be removed, and it is not told yet",
        )
    });
    let mut clusters: BTreeMap<&String, Cow<'_, str>> = untold
        .map(|(cluster, why)| (cluster, Cow::Borrowed(why)))
        .collect();
    clusters.extend(observed.iter().map(|(cluster, bundles)| {
        let why = match fleet.unreachable(cluster) {
            _ if fleet.is_leaving(cluster) => LEAVES.into(),
            Some(why) => why.into(),
            None => removal(bundles),
        };
        (cluster, why)
    }));
    let named = clusters.iter().take(MAX_NAMED);
    let named = named.map(|(cluster, why)| format!("{cluster} ({why})"));
    let named = named.collect::<Vec<_>>().join(", ");
    match clusters.len() {
        0 => "all clusters are cleaned".to_owned(),
        count if count > MAX_NAMED => {
            format!(
                "waiting for {count} clusters to be cleaned: {named} and {} more",
                count - MAX_NAMED
            )
        }
        1 => format!("waiting for 1 cluster to be cleaned: {named}"),
        count => format!("waiting for {count} clusters to be cleaned: {named}"),
    }
}

/// How far the removal of Bundles of one cluster is.
fn removal(bundles: &[Arc<Observed>]) -> Cow<'static, str> {
    if bundles.iter().any(|bundle| !bundle.deleting) {
        return "its removal is not written yet".into();
    }
    let is_cleaned = |bundle: &&Arc<Observed>| removal::next(bundle, None) == Removal::Release;
    let mut left = bundles.iter().filter(|bundle| !is_cleaned(bundle)).peekable();
    if left.peek().is_none() {
        return "it is cleaned, and its bundle is still to be let go".into();
    }
    let reported = worst(left.filter_map(|bundle| removal_report(bundle)));
    let said = reported.map(|(_, said)| Cow::Owned(said));
    said.unwrap_or("its agent has not reported that the objects are gone".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        application::{
            cache::Cache,
            testing::{api_server, bundle, bundles_in, refusal, writer},
        },
        dispatch::{Divided, Part, Target, Wanted, plan::Todo},
        leader::Leading,
        metrics::Metrics,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use kube::{
        Client,
        api::{DeleteParams, PostParams},
        client::Body,
    };
    use roundhouse_api::{
        application::{MAX_LET_GO, MAX_LET_GO_UNWANTED},
        bundle::{ApplyOnce, ApplyOnceRule, Bundle, Executor},
        cluster::Cluster,
    };
    use serde_json::json;
    use tokio::sync::Semaphore;

    /// Bundles of `default/web` as a judgement finds them.
    struct Judging {
        app: serde_json::Value,
        observed: BTreeMap<String, Vec<Arc<Observed>>>,
        plan: Plan,
        objects: Objects,
        cache: Cache,
    }

    impl Judging {
        /// So many clusters have a Bundle, and only the first is to keep it.
        fn of(clusters: usize) -> Judging {
            let key = ("default".to_owned(), "web".to_owned());
            let cache = Cache::default();
            let observed = (0..clusters).map(|n| {
                let cluster = format!("c{n:03}");
                cache.put_cluster(&Cluster::new(&cluster, Default::default()));
                let mut bundle = bundle(&key);
                bundle.metadata.namespace = Some(format!("cluster-{cluster}"));
                bundle.metadata.uid = Some(format!("u{n}"));
                bundle.spec.hash = Some("h".to_owned());
                (cluster, vec![Arc::new(Observed::of(bundle).unwrap())])
            });
            let observed: BTreeMap<String, Vec<Arc<Observed>>> = observed.collect();
            let going = observed.values().flatten().skip(1).map(|bundle| bundle.key());
            let surplus = going.collect();
            Judging {
                app: json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                    "metadata": {"name": "web", "namespace": "default", "uid": "a", "resourceVersion": "1"}, "spec": {}}),
                observed,
                plan: Plan {
                    targets: BTreeMap::from([("c000".to_owned(), Target::Untouched)]),
                    surplus,
                },
                objects: Objects::default(),
                cache,
            }
        }

        fn app(&self) -> Stored {
            Stored::of(serde_json::from_value(self.app.clone()).unwrap())
        }

        fn judge(&self) -> Judged {
            judge(
                &self.app(),
                &self.plan,
                &self.observed,
                &self.objects,
                &self.cache.fleet(),
                "web-v1",
                Timestamp::UNIX_EPOCH,
            )
        }

        fn asked(&self) -> Option<String> {
            self.judge().held.map(|held| held.deletes.hash)
        }

        fn confirm(&mut self, hash: &str) {
            self.app["metadata"]["annotations"] = json!({annotation::CONFIRM_DELETES: hash});
        }

        fn change(&mut self, cluster: &str, change: impl FnOnce(&mut Observed)) {
            let bundle = self.observed.get_mut(cluster).unwrap();
            change(Arc::make_mut(&mut bundle[0]));
        }

        /// The evidence is written to a cluster's Bundle.
        fn evidence(&mut self, cluster: &str, by: &str) {
            let evidence = removal::evidence("web-v1", by);
            self.change(cluster, |bundle| {
                Arc::make_mut(&mut bundle.spec).deletion = Some(evidence);
            });
        }

        /// Its agent keeps workloads until somebody approves that they go.
        fn refuse(&mut self, cluster: &str) {
            self.evidence(cluster, Deletion::GARBAGE_COLLECTION);
            let said = json!({"conditions": [{"type": "Degraded", "status": "True", "reason": "RemovalRefused",
                "message": "", "observedGeneration": 0, "lastTransitionTime": "2026-01-01T00:00:00Z"}]});
            self.change(cluster, |bundle| {
                bundle.deleting = true;
                bundle.status = Some(Arc::new(serde_json::from_value(said).unwrap()));
            });
        }
    }

    #[test]
    fn a_cluster_that_leaves_is_none_of_those_that_hold_an_application() {
        for leaves in [false, true] {
            let mut judging = Judging::of(20);
            judging
                .plan
                .surplus
                .retain(|(namespace, _)| ["cluster-c001", "cluster-c002"].contains(&namespace.as_str()));
            if leaves {
                let mut cluster = Cluster::new("c019", Default::default());
                cluster.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
                judging.cache.put_cluster(&cluster);
            }
            // Two of twenty are as many as may go; of nineteen they are more.
            assert_eq!(judging.judge().held.is_some(), leaves);
        }
    }

    #[test]
    fn a_confirmation_that_was_carried_out_in_part_goes_on() {
        let mut judging = Judging::of(10);
        let hash = judging.asked().unwrap();
        judging.confirm(&hash);
        let by = |judged: &Judged| {
            let by = judged
                .due
                .iter()
                .map(|(_, deletion)| deletion.confirmed_by.clone());
            by.collect::<BTreeSet<String>>()
        };
        for n in 1..10 {
            let judged = judging.judge();
            assert_eq!(judged.held, None, "{n}");
            assert_eq!((judged.due.len(), by(&judged)), (9, [hash.clone()].into()), "{n}");
            assert_eq!(judged.removals, None, "a new base");
            judging.evidence(&format!("c{n:03}"), &hash);
        }
        assert_eq!(judging.judge().spent, Some(hash.clone()));
        // Of another Bundle nobody has confirmed anything.
        for n in 5..10 {
            judging.change(&format!("c{n:03}"), |bundle| {
                Arc::make_mut(&mut bundle.spec).deletion = None;
            });
        }
        assert_eq!(judging.asked(), None);
        judging.change("c009", |bundle| bundle.uid = "another".to_owned());
        assert!(judging.asked().is_some_and(|asked| asked != hash));
    }

    #[test]
    fn a_confirmation_that_was_told_in_part_goes_on() {
        let mut judging = Judging::of(10);
        let gone: Vec<String> = (1..5).map(|n| format!("c{n:03}")).collect();
        let mut bundles: Vec<_> = gone
            .iter()
            .map(|cluster| judging.observed.remove(cluster))
            .collect();
        let notes = gone
            .iter()
            .map(|cluster| json!({"cluster": cluster, "bundle": "default.web"}));
        judging.app["status"] = json!({"letGo": notes.collect::<Vec<_>>()});
        let hash = judging.asked().unwrap();
        judging.confirm(&hash);
        assert_eq!(judging.judge().owed.len(), 4);
        judging
            .observed
            .insert(gone[0].clone(), bundles.swap_remove(0).unwrap());
        judging.evidence(&gone[0], &hash);
        judging.change(&gone[0], |bundle| {
            (bundle.uid, Arc::make_mut(&mut bundle.spec).hash) = ("new".to_owned(), None);
        });
        let judged = judging.judge();
        assert_eq!(judged.held, None);
        let by = judged
            .owed
            .iter()
            .map(|(_, deletion)| deletion.confirmed_by.as_str());
        assert_eq!(by.collect::<Vec<_>>(), [hash.as_str(); 3]);
    }

    #[test]
    fn an_approval_of_refused_removals_that_was_carried_out_in_part_goes_on() {
        let mut judging = Judging::of(3);
        judging.refuse("c001");
        judging.refuse("c002");
        let hash = judging.asked().unwrap();
        assert_eq!(carried_out_in_part(&judging.app(), &judging.observed), None);
        judging.confirm(&hash);
        judging.evidence("c001", &hash);
        judging.change("c001", |bundle| bundle.status = None);
        let judged = judging.judge();
        assert_eq!(judged.held, None);
        assert!(
            judged
                .due
                .iter()
                .all(|(_, deletion)| deletion.confirmed_by == hash)
        );
        // Without what has it nobody would know of the other one.
        assert_eq!(
            carried_out_in_part(&judging.app(), &judging.observed),
            Some(hash.as_str())
        );
        judging.evidence("c002", &hash);
        assert_eq!(carried_out_in_part(&judging.app(), &judging.observed), None);
        assert_eq!(judging.judge().spent, Some(hash));
    }

    #[test]
    fn no_more_go_at_a_time_than_are_counted_by_name() {
        let mut judging = Judging::of(1_000);
        judging.plan.surplus.truncate(80);
        let judged = judging.judge();
        assert_eq!((judged.held, judged.due.len()), (None, 50));
        let moments = judged.removals.unwrap().moments;
        let going: Vec<&str> = judged
            .due
            .iter()
            .map(|(bundle, _)| bundle.cluster.as_str())
            .collect();
        assert_eq!((moments.len(), moments[0].count), (1, 50));
        assert_eq!(moments[0].clusters, going);
    }

    #[test]
    fn what_was_let_go_of_a_step_is_owed_unless_the_step_may_want_it() {
        let wanted = |cluster: &str| {
            let wanted = Wanted {
                namespace: format!("cluster-{cluster}"),
                name: "default.web.step.flags".to_owned(),
                step: "flags".to_owned(),
                steps: None,
                part: 0,
                divided: Arc::new(Divided { parts: Vec::new() }),
                spec: BundleSpec::default(),
                todo: Todo::Create,
            };
            Plan {
                targets: BTreeMap::from([(cluster.to_owned(), Target::Bundles(vec![wanted]))]),
                surplus: Vec::new(),
            }
        };
        for (why, plan, untouched, owed) in [
            ("no step wants it", None, false, true),
            ("the step wants it elsewhere", Some("c000"), false, true),
            ("the step wants it there", Some("c001"), false, false),
            ("the step is not looked at", None, true, false),
        ] {
            let mut judging = Judging::of(2);
            judging.plan.surplus.clear();
            judging.app["status"] =
                json!({"letGo": [{"cluster": "c001", "bundle": "default.web.step.flags"}]});
            let plans = plan.map(|cluster| ("flags".to_owned(), wanted(cluster)));
            judging.objects.plans = plans.into_iter().collect();
            judging.objects.untouched = untouched.then(|| "flags".to_owned()).into_iter().collect();
            let judged = judging.judge();
            assert_eq!(
                (judged.held, judged.owed.len()),
                (None, usize::from(owed)),
                "{why}"
            );
            // The application stays there; what is lost is the object.
            let counted = judged
                .removals
                .map(|removals| removals.moments[0].clusters.clone());
            assert_eq!(counted, owed.then(|| vec!["c001".to_owned()]), "{why}");
        }
    }

    /// A client whose patches of the Bundles of one cluster are answered with a code.
    fn answering(inner: &Client, code: u16) -> Client {
        let inner = inner.clone();
        let service = tower::service_fn(move |request: http::Request<Body>| {
            let inner = inner.clone();
            async move {
                let is_it = request.uri().path().contains("/cluster-c1/");
                match is_it && request.method() == http::Method::PATCH {
                    true => Ok::<_, kube::Error>(refusal(code, "no")),
                    false => inner.send(request).await,
                }
            }
        });
        Client::new(service, "default")
    }

    #[tokio::test]
    async fn nothing_that_was_confirmed_goes_before_all_of_it_has_the_evidence() {
        let hash = "0123456789abcdef";
        for (code, by, goes) in [
            (503, hash, false),
            (409, hash, false),
            // Who refuses it for good holds up no other, and neither does anybody where each is for itself.
            (403, hash, true),
            (503, Deletion::GARBAGE_COLLECTION, true),
        ] {
            let (_server, client) = api_server().await;
            let key = ("default".to_owned(), "web".to_owned());
            let (cache, places) = (Cache::default(), Semaphore::new(2));
            let mut due = Vec::new();
            for name in ["cluster-c1", "cluster-c2"] {
                let bundles = bundles_in(&client, name).await;
                let mut bundle = bundle(&key);
                let evidence = removal::evidence("web-v1", by);
                bundle.spec.deletion = (name == "cluster-c2").then(|| evidence.clone());
                let made = bundles.create(&PostParams::default(), &bundle).await.unwrap();
                due.push((Arc::new(Observed::of(made).unwrap()), evidence));
            }
            let client = answering(&client, code);
            let written = writer(&client, &cache, &key, &places).remove(due).await;
            assert!(written.error.is_some());
            let other: Api<Bundle> = Api::namespaced(client.clone(), "cluster-c2");
            let other = other.get("default.web").await.unwrap();
            let gone = other.metadata.deletion_timestamp.is_some();
            assert_eq!(gone, goes, "{code} {by}");
        }
    }

    #[tokio::test]
    async fn whom_nobody_can_tell_holds_up_no_deletion() {
        let (_server, client) = api_server().await;
        let key = ("default".to_owned(), "web".to_owned());
        let (cache, places) = (Cache::default(), Semaphore::new(1));
        let application = json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
            "metadata": {"name": "web", "namespace": "default", "uid": "a", "resourceVersion": "1"}, "spec": {}});
        let app = cache.put_application(serde_json::from_value(application).unwrap());
        let (held, theirs) = (
            bundles_in(&client, "cluster-held").await,
            bundles_in(&client, "cluster-theirs").await,
        );
        let mut by_hand = bundle(&key);
        by_hand.spec.application_ref = None;
        theirs.create(&PostParams::default(), &by_hand).await.unwrap();
        let owed = ["held", "gone", "theirs"].map(|cluster| LetGo {
            cluster: cluster.to_owned(),
            bundle: "default.web".to_owned(),
        });
        let owed = with_application(&app, owed.to_vec());
        let terms = BundleSpec {
            apply_once: Some(ApplyOnce::Once),
            apply_once_rules: vec![ApplyOnceRule::default()],
            executor: Some(Executor::default()),
            ..BundleSpec::default()
        };
        let Told {
            written, left, done, ..
        } = tell_owed(writer(&client, &cache, &key, &places), &app, &terms, owed).await;
        let done: Vec<&str> = done.iter().map(|note| note.cluster.as_str()).collect();
        assert_eq!(done, ["theirs"]);
        assert!(
            written.error.is_none() && left.is_empty(),
            "{:?} {left:?}",
            written.error
        );
        assert_eq!(written.count, 1);
        let told = held.get("default.web").await.unwrap().spec;
        assert_eq!(
            (told.apply_once, &told.apply_once_rules, &told.executor),
            (terms.apply_once, &terms.apply_once_rules, &terms.executor)
        );
        assert_eq!(told.deletion.unwrap().confirmed_by, Deletion::APPLICATION_DELETED);
        assert_eq!(theirs.get("default.web").await.unwrap().spec.deletion, None);
    }

    #[test]
    fn what_is_noted_of_bundles_that_nobody_wants_leaves_room_for_those_that_are() {
        let key = ("default".to_owned(), "web".to_owned());
        let observed = (0..300).map(|n| {
            let mut bundle = bundle(&key);
            bundle.metadata.namespace = Some(format!("cluster-c{n:03}"));
            bundle.metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            (bundle.metadata.uid, bundle.metadata.resource_version) =
                (Some(format!("u{n}")), Some("1".to_owned()));
            let bundle = Arc::new(Observed::of(bundle).unwrap());
            (bundle.cluster.clone(), vec![bundle])
        });
        let observed: BTreeMap<String, Vec<Arc<Observed>>> = observed.collect();
        let cache = Cache::default();
        for cluster in observed.keys() {
            cache.put_cluster(&Cluster::new(cluster, Default::default()));
        }
        let fleet = cache.fleet();
        let all = || observed.values().flatten();
        let unwanted = let_go(&[], (all(), MAX_LET_GO_UNWANTED), &observed, &fleet);
        assert_eq!(unwanted.len(), MAX_LET_GO_UNWANTED);
        assert_eq!(
            let_go(&unwanted, (all(), MAX_LET_GO_UNWANTED), &observed, &fleet),
            unwanted
        );
        let wanted = let_go(&unwanted, (all().skip(250), MAX_LET_GO), &observed, &fleet);
        assert_eq!(wanted.len(), MAX_LET_GO_UNWANTED + 50);
        assert!(wanted.iter().any(|note| note.cluster == "c299"));
    }

    #[test]
    fn whom_a_deletion_waits_for_is_told_with_the_reason() {
        let mut judging = Judging::of(5);
        for cluster in ["c001", "c002", "c003", "c004"] {
            judging.evidence(cluster, Deletion::APPLICATION_DELETED);
            judging.change(cluster, |bundle| bundle.deleting = true);
        }
        judging.change("c002", |bundle| {
            let status = serde_json::from_value(json!({"phase": "Cleaned",
                "observedGeneration": bundle.generation, "hash": bundle.spec.hash}))
            .unwrap();
            bundle.status = Some(Arc::new(status));
        });
        judging.change("c003", |bundle| {
            let status = serde_json::from_value(json!({"phase": "Progressing",
                "observedGeneration": bundle.generation, "hash": bundle.spec.hash,
                "conditions": [{"type": "Progressing", "status": "True", "reason": "Removing",
                    "message": "Pod default/web: its finalizer example.org/hold is on it",
                    "lastTransitionTime": "1970-01-01T00:00:00Z"}]}))
            .unwrap();
            bundle.status = Some(Arc::new(status));
        });
        for name in judging.observed.keys() {
            let mut cluster = Cluster::new(name, Default::default());
            cluster.metadata.deletion_timestamp = (name == "c004").then_some(Time(Timestamp::UNIX_EPOCH));
            cluster.status =
                serde_json::from_value(json!({"conditions": [{"type": "Available", "status": "True",
                "reason": "Renewed", "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]}))
                .unwrap();
            judging.cache.put_cluster(&cluster);
        }
        let fleet = judging.cache.fleet();
        assert_eq!(
            waiting(&judging.observed, &[], &fleet),
            "waiting for 5 clusters to be cleaned: c000 (its removal is not written yet), c001 (its agent has not reported that \
             the objects are gone), c002 (it is cleaned, and its bundle is still to be let go), c003 (Pod default/web: its \
             finalizer example.org/hold is on it), c004 (it leaves the fleet, and its bundles go with it)"
        );
        let untold = [LetGo {
            cluster: "c9".to_owned(),
            bundle: "default.web".to_owned(),
        }];
        assert_eq!(
            waiting(&BTreeMap::new(), &untold, &fleet),
            "waiting for 1 cluster to be cleaned: c9 (what it keeps is to be removed, and it is not told yet)"
        );
        assert_eq!(waiting(&BTreeMap::new(), &[], &fleet), "all clusters are cleaned");
    }

    #[tokio::test]
    async fn of_a_cluster_that_leaves_no_bundle_is_let_go_or_made() {
        let (_server, client) = api_server().await;
        let key = ("default".to_owned(), "web".to_owned());
        // Whether it leaves as the watch has shown, and as the cluster controller knows, whose watch may be further.
        for (shown, known, released) in [(true, false, 0), (false, true, 0), (false, false, 1)] {
            let cluster = format!("c-{shown}-{known}");
            let name = format!("cluster-{cluster}");
            let leading = Leading::always(1);
            leading.lets_go(&cluster, known);
            let cache = Cache::new(Metrics::default(), leading);
            let mut cluster = Cluster::new(&cluster, Default::default());
            cluster.metadata.deletion_timestamp = shown.then_some(Time(Timestamp::UNIX_EPOCH));
            cache.put_cluster(&cluster);
            // Its namespace is deleted while it has no evidence yet.
            let bundles = bundles_in(&client, &name).await;
            bundles
                .create(&PostParams::default(), &bundle(&key))
                .await
                .unwrap();
            bundles
                .delete("default.web", &DeleteParams::default())
                .await
                .unwrap();
            let held = bundles.get("default.web").await.unwrap();
            cache.put_bundle(Observed::of(held).unwrap());
            let places = Semaphore::new(1);
            let writer = writer(&client, &cache, &key, &places);
            let written = release(writer, &cache.all_bundles(&key), false, None, Stays::default()).await;
            assert!(written.error.is_none(), "{:?}", written.error);
            assert_eq!(written.count, released, "{name}");
            let there = bundles.get_opt("default.web").await.unwrap().is_some();
            assert_eq!(there, released == 0);
            let part = Part {
                manifests: Vec::new(),
                hash: "h".to_owned(),
            };
            let wanted = Wanted {
                namespace: name.clone(),
                name: "default.next".to_owned(),
                step: "deploy".to_owned(),
                steps: None,
                part: 0,
                divided: Arc::new(Divided { parts: vec![part] }),
                spec: BundleSpec::default(),
                todo: Todo::Create,
            };
            let cluster = name["cluster-".len()..].to_owned();
            let plan = Plan {
                targets: BTreeMap::from([(cluster, Target::Bundles(vec![wanted]))]),
                surplus: Vec::new(),
            };
            let written = writer.dispatch(&plan, &BTreeMap::new(), &[]).await;
            let made = bundles.get_opt("default.next").await.unwrap().is_some();
            assert_eq!(
                (written.count, made),
                (released, released == 1),
                "{:?}",
                written.error
            );
            assert_eq!(
                written.error.is_some_and(|error| error.is_conflict()),
                released == 0
            );
        }
    }
}
