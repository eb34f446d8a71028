//! Tables of what each operation makes of managed fields.

use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-02T03:04:05Z";

fn write<'a>(manager: &'a str, api_version: &'a str) -> Write<'a> {
    Write {
        manager,
        api_version,
        subresource: "",
        now: NOW,
    }
}

/// An object with its managed fields, as a server keeps them.
#[derive(Debug, Clone)]
struct Object {
    api_version: &'static str,
    kind: &'static str,
    live: Option<Value>,
    entries: Vec<Entry>,
}

impl Object {
    fn new(api_version: &'static str, kind: &'static str) -> Self {
        Self {
            api_version,
            kind,
            live: None,
            entries: vec![],
        }
    }

    fn topology(&self) -> BuiltIn {
        built_in(self.api_version, self.kind).unwrap()
    }

    fn try_apply(&mut self, manager: &str, force: bool, config: &Value) -> Result<(), ApplyError> {
        let request = Apply {
            write: write(manager, self.api_version),
            force,
        };
        let entries = self.entries.clone();
        let scope = Scope::all();
        let done = apply(
            self.live.as_ref(),
            config,
            entries,
            &request,
            self.topology(),
            &scope,
        )?;
        self.live = Some(done.object);
        self.entries = done.entries;
        Ok(())
    }

    #[track_caller]
    fn apply(&mut self, manager: &str, config: Value) -> &mut Self {
        self.try_apply(manager, false, &config).unwrap();
        self
    }

    #[track_caller]
    fn force(&mut self, manager: &str, config: Value) -> &mut Self {
        self.try_apply(manager, true, &config).unwrap();
        self
    }

    #[track_caller]
    fn refused(&mut self, manager: &str, config: Value, message: &str) -> &mut Self {
        let error = self.try_apply(manager, false, &config).unwrap_err();
        assert_eq!(error.to_string(), message);
        self
    }

    fn update(&mut self, manager: &str, after: Value) -> &mut Self {
        let entries = std::mem::take(&mut self.entries);
        let who = write(manager, self.api_version);
        self.entries = update(
            self.live.as_ref(),
            &after,
            entries,
            &who,
            self.topology(),
            &Scope::all(),
        );
        self.live = Some(after);
        self
    }

    #[track_caller]
    fn is(&mut self, live: Value) -> &mut Self {
        assert_eq!(self.live.as_ref(), Some(&live));
        self
    }

    /// `manager` or `manager/Update`, with its fields.
    #[track_caller]
    fn owned(&mut self, want: Value) -> &mut Self {
        let entry = |e: &Entry| {
            let suffix = if e.operation == Operation::Update {
                "/Update"
            } else {
                ""
            };
            (format!("{}{suffix}", e.manager), e.fields.to_fields_v1())
        };
        let have: serde_json::Map<String, Value> = self.entries.iter().map(entry).collect();
        assert_eq!(Value::Object(have), want);
        self
    }
}

fn config_map(data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})
}

fn deployment(spec: Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

fn pod(containers: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers}})
}

fn of_config_map() -> Object {
    Object::new("v1", "ConfigMap")
}

#[test]
fn what_a_manager_leaves_out_goes() {
    of_config_map()
        .apply("one", config_map(json!({"a": "1", "b": "2"})))
        .owned(json!({"one": {"f:data": {"f:a": {}, "f:b": {}}}}))
        .apply("one", config_map(json!({"a": "1"})))
        .is(config_map(json!({"a": "1"})))
        .owned(json!({"one": {"f:data": {"f:a": {}}}}));
}

#[test]
fn what_another_owns_stays() {
    of_config_map()
        .apply("one", config_map(json!({"a": "1", "b": "2"})))
        .apply("two", config_map(json!({"b": "2", "c": "3"})))
        .apply("one", config_map(json!({"a": "1"})))
        .is(config_map(json!({"a": "1", "b": "2", "c": "3"})))
        .owned(json!({"one": {"f:data": {"f:a": {}}}, "two": {"f:data": {"f:b": {}, "f:c": {}}}}));
}

#[test]
fn another_value_is_a_conflict_unless_forced() {
    of_config_map()
        .apply("one", config_map(json!({"a": "1", "b": "1"})))
        .refused(
            "two",
            config_map(json!({"a": "2"})),
            "Apply failed with 1 conflict: conflict with \"one\": .data.a",
        )
        .refused(
            "two",
            config_map(json!({"a": "2", "b": "2"})),
            "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b",
        )
        .force("two", config_map(json!({"a": "2"})))
        .is(config_map(json!({"a": "2", "b": "1"})))
        .owned(json!({"one": {"f:data": {"f:b": {}}}, "two": {"f:data": {"f:a": {}}}}));
}

