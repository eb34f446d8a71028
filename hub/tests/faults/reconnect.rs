//! F35: everybody comes back to a hub at once.

use crate::{
    applications::runs,
    line::{Line, Sent},
    looks::{Looked, because, images},
    runs::{SECOND, good, is_long},
};
use jiff::Timestamp;
use kube::{Api, ResourceExt};
use parking_lot::Mutex;
use roundhouse_agent::Jitter;
use roundhouse_api::{
    cluster::{AVAILABLE, Cluster},
    condition,
    names::AGENT_LEASE,
};
use roundhouse_hub::simulate::{
    HUB,
    run::{Act, Fault, Look, Script, application, run, with_image},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Longer than a Lease holds, and than any pause between two tries.
const AWAY: Duration = Duration::from_secs(60);
/// Whoever was there is there again after this, and what a request takes to arrive.
const BACK: Duration = Duration::from_millis(5_010);
/// Of those who come at all, no more than a part comes in so long.
const INSTANT: Duration = Duration::from_millis(100);

/// Whether a request is one of a kind.
type IsIt = fn(&Sent) -> bool;

/// What an agent needs of a hub, and how it is asked for.
const NEEDS: [(&str, IsIt); 3] = [
    ("renewals of Leases", |sent| {
        sent.writes() && sent.path.ends_with(&format!("/leases/{AGENT_LEASE}"))
    }),
    ("watches of Leases", |sent| {
        sent.watches() && sent.path.ends_with("/leases")
    }),
    ("watches of Bundles", |sent| {
        sent.watches() && sent.path.ends_with("/bundles")
    }),
];

/// When each agent was first given something, after the hub was back.
fn first(sent: &[Sent], is_it: IsIt) -> Result<BTreeMap<String, Duration>, String> {
    let to_the_hub = || {
        sent.iter()
            .filter(|sent| sent.ends.server == HUB && sent.code != 0)
    };
    let back: Instant = to_the_hub().map(|sent| sent.at).min().ok_or("no hub is there")?;
    let mut first = BTreeMap::new();
    for one in to_the_hub().filter(|one| one.ends.who != HUB && one.code == 200 && is_it(one)) {
        first.entry(one.ends.who.clone()).or_insert(one.at - back);
    }
    Ok(first)
}

/// All of them have what they need in time, and did not come at the same moment.
fn came_back(sent: &[Sent], agents: usize) -> Looked {
    for (what, is_it) in NEEDS {
        let first = first(sent, is_it)?;
        let mut times: Vec<Duration> = first.values().copied().filter(|after| *after <= BACK).collect();
        because(times.len() == agents, || {
            let late = first.iter().filter(|(_, after)| **after > BACK);
            format!(
                "{what}: {} of {agents} in time; late: {:?}",
                times.len(),
                late.collect::<Vec<_>>()
            )
        })?;
        times.sort();
        let together = |from: &Duration| {
            let within = *from..*from + INSTANT;
            times.iter().filter(|time| within.contains(*time)).count()
        };
        let most = times.iter().map(together).max().unwrap_or(0);
        because(most <= agents / 4, || {
            format!("{what}: {most} of {agents} agents come within {INSTANT:?}")
        })?;
    }
    // Nobody was in anybody's way, or was sent away. That an Event is there already is how it is counted.
    let refused = sent
        .iter()
        .filter(|sent| matches!(sent.code, 409 | 429) && !sent.path.ends_with("/events"));
    let refused: Vec<&Sent> = refused.collect();
    because(refused.len() <= agents / 20, || {
        format!(
            "{} requests were refused, such as {:?}",
            refused.len(),
            refused.first()
        )
    })
}

/// Since when each Cluster is as available as it is.
async fn available_since(clusters: &Api<Cluster>) -> Result<BTreeMap<String, (String, Timestamp)>, String> {
    let all = clusters.list(&Default::default()).await;
    let all = all.map_err(|error| error.to_string())?;
    let since = all.iter().filter_map(|cluster| {
        let available = condition::get(&cluster.status.as_ref()?.conditions, AVAILABLE)?;
        let since = (available.status.clone(), available.last_transition_time.0);
        Some((cluster.name_any(), since))
    });
    Ok(since.collect())
}

type Noted = Arc<Mutex<BTreeMap<String, (String, Timestamp)>>>;

/// Nobody was taken for anything else since it was noted, the first time that this looks.
fn nobody_was_lost(noted: &Noted) -> Look {
    let noted = noted.clone();
    Look::new(move |fleet| {
        let noted = noted.clone();
        Box::pin(async move {
            let since = available_since(&Api::all(fleet.hub_client())).await?;
            let mut noted = noted.lock();
            if noted.is_empty() {
                noted.clone_from(&since);
            }
            because(*noted == since, || {
                let other = since.iter().find(|(name, at)| noted.get(*name) != Some(*at));
                format!("{other:?} is another than before")
            })
        })
    })
}

/// A hub is killed in the middle of a delivery to all of them, and is away for so long that every agent waits as long as it
/// ever does, and that every Lease is older than it holds.
fn killed(each: usize) -> Script {
    let (line, noted) = (Line::default(), Noted::default());
    let replicas = u32::try_from(each * 4).unwrap();
    let web = application("web", replicas, &[("east", "50%"), ("west", "50%")]);
    let mut script = Script::of_regions(each, &["east", "west"]).with(web.clone());
    script.wires = Some(line.wires());
    let names = script.names();
    let (dies, agents) = (SECOND * 30, names.len());
    script
        .then(Act::wait("it is delivered", runs("web")))
        .at(
            dies - SECOND,
            Act::check("everybody is there", nobody_was_lost(&noted)),
        )
        .at(dies, Act::Apply(with_image(&web, "web:2")))
        .at(
            dies + SECOND / 10,
            Act::for_a_while(Fault::Killed(HUB.to_owned()), AWAY),
        )
        .at(dies + AWAY, Act::check("nobody is answered", line.forget()))
        .at(
            dies + AWAY + SECOND * 10,
            Act::check("they come back", line.look(move |sent| came_back(sent, agents))),
        )
        .at(
            dies + AWAY + SECOND * 30,
            Act::check("the newest runs everywhere", images("web", "web:2", names)),
        )
        .finally("nobody was taken for lost", nobody_was_lost(&noted))
}

#[test]
fn f35_everybody_is_back_within_seconds_of_the_hub_and_not_at_the_same_moment() {
    // With all of a thousand a run takes more than a minute in release: one in ten of a long run has them.
    let each = |seed: u64| {
        if is_long() && seed.is_multiple_of(10) {
            500
        } else {
            20
        }
    };
    let outcomes = good(|seed| killed(each(seed)));
    for outcome in outcomes {
        assert!(outcome.settled_after().unwrap() < SECOND * 30, "{outcome}");
    }
}

/// No jitter.
#[derive(Debug)]
struct Even;

impl Jitter for Even {
    fn unit(&self) -> f64 {
        0.5
    }
}

/// So the test above can fail.
#[test]
fn f35_agents_without_jitter_come_back_at_the_same_moment() {
    let mut script = killed(10);
    script.agents = Some(Arc::new(|config| config.jitter = Arc::new(Even)));
    let outcome = run(&script, 0);
    let together = |what: &str| what.contains("they come back") && what.contains("of 20 agents come within");
    assert!(
        outcome.failures.iter().any(|failure| together(&failure.what)),
        "{outcome}"
    );
}
