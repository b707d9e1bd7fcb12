//! Session affinity: which server of a group a client returns to.
//!
//! Either a key, such as the client's address, is hashed to a server ([`choose`]), or a cookie holds a token that stands for
//! a server ([`Minter`]).

mod cookie;
mod rendezvous;
mod token;

pub use cookie::{cookie, is_cookie_name};
pub use rendezvous::{Candidate, MaxLoad, choose, hash};
pub use token::{Minter, TOKEN_LEN, Token};
