//! The W3C trace context: which trace a request belongs to, and whose part of it asks.
//!
//! The ids made here are a random half per maker and a count, so that making one takes neither a lock nor a system call.

use std::{
    hash::{BuildHasher, RandomState},
    ops::Range,
    sync::atomic::{AtomicU64, Ordering},
};

/// The name of the field.
pub const TRACEPARENT: &str = "traceparent";
/// The length of a value of version 00.
const LEN: usize = 55;
/// Where the parts stand in it.
const TRACE: Range<usize> = 3..35;
const SPAN: Range<usize> = 36..52;

/// The value of a `traceparent` field, well-formed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceParent([u8; LEN]);

impl TraceParent {
    /// Where the trace id stands in a value.
    pub const TRACE_ID: Range<usize> = TRACE;

    /// Reads a value. Of later versions, the part that version 00 knows.
    #[must_use]
    pub fn parse(value: &[u8]) -> Option<Self> {
        let (parent, rest) = value.split_first_chunk::<LEN>()?;
        let is_hex = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let [version, trace, span, flags] = [&parent[..2], &parent[TRACE], &parent[SPAN], &parent[53..]];
        let is_known = match version {
            b"ff" => false,
            b"00" => rest.is_empty(),
            _ => rest.is_empty() || rest[0] == b'-',
        };
        let dashes = [2, 35, 52].iter().all(|at| parent[*at] == b'-');
        let parts = [version, trace, span, flags].into_iter().all(is_hex);
        let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
        (is_known && dashes && parts && !is_zero(trace) && !is_zero(span)).then_some(Self(*parent))
    }

    /// The trace, in hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> [u8; 32] {
        self.0[TRACE].try_into().expect("32 digits")
    }

    /// Returns the id of the caller's span, in hexadecimal digits.
    #[must_use]
    pub fn span_id(&self) -> [u8; 16] {
        self.0[SPAN].try_into().expect("16 digits")
    }

    /// Whether the client that began the trace has it recorded.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        // An odd digit: `a`, `c` and `e` have odd codes and are even.
        matches!(self.0[LEN - 1], b'1' | b'3' | b'5' | b'7' | b'9' | b'b' | b'd' | b'f')
    }
}

impl AsRef<[u8]> for TraceParent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Makes ids that no other maker and no other run makes.
#[derive(Debug)]
pub struct TraceIds {
    /// Never 0, so that no id is.
    prefix: u64,
    key: u64,
    next: AtomicU64,
}

impl TraceIds {
    /// A maker, for one core.
    #[must_use]
    pub fn new() -> Self {
        // The keys of the standard library's hash maps are the system's random numbers.
        let random = RandomState::new();
        Self { prefix: random.hash_one(0) | 1, key: random.hash_one(1), next: AtomicU64::new(1) }
    }

    /// A trace that begins here; `recorded` says whether it is recorded, by a random number of its own.
    #[must_use]
    pub fn root(&self, recorded: impl FnOnce(u64) -> bool) -> TraceParent {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let mut parent = *b"00-00000000000000000000000000000000-0000000000000000-00";
        write_hex(&mut parent[3..19], self.prefix);
        write_hex(&mut parent[19..35], self.spread(count));
        write_hex(&mut parent[SPAN], self.span_id(count));
        parent[LEN - 1] += u8::from(recorded(self.spread(count)));
        TraceParent(parent)
    }

    /// The same trace, with this hop as the caller.
    #[must_use]
    pub fn child(&self, theirs: &TraceParent) -> TraceParent {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let mut parent = theirs.0;
        parent[..2].copy_from_slice(b"00");
        write_hex(&mut parent[SPAN], self.span_id(count));
        TraceParent(parent)
    }

    /// A number of its own for each count, which does not show how many requests there were.
    fn spread(&self, count: u64) -> u64 {
        let mixed = count.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.key;
        mixed ^ (mixed >> 32)
    }

    /// A span id, which must not be 0.
    fn span_id(&self, count: u64) -> u64 {
        self.spread(count).rotate_left(32) | 1
    }
}

impl Default for TraceIds {
    fn default() -> Self {
        Self::new()
    }
}

/// Two hexadecimal digits for each byte.
const DIGITS: [[u8; 2]; 256] = {
    let hex = b"0123456789abcdef";
    let (mut digits, mut byte) = ([[0; 2]; 256], 0);
    while byte < digits.len() {
        digits[byte] = [hex[byte >> 4], hex[byte & 15]];
        byte += 1;
    }
    digits
};

/// Writes a number into 16 places.
fn write_hex(places: &mut [u8], number: u64) {
    for (pair, byte) in places.as_chunks_mut::<2>().0.iter_mut().zip(number.to_be_bytes()) {
        *pair = DIGITS[usize::from(byte)];
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0";

    #[test]
    fn what_is_made_is_well_formed_and_says_whether_it_is_recorded() {
        let ids = TraceIds::new();
        for recorded in [false, true] {
            let root = ids.root(|_| recorded);
            assert_eq!((TraceParent::parse(root.as_ref()), root.is_recorded()), (Some(root), recorded));
            let child = ids.child(&root);
            assert_eq!((child.trace_id(), child.is_recorded()), (root.trace_id(), recorded));
            assert_ne!(child.span_id(), root.span_id());
            assert_ne!(ids.root(|_| recorded).trace_id(), root.trace_id());
        }
    }

    #[test]
    fn the_last_bit_of_the_flags_says_whether_a_trace_is_recorded() {
        for (at, digit) in "0123456789abcdef".chars().enumerate() {
            let parent = TraceParent::parse(format!("{PARENT}{digit}").as_bytes()).unwrap();
            assert_eq!(parent.is_recorded(), at % 2 == 1, "{digit}");
        }
    }
}
