//! Definitions, and the objects of their kinds.

use super::*;
use crate::{crd, object};

/// Of the kind `Widget`.
fn definition(plural: &str) -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.x.dev")}, "spec": {"group": "x.dev", "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": plural}, "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object"}}}]}})
}

fn widget(name: &str) -> Value {
    json!({"apiVersion": "x.dev/v1", "kind": "Widget", "metadata": {"namespace": "default", "name": name}})
}

/// One that somebody else holds.
fn held_widget() -> Value {
    let mut held = widget("held");
    held["metadata"]["finalizers"] = json!(["x.dev/hold"]);
    held
}

/// Drops the clean-up finalizer of a definition that is being deleted by hand, and makes the definition again.
fn make_again(core: &Core) {
    core.drop_finalizer(&place(core, &definition("widgets")).1, crd::CLEANUP);
    create(core, &definition("widgets"));
}

#[test]
fn a_definition_that_goes_while_it_is_written_is_not_served() {
    let world = World::new();
    let definition = create(&world.core, &definition("widgets"));
    let is_served = || world.core.registry.by_kind("x.dev/v1", "Widget").is_some();
    assert!(is_served());
    let same = definition.clone();
    world.meanwhile(After, &definition, move |core| {
        delete(core, &same, Propagation::Background);
        core.follow_up();
    });
    let versions = json!([{"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "description": "new"}}}]);
    let mut spec = definition["spec"].clone();
    spec["versions"] = versions;
    put(&world.core, &definition, &[], &json!({"spec": spec}));
    world.settle();
    assert!(!world.there(&definition) && !is_served());
}

#[test]
fn what_is_created_when_its_definition_is_gone_goes() {
    let world = World::new();
    create(&world.core, &definition("widgets"));
    world.meanwhile(Before, &widget("late"), |core| {
        delete(core, &definition("widgets"), Propagation::Background);
        core.follow_up();
    });
    create(&world.core, &widget("late"));
    world.settle();
    assert!(!world.there(&definition("widgets")));
    create(&world.core, &definition("widgets"));
    assert!(!world.there(&widget("late")));
}

#[test]
fn what_is_created_while_its_definition_goes_goes() {
    let world = World::new();
    create(&world.core, &definition("widgets"));
    create(&world.core, &held_widget());
    world.meanwhile(Before, &widget("late"), |core| {
        delete(core, &definition("widgets"), Propagation::Background);
        core.follow_up();
    });
    create(&world.core, &widget("late"));
    world.settle();
    assert!(world.there(&definition("widgets")) && world.there(&held_widget()));
    assert!(!world.there(&widget("late")));
}

#[test]
fn what_is_created_while_its_version_ceases_to_be_served_stays() {
    let world = World::new();
    let made = create(&world.core, &definition("widgets"));
    let mut spec = made["spec"].clone();
    world.meanwhile(Before, &widget("w"), move |core| {
        spec["versions"][0]["served"] = false.into();
        put(core, &made, &[], &json!({"spec": spec}));
    });
    let key = place(&world.core, &widget("w")).1;
    create(&world.core, &widget("w"));
    world.settle();
    assert!(world.core.store.get(&key).is_some());
}

#[test]
fn a_definition_that_was_made_again_is_not_emptied() {
    let world = World::new();
    create(&world.core, &definition("widgets"));
    delete(&world.core, &definition("widgets"), Propagation::Background);
    make_again(&world.core);
    create(&world.core, &widget("new"));
    world.settle();
    assert!(world.there(&definition("widgets")) && world.there(&widget("new")));
}

#[test]
fn what_is_made_again_while_its_definition_is_emptied_stays() {
    let world = World::new();
    create(&world.core, &definition("widgets"));
    create(&world.core, &widget("w"));
    world.meanwhile(Before, &widget("w"), |core| {
        make_again(core);
        delete(core, &widget("w"), Propagation::Background);
        create(core, &widget("w"));
    });
    delete(&world.core, &definition("widgets"), Propagation::Background);
    world.settle();
    assert!(world.there(&definition("widgets")) && world.there(&widget("w")));
}

#[test]
fn a_definition_that_was_made_and_deleted_again_waits_for_its_objects() {
    let world = World::new();
    create(&world.core, &definition("widgets"));
    delete(&world.core, &definition("widgets"), Propagation::Background);
    world.meanwhile(Before, &definition("widgets"), |core| {
        make_again(core);
        create(core, &held_widget());
        delete(core, &definition("widgets"), Propagation::Background);
    });
    world.settle();
    assert!(world.there(&definition("widgets")) && world.there(&held_widget()));
}

/// Whether the names of the two definitions are accepted; those that are, and no others, are served.
fn accepted(core: &Core) -> [bool; 2] {
    ["gadgets", "widgets"].map(|plural| {
        let key = place(core, &definition(plural)).1;
        let stored = object::decode(&core.store.get(&key).unwrap().bytes);
        let conditions: Vec<&Value> = stored["status"]["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .collect();
        let [names, established] = ["NamesAccepted", "Established"].map(|ty| {
            let condition = conditions.iter().find(|c| c["type"] == ty).unwrap();
            condition["status"] == "True"
        });
        assert_eq!(names, established, "{stored}");
        assert_eq!(core.registry.by_path("x.dev", "v1", plural).is_some(), names);
        names
    })
}

/// Two definitions of a kind, written at once.
fn two_of_a_kind() -> World {
    let world = World::new();
    world.meanwhile(Before, &definition("gadgets"), |core| {
        create(core, &definition("widgets"));
    });
    create(&world.core, &definition("gadgets"));
    world
}

#[test]
fn of_two_definitions_of_a_kind_the_later_one_is_not_accepted() {
    let world = two_of_a_kind();
    world.settle();
    assert_eq!(accepted(&world.core), [false, true]);
}

#[test]
fn of_two_definitions_of_a_kind_one_is_accepted_after_a_restart() {
    let world = two_of_a_kind();
    let core = Server::builder().store(world.store).build().core;
    assert_eq!(
        accepted(&core),
        [true, false],
        "the process ended before it was followed up"
    );
}

#[test]
fn a_definition_is_accepted_if_the_other_one_of_its_kind_went_meanwhile() {
    let world = two_of_a_kind();
    let other = place(&world.core, &definition("widgets")).1;
    delete(&world.core, &definition("widgets"), Propagation::Background);
    world.core.drop_finalizer(&other, crd::CLEANUP);
    world.settle();
    assert!(!world.there(&definition("widgets")));
    assert!(world.core.registry.by_path("x.dev", "v1", "gadgets").is_some());
}

#[test]
fn what_an_object_owned_goes_with_the_definition_of_its_owner() {
    let world = World::new();
    create(&world.core, &definition("widgets"));
    let [owner, other] = ["w", "v"].map(|name| create(&world.core, &widget(name)));
    let owned = create(&world.core, &map("default", "owned", &[&owner]));
    let twice = create(&world.core, &map("default", "twice", &[&owner, &other]));
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "role", "ownerReferences": [reference(&owner)]}, "rules": []});
    let role = create(&world.core, &role);
    delete(&world.core, &definition("widgets"), Propagation::Background);
    world.settle();
    assert!(!world.there(&definition("widgets")));
    assert!(!world.there(&owned) && !world.there(&twice));
    assert!(
        world.there(&role),
        "it is in no namespace, and cannot have such an owner"
    );
}

#[test]
fn a_definition_that_serves_nothing_goes_with_its_objects() {
    for refused in [false, true] {
        let world = World::new();
        let made = create(&world.core, &definition("widgets"));
        let [free, held] = [widget("w"), held_widget()].map(|object| {
            create(&world.core, &object);
            place(&world.core, &object).1
        });
        let serve = |served: bool| {
            let mut spec = made["spec"].clone();
            spec["versions"][0]["served"] = served.into();
            put(&world.core, &made, &[], &json!({"spec": spec}));
        };
        serve(false);
        if refused {
            create(&world.core, &definition("gadgets"));
            serve(true);
            assert_eq!(accepted(&world.core), [true, false]);
        }
        delete(&world.core, &made, Propagation::Background);
        world.settle();
        assert!(world.core.store.get(&free).is_none(), "{refused}");
        assert!(
            world.core.store.get(&held).is_some() && world.there(&made),
            "{refused}"
        );
        world.core.drop_finalizer(&held, "x.dev/hold");
        world.settle();
        assert!(
            world.core.store.get(&held).is_none() && !world.there(&made),
            "{refused}"
        );
    }
}

#[test]
fn a_definition_is_accepted_when_the_other_one_of_its_kind_goes() {
    let world = two_of_a_kind();
    world.settle();
    delete(&world.core, &definition("widgets"), Propagation::Background);
    world.settle();
    create(&world.core, &definition("widgets"));
    world.settle();
    assert_eq!(accepted(&world.core), [true, false]);
}

#[test]
fn a_definition_is_accepted_when_the_other_one_of_its_kind_is_made_again_of_another() {
    let world = two_of_a_kind();
    world.settle();
    delete(&world.core, &definition("widgets"), Propagation::Background);
    world.meanwhile(After, &definition("widgets"), |core| {
        let mut other = definition("widgets");
        other["spec"]["names"]["kind"] = "Other".into();
        create(core, &other);
    });
    world.settle();
    assert_eq!(accepted(&world.core), [true, true]);
}

#[test]
fn a_definition_is_accepted_if_the_other_one_of_its_kind_goes_while_its_names_are_decided() {
    let world = two_of_a_kind();
    world.meanwhile(Before, &definition("gadgets"), |core| {
        delete(core, &definition("widgets"), Propagation::Background);
        core.drop_finalizer(&place(core, &definition("widgets")).1, crd::CLEANUP);
    });
    world.settle();
    assert!(!world.there(&definition("widgets")));
    assert!(world.core.registry.by_path("x.dev", "v1", "gadgets").is_some());
}

#[test]
fn of_two_definitions_of_a_kind_the_older_one_is_accepted_after_a_restart() {
    let world = World::new();
    let seconds = world.seconds.clone();
    world.meanwhile(Before, &definition("gadgets"), move |core| {
        seconds.fetch_sub(10, Ordering::Relaxed);
        create(core, &definition("widgets"));
    });
    create(&world.core, &definition("gadgets"));
    let core = Server::builder().store(world.store).build().core;
    assert_eq!(accepted(&core), [false, true]);
}
