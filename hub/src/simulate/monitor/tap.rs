//! Wires that tell the monitor who asks what, and what is answered.

use super::{
    Monitor,
    who::{Asked, Who, on_behalf_of},
};
use crate::simulate::{AnswerBody, Ends, HUB, Overdue, SOMEBODY, Sent, WORKLOADS, Wire, Wires};
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tower::BoxError;

impl Monitor {
    /// What lies next to the servers: behind it nothing is lost any more. Faults lie before it ([`Wires::then`]).
    pub fn wires(&self) -> Wires {
        let monitor = self.clone();
        Wires::new(move |ends, wire| monitor.wire(ends, wire))
    }

    fn wire(&self, ends: &Ends, wire: Wire) -> Wire {
        let server: Arc<str> = ends.server.as_str().into();
        let (monitor, who) = (self.clone(), self.who(ends));
        Wire::new(move |request: Request<Bytes>| {
            let overdue = request.extensions().get().map(|Overdue(by)| *by);
            let sent = request.extensions().get().map(|Sent(at)| at.elapsed());
            let mut asked = Asked::new(
                who.clone(),
                &server,
                request.method(),
                request.uri(),
                request.body().clone(),
            );
            asked.overdue = overdue;
            asked.under_way = overdue.or(sent).unwrap_or_default();
            let (asked, monitor) = (Arc::new(asked), monitor.clone());
            let mut answer = on_behalf_of(&asked, || wire.send(request));
            async move {
                monitor.asked(&asked);
                let poll = |cx: &mut Context<'_>| on_behalf_of(&asked, || answer.as_mut().poll(cx));
                let answer = std::future::poll_fn(poll).await?;
                monitor.answered(&asked, answer.status());
                Ok(answer.map(|body| {
                    let heard = Heard { body, asked, monitor };
                    heard.boxed_unsync()
                }))
            }
        })
    }

    /// Who is at an end. A hub is started with each wire that is made for one.
    fn who(&self, ends: &Ends) -> Who {
        let name = ends.who.as_str();
        match ends.server.as_str() {
            _ if name == WORKLOADS => Who::Workloads(ends.server.as_str().into()),
            _ if name == SOMEBODY => Who::Other("somebody".into()),
            HUB if name == HUB || !self.is_server(name) => self.hub(name),
            HUB => Who::Agent(name.into()),
            server if server == name => Who::Agent(name.into()),
            _ => Who::Other(name.into()),
        }
    }
}

/// The body of an answer; what is read of it the monitor hears, too.
struct Heard {
    body: AnswerBody,
    asked: Arc<Asked>,
    monitor: Monitor,
}

impl HttpBody for Heard {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        let frame = Pin::new(&mut this.body).poll_frame(cx);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(bytes) = frame.data_ref()
        {
            this.monitor.heard(&this.asked, bytes);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
