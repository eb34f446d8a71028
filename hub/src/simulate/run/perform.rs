//! What becomes of the acts of a script.

use super::{
    Act, Fault,
    act::NAMED,
    objects::{self, ActError},
    stage::Stage,
};
use crate::{
    restored,
    simulate::{
        Ends, HUB, HarnessError,
        fault::{DiskFault, Ending, Kind, On, Rule},
        monitor::{CLOCK, Note},
    },
    words,
};
use roundhouse_apiserver::MemoryStore;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};
use tokio::time::Instant;

/// A process that ended because its disk failed is started again after this.
const RESTARTED: Duration = Duration::from_secs(2);

/// What is to be done later because of what was done now.
#[derive(Debug, Clone)]
pub(super) enum Later {
    /// The network does as before.
    Lift(u64),
    /// Clusters reach the hub again.
    Rejoin(Vec<String>),
    /// A clock is right again.
    Right(String),
    /// The disk is a good one again.
    GoodDisk,
    /// A hub goes on.
    GoOn(String),
    /// Somebody is started.
    Start(String),
    /// What was kept aside of the hub is put in its place.
    Restore,
    /// An act is tried again, and why it did not go through.
    Again(Act, String),
}

impl Later {
    /// Whether it need not go through.
    pub(super) fn may_be_missed(&self) -> bool {
        matches!(self, Later::Again(Act::PatchIfThere(..), _))
    }
}

impl fmt::Display for Later {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Later::Lift(_) => write!(f, "the network is to do as before"),
            Later::Rejoin(clusters) => {
                write!(f, "to reach the hub again: {}", words::listed(clusters, NAMED))
            }
            Later::Right(who) => write!(f, "the clock of {who} is to be right again"),
            Later::GoodDisk => write!(f, "the disk is to be a good one again"),
            Later::GoOn(who) => write!(f, "{who} is to go on"),
            Later::Start(who) => write!(f, "{who} is to be started"),
            Later::Restore => write!(f, "the hub is to be restored"),
            Later::Again(act, why) => write!(f, "{act} is tried again: {why}"),
        }
    }
}

impl Stage {
    /// Does an act. What it leaves to be done, and how much later.
    pub(super) async fn perform(&mut self, act: &Act) -> Option<(Duration, Later)> {
        let done = match act {
            Act::Apply(object) => objects::apply(&self.fleet, None, object).await,
            Act::ApplyIn(member, object) => objects::apply(&self.fleet, Some(member), object).await,
            Act::Patch(target, patch) | Act::PatchIfThere(target, patch) => {
                objects::patch(&self.fleet, target, patch, false).await
            }
            Act::PatchStatus(target, patch) => objects::patch(&self.fleet, target, patch, true).await,
            Act::Delete(target) => objects::delete(&self.fleet, target).await,
            Act::Order(application, order) => match order.give(&self.fleet, application).await {
                Ok(true) => Ok(()),
                Ok(false) => return None,
                Err(error) => Err(error),
            },
            Act::Label { cluster, key, value } => {
                let patch = json!({"metadata": {"labels": {key: value}}});
                objects::patch(&self.fleet, &super::Target::cluster(cluster), &patch, false).await
            }
            Act::Join(spec) => self.fleet.add_member(spec.clone()).await.map_err(ActError::from),
            Act::Leave(cluster, how) => {
                let target = super::Target::cluster(cluster);
                let says =
                    objects::patch(&self.fleet, &target, &json!({"spec": {"leave": how}}), false).await;
                match says {
                    Ok(()) => objects::delete(&self.fleet, &target).await,
                    error => error,
                }
            }
            Act::Backup(who) if who == HUB => {
                self.back_up_hub();
                Ok(())
            }
            Act::Backup(member) => {
                self.back_up(member);
                Ok(())
            }
            Act::Restore(who) if who == HUB => {
                self.tell(act.to_string());
                self.end_hub().await;
                return Some((RESTARTED, Later::Restore));
            }
            Act::Restore(member) => {
                self.restore(member);
                Ok(())
            }
            Act::Begin(fault, lasting) => {
                self.tell(act.to_string());
                return self.begin(fault, *lasting).await;
            }
            Act::Heal => {
                self.tell(act.to_string());
                self.unbegun.extend(self.network.waiting().into_keys());
                self.heal(&BTreeMap::new());
                return None;
            }
            Act::EndWatches(on, how) => {
                self.network.end_watches(on.clone(), *how);
                self.trace(HUB, "watches", &format!("{how:?}"));
                if *how == Ending::Silent {
                    self.tell_of_agents(on, Note::Silenced);
                }
                Ok(())
            }
            Act::KillAt { who, moment, away } => {
                self.away.insert(who.clone(), *away);
                self.network.doom(who, *moment);
                Ok(())
            }
            Act::Check(check) => {
                if let Err(why) = check.look.at(&self.fleet, &self.monitor).await {
                    self.fail(format!("{}: {why}", check.what));
                }
                Ok(())
            }
            // The driver looks, and tells.
            Act::Settle { .. } => return None,
            Act::Await { .. } => Ok(()),
        };
        match done {
            Ok(()) => self.tell(act.to_string()),
            // As a user would: the hub is away, or somebody else was quicker.
            Err(ActError::Later(why)) => {
                return Some((Duration::from_secs(1), Later::Again(act.clone(), why)));
            }
            Err(ActError::Refused(why)) => self.fail(format!("{act}: refused: {why}")),
        }
        None
    }

