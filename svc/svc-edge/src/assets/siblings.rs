//! Precompressed siblings: `a.js.zst`, `a.js.br` and `a.js.gz` are what clients get of `a.js` that take their coding.
//!
//! | sibling | what becomes of it |
//! |---|---|
//! | older than the file | not used: the file was changed since |
//! | not shorter than the file | not used: nobody gains anything |
//! | does not decode to the very bytes of the file | not used, and logged |
//! | any other | offered, the shortest first |

use std::fs::File;

use b3tree::Builder;
use decode::{Coding, DecodeError, Decoder, Limits, STEP_MAX};
use http::{HeaderMap, HeaderValue, header::ACCEPT_ENCODING};
use httprules::negotiate::{self, IDENTITY};
use types::ObjectId;

use crate::{
    file_stat::FileStat,
    serve::{Representation, Source},
};

/// What is read of a large sibling at once.
const PIECE: u64 = 1024 * 1024;

/// The codings: what their siblings' names end with, and what they are called.
const KINDS: [SiblingKind; 3] = [
    SiblingKind { ending: "zst", coding: Coding::Zstd, name: "zstd" },
    SiblingKind { ending: "br", coding: Coding::Brotli, name: "br" },
    SiblingKind { ending: "gz", coding: Coding::Gzip, name: "gzip" },
];

/// A kind of sibling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SiblingKind {
    pub(super) ending: &'static str,
    pub(super) coding: Coding,
    /// The value of `Content-Encoding`.
    pub(super) name: &'static str,
}

/// A sibling that may be used, as far as its name, age and length go.
#[derive(Debug)]
pub(super) struct Sibling {
    pub(super) kind: SiblingKind,
    pub(super) file: File,
    pub(super) stat: FileStat,
}

/// The siblings of a file in this state that may be used; `open` opens one by its ending.
pub(super) fn look_for(
    plain: &FileStat,
    open: impl Fn(&'static str) -> Option<(File, FileStat)>,
) -> Vec<Sibling> {
    let of_kind = |kind: SiblingKind| {
        let (file, stat) = open(kind.ending)?;
        let is_useful = stat.len > 0 && stat.len < plain.len && !stat.is_older_than(plain);
        is_useful.then_some(Sibling { kind, file, stat })
    };
    KINDS.into_iter().filter_map(of_kind).collect()
}

/// Whether bytes in a coding decode to the object of this name and length, to the last byte. Blocking.
pub(super) fn decodes_to(source: &Source, coding: Coding, (id, len): (ObjectId, u64)) -> bool {
    let mut decoder = Decoder::new(coding, Limits { max_ratio: u32::MAX, slack: u64::MAX, max_bytes: len });
    let (mut builder, mut room) = (Builder::new(), vec![0; STEP_MAX]);
    let mut feed = |mut rest: &[u8]| -> Result<(), DecodeError> {
        while !(rest.is_empty() && decoder.is_drained()) {
            let step = decoder.decode(rest, &mut room)?;
            rest = &rest[step.consumed..];
            builder.update(&room[..step.produced]);
        }
        Ok(())
    };
    let fed = match source {
        Source::Ram(bytes) => feed(bytes).is_ok(),
        Source::Disk { verified, .. } => (0..verified.len().div_ceil(PIECE)).all(|nth| {
            let piece = verified.read(nth * PIECE..verified.len().min((nth + 1) * PIECE));
            piece.is_ok_and(|piece| feed(&piece).is_ok())
        }),
        Source::Growing(_) => false,
    };
    fed && decoder.finish().is_ok() && builder.finish().root() == id
}

/// The representation that suits a client best: by its weights, then the shortest. One that takes nothing of what there is gets
/// the file as it is.
pub(crate) fn chosen<'a>(
    headers: &HeaderMap,
    plain: &'a Representation,
    coded: &'a [Representation],
) -> &'a Representation {
    if coded.is_empty() {
        return plain;
    }
    let name = |of: &'a Representation| of.coding.as_ref().and_then(|coding| coding.to_str().ok());
    let offered: Vec<&str> = coded.iter().filter_map(name).chain([IDENTITY]).collect();
    let accepted: Vec<&[u8]> = headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes).collect();
    let wanted = negotiate::choose(accepted.iter().copied(), &offered);
    coded.iter().find(|of| wanted.is_some() && name(of) == wanted).unwrap_or(plain)
}
