//! Durations and sizes: what is accepted, what is refused, and how they are written back.

use std::time::Duration;

use proptest::prelude::*;
use ron_kernel::config::{ByteSize, HumanDuration};
use serde_json::{from_value, json, to_value};

#[test]
fn a_duration_is_text_with_a_unit_and_nothing_else() {
    for (text, millis) in [("5s", 5_000), ("250ms", 250), ("1h 30m", 5_400_000), ("2min", 120_000), ("0s", 0)]
    {
        assert_eq!(
            from_value::<HumanDuration>(json!(text)).unwrap(),
            HumanDuration::from_millis(millis),
            "{text}"
        );
    }
    for refused in [json!(5), json!(5.0), json!("5"), json!(""), json!("-1s"), json!("soon"), json!(true)] {
        let error = from_value::<HumanDuration>(refused.clone()).unwrap_err().to_string();
        assert!(error.contains("a duration in quotes, such as \"5s\""), "{refused}: {error}");
    }
}

#[test]
fn a_size_is_text_with_a_unit_or_a_whole_number() {
    let accepted = [
        (json!("1MiB"), 1 << 20),
        (json!("64 KiB"), 1 << 16),
        (json!("1kB"), 1000),
        (json!("0B"), 0),
        (json!(7), 7),
    ];
    for (text, bytes) in accepted {
        assert_eq!(from_value::<ByteSize>(text.clone()).unwrap().as_u64(), bytes, "{text}");
    }
    for refused in [
        json!(-1),
        json!(1.5),
        json!(""),
        json!("big"),
        json!("-1MiB"),
        json!("99999999EiB"),
        json!("18446744073709551616B"),
    ] {
        let error = from_value::<ByteSize>(refused.clone()).unwrap_err().to_string();
        assert!(error.contains("a size such as \"1MiB\""), "{refused}: {error}");
    }
}

#[test]
fn a_size_is_written_in_the_largest_unit_that_is_exact() {
    let written =
        [(0, "0B"), (1023, "1023B"), (1024, "1KiB"), (1025, "1025B"), (1 << 30, "1GiB"), (3 << 40, "3TiB")];
    for (bytes, text) in written {
        assert_eq!(ByteSize::bytes(bytes).to_string(), text);
    }
}

#[test]
fn values_convert_to_and_from_the_plain_types() {
    assert_eq!(HumanDuration::from(Duration::from_secs(3)).as_duration(), Duration::from_secs(3));
    assert_eq!(Duration::from(HumanDuration::from_millis(3)), Duration::from_millis(3));
    assert_eq!(u64::from(ByteSize::from(9)), 9);
    assert_eq!(ByteSize::gib(u64::MAX), ByteSize::bytes(u64::MAX), "capped, not wrapped");
    assert_eq!(ByteSize::kib(1).as_usize(), 1024);
}

proptest! {
    #[test]
    fn a_duration_reads_back_as_it_was_written(nanos in 0..=u64::MAX) {
        let duration = HumanDuration::from(Duration::from_nanos(nanos));
        prop_assert_eq!(from_value::<HumanDuration>(to_value(duration).unwrap()).unwrap(), duration);
    }

    #[test]
    fn a_size_reads_back_as_it_was_written(bytes in 0..=u64::MAX) {
        let size = ByteSize::bytes(bytes);
        prop_assert_eq!(from_value::<ByteSize>(to_value(size).unwrap()).unwrap(), size);
    }
}
