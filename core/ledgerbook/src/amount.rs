//! How much is moved: a whole number of an asset's smallest unit.

use std::{fmt, str::FromStr};

/// A number of minor units from 0 to 2¹²⁷ − 1, so that every amount is also a balance. On the wire it is a decimal string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(i128);

/// The text or number is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an amount is a whole number from 0 to {}, without sign, spaces or leading zeros", Amount::MAX)]
pub struct InvalidAmount;

impl Amount {
    /// The amount of zero.
    pub const ZERO: Self = Self(0);
    /// The largest amount that can be represented.
    pub const MAX: Self = Self(i128::MAX);

    /// Returns the amount as a signed balance.
    #[must_use]
    pub const fn get(self) -> i128 {
        self.0
    }

    /// Returns true if the amount is zero.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl TryFrom<u128> for Amount {
    type Error = InvalidAmount;

    fn try_from(units: u128) -> Result<Self, InvalidAmount> {
        i128::try_from(units).map(Self).map_err(|_| InvalidAmount)
    }
}

impl From<u64> for Amount {
    fn from(units: u64) -> Self {
        Self(units.into())
    }
}

impl TryFrom<i128> for Amount {
    type Error = InvalidAmount;

    fn try_from(units: i128) -> Result<Self, InvalidAmount> {
        if units < 0 { Err(InvalidAmount) } else { Ok(Self(units)) }
    }
}

impl FromStr for Amount {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        parse_balance(text).and_then(Self::try_from)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads a balance the one way it is written: digits without leading zeros, behind a minus sign if it is negative.
///
/// # Errors
/// [`InvalidAmount`] for any other text, and for what does not fit 128 bits.
pub fn parse_balance(text: &str) -> Result<i128, InvalidAmount> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let canonical = match digits.as_bytes() {
        [b'0'] => digits.len() == text.len(),
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    if canonical { text.parse().map_err(|_| InvalidAmount) } else { Err(InvalidAmount) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_amount_is_read_the_one_way_it_is_written() {
        for units in [0, 1, 9, 10, 1 << 100, i128::MAX] {
            let amount = Amount::try_from(units).unwrap();
            assert_eq!(amount.to_string().parse(), Ok(amount));
            assert_eq!((amount.get(), amount.is_zero()), (units, units == 0));
        }
        for wrong in ["", "-", "-0", "+1", "01", "00", " 1", "1 ", "1.0", "1e3", "0x1", "-1", "1_0", "١"] {
            assert_eq!(wrong.parse::<Amount>(), Err(InvalidAmount), "{wrong:?}");
        }
    }

    #[test]
    fn both_ends_of_the_range_are_exact() {
        let above = "170141183460469231731687303715884105728";
        assert_eq!("170141183460469231731687303715884105727".parse(), Ok(Amount::MAX));
        assert_eq!(above.parse::<Amount>(), Err(InvalidAmount));
        assert_eq!(Amount::try_from(i128::MAX.unsigned_abs() + 1), Err(InvalidAmount));
        assert_eq!(Amount::try_from(i128::MAX.unsigned_abs()), Ok(Amount::MAX));
        assert_eq!(Amount::try_from(-1_i128), Err(InvalidAmount));
        assert_eq!(parse_balance(&format!("-{above}")), Ok(i128::MIN));
        assert_eq!(parse_balance("-12"), Ok(-12));
        assert_eq!(Amount::from(7_u64).get(), 7);
    }
}
