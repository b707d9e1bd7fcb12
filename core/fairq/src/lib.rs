//! Who is next: hierarchical deficit round robin over classes and tenants, in slot-time, with a bounded room.
//!
//! [`FairQueue`] decides and does nothing else. It is told of tickets that come to wait ([`FairQueue::push`]), of free
//! slots ([`FairQueue::pop`]), of tickets that give up ([`FairQueue::cancel`]) and of slots that are returned
//! ([`FairQueue::settle`]), and it is told the time.
//!
//! * **Cost is slot-time.** A request's estimate is charged when it gets a slot, its running time counts as soon as it
//!   exceeds the estimate, and the difference settles when the slot comes back. Class and tenant are both charged. The
//!   unit is one slot-millisecond.
//! * **Shares.** Classes that wait share the slots by weight, and so do the tenants that wait within a class. Nobody's
//!   share depends on how much they ask for.
//! * **Sparse tenants go first.** A tenant that asks for less than its share has no debt when it comes, and gets the next
//!   slot, however many others wait.
//! * **Credit dies, debt stays.** A queue that empties leaves no claim behind. What was used beyond the share is
//!   remembered until it is paid: by the rounds that pass, or by time while nobody waits.
//! * **No starvation.** Newcomers get at most seven grants in a row before the rounds get one, so whoever waits is served.
//! * **The room.** When it is full, a newcomer at or above its share of it is refused ([`Verdict::Busy`]); for anybody
//!   else the oldest ticket of the tenant furthest above its share makes place ([`Verdict::Shed`]).
//! * **A told time is a promise.** A refused client is told a second in which there will be place, and newcomers leave it
//!   free ([`Promise`]). What nobody returns for is soon not kept any longer.
//! * **Slow tenants** hold at most four fifths of the slots together, and one of them at most half, because a slot once
//!   given cannot be taken back. Running requests count as well as those that have ended, and the judgement is made when
//!   a slot is given.
//! * **One tenant** never holds the last eighth of the slots while there are others, however quick it has been so far.
//! * **Addresses of a tenant.** Where a tenant has several addresses, the tickets of one that has more than half of what the
//!   tenant has here wait behind those of the others, and leave them one of the slots that a slow tenant may hold.
//!
//! Every operation is O(1) in tenants and tickets, amortised; classes are few and are looked at one by one.
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
