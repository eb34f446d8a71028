//! Scripts with random faults.

use super::{
    Act, Fault, Help, LOOKED, Order, Resume, Script, Target, Until, agreement, application, as_service,
    bearing, bundle_by_hand, in_turns, once, placed_by, then_step, waiting_for, with_flags, with_image,
    without_config,
};
use crate::simulate::{
    HUB, MemberSpec, OTHER_HUB,
    fault::{Asks, Dice, DiskFault, Effect, Ending, Moment, On, Parties, Rule, Side, When},
};
use jiff::SignedDuration;
use roundhouse_api::cluster::Leave;
use serde_json::{Value, json};
use std::time::Duration;

/// Members of a random run in each of its two regions.
const EACH: usize = 10;
/// Random faults beside the restart of the hub.
const FAULTS: u64 = 24;
/// Virtual time in which they begin.
const BUSY: Duration = Duration::from_secs(120);

/// How long it rests at the end.
const RESTS: Duration = Duration::from_secs(30);

/// The applications and their placing steps.
const APPLICATIONS: [&str; 3] = ["one", "two", "three"];
const STEPS: [&str; 2] = ["east", "west"];

/// A cluster that nothing else is done to: it may leave.
const LEAVES: &str = "west-10";

/// A run of 20 clusters and 3 applications with at least 25 random faults, of which some befall nobody, changes of users among
/// them, and one end of the hub. One in four has two hubs. The second application is a `webservice` with traits, and is delivered
/// three clusters at a time; in half of them the third one is applied once, so that its removals have to be confirmed, and in half
/// of them a step of it brings an object of its own. Clusters lose a label that counts and get it back, join, leave, and are
/// restored from a backup; somebody writes in them and deletes there; an application is deleted, and so is what was decided. In many the steps wait for
/// what clusters report, for a time or for a person, go by a Placement that changes, or bear few clusters that fail; runs are paused,
/// terminated and begun anew. After the last of it everything has to be delivered within 15 minutes, and every cluster has what its
/// Bundles say.
pub fn random(seed: u64) -> Script {
    let mut dice = Dice::new(seed, "script");
    let mut script = Script::of_regions(EACH, &["east", "west"]);
    let two = dice.happens(250);
    if two {
        script = script.with_two_hubs();
    }
    let shares = [("50%", "50%"), ("70%", "20%"), ("60%", "40%")];
    let mut applications: Vec<_> = APPLICATIONS
        .iter()
        .zip(shares)
        .map(|(name, (east, west))| application(name, 20, &[("east", east), ("west", west)]))
        .collect();
    if let Some(second) = applications.get_mut(1) {
        *second = in_turns(&as_service(second), 3);
    }
    let applied_once = dice.happens(500);
    if let Some(third) = applications.get_mut(2) {
        if applied_once {
            *third = once(third);
        }
        if dice.happens(500) {
            *third = with_flags(third, "east");
        }
    }
    let mut flow = Dice::new(seed, "workflow");
    let (placement, gates) = flows(&mut flow, &mut applications);
    script.applications.extend(placement.clone());
    script.applications.extend(applications.iter().cloned());
    script.resumes = gates.into_iter().map(|step| approved(&step)).collect();
    let mut names = script.names();
    names.retain(|name| name != LEAVES);
    let mut cues: Vec<(Duration, Act)> = Vec::new();
    let mut at = |dice: &mut Dice, act| {
        let when = dice.between(&(Duration::ZERO..=BUSY));
        cues.push((when, act));
    };
    for _ in 0..FAULTS {
        let act = fault(&mut dice, &names, two);
        at(&mut dice, act);
    }
    // Some faults find nobody to befall; this one does.
    let resets = Rule::sometimes(On::all_of(Parties::All).to(Side::Both), Effect::Reset, 200);
    at(
        &mut dice,
        Act::for_a_while(Fault::Network(resets), Duration::from_secs(10)),
    );
    for (n, app) in applications.iter().enumerate() {
        at(&mut dice, Act::Apply(with_image(app, &format!("web:{}", n + 2))));
    }
    let labelled = dice.pick(&names).cloned().unwrap_or_default();
    let changes = changes(&mut dice, &names, &labelled);
    let loses = changes.iter().any(is_of_decision);
    for act in changes {
        at(&mut dice, act);
    }
    let end = dice.between(&(Duration::ZERO..=BUSY));
    cues.extend(end_of_hub(&mut dice, end, two));
    for (first, then) in pairs(&mut dice, &names, &labelled, &applications) {
        let when = dice.between(&(Duration::ZERO..=BUSY));
        let lasting = dice.between(&(Duration::from_secs(2)..=Duration::from_secs(45)));
        cues.extend([(when, first), (when + lasting, then)]);
    }
    cues.extend(orders(&mut flow, placement.as_ref(), &names));
    cues.extend(in_members(&mut Dice::new(seed, "members"), &names));
    cues.extend(paused_on_the_way(&mut flow, &applications));
    // What still runs where it is no longer wanted is kept until somebody says that it may go; and so is what moves away because
    // nobody saw a Decision go, so that it was made without knowing who had what.
    script.held_waits = loses;
    cues.sort_by_key(|(at, _)| *at);
    let confirmed = match (loses, applied_once) {
        (true, _) => &APPLICATIONS[..],
        (false, true) => &["three"],
        (false, false) => &[],
    };
    script.helps = helps(&applications, &cues, confirmed);
    for (at, act) in cues {
        script = script.at(at, act);
    }
    script.finally.push(agreement(&script.cues));
    // In one of twenty everybody comes to look at everything by themselves before it ends.
    let quiet = if seed.is_multiple_of(20) { LOOKED } else { RESTS };
    script.until(Until::Delivered {
        within: Duration::from_secs(900),
        quiet,
    })
}

