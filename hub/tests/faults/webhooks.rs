//! Webhooks that answer as they like, over the hub's own transport: F30.

use crate::{
    applications::{application as status_of, runs, step_failed, step_is},
    looks::because,
    runs::{SECOND, after, at_rest, good, one},
};
use futures::future::{BoxFuture, pending, ready};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use roundhouse_api::{
    application::{ApplicationStatus, StepPhase, StepReason},
    clock::SystemClock,
};
use roundhouse_hub::{
    action::{Connection, Egress, Network, Outside, Runner, Trust},
    simulate::{
        HUB,
        fault::Dice,
        run::{Act, Fault, Look, Script, application},
    },
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
    time::sleep,
};

/// What is wrong with an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bad {
    Refused,
    Unavailable,
    /// It leads to itself.
    Circles,
    /// It leads to what steps may not reach.
    Inside,
    /// A body that is announced as large.
    Huge,
    /// A body without an end, of which nobody says how large it is.
    Endless,
    /// Headers without an end.
    Headers,
    Garbage,
    HangsUp,
    Silent,
}

impl Bad {
    const ALL: [Bad; 10] = [
        Bad::Unavailable,
        Bad::Circles,
        Bad::Endless,
        Bad::Refused,
        Bad::Inside,
        Bad::Huge,
        Bad::Headers,
        Bad::Garbage,
        Bad::HangsUp,
        Bad::Silent,
    ];

    /// What the hub says of it.
    fn told(self) -> &'static str {
        match self {
            Bad::Refused => "no connection to http://broken.example",
            Bad::Unavailable => "http://broken.example answered 503 Service Unavailable: not now",
            Bad::Circles => "it is the 6th, and at most 5 are followed",
            Bad::Inside => "169.254.169.254 is refused",
            Bad::Huge | Bad::Endless => "is larger than 64 KiB",
            Bad::Headers | Bad::Garbage | Bad::HangsUp => {
                "http://broken.example does not answer as an HTTP server"
            }
            Bad::Silent => "no answer from http://broken.example within 5s",
        }
    }

    /// Connections that one try makes.
    fn connections(self) -> usize {
        if self == Bad::Circles { 6 } else { 1 }
    }
}

/// How one connection is answered.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Well,
    /// Well, after so long that nobody waits any more.
    Late,
    Badly(Bad),
}

/// Three servers: `flaky` is good from the third try on, `broken` never, and `slow` too late.
#[derive(Debug)]
struct Servers {
    bad: Bad,
    /// Connections, by server.
    made: Mutex<BTreeMap<&'static str, usize>>,
    /// The most that was taken of one answer, in bytes.
    taken: Mutex<usize>,
    /// How many answers came too late, and how many of them somebody was there for.
    late: Mutex<usize>,
    heard: Mutex<usize>,
}

/// Names, and the last number of their addresses.
const NAMES: [(&str, u8); 3] = [("flaky", 34), ("broken", 35), ("slow", 36)];

/// More than is kept of an answer, with what is on the way.
const MOST: usize = 256 * 1024;

impl Servers {
    /// One more connection.
    fn answers(&self, address: SocketAddr) -> Option<Answer> {
        let IpAddr::V4(ip) = address.ip() else { return None };
        let (name, _) = NAMES.into_iter().find(|(_, last)| ip.octets()[3] == *last)?;
        let mut made = self.made.lock();
        let made = made.entry(name).or_default();
        *made += 1;
        Some(match name {
            "slow" => Answer::Late,
            "flaky" if *made > 2 * self.bad.connections() => Answer::Well,
            _ => Answer::Badly(self.bad),
        })
    }

