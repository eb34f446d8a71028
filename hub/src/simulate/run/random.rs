//! Scripts with random faults.

use super::{Act, Fault, Script, Until, application, with_image};
use crate::simulate::{
    HUB,
    fault::{Asks, Dice, DiskFault, Effect, Ending, Moment, On, Parties, Rule, Side, When},
};
use jiff::SignedDuration;
use std::time::Duration;

/// Members of a random run in each of its two regions.
const EACH: usize = 10;
/// Random faults beside the restart of the hub.
const FAULTS: u64 = 12;
/// Virtual time in which they begin.
const BUSY: Duration = Duration::from_secs(120);

/// A run of 20 clusters and 3 applications with at least 12 random faults, changes of users among them, and one restart of the
/// hub. After the last of it everything has to be delivered within 15 minutes.
pub fn random(seed: u64) -> Script {
    let mut dice = Dice::new(seed, "script");
    let mut script = Script::of_regions(EACH, &["east", "west"]);
    let shares = [("50%", "50%"), ("70%", "20%"), ("60%", "40%")];
    let applications: Vec<_> = ["one", "two", "three"]
        .iter()
        .zip(shares)
        .map(|(name, (east, west))| application(name, 20, &[("east", east), ("west", west)]))
        .collect();
    script.applications.clone_from(&applications);
    let names = script.names();
    let mut cues: Vec<(Duration, Act)> = Vec::new();
    let mut at = |dice: &mut Dice, act| {
        let when = dice.between(&(Duration::ZERO..=BUSY));
        cues.push((when, act));
    };
    for _ in 0..FAULTS {
        let act = fault(&mut dice, &names);
        at(&mut dice, act);
    }
    let restart = restart(&mut dice);
    at(&mut dice, restart);
    for (n, app) in applications.iter().enumerate() {
        at(&mut dice, Act::Apply(with_image(app, &format!("web:{}", n + 2))));
    }
    if let Some(cluster) = dice.pick(&names).cloned() {
        let key = "tier".to_owned();
        at(
            &mut dice,
            Act::Label {
                cluster,
                key,
                value: Some("gold".to_owned()),
            },
        );
    }
    cues.sort_by_key(|(at, _)| *at);
    for (at, act) in cues {
        script = script.at(at, act);
    }
    script.until(Until::Delivered {
        within: Duration::from_secs(900),
        quiet: Duration::from_secs(30),
    })
}

/// The end of the hub, in some way, and its start.
fn restart(dice: &mut Dice) -> Act {
    let away = dice.between(&(Duration::from_secs(1)..=Duration::from_secs(30)));
    match dice.below(4) {
        0 => Act::for_a_while(Fault::Stopped(HUB.to_owned()), away),
        1 => Act::for_a_while(Fault::Killed(HUB.to_owned()), away),
        2 => Act::for_a_while(Fault::PowerCut, away),
        _ => Act::KillAt {
            who: HUB.to_owned(),
            moment: moment(dice, 60),
            away,
        },
    }
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

/// One random fault.
fn fault(dice: &mut Dice, names: &[String]) -> Act {
    let lasting = dice.between(&(Duration::from_secs(2)..=Duration::from_secs(45)));
    let one = dice.pick(names).cloned().unwrap_or_default();
    let often = u16::try_from(50 + dice.below(300)).unwrap_or(100);
    let network =
        |on: On, effect| Act::for_a_while(Fault::Network(Rule::sometimes(on, effect, often)), lasting);
    match dice.below(18) {
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
            let retry_after = (code == 429).then_some(1);
            network(
                on(dice, names).that(Asks::Write),
                Effect::Answer { code, retry_after },
            )
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
            let how = [Ending::Ended, Ending::Broken, Ending::Gone];
            let how = dice.pick(&how).copied().unwrap_or(Ending::Ended);
            Act::EndWatches(on(dice, names), how)
        }
        12 => Act::for_a_while(Fault::Partition(some(dice, names)), lasting),
        13 => {
            let hours = if dice.happens(500) { 1 } else { -1 };
            let who = if dice.happens(300) { HUB.to_owned() } else { one };
            Act::for_a_while(Fault::Clock(who, SignedDuration::from_hours(hours)), lasting)
        }
        14 => {
            let slow = DiskFault::Slow(Duration::from_millis(500));
            let faults = [DiskFault::Full, DiskFault::FailedSync, slow];
            let fault = dice.pick(&faults).copied().unwrap_or(slow);
            Act::for_a_while(Fault::Disk(fault), lasting)
        }
        15 => Act::for_a_while(Fault::Killed(one), lasting),
        16 => Act::for_a_while(Fault::Stopped(one), lasting),
        _ => Act::KillAt {
            moment: moment(dice, 10),
            who: one,
            away: lasting,
        },
    }
}
