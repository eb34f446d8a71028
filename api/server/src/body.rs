//! Response bodies.

use std::{
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::watch::WatchStream;

/// A whole answer, or a stream of watch events.
#[derive(Debug)]
pub struct ApiBody(Inner);

#[derive(Debug)]
enum Inner {
    Full(Option<Bytes>),
    Watch(Box<WatchStream>),
}

impl ApiBody {
    pub(crate) fn full(bytes: Bytes) -> Self {
        Self(Inner::Full(Some(bytes).filter(|b| !b.is_empty())))
    }

    pub(crate) fn watch(stream: WatchStream) -> Self {
        Self(Inner::Watch(Box::new(stream)))
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
            Inner::Watch(stream) => stream.poll_line(cx).map(|line| line.map(|b| Ok(Frame::data(b)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.0, Inner::Full(None))
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Inner::Full(bytes) => SizeHint::with_exact(bytes.as_ref().map_or(0, |b| b.len() as u64)),
            Inner::Watch(_) => SizeHint::default(),
        }
    }
}
