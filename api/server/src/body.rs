//! Response bodies.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::{
    auth::Grant,
    flow::Slot,
    serve::{Link, Sending},
    watch::WatchStream,
};

/// A whole answer, or a stream of watch events.
#[derive(Debug)]
pub struct ApiBody(Inner);

/// The bytes of an answer, or of a line of a watch, and what is given back when they are sent.
struct Kept {
    bytes: Bytes,
    _room: Option<Slot>,
    _sending: Sending,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[derive(Debug)]
enum Inner {
    Full(Option<Bytes>),
    Watch(Box<WatchStream>, Option<Arc<Link>>),
}

impl ApiBody {
    pub(crate) fn full(bytes: Bytes) -> Self {
        Self(Inner::Full(Some(bytes).filter(|b| !b.is_empty())))
    }

    pub(crate) fn watch(stream: WatchStream) -> Self {
        Self(Inner::Watch(Box::new(stream), None))
    }

    /// How many bytes wait to be sent; none of a watch, which makes them when they can be.
    pub(crate) fn waiting(&self) -> usize {
        match &self.0 {
            Inner::Full(bytes) => bytes.as_ref().map_or(0, Bytes::len),
            Inner::Watch(..) => 0,
        }
    }

    /// Keeps the room and the note of an answer until its bytes are sent, which is later than when they are taken from here.
    pub(crate) fn keeps(&mut self, room: Slot, sending: Sending) {
        if let Inner::Full(Some(bytes)) = &mut self.0 {
            *bytes = Bytes::from_owner(Kept {
                bytes: std::mem::take(bytes),
                _room: Some(room),
                _sending: sending,
            });
        }
    }

    /// Ends a watch when what it stands on holds no longer. What it shows over a connection is noted until it is sent: a
    /// watch whose lines nobody takes is not asked for more, and would not end by itself.
    pub(crate) fn stands_on(&mut self, grant: Grant, link: Option<Arc<Link>>) {
        if let Inner::Watch(stream, over) = &mut self.0 {
            stream.stands_on(grant);
            *over = link;
        }
    }
}

impl Body for ApiBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match &mut self.0 {
            Inner::Full(bytes) => Poll::Ready(bytes.take().map(|b| Ok(Frame::data(b)))),
            Inner::Watch(stream, over) => {
                let line = ready!(stream.poll_line(cx));
                let noted = |bytes| match &*over {
                    Some(link) => Bytes::from_owner(Kept {
                        bytes,
                        _room: None,
                        _sending: link.answers(),
                    }),
                    None => bytes,
                };
                Poll::Ready(line.map(|bytes| Ok(Frame::data(noted(bytes)))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Inner::Watch(..) => SizeHint::default(),
        }
    }
}