#[test]
fn a_conflict_names_updaters_with_their_version() {
    let mut object = Object::new("apps/v1", "Deployment");
    object
        .update("kubectl-client-side-apply", deployment(json!({"replicas": 1})))
        .refused(
            "x",
            deployment(json!({"replicas": 2})),
            "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas",
        );
}

#[test]
fn what_was_there_before_the_first_apply_is_owned() {
    let mut object = of_config_map();
    object.live = Some(config_map(json!({"a": "1"})));
    object
        .apply("one", config_map(json!({"b": "2"})))
        .owned(json!({
            "before-first-apply/Update": {"f:data": {".": {}, "f:a": {}}},
            "one": {"f:data": {"f:b": {}}},
        }))
        .refused(
            "one",
            config_map(json!({"a": "3"})),
            "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a",
        );
}

#[test]
fn elements_of_lists_have_owners() {
    let mut object = Object::new("v1", "Pod");
    object
        .apply(
            "app",
            pod(json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}])),
        )
        .owned(json!({"app": {"f:spec": {"f:containers": {
            r#"k:{"name":"a"}"#: {".": {}, "f:image": {}, "f:name": {}},
            r#"k:{"name":"b"}"#: {".": {}, "f:image": {}, "f:name": {}},
        }}}}))
        .apply("mesh", pod(json!([{"name": "proxy", "image": "p:1"}])))
        .is(pod(json!([
            {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}, {"name": "proxy", "image": "p:1"},
        ])))
        .apply("app", pod(json!([{"name": "b", "image": "b:2"}])))
        .is(pod(
            json!([{"name": "b", "image": "b:2"}, {"name": "proxy", "image": "p:1"}]),
        ));
}

#[test]
fn order_is_the_applied_one_around_what_others_added() {
    let mut object = Object::new("v1", "Pod");
    object
        .update(
            "u",
            pod(json!([{"name": "x"}, {"name": "a"}, {"name": "y"}, {"name": "b"}, {"name": "z"}])),
        )
        .apply("app", pod(json!([{"name": "b"}, {"name": "a"}, {"name": "new"}])))
        .is(pod(json!([
            {"name": "x"}, {"name": "y"}, {"name": "b"}, {"name": "z"}, {"name": "a"}, {"name": "new"},
        ])));
}

#[test]
fn a_key_left_out_is_its_default() {
    let port = |extra: Value| {
        let mut port = json!({"containerPort": 80});
        port.as_object_mut()
            .unwrap()
            .extend(extra.as_object().unwrap().clone());
        pod(json!([{"name": "a", "ports": [port]}]))
    };
    Object::new("v1", "Pod")
        .update("u", port(json!({"protocol": "TCP"})))
        .apply("app", port(json!({"name": "http"})))
        .is(port(json!({"protocol": "TCP", "name": "http"})))
        .apply("app", pod(json!([{"name": "a"}])))
        .is(port(json!({"protocol": "TCP"})));
}

#[test]
fn ports_differ_by_protocol() {
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": ports}});
    Object::new("v1", "Service")
        .apply(
            "a",
            service(json!([{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}])),
        )
        .apply("a", service(json!([{"port": 53, "protocol": "UDP"}])))
        .is(service(json!([{"port": 53, "protocol": "UDP"}])));
}

#[test]
fn sets_merge_by_value() {
    let with = |list: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "finalizers": list}});
    of_config_map()
        .apply("one", with(json!(["x/a", "x/b"])))
        .apply("two", with(json!(["x/b", "x/c"])))
        .owned(json!({
            "one": {"f:metadata": {"f:finalizers": {"v:\"x/a\"": {}, "v:\"x/b\"": {}}}},
            "two": {"f:metadata": {"f:finalizers": {"v:\"x/b\"": {}, "v:\"x/c\"": {}}}},
        }))
        .apply("one", with(json!(["x/a"])))
        .is(with(json!(["x/a", "x/b", "x/c"])))
        .apply("two", with(json!([])))
        .is(with(json!(["x/a"])));
}

