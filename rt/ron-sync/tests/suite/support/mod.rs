//! A task for tests: polls by hand and counts its wakes.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
};

/// A waker that counts.
#[derive(Clone)]
pub(crate) struct Task {
    wakes: Arc<Wakes>,
    waker: Waker,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Task {
    pub(crate) fn new() -> Self {
        let wakes = Arc::new(Wakes::default());
        Self { waker: Waker::from(Arc::clone(&wakes)), wakes }
    }

    pub(crate) fn poll<F: Future + Unpin>(&self, future: &mut F) -> Poll<F::Output> {
        pin!(future).poll(&mut Context::from_waker(&self.waker))
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(SeqCst)
    }
}
