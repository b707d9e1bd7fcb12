//! Dates against a calendar that is counted day by day.

use httprules::date::{format, parse};
use proptest::prelude::*;

const DAY: u64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [(&str, u64); 12] = [
    ("Jan", 31),
    ("Feb", 28),
    ("Mar", 31),
    ("Apr", 30),
    ("May", 31),
    ("Jun", 30),
    ("Jul", 31),
    ("Aug", 31),
    ("Sep", 30),
    ("Oct", 31),
    ("Nov", 30),
    ("Dec", 31),
];

#[test]
fn every_day_of_two_centuries_is_where_the_calendar_has_it() {
    let mut days = 0_u64;
    for year in 1970..2170_u64 {
        let leap = year % 400 == 0 || year % 4 == 0 && year % 100 != 0;
        for (month, length) in MONTHS {
            let length = length + u64::from(month == "Feb" && leap);
            for day in 1..=length {
                let weekday = WEEKDAYS[usize::try_from((days + 3) % 7).expect("a weekday")];
                let short = &weekday[..3];
                let seconds = days * DAY + 12 * 3600 + 34 * 60 + 56;
                let fixdate = format!("{short}, {day:02} {month} {year} 12:34:56 GMT");
                let asctime = format!("{short} {month} {day:2} 12:34:56 {year}");
                let rfc850 = format!("{weekday}, {day:02}-{month}-{:02} 12:34:56 GMT", year % 100);
                assert_eq!(format(seconds), fixdate.as_bytes());
                for text in [&fixdate, &asctime, &rfc850] {
                    assert_eq!(parse(text.as_bytes(), seconds), Some(seconds), "{text}");
                }
                days += 1;
            }
            let none = format!("Mon, {:02} {month} {year} 12:34:56 GMT", length + 1);
            assert_eq!(parse(none.as_bytes(), 0), None, "{none}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_reads_back(seconds in 0..253_402_300_800_u64, now in any::<u64>()) {
        prop_assert_eq!(parse(&format(seconds), now), Some(seconds));
    }

    #[test]
    fn later_moments_have_later_dates_to_the_second(seconds in 0..253_402_300_799_u64) {
        prop_assert_eq!(parse(&format(seconds + 1), 0), Some(seconds + 1));
        prop_assert_ne!(format(seconds), format(seconds + 1));
    }

    #[test]
    fn what_differs_in_one_character_is_another_date_or_none(
        seconds in 0..4_000_000_000_u64,
        at in 3..29_usize,
        byte in any::<u8>(),
    ) {
        let text = format(seconds);
        let mut changed = text;
        changed[at] = byte;
        // Names of days and months are read in any case.
        prop_assert_eq!(parse(&changed, 0) == Some(seconds), changed.eq_ignore_ascii_case(&text));
    }

    #[test]
    fn nothing_that_is_sent_is_more_than_a_date_or_none(text in "\\PC*", now in any::<u64>()) {
        let _ = parse(text.as_bytes(), now);
    }
}
