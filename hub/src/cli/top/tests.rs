//! What `top` reads and prints.

use super::{
    Args, Subject,
    agents::{self, AgentRow, AgentsView},
    check, clusters,
    hub::{self, HubView},
    leads,
    port::{Port, address},
    scrape::{Quantile, by, quantile, samples, sum},
};
use crate::{
    cli::format::{Format, Output},
    fleet::{ClusterRow, Summary, Tally},
    leader::Leading,
    metrics::{Metrics, serve},
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};
use tokio_util::sync::CancellationToken;

const TEXT: &str = r#"# HELP roundhouse_queue_depth Applications that wait for a pass.
# TYPE roundhouse_queue_depth gauge
roundhouse_queue_depth 3
roundhouse_lag_bucket{le="0.1",region="east"} 50
roundhouse_lag_bucket{le="0.5",region="east"} 100
roundhouse_lag_bucket{le="+Inf",region="east"} 100
roundhouse_lag_bucket{le="0.1",region="west"} 50
roundhouse_lag_bucket{le="0.5",region="west"} 90
roundhouse_lag_bucket{le="+Inf",region="west"} 100
not a sample at all
# EOF
"#;

#[test]
fn quantiles_are_those_of_all_series_within_their_buckets() {
    let samples = samples(TEXT);
    assert!((sum(&samples, "roundhouse_queue_depth") - 3.0).abs() < 1e-9);
    assert_eq!(by(&samples, "roundhouse_lag_bucket", "region").len(), 2);
    let at = |part| match quantile(&samples, "roundhouse_lag", part) {
        Some(Quantile::Is(seconds)) => seconds,
        other => panic!("{other:?}"),
    };
    assert!((at(0.25) - 0.05).abs() < 1e-9, "{}", at(0.25));
    assert!((at(0.5) - 0.1).abs() < 1e-9, "{}", at(0.5));
    assert!((at(0.725) - 0.3).abs() < 1e-9, "{}", at(0.725));
    assert_eq!(
        quantile(&samples, "roundhouse_lag", 0.99),
        Some(Quantile::Above(0.5))
    );
    assert_eq!(quantile(&samples, "roundhouse_other", 0.5), None);
}

#[test]
fn a_hub_is_read_of_its_own_metrics() {
    let metrics = Metrics::default();
    metrics.pass_ended("done", Duration::from_millis(3));
    metrics.pass_ended("conflict", Duration::from_millis(30));
    for region in ["east", "west"] {
        metrics.ready(region, Duration::from_millis(300));
    }
    metrics.read_levels(|| crate::metrics::Levels {
        queued: 7,
        applications: [("running".to_owned(), 2)].into(),
        clusters: (9, 1),
        bundles: tally(20, 17, 2),
        ..Default::default()
    });
    let text = metrics.render();
    // What a machine has is not the same everywhere.
    let text: Vec<&str> = text.lines().filter(|line| !line.contains("resident")).collect();
    let text = text.join("\n") + "\nroundhouse_resident_memory_bytes 104857600\n";
    let view = HubView::of(&text, None, "leading: epoch 7".to_owned());
    insta::assert_snapshot!("hub", hub::draw(&view, Format::Table));
    insta::assert_snapshot!("hub-wide", hub::draw(&view, Format::Wide));
    insta::assert_json_snapshot!("hub-json", view.structured());
}

#[test]
fn of_a_hub_that_did_nothing_yet_everything_is_zero() {
    let view = HubView::of("", None, "leading: epoch 1".to_owned());
    let drawn = hub::draw(&view, Format::Wide);
    assert!(drawn.contains(" of 0 bundles since it started"), "{drawn}");
    let structured = view.structured().to_string();
    assert!(
        !drawn.contains("-0") && !structured.contains("-0"),
        "{drawn}{structured}"
    );
}

#[test]
fn a_hub_that_does_not_lead_says_that_it_does_not_count_and_not_that_there_is_nothing() {
    for standing in [
        "following: another hub leads",
        "starting: not everything is seen yet",
    ] {
        let view = HubView::of("", None, standing.to_owned());
        let drawn = hub::draw(&view, Format::Wide);
        for row in ["clusters", "bundles", "applications"] {
            let told = drawn.lines().find(|line| line.starts_with(row)).unwrap();
            assert!(told.ends_with("only the hub that leads counts them"), "{drawn}");
            assert!(view.structured()[row].is_null());
        }
        assert!(drawn.contains("only the hub that leads has one"), "{drawn}");
        assert!(view.structured()["queueDepth"].is_null());
        let refused = leads(Port("127.0.0.1:9464"), standing).unwrap_err().to_string();
        for part in ["[E-FOLLOWS]", "127.0.0.1:9464", standing, "roundhouse-hub"] {
            assert!(refused.contains(part), "{part:?} is missing in\n{refused}");
        }
    }
    assert!(leads(Port("127.0.0.1:9464"), "leading: epoch 3").is_ok());
}

