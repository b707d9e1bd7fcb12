//! Lines on their way to the writer, which hold no more memory together than they may.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::Line;

/// What waiting lines may hold together, in bytes. A path may be as long as a head, so their number alone bounds little.
pub(super) const MAX_BYTES: usize = 16 * 1024 * 1024;

/// How many bytes waiting lines hold. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<AtomicUsize>);

impl Room {
    /// Takes a line in unless there is no room for it.
    pub(super) fn take_in(&self, mut line: Line) -> Option<Waiting> {
        line.detach();
        let bytes = size_of::<Waiting>() + line.text_bytes();
        let before = self.0.fetch_add(bytes, Ordering::Relaxed);
        // Gives the bytes back when it is dropped.
        let waiting = Waiting { line, bytes, room: self.clone() };
        (before.saturating_add(bytes) <= MAX_BYTES).then_some(waiting)
    }
}

/// A line that waits, or is being written.
#[derive(Debug)]
pub(super) struct Waiting {
    line: Line,
    bytes: usize,
    room: Room,
}

impl Waiting {
    pub(super) const fn line(&self) -> &Line {
        &self.line
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.room.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderValue, Method};

    use super::{super::line::Target, *};

    fn line(path_bytes: usize) -> Line {
        let target = format!("/{}?secret", "x".repeat(path_bytes - 1)).parse().expect("a target");
        Line::new(Duration::ZERO, HeaderValue::from_static("id"), Method::GET, target)
    }

    #[test]
    fn lines_wait_as_long_as_there_is_room_for_their_bytes() {
        let room = Room::default();
        let waiting: Vec<_> = (0..10_000).map_while(|_| room.take_in(line(30_000))).collect();
        assert_eq!(waiting.len(), MAX_BYTES / (size_of::<Waiting>() + 30_000 + "GET".len() + "id".len()));
        assert!(room.take_in(line(30_000)).is_none(), "one that was refused holds nothing");
        assert!(room.take_in(line(1)).is_some(), "there may be room for a short one");
        drop(waiting);
        assert_eq!(room.0.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_line_that_waits_is_the_same_line_without_the_head_that_it_came_with() {
        let waiting = Room::default().take_in(line(9)).expect("room");
        assert!(matches!(&waiting.line().target, Target::Path(path) if &**path == "/xxxxxxxx"));
    }
}