#[test]
fn atomic_lists_and_objects_are_replaced_whole() {
    let job = |args: Value, selector: Value| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
               "spec": {"containers": [{"name": "a", "args": args}], "nodeSelector": selector}})
    };
    Object::new("v1", "Pod")
        .apply("one", job(json!(["x", "y"]), json!({"a": "1"})))
        .owned(json!({"one": {"f:spec": {
            "f:containers": {r#"k:{"name":"a"}"#: {".": {}, "f:args": {}, "f:name": {}}},
            "f:nodeSelector": {},
        }}}))
        .refused(
            "two",
            job(json!(["z"]), json!({"b": "2"})),
            "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.nodeSelector\n- .spec.containers[name=\"a\"].args",
        )
        .apply("one", job(json!(["z"]), json!({"b": "2"})))
        .is(job(json!(["z"]), json!({"b": "2"})));
}

#[test]
fn elements_twice_or_without_key_are_refused() {
    Object::new("v1", "Pod")
        .refused(
            "one",
            pod(json!([{"name": "a"}, {"name": "a"}])),
            ".spec.containers: duplicate entries for key [name=\"a\"]",
        )
        .refused(
            "one",
            pod(json!([{"image": "a"}])),
            ".spec.containers: element 0: associative list with keys has an element that omits all key fields [\"name\"] (and doesn't have default values for any key fields)",
        );
}

#[test]
fn an_element_there_twice_is_replaced() {
    Object::new("v1", "Pod")
        .update(
            "u",
            pod(json!([{"name": "a", "env": [{"name": "E", "value": "1"}, {"name": "E", "value": "2"}]}])),
        )
        .force(
            "one",
            pod(json!([{"name": "a", "env": [{"name": "E", "value": "3"}]}])),
        )
        .is(pod(json!([{"name": "a", "env": [{"name": "E", "value": "3"}]}])));
}

#[test]
fn a_struct_goes_with_the_last_of_its_fields() {
    let strategy = json!({"type": "Recreate"});
    Object::new("apps/v1", "Deployment")
        .apply("one", deployment(json!({"replicas": 1, "strategy": strategy})))
        .apply("one", deployment(json!({"replicas": 1})))
        .is(deployment(json!({"replicas": 1})));
}

#[test]
fn a_null_is_set_and_owned() {
    Object::new("apps/v1", "Deployment")
        .apply("one", deployment(json!({"replicas": 1, "paused": null})))
        .owned(json!({"one": {"f:spec": {"f:paused": {}, "f:replicas": {}}}}))
        .apply("one", deployment(json!({"replicas": 1, "template": null})))
        .owned(json!({"one": {"f:spec": {"f:replicas": {}, "f:template": {}}}}));
}

#[test]
fn kubectl_takes_over_from_its_client_side() {
    let annotated = |replicas: i64, last: i64| {
        let last = deployment(json!({"replicas": last})).to_string();
        let mut object = deployment(json!({"replicas": replicas}));
        object["metadata"]["annotations"] = json!({"kubectl.kubernetes.io/last-applied-configuration": last});
        object
    };
    let mut object = Object::new("apps/v1", "Deployment");
    object.update("kubectl-client-side-apply", annotated(1, 1));
    let mut other = object.clone();
    other.refused(
        "argo",
        deployment(json!({"replicas": 2})),
        "Apply failed with 1 conflict: conflict with \"kubectl-client-side-apply\" using apps/v1: .spec.replicas",
    );
    object.apply("kubectl", deployment(json!({"replicas": 2})));
    let last = object.live.as_ref().unwrap()["metadata"]["annotations"]
        ["kubectl.kubernetes.io/last-applied-configuration"]
        .as_str()
        .unwrap();
    assert_eq!(
        serde_json::from_str::<Value>(last).unwrap(),
        deployment(json!({"replicas": 2}))
    );
}

#[test]
fn a_create_is_owned_by_its_creator() {
    let mut object = Object::new("apps/v1", "Deployment");
    let mut value = deployment(json!({
        "replicas": 1,
        "selector": {"matchLabels": {"app": "x"}},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
        "template": {
            "metadata": {"labels": {"app": "x"}},
            "spec": {"containers": [{
                "name": "a", "image": "a:1", "resources": {}, "ports": [{"containerPort": 80, "protocol": "TCP"}],
            }]},
        },
    }));
    value["metadata"]["labels"] = json!({"app": "x"});
    value["metadata"]["uid"] = json!("u");
    // As Kubernetes 1.36 records `kubectl create deployment`.
    object
        .update("kubectl-create", value)
        .owned(json!({"kubectl-create/Update": {
            "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
            "f:spec": {
                "f:replicas": {},
                "f:selector": {},
                "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
                "f:template": {
                    "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                    "f:spec": {"f:containers": {r#"k:{"name":"a"}"#: {
                        ".": {},
                        "f:image": {},
                        "f:name": {},
                        "f:ports": {".": {}, r#"k:{"containerPort":80,"protocol":"TCP"}"#: {
                            ".": {}, "f:containerPort": {}, "f:protocol": {},
                        }},
                        "f:resources": {},
                    }}},
                },
            },
        }}));
}

