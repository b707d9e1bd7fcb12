//! Who is asking: the credentials that the `[auth]` table names.

mod load;

pub use load::{AuthError, load_auth, load_revoked, load_root_key};
