//! What people and agents put in: F19 to F21, F27.

use crate::{
    applications::{application as status_of, bundles, confirm, deletes_are_held, gone, runs, step_is},
    looks::{because, deployment, images},
    runs::{SECOND, after, at_rest, delivered_within, good, of_region, one, struck},
};
use kube::{Api, ResourceExt};
use roundhouse_api::{
    application::{ACCEPTED, ApplicationPhase, ApplicationStatus, CLUSTERS_SEEN, PLACED, StepPhase},
    cluster::{Cluster, Leave},
    condition,
    names::cluster_namespace,
};
use roundhouse_hub::simulate::{
    HUB, MemberSpec,
    fault::{Asks, Dice, Effect, Ending, Kind, On, Parties, Rule, Side},
    monitor::Promise,
    run::{Act, Event, Fault, Look, Script, Target, application, in_turns, once, with_image},
    trace::Object,
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, time::Duration};

fn fleet() -> Script {
    Script::of_regions(5, &["east", "west"]).with(web())
}

fn web() -> Value {
    application("web", 20, &[("east", "50%"), ("west", "50%")])
}

/// So many of each region.
fn some_of_each(dice: &mut Dice, script: &Script, each: usize) -> Vec<String> {
    let mut some = dice.sample(&of_region(script, "east"), each);
    some.extend(dice.sample(&of_region(script, "west"), each));
    some
}

/// Takes a label away from these clusters, one after the other, or gives it back.
fn relabel(mut script: Script, dice: &mut Dice, clusters: &[String], away: bool) -> Script {
    let mut at = Duration::ZERO;
    for cluster in clusters {
        let region = cluster.split('-').next().map(str::to_owned);
        let label = Act::Label {
            cluster: cluster.clone(),
            key: "region".to_owned(),
            value: region.filter(|_| !away),
        };
        at += after(dice, 0, 400);
        script = script.at(at, label);
    }
    script
}

/// What an application says of whether the clusters are seen.
fn says(status: &ApplicationStatus, seen: &str) -> bool {
    condition::get(&status.conditions, CLUSTERS_SEEN).is_some_and(|found| found.status == seen)
}

#[test]
fn f19_what_the_hub_cannot_list_any_more_it_keeps_as_it_was() {
    let lists = On::all_of(Parties::these([HUB]))
        .to(Side::Hub)
        .that(Asks::Read)
        .at("/clusters");
    let failing = Effect::Answer {
        code: 500,
        retry_after: None,
    };
    good(|seed| {
        let mut dice = Dice::new(seed, "f19");
        fleet()
            .then(Act::wait("it is delivered", runs("web")))
            .at(
                after(&mut dice, 0, 20_000),
                Act::for_a_while(
                    Fault::Network(Rule::always(lists.clone(), failing.clone())),
                    SECOND * 100,
                ),
            )
            .then(Act::EndWatches(lists.clone(), Ending::Gone))
            .at(
                SECOND * 20 + after(&mut dice, 0, 5_000),
                Act::Apply(with_image(&web(), "web:2")),
            )
            .then(Act::wait(
                "it says so",
                status_of("web", |status| says(status, "False")),
            ))
            .then(Act::check("nothing is deleted", bundles("web", 10)))
            .then(Act::wait(
                "it sees them again",
                status_of("web", |status| says(status, "True")),
            ))
            .until(delivered_within(SECOND * 200))
    });
}

#[test]
fn f19_a_selector_that_suddenly_matches_nothing_deletes_nothing_and_says_so() {
    good(|seed| {
        let mut dice = Dice::new(seed, "f19");
        let script = fleet().then(Act::wait("it is delivered", runs("web")));
        let all = some_of_each(&mut dice, &script, 5);
        let script = relabel(script, &mut dice, &all, true);
        let unplaced = |status: &roundhouse_api::application::ApplicationStatus| {
            condition::get(&status.conditions, PLACED).is_some_and(|placed| placed.status == "False")
        };
        let script = script
            .then(Act::wait("it says so", status_of("web", unplaced)))
            .at(SECOND * 120, Act::check("nothing is deleted", bundles("web", 10)));
        let script = script.then(Act::wait("it says so yet", status_of("web", unplaced)));
        relabel(script, &mut dice, &all, false).until(delivered_within(SECOND * 120))
    });
}

#[test]
fn f20_a_label_that_nine_in_ten_clusters_lose_waits_for_a_confirmation() {
    good(|seed| {
        let mut dice = Dice::new(seed, "f20");
        let script = Script::of_regions(10, &["east", "west"]).with(web());
        let script = script.then(Act::wait("it is delivered", runs("web")));
        let most = some_of_each(&mut dice, &script, 9);
        relabel(script, &mut dice, &most, true)
            .then(Act::wait("it is asked", status_of("web", deletes_are_held)))
            .at(
                SECOND * 300,
                Act::check("nothing is deleted before", bundles("web", 20)),
            )
            .then(Act::wait("somebody confirms it", confirm("web")))
            .then(Act::wait("then it goes", bundles("web", 2)))
            .until(delivered_within(SECOND * 120))
    });
}

