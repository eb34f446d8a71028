//! What arrives at API servers, and what they answer.

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use roundhouse_hub::simulate::{Ends, Wire, Wires, run::Look};
use std::{sync::Arc, time::Duration};
use tokio::time::Instant;

/// A request that arrived.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    pub(crate) at: Instant,
    pub(crate) ends: Ends,
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    /// 0 where there was no answer: nobody listens.
    pub(crate) code: u16,
    /// How long it took until it was answered.
    pub(crate) took: Duration,
    /// What was read of the answer so far, if it is kept.
    answer: Arc<Mutex<Vec<u8>>>,
}

impl Sent {
    pub(crate) fn writes(&self) -> bool {
        self.method != Method::GET
    }

    pub(crate) fn watches(&self) -> bool {
        self.query.contains("watch=true")
    }

    /// What was read of the answer so far: of a watch, every line.
    pub(crate) fn answer(&self) -> String {
        String::from_utf8_lossy(&self.answer.lock()).into_owned()
    }
}

/// All wires of a fleet, next to the servers.
#[derive(Clone, Default)]
pub(crate) struct Line {
    sent: Arc<Mutex<Vec<Sent>>>,
    keeps_answers: bool,
}

impl Line {
    /// One that keeps what is answered.
    pub(crate) fn with_answers() -> Line {
        Line {
            keeps_answers: true,
            ..Line::default()
        }
    }

    /// For [`Script::wires`](roundhouse_hub::simulate::run::Script::wires).
    pub(crate) fn wires(&self) -> Wires {
        let line = self.clone();
        Wires::new(move |ends, wire| line.wire(ends, wire))
    }

    fn wire(&self, ends: &Ends, wire: Wire) -> Wire {
        let (line, ends) = (self.clone(), ends.clone());
        Wire::new(move |request: Request<Bytes>| {
            let mut sent = Sent {
                at: Instant::now(),
                ends: ends.clone(),
                method: request.method().clone(),
                path: request.uri().path().to_owned(),
                query: request.uri().query().unwrap_or_default().to_owned(),
                code: 0,
                took: Duration::ZERO,
                answer: Arc::default(),
            };
            let (line, answer) = (line.clone(), wire.send(request));
            async move {
                let answer = answer.await;
                sent.took = sent.at.elapsed();
                sent.code = answer.as_ref().map_or(0, |answer| answer.status().as_u16());
                let read = line.keeps_answers.then(|| sent.answer.clone());
                line.sent.lock().push(sent);
                match read {
                    None => answer,
                    Some(read) => answer.map(|answer| {
                        answer.map(|body| {
                            let note = move |frame: hyper::body::Frame<Bytes>| {
                                read.lock().extend(frame.data_ref().into_iter().flatten());
                                frame
                            };
                            body.map_frame(note).boxed_unsync()
                        })
                    }),
                }
            }
        })
    }

    /// What was answered, in that order.
    pub(crate) fn sent(&self) -> Vec<Sent> {
        self.sent.lock().clone()
    }

    /// Begins anew, as a look.
    pub(crate) fn forget(&self) -> Look {
        let sent = self.sent.clone();
        Look::new(move |_| {
            sent.lock().clear();
            Box::pin(async { Ok(()) })
        })
    }

    /// Something that is so of what was answered since.
    pub(crate) fn look(&self, is_so: impl Fn(&[Sent]) -> Result<(), String> + Send + Sync + 'static) -> Look {
        let line = self.clone();
        Look::new(move |_| {
            let looked = is_so(&line.sent());
            Box::pin(async { looked })
        })
    }
}