    /// Creates an object in every member.
    pub(super) async fn apply_everywhere(&mut self, object: &Value) {
        let named = Act::Apply(object.clone());
        for member in self.fleet.members() {
            if let Err(error) = objects::apply(&self.fleet, Some(&member), object).await {
                return self.fail(format!("{named} in {member}: refused: {error}"));
            }
        }
        self.tell(format!("{named} in every cluster"));
    }

    async fn begin(&mut self, fault: &Fault, lasting: Option<Duration>) -> Option<(Duration, Later)> {
        if let Fault::Stopped(who) | Fault::Killed(who) | Fault::Pause(who) = fault
            && !self.is_hub(who)
            && self.fleet.member_client(who).is_err()
        {
            self.fail(format!("{fault}: there is no hub and no cluster {who}"));
            return None;
        }
        let later = match fault {
            Fault::Network(rule) => {
                self.trace(HUB, "network", &format!("{:?}", rule.effect));
                if rule.effect.fails() {
                    self.tell_of_agents(&rule.on, |agent| Note::Hindered(agent, lasting));
                }
                let number = self.network.add(rule.clone());
                self.newest_rule = Some(number);
                Later::Lift(number)
            }
            Fault::Partition(clusters) => {
                self.network.cut_off(clusters.iter().map(String::as_str));
                for cluster in clusters {
                    self.cut_off.begin(cluster);
                    self.leave_alone(cluster);
                }
                Later::Rejoin(clusters.clone())
            }
            Fault::Clock(who, fast) => {
                self.overlaps.begin(&format!("clock of {who}"));
                self.skews.set(who, *fast);
                self.seen.note(Kind::ClockJump);
                self.trace(who, CLOCK, &words::off(*fast));
                Later::Right(who.clone())
            }
            Fault::Disk(fault) => {
                self.overlaps.begin("disk");
                if let Some(what) = self.shelves.fail(*fault) {
                    self.tell(what);
                }
                if *fault == DiskFault::Full {
                    self.monitor.note(&Note::NoRoom(HUB.into()));
                }
                self.trace(HUB, "disk", &format!("{fault:?}"));
                Later::GoodDisk
            }
            Fault::Pause(who) => {
                self.overlaps.begin(&format!("pause of {who}"));
                self.network.hold(who, true);
                self.fleet.pause_hub_called(who, true);
                self.seen.note(Kind::HubPaused);
                self.trace(HUB, who, "held still");
                Later::GoOn(who.clone())
            }
            Fault::Stopped(who) => {
                self.stop(who).await;
                Later::Start(who.clone())
            }
            Fault::Killed(who) => {
                self.count_kill(who);
                self.kill(who, false).await;
                Later::Start(who.clone())
            }
            Fault::PowerCut => {
                // The machine has an API server also where no hub runs.
                self.seen.note(Kind::PowerCut);
                self.kill(HUB, true).await;
                Later::Start(HUB.to_owned())
            }
        };
        match (lasting, fault) {
            // Those who are cut off or do not run are known by name; a failed sync is over as soon as it has failed.
            (
                None,
                Fault::Partition(_)
                | Fault::Disk(DiskFault::FailedSync)
                | Fault::Stopped(_)
                | Fault::Killed(_)
                | Fault::PowerCut,
            ) => {}
            (None, fault) => {
                let rule = self.newest_rule.filter(|_| matches!(fault, Fault::Network(_)));
                self.endless.push((rule, fault.to_string()));
            }
            (Some(_), _) => {}
        }
        lasting.map(|lasting| (lasting, later))
    }

