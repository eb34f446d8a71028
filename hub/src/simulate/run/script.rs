//! What is run.

use super::{Act, Check, Help, Look, Resume};
use crate::{
    leader::Timing,
    run::HubOptions,
    simulate::{HUB, MemberSpec, OTHER_HUB, Wires, monitor::Promise, workloads::Model},
};
use k8s_openapi::api::core::v1::NodeStatus;
use roundhouse_agent::Config;
use roundhouse_api::names::ClusterName;
use serde_json::Value;
use std::{collections::BTreeMap, ops::RangeInclusive, sync::Arc, time::Duration};

/// Something that is done at a time.
#[derive(Debug, Clone)]
pub struct Cue {
    /// So long after the start, or after the last [`Act::Await`] or [`Act::Settle`] before it in the script.
    pub at: Duration,
    /// What.
    pub act: Act,
}

/// When a run is over. Times count from the last cue and the end of its fault, but for [`Until::At`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Until {
    /// Everything is delivered: every application runs its newest revision, every agent has applied and reported its newest
    /// bundles, every cluster is available, no fault is on, and all of that stays so for a minute. After that nothing but
    /// Leases is written for `quiet`. Not to get there `within` is a failure, and so is that nothing further happens while a
    /// fault is on that nobody ends.
    Delivered {
        /// The longest that this may take.
        within: Duration,
        /// How long nothing may be written afterwards.
        quiet: Duration,
    },
    /// As before; but that nothing has been written for `idle` is an end, too, and no failure: what waits is in
    /// [`Outcome::waits`](super::Outcome::waits).
    Done {
        /// The longest that this may take.
        within: Duration,
        /// How long nothing but Leases is written that nothing more is expected.
        idle: Duration,
        /// How long nothing may be written after everything is delivered.
        quiet: Duration,
    },
    /// So long.
    Time(Duration),
    /// So long after the applications are applied, whatever of the script is left then.
    At(Duration),
}

/// Who rests for so long has seen everybody look at everything by themselves: it is longer than between any two such looks of hub and
/// agents.
pub const LOOKED: Duration = Duration::from_secs(11 * 60);

/// Changes settings.
type Changes<T> = dyn Fn(&mut T) + Send + Sync;

/// What is run: a fleet, applications, and what is done when. A value: the same script and the same seed give the same run.
#[derive(Clone)]
pub struct Script {
    /// The members.
    pub members: Vec<MemberSpec>,
    /// What the node of a member has, by its name ([`FleetOptions::nodes`](crate::simulate::FleetOptions::nodes)).
    pub nodes: BTreeMap<String, NodeStatus>,
    /// The hubs, by name. The first one is there with the API server from the start; [`HUB`] is one process with it, unless
    /// [`Script::server_apart`].
    pub hubs: Vec<String>,
    /// The API server of the hub is a process of its own: the end of a hub is not its end.
    pub server_apart: bool,
    /// The API server of the hub knows nothing of terms ([`roundhouse_apiserver::TERM`]), as a kube-apiserver.
    pub foreign_server: bool,
    /// The API servers drop fields that they do not know, as Kubernetes does, where they otherwise refuse the write.
    pub lenient: bool,
    /// Whether the hubs stand for election, and how.
    pub election: Option<Timing>,
    /// Objects that are created on the hub when every cluster is available: Applications and what they need.
    pub applications: Vec<Value>,
    /// Objects that every member has before, made by another than its agent.
    pub in_members: Vec<Value>,
    /// What is done, in order.
    pub cues: Vec<Cue>,
    /// Whom somebody lets go on.
    pub resumes: Vec<Resume>,
    /// When the run is over.
    pub until: Until,
    /// What must be so then.
    pub finally: Vec<Check>,
    /// Removals that wait for a person are not delivered. Otherwise a script looks for itself at what is held.
    pub held_waits: bool,
    /// What somebody does every minute as long as something waits, when there is nothing more to be done.
    pub helps: Vec<Help>,
    /// Promises that are not made for this fleet, such as one of the hub's options excludes.
    pub not_made: Vec<Promise>,
    /// How long every request takes to arrive.
    pub latency: RangeInclusive<Duration>,
    /// How the members' workloads behave; the seed is the run's.
    pub model: Model,
    /// Changes the settings of every agent; the jitter's seed is the run's.
    pub agents: Option<Arc<Changes<Config>>>,
    /// Changes the settings of every hub.
    pub hub: Option<Arc<Changes<HubOptions>>>,
    /// How many changes an API server keeps for watches that resume.
    pub history: usize,
    /// Changes that may wait for one watch of an API server before it goes on from what is kept, if not as many as usual.
    pub watch_buffer: Option<usize>,
    /// Writes that may wait for the disk of the hub's API server, if not as many as usual.
    pub queue: Option<usize>,
    /// What lies on the wires between the faults and the API servers: what looks at every request that arrives, and its answer.
    pub wires: Option<Wires>,
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script")
            .field("members", &self.members.len())
            .field("hubs", &self.hubs)
            .field("applications", &self.applications.len())
            .field("cues", &self.cues)
            .field("until", &self.until)
            .finish_non_exhaustive()
    }
}

