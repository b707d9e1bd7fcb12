//! The fair scheduler: hierarchical deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) over classes and
//! tenants, charged in slot-time, with a bounded queue.
//!
//! [`FairQueue`] only decides. Its caller reports tickets that are queued ([`FairQueue::push`]), free slots
//! ([`FairQueue::pop`]), tickets that give up ([`FairQueue::cancel`]) and slots that are returned
//! ([`FairQueue::settle`]), each with the current time.
//!
//! * **Cost is slot-time.** A request's estimate is charged when it gets a slot, its running time counts as soon as
//!   it exceeds the estimate, and the difference is settled when the slot is returned. Class and tenant are both
//!   charged. The unit is one slot-millisecond.
//! * **Shares.** Waiting classes share the slots by weight, and so do the waiting tenants within a class. A
//!   tenant's share does not depend on how much it asks for.
//! * **Sparse tenants go first.** A tenant that uses less than its share has no debt when its request arrives, and
//!   gets the next slot, however many others wait (compare sparse flows in FQ-CoDel, RFC 8290).
//! * **Credit expires, debt stays.** A tenant whose queue empties keeps no credit. What it used beyond its share is
//!   remembered until it is paid: by the rounds that pass, or by time while no request waits.
//! * **No starvation.** New tenants get at most seven grants in a row before the rounds get one, so every waiting
//!   ticket is served.
//! * **Full queue.** A new ticket of a tenant at or above its share of the queue is refused ([`Verdict::Busy`]).
//!   For any other tenant, the oldest ticket of the tenant furthest above its share is evicted ([`Verdict::Shed`]).
//! * **Retry-After is a reservation.** A refused client is told a second for which a place is reserved, and new
//!   requests do not take it ([`Promise`]). Places that are not claimed are soon released.
//! * **Slow tenants** hold at most four fifths of the slots together, and one of them at most half, because a
//!   granted slot cannot be taken back. Running requests count as well as finished ones, quick requests in between
//!   hardly count, and the decision is made when a slot is granted.
//! * **One tenant** never holds the last eighth of the slots while there are others, however quick it has been so
//!   far.
//! * **Addresses of a tenant.** If one address has more than half of its tenant's tickets, these wait behind those
//!   of the tenant's other addresses, and leave them one of the slots that a slow tenant may hold.
//!
//! Every operation is O(1) in tenants and tickets, amortised; the few classes are compared one by one.
//!
//! ```
//! use fairq::{Arrival, FairQueue, Settings, Verdict};
//! use std::time::Duration;
//! use types::Moment;
//!
//! let now = Moment::ORIGIN;
//! let mut queue = FairQueue::new(Settings::default(), now)?;
//! let arrival = |tenant| Arrival { class: 0, tenant, weight: 1, slot_time: Duration::from_millis(10).into(), extra_units: 0, slow: false, slots_held: 0 };
//! for ticket in 0..3 {
//!     assert_eq!(queue.push(arrival("elephant"), ticket, ticket, now), Verdict::Queued);
//! }
//! assert_eq!(queue.pop(now).map(|grant| grant.ticket), Some(0));
//! assert_eq!(queue.push(arrival("mouse"), 3, 3, now), Verdict::Queued);
//! let grant = queue.pop(now).expect("three tickets wait");
//! assert_eq!(grant.ticket, 3, "the mouse has had nothing yet");
//! queue.settle(grant.pass, now.after(Duration::from_millis(12)));
//! # Ok::<(), fairq::SettingsError>(())
//! ```

mod active;
mod addresses;
mod buckets;
mod calendar;
mod class;
mod contest;
mod cost;
mod drain;
mod flows;
mod list;
mod queue;
mod retry;
mod room;
mod rounds;
mod running;
mod settings;
pub mod sim;
mod stats;
mod steps;
mod streams;
mod tickets;

pub use active::{ActiveTenants, LastSeen};
pub use calendar::Promise;
pub use cost::{SlotMean, SlotsHeld};
pub use queue::{Arrival, FairQueue, Grant, Pass, Verdict};
pub use retry::{Client, RetryAfter};
pub use settings::{ClassSettings, MAX_CLASSES, MAX_WEIGHT, Settings, SettingsError, slow_slots};
pub use stats::{ClassStats, Counts, TenantStats};
pub use streams::{StreamLimit, StreamLimits, StreamOwner, StreamShares};