#[test]
fn what_happened_since_the_last_look_is_told_apart_from_what_was_before() {
    let metrics = Metrics::default();
    for _ in 0..100 {
        metrics.pass_ended("done", Duration::from_millis(3));
    }
    metrics.ready("east", Duration::from_millis(300));
    let before = metrics.render();
    let look = |text: &str, before: &str| HubView::of(text, Some(before), "leading".to_owned());
    let idle = look(&before, &before).structured();
    assert_eq!(
        (
            &idle["timesSince"],
            &idle["pass"]["count"],
            &idle["pass"]["p99Seconds"]
        ),
        (&"lastLook".into(), &0.0.into(), &serde_json::Value::Null)
    );
    metrics.pass_ended("done", Duration::from_secs(4));
    metrics.ready("west", Duration::from_millis(300));
    let after = metrics.render();
    let busy = look(&after, &before).structured();
    assert_eq!(
        (&busy["pass"]["count"], &busy["passes"]["done"]),
        (&1.0.into(), &1.0.into())
    );
    assert!(busy["pass"]["p50Seconds"].as_f64().unwrap() > 1.0, "{busy}");
    assert_eq!(
        busy["dispatchToReady"]["count"], 1.0,
        "a series that was not there before"
    );
    // A hub that was restarted in between has begun anew, with all that it counts, whatever has grown past what it was.
    let anew = look(&before, &after).structured();
    assert_eq!(
        (&anew["pass"]["count"], &anew["timesSince"]),
        (&100.0.into(), &"start".into())
    );
    let slow = Metrics::default();
    slow.pass_ended("done", Duration::from_secs(4));
    for _ in 0..3 {
        slow.ready("east", Duration::from_hours(1000));
    }
    let anew = look(&slow.render(), &before);
    let structured = anew.structured();
    assert_eq!(
        (&structured["dispatchToReady"]["count"], &structured["timesSince"]),
        (&3.0.into(), &"start".into())
    );
    // What is above the last bound is not said to be at it.
    assert!(
        structured["dispatchToReady"]["p99Seconds"].is_null(),
        "{structured}"
    );
    let bound = structured["dispatchToReady"]["p99AboveSeconds"].as_f64().unwrap();
    let drawn = hub::draw(&anew, Format::Table);
    assert!(drawn.contains(&format!("p99 more than {bound:.0} s")), "{drawn}");
}

fn tally(bundles: u64, ready: u64, failed: u64) -> Tally {
    Tally {
        bundles,
        ready,
        failed,
        objects: bundles * 5,
        replicas: bundles * 10,
    }
}

#[test]
fn clusters_with_trouble_stand_first_and_no_list_is_cut_in_silence() {
    let row = |n: u64| ClusterRow {
        name: format!("c{n:02}"),
        region: if n.is_multiple_of(2) { "east" } else { "" }.to_owned(),
        available: n != 7,
        tally: tally(10, 10 - n % 3, u64::from(n == 11)),
    };
    let mut fleet = Summary {
        available: 22,
        bundles: tally(230, 207, 1),
        clusters: (0..23).map(row).collect(),
        ..Summary::default()
    };
    clusters::by_trouble(&mut fleet.clusters);
    assert_eq!(fleet.clusters[0].name, "c11");
    insta::assert_snapshot!("clusters", clusters::draw(&fleet, Format::Table));
    let wide = clusters::draw(&fleet, Format::Wide);
    assert_eq!(wide.lines().count(), 25, "{wide}");
    assert_eq!(clusters::structured(&fleet)["clusters"][0]["waiting"], 1);
}