/// What the first two applications do between their placing steps, and what they wait for; a Placement of one of them, and the steps
/// that wait for a person. Drawn apart, so that what befalls whom is drawn as it was without.
fn flows(dice: &mut Dice, applications: &mut [Value]) -> (Option<Value>, Vec<String>) {
    let (mut placement, mut gates) = (None, Vec::new());
    for application in applications.iter_mut().take(2) {
        if dice.happens(300) {
            *application = waiting_for(application, "west", json!({"until": {"ready": "70%"}}));
        }
        if dice.happens(200) {
            *application = waiting_for(application, "east", json!({"until": "fleet.ready >= 6"}));
        }
        if dice.happens(500) {
            let untils = [
                json!({"ready": "100%"}),
                json!({"ready": "80%"}),
                json!({"ready": 3}),
                json!("fleet.ready == fleet.clusters"),
                json!("fleet.applied >= 5"),
            ];
            let until = dice.pick(&untils).cloned().unwrap_or_default();
            // Of the one before, or of all that have begun.
            let properties = match dice.happens(500) {
                true => json!({"until": until, "steps": ["east"]}),
                false => json!({"until": until}),
            };
            let wait = json!({"name": "look", "type": "wait", "properties": properties});
            *application = then_step(&waiting_for(application, "east", json!("applied")), "east", wait);
        }
        match dice.below(6) {
            0 => {
                let bake = json!({"name": "bake", "type": "suspend", "properties": {"duration": "15s"}});
                *application = then_step(application, "east", bake);
            }
            1 => {
                let name = application.pointer("/metadata/name").and_then(Value::as_str);
                let gate = format!("{}-gate", name.unwrap_or_default());
                let step = json!({"name": gate, "type": "suspend"});
                *application = then_step(application, "east", step);
                gates.push(gate);
            }
            _ => {}
        }
        if dice.happens(250) {
            let failed = u32::try_from(dice.below(3)).unwrap_or(0);
            *application = bearing(application, failed);
        }
    }
    if dice.happens(250)
        && let Some(first) = applications.first_mut()
        && let Some((changed, of)) = placed_by(first, "east", "where")
    {
        *first = changed;
        placement = Some(of);
    }
    (placement, gates)
}

/// Somebody approves a step of the application by whose name it is called.
fn approved(step: &str) -> Resume {
    let application = step.trim_end_matches("-gate").to_owned();
    Resume {
        step: step.to_owned(),
        applications: vec![["default".to_owned(), application]],
        from: Duration::from_secs(30),
    }
}