    /// Does what was left to be done; again what is left.
    pub(super) async fn follow(&mut self, later: Later) -> Option<(Duration, Later)> {
        if !matches!(later, Later::Again(..)) {
            self.eased = Some(Instant::now());
        }
        match later {
            Later::Lift(rule) => self.network.lift(rule),
            Later::Rejoin(clusters) => self.rejoin(&clusters),
            Later::Right(who) => {
                if self.is_last(&format!("clock of {who}")) {
                    self.skews.set(&who, jiff::SignedDuration::ZERO);
                }
            }
            Later::GoodDisk => {
                if self.is_last("disk") {
                    self.heal_disk();
                }
            }
            Later::GoOn(who) if !self.is_last(&format!("pause of {who}")) => {}
            Later::GoOn(who) => {
                self.network.hold(&who, false);
                self.fleet.pause_hub_called(&who, false);
                self.tell(format!("{who} goes on"));
            }
            Later::Start(who) => return self.start(&who),
            Later::Restore => return self.restore_hub().await,
            Later::Again(act, _) => return self.perform(&act).await,
        }
        None
    }

    /// A clock, a disk or a pause ends: whether none is left that overlaps it.
    fn is_last(&mut self, what: &str) -> bool {
        self.overlaps.end(what).unwrap_or(0) == 0
    }

    /// Tells of the agents that something befalls on the way to their members. What befalls some paths only excuses nothing.
    fn tell_of_agents(&self, on: &On, note: impl Fn(Arc<str>) -> Note) {
        let members = self.fleet.members().into_iter();
        let befallen = members.filter(|member| on.path.is_none() && on.has_ends(&Ends::new(member, member)));
        befallen.for_each(|member| self.monitor.note(&note(member.into())));
    }

    fn rejoin(&mut self, clusters: &[String]) {
        let all = clusters.iter().cloned();
        let (whole, others): (Vec<String>, Vec<String>) =
            all.partition(|cluster| self.cut_off.end(cluster).unwrap_or(0) == 0);
        self.network.rejoin(whole.iter().map(String::as_str));
        for cluster in clusters {
            if self.is_alone_no_more(cluster) > 0 && whole.contains(cluster) {
                // Where the hub's server is down by now, what it had sent before arrives all the same.
                self.monitor.note(&Note::Cut(cluster.as_str().into()));
            }
        }
        for (what, clusters) in [
            ("connected again", whole),
            ("still cut off by another loss", others),
        ] {
            if !clusters.is_empty() {
                self.tell(format!("{what}: {}", words::listed(&clusters, NAMED)));
            }
        }
    }

    /// One more reason for an agent not to reach the hub.
    fn leave_alone(&mut self, cluster: &str) {
        if self.alone.begin(cluster) {
            self.monitor.note(&Note::Cut(cluster.into()));
        }
    }

    /// One reason less. How many are left.
    fn is_alone_no_more(&mut self, cluster: &str) -> u32 {
        let left = self.alone.end(cluster);
        if left == Some(0) {
            self.monitor.note(&Note::Healed(cluster.into()));
        }
        left.unwrap_or_default()
    }

    fn back_up(&mut self, member: &str) {
        match self.shelves.store_of(member) {
            Some(store) => {
                let records = self.monitor.keys(member).into_iter();
                let records = records.filter_map(|key| Some((store.get(&key)?, key)));
                let records = records.map(|(record, key)| (key, record)).collect();
                self.backups.insert(member.to_owned(), records);
            }
            None => self.fail(format!("{member} has no store to back up")),
        }
    }