#[test]
fn agents_that_are_silent_for_longest_stand_first() {
    let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
    let row = |name: &str, available: bool, silent: Option<i64>| AgentRow {
        name: name.to_owned(),
        version: available.then(|| "0.1.0".to_owned()),
        kubernetes: None,
        available,
        deaf: false,
        renewed: silent.map(|seconds| now - SignedDuration::from_secs(seconds)),
    };
    let view = AgentsView::of(
        vec![
            row("c1", true, Some(3)),
            row("c2", true, Some(8)),
            row("c3", false, None),
            row("c4", false, Some(300)),
            // Its clock is ahead.
            row("c5", true, Some(-5)),
        ],
        now,
    );
    insta::assert_snapshot!("agents", agents::draw(&view, Format::Wide));
    insta::assert_json_snapshot!("agents-json", view.structured());
}

#[tokio::test]
async fn the_port_is_asked_and_a_port_that_is_none_is_told_with_what_to_try() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (metrics, stop) = (Metrics::default(), CancellationToken::new());
    metrics.read_summary(|| Summary {
        available: 4,
        ..Summary::default()
    });
    let serving = tokio::spawn(serve(listener, metrics, Leading::default(), stop.clone()));
    let port = Port(&address);
    assert!(
        port.metrics()
            .await
            .unwrap()
            .contains("roundhouse_queue_depth 0\n")
    );
    assert!(port.standing().await.unwrap().starts_with("starting"));
    assert_eq!(port.fleet().await.unwrap().available, 4);
    stop.cancel();
    serving.await.unwrap();
    let failure = port.fleet().await.unwrap_err().to_string();
    for part in ["[E-METRICS]", "\ncause: ", "\ntry: ", "--metrics-listen"] {
        assert!(failure.contains(part), "{part:?} is missing in\n{failure}");
    }
}

#[tokio::test]
async fn somebody_elses_metrics_are_none_of_a_hub() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut asked = [0; 1024];
        let _ = stream.read(&mut asked).await.unwrap();
        let body = "roundhouse_agent_bundles 3\nup 1\n";
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all((head + body).as_bytes()).await.unwrap();
    });
    let failure = Port(&address).metrics().await.unwrap_err().to_string();
    other.await.unwrap();
    for part in [
        "answers with 200 and not as a hub does [E-METRICS]",
        "\ncause: roundhouse_agent_bundles 3",
        "\ntry: ",
    ] {
        assert!(failure.contains(part), "{part:?} is missing in\n{failure}");
    }
}

#[test]
fn the_port_may_be_given_as_the_hub_prints_it() {
    for (text, expected) in [
        ("127.0.0.1:9964", "127.0.0.1:9964"),
        ("hub.example.org:80", "hub.example.org:80"),
        ("[::1]:9464", "[::1]:9464"),
        ("http://127.0.0.1:9964", "127.0.0.1:9964"),
        ("http://127.0.0.1:9964/", "127.0.0.1:9964"),
        ("http://127.0.0.1:9964/metrics", "127.0.0.1:9964"),
        ("http://[::1]:9964/metrics/", "[::1]:9964"),
    ] {
        assert_eq!(address(text).as_deref(), Ok(expected), "{text}");
    }
    for text in [
        "https://127.0.0.1:9964",
        "http://127.0.0.1",
        "http://127.0.0.1:9964/fleet",
        "http://127.0.0.1:9964/metrics?x=1",
        "ftp://a:1",
        "127.0.0.1",
        ":9464",
        "a:99999",
        "a b:1",
        "",
    ] {
        let refused = address(text).unwrap_err();
        assert!(refused.contains("use HOST:PORT"), "{text}: {refused}");
    }
}

#[test]
fn an_option_that_would_do_nothing_is_refused() {
    let refused = |subject, metrics: Option<&str>, kubeconfig: Option<&str>| {
        let args = Args {
            subject,
            metrics: metrics.map(str::to_owned),
            output: Output::Table,
            watch: false,
            kubeconfig: kubeconfig.map(Into::into),
        };
        check(&args).err().map(|failure| failure.to_string())
    };
    let told = refused(Subject::Agents, Some("a:1"), None).unwrap();
    assert!(
        told.contains("--metrics does nothing") && told.contains("--kubeconfig"),
        "{told}"
    );
    for subject in [Subject::Hub, Subject::Clusters] {
        let told = refused(subject, None, Some("f")).unwrap();
        assert!(
            told.contains("--kubeconfig does nothing") && told.contains("--metrics"),
            "{told}"
        );
        assert_eq!(refused(subject, Some("a:1"), None), None);
    }
    assert_eq!(refused(Subject::Agents, None, Some("f")), None);
}
