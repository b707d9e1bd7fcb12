//! Numbers of one to ten bytes, seven bits in each, the lowest first.

/// The longest: 64 bits.
const LONGEST: usize = 10;

/// Takes a number from the front of `bytes`. `None` if they end before it does, or if it has more than 64 bits.
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for (at, byte) in bytes.iter().enumerate().take(LONGEST) {
        let bits = u64::from(byte & 0x7f);
        let shift = 7 * at;
        if bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return Some(number);
        }
    }
    None
}

/// Appends a number as a variable-length integer.
#[expect(clippy::cast_possible_truncation, reason = "the low byte is what is meant")]
pub(crate) fn put(mut number: u64, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_leave_what_follows() {
        for number in [0, 1, 127, 128, 300, 16_383, 16_384, u64::from(u32::MAX), 1 << 63, u64::MAX] {
            let mut bytes = Vec::new();
            put(number, &mut bytes);
            let len = bytes.len();
            bytes.push(7);
            let mut rest = bytes.as_slice();
            assert_eq!(take(&mut rest), Some(number));
            assert_eq!(rest, [7]);
            for short in 0..len {
                assert_eq!(take(&mut &bytes[..short]), None, "{number} in {short} bytes");
            }
        }
    }

    #[test]
    fn more_than_64_bits_are_refused_at_the_first_bit_too_many() {
        let most = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(take(&mut most.as_slice()), Some(u64::MAX));
        let mut over = most;
        over[9] = 0x02;
        assert_eq!(take(&mut over.as_slice()), None);
        let mut longer = most.to_vec();
        longer[9] = 0x81;
        longer.push(0);
        assert_eq!(take(&mut longer.as_slice()), None);
        // Zeros that a shorter form would leave out are no harm.
        assert_eq!(take(&mut [0x80, 0x80, 0x00].as_slice()), Some(0));
    }
}