    fn restore(&mut self, member: &str) {
        let Some(records) = self.backups.get(member) else {
            return self.fail(format!("{member} was not backed up"));
        };
        let before = self.shelves.store_of(member).map_or(0, |store| store.revision());
        let limits = self.fleet.options().limits;
        let restored = Arc::new(MemoryStore::restored(records, before, limits));
        self.monitor.note(&Note::Restored(member.into()));
        self.shelves.replace(member, restored);
        let started = self.fleet.restart_server(member);
        self.check(started);
    }

    fn back_up_hub(&mut self) {
        match self.shelves.back_up_hub() {
            Ok(backup) => self.hub_backup = Some((backup, self.skews.now(HUB))),
            Err(error) => self.fail(format!("the hub is not backed up: {error}")),
        }
    }

    /// The hub is killed, and its server goes with it.
    async fn end_hub(&mut self) {
        if !self.is_down(HUB) {
            self.count_kill(HUB);
            self.kill(HUB, false).await;
        }
        if !self.server_is_down {
            self.end_server(false);
        }
    }

    /// The hub's server has what was kept aside and the mark of a restored one, and the hub is started.
    async fn restore_hub(&mut self) -> Option<(Duration, Later)> {
        let Some((backup, taken_at)) = self.hub_backup.take() else {
            self.fail("the hub was not backed up");
            return None;
        };
        // It may have been started meanwhile.
        self.end_hub().await;
        self.monitor.note(&Note::Restored(HUB.into()));
        let restored = self.shelves.restore_hub(&backup, self.skews.now(HUB));
        let opened = restored.and_then(|()| self.shelves.open_hub());
        self.hub_backup = Some((backup, taken_at));
        if let Err(error) = opened {
            self.fail(format!("the hub is not restored: {error}"));
            return None;
        }
        self.restart_server();
        let mark = restored::mark(&taken_at.to_string(), &self.skews.now(HUB).to_string());
        let marked = match serde_json::to_value(mark) {
            Ok(mark) => objects::apply(&self.fleet, None, &mark).await,
            Err(error) => Err(ActError::Refused(error.to_string())),
        };
        match marked {
            Ok(()) => self.start(HUB),
            Err(ActError::Later(_)) => Some((RESTARTED, Later::Restore)),
            Err(ActError::Refused(why)) => {
                self.fail(format!("the hub is not marked as restored: {why}"));
                None
            }
        }
    }

    /// Ends what has begun, where something waits for a step that has not. Whether there was something to end.
    pub(super) fn heals_in_part(&mut self) -> bool {
        let waiting = self.network.waiting();
        let waits = |(rule, _): &(Option<u64>, String)| rule.is_some_and(|rule| waiting.contains_key(&rule));
        let others =
            !self.endless.iter().all(waits) || self.cut_off.names().next().is_some() || !self.down.is_empty();
        if waiting.is_empty() || !others {
            return false;
        }
        self.tell("all faults end that have begun");
        self.heal(&waiting);
        for rule in waiting.values() {
            self.tell_of_agents(&rule.on, |agent| Note::Hindered(agent, None));
        }
        true
    }

    fn heal_disk(&self) {
        self.shelves.heal();
        self.monitor.note(&Note::Room(HUB.into()));
    }

    fn heal(&mut self, but: &BTreeMap<u64, Rule>) {
        let stays = |rule: &Option<u64>| rule.is_some_and(|rule| but.contains_key(&rule));
        self.endless.retain(|(rule, _)| stays(rule));
        self.overlaps.take();
        self.network.heal(but);
        self.monitor.note(&Note::Eased);
        self.skews.heal();
        self.heal_disk();
        for hub in self.fleet.hubs() {
            self.fleet.pause_hub_called(&hub, false);
        }
        self.eased = Some(Instant::now());
        for (cluster, times) in self.cut_off.take() {
            for _ in 0..times {
                self.is_alone_no_more(&cluster);
            }
        }
        for who in self.down.clone() {
            // The disk is a good one by now.
            if let Some((_, Later::Start(who))) = self.start(&who) {
                self.fail(format!("{who} does not start"));
            }
        }
    }

