//! The grammar, what is written, and what people read before it is.

use super::{
    Radius, difference, draw,
    grammar::{self, LabelEdit, TaintEdit},
};
use crate::{
    cli::format::Format,
    fleet::{ApplicationImpact, Impact, Later, Moved},
};
use jiff::Timestamp;
use roundhouse_api::{
    cluster::Cluster,
    placement::{Taint, TaintEffect},
};
use serde_json::{Value, json};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn east() -> Cluster {
    serde_json::from_value(json!({
        "apiVersion": "roundhouse.dev/v1alpha1", "kind": "Cluster",
        "metadata": {"name": "east-1", "resourceVersion": "7", "labels": {"region": "east", "tier": "tin"}},
        "spec": {"accepted": true, "taints": [{"key": "gpu", "value": "a100", "effect": "NoSchedule",
            "timeAdded": "2026-01-01T00:00:00Z"}]}}))
    .unwrap()
}

fn labelled(text: &str, overwrite: bool) -> Result<(Vec<String>, Option<Value>), String> {
    let edits = grammar::labels(&words(text)).map_err(|error| error.to_string())?;
    let mut after = east();
    let done = grammar::label(&mut after, &edits, overwrite).map_err(|failure| failure.to_string())?;
    Ok((done, difference(&east(), &after)))
}

fn tainted(text: &str, overwrite: bool) -> Result<(Vec<String>, Option<Value>), String> {
    let edits = grammar::taints(&words(text)).map_err(|error| error.to_string())?;
    let mut after = east();
    let now: Timestamp = "2026-02-02T00:00:00Z".parse().unwrap();
    let done = grammar::taint(&mut after, &edits, overwrite, now).map_err(|failure| failure.to_string())?;
    Ok((done, difference(&east(), &after)))
}

#[test]
fn labels_are_read_as_kubectl_reads_them() {
    let set = |key: &str, value: &str| LabelEdit::Set(key.to_owned(), value.to_owned());
    let remove = |key: &str| LabelEdit::Remove(key.to_owned());
    for (text, edits) in [
        ("tier=gold", vec![set("tier", "gold")]),
        ("tier=", vec![set("tier", "")]),
        ("tier-", vec![remove("tier")]),
        (
            "example.com/a_B.c=1 x-y-",
            vec![set("example.com/a_B.c", "1"), remove("x-y")],
        ),
    ] {
        assert_eq!(grammar::labels(&words(text)).unwrap(), edits, "{text}");
    }
    let long = "x".repeat(64);
    for (text, error) in [
        (
            "tier",
            "\"tier\" is no label: write key=value to set one, key- to remove one",
        ),
        ("a=1 a-", "\"a\" is set or removed twice: name it once"),
        (
            "roundhouse.dev/x=1",
            "key \"roundhouse.dev/x\" is reserved for the hub: use another key",
        ),
        (
            "app.oam.dev/name-",
            "key \"app.oam.dev/name\" is reserved for the hub: use another key",
        ),
        (
            "-a=1",
            "key \"-a\" of \"-a=1\" is not legal: use an optional DNS prefix and '/', then 1 to 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit",
        ),
        (
            "a=b=c",
            "value \"b=c\" of \"a=b=c\" is not legal: use at most 63 letters, digits, '-', '_' or '.', starting and ending with a letter or digit",
        ),
    ] {
        assert_eq!(
            grammar::labels(&words(text)).unwrap_err().to_string(),
            error,
            "{text}"
        );
    }
    for illegal in [
        "=1",
        "-",
        "a/b/c=1",
        "A.com/x=1",
        "/x=1",
        "a=é",
        "a=-",
        &format!("{long}=1"),
        &format!("a={long}"),
    ] {
        assert!(grammar::labels(&words(illegal)).is_err(), "{illegal}");
    }
}

