//! Whole numbers as text, with exactly one text per number: digits, no sign, no leading zero.

/// The text is not the one text of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotDecimal {
    /// It begins with a minus sign.
    Negative,
    /// It is a number that no `u128` holds.
    Huge,
    /// The text is not a decimal number in canonical form.
    Malformed,
}

/// Reads the one text of a number.
pub(crate) fn read(text: &[u8]) -> Result<u128, NotDecimal> {
    match text {
        [b'-', rest @ ..] if !rest.is_empty() && rest.iter().all(u8::is_ascii_digit) => {
            return Err(NotDecimal::Negative);
        }
        [] | [b'0', _, ..] => return Err(NotDecimal::Malformed),
        _ => {}
    }
    if !text.iter().all(u8::is_ascii_digit) {
        return Err(NotDecimal::Malformed);
    }
    // Almost every number is short; the check for overflow is left to those that are not.
    if text.len() <= 19 {
        return Ok(u128::from(text.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'))));
    }
    let step = |sum: u128, digit: &u8| sum.checked_mul(10)?.checked_add(u128::from(digit - b'0'));
    text.iter().try_fold(0, step).ok_or(NotDecimal::Huge)
}

/// Appends the one text of `number`.
pub(crate) fn write(out: &mut Vec<u8>, number: u128) {
    let mut room = [0; 39];
    let mut at = room.len();
    let mut rest = number;
    // Division of 128 bits is slow, and rarely needed more than once or twice.
    while rest > u128::from(u64::MAX) {
        at = write_padded(&mut room, at, rest % CHUNK);
        rest /= CHUNK;
    }
    let mut rest = u64::try_from(rest).expect("the loop ends there");
    loop {
        at -= 1;
        room[at] = digit(rest % 10);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&room[at..]);
}

/// Ten to the nineteenth, the greatest power of ten in 64 bits.
const CHUNK: u128 = 10_000_000_000_000_000_000;

/// Writes nineteen digits that end before `end`, and returns where they begin.
fn write_padded(room: &mut [u8; 39], end: usize, chunk: u128) -> usize {
    let mut rest = u64::try_from(chunk).expect("a remainder of CHUNK");
    for place in room[end - 19..end].iter_mut().rev() {
        *place = digit(rest % 10);
        rest /= 10;
    }
    end - 19
}

fn digit(value: u64) -> u8 {
    b'0' + u8::try_from(value).expect("a remainder of ten")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: u128) -> String {
        let mut out = Vec::new();
        write(&mut out, number);
        String::from_utf8(out).expect("digits")
    }

    #[test]
    fn numbers_are_written_as_the_standard_library_writes_them() {
        let mut numbers = vec![0, 1, 9, 10, u128::from(u64::MAX), u128::from(u64::MAX) + 1, u128::MAX];
        numbers.extend((0..128).flat_map(|bit| [(1_u128 << bit) - 1, 1 << bit]));
        numbers.extend((0..39).flat_map(|n| [10_u128.pow(n) - 1, 10_u128.pow(n), 10_u128.pow(n) + 1]));
        for number in numbers {
            assert_eq!(text(number), number.to_string());
            assert_eq!(read(number.to_string().as_bytes()), Ok(number));
        }
    }

    #[test]
    fn any_other_text_is_refused_with_the_reason() {
        let beyond = "340282366920938463463374607431768211456";
        let cases = [
            ("", NotDecimal::Malformed),
            ("00", NotDecimal::Malformed),
            ("01", NotDecimal::Malformed),
            ("+1", NotDecimal::Malformed),
            ("-", NotDecimal::Malformed),
            ("1.0", NotDecimal::Malformed),
            ("1e3", NotDecimal::Malformed),
            (" 1", NotDecimal::Malformed),
            ("-1", NotDecimal::Negative),
            ("-0", NotDecimal::Negative),
            (beyond, NotDecimal::Huge),
            ("9999999999999999999999999999999999999999999", NotDecimal::Huge),
        ];
        for (text, reason) in cases {
            assert_eq!(read(text.as_bytes()), Err(reason), "{text}");
        }
    }
}