    async fn stop(&mut self, who: &str) {
        self.count(who, Kind::HubStopped, Kind::AgentStopped);
        if self.is_hub(who) {
            self.trace(HUB, who, "stopped");
            self.fleet.stop_hub_called(who).await;
            self.end_of_process(who, false);
        } else {
            // What it does until it has ended it does as an agent that runs.
            if let Err(error) = self.fleet.stop_agent(who).await {
                self.fail(error.to_string());
            }
            self.monitor.note(&Note::Stopped(who.into()));
        }
        self.network.bury(who);
        self.down.insert(who.to_owned());
    }

    /// Counts what befalls somebody who runs.
    fn count(&self, who: &str, hub: Kind, agent: Kind) {
        if !self.is_down(who) {
            self.seen.note(if self.is_hub(who) { hub } else { agent });
        }
    }

    fn count_kill(&self, who: &str) {
        self.count(who, Kind::HubKilled, Kind::AgentKilled);
    }

    /// Ends somebody where it is.
    pub(super) async fn kill(&mut self, who: &str, power_is_gone: bool) {
        // Nothing passes from here on.
        self.network.bury(who);
        if self.is_hub(who) {
            self.trace(HUB, who, if power_is_gone { "lost its power" } else { "killed" });
            self.end_of_process(who, power_is_gone);
            self.fleet.kill_hub_called(who).await;
        } else {
            self.monitor.note(&Note::Stopped(who.into()));
            if let Err(error) = self.fleet.kill_agent(who).await {
                self.fail(error.to_string());
            }
        }
        self.down.insert(who.to_owned());
    }

    /// The API server goes with the hub's process, if it is in it.
    fn end_of_process(&mut self, who: &str, power_is_gone: bool) {
        if who == HUB && (power_is_gone || !self.server_apart) {
            self.end_server(power_is_gone);
        }
    }

    fn end_server(&mut self, power_is_gone: bool) {
        let crashed = self.fleet.crash_server(HUB);
        self.check(crashed);
        self.shelves.hub_ended(power_is_gone);
        if !self.server_is_down {
            self.without_server = self.fleet.members();
            for cluster in self.without_server.clone() {
                self.leave_alone(&cluster);
            }
        }
        self.server_is_down = true;
    }

    fn restart_server(&mut self) {
        self.server_is_down = false;
        let restarted = self.fleet.restart_server(HUB);
        self.check(restarted);
        for cluster in std::mem::take(&mut self.without_server) {
            self.is_alone_no_more(&cluster);
        }
    }

    /// Starts somebody who does not run; a hub whose disk does not let it is started again later.
    fn start(&mut self, who: &str) -> Option<(Duration, Later)> {
        if !self.is_down(who) {
            return None;
        }
        if self.is_hub(who) {
            if let Err(error) = self.shelves.open_hub() {
                self.tell(format!("{who} does not start: {error}"));
                return Some((RESTARTED, Later::Start(who.to_owned())));
            }
            if self.server_is_down {
                self.restart_server();
            }
            self.trace(HUB, who, "started");
            self.fleet.start_hub_called(who);
        } else {
            let started = self.fleet.start_agent(who);
            self.check(started);
            self.monitor.note(&Note::Started(who.into()));
        }
        self.down.remove(who);
        self.tell(format!("{who} is started"));
        None
    }

    /// Somebody who has ended by itself is started again, as a process that exits is.
    pub(super) async fn revive(&mut self) -> Vec<(Duration, Later)> {
        let mut later = Vec::new();
        for hub in self.fleet.hubs() {
            if let Some(why) = self.fleet.end_of_hub(&hub).map(str::to_owned) {
                self.ended(&hub, &why, Kind::HubEnded);
                self.kill(&hub, false).await;
                later.push((RESTARTED, Later::Start(hub)));
            }
        }
        for member in self.fleet.members() {
            if let Some(why) = self.fleet.end_of_agent(&member).map(str::to_owned) {
                self.ended(&format!("the agent of {member}"), &why, Kind::AgentEnded);
                self.kill(&member, false).await;
                later.push((RESTARTED, Later::Start(member)));
            }
        }
        later
    }