/// What people say to runs; changes of a Placement; and writes that clusters refuse, so that something fails there for a while.
fn orders(dice: &mut Dice, placement: Option<&Value>, names: &[String]) -> Vec<(Duration, Act)> {
    let mut cues = Vec::new();
    let lasting = |dice: &mut Dice| dice.between(&(Duration::from_secs(2)..=Duration::from_secs(45)));
    for _ in 0..dice.below(3) {
        let when = dice.between(&(Duration::ZERO..=BUSY));
        let of = dice.pick(&APPLICATIONS[..2]).copied().unwrap_or("one");
        let say = |order| Act::Order(of.to_owned(), order);
        match dice.below(4) {
            0 => {
                let then = when + lasting(dice);
                cues.extend([(when, say(Order::Suspend)), (then, say(Order::Resume))]);
            }
            1 => {
                let then = when + lasting(dice);
                cues.extend([(when, say(Order::Terminate)), (then, say(Order::Restart))]);
            }
            2 => cues.push((when, say(Order::Restart))),
            _ => {
                let from = ["east", "west", "look", "bake"];
                let from = dice.pick(&from).copied().unwrap_or("east");
                cues.push((when, say(Order::RestartFrom(from.to_owned()))));
            }
        }
    }
    if let Some(placement) = placement {
        let mut other = placement.clone();
        if let Some(share) = other.pointer_mut("/spec/placement/0/replicas") {
            *share = json!("30%");
        }
        let when = dice.between(&(Duration::ZERO..=BUSY));
        let then = when + lasting(dice);
        cues.extend([(when, Act::Apply(other)), (then, Act::Apply(placement.clone()))]);
    }
    if dice.happens(400) {
        let refused = Effect::Answer {
            code: 403,
            retry_after: None,
        };
        let who = Parties::These(some(dice, names).into_iter().collect());
        let on = On::all_of(who).to(Side::Member).that(Asks::Write);
        let kinds = ["/configmaps", "/deployments"];
        let on = on.at(dice.pick(&kinds).copied().unwrap_or("/configmaps"));
        let when = dice.between(&(Duration::ZERO..=BUSY));
        let rule = Fault::Network(Rule::always(on, refused));
        cues.push((when, Act::for_a_while(rule, lasting(dice))));
    }
    cues
}

/// A new revision of which the hub cannot write everything at once; before it can, somebody pauses the run for a while.
fn paused_on_the_way(dice: &mut Dice, applications: &[Value]) -> Vec<(Duration, Act)> {
    if !dice.happens(400) {
        return Vec::new();
    }
    let of = usize::from(dice.happens(300));
    let (Some(name), Some(application)) = (APPLICATIONS.get(of), applications.get(of)) else {
        return Vec::new();
    };
    let fails = Effect::Answer {
        code: 500,
        retry_after: None,
    };
    let hubs = On::all_of(Parties::these([HUB, OTHER_HUB])).to(Side::Hub);
    let fails = Rule::sometimes(hubs.that(Asks::Write).at("/bundles"), fails, 600);
    let when = dice.between(&(Duration::ZERO..=BUSY));
    let paused = when + dice.between(&(Duration::from_millis(200)..=Duration::from_secs(3)));
    let resumed = paused + dice.between(&(Duration::from_secs(5)..=Duration::from_secs(60)));
    let say = |order| Act::Order((*name).to_owned(), order);
    vec![
        (
            when,
            Act::for_a_while(Fault::Network(fails), Duration::from_secs(4)),
        ),
        (when, Act::Apply(with_image(application, "web:9"))),
        (paused, say(Order::Suspend)),
        (resumed, say(Order::Resume)),
    ]
}

/// What somebody has to do for the applications as they are and with what is done to them.
fn helps(applications: &[Value], cues: &[(Duration, Act)], confirmed: &[&str]) -> Vec<Help> {
    let of = |name: &str, application: &Value| {
        let said = |asked: &Order| {
            let says = |act: &Act| matches!(act, Act::Order(of, order) if of == name && order == asked);
            cues.iter().any(|(_, act)| says(act))
        };
        let bears = application.to_string().contains("maxFailedClusters");
        Help {
            application: name.to_owned(),
            confirms: confirmed.contains(&name),
            resumes: said(&Order::Suspend),
            restarts: said(&Order::Terminate) || bears,
            places_anew: awaited(application).map(|least| ("east".to_owned(), least)),
        }
    };
    let applications = APPLICATIONS.iter().zip(applications);
    applications
        .map(|(name, application)| of(name, application))
        .collect()
}