impl Script {
    /// Members, one hub, no applications, and no faults.
    pub fn new(members: Vec<MemberSpec>) -> Script {
        Script {
            members,
            nodes: BTreeMap::new(),
            hubs: vec![HUB.to_owned()],
            server_apart: false,
            foreign_server: false,
            lenient: false,
            election: None,
            applications: Vec::new(),
            in_members: Vec::new(),
            cues: Vec::new(),
            resumes: Vec::new(),
            until: Until::Delivered {
                within: Duration::from_secs(600),
                quiet: Duration::from_secs(60),
            },
            finally: Vec::new(),
            held_waits: false,
            helps: Vec::new(),
            not_made: Vec::new(),
            latency: Duration::ZERO..=Duration::from_millis(3),
            model: Model::default(),
            agents: None,
            hub: None,
            history: 10_000,
            watch_buffer: None,
            queue: None,
            wires: None,
        }
    }

    /// So many members in each of these regions: `<region>-<n>`, labelled `region` and `n`.
    pub fn of_regions(each: usize, regions: &[&str]) -> Script {
        let of = |region: &str, n: usize| {
            MemberSpec::labelled(
                &format!("{region}-{n}"),
                &[("region", region), ("n", &n.to_string())],
            )
        };
        let members = (1..=each).flat_map(|n| regions.iter().filter_map(move |region| of(region, n)));
        Script::new(members.collect())
    }

    /// Creates an object on the hub when every cluster is available.
    #[must_use]
    pub fn with(mut self, application: Value) -> Script {
        self.applications.push(application);
        self
    }

    /// Does something so long after the start, or after the last [`Act::Await`].
    #[must_use]
    pub fn at(mut self, at: Duration, act: Act) -> Script {
        self.cues.push(Cue { at, act });
        self
    }

    /// Does something as soon as what was before is done.
    #[must_use]
    pub fn then(self, act: Act) -> Script {
        let goes_on = |cue: &&Cue| !matches!(cue.act, Act::Await { .. } | Act::Settle { .. });
        let since = self.cues.iter().rev().take_while(goes_on).map(|cue| cue.at);
        let at = since.max().unwrap_or(Duration::ZERO);
        self.at(at, act)
    }

    /// Ends the run so.
    #[must_use]
    pub fn until(mut self, until: Until) -> Script {
        self.until = until;
        self
    }

    /// What must be so at the end.
    #[must_use]
    pub fn finally(mut self, what: &str, look: Look) -> Script {
        self.finally.push(Check {
            what: what.to_owned(),
            look,
        });
        self
    }

    /// Lets two hubs, [`HUB`] and [`OTHER_HUB`], stand for election over an API server of its own.
    #[must_use]
    pub fn with_two_hubs(mut self) -> Script {
        self.hubs = vec![HUB.to_owned(), OTHER_HUB.to_owned()];
        (self.server_apart, self.election) = (true, Some(Timing::default()));
        self
    }

    /// The names of the members.
    pub fn names(&self) -> Vec<String> {
        self.members
            .iter()
            .map(|member| member.name.to_string())
            .collect()
    }
}

impl MemberSpec {
    /// A member with labels; `None` if the name is no cluster's.
    pub fn labelled(name: &str, labels: &[(&str, &str)]) -> Option<MemberSpec> {
        let labels = labels
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Some(MemberSpec {
            name: ClusterName::new(name).ok()?,
            labels: labels.collect(),
        })
    }
}
