//! Lets nothing be written but by the leader. The gate closes by itself when the Lease was not renewed in time, by the
//! monotonic clock: a process that was stopped for a while finds it closed before it writes, and before it knows why.
//!
//! The monotonic clock of a machine that sleeps, or of a virtual one that is paused, may stand still meanwhile, and a request
//! may be long on its way. So every write says of which term it is: the embedded API server refuses it once a later one has
//! begun ([`roundhouse_apiserver::TERM`]). Another API server passes over that, and refuses what it can tell by the epoch in
//! the object or by the resourceVersion.

use crate::action::{Executor, Job, Outcome};
use futures::{future::BoxFuture, stream::BoxStream};
use http::{HeaderValue, Method, Request};
use kube::{Client, client::Body};
use parking_lot::Mutex;
use roundhouse_apiserver::{TERM, Term};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};
use tokio::{sync::watch, time::Instant};
use tower::{BoxError, service_fn};

/// A write was not sent: this hub is not the leader, or not any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this hub does not lead: another one writes, see the Lease {}", super::LEASE)]
pub struct NotLeading;

#[derive(Debug, Clone, Copy, Default)]
enum Until {
    #[default]
    Closed,
    Then(Instant),
    Always,
}

#[derive(Debug, Default)]
struct Inner {
    until: Mutex<Until>,
    /// What writes say of the term that they are of.
    term: Mutex<Option<HeaderValue>>,
    /// Writes that were sent and not answered.
    under_way: watch::Sender<usize>,
    refused: AtomicU64,
}

/// A gate; clones are the same one. Closed until it is opened.
#[derive(Debug, Clone, Default)]
pub struct Gate(Arc<Inner>);

/// A write that is under way.
struct Passed(Gate);

impl Drop for Passed {
    fn drop(&mut self) {
        self.0
            .0
            .under_way
            .send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Gate {
    /// From now on what passes is of this term.
    pub(crate) fn begin(&self, term: &Term) {
        // A name of Kubernetes is a header's value; without one nothing is fenced but by the gate.
        *self.0.term.lock() = HeaderValue::from_str(&term.to_string()).ok();
    }

    /// Opens it until then, or for good.
    pub(crate) fn open(&self, until: Option<Instant>) {
        *self.0.until.lock() = until.map_or(Until::Always, Until::Then);
    }

    /// Closes it.
    pub(crate) fn close(&self) {
        *self.0.until.lock() = Until::Closed;
    }

    /// Whether something may be written now.
    pub fn is_open(&self) -> bool {
        match *self.0.until.lock() {
            Until::Closed => false,
            Until::Then(until) => Instant::now() < until,
            Until::Always => true,
        }
    }

    /// How many writes were refused.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    fn pass(&self) -> Option<Passed> {
        // Counted first: whoever closes the gate and then sees none under way may rely on it.
        self.0.under_way.send_modify(|count| *count += 1);
        let passed = Passed(self.clone());
        if self.is_open() {
            return Some(passed);
        }
        self.0.refused.fetch_add(1, Ordering::Relaxed);
        None
    }

    /// Waits until no write is under way.
    pub(crate) async fn drained(&self) {
        let mut under_way = self.0.under_way.subscribe();
        // The sender is ours: it does not go away.
        let _ = under_way.wait_for(|count| *count == 0).await;
    }

    /// A client that writes through this gate. What is on its way is finished, also if nobody waits for it any more.
    pub fn client(&self, client: Client) -> Client {
        let gate = self.clone();
        let namespace = client.default_namespace().to_owned();
        let service = service_fn(move |mut request: Request<Body>| {
            let (client, gate) = (client.clone(), gate.clone());
            async move {
                if matches!(*request.method(), Method::GET | Method::HEAD) {
                    return client.send(request).await.map_err(BoxError::from);
                }
                let Some(passed) = gate.pass() else {
                    return Err(BoxError::from(NotLeading));
                };
                if let Some(term) = gate.0.term.lock().clone() {
                    request.headers_mut().insert(TERM, term);
                }
                let sent = tokio::spawn(async move {
                    let answer = client.send(request).await;
                    drop(passed);
                    answer
                });
                Ok(sent.await??)
            }
        });
        Client::new(service, namespace)
    }
}

/// An executor whose jobs begin only while this hub leads: requests to others pass no API server that could refuse them.
pub(crate) struct Guarded<E> {
    pub(crate) executor: E,
    pub(crate) gate: Gate,
}

impl<E: Executor> Executor for Guarded<E> {
    fn run(&self, job: Job) -> BoxFuture<'static, Outcome> {
        match self.gate.is_open() {
            true => self.executor.run(job),
            // The leader does it; here the outcome reaches nobody.
            false => Box::pin(std::future::ready(Outcome::Waiting {
                message: NotLeading.to_string(),
            })),
        }
    }

