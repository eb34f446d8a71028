//! Owners, and what they own.

use super::*;
use crate::object;

#[test]
fn of_two_writes_of_owners_the_later_one_counts() {
    let world = World::new();
    let owner = create(&world.core, &map("default", "owner", &[]));
    let other = create(&world.core, &map("default", "other", &[]));
    let child = create(&world.core, &map("default", "child", &[&other]));
    let (same, late) = (child.clone(), owner.clone());
    world.meanwhile(After, &child, move |core| put(core, &same, &[&late], &json!({})));
    put(&world.core, &child, &[], &json!({}));
    world.settle();
    delete(&world.core, &owner, Propagation::Background);
    world.settle();
    assert!(!world.there(&child) && world.there(&other));
}

#[test]
fn a_dependent_that_gets_another_owner_while_it_is_judged_stays() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let world = World::new();
        let owner = create(&world.core, &map("default", "owner", &[]));
        let other = create(&world.core, &map("default", "other", &[]));
        let child = create(&world.core, &map("default", "child", &[&owner]));
        let same = child.clone();
        world.meanwhile(Before, &child, move |core| {
            put(core, &same, &[&other], &json!({}))
        });
        delete(&world.core, &owner, propagation);
        world.settle();
        assert!(world.there(&child), "{propagation:?}");
        assert!(!world.there(&owner), "{propagation:?}");
    }
}

#[test]
fn a_dependent_that_changes_otherwise_while_it_is_judged_goes() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let world = World::new();
        let owner = create(&world.core, &map("default", "owner", &[]));
        let child = create(&world.core, &map("default", "child", &[&owner]));
        let (same, still) = (child.clone(), owner.clone());
        world.meanwhile(Before, &child, move |core| {
            put(core, &same, &[&still], &json!({"data": {"a": "b"}}));
        });
        delete(&world.core, &owner, propagation);
        world.settle();
        assert!(!world.there(&child) && !world.there(&owner), "{propagation:?}");
    }
}

#[test]
fn what_is_in_no_namespace_does_not_go_with_an_owner_that_is_in_one() {
    let world = World::new();
    let owner = create(&world.core, &map("default", "owner", &[]));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "role", "ownerReferences": [reference(&owner)]}, "rules": []});
    let role = create(&world.core, &role);
    delete(&world.core, &owner, Propagation::Background);
    world.settle();
    assert!(world.there(&role) && !world.there(&owner));
}

#[test]
fn a_dependent_with_another_owner_stays_and_holds_up_none() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let world = World::new();
        let [owner, other] = ["owner", "other"].map(|name| create(&world.core, &map("default", name, &[])));
        let child = create(&world.core, &map("default", "child", &[&owner, &other]));
        delete(&world.core, &owner, propagation);
        world.settle();
        assert!(world.there(&child) && !world.there(&owner), "{propagation:?}");
        assert_eq!(
            owners_of(&world, &child),
            [meta(&other, "uid")],
            "{propagation:?}"
        );
        delete(&world.core, &other, propagation);
        world.settle();
        assert!(!world.there(&child) && !world.there(&other), "{propagation:?}");
    }
}

#[test]
fn a_dependent_of_owners_that_all_go_goes_with_what_it_owns_first() {
    let world = World::new();
    let [owner, other] = ["owner", "other"].map(|name| create(&world.core, &map("default", name, &[])));
    let child = create(&world.core, &map("default", "child", &[&owner, &other]));
    let mut grandchild = map("default", "grandchild", &[&child]);
    grandchild["metadata"]["finalizers"] = json!(["x.dev/hold"]);
    create(&world.core, &grandchild);
    for owner in [&owner, &other] {
        delete(&world.core, owner, Propagation::Foreground);
    }
    world.settle();
    assert!(
        [&owner, &other, &child, &grandchild]
            .iter()
            .all(|o| world.there(o))
    );
    world
        .core
        .drop_finalizer(&place(&world.core, &grandchild).1, "x.dev/hold");
    world.settle();
    assert!(
        ![&owner, &other, &child, &grandchild]
            .iter()
            .any(|o| world.there(o))
    );
}

#[test]
fn two_that_own_each_other_go_and_what_one_of_them_owns_goes_first() {
    let world = World::new();
    let [one, two] = ["one", "two"].map(|name| create(&world.core, &map("default", name, &[])));
    let mut held = map("default", "held", &[&two]);
    held["metadata"]["finalizers"] = json!(["x.dev/hold"]);
    create(&world.core, &held);
    put(&world.core, &one, &[&two], &json!({}));
    put(&world.core, &two, &[&one], &json!({}));
    world.settle();
    delete(&world.core, &one, Propagation::Foreground);
    world.settle();
    assert!(!world.there(&one) && world.there(&two) && world.there(&held));
    let key = place(&world.core, &held).1;
    world.core.drop_finalizer(&key, "x.dev/hold");
    world.settle();
    assert!(!world.there(&two) && !world.there(&held));
}

#[test]
fn an_owner_waits_for_none_that_does_not_name_it_any_longer() {
    let world = World::new();
    let owner = create(&world.core, &map("default", "owner", &[]));
    let mut child = map("default", "child", &[&owner]);
    child["metadata"]["finalizers"] = json!(["x.dev/hold"]);
    create(&world.core, &child);
    delete(&world.core, &owner, Propagation::Foreground);
    world.settle();
    assert!(world.there(&owner) && world.there(&child));
    put(&world.core, &child, &[], &json!({}));
    world.settle();
    assert!(!world.there(&owner) && world.there(&child));
}

#[test]
fn a_dependent_that_loses_its_other_owner_while_it_is_judged_goes() {
    for propagation in [Propagation::Background, Propagation::Foreground] {
        let world = World::new();
        let [owner, other] = ["owner", "other"].map(|name| create(&world.core, &map("default", name, &[])));
        let child = create(&world.core, &map("default", "child", &[&owner, &other]));
        let (same, still) = (child.clone(), owner.clone());
        world.meanwhile(Before, &child, move |core| {
            put(core, &same, &[&still], &json!({}))
        });
        delete(&world.core, &owner, propagation);
        world.settle();
        assert!(!world.there(&child) && !world.there(&owner), "{propagation:?}");
    }
}

#[test]
fn a_reference_that_is_mended_while_it_is_judged_stays() {
    let world = World::new();
    let [owner, other] = ["owner", "other"].map(|name| create(&world.core, &map("default", name, &[])));
    let mut wrong = owner.clone();
    wrong["metadata"]["name"] = "nobody".into();
    let child = map("default", "child", &[&wrong, &other]);
    let (same, right, beside) = (child.clone(), owner.clone(), other.clone());
    create(&world.core, &child);
    world.meanwhile(Before, &child, move |core| {
        put(core, &same, &[&right, &beside], &json!({}));
    });
    world.settle();
    assert_eq!(
        owners_of(&world, &child),
        [meta(&owner, "uid"), meta(&other, "uid")]
    );
}

fn owners_of(world: &World, object: &Value) -> Vec<String> {
    let record = world.core.store.get(&place(&world.core, object).1).unwrap();
    let owners = object::owners(&object::decode(&record.bytes)).into_iter();
    owners.map(|owner| owner.uid).collect()
}
