//! The `Date` of responses, formatted once a second on each core.

use std::{
    cell::Cell,
    time::{Duration, UNIX_EPOCH},
};

/// A date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
const LENGTH: usize = 29;

thread_local! {
    /// The last one that was asked for on this thread, and its second since the Unix epoch.
    static LAST: Cell<(u64, [u8; LENGTH])> = const { Cell::new((u64::MAX, [b' '; LENGTH])) };
}

/// The date at so much time since the Unix epoch.
pub(super) fn at(unix: Duration) -> [u8; LENGTH] {
    let (second, date) = LAST.get();
    if second == unix.as_secs() {
        return date;
    }
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(unix.as_secs()));
    let mut date = [b' '; LENGTH];
    if text.len() == LENGTH {
        date.copy_from_slice(text.as_bytes());
    }
    LAST.set((unix.as_secs(), date));
    date
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_that_of_its_second_whatever_was_asked_before() {
        for _ in 0..2 {
            assert_eq!(&at(Duration::from_secs(784_111_777)), b"Sun, 06 Nov 1994 08:49:37 GMT");
            assert_eq!(&at(Duration::from_millis(784_111_778_999)), b"Sun, 06 Nov 1994 08:49:38 GMT");
            assert_eq!(&at(Duration::ZERO), b"Thu, 01 Jan 1970 00:00:00 GMT");
        }
    }
}
