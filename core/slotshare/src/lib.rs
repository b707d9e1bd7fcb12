//! How gateways in front of one upstream share its slots: by the demand and the weight of the tenants behind them.
//!
//! Each gateway tells how many slots each of its tenants could use now ([`Demand`]). From what all of them tell,
//! [`share_out`] computes how many slots each gateway should have:
//!
//! 1. Every gateway has one slot, so that a request that comes after a pause is sent at once. With more gateways than
//!    slots there is none to keep back.
//! 2. The rest is divided among tenants, wherever their requests are, by weighted max-min fairness (water-filling): a
//!    tenant that wants less than its share gets what it wants, and what it leaves is divided among the others. A tenant
//!    gains nothing by asking for more, nor by coming through more gateways.
//! 3. A tenant's slots go to its gateways in proportion to its demand there.
//! 4. Slots that nobody wants are spread evenly.
//!
//! The computation is exact and the same everywhere, so gateways need not agree on anything but what was told. Because
//! they do not all hear the same at the same time, a [`SlotBook`] keeps the sum right: a gateway gives slots back at once,
//! and takes more only when others have given them back, or have not been heard of for a while.
//!
//! ```
//! use slotshare::{Demand, share_out};
//!
//! let elephant = [Demand { tenant: 1, weight: 1, slots: 200 }];
//! let victim = [Demand { tenant: 2, weight: 1, slots: 6 }];
//! // The victim has what it wants; the elephant has the rest, though it wants ten times the whole.
//! assert_eq!(share_out(20, &[&elephant, &victim]), [13, 7]);
//! ```

mod book;
mod fill;

pub use book::{Held, SlotBook};
pub use fill::{Demand, share_out};
