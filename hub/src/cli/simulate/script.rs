//! The script of what was asked for.

use super::{
    Args,
    asked::{self, Lose, Resume, Then, Until},
    beside::{self, Files, Other},
    bound, fleet,
    never::Asked,
    refusal::{self, Refusal},
};
use crate::{
    cli::{
        Failure, plan,
        proposals::{Kind, Proposed},
    },
    simulate::{
        member_spec,
        run::{self, Act, Fault, Script},
    },
    words,
};
use jiff::SignedDuration;
use kube::ResourceExt;
use roundhouse_api::{
    application::{StepKind, validate},
    cluster::{Cluster, ClusterSpec},
};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

/// When clusters are lost where the user does not say: just when there is something to deliver to them.
const LOST: Duration = Duration::ZERO;
/// After a delivery, nothing but Leases may be written for so long.
const QUIET: Duration = Duration::from_secs(60);

/// A script, and what of it people want to read.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) script: Script,
    /// The applications, by namespace and name.
    pub(super) applications: Vec<String>,
    /// The options that cues of the script stand for, by index.
    pub(super) asked: BTreeMap<usize, Asked>,
}

/// The script of what was asked for, over these clusters; `changes` are what [`Args::then`] names.
///
/// # Errors
/// A file holds nothing to run, more than is run, or changes the kinds of clusters; an option names a cluster or a step that is not
/// there.
pub(super) fn of(
    args: &Args,
    clusters: &[Cluster],
    files: &Files,
    changes: &[Files],
) -> Result<Made, Failure> {
    let Files { proposed, others } = files;
    let applications: Vec<String> = proposed
        .iter()
        .filter(|one| one.kind == Kind::Application)
        .map(|one| format!("{}/{}", one.namespace, one.name))
        .collect();
    if applications.is_empty() {
        return Err(Failure::new("E-NOTHING", "there is no Application to simulate")
            .because("the files hold no Application")
            .advise("-f with the file of an Application too"));
    }
    let (mut present, mut versions) = (BTreeMap::new(), Vec::new());
    for Files { proposed, .. } in [files].into_iter().chain(changes) {
        let laid_over = proposed.iter().cloned();
        present.extend(laid_over.map(|one| ((one.kind, one.namespace.clone(), one.name.clone()), one)));
        let all: Vec<Proposed> = present.values().cloned().collect();
        let plans = plan::plan_all(&plan::offline(clusters), &all, plan::last_taint(clusters));
        // An application that cannot be planned is left to the run, which tells why.
        if let Ok(plans) = &plans {
            bound::check(plans)?;
        }
        versions.push(plans);
    }
    let mut script = Script::new(fleet::members(clusters)?);
    script.nodes = fleet::nodes(clusters)?;
    script.applications = match args.inventory {
        Some(_) => of_inventory(clusters),
        None => Vec::new(),
    };
    script.applications.extend(objects(files));
    let of_clusters = others.iter().filter(|one| is_of_clusters(one));
    script.in_members = of_clusters.map(|one| one.object.clone()).collect();
    script.held_waits = true;
    script.until = match args.until {
        Until::Done => run::Until::Done {
            within: args.within.0,
            idle: args.patience.0,
            quiet: QUIET,
        },
        Until::Delivered => run::Until::Delivered {
            within: args.within.0,
            quiet: QUIET,
        },
        Until::Time(time) => run::Until::At(time),
    };
    for resume in &args.resume {
        in_time("--resume", &resume.step, resume.from, args)?;
        if script.resumes.iter().any(|former| former.step == resume.step) {
            let what = format!("--resume: step {} is there twice", resume.step);
            return Err(Failure::new("E-STEP", what)
                .because("one lets runs go on whenever the step makes them wait")
                .advise("it once, with the earlier time"));
        }
        script.resumes.push(run::Resume {
            step: resume.step.clone(),
            applications: suspended_by(resume, changes.iter().chain([files]))?,
            from: resume.from.unwrap_or_default(),
        });
    }
    let made = Made {
        script,
        applications,
        asked: BTreeMap::new(),
    };
    let refusals = refusal::of(args, versions)?;
    cues(made, args, clusters, changes, &refusals)
}

