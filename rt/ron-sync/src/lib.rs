//! Runtime-free primitives, model-checked with loom: a bounded queue, an admission gate and shutdown
//! phases.
//!
//! Nothing here knows tokio, sockets or clocks: futures talk to their executor through [`std::task::Waker`]
//! only. Each primitive is a mutex held for a handful of steps, plus one atomic where a caller needs an
//! answer without it. No lock is held while a waker is woken or dropped, or while an item is dropped, because
//! all of these run code that may come straight back.
//!
//! # [`queue`]: a bounded queue for many senders and many receivers
//!
//! * It never holds more than its capacity.
//! * Every accepted item comes out exactly once: received, drained, handed back to the sender that displaced
//!   it, or dropped with the last receiver.
//! * A receiver sleeps only while the queue is empty and open. One that was woken and then dropped passes the
//!   wake on. No receiver holds anything while it sleeps, so a pool needs no turns.
//! * A sender waits only while the queue is full and open. A free place goes to the sender that has waited longest,
//!   under the lock, so no other sender takes it first.
//! * After a close every send fails and returns its item, those that wait included; receivers empty the queue and
//!   then see the end.
//!
//! # [`gate`]: at most `limit` permits, and an ordered queue for the rest
//!
//! * One word packs inflight, waiters, limit and closed, so a decision is one compare-and-swap.
//! * Inflight never rises above the limit. Lowering the limit takes nothing back; it waits for releases.
//! * No caller overtakes the queue: while a ticket waits, [`gate::Gate::try_enter`] fails.
//! * A freed slot is handed to the next ticket under the lock: no slot is lost, none is given twice, and a
//!   granted ticket that is dropped passes its slot on.
//! * The [`gate::Room`] decides which tickets wait and which is next; the gate only counts. A permit carries what
//!   the room gave it, and the room is told of its end before the slot goes to the next ticket: always if it asked
//!   for that, otherwise when a ticket waits.
//!
//! # [`phase`]: the shutdown sequence as one value that only moves forward
//!
//! * [`phase::PhaseCell::get`] is one atomic load.
//! * [`phase::PhaseCell::reached`] resolves for every waiter whose phase has come, whatever the order of
//!   registering and advancing.
//! * Only the waiters whose phase has come are woken.
//!
//! The models are in `tests/loom.rs`; the std tests compare the queue and the gate with naive references.

pub mod gate;
pub mod phase;
pub mod queue;

mod order;
mod slab;
mod sync;
