//! What applications send to the overlay's listener: paths and queries, filters, cursors and messages of WebSockets. What is read
//! keeps the rules and reads back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use svc_overlay::fuzzing::check_api_input;

/// What an input may begin with. Chance alone would rarely write it.
const BEGINNINGS: [&str; 5] = [
    "",
    "chat.>/events?topic=",
    "0:1763393101123456789-",
    "{\"op\":\"subscribe\",\"ref\":1,\"topics\":[\"",
    "{\"op\":\"publish\",\"topic\":\"a\",\"base64\":\"",
];

fuzz_target!(|input: &str| {
    for beginning in BEGINNINGS {
        check_api_input(&format!("{beginning}{input}"));
    }
});
