//! HTTP dates as seconds since 1970: the one form that is written, and the three that are read (RFC 9110, 5.6.7).

/// How long a written date is, in bytes.
pub const LEN: usize = 29;

const DAY: u64 = 24 * 60 * 60;
/// The last second of the year 9999: a later one has no date of this form.
const LATEST: u64 = 253_402_300_799;
const WEEKDAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// 1970 began on a Thursday.
const FIRST_WEEKDAY: u64 = 3;

/// Reads a date in any of its three forms, as seconds since 1970; an earlier one is as if from then. `now` tells which
/// century the two-digit years of one form are in.
///
/// The day of the week must be one, but need not be the right one: nothing depends on it, and who sends a wrong one still
/// means the date. Letters are read in any case, as caches should (RFC 9111, 4.2).
#[must_use]
pub fn parse(text: &[u8], now: u64) -> Option<u64> {
    let mut reader = Reader(text);
    match text {
        [_, _, _, b',', ..] => reader.fixdate(),
        [_, _, _, b' ', ..] => reader.asctime(),
        _ => reader.rfc850(now),
    }
    .filter(|_| reader.0.is_empty())
}

/// Writes a date as `Sun, 06 Nov 1994 08:49:37 GMT`. What lies beyond the year 9999 is its last second.
#[must_use]
pub fn format(seconds: u64) -> [u8; LEN] {
    let seconds = seconds.min(LATEST);
    let (year, month, day) = civil(seconds / DAY);
    let of_day = seconds % DAY;
    let weekday = name(&WEEKDAYS, (seconds / DAY + FIRST_WEEKDAY) % 7);
    let mut text = *b"Xxx, 00 Xxx 0000 00:00:00 GMT";
    text[..3].copy_from_slice(&weekday[..3]);
    write_number(&mut text[5..7], day);
    text[8..11].copy_from_slice(name(&MONTHS, month - 1));
    write_number(&mut text[12..16], year);
    write_number(&mut text[17..19], of_day / 3600);
    write_number(&mut text[20..22], of_day / 60 % 60);
    write_number(&mut text[23..25], of_day % 60);
    text
}

/// How many seconds a `Retry-After` asks for at `now`: it is a number of them, or a date.
#[must_use]
pub fn delay(value: &[u8], now: u64) -> Option<u64> {
    match crate::list::number(value) {
        Some(seconds) => Some(seconds),
        None => parse(value, now).map(|date| date.saturating_sub(now)),
    }
}

/// The bytes that are not parsed yet.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    /// `Sun, 06 Nov 1994 08:49:37 GMT`.
    fn fixdate(&mut self) -> Option<u64> {
        self.weekday(3)?;
        self.literal(b", ")?;
        let day = self.digits(2)?;
        self.literal(b" ")?;
        let month = self.month()?;
        self.literal(b" ")?;
        let year = self.digits(4)?;
        self.literal(b" ")?;
        let of_day = self.time()?;
        self.literal(b" GMT")?;
        moment(year, month, day, of_day)
    }

    /// `Sunday, 06-Nov-94 08:49:37 GMT`.
    fn rfc850(&mut self, now: u64) -> Option<u64> {
        self.weekday(usize::MAX)?;
        self.literal(b", ")?;
        let day = self.digits(2)?;
        self.literal(b"-")?;
        let month = self.month()?;
        self.literal(b"-")?;
        let year = self.digits(2)?;
        self.literal(b" ")?;
        let of_day = self.time()?;
        self.literal(b" GMT")?;
        moment(full_year(year, now), month, day, of_day)
    }

    /// `Sun Nov  6 08:49:37 1994`.
    fn asctime(&mut self) -> Option<u64> {
        self.weekday(3)?;
        self.literal(b" ")?;
        let month = self.month()?;
        self.literal(b" ")?;
        let day = if self.literal(b" ").is_some() { self.digits(1)? } else { self.digits(2)? };
        self.literal(b" ")?;
        let of_day = self.time()?;
        self.literal(b" ")?;
        moment(self.digits(4)?, month, day, of_day)
    }

    /// `08:49:37`, as seconds of the day. There may be a leap second.
    fn time(&mut self) -> Option<u64> {
        let hour = self.digits(2).filter(|hour| *hour < 24)?;
        self.literal(b":")?;
        let minute = self.digits(2).filter(|minute| *minute < 60)?;
        self.literal(b":")?;
        let second = self.digits(2).filter(|second| *second <= 60)?;
        Some(hour * 3600 + minute * 60 + second)
    }

    /// The first letters of a day of the week, or all of them.
    fn weekday(&mut self, letters: usize) -> Option<()> {
        WEEKDAYS.iter().find_map(|day| self.literal(&day.as_bytes()[..letters.min(day.len())]))
    }

    /// The three letters of a month, as 1 to 12.
    fn month(&mut self) -> Option<u64> {
        (1..).zip(MONTHS).find_map(|(number, month)| self.literal(month.as_bytes()).map(|()| number))
    }

    fn literal(&mut self, literal: &[u8]) -> Option<()> {
        let (read, rest) = self.0.split_at_checked(literal.len())?;
        self.0 = if read.eq_ignore_ascii_case(literal) { rest } else { return None };
        Some(())
    }

    fn digits(&mut self, count: usize) -> Option<u64> {
        let (digits, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        crate::list::number(digits)
    }
}

