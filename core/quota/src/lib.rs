//! Rate limits: the arithmetic ([`Rate`], [`Bucket`]), the `RateLimit` header fields, and bounded maps with one
//! bucket per caller ([`Book`], [`ShardedBook`]).
//!
//! A limit is the generic cell rate algorithm (GCRA, ITU-T I.371): one number per caller, the time at which its
//! allowance is whole again. No timer refills it, and a caller whose time has passed is equivalent to one never
//! seen, so a bounded map can forget it. A limit that several gateways share has that number in a store, and each
//! gateway gives out what it has leased from there ([`Lease`]).
//!
//! ```
//! use quota::{Bucket, Rate};
//! use types::Moment;
//!
//! let rate = Rate::per_second(50, 2)?;
//! let (bucket, now) = (Bucket::default(), Moment::from_nanos(1_000));
//! assert_eq!(bucket.check(&rate, now)?.remaining, 1);
//! assert_eq!(bucket.check(&rate, now)?.remaining, 0);
//! let refused = bucket.check(&rate, now).expect_err("both are used up");
//! assert_eq!(refused.wait.as_millis(), 20);
//! assert!(bucket.check(&rate, now.after(refused.wait)).is_ok());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod book;
mod gcra;
mod headers;
mod lease;
mod sharded;

pub use book::{Book, Forgettable, Full};
pub use gcra::{Bucket, Exhausted, Grant, InvalidRate, Passed, Rate};
pub use headers::{LimitField, PolicyField};
pub use lease::{Ask, FleetSize, LIFETIME, Lease, PATIENCE};
pub use sharded::ShardedBook;
