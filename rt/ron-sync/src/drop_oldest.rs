//! A bounded queue whose senders never wait: when it is full, the oldest item makes place for the newest.

mod receiver;
mod sender;
mod state;

pub use receiver::{Receiver, Recv, TryRecvError};
pub use sender::{Closed, Sender};

use crate::sync::{Mutex, Wakes, lock};
use state::State;
use std::{num::NonZeroUsize, sync::Arc};

/// Makes a queue of at most `capacity` items. Memory grows with use, up to `capacity` items.
///
/// Both ends can be cloned. The queue closes when either end asks for it, or when the last sender or the last
/// receiver is dropped.
pub fn channel<T>(capacity: NonZeroUsize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared { capacity, state: Mutex::new(State::new()) });
    (Sender::first(Arc::clone(&shared)), Receiver::first(shared))
}

struct Shared<T> {
    capacity: NonZeroUsize,
    state: Mutex<State<T>>,
}

impl<T> Shared<T> {
    fn close(&self) {
        let mut wakes = Wakes::default();
        lock(&self.state).close(&mut wakes);
        wakes.wake_all();
    }
}