/// The year within fifty years of now that ends in these two digits.
fn full_year(two_digits: u64, now: u64) -> u64 {
    let (this_year, ..) = civil(now.min(LATEST) / DAY);
    let earliest = this_year - 49;
    earliest + (two_digits + 100 - earliest % 100) % 100
}

/// Seconds since 1970, if there is such a day.
fn moment(year: u64, month: u64, day: u64, of_day: u64) -> Option<u64> {
    let leap = year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let days = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    // Until 1970 there is nothing to count.
    let counted = || days_since_1970(year, month, day).map_or(0, |days| days * DAY + of_day);
    (1..=days).contains(&day).then(counted)
}

/// Counts in years from March to February, so that the leap day is the last of a year, and in eras of 400 years, which
/// all have the same length.
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    // An era more, so that January of the year 0 is no special case.
    let years = year + 400 - u64::from(month <= 2);
    let (era, of_era) = (years / 400, years % 400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    (era * ERA + day_of_era).checked_sub(BEFORE_1970)
}

/// The year, the month from 1 to 12 and the day from 1 to 31.
fn civil(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + BEFORE_1970;
    let (era, of_era) = (days / ERA, days % ERA);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let month = (from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2) - 400;
    (year, month, of_year - (153 * from_march + 2) / 5 + 1)
}

/// The days of an era.
const ERA: u64 = 146_097;
/// The days from the first of March of the year -400 to the first of January 1970.
const BEFORE_1970: u64 = 719_468 + ERA;

fn name(names: &[&'static str], index: u64) -> &'static [u8] {
    let index = usize::try_from(index).expect("a month or a day of the week");
    names[index].as_bytes()
}

/// Writes a number with leading zeros over all of `digits`.
fn write_number(digits: &mut [u8], mut number: u64) {
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + u8::try_from(number % 10).expect("a digit");
        number /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The moment of the RFC's examples, in 1994.
    const EXAMPLE: u64 = 784_111_777;
    const IN_2026: u64 = 1_790_000_000;

    #[test]
    fn the_three_forms_of_the_standard_are_one_moment() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Mon, 06 Nov 1994 08:49:37 GMT",
            "sun, 06 NOV 1994 08:49:37 gMT",
        ] {
            assert_eq!(parse(text.as_bytes(), IN_2026), Some(EXAMPLE), "{text}");
        }
        assert_eq!(&format(EXAMPLE), b"Sun, 06 Nov 1994 08:49:37 GMT");
    }

    #[test]
    fn what_is_almost_a_date_is_none() {
        for text in [
            "",
            "0",
            "-1",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 GMT ",
            " Sun, 06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Sun, 06 Nov 1994 08:49:37 +0000",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Sun,06 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 94 08:49:37 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Xxx, 06 Nov 1994 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 29 Feb 2023 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov 1994 8:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06-Nov-94 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 6 08:49:37 1994",
            "Sun Nov  6 08:49:37 1994 GMT",
            "Sun Nov  6 08:49:37 94",
        ] {
            assert_eq!(parse(text.as_bytes(), IN_2026), None, "{text}");
        }
    }

    #[test]
    fn the_edges_of_the_calendar_are_in_it() {
        let table = [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Thu, 29 Feb 1996 00:00:00 GMT", 825_552_000),
            ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
            ("Wed, 01 Mar 2000 00:00:00 GMT", 951_868_800),
            ("Tue, 19 Jan 2038 03:14:08 GMT", 2_147_483_648),
            ("Fri, 31 Dec 9999 23:59:59 GMT", LATEST),
        ];
        for (text, seconds) in table {
            assert_eq!(parse(text.as_bytes(), 0), Some(seconds), "{text}");
            assert_eq!(format(seconds), text.as_bytes(), "{seconds}");
        }
        assert_eq!(parse(b"Wed, 31 Dec 1969 23:59:59 GMT", 0), Some(0));
        assert_eq!(parse(b"Sat, 01 Jan 0000 00:00:00 GMT", 0), Some(0));
        assert_eq!(parse(b"Sat, 31 Dec 2016 23:59:60 GMT", 0), Some(1_483_228_800));
        assert_eq!(format(u64::MAX), format(LATEST));
    }

    #[test]
    fn two_digit_years_are_within_fifty_years_of_now() {
        let year = |text: &[u8]| parse(text, IN_2026).map(|seconds| civil(seconds / DAY).0);
        assert_eq!(year(b"Friday, 01-Jan-76 00:00:00 GMT"), Some(2076));
        assert_eq!(year(b"Friday, 01-Jan-77 00:00:00 GMT"), Some(1977));
        assert_eq!(year(b"Friday, 01-Jan-26 00:00:00 GMT"), Some(2026));
        assert_eq!(year(b"Friday, 01-Jan-00 00:00:00 GMT"), Some(2000));
    }

    #[test]
    fn a_delay_is_seconds_or_until_a_date() {
        let table: [(&[u8], _); 6] = [
            (b"120", Some(120)),
            (b"0", Some(0)),
            (b"Sun, 06 Nov 1994 08:49:37 GMT", Some(37)),
            (b"Sun, 06 Nov 1994 08:48:00 GMT", Some(0)),
            (b"-1", None),
            (b"soon", None),
        ];
        for (value, seconds) in table {
            assert_eq!(delay(value, EXAMPLE - 37), seconds, "{value:?}");
        }
    }
}