/// The most clusters that a step waits for by number.
fn awaited(application: &Value) -> Option<usize> {
    let steps = application
        .pointer("/spec/workflow/steps")
        .and_then(Value::as_array);
    let untils = steps.into_iter().flatten().flat_map(|step| {
        let own = ["/properties/wait/until", "/properties/until"];
        own.into_iter().filter_map(|until| step.pointer(until))
    });
    let counts = untils.filter_map(|until| match until {
        Value::String(expression) => expression.rsplit(' ').next()?.parse().ok(),
        until => usize::try_from(until["ready"].as_u64()?).ok(),
    });
    counts.max()
}

/// What others do in clusters to what agents have made there: they put something beside what the application renders, which stays,
/// change what it renders, or delete it, which is put right.
fn in_members(dice: &mut Dice, names: &[String]) -> Vec<(Duration, Act)> {
    let containers = |all: Value| json!({"spec": {"template": {"spec": {"containers": all}}}});
    let deployment = [
        json!({"metadata": {"annotations": {"team": "theirs"}}}),
        containers(json!([{"name": "mesh", "image": "mesh:1"}])),
        containers(json!([{"name": "web", "image": "mine"}, {"name": "mesh", "image": "mesh:1"}])),
        json!({"spec": {"replicas": 9}}),
    ];
    let service = [
        json!({"metadata": {"labels": {"team": "theirs"}}}),
        json!({"metadata": {"annotations": {"team": "theirs"}}, "spec": {"selector": {"app": "mine"}}}),
    ];
    let mut cues = Vec::new();
    for _ in 0..dice.below(5) {
        let Some(cluster) = dice.pick(names) else { break };
        let of = |api_version: &str, kind: &str, name: &str| Target {
            member: Some(cluster.clone()),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: "default".to_owned(),
            name: name.to_owned(),
        };
        let (target, changes) = match dice.below(4) {
            0 | 1 => (of("apps/v1", "Deployment", "one"), &deployment[..]),
            2 => (of("v1", "Service", "two"), &service[..]),
            _ => (of("v1", "ConfigMap", "one"), &[][..]),
        };
        let change = dice.pick(changes).cloned();
        let change = change.filter(|_| dice.happens(750));
        let act = match change {
            Some(change) => Act::PatchIfThere(target, change),
            None => Act::Delete(target),
        };
        cues.push((dice.between(&(Duration::ZERO..=BUSY)), act));
    }
    cues
}

/// Whether somebody deletes what was decided.
fn is_of_decision(act: &Act) -> bool {
    matches!(act, Act::Delete(target) if target.kind == "Decision")
}

/// What users and others do once, but for the cluster that is to be `labelled` anew.
fn changes(dice: &mut Dice, names: &[String], labelled: &str) -> Vec<Act> {
    let mut acts = Vec::new();
    // Everybody has the first application, but for who loses its label and comes back when others have its replicas. One of
    // its fields is the agent's, the other is not.
    for n in 0..=dice.below(3) {
        if let Some(cluster) = dice.pick(names).filter(|name| *name != labelled) {
            let target = Target {
                member: Some(cluster.clone()),
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
                namespace: "default".to_owned(),
                name: "one".to_owned(),
            };
            acts.push(Act::PatchIfThere(
                target,
                json!({"data": {"image": "mine", "theirs": n.to_string()}}),
            ));
        }
    }
    if dice.happens(500) {
        acts.extend(MemberSpec::labelled("east-11", &[("region", "east")]).map(Act::Join));
    }
    if dice.happens(500) {
        let how = [Leave::Orphan, Leave::DeleteResources];
        let how = dice.pick(&how).copied().unwrap_or_default();
        acts.push(Act::Leave(LEAVES.to_owned(), how));
    }
    if dice.happens(300) {
        acts.push(Act::Delete(Target::application("three")));
    }
    // What was decided is decided again.
    for _ in 0..dice.below(3) {
        let (of, step) = (dice.pick(&APPLICATIONS), dice.pick(&STEPS));
        acts.extend(
            of.zip(step)
                .map(|(of, step)| Act::Delete(Target::decision(of, step))),
        );
    }
    acts
}