fn is_of_clusters(one: &Other) -> bool {
    one.kind == beside::Kind::CustomResourceDefinition
}

/// What clusters of an inventory say beside what those of every simulation do.
fn of_inventory(clusters: &[Cluster]) -> Vec<Value> {
    let said = clusters.iter().map(|cluster| (cluster, simulated(&cluster.spec)));
    said.filter(|(_, spec)| *spec != member_spec())
        .map(|(cluster, spec)| {
            json!({"apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster",
                "metadata": {"name": cluster.name_any(), "labels": cluster.labels()}, "spec": spec})
        })
        .collect()
}

/// A spec as it is simulated: who may become the agent is not the inventory's to say, since the simulation has agents of its own.
fn simulated(spec: &ClusterSpec) -> ClusterSpec {
    let ClusterSpec {
        accepted: _,
        serial: _,
        join_until: _,
        auto_accept: _,
        accepted_key: _,
        leave,
        taints,
    } = spec;
    ClusterSpec {
        leave: *leave,
        taints: taints.clone(),
        ..member_spec()
    }
}

/// What is applied of files, in order: the namespaces, what steps look at, and then what is planned.
fn objects(Files { proposed, others }: &Files) -> Vec<Value> {
    let mut objects = Vec::new();
    let of_others = others.iter().map(|one| one.namespace.as_str());
    let namespaces = proposed.iter().map(|one| one.namespace.as_str());
    let namespaces: BTreeSet<&str> = namespaces.chain(of_others).collect();
    let is_written = |name: &str| {
        let mut others = others.iter();
        others.any(|one| one.kind == beside::Kind::Namespace && one.name == name)
    };
    for namespace in namespaces
        .into_iter()
        .filter(|name| !["", "default"].contains(name) && !is_written(name))
    {
        objects.push(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}));
    }
    let of_hub = others.iter().filter(|one| !is_of_clusters(one));
    objects.extend(of_hub.map(|one| one.object.clone()));
    let mut all: Vec<&Proposed> = proposed.iter().collect();
    all.sort_by_key(|one| (one.kind, &one.namespace, &one.name));
    objects.extend(all.into_iter().map(|one| one.object.clone()));
    objects
}

fn cues(
    mut made: Made,
    args: &Args,
    clusters: &[Cluster],
    changes: &[Files],
    refusals: &[Refusal],
) -> Result<Made, Failure> {
    let mut timed: Vec<(Duration, Act, Asked)> = Vec::new();
    let plain = |option: String| Asked { option, step: None };
    let refusals_of = |version: usize| {
        let begin = refusals.iter().filter(move |refusal| refusal.version == version);
        begin.map(Refusal::begins)
    };
    timed.extend(refusals_of(0).map(|(act, asked)| (Duration::ZERO, act, asked)));
    for lose in &args.lose {
        in_time("--lose", &lose.which, lose.at, args)?;
        let lost = Act::Begin(Fault::Partition(selected(lose, clusters)?), lose.lasting);
        timed.push((lose.at.unwrap_or(LOST), lost, plain(lose.to_string())));
    }
    let mut afterwards = Vec::new();
    for set in &args.set_label {
        in_time("--set-label", &set.cluster, set.at, args)?;
        if !clusters.iter().any(|cluster| cluster.name_any() == set.cluster) {
            return Err(no_cluster(
                "--set-label",
                &set.cluster,
                clusters,
                "one of these names",
            ));
        }
        let label = Act::Label {
            cluster: set.cluster.clone(),
            key: set.key.clone(),
            value: set.value.clone(),
        };
        match set.at {
            Some(at) => timed.push((at, label, plain(set.to_string()))),
            None => afterwards.push((label, plain(set.to_string()))),
        }
    }
    let mut changed = Vec::new();
    for (version, (then, files)) in (1..).zip(args.then.iter().zip(changes)) {
        in_time("--then", &then.file.display().to_string(), then.at, args)?;
        let acts = changes_of(then, files, &made.script.applications)?;
        let acts = acts.into_iter().map(|act| (act, plain(then.to_string())));
        let acts = refusals_of(version).chain(acts);
        match then.at {
            Some(at) => timed.extend(acts.map(|(act, asked)| (at, act, asked))),
            None => changed.push(acts.collect()),
        }
    }
    timed.sort_by_key(|(at, ..)| *at);
    for (at, act, asked) in timed {
        made.asked.insert(made.script.cues.len(), asked);
        made.script = made.script.at(at, act);
    }
    let settle = || Act::Settle {
        idle: args.patience.0,
        within: args.within.0,
    };
    let heals = lasts(args) && !args.forever;
    in_patience(args)?;
    let afterwards: Vec<Vec<(Act, Asked)>> = [afterwards].into_iter().chain(changed).collect();
    for afterwards in afterwards.into_iter().filter(|acts| !acts.is_empty()) {
        made.script = made.script.then(settle());
        for (act, asked) in afterwards {
            made.asked.insert(made.script.cues.len(), asked);
            made.script = made.script.then(act);
        }
    }
    if heals {
        made.script = made.script.then(settle()).then(Act::Heal);
    }
    Ok(made)
}