#[test]
fn taints_are_read_as_kubectl_reads_them() {
    let set = |key: &str, value: Option<&str>, effect| {
        TaintEdit::Set(Taint {
            key: key.to_owned(),
            value: value.map(str::to_owned),
            effect,
            time_added: None,
        })
    };
    let remove = |key: &str, effect| TaintEdit::Remove(key.to_owned(), effect);
    for (text, edits) in [
        (
            "gpu=a100:NoSchedule",
            vec![set("gpu", Some("a100"), TaintEffect::NoSchedule)],
        ),
        ("gpu:NoExecute", vec![set("gpu", None, TaintEffect::NoExecute)]),
        ("gpu=:NoExecute", vec![set("gpu", None, TaintEffect::NoExecute)]),
        ("gpu-", vec![remove("gpu", None)]),
        (
            "gpu:NoSchedule-",
            vec![remove("gpu", Some(TaintEffect::NoSchedule))],
        ),
        (
            "gpu=a100:NoSchedule-",
            vec![remove("gpu", Some(TaintEffect::NoSchedule))],
        ),
    ] {
        assert_eq!(grammar::taints(&words(text)).unwrap(), edits, "{text}");
    }
    for (text, error) in [
        (
            "gpu",
            "\"gpu\" is no taint: write key=value:Effect or key:Effect to set one, key- or key:Effect- to remove one",
        ),
        (
            "gpu:PreferNoSchedule",
            "effect \"PreferNoSchedule\" of \"gpu:PreferNoSchedule\" is unknown: use NoSchedule or NoExecute",
        ),
        (
            "gpu:NoExecute gpu-",
            "\"gpu\" is set or removed twice: name it once",
        ),
        (
            "roundhouse.dev/cordoned:NoSchedule",
            "key \"roundhouse.dev/cordoned\" is reserved for the hub: use another key",
        ),
    ] {
        assert_eq!(
            grammar::taints(&words(text)).unwrap_err().to_string(),
            error,
            "{text}"
        );
    }
}

