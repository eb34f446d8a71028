//! A fleet with everything that a run does to it.

use super::{Event, Failure, Script, act::NAMED, overlaps::Overlaps};
use crate::{
    action::Outside,
    leader::Election,
    simulate::{
        Configure, Fleet, FleetOptions, HarnessError, TokioClock, Wire, Wires, begins,
        fault::{Network, Seen, Shelves, Skews, StoreFailure},
        monitor::{Monitor, Note},
        workloads::Model,
    },
    words,
};
use jiff::Timestamp;
use roundhouse_agent::SeededJitter;
use roundhouse_apiserver::{Backup, Key, Record, TERM};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc::UnboundedReceiver, time::Instant};

pub(super) struct Stage {
    pub(super) seed: u64,
    pub(super) fleet: Fleet,
    pub(super) network: Network,
    pub(super) shelves: Shelves,
    pub(super) skews: Skews,
    pub(super) monitor: Monitor,
    pub(super) seen: Seen,
    pub(super) began: Instant,
    /// Whose doom has come.
    pub(super) deaths: UnboundedReceiver<String>,
    /// Stores that have ended by themselves.
    pub(super) failed_stores: UnboundedReceiver<StoreFailure>,
    pub(super) server_apart: bool,
    pub(super) server_is_down: bool,
    /// Who does not run, and is to be started again.
    pub(super) down: BTreeSet<String>,
    /// The hubs that the fleet may have.
    pub(super) hubs: Vec<String>,
    /// Clusters that are cut off, and how often.
    pub(super) cut_off: Overlaps,
    /// Agents that do not reach the hub, for as many reasons.
    pub(super) alone: Overlaps,
    /// Those of them that miss the hub's API server, which is down.
    pub(super) without_server: Vec<String>,
    /// When a fault ended last.
    pub(super) eased: Option<Instant>,
    /// Clocks, disks and pauses that are on.
    pub(super) overlaps: Overlaps,
    /// Other faults that are on until somebody ends them, as sentences; those of the network with their numbers.
    pub(super) endless: Vec<(Option<u64>, String)>,
    /// The fault of the network that began last, by its number.
    pub(super) newest_rule: Option<u64>,
    /// Those that ended before the step began that they waited for.
    pub(super) unbegun: BTreeSet<u64>,
    /// How long somebody is away whose doom has come.
    pub(super) away: BTreeMap<String, Duration>,
    /// What members stored when they were backed up.
    pub(super) backups: BTreeMap<String, Vec<(Key, Record)>>,
    /// What the hub's API server stored when it was backed up, and when that was by its clock.
    pub(super) hub_backup: Option<(Backup, Timestamp)>,
    pub(super) timeline: Vec<Event>,
    pub(super) failures: Vec<Failure>,
}