/// What is done and undone.
fn pairs(dice: &mut Dice, names: &[String], labelled: &str, applications: &[Value]) -> Vec<(Act, Act)> {
    let label = |value: Option<&str>| Act::Label {
        cluster: labelled.to_owned(),
        key: "region".to_owned(),
        value: value.map(str::to_owned),
    };
    let region = labelled.split('-').next();
    let mut pairs = vec![(label(None), label(region))];
    if dice.happens(300)
        && let Some(cluster) = dice.pick(names)
    {
        pairs.push((Act::Backup(cluster.clone()), Act::Restore(cluster.clone())));
    }
    // An object goes from a bundle that goes on, and comes back.
    if let Some(changed) = dice.pick(applications.get(..2).unwrap_or_default()) {
        let (less, more) = (
            with_image(&without_config(changed), "web:7"),
            with_image(changed, "web:8"),
        );
        pairs.push((Act::Apply(less), Act::Apply(more)));
    }
    if let Some(cluster) = dice.pick(names) {
        let by_hand = |maps: &[&str]| Act::Apply(bundle_by_hand(cluster, "by-hand", maps));
        pairs.push((by_hand(&["hand-a", "hand-b"]), by_hand(&["hand-b"])));
    }
    pairs
}

/// The end of the hub, in some way, and its start. Before its power goes the disk is slow, so that there is something to lose; and
/// where the API server ends with it a bit of its disk may be another one when it starts, until somebody puts that right. An API server
/// that is apart from `two` hubs goes on. Of those it may be the other one that leads, and who waits to lead asks next to nothing: where
/// one of them is to end at a moment of its life, both are.
fn end_of_hub(dice: &mut Dice, at: Duration, two: bool) -> Vec<(Duration, Act)> {
    let away = dice.between(&(Duration::from_secs(1)..=Duration::from_secs(30)));
    let ends = match dice.below(if two { 4 } else { 5 }) {
        0 => Act::for_a_while(Fault::Stopped(HUB.to_owned()), away),
        1 => Act::for_a_while(Fault::Killed(HUB.to_owned()), away),
        2 => {
            let slow = Fault::Disk(DiskFault::Slow(Duration::from_millis(300)));
            let (before, cut) = (Duration::from_secs(1), Act::for_a_while(Fault::PowerCut, away));
            return vec![(at, Act::for_a_while(slow, before * 2)), (at + before, cut)];
        }
        4 => {
            let killed = Act::for_a_while(Fault::Killed(HUB.to_owned()), away);
            let flipped = Act::for_a_while(Fault::Disk(DiskFault::FlippedBit), away);
            return vec![(at, killed), (at + away / 2, flipped)];
        }
        _ => {
            let hubs = if two { &[HUB, OTHER_HUB][..] } else { &[HUB] };
            let ends = hubs.iter().map(|hub| Act::KillAt {
                who: (*hub).to_owned(),
                moment: moment(dice, 60),
                away,
            });
            return ends.map(|ends| (at, ends)).collect();
        }
    };
    vec![(at, ends)]
}

fn moment(dice: &mut Dice, most: u64) -> Moment {
    let when = [When::BeforeRequest, When::BeforeAnswer, When::AtFrame];
    let when = dice.pick(&when).copied().unwrap_or(When::BeforeRequest);
    Moment {
        nth: u32::try_from(1 + dice.below(most)).unwrap_or(1),
        when,
        writes_only: when != When::AtFrame && dice.happens(700),
    }
}

fn some(dice: &mut Dice, names: &[String]) -> Vec<String> {
    let many = usize::try_from(1 + dice.below(names.len() as u64 / 2)).unwrap_or(1);
    dice.sample(names, many)
}

/// Some parties, and whom they ask.
fn on(dice: &mut Dice, names: &[String]) -> On {
    let who = match dice.below(4) {
        0 => Parties::All,
        1 => Parties::Agents,
        2 => Parties::these([HUB]),
        _ => Parties::These(some(dice, names).into_iter().collect()),
    };
    let side = [Side::Hub, Side::Member, Side::Both];
    On::all_of(who).to(dice.pick(&side).copied().unwrap_or(Side::Both))
}

