//! Between somebody and an API server: one function from request to answer, which can be wrapped.

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response};
use http_body_util::{BodyExt, combinators::UnsyncBoxBody};
use kube::{Client, client::Body};
use std::{fmt, sync::Arc, time::Duration};
use tokio::{runtime::Handle, time::Instant};
use tokio_util::task::AbortOnDropHandle;
use tower::{BoxError, service_fn};

/// Who asks which API server: [`super::HUB`] is the name of the hub's controllers and of the hub's server, a member's name
/// that of its agent and of its server, [`super::WORKLOADS`] that of the controllers that play a member's workloads.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ends {
    /// Who asks.
    pub who: String,
    /// The API server.
    pub server: String,
}

impl Ends {
    /// Somebody and a server.
    pub fn new(who: &str, server: &str) -> Ends {
        Ends {
            who: who.to_owned(),
            server: server.to_owned(),
        }
    }
}

impl fmt::Display for Ends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}->{}", self.who, self.server)
    }
}

/// Among the extensions of a request: it arrives so long after it was sent, when whoever sent it may no longer wait for its
/// answer, and goes by what was so then.
#[derive(Debug, Clone, Copy)]
pub struct Overdue(pub Duration);

/// Among the extensions of a request: when it was sent.
#[derive(Debug, Clone, Copy)]
pub struct Sent(pub Instant);

/// The body of an answer: whole, or the lines of a watch as they come.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

/// What becomes of a request: an answer, or nothing that could be told from a broken connection.
pub type Answer = Result<Response<AnswerBody>, BoxError>;

type Call = dyn Fn(Request<Bytes>) -> BoxFuture<'static, Answer> + Send + Sync;

/// The way from somebody to an API server. Bodies of requests are whole, so that one can be sent again.
#[derive(Clone)]
pub struct Wire(Arc<Call>);

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl Wire {
    /// A wire that is this function.
    pub fn new<F>(call: impl Fn(Request<Bytes>) -> F + Send + Sync + 'static) -> Wire
    where
        F: Future<Output = Answer> + Send + 'static,
    {
        Wire(Arc::new(move |request| Box::pin(call(request))))
    }

    /// The wire of a client that is there already.
    pub fn of(client: Client) -> Wire {
        Wire::new(move |request: Request<Bytes>| {
            let client = client.clone();
            async move {
                let answer = client.send(request.map(Body::from)).await?;
                Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
            }
        })
    }

    /// The same, with the work of each request done by a runtime, as by the server's own threads: a task that waits for its
    /// answer among thousands holds nothing of the server meanwhile.
    pub fn worked_by(self, runtime: Handle) -> Wire {
        Wire::new(move |request| {
            let work = AbortOnDropHandle::new(runtime.spawn(self.send(request)));
            async move { work.await? }
        })
    }

    /// Sends a request.
    pub fn send(&self, request: Request<Bytes>) -> BoxFuture<'static, Answer> {
        (self.0)(request)
    }

    /// A client that sends over this wire.
    pub fn client(&self, namespace: &str) -> Client {
        let wire = self.clone();
        let service = service_fn(move |request: Request<Body>| {
            let wire = wire.clone();
            async move {
                let (head, body) = request.into_parts();
                let body = body.collect_bytes().await?;
                wire.send(Request::from_parts(head, body)).await
            }
        });
        Client::new(service, namespace)
    }
}

/// Wraps the wire between two ends.
type Wrap = dyn Fn(&Ends, Wire) -> Wire + Send + Sync;

/// What lies on the wires of a fleet, between everybody and every API server: faults, counts, a monitor.
#[derive(Clone)]
pub struct Wires(pub Arc<Wrap>);

impl fmt::Debug for Wires {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wires").finish_non_exhaustive()
    }
}

impl Wires {
    /// From a function.
    pub fn new(wrap: impl Fn(&Ends, Wire) -> Wire + Send + Sync + 'static) -> Wires {
        Wires(Arc::new(wrap))
    }

    /// These, and nearer to who asks the others.
    #[must_use]
    pub fn then(self, nearer: Wires) -> Wires {
        Wires::new(move |ends, wire| nearer.0(ends, self.0(ends, wire)))
    }
}