#[test]
fn an_update_takes_what_it_changes_and_drops_what_it_removes() {
    of_config_map()
        .update("one", config_map(json!({"a": "1", "b": "1", "c": "1"})))
        .update("two", config_map(json!({"a": "2", "b": "1"})))
        .owned(json!({
            "one/Update": {"f:data": {".": {}, "f:b": {}}},
            "two/Update": {"f:data": {"f:a": {}}},
        }))
        .update("two", config_map(json!({"b": "2"})))
        .owned(json!({"one/Update": {"f:data": {}}, "two/Update": {"f:data": {"f:b": {}}}}));
}

#[test]
fn times_change_with_the_set() {
    let mut object = of_config_map();
    object.update("one", config_map(json!({"a": "1", "b": "1"})));
    let at = |now, after: &Value, object: &Object| {
        let who = Write {
            now,
            ..write("one", "v1")
        };
        let entries = object.entries.clone();
        update(
            object.live.as_ref(),
            after,
            entries,
            &who,
            object.topology(),
            &Scope::all(),
        )
    };
    let later = "2026-01-02T03:04:06Z";
    let same = at(later, &config_map(json!({"a": "1", "b": "1"})), &object);
    assert_eq!(same, object.entries);
    let removed = at(later, &config_map(json!({"a": "1"})), &object);
    assert_eq!(removed[0].time, NOW);
    let changed = at(later, &config_map(json!({"a": "2", "b": "1"})), &object);
    assert_eq!(changed[0].time, later);
}

#[test]
fn an_object_that_is_not_tracked_stays_so() {
    let mut object = of_config_map();
    object.live = Some(config_map(json!({"a": "1"})));
    object
        .update("one", config_map(json!({"a": "2"})))
        .owned(json!({}));
}

#[test]
fn the_oldest_updaters_are_folded() {
    let mut object = of_config_map();
    let mut data = serde_json::Map::new();
    for n in 0..13 {
        data.insert(format!("k{n}"), "1".into());
        let after = config_map(Value::Object(data.clone()));
        let entries = std::mem::take(&mut object.entries);
        let manager = format!("m{n}");
        let now = format!("2026-01-02T03:04:{n:02}Z");
        let who = Write {
            now: &now,
            ..write(&manager, "v1")
        };
        object.entries = update(
            object.live.as_ref(),
            &after,
            entries,
            &who,
            object.topology(),
            &Scope::all(),
        );
        object.live = Some(after);
    }
    assert_eq!(object.entries.len(), 10);
    let ancient = object
        .entries
        .iter()
        .find(|e| e.manager == "ancient-changes")
        .unwrap();
    let folded = json!({"f:data": {".": {}, "f:k0": {}, "f:k1": {}, "f:k2": {}, "f:k3": {}}});
    assert_eq!(ancient.fields.to_fields_v1(), folded);
    assert_eq!(ancient.time, "2026-01-02T03:04:03Z");
}

