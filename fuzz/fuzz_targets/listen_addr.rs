//! Addresses from a configuration file: what is accepted reads back the same, and what is refused says why.

#![no_main]

use libfuzzer_sys::fuzz_target;
use ron_transport::addr::{Endpoint, ListenAddr};
use std::{
    fmt::{Debug, Display},
    str::FromStr,
};

/// What an address may begin with. Chance alone would rarely write it.
const BEGINNINGS: [&str; 5] = ["", "unix:/", "inherit:", "http://", "https://"];

fuzz_target!(|input: &str| {
    for beginning in BEGINNINGS {
        let text = format!("{beginning}{input}");
        reads_back::<ListenAddr>(&text);
        reads_back::<Endpoint>(&text);
    }
});

fn reads_back<T>(text: &str)
where
    T: FromStr<Err: Display> + Display + PartialEq + Debug,
{
    match text.parse::<T>() {
        Ok(address) => {
            let again = address.to_string().parse::<T>().ok();
            assert_eq!(again.as_ref(), Some(&address), "written as {address}");
        }
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
}
