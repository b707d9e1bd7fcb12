//! Any head through the message rules: it is refused, or an upstream sees one Host, one framing and no field that concerns
//! the client's connection or that the client says of itself.

#![no_main]

use libfuzzer_sys::fuzz_target;
use svc_gateway::fuzzing::{check_header_rules, request_of};

fuzz_target!(|input: (&str, bool)| {
    let (text, trusts_peer) = input;
    if let Some(request) = request_of(text) {
        check_header_rules(request, trusts_peer);
    }
    // Chance alone would rarely write what comes before the fields.
    if let Some(request) = request_of(&format!("POST\n/a/b\nhost: a\n{text}")) {
        check_header_rules(request, trusts_peer);
    }
});