impl Stage {
    /// Builds the fleet of a script.
    ///
    /// # Errors
    /// A server refuses a definition or a Cluster.
    pub(super) async fn set(
        script: &Script,
        seed: u64,
        monitor: &Monitor,
        seen: &Seen,
    ) -> Result<Stage, HarnessError> {
        let clock = TokioClock::starting_at(begins());
        let skews = Skews::new(clock);
        let (network, deaths) = Network::new(seed, seen.clone());
        let (failures, failed_stores) = tokio::sync::mpsc::unbounded_channel();
        let mut options = FleetOptions::new(script.members.clone(), Arc::new(clock));
        options.nodes.clone_from(&script.nodes);
        options.limits.history_events = script.history;
        if let Some(changes) = script.watch_buffer {
            options.limits.watch_buffer = changes;
        }
        options.strict = !script.lenient;
        let shelves = Shelves::new(seed, options.limits, seen.clone(), failures);
        if let Some(writes) = script.queue {
            shelves.queue(writes);
        }
        options.seed = seed;
        options.model = Model {
            seed,
            ..script.model.clone()
        };
        options.hub.application.seed = seed;
        options.hub.application.witness = Some(monitor.witness());
        options.hub.outside = Some(Outside::agreeing());
        options.hub.election = Election {
            timing: script.election,
            ..Election::default()
        };
        options.clocks = Some(skews.clocks());
        options.stores = Some(monitor.stores(shelves.stores()));
        let wires = match script.foreign_server {
            true => monitor.wires().then(without_terms()),
            false => monitor.wires(),
        };
        let wires = match &script.wires {
            Some(more) => wires.then(more.clone()),
            None => wires,
        };
        options.peoples_wires = Some(monitor.wires());
        options.wires = Some(wires.then(network.wires()));
        options.configure = Some(configure(script, seed));
        if let Some(configure) = &script.hub {
            configure(&mut options.hub);
        }
        let told = monitor.clone();
        network.set_versions(move |server, ago| told.version(server, ago));
        let told = monitor.clone();
        network.set_begun(move |step| told.has_begun(step));
        network.set_latency(script.latency.clone());
        network.set_hubs(&script.hubs);
        let fleet = Fleet::start(options).await?;
        Ok(Stage {
            seed,
            fleet,
            network,
            shelves,
            skews,
            monitor: monitor.clone(),
            seen: seen.clone(),
            began: Instant::now(),
            deaths,
            failed_stores,
            server_apart: script.server_apart,
            server_is_down: false,
            down: BTreeSet::new(),
            hubs: script.hubs.clone(),
            cut_off: Overlaps::default(),
            alone: Overlaps::default(),
            without_server: Vec::new(),
            eased: None,
            overlaps: Overlaps::default(),
            endless: Vec::new(),
            newest_rule: None,
            unbegun: BTreeSet::new(),
            away: BTreeMap::new(),
            backups: BTreeMap::new(),
            hub_backup: None,
            timeline: Vec::new(),
            failures: Vec::new(),
        })
    }

    pub(super) fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Notes what happened, for people.
    pub(super) fn tell(&mut self, what: impl Into<String>) {
        self.tell_at(self.now(), what);
    }

    /// Notes what happened some time ago.
    pub(super) fn tell_at(&mut self, at: Duration, what: impl Into<String>) {
        let what = what.into();
        self.timeline.push(Event { at, who: None, what });
    }

    /// The faults that are on, in sentences; but for somebody who does not run.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut cut: Vec<String> = self.cut_off.names().cloned().collect();
        cut.sort_by_cached_key(|name| words::in_order(name));
        let is = if cut.len() == 1 { "is" } else { "are" };
        let sentence = (!cut.is_empty()).then(|| format!("{} {is} cut off", words::listed(&cut, NAMED)));
        let endless = self.endless.iter().map(|(_, fault)| fault.clone());
        sentence.into_iter().chain(endless).collect()
    }

    /// What was done, and what became of it, in order.
    pub(super) fn timeline(&mut self) -> Vec<Event> {
        let mut timeline = std::mem::take(&mut self.timeline);
        let before = self.began.saturating_duration_since(self.monitor.started());
        timeline.extend(self.monitor.story().into_iter().map(|told| Event {
            at: told.at.saturating_sub(before),
            who: told.who,
            what: told.what,
        }));
        // Of what is at the same time, what was done comes first.
        timeline.sort_by_key(|event| event.at);
        timeline
    }

    /// Notes a fault in the trace.
    pub(super) fn trace(&self, server: &str, party: &str, what: &str) {
        self.monitor.note(&Note::Fault {
            server: server.into(),
            party: party.into(),
            what: what.to_owned(),
        });
    }

    /// Notes that something was not as expected.
    pub(super) fn fail(&mut self, what: impl Into<String>) {
        let (at, what) = (self.now(), what.into());
        self.tell(format!("NOT AS EXPECTED: {what}"));
        self.failures.push(Failure { at, what });
    }

    pub(super) fn is_hub(&self, who: &str) -> bool {
        self.hubs.iter().any(|hub| hub == who)
    }
}

/// What comes to an API server that knows nothing of terms.
fn without_terms() -> Wires {
    Wires::new(|_, wire| {
        Wire::new(move |mut request| {
            request.headers_mut().remove(TERM);
            wire.send(request)
        })
    })
}

fn configure(script: &Script, seed: u64) -> Configure {
    let agents = script.agents.clone();
    Configure(Arc::new(move |config| {
        let mine = format!("{seed}/{}", config.cluster);
        config.jitter = Arc::new(SeededJitter::from_text(&mine));
        if let Some(agents) = &agents {
            agents(config);
        }
    }))
}
