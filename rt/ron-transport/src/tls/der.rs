//! A reader of DER, as far as names in certificates and OCSP responses need one. It borrows, and never allocates.

pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;
pub(crate) const OBJECT_ID: u8 = 0x06;
pub(crate) const ENUMERATED: u8 = 0x0a;

/// What is left to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the number of bytes that are not parsed yet.
    #[cfg(any(test, fuzzing))]
    pub(crate) const fn left(&self) -> usize {
        self.0.len()
    }

    /// The content of the next value, if that has this tag.
    pub(crate) fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.any()?;
        (found == tag).then_some(content)
    }

    /// The tag and the content of the next value.
    pub(crate) fn any(&mut self) -> Option<(u8, &'a [u8])> {
        let (&tag, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = if first < 0x80 {
            (usize::from(first), rest)
        } else {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            // Up to four: nothing that is read here is longer.
            let is_sound = (1..=4).contains(&digits.len());
            let length = digits.iter().fold(0_u64, |length, digit| length << 8 | u64::from(*digit));
            (usize::try_from(length).ok().filter(|_| is_sound)?, rest)
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((tag, content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_one_after_the_other() {
        let mut reader = Reader::new(&[SET, 1, 7, SEQUENCE, 0x81, 2, 8, 9]);
        assert_eq!(reader.read(SET), Some(&[7][..]));
        assert_eq!(reader.any(), Some((SEQUENCE, &[8, 9][..])));
        assert!(reader.is_empty() && reader.any().is_none());
    }

    #[test]
    fn what_is_cut_off_or_too_long_is_nothing() {
        let whole = [SEQUENCE, 0x82, 0, 3, 1, 2, 3];
        assert!(Reader::new(&whole).any().is_some());
        for length in 0..whole.len() {
            assert!(Reader::new(&whole[..length]).any().is_none(), "{length} bytes");
        }
        for bad in [&[SEQUENCE, 0x80, 0, 0][..], &[SEQUENCE, 0x85, 0, 0, 0, 0, 0], &[SEQUENCE, 0xff]] {
            assert!(Reader::new(bad).any().is_none(), "{bad:?}");
        }
    }
}
