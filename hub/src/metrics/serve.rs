//! The metrics port: plain HTTP, `GET` of `/metrics`, `/healthz`, `/readyz` and `/fleet`, and nothing that changes anything.
//!
//! `/fleet` names clusters and applications, which no metric does: it is answered to this machine alone, where `kubectl
//! port-forward` arrives from as well.

use super::Metrics;
use crate::leader::{Leading, Standing};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use roundhouse_agent::port::Port;
use std::{net::SocketAddr, time::Duration};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Connections at a time; more wait to be accepted.
const MAX_CONNECTIONS: usize = 32;
/// A connection is closed after this time, however busy.
const LONGEST: Duration = Duration::from_secs(300);
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers on `listener` until `shutdown`: with the metrics, and with how the hub stands.
pub async fn serve(listener: TcpListener, metrics: Metrics, leading: Leading, shutdown: CancellationToken) {
    let port = Port {
        listener,
        what: "metrics",
        connections: MAX_CONNECTIONS,
        longest: LONGEST,
    };
    let answer = move |request: &Request<Incoming>, peer: SocketAddr| {
        answer(
            request,
            &metrics,
            &leading,
            peer.ip().to_canonical().is_loopback(),
        )
    };
    port.serve(answer, shutdown).await;
}

/// Whether a hub is ready, and why: one that follows is, as it knows everything.
fn readiness(standing: Standing) -> (StatusCode, String) {
    match standing {
        Standing::Starting => (
            StatusCode::SERVICE_UNAVAILABLE,
            "starting: not everything is seen yet\n".to_owned(),
        ),
        Standing::Following => (StatusCode::OK, "following: another hub leads\n".to_owned()),
        Standing::Leading(term) => (StatusCode::OK, format!("leading: epoch {}\n", term.epoch)),
    }
}

fn answer<B>(
    request: &Request<B>,
    metrics: &Metrics,
    leading: &Leading,
    is_near: bool,
) -> Response<Full<Bytes>> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    let (status, type_, body) = match request.uri().path() {
        "/metrics" | "/healthz" | "/readyz" | "/fleet" if !reads => (
            StatusCode::METHOD_NOT_ALLOWED,
            "text/plain",
            "use GET\n".to_owned(),
        ),
        "/metrics" => (StatusCode::OK, OPEN_METRICS, metrics.render()),
        "/fleet" if !is_near => (
            StatusCode::FORBIDDEN,
            "text/plain",
            "it names clusters and applications: ask from the hub's own machine, or through kubectl port-forward\n"
                .to_owned(),
        ),
        "/fleet" => (
            StatusCode::OK,
            "application/json",
            serde_json::to_string(&metrics.summary()).unwrap_or_default(),
        ),
        "/healthz" => (StatusCode::OK, "text/plain", "ok\n".to_owned()),
        "/readyz" => {
            let (status, body) = readiness(leading.standing());
            (status, "text/plain", body)
        }
        _ => (
            StatusCode::NOT_FOUND,
            "text/plain",
            "there are /metrics, /healthz, /readyz and /fleet\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(type_));
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::Term;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpStream,
    };

    async fn ask(address: std::net::SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_scrape_gets_the_metrics_a_probe_the_health_and_nothing_else_is_there() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (metrics, stop) = (Metrics::default(), CancellationToken::new());
        metrics.run_ended("succeeded");
        let leading = Leading::default();
        let serving = tokio::spawn(serve(listener, metrics, leading.clone(), stop.clone()));
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        let answer = ask(address, &get("/metrics")).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(OPEN_METRICS), "{answer}");
        assert!(
            answer.contains("roundhouse_workflow_runs_total{outcome=\"succeeded\"} 1\n"),
            "{answer}"
        );
        assert!(ask(address, &get("/")).await.starts_with("HTTP/1.1 404"));
        let post = "POST /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        assert!(ask(address, post).await.starts_with("HTTP/1.1 405"));
        assert!(ask(address, &get("/healthz")).await.starts_with("HTTP/1.1 200"));
        let starting = ask(address, &get("/readyz")).await;
        assert!(
            starting.starts_with("HTTP/1.1 503") && starting.contains("starting"),
            "{starting}"
        );
        leading.has_listed(Default::default);
        leading.has_listed_clusters();
        let following = ask(address, &get("/readyz")).await;
        assert!(
            following.starts_with("HTTP/1.1 200") && following.contains("following"),
            "{following}"
        );
        leading.set(Some(Term {
            epoch: 7,
            confirmed: 0,
        }));
        let leads = ask(address, &get("/readyz")).await;
        assert!(
            leads.starts_with("HTTP/1.1 200") && leads.contains("epoch 7"),
            "{leads}"
        );
        let fleet = ask(address, &get("/fleet")).await;
        assert!(
            fleet.starts_with("HTTP/1.1 200") && fleet.contains("\"available\":0"),
            "{fleet}"
        );
        stop.cancel();
        serving.await.unwrap();
    }

    #[test]
    fn names_of_the_fleet_stay_on_the_machine() {
        let request = |path: &str| Request::get(path).body(()).unwrap();
        let (metrics, leading) = (Metrics::default(), Leading::default());
        for (path, is_near, code) in [
            ("/fleet", true, 200),
            ("/fleet", false, 403),
            ("/metrics", false, 200),
        ] {
            let answer = answer(&request(path), &metrics, &leading, is_near);
            assert_eq!(answer.status(), code, "{path} {is_near}");
        }
    }
}