    async fn serve(&self, mut stream: DuplexStream, answer: Answer) {
        let (mut asked, mut piece) = (Vec::new(), [0; 1024]);
        while !asked.windows(4).any(|end| end == b"\r\n\r\n") {
            match stream.read(&mut piece).await {
                Ok(read @ 1..) => asked.extend_from_slice(&piece[..read]),
                _ => return,
            }
        }
        let (head, more) = match answer {
            Answer::Late => {
                // After the step is given up, and before the request is.
                sleep(SECOND * 25).await;
                *self.late.lock() += 1;
                ("200 OK\r\ncontent-length: 2\r\n\r\n{}", None)
            }
            Answer::Well => ("200 OK\r\ncontent-length: 2\r\n\r\n{}", None),
            Answer::Badly(Bad::Refused | Bad::HangsUp) => return,
            Answer::Badly(Bad::Silent) => return pending().await,
            Answer::Badly(Bad::Unavailable) => (
                "503 Service Unavailable\r\ncontent-length: 7\r\n\r\nnot now",
                None,
            ),
            Answer::Badly(Bad::Circles) => (
                "307 Temporary Redirect\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n",
                None,
            ),
            Answer::Badly(Bad::Inside) => (
                "302 Found\r\nlocation: http://169.254.169.254/latest\r\ncontent-length: 0\r\n\r\n",
                None,
            ),
            Answer::Badly(Bad::Huge) => (
                "200 OK\r\ncontent-length: 1073741824\r\n\r\n",
                Some("x".repeat(1024)),
            ),
            Answer::Badly(Bad::Endless) => ("200 OK\r\nconnection: close\r\n\r\n", Some("x".repeat(1024))),
            Answer::Badly(Bad::Headers) => ("200 OK\r\n", Some(format!("x-a: {}\r\n", "a".repeat(1024)))),
            Answer::Badly(Bad::Garbage) => ("", Some("SSH-2.0-OpenSSH\r\n".to_owned())),
        };
        let begins = if head.is_empty() { "" } else { "HTTP/1.1 " };
        let mut taken = 0;
        let mut next = format!("{begins}{head}");
        while stream.write_all(next.as_bytes()).await.is_ok() {
            taken += next.len();
            if matches!(answer, Answer::Late) {
                *self.heard.lock() += 1;
            }
            match &more {
                Some(more) if taken < 4 * MOST => next.clone_from(more),
                _ => break,
            }
        }
        let mut most = self.taken.lock();
        *most = taken.max(*most);
    }
}

/// The network that these servers are in.
struct Web(Arc<Servers>);

impl Network for Web {
    fn resolve(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let last = NAMES
            .into_iter()
            .find(|(host, _)| name.strip_suffix(".example") == Some(host));
        let found = last.map(|(_, last)| vec![Ipv4Addr::new(93, 184, 216, last).into()]);
        Box::pin(ready(found.ok_or_else(|| io::Error::other("no such name"))))
    }

    fn is_own(&self, _: IpAddr) -> bool {
        false
    }

