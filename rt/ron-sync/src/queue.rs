//! A bounded queue for any number of senders and receivers. When it is full, the sender chooses: to be refused
//! ([`Sender::try_send`]), to wait its turn ([`Sender::send`]), or to displace the oldest item ([`Sender::force_send`]).

mod receiver;
mod sender;
mod sending;
mod state;

pub use receiver::{Receiver, Recv, RecvUntil, TryRecvError};
pub use sender::{Closed, Sender, TrySendError};
pub use sending::Sending;

use crate::sync::{Mutex, Wakes, lock};
use state::State;
use std::{num::NonZeroUsize, sync::Arc};

/// Makes a queue of at most `capacity` items. Memory grows with use, up to `capacity` items.
///
/// Both ends can be cloned. The queue closes when either end asks for it, or when the last sender or the last
/// receiver is dropped.
pub fn channel<T>(capacity: NonZeroUsize) -> (Sender<T>, Receiver<T>) {
    let shared = Arc::new(Shared { capacity, state: Mutex::new(State::new(capacity.get())) });
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