#[test]
fn f20_labels_that_come_and_go_while_steps_take_turns_keep_every_promise() {
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "labels");
        let turns = in_turns(&web(), 2);
        let mut script = Script::of_regions(5, &["east", "west"]).with(turns.clone());
        let names = script.names();
        let cut_off = vec!["west-1".to_owned(), "west-2".to_owned()];
        script = script.at(SECOND, Act::for_a_while(Fault::Partition(cut_off), SECOND * 20));
        for n in 0..40 {
            let cluster = dice.pick(&names).unwrap().clone();
            let values = [None, Some("east"), Some("west")];
            let value = dice.pick(&values).unwrap().map(str::to_owned);
            let key = "region".to_owned();
            let at = Duration::from_millis(200 * n + dice.below(200));
            script = script.at(at, Act::Label { cluster, key, value });
        }
        script = script.at(SECOND * 9, Act::Apply(with_image(&turns, "web:2")));
        // As at the start: what would go meanwhile waits, or was the one that may.
        for name in &names {
            let region = name.split('-').next().map(str::to_owned);
            let (cluster, key) = (name.clone(), "region".to_owned());
            script = script.at(
                SECOND * 10,
                Act::Label {
                    cluster,
                    key,
                    value: region,
                },
            );
        }
        script.until(delivered_within(SECOND * 200))
    });
    // In each clusters were moved while others were under way.
    for outcome in outcomes {
        let moves = |event: &&Event| event.what.contains("places web") && event.what.contains("→0");
        assert!(outcome.timeline.iter().any(|event| moves(&event)), "{outcome}");
        assert!(outcome.parts.contains(&(Promise::P8, "maxParallel")), "{outcome}");
    }
}

/// The Deployments of an application ask for so many replicas in all clusters together, but for those that have left.
fn replicas_of_members(name: &'static str, wanted: i32) -> Look {
    Look::new(move |fleet| {
        Box::pin(async move {
            let clusters = Api::<Cluster>::all(fleet.hub_client())
                .list(&Default::default())
                .await
                .map_err(|error| error.to_string())?;
            let mut found = BTreeMap::new();
            for member in clusters.iter().map(ResourceExt::name_any) {
                let spec = deployment(fleet, &member, name).await?.spec;
                found.insert(member, spec.and_then(|spec| spec.replicas).unwrap_or(1));
            }
            because(found.values().sum::<i32>() == wanted, || {
                format!("not {wanted} in all: {found:?}")
            })
        })
    })
}

#[test]
fn f21_clusters_that_leave_and_join_in_the_middle_of_a_delivery_let_the_run_go_on() {
    // Totals are watched in every run (P6), as they are decided; here as they are in the clusters.
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f21");
        let joins = MemberSpec::labelled("west-9", &[("region", "west")]).unwrap();
        // Renamed: it leaves under one name, and joins under another.
        let renamed = MemberSpec::labelled("east-one", &[("region", "east")]).unwrap();
        let script = fleet();
        let mut names = script.names();
        names.retain(|name| name != "west-1" && name != "east-1");
        names.extend(["west-9".to_owned(), "east-one".to_owned()]);
        let left = after(&mut dice, 0, 4_000);
        script
            .at(
                after(&mut dice, 0, 4_000),
                Act::Leave("west-1".to_owned(), Leave::DeleteResources),
            )
            .at(left, Act::Leave("east-1".to_owned(), Leave::Orphan))
            .at(after(&mut dice, 0, 4_000), Act::Join(joins))
            .at(left + after(&mut dice, 0, 2_000), Act::Join(renamed))
            .until(delivered_within(SECOND * 200))
            .finally("who has joined has its part", images("web", "web:1", names))
            .finally("all of it is somewhere", replicas_of_members("web", 20))
    });
    for outcome in outcomes {
        let at = |is: &dyn Fn(&Event) -> bool| {
            outcome
                .timeline
                .iter()
                .find(|event| is(event))
                .map(|event| event.at)
        };
        let ended = at(&|event| event.to_string() == "default/web: step west is Succeeded").unwrap();
        let leaves = at(&|event| event.what.contains("leaves")).unwrap();
        let joins = at(&|event| event.what.contains("joins")).unwrap();
        assert!(
            leaves < ended || joins < ended,
            "nobody came or went while it was delivered\n{outcome}"
        );
    }
}

