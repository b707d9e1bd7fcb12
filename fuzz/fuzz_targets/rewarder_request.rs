//! A request to the rewarder, of any method, path, query, fields and body: it leads to a known place or nowhere, and a
//! document that is taken has one text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use svc_rewarder::fuzzing::{check_request, request_of};

/// What a request may begin with. Chance alone would rarely write it.
const BEGINNINGS: [&[u8]; 4] = [
    b"",
    b"GET\n/rewarder/epochs/",
    b"POST\n/rewarder/epochs/7/compute\ncontent-type: application/json\n\n",
    b"PUT\n/rewarder/policy/default\n\n{\"format\":\"omnigate-signed-policy/1\",\"policy\":{",
];

fuzz_target!(|input: &[u8]| {
    for beginning in BEGINNINGS {
        let text = [beginning, input].concat();
        if let Some((request, body)) = request_of(&text) {
            check_request(&request, body);
        }
    }
});
