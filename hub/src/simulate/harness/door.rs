//! Where the requests of a server's clients go: to the server that runs under a name now, if one does.

use super::wire::{Answer, Wire};
use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use parking_lot::RwLock;
use roundhouse_apiserver::{Identity, Server};
use std::sync::Arc;
use tower::{Service, ServiceExt};

/// Why a request does not arrive at an embedded server.
#[derive(Debug, thiserror::Error)]
enum Unreachable {
    #[error("connection refused: the API server {0:?} is down")]
    Down(String),
    #[error("connection reset: the API server {0:?} ended before it answered")]
    Ended(String),
}

/// A server that runs, and how often one had been started before.
#[derive(Clone)]
struct Running {
    server: Server,
    start: u64,
}

/// The door of one name.
#[derive(Clone)]
pub(super) struct Door {
    name: Arc<str>,
    behind: Arc<RwLock<Option<Running>>>,
}

impl Door {
    pub(super) fn new(name: &str) -> Door {
        Door {
            name: name.into(),
            behind: Arc::default(),
        }
    }

    /// Lets requests through to a server.
    pub(super) fn open(&self, server: &Server, start: u64) {
        let server = server.clone();
        *self.behind.write() = Some(Running { server, start });
    }

    /// Refuses requests from now on. What is under way is not answered any more.
    pub(super) fn shut(&self) {
        *self.behind.write() = None;
    }

    fn now(&self) -> Option<Running> {
        self.behind.read().clone()
    }

    /// The wire of somebody to whoever is behind the door at the time of a request.
    pub(super) fn wire(&self, identity: &Identity) -> Wire {
        let (door, identity) = (self.clone(), identity.clone());
        Wire::new(move |request| door.clone().send(identity.clone(), request))
    }

    async fn send(self, identity: Identity, request: Request<Bytes>) -> Answer {
        let Some(Running { server, start }) = self.now() else {
            return Err(Unreachable::Down(self.name.to_string()).into());
        };
        let mut service = server.service_as(Some(identity));
        let ready = ServiceExt::<Request<Full<Bytes>>>::ready(&mut service).await?;
        let answer = ready.call(request.map(Full::new)).await?;
        match self.now() {
            Some(now) if now.start == start => {
                Ok(answer.map(|body| body.map_err(|never| match never {}).boxed_unsync()))
            }
            Some(_) | None => Err(Unreachable::Ended(self.name.to_string()).into()),
        }
    }
}