/// What users do who apply a file after `former` objects.
fn changes_of(then: &Then, files: &Files, former: &[Value]) -> Result<Vec<Act>, Failure> {
    if let Some(kind) = files.others.iter().find(|one| is_of_clusters(one)) {
        let what = format!("{then}: {} is a kind of the clusters", kind.name);
        return Err(Failure::new("E-INPUT", what)
            .because("their kinds do not change in a simulation")
            .advise("-f with its definition, or a component that has it"));
    }
    let named = |object: &Value| ["/kind", "/metadata/name"].map(|pointer| object.pointer(pointer).cloned());
    let is_there = |object: &Value| former.iter().any(|one| named(one) == named(object));
    let is_written = |object: &Value| files.others.iter().any(|one| one.object == *object);
    // A namespace that the file only names is made once.
    let is_again = |object: &Value| object["kind"] == "Namespace" && !is_written(object) && is_there(object);
    let objects = objects(files).into_iter().filter(|object| !is_again(object));
    Ok(objects.map(Act::Apply).collect())
}

/// The applications whose runs this step makes wait for a person, in some version of theirs.
fn suspended_by<'a>(
    resume: &Resume,
    versions: impl Iterator<Item = &'a Files>,
) -> Result<Vec<[String; 2]>, Failure> {
    let proposed = versions.flat_map(|files| &files.proposed);
    let (mut waiting, mut others) = (BTreeSet::new(), BTreeSet::new());
    let mut applications = BTreeSet::new();
    for one in proposed.filter(|one| one.kind == Kind::Application) {
        // It is valid, or it would not have been proposed.
        let valid = validate(one.spec()).ok();
        for step in valid.iter().flat_map(|valid| valid.all_steps()) {
            let waits = match &step.kind {
                StepKind::Suspend(_) => true,
                StepKind::Deploy(deploy) => deploy.asks,
                _ => false,
            };
            let names = if waits { &mut waiting } else { &mut others };
            names.insert(step.name.clone());
            if waits && step.name == resume.step {
                applications.insert([one.namespace.clone(), one.name.clone()]);
            }
        }
    }
    if !applications.is_empty() {
        return Ok(applications.into_iter().collect());
    }
    let what = match others.contains(&resume.step) {
        true => format!("--resume: step {:?} waits for no person", resume.step),
        false => format!("--resume: no step is named {:?}", resume.step),
    };
    let failure = Failure::new("E-STEP", what);
    let waiting: Vec<String> = waiting.into_iter().collect();
    Err(match waiting.is_empty() {
        true => failure
            .because("no application has a step of type suspend, or one with auto: false")
            .advise("the run without --resume"),
        false => failure
            .because(format!(
                "the steps that wait for a person are {}",
                words::listed(&waiting, 10)
            ))
            .advise("one of these names"),
    })
}

/// Whether something is lost, or fails, that does not end by itself.
fn lasts(args: &Args) -> bool {
    !args.fail.is_empty() || args.lose.iter().any(|lose| lose.lasting.is_none())
}

