//! What can be done in a run.

use super::Order;
use crate::{
    simulate::{
        Fleet, MemberSpec,
        fault::{DiskFault, Ending, Moment, On, Rule},
        monitor::Monitor,
    },
    words,
};
use futures::future::LocalBoxFuture;
use jiff::SignedDuration;
use roundhouse_api::{cluster::Leave, names::decision_name};
use serde_json::Value;
use std::{fmt, sync::Arc, time::Duration};

/// Names of clusters that are told one by one.
pub(super) const NAMED: usize = 8;

/// An object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The member that has it; the hub if absent.
    pub member: Option<String>,
    /// `apiVersion`.
    pub api_version: String,
    /// `kind`.
    pub kind: String,
    /// Namespace; empty if it has none.
    pub namespace: String,
    /// Name.
    pub name: String,
}

impl Target {
    /// An Application in the namespace `default`.
    pub fn application(name: &str) -> Target {
        Target::on_hub("core.oam.dev/v1beta1", "Application", "default", name)
    }

    /// The Decision of a step of an application in the namespace `default`.
    pub fn decision(application: &str, step: &str) -> Target {
        let name = decision_name(application, step);
        Target::on_hub("roundhouse.dev/v1alpha1", "Decision", "default", &name)
    }

    /// A Cluster.
    pub fn cluster(name: &str) -> Target {
        Target::on_hub("roundhouse.dev/v1alpha1", "Cluster", "", name)
    }

    /// An object of the hub.
    pub fn on_hub(api_version: &str, kind: &str, namespace: &str, name: &str) -> Target {
        Target {
            member: None,
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// The object of this name in a member.
    #[must_use]
    pub fn in_member(mut self, member: &str) -> Target {
        self.member = Some(member.to_owned());
        self
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target {
            kind,
            namespace,
            name,
            ..
        } = self;
        write!(f, "{kind} ")?;
        if !namespace.is_empty() {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{name}")?;
        match &self.member {
            Some(member) => write!(f, " in {member}"),
            None => Ok(()),
        }
    }
}

type Looks = dyn for<'a> Fn(&'a Fleet, &'a Monitor) -> LocalBoxFuture<'a, Result<(), String>> + Send + Sync;

/// Looks at a fleet: fine, or what is not.
#[derive(Clone)]
pub struct Look(Arc<Looks>);

impl fmt::Debug for Look {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Look").finish_non_exhaustive()
    }
}

impl Look {
    /// From a function.
    pub fn new(
        looks: impl for<'a> Fn(&'a Fleet) -> LocalBoxFuture<'a, Result<(), String>> + Send + Sync + 'static,
    ) -> Look {
        Look(Arc::new(move |fleet, _| looks(fleet)))
    }

    /// From a function that wants to know, too, what the monitor has seen.
    pub(super) fn beside(
        looks: impl for<'a> Fn(&'a Fleet, &'a Monitor) -> LocalBoxFuture<'a, Result<(), String>>
        + Send
        + Sync
        + 'static,
    ) -> Look {
        Look(Arc::new(looks))
    }

    pub(super) async fn at(&self, fleet: &Fleet, monitor: &Monitor) -> Result<(), String> {
        (self.0)(fleet, monitor).await
    }
}

/// Something that is expected.
#[derive(Debug, Clone)]
pub struct Check {
    /// As a sentence.
    pub what: String,
    /// Whether it is so.
    pub look: Look,
}

/// A fault that lasts.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The network does something to some requests.
    Network(Rule),
    /// The agents of these clusters and the hub do not reach each other.
    Partition(Vec<String>),
    /// The clock of a party is fast by so much, or slow.
    Clock(String, SignedDuration),
    /// The hub's disk fails.
    Disk(DiskFault),
    /// A hub is held still.
    Pause(String),
    /// A hub or an agent does not run: told to end, and started again.
    Stopped(String),
    /// The same, but killed.
    Killed(String),
    /// The machine of the hub has no power: its API server goes with it, and what its disk had not synced.
    PowerCut,
}

