//! Slices from anywhere: nothing but the bytes of the object is believed, whatever is said of its length and the range.

#![no_main]

use b3tree::{Builder, GROUP_LEN, PROOF_MAX, covering, verify_slice};
use libfuzzer_sys::fuzz_target;

/// A slice as it would come over the wire, and how it is spoilt.
type Input<'a> = (u64, u64, u64, u8, u16, u16, u8, &'a [u8]);

fuzz_target!(|input: Input<'_>| {
    let (len, start, end, groups, cut, at, change, bytes) = input;
    let object = [&vec![7; usize::from(groups % 6) * GROUP_LEN], bytes].concat();
    let tree = Builder::new().update(&object).finish();
    let (data, proof) = bytes.split_at(usize::from(cut).min(bytes.len()));
    if verify_slice(tree.root(), len, start..end, data, proof).is_ok() {
        let from = covering(len, start..end).start as usize;
        assert_eq!(data, &object[from..from + data.len()], "it was our own object");
    }
    honest(&object, start, end, at, change);
});

/// Our slice is believed, unless a byte of it was changed.
fn honest(object: &[u8], start: u64, end: u64, at: u16, change: u8) {
    let tree = Builder::new().update(object).finish();
    let range = start % (tree.len() + 1)..end % (tree.len() + 1);
    let Ok(mut proof) = tree.proof(range.clone()) else { return };
    assert!(proof.len() <= PROOF_MAX);
    let whole = covering(tree.len(), range.clone());
    let mut data = object[whole.start as usize..whole.end as usize].to_vec();
    let all = data.len() + proof.len();
    if all > 0 {
        let at = usize::from(at) % all;
        match at.checked_sub(data.len()) {
            None => data[at] ^= change,
            Some(at) => proof[at] ^= change,
        }
    }
    let verdict = verify_slice(tree.root(), tree.len(), range, &data, &proof);
    assert_eq!(verdict.is_ok(), change == 0 || all == 0);
}