    /// Nothing that a script does to a fleet is a reason to end but the failure of a store, which is not told here.
    fn ended(&mut self, who: &str, why: &str, kind: Kind) {
        self.seen.note(kind);
        self.fail(format!("{who} has ended by itself: {why}"));
    }

    fn is_down(&self, who: &str) -> bool {
        match self.is_hub(who) {
            true => !self.fleet.hubs().iter().any(|hub| hub == who),
            false => !self.fleet.runs_agent(who),
        }
    }

    fn check(&mut self, done: Result<(), HarnessError>) {
        if let Err(error) = done {
            self.fail(error.to_string());
        }
    }

    /// Somebody's doom has come.
    pub(super) async fn dies(&mut self, who: &str) -> Option<(Duration, Later)> {
        self.tell(format!("{who} is killed in the middle of it"));
        self.seen.note(Kind::KilledAtMoment);
        self.killed(who).await
    }

    /// Somebody's doom has not come, and nothing more is to be done: it is killed where it stands.
    pub(super) async fn dies_at_last(&mut self, who: &str) -> Option<(Duration, Later)> {
        self.tell(format!(
            "{who} is killed, as what it was to be killed at has not come"
        ));
        self.killed(who).await
    }

    async fn killed(&mut self, who: &str) -> Option<(Duration, Later)> {
        self.count_kill(who);
        self.kill(who, false).await;
        let away = self.away.remove(who).unwrap_or(RESTARTED);
        Some((away, Later::Start(who.to_owned())))
    }

    /// The hub's store has ended by itself, and its process with it.
    pub(super) async fn store_ends(&mut self, why: &str) -> Option<(Duration, Later)> {
        self.tell(format!("the hub's process ends: {why}"));
        self.seen.note(Kind::HubEnded);
        self.kill(HUB, false).await;
        Some((RESTARTED, Later::Start(HUB.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use crate::simulate::{
        HUB,
        fault::Kind,
        run::{Act, Failure, Fault, Script, Target, run},
    };
    use roundhouse_api::names::annotation::HUB_ID;
    use serde_json::json;
    use std::time::Duration;

    #[test]
    fn who_ends_by_itself_makes_no_good_run_though_it_is_started_anew() {
        let lease = Target::on_hub("coordination.k8s.io/v1", "Lease", "cluster-east-1", "agent");
        let other = json!({"metadata": {"annotations": {HUB_ID: "of another installation"}}});
        let mut script = Script::of_regions(2, &["east"]);
        // A hub puts right what others write there.
        script.server_apart = true;
        let away = Act::for_a_while(Fault::Killed(HUB.to_owned()), Duration::from_secs(40));
        script = script.at(Duration::from_secs(5), away);
        let whole = run(&script, 7);
        assert!(whole.is_good(), "{whole}");
        assert!(!whole.seen.contains_key(&Kind::AgentEnded), "{whole}");

        script = script.at(Duration::from_secs(6), Act::Patch(lease, other));
        let outcome = run(&script, 7);
        let why =
            "the agent of east-1 has ended by itself: cluster east-1: Lease cluster-east-1/agent names hub";
        let told = |failure: &Failure| failure.what.starts_with(why);
        assert!(outcome.failures.iter().any(told), "{outcome}");
        assert!(!outcome.is_good());
        assert!(outcome.seen.contains_key(&Kind::AgentEnded), "{outcome}");
    }

    #[test]
    fn what_a_server_refuses_is_told_in_its_own_words() {
        let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "Gate_1", "namespace": "default"}});
        let outcome = run(&Script::of_regions(1, &["east"]).with(wrong), 7);
        let told = outcome.failures.first().map(|failure| failure.what.as_str());
        let told = told.unwrap_or_default();
        assert!(
            told.contains("refused: ConfigMap \"Gate_1\" is invalid"),
            "{told}"
        );
        assert!(!told.contains("Status {"), "{told}");
    }
}