/// What is done.
#[derive(Debug, Clone)]
pub enum Act {
    /// An object is created on the hub, or its content replaced.
    Apply(Value),
    /// An object is created in a member, or its content replaced, by another than the agent.
    ApplyIn(String, Value),
    /// An object is changed by a merge patch.
    Patch(Target, Value),
    /// The same of an object that a placement may take away for good: then it is left.
    PatchIfThere(Target, Value),
    /// The status of an object is changed by a merge patch.
    PatchStatus(Target, Value),
    /// An object is deleted.
    Delete(Target),
    /// A person says something to the run of an application in the namespace `default`. Where it makes no sense, nothing is said.
    Order(String, Order),
    /// A label of a Cluster is set, or taken away.
    Label {
        /// The cluster.
        cluster: String,
        /// The label.
        key: String,
        /// Its value.
        value: Option<String>,
    },
    /// A cluster joins.
    Join(MemberSpec),
    /// A cluster leaves in this way.
    Leave(String, Leave),
    /// All that the server of a member, or of the hub, stores is kept aside.
    Backup(String),
    /// It has again what was kept aside, and is started anew. Who works in a member goes on; the hub's process ends with its
    /// server, and finds a mark that it was restored ([`crate::restored`]).
    Restore(String),
    /// A fault begins; with a time it ends after it.
    Begin(Fault, Option<Duration>),
    /// Every fault ends, and who does not run is started.
    Heal,
    /// Open watches end.
    EndWatches(On, Ending),
    /// A hub or an agent is killed at a moment of its life, and started again some time later.
    KillAt {
        /// Who.
        who: String,
        /// When.
        moment: Moment,
        /// How long it is away.
        away: Duration,
    },
    /// Something must be so now.
    Check(Check),
    /// What follows in the script waits until everything is delivered, or until nothing has been written for so long.
    Settle {
        /// How long nothing is written that nothing more is expected.
        idle: Duration,
        /// How long at most.
        within: Duration,
    },
    /// What follows in the script waits until something is so; that it is not so after `within` is a failure.
    Await {
        /// What.
        check: Check,
        /// How long at most.
        within: Duration,
    },
}

impl Act {
    /// A fault that lasts for some time.
    pub fn for_a_while(fault: Fault, lasting: Duration) -> Act {
        Act::Begin(fault, Some(lasting))
    }

    /// Waits for something, at most ten minutes.
    pub fn wait(what: &str, look: Look) -> Act {
        Act::Await {
            check: Check {
                what: what.to_owned(),
                look,
            },
            within: Duration::from_secs(600),
        }
    }

    /// Something must be so now.
    pub fn check(what: &str, look: Look) -> Act {
        Act::Check(Check {
            what: what.to_owned(),
            look,
        })
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named = |object: &Value| {
            let text = |pointer: &str| {
                object
                    .pointer(pointer)
                    .and_then(Value::as_str)
                    .unwrap_or("?")
                    .to_owned()
            };
            let namespace = object.pointer("/metadata/namespace").and_then(Value::as_str);
            match namespace.filter(|namespace| !["", "default"].contains(namespace)) {
                Some(namespace) => format!("{} {namespace}/{}", text("/kind"), text("/metadata/name")),
                None => format!("{} {}", text("/kind"), text("/metadata/name")),
            }
        };
        match self {
            Act::Apply(object) => write!(f, "{} is applied", named(object)),
            Act::ApplyIn(member, object) => {
                write!(f, "{} is written in {member} by somebody else", named(object))
            }
            Act::Patch(target, _) | Act::PatchIfThere(target, _) | Act::PatchStatus(target, _) => {
                write!(f, "{target} is changed")
            }
            Act::Delete(target) => write!(f, "{target} is deleted"),
            Act::Order(application, order) => write!(f, "Application {application} {order}"),
            Act::Label {
                cluster,
                key,
                value: Some(value),
            } => write!(f, "{cluster} is labelled {key}={value}"),
            Act::Label { cluster, key, .. } => write!(f, "{cluster} loses its label {key}"),
            Act::Join(spec) => write!(f, "{} joins", spec.name),
            Act::Leave(cluster, how) => write!(f, "{cluster} leaves ({how:?})"),
            Act::Backup(member) => write!(f, "{member} is backed up"),
            Act::Restore(member) => write!(f, "{member} is restored from its backup"),
            Act::Begin(fault, None) => write!(f, "{fault}"),
            Act::Begin(fault, Some(lasting)) => match lasting.subsec_nanos() {
                0 => write!(f, "{fault}, for {}", words::time(*lasting)),
                _ => write!(f, "{fault}, for {lasting:?}"),
            },
            Act::Heal => write!(f, "all faults end"),
            Act::EndWatches(on, how) => write!(f, "watches of {:?} end: {how:?}", on.who),
            Act::KillAt { who, moment, .. } => write!(f, "{who} is doomed: {moment:?}"),
            Act::Settle { .. } => write!(f, "waited until nothing more happens"),
            Act::Check(check) => write!(f, "looked: {}", check.what),
            Act::Await { check, .. } => write!(f, "waited: {}", check.what),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Network(rule) => write!(f, "{rule}"),
            Fault::Partition(clusters) => {
                write!(f, "cut off from the hub: {}", words::listed(clusters, NAMED))
            }
            Fault::Clock(who, fast) => write!(f, "the clock of {who} is {}", words::off(*fast)),
            Fault::Disk(fault) => write!(f, "the hub's disk: {fault:?}"),
            Fault::Pause(who) => write!(f, "{who} is held still"),
            Fault::Stopped(who) => write!(f, "{who} is stopped"),
            Fault::Killed(who) => write!(f, "{who} is killed"),
            Fault::PowerCut => write!(f, "the hub's machine loses its power"),
        }
    }
}
