//! The decisions of a shared HTTP cache (RFC 9111, 9211, 9213, 5861): what is stored, for which requests it is reused, when
//! it is validated, how it is updated, and what it is invalidated by.
//!
//! Header fields and times come in, decisions go out. Nothing here uses a clock, a socket or a store. The lifetime
//! of a response is computed by `httprules`, which the edge uses as well.
//!
//! * [`control`]: the directives that count for this cache: a targeted field (`CDN-Cache-Control`) or `Cache-Control`.
//! * [`storage`]: whether a response is stored, and which of its fields.
//! * [`variant`]: which stored response a request selects by the fields that `Vary` names.
//! * [`query`]: query parameters that make no difference.
//! * [`reuse`]: whether a stored response answers a request, and the conditions of a request that validates it.
//! * [`update`]: what a 304, or the response to a HEAD, changes in a stored response.
//! * [`invalidation`]: the targets whose stored responses a successful write invalidates.
//! * [`answer`]: which part of a stored response a request gets.
//! * [`partial`]: how stored parts are combined and completed.
//! * [`status`]: the `Cache-Status` of an answer.
//! * [`tags`]: the tags by which stored responses are purged.
//! * [`record`]: the form in which an index of stored responses is kept on a disk.

pub mod answer;
pub mod control;
pub mod dictionary;
pub mod invalidation;
pub mod partial;
pub mod query;
pub mod record;
pub mod reuse;
pub mod status;
pub mod storage;
pub mod tags;
pub mod update;
pub mod variant;