    fn changes(&self, job: &Job) -> BoxStream<'static, ()> {
        self.executor.changes(job)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
    use kube::{Api, ResourceExt, api::PostParams};
    use roundhouse_api::names::annotation;
    use roundhouse_apiserver::Server;
    use std::time::Duration;

    fn map(name: &str) -> ConfigMap {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_sent_but_while_it_is_open() {
        let server = Server::builder().build();
        let gate = Gate::default();
        let maps: Api<ConfigMap> =
            Api::default_namespaced(gate.client(Client::new(server.service(), "default")));
        let write = async |name: &str| maps.create(&PostParams::default(), &map(name)).await;
        let error = write("early").await.unwrap_err();
        let kube::Error::Service(error) = error else {
            panic!("{error}")
        };
        assert!(error.downcast_ref::<NotLeading>().is_some(), "{error}");

        gate.open(Some(Instant::now() + Duration::from_secs(10)));
        tokio::time::advance(Duration::from_secs(9)).await;
        write("in-time").await.unwrap();
        // Nobody closes it: a process that was stopped had no chance to.
        tokio::time::advance(Duration::from_secs(1)).await;
        write("late").await.unwrap_err();
        assert_eq!(gate.refused(), 2);

        gate.open(None);
        tokio::time::advance(Duration::from_secs(1_000_000)).await;
        write("alone").await.unwrap();
        gate.close();
        write("after").await.unwrap_err();
        let all = maps.list(&Default::default()).await.unwrap();
        let mut names: Vec<_> = all.iter().filter_map(|map| map.metadata.name.clone()).collect();
        names.retain(|name| name != "kube-root-ca.crt");
        assert_eq!(names, ["alone", "in-time"], "and reading is free");
    }

    #[tokio::test]
    async fn what_passed_in_a_term_that_is_over_is_refused_by_the_server() {
        let server = Server::builder().build();
        let inner = Client::new(server.service(), "default");
        let gate = Gate::default();
        let maps: Api<ConfigMap> = Api::default_namespaced(gate.client(inner.clone()));
        let term = |epoch| Term {
            namespace: "default".to_owned(),
            lease: super::super::LEASE.to_owned(),
            epoch,
        };
        gate.begin(&term(3));
        gate.open(None);
        maps.create(&PostParams::default(), &map("a")).await.unwrap();
        let leases: Api<Lease> = Api::default_namespaced(inner);
        let mut lease = Lease::default();
        lease.metadata.name = Some(super::super::LEASE.to_owned());
        lease
            .annotations_mut()
            .insert(annotation::EPOCH.to_owned(), "4".to_owned());
        leases.create(&PostParams::default(), &lease).await.unwrap();
        // This hub has not heard of it.
        let error = maps.create(&PostParams::default(), &map("b")).await.unwrap_err();
        assert!(
            matches!(&error, kube::Error::Api(answer) if answer.code == 409),
            "{error}"
        );
        gate.begin(&term(5));
        maps.create(&PostParams::default(), &map("b")).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_under_way_is_waited_for() {
        let server = Server::builder().build();
        let inner = Client::new(server.service(), "default");
        let slow = service_fn(move |request: Request<Body>| {
            let inner = inner.clone();
            async move {
                tokio::time::sleep(Duration::from_secs(3)).await;
                inner.send(request).await
            }
        });
        let gate = Gate::default();
        gate.open(None);
        let maps: Api<ConfigMap> = Api::default_namespaced(gate.client(Client::new(slow, "default")));
        let started = Instant::now();
        let (params, map) = (PostParams::default(), map("a"));
        let given_up = tokio::time::timeout(Duration::from_secs(1), maps.create(&params, &map));
        assert!(given_up.await.is_err());
        gate.close();
        gate.drained().await;
        assert_eq!(started.elapsed().as_secs(), 3);
        let there: Api<ConfigMap> = Api::default_namespaced(Client::new(server.service(), "default"));
        assert!(there.get("a").await.is_ok(), "nobody waited for it any more");
    }
}