/// What lasts ends when nothing further happens, which has its time, and so has what comes back by itself.
fn in_patience(args: &Args) -> Result<(), Failure> {
    if args.forever && !lasts(args) {
        let failure = Failure::new("E-FOREVER", "--forever: nothing is there that could stay so");
        return Err(match args.lose.is_empty() {
            true => failure
                .because("there is no --lose and no --fail")
                .advise("--lose or --fail with it, or the run without --forever"),
            false => failure
                .because("every --lose says how long it lasts")
                .advise("--lose without +DURATION, or the run without --forever"),
        });
    }
    let (patience, within) = (args.patience.0, args.within.0);
    for lose in &args.lose {
        if let Some(lasting) = lose.lasting.filter(|lasting| *lasting >= within) {
            let what = format!("--lose: {} is lost for {}", lose.which, written(lasting));
            return Err(Failure::new("E-TIME", what)
                .because(format!("--within says that nothing takes {}", written(within)))
                .advise("a shorter loss, or a longer --within"));
        }
    }
    // By --until delivered what lasts for ever has its own time.
    let is_waited_for = lasts(args) && (!args.forever || args.until == Until::Done);
    if is_waited_for && patience >= within {
        let what = format!(
            "--within {} is over before nothing further happens",
            written(within)
        );
        let lasting = args.lose.iter().any(|lose| lose.lasting.is_none());
        let ways = [
            Some("a longer --within"),
            (within > asked::PATIENCE).then_some("a shorter --patience"),
            (lasting && args.fail.is_empty() && !args.forever).then_some("--lose with @TIME+DURATION"),
        ];
        let ways: Vec<&str> = ways.into_iter().flatten().collect();
        return Err(Failure::new("E-TIME", what)
            .because(format!(
                "nothing further happens when nothing has been written for {}, by --patience: only then comes back what was lost or fails",
                written(patience)
            ))
            .advise(ways.join(", or ")));
    }
    Ok(())
}

/// A time as users write it.
fn written(time: Duration) -> String {
    SignedDuration::try_from(time).map_or_else(|_| format!("{time:?}"), |time| format!("{time:#}"))
}

/// What is to happen at a time happens before the end.
fn in_time(option: &str, what: &str, at: Option<Duration>, args: &Args) -> Result<(), Failure> {
    let (Some(at), Until::Time(end)) = (at, args.until) else {
        return Ok(());
    };
    if at < end {
        return Ok(());
    }
    Err(Failure::new(
        "E-TIME",
        format!(
            "{option}: {what} has its time at {}, and it is over by then",
            written(at)
        ),
    )
    .because(format!("--until says {}", written(end)))
    .advise("an earlier time, or a later --until"))
}

/// The clusters that are lost, by name.
fn selected(lose: &Lose, clusters: &[Cluster]) -> Result<Vec<String>, Failure> {
    if clusters.iter().any(|cluster| cluster.name_any() == lose.which) {
        return Ok(vec![lose.which.clone()]);
    }
    let lost: Vec<String> = clusters
        .iter()
        .filter(|cluster| {
            lose.selector
                .matches(&cluster.labels().clone().into_iter().collect())
        })
        .map(ResourceExt::name_any)
        .collect();
    if lost.is_empty() {
        let advice = "one of these names or labels, as they are at the start";
        return Err(no_cluster("--lose", &lose.which, clusters, advice));
    }
    Ok(lost)
}

fn no_cluster(option: &str, which: &str, clusters: &[Cluster], advice: &str) -> Failure {
    let names: Vec<String> = clusters.iter().map(ResourceExt::name_any).collect();
    let labels: BTreeSet<String> = clusters
        .iter()
        .flat_map(|cluster| {
            cluster
                .labels()
                .iter()
                .map(|(key, value)| format!("{key}={value}"))
        })
        .collect();
    let labels: Vec<String> = labels.into_iter().collect();
    Failure::new("E-CLUSTERS", format!("{option}: no cluster is {which:?}"))
        .because(format!(
            "the clusters are {}; their labels are {}",
            words::listed(&names, 5),
            words::listed(&labels, 10)
        ))
        .advise(advice)
}
