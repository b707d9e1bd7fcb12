//! Frames of a body that wait to be read, small ones joined: a frame takes more memory than a few bytes of data, and whoever
//! sends them one by one must not have hundreds of times as much held as is counted.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use http_body::Frame;
use ron_transport::BodyError;

/// Data of less than this is joined with what comes before and after it.
const SMALL: usize = 1024;
/// Up to here data is joined.
const JOINED: usize = 8 * 1024;

/// Frames in their order.
#[derive(Default)]
pub(crate) struct Frames {
    whole: VecDeque<Result<Frame<Bytes>, BodyError>>,
    /// Small pieces of data behind those.
    joined: BytesMut,
    /// Bytes of data in all of them.
    bytes: u64,
}

impl Frames {
    pub(crate) fn push(&mut self, frame: Result<Frame<Bytes>, BodyError>) {
        let small = match &frame {
            Ok(frame) => frame.data_ref().filter(|data| data.len() < SMALL),
            Err(_) => None,
        };
        self.bytes += frame.as_ref().map_or(0, bytes_of);
        match small {
            Some(data) => {
                if self.joined.len() + data.len() > JOINED {
                    self.end_join();
                }
                self.joined.extend_from_slice(data);
            }
            None => {
                self.end_join();
                self.whole.push_back(frame);
            }
        }
    }

    pub(crate) fn pop(&mut self) -> Option<Result<Frame<Bytes>, BodyError>> {
        if self.whole.is_empty() {
            self.end_join();
        }
        let frame = self.whole.pop_front()?;
        self.bytes -= frame.as_ref().map_or(0, bytes_of);
        Some(frame)
    }

    /// Bytes of data in all of them.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.whole.is_empty() && self.joined.is_empty()
    }

    /// All of it as one piece of data; `None` if there is something else among it.
    pub(crate) fn into_data(mut self) -> Result<Bytes, Self> {
        self.end_join();
        if !self.whole.iter().all(|frame| frame.as_ref().is_ok_and(Frame::is_data)) {
            return Err(self);
        }
        let mut pieces = self.whole.into_iter().filter_map(|frame| frame.ok()?.into_data().ok());
        let first = pieces.next().unwrap_or_default();
        let Some(second) = pieces.next() else { return Ok(first) };
        let mut all = BytesMut::from(first);
        all.extend_from_slice(&second);
        pieces.for_each(|piece| all.extend_from_slice(&piece));
        Ok(all.freeze())
    }

    fn end_join(&mut self) {
        if !self.joined.is_empty() {
            let data = std::mem::take(&mut self.joined).freeze();
            self.whole.push_back(Ok(Frame::data(data)));
        }
    }
}

/// The bytes of a body's frame.
fn bytes_of(frame: &Frame<Bytes>) -> u64 {
    frame.data_ref().map_or(0, |data| data.len() as u64)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use http::HeaderMap;

    fn data(length: usize) -> Result<Frame<Bytes>, BodyError> {
        Ok(Frame::data(Bytes::from(vec![b'x'; length])))
    }

    /// The lengths of what comes out; `None` for trailers.
    fn popped(frames: &mut Frames) -> Vec<Option<usize>> {
        let length = |frame: Result<Frame<Bytes>, BodyError>| frame.unwrap().data_ref().map(Bytes::len);
        std::iter::from_fn(|| frames.pop()).map(length).collect()
    }

    #[test]
    fn small_pieces_are_joined_in_their_order_and_large_ones_are_not() {
        let mut frames = Frames::default();
        [1, 1, SMALL - 1, SMALL, 5, 6].map(data).into_iter().for_each(|frame| frames.push(frame));
        frames.push(Ok(Frame::trailers(HeaderMap::new())));
        assert_eq!(frames.bytes(), 2 * SMALL as u64 + 12);
        assert_eq!(popped(&mut frames), [Some(SMALL + 1), Some(SMALL), Some(11), None]);
        assert!(frames.is_empty() && frames.bytes() == 0);
    }

    #[test]
    fn a_hundred_thousand_single_bytes_are_a_few_frames() {
        let mut frames = Frames::default();
        (0..100_000).for_each(|_| frames.push(data(1)));
        assert_eq!((frames.bytes(), frames.whole.len()), (100_000, 100_000 / JOINED));
        assert_eq!(frames.into_data().ok().unwrap().len(), 100_000);
    }

    #[test]
    fn what_is_read_between_is_joined_no_further() {
        let mut frames = Frames::default();
        frames.push(data(3));
        assert_eq!(popped(&mut frames), [Some(3)]);
        frames.push(data(4));
        frames.push(data(0));
        assert_eq!(popped(&mut frames), [Some(4)]);
        assert!(frames.pop().is_none());
    }
}