/// The other hub now and then, if there are `two`.
fn other(dice: &mut Dice, two: bool) -> Option<String> {
    (two && dice.happens(300)).then(|| OTHER_HUB.to_owned())
}

/// One random fault. The API server that is a process of its own, beside `two` hubs, is not restarted when its disk fails.
fn fault(dice: &mut Dice, names: &[String], two: bool) -> Act {
    let lasting = dice.between(&(Duration::from_secs(2)..=Duration::from_secs(45)));
    let one = dice.pick(names).cloned().unwrap_or_default();
    let often = u16::try_from(50 + dice.below(300)).unwrap_or(100);
    let network =
        |on: On, effect| Act::for_a_while(Fault::Network(Rule::sometimes(on, effect, often)), lasting);
    match dice.below(20) {
        0 => network(on(dice, names), Effect::LoseRequest),
        1 => network(on(dice, names), Effect::LoseAnswer),
        2 => network(on(dice, names), Effect::Reset),
        3 => network(on(dice, names), Effect::ResetAnswer),
        4 => network(on(dice, names), Effect::Duplicate(Duration::from_secs(20))),
        5 => network(on(dice, names), Effect::Late(Duration::from_secs(120))),
        6 => network(
            on(dice, names),
            Effect::Delay(Duration::ZERO..=Duration::from_secs(3)),
        ),
        7 => network(
            on(dice, names),
            Effect::DelayFrames(Duration::ZERO..=Duration::from_secs(2)),
        ),
        8 => {
            let codes = [409, 429, 500, 503];
            let code = dice.pick(&codes).copied().unwrap_or(500);
            // An error is no empty answer, either.
            let reads = code != 409 && dice.happens(400);
            let asks = if reads { Asks::Read } else { Asks::Write };
            let retry_after = (code == 429).then_some(1);
            network(on(dice, names).that(asks), Effect::Answer { code, retry_after })
        }
        9 => network(
            on(dice, names).that(Asks::Read),
            Effect::Answer {
                code: 410,
                retry_after: None,
            },
        ),
        10 => network(on(dice, names), Effect::Stall),
        11 => {
            let how = [Ending::Ended, Ending::Broken, Ending::Gone, Ending::Silent];
            let how = dice.pick(&how).copied().unwrap_or(Ending::Ended);
            Act::EndWatches(on(dice, names), how)
        }
        12 => {
            // Some last longer than a Lease and its grace, so that somebody changes something meanwhile.
            let lasting = dice.between(&(Duration::from_secs(2)..=Duration::from_secs(180)));
            Act::for_a_while(Fault::Partition(some(dice, names)), lasting)
        }
        13 => {
            let hours = if dice.happens(500) { 1 } else { -1 };
            let who = if dice.happens(300) { HUB.to_owned() } else { one };
            Act::for_a_while(Fault::Clock(who, SignedDuration::from_hours(hours)), lasting)
        }
        14 => {
            let slow = DiskFault::Slow(Duration::from_millis(500));
            let faults = [DiskFault::Full, slow, DiskFault::FailedSync];
            let faults = if two { &faults[..2] } else { &faults[..] };
            let fault = dice.pick(faults).copied().unwrap_or(slow);
            Act::for_a_while(Fault::Disk(fault), lasting)
        }
        15 => Act::for_a_while(Fault::Killed(other(dice, two).unwrap_or(one)), lasting),
        16 => Act::for_a_while(Fault::Stopped(other(dice, two).unwrap_or(one)), lasting),
        17 => {
            let who = other(dice, two).unwrap_or(HUB.to_owned());
            Act::for_a_while(Fault::Pause(who), lasting)
        }
        18 => {
            let ago = dice.between(&(Duration::from_secs(1)..=Duration::from_secs(60)));
            let who = on(dice, names).to(Side::Hub).that(Asks::Read);
            network(who, Effect::Stale(ago))
        }
        _ => Act::KillAt {
            moment: moment(dice, 10),
            who: one,
            away: lasting,
        },
    }
}