#[test]
fn f21_a_cluster_that_leaves_while_its_step_waits_gets_nothing_again_and_keeps_nothing() {
    for how in [Leave::DeleteResources, Leave::Orphan] {
        let leaves = |seed| {
            one(
                &mut Dice::new(seed, "leaves"),
                &["west-1", "west-2", "west-3", "west-4"],
            )
        };
        let outcomes = good(|seed| {
            let mut dice = Dice::new(seed, "f21");
            let (stays_away, leaves) = (one(&mut dice, &["east-2", "east-4"]), leaves(seed));
            let cut_off = Fault::Partition(vec![stays_away.to_owned()]);
            // The step of west waits for that of east, and is kept as it was decided when the one that leaves was there.
            fleet()
                .then(Act::wait("it is delivered", runs("web")))
                .then(Act::for_a_while(cut_off, SECOND * 100))
                .then(Act::Apply(with_image(&web(), "web:2")))
                .at(after(&mut dice, 500, 60_000), Act::Leave(leaves.to_owned(), how))
                .until(delivered_within(SECOND * 200))
        });
        for outcome in outcomes {
            let namespace = cluster_namespace(leaves(outcome.seed));
            let bundle = Object::new(HUB, "bundles.roundhouse.dev", &namespace, "default.web");
            let text = outcome.trace.of(&[bundle], Duration::MAX, usize::MAX);
            let created = format!("{namespace}/default.web  created");
            let made = text.lines().filter(|line| line.contains(&created));
            assert_eq!(made.count(), 1, "{text}");
        }
    }
}

#[test]
fn f27_an_application_with_an_expression_that_never_ends_or_a_template_that_is_none_stays_alone_with_it() {
    let poisoned = |name: &str, condition: &str| {
        let mut poisoned = application(name, 4, &[("east", "100%")]);
        poisoned["spec"]["workflow"]["steps"][0]["if"] = json!(condition);
        poisoned
    };
    // What it is to be made of is no container, and is found out only when it is rendered.
    let mut shapeless = application("shapeless", 4, &[("east", "100%")]);
    shapeless["spec"]["components"][0]["properties"] = json!({"image": ["web:1"], "ports": {"80": {}}});
    let list = "[0,1,2,3,4,5,6,7,8,9]";
    let long = (0..9).fold("true".to_owned(), |inner, n| format!("{list}.all(x{n}, {inner})"));
    good(|seed| {
        let mut dice = Dice::new(seed, "f27");
        let over = |status: &roundhouse_api::application::ApplicationStatus| {
            let refused = condition::get(&status.conditions, ACCEPTED).is_some_and(|c| c.status == "False");
            refused
                || status.phase == Some(ApplicationPhase::WorkflowFailed)
                || step_is(status, "east", StepPhase::Failed)
        };
        let mut script = fleet();
        for poison in [
            poisoned("endless", &long),
            poisoned("nonsense", "status."),
            shapeless.clone(),
        ] {
            script = script.at(after(&mut dice, 0, 4_000), Act::Apply(poison));
        }
        script
            .then(Act::wait("the other one is delivered", runs("web")))
            .then(Act::wait("one is told", status_of("endless", over)))
            .then(Act::wait("the other, too", status_of("nonsense", over)))
            .then(Act::wait("and the third", status_of("shapeless", over)))
            .then(Act::Apply(with_image(&web(), "web:2")))
            .then(Act::wait("what is good goes on", runs("web")))
            .then(Act::check(
                "of the bad ones nothing is placed",
                bundles("shapeless", 0),
            ))
            .until(at_rest())
    });
}

/// Clusters that lose a label keep what apply-once keeps. They get the label back, and before their Bundles are made again, which the
/// hub's requests do not come through for, the application is deleted: its objects go there, too.
#[test]
fn f20_an_application_that_is_deleted_while_its_clusters_are_given_their_bundles_again_leaves_nothing_behind()
{
    let outcomes = good(|seed| {
        let mut dice = Dice::new(seed, "f20");
        let script = Script::of_regions(5, &["east", "west"]).with(once(&web()));
        let lose = one(&mut dice, &of_region(&script, "east"));
        let label = |cluster: &String, value: Option<&str>| Act::Label {
            cluster: cluster.clone(),
            key: "region".to_owned(),
            value: value.map(str::to_owned),
        };
        let made = On::all_of(Parties::these([HUB])).to(Side::Hub).that(Asks::Create);
        let refuse = Effect::Answer {
            code: 500,
            retry_after: None,
        };
        let refused = Rule::always(made.at("/bundles"), refuse);
        let back = SECOND * 40;
        script
            .at(SECOND * 20, label(&lose, None))
            .at(back + after(&mut dice, 0, 3_000), label(&lose, Some("east")))
            .at(
                back - SECOND,
                Act::for_a_while(Fault::Network(refused), SECOND * 20),
            )
            .at(
                back + after(&mut dice, 5_000, 15_000),
                Act::Delete(Target::application("web")),
            )
            .at(SECOND * 800, Act::check("it is gone", gone("web")))
    });
    struck(&outcomes, &[Kind::Refused]);
}