#[test]
fn a_status_writer_owns_status_only() {
    let mut object = Object::new("apps/v1", "Deployment");
    object.update("one", deployment(json!({"replicas": 1})));
    let mut after = object.live.clone().unwrap();
    after["status"] = json!({"replicas": 1, "conditions": [{"type": "Available", "status": "True"}]});
    let who = Write {
        subresource: "status",
        ..write("controller", "apps/v1")
    };
    let scope = Scope::Only(Step::field("status"));
    let entries = object.entries.clone();
    let entries = update(
        object.live.as_ref(),
        &after,
        entries,
        &who,
        object.topology(),
        &scope,
    );
    let status = entries.iter().find(|e| e.subresource == "status").unwrap();
    let fields = json!({"f:status": {
        "f:conditions": {".": {}, r#"k:{"type":"Available"}"#: {".": {}, "f:status": {}, "f:type": {}}},
        "f:replicas": {},
    }});
    assert_eq!(status.fields.to_fields_v1(), fields);
}

#[test]
fn what_resets() {
    for yes in [json!([]), json!([{}]), json!([{"manager": ""}])] {
        assert!(is_reset(&yes), "{yes}");
    }
    for no in [Value::Null, json!([{}, {}]), json!([{"manager": "x"}])] {
        assert!(!is_reset(&no), "{no}");
    }
}

#[test]
fn entries_are_read_and_written() {
    let entries = json!([
        {"manager": "b", "operation": "Apply", "apiVersion": "v1", "time": NOW, "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {"f:a": {}}}},
        {"manager": "a", "operation": "Update", "apiVersion": "v1", "time": NOW, "fieldsType": "FieldsV1",
         "fieldsV1": {"f:data": {".": {}, "f:b": {}}}, "subresource": "status"},
    ]);
    assert_eq!(write_entries(read_entries(&entries).unwrap()), entries);
    assert_eq!(read_entries(&Value::Null).unwrap(), vec![]);
}

#[test]
fn garbage_is_refused() {
    let entry = |fields: Value| json!([{"manager": "a", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields}]);
    let mut deep = json!({});
    for _ in 0..200 {
        deep = json!({"f:a": deep});
    }
    let table = [
        (json!({}), "managedFields[0]: managedFields must be a list"),
        (
            json!([{}]),
            "managedFields[0]: operation must be `Apply` or `Update`",
        ),
        (
            json!([{"operation": "Apply"}]),
            "managedFields[0]: apiVersion must not be empty",
        ),
        (
            json!([{"operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV2"}]),
            "managedFields[0]: fieldsType must be `FieldsV1`",
        ),
        (entry(json!([])), "fieldsV1: \"fieldsV1\" must hold an object"),
        (entry(json!({"f:a": 1})), "fieldsV1: \"f:a\" must hold an object"),
        (
            entry(json!({"a": {}})),
            "fieldsV1: \"a\" names no field: it has no colon",
        ),
        (
            entry(json!({"x:a": {}})),
            "fieldsV1: \"x:a\" names no field: it starts with none of f:, k:, v:, i:",
        ),
        (
            entry(json!({"k:{}": {}})),
            "fieldsV1: \"k:{}\" names no field: after k: stands an object with at least one field",
        ),
        (
            entry(json!({"v:{": {}})),
            "fieldsV1: \"v:{\" names no field: after v: stands a JSON value",
        ),
        (
            entry(json!({"i:-1": {}})),
            "fieldsV1: \"i:-1\" names no field: after i: stands the index of an element",
        ),
        (entry(deep), "fieldsV1: nested deeper than 128 levels"),
    ];
    for (garbage, message) in table {
        assert_eq!(
            read_entries(&garbage).unwrap_err().to_string(),
            message,
            "{garbage}"
        );
    }
}

#[test]
fn who_owns_what() {
    let mut object = Object::new("v1", "Pod");
    let mut live =
        pod(json!([{"name": "a", "image": "a:1", "args": ["x"], "ports": [{"containerPort": 80}]}]));
    live["metadata"]["finalizers"] = json!(["x/a"]);
    object.apply("one", live.clone());
    live["spec"]["containers"][0]["image"] = json!("a:2");
    live["metadata"]["labels"] = json!({"l": "1"});
    object.update("two", live);
    let mut live = object.live.clone().unwrap();
    live["metadata"]["managedFields"] = write_entries(object.entries.clone());
    let names = |pointer: &str| {
        let owners = owners_at(&live, pointer);
        owners
            .iter()
            .map(|o| o.manager.clone())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let table = [
        ("/spec/containers/0/image", "two"),
        ("/spec/containers/0/args", "one"),
        ("/spec/containers/0/args/0", "one"),
        ("/spec/containers/0/ports/0/containerPort", "one"),
        ("/spec/containers/0", "one two"),
        ("/spec", "one two"),
        ("/metadata/finalizers/0", "one"),
        ("/metadata/labels/l", "two"),
        ("/metadata/name", ""),
        ("/spec/containers/1", ""),
        ("/nowhere", ""),
        ("", ""),
    ];
    for (pointer, want) in table {
        assert_eq!(names(pointer), want, "{pointer}");
    }
    let container = Step::key(json!({"name": "a"}).as_object().unwrap().clone());
    let path = [
        Step::field("spec"),
        Step::field("containers"),
        container,
        Step::field("image"),
    ];
    let found = owners(&live["metadata"]["managedFields"], &path);
    assert_eq!(found[0].manager, "two");
    assert_eq!(
        (found[0].operation, found[0].time.as_str()),
        (Operation::Update, NOW)
    );
}