    fn connect(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<Connection>> {
        let servers = self.0.clone();
        let answer = servers.answers(address);
        Box::pin(async move {
            let Some(answer) = answer.filter(|answer| !matches!(answer, Answer::Badly(Bad::Refused))) else {
                return Err(io::ErrorKind::ConnectionRefused.into());
            };
            let (ours, theirs) = duplex(16 * 1024);
            tokio::spawn(async move { servers.serve(theirs, answer).await });
            let connection: Connection = Box::pin(ours);
            Ok(connection)
        })
    }
}

/// A client that knows of no API server beside the one that it asks.
fn alone() -> Client {
    let service = tower::service_fn(|_: http::Request<Body>| {
        let list = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList", "metadata": {}, "items": []});
        ready(Ok::<_, kube::Error>(http::Response::new(Body::from(
            list.to_string().into_bytes(),
        ))))
    });
    Client::new(service, "default")
}

/// Asks all three, whatever they say, and then delivers.
fn gated() -> Value {
    let mut gated = application("gated", 4, &[("east", "100%")]);
    let steps = gated
        .pointer_mut("/spec/workflow/steps")
        .and_then(Value::as_array_mut)
        .unwrap();
    steps.iter_mut().for_each(|step| step["if"] = json!("always"));
    for (name, _) in NAMES.into_iter().rev() {
        let mut step = json!({"name": name, "type": "webhook", "if": "always",
            "properties": {"url": format!("http://{name}.example/hook"), "data": {"step": name}, "timeout": "5s"}});
        if name == "slow" {
            step["timeout"] = json!("20s");
            step["properties"]["timeout"] = json!("30s");
        }
        steps.insert(0, step);
    }
    gated
}

#[test]
fn f30_webhooks_that_fail_are_tried_again_bounded_and_named_and_late_answers_are_not_heard() {
    good(|seed| {
        let mut dice = Dice::new(seed, "f30");
        // The quick runs have the first three of them, a long one has all; what is slow is a step beside.
        let first = usize::try_from(seed).ok().and_then(|seed| Bad::ALL.get(seed));
        let bad = first.copied().unwrap_or_else(|| one(&mut dice, &Bad::ALL));
        let servers = Arc::new(Servers {
            bad,
            made: Mutex::default(),
            taken: Mutex::default(),
            late: Mutex::default(),
            heard: Mutex::default(),
        });
        let web = servers.clone();
        let mut script = Script::of_regions(2, &["east", "west"])
            .with(application("web", 8, &[("east", "50%"), ("west", "50%")]))
            .with(gated());
        script.hub = Some(Arc::new(move |options| {
            let (clock, network) = (Arc::new(SystemClock), Arc::new(Web(web.clone())));
            let runner = Runner::over(alone(), Egress::default(), clock, network, Trust::default());
            options.outside = Some(Outside(Arc::new(runner)));
        }));
        // The hub may be away when the answer would come, or between two tries.
        let dies = seed % 2 == 1;
        if dies {
            script = script.at(
                after(&mut dice, 0, 90_000),
                Act::for_a_while(Fault::Killed(HUB.to_owned()), SECOND * 5),
            );
        }
        let named = move |status: &ApplicationStatus| {
            let run = status.workflow.as_ref().and_then(|run| run.step("broken"));
            let message = run.and_then(|step| step.message.clone()).unwrap_or_default();
            step_failed(status, "broken", StepReason::FailedAfterRetries) && message.contains(bad.told())
        };
        let late = |status: &ApplicationStatus| step_failed(status, "slow", StepReason::Timeout);
        let late_ones = servers.clone();
        let bounded = Look::new(move |_| {
            let (made, taken) = (servers.made.lock().clone(), *servers.taken.lock());
            let tries = |name: &str, tries: usize| {
                let most = (tries + usize::from(dies)) * bad.connections();
                let made = made.get(name).copied().unwrap_or(0);
                (1..=most).contains(&made)
            };
            // Ten retries, as KubeVela has them; one more may be under way when the hub dies.
            let so = tries("flaky", 3) && tries("broken", 11) && tries("slow", 1) && taken < MOST;
            Box::pin(ready(because(so, || format!("{bad:?}: {made:?}, {taken} bytes"))))
        });
        let unheard = Look::new(move |_| {
            let (late, heard) = (*late_ones.late.lock(), *late_ones.heard.lock());
            let so = late > 0 && heard == 0;
            Box::pin(ready(because(so, || {
                format!("{late} late answers, {heard} heard")
            })))
        });
        script
            .then(Act::wait("the other one is delivered", runs("web")))
            .then(Act::wait(
                "the third try is good",
                status_of("gated", |status| step_is(status, "flaky", StepPhase::Succeeded)),
            ))
            .then(Act::wait(
                "what is never good is given up, and named",
                status_of("gated", named),
            ))
            .then(Act::wait("the slow one is given up", status_of("gated", late)))
            .then(Act::wait(
                "it is delivered all the same",
                status_of("gated", |status| step_is(status, "east", StepPhase::Succeeded)),
            ))
            .then(Act::check("nothing was asked or taken without end", bounded))
            .at(SECOND * 600, Act::check("and stays so", status_of("gated", late)))
            .then(Act::check("its answer came, and nobody was there", unheard))
            .until(at_rest())
    });
}
