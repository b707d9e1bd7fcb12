//! Any record of the gateway's index of stored responses: read in bounded memory, and in one form only.

#![no_main]

use httpcache::record::Change;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|record: &[u8]| {
    if let Some(change) = Change::decode(record) {
        assert_eq!(change.encode(), record);
    }
});