#[test]
fn only_what_differs_is_written_with_the_version_that_was_looked_at() {
    let (done, patch) = labelled("tier- zone=a", false).unwrap();
    assert_eq!(done, ["label tier removed (was tin)", "label zone=a"]);
    let expected = json!({"metadata": {"resourceVersion": "7", "labels": {"tier": null, "zone": "a"}}});
    assert_eq!(patch, Some(expected));
    assert_eq!(labelled("tier=tin none-", false).unwrap(), (Vec::new(), None));

    let (done, patch) = tainted("lab:NoExecute", false).unwrap();
    assert_eq!(done, ["taint lab:NoExecute"]);
    let taints = json!([
        {"key": "gpu", "value": "a100", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"},
        {"key": "lab", "effect": "NoExecute", "timeAdded": "2026-02-02T00:00:00Z"}]);
    assert_eq!(
        patch,
        Some(json!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": taints}}))
    );
    assert_eq!(tainted("gpu=a100:NoSchedule", false).unwrap(), (Vec::new(), None));
    let (done, patch) = tainted("gpu-", false).unwrap();
    assert_eq!(done, ["taint gpu=a100:NoSchedule removed"]);
    assert_eq!(patch.unwrap()["spec"], json!({"taints": []}));
}

#[test]
fn what_is_there_is_overwritten_only_when_asked() {
    assert_eq!(
        labelled("tier=gold", false).unwrap_err(),
        "error: label tier is there already [E-LABEL]\ncause: its value is \"tin\", not \"gold\"\ntry:   --overwrite"
    );
    assert_eq!(
        labelled("tier=gold", true).unwrap().0,
        ["label tier=gold (was tin)"]
    );
    assert_eq!(
        tainted("gpu=h100:NoSchedule", false).unwrap_err(),
        "error: taint gpu is there already [E-TAINT]\ncause: it is gpu=a100:NoSchedule, not gpu=h100:NoSchedule\ntry:   --overwrite"
    );
    let (done, patch) = tainted("gpu=h100:NoSchedule", true).unwrap();
    assert_eq!(done, ["taint gpu=h100:NoSchedule (was gpu=a100:NoSchedule)"]);
    assert_eq!(
        patch.unwrap()["spec"]["taints"][0]["timeAdded"],
        "2026-02-02T00:00:00Z"
    );
    assert_eq!(
        tainted("gpu:NoExecute-", false).unwrap_err(),
        "error: there is no taint gpu:NoExecute to remove [E-TAINT]\ncause: the taints of its spec are gpu=a100:NoSchedule\ntry:   roundhouse clusters NAME, which lists all of them"
    );
}

#[test]
fn cordoning_twice_changes_nothing() {
    let now = Timestamp::UNIX_EPOCH;
    let mut cluster = east();
    assert_eq!(grammar::cordon(&mut cluster, true, now).len(), 1);
    let cordoned = cluster.clone();
    assert!(grammar::cordon(&mut cluster, true, now).is_empty());
    assert_eq!(cluster, cordoned);
    assert_eq!(grammar::cordon(&mut cluster, false, now), ["uncordoned"]);
    assert_eq!(cluster, east());
    assert!(grammar::cordon(&mut cluster, false, now).is_empty());
}

fn moved(cluster: &str, before: u64, after: u64) -> Moved {
    Moved {
        cluster: cluster.to_owned(),
        before,
        otherwise: before,
        after,
    }
}

#[test]
fn what_would_move_is_read_on_one_screen() {
    let shop = ApplicationImpact {
        application: "default/shop".to_owned(),
        moved: (0..30).map(|n| moved(&format!("c{n:02}"), 1, 2)).collect(),
        unplaced: (0, 3),
        ..ApplicationImpact::default()
    };
    let web = ApplicationImpact {
        application: "default/web".to_owned(),
        moved: vec![
            moved("east-1", 2, 0),
            moved("east-2", 3, 4),
            moved("west-1", 0, 1),
        ],
        arriving: vec!["west-1".to_owned()],
        leaving: vec!["east-1".to_owned()],
        held: Some("2 clusters would lose default/web".to_owned()),
        ..ApplicationImpact::default()
    };
    let impact = Impact {
        applications: vec![shop, web.clone()],
        later: Vec::new(),
        asked: 12,
        stopped: Vec::new(),
        refused: vec![("default/bad".to_owned(), "spec.components: is empty".to_owned())],
    };
    let radius = Radius {
        cluster: "east-1",
        done: &["label region=west (was east)".to_owned()],
        impact: &impact,
    };
    insta::assert_snapshot!("radius", draw::text(&radius, Format::Table));
    insta::assert_snapshot!("radius-tree", draw::text(&radius, Format::Tree));
    insta::assert_snapshot!(
        "radius-json",
        serde_json::to_string_pretty(&draw::structured(&radius)).unwrap()
    );
    let wide = draw::text(&radius, Format::Wide);
    assert!(wide.contains("c29") && !wide.contains("more (-o wide)"), "{wide}");
    let nothing = Impact {
        asked: 12,
        ..Impact::default()
    };
    let radius = Radius {
        impact: &nothing,
        ..radius
    };
    assert_eq!(
        draw::text(&radius, Format::Table),
        "east-1: label region=west (was east)\nno decision changes: 12 applications would be placed as now\n"
    );
    let stopped = Impact {
        stopped: vec!["default/web".to_owned()],
        ..nothing.clone()
    };
    let radius = Radius {
        impact: &stopped,
        ..radius
    };
    let text = draw::text(&radius, Format::Table);
    assert!(
        text.ends_with("\ndefault/web stays as it is: its run has ended without success, and nothing of it moves before roundhouse restart web\n"),
        "{text}"
    );
    assert_eq!(draw::structured(&radius)["stopped"], json!(["default/web"]));
    let waves = Impact {
        applications: vec![ApplicationImpact {
            application: "default/waves".to_owned(),
            moved: vec![Moved {
                otherwise: 3,
                ..moved("west-1", 0, 0)
            }],
            ..ApplicationImpact::default()
        }],
        ..nothing.clone()
    };
    let radius = Radius {
        impact: &waves,
        ..radius
    };
    insta::assert_snapshot!("radius-under-way", draw::text(&radius, Format::Table));
    let later = Impact {
        later: vec![Later {
            at: Timestamp::from_second(300).unwrap(),
            seconds: 300,
            applications: vec![web],
        }],
        ..nothing.clone()
    };
    let radius = Radius {
        impact: &later,
        ..radius
    };
    insta::assert_snapshot!("radius-later", draw::text(&radius, Format::Table));
    let printed = draw::structured(&radius);
    assert_eq!(printed["later"][0]["seconds"], json!(300));
    assert_eq!(
        printed["later"][0]["applications"][0]["application"],
        json!("default/web")
    );
}
