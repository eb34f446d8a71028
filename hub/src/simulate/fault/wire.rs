//! One request on its way.

use super::{
    Effect, Kind, Network, When,
    answer::refusal,
    life::Life,
    network::TIMES_OUT,
    rule::{watches, writes},
    stream::watched,
};
use crate::simulate::{Answer, Ends, Overdue, Sent, Wire};
use bytes::Bytes;
use http::Request;
use std::{future::pending, sync::Arc};
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};
use tower::BoxError;

/// What a broken connection looks like.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error("a simulated fault: the connection timed out")]
    TimedOut,
    #[error("a simulated fault: the connection was reset")]
    Reset,
}

/// Carries a request over a wire with everything that befalls it.
pub(super) async fn carry(
    network: Network,
    ends: Ends,
    life: Arc<Life>,
    wire: Wire,
    mut request: Request<Bytes>,
) -> Answer {
    request.extensions_mut().insert(Sent(Instant::now()));
    let (writing, watching) = (writes(&request), watches(&request));
    if life.is_over() || life.comes_to(When::BeforeRequest, writing) {
        return pending().await;
    }
    let path = watching.then(|| request.uri().path().to_owned());
    let answer = cross(&network, &ends, &wire, request).await;
    if life.is_over() || life.comes_to(When::BeforeAnswer, writing) {
        return pending().await;
    }
    network.until(|network| !network.is_held(&ends.who)).await;
    match (answer, path) {
        (Ok(answer), Some(path)) if answer.status().is_success() => {
            Ok(answer.map(|body| watched(network, ends, life, path, body)))
        }
        (answer, _) => answer,
    }
}

async fn cross(network: &Network, ends: &Ends, wire: &Wire, request: Request<Bytes>) -> Answer {
    network.until(|network| !network.is_held(&ends.who)).await;
    let plan = network.plan(ends, &request);
    if !plan.delay.is_zero() {
        sleep(plan.delay).await;
    }
    if network.is_cut(ends) {
        network.note(Kind::CutOff);
        let healed = network.until(|network| !network.is_cut(ends));
        // A packet is sent again for so long.
        if timeout(TIMES_OUT, healed).await.is_err() {
            return times_out().await;
        }
    }
    if let Some(after) = plan.again {
        network.note(Kind::Duplicated);
        network.over_after(after);
        let (wire, mut copy) = (wire.clone(), copy(&request));
        tokio::spawn(async move {
            sleep(after).await;
            // Nobody waits for this answer.
            copy.extensions_mut().insert(Overdue(after));
            let _ = wire.send(copy).await;
        });
    }
    match plan.effect {
        None | Some((_, Effect::Delay(_) | Effect::Duplicate(_) | Effect::DelayFrames(_))) => {
            arrive(network, ends, wire, request).await
        }
        Some((_, Effect::LoseRequest)) => {
            network.note(Kind::RequestLost);
            network.over_after(TIMES_OUT);
            sleep(TIMES_OUT).await;
            times_out().await
        }
        Some((_, Effect::LoseAnswer)) => {
            network.note(Kind::AnswerLost);
            network.over_after(TIMES_OUT);
            // What it was does not arrive.
            let _ = wire.send(request).await;
            sleep(TIMES_OUT).await;
            times_out().await
        }
        Some((_, Effect::Reset)) => {
            network.note(Kind::Reset);
            Err(BoxError::from(Broken::Reset))
        }
        Some((_, Effect::ResetAnswer)) => {
            network.note(Kind::Reset);
            let _ = wire.send(request).await;
            Err(BoxError::from(Broken::Reset))
        }
        Some((_, Effect::Late(after))) => {
            network.note(Kind::Late);
            network.over_after(after);
            let (wire, mut request) = (wire.clone(), request);
            // Goes when whoever asked gives up, or is no more.
            let (asker, _waits) = oneshot::channel::<()>();
            let arrives = tokio::spawn(async move {
                sleep(after).await;
                if asker.is_closed() {
                    request.extensions_mut().insert(Overdue(after));
                }
                wire.send(request).await
            });
            match timeout(TIMES_OUT, arrives).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) | Err(_) => times_out().await,
            }
        }
        Some((_, Effect::Answer { code, retry_after })) => {
            network.note(Kind::Refused);
            refusal(code, retry_after)
        }
        Some((number, Effect::Stale(ago))) => match network.version(&ends.server, ago) {
            Some(version) => {
                network.strikes(number, Kind::Stale);
                arrive(network, ends, wire, as_of(request, version)?).await
            }
            None => arrive(network, ends, wire, request).await,
        },
        Some((number, Effect::Stall)) => {
            network.note(Kind::Stalled);
            network.until(|network| !network.has_rule(number)).await;
            arrive(network, ends, wire, request).await
        }
    }
}

/// The request arrives; its answer meets a cut that was made meanwhile.
async fn arrive(network: &Network, ends: &Ends, wire: &Wire, request: Request<Bytes>) -> Answer {
    let answer = wire.send(request).await;
    if network.is_cut(ends) {
        network.note(Kind::CutOff);
        let healed = network.until(|network| !network.is_cut(ends));
        if timeout(TIMES_OUT, healed).await.is_err() {
            return times_out().await;
        }
    }
    answer
}

async fn times_out() -> Answer {
    Err(BoxError::from(Broken::TimedOut))
}

/// The same list as of a version.
fn as_of(mut request: Request<Bytes>, version: u64) -> Result<Request<Bytes>, BoxError> {
    let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
    let uri = format!("{path}?{query}&resourceVersion={version}&resourceVersionMatch=Exact");
    *request.uri_mut() = uri.parse()?;
    Ok(request)
}

fn copy(request: &Request<Bytes>) -> Request<Bytes> {
    let mut copy = Request::new(request.body().clone());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.headers_mut() = request.headers().clone();
    copy
}
