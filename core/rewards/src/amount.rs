//! Money: whole minor units, added and subtracted with checks, never rounded by accident.

use std::{fmt, str::FromStr};

use crate::decimal::{self, NotDecimal};

/// A sum of money in minor units, between zero and [`Amount::MAX`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Amount(u128);

/// The text is no amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// Debts are not amounts.
    #[error("an amount is not negative")]
    Negative,
    /// It is more than any sum that is kept in books.
    #[error("an amount is at most {max}", max = Amount::MAX)]
    Huge,
    /// It is not written with digits alone, or has a leading zero.
    #[error("an amount is written with digits alone, in minor units, without leading zeros")]
    Malformed,
}

impl Amount {
    /// The amount of zero.
    pub const ZERO: Self = Self(0);

    /// The greatest amount. A signed number of the same width holds every difference of two amounts.
    pub const MAX: Self = Self(i128::MAX as u128);

    /// So many minor units, unless they are more than [`Amount::MAX`].
    #[must_use]
    pub const fn new(minor: u128) -> Option<Self> {
        if minor <= Self::MAX.0 { Some(Self(minor)) } else { None }
    }

    /// The number of minor units.
    #[must_use]
    pub const fn minor(self) -> u128 {
        self.0
    }

    /// The sum, unless it is more than [`Amount::MAX`].
    #[must_use]
    pub const fn checked_add(self, other: Self) -> Option<Self> {
        match self.0.checked_add(other.0) {
            Some(sum) => Self::new(sum),
            None => None,
        }
    }

    /// The difference, unless it is less than nothing.
    #[must_use]
    pub const fn checked_sub(self, other: Self) -> Option<Self> {
        match self.0.checked_sub(other.0) {
            Some(rest) => Some(Self(rest)),
            None => None,
        }
    }
}

impl FromStr for Amount {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Self, AmountError> {
        let minor = decimal::read(text.as_bytes()).map_err(|wrong| match wrong {
            NotDecimal::Negative => AmountError::Negative,
            NotDecimal::Huge => AmountError::Huge,
            NotDecimal::Malformed => AmountError::Malformed,
        })?;
        Self::new(minor).ok_or(AmountError::Huge)
    }
}

impl From<u64> for Amount {
    fn from(minor: u64) -> Self {
        Self(minor.into())
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_end_where_a_signed_number_does() {
        let greatest = i128::MAX.to_string();
        assert_eq!(greatest.parse(), Ok(Amount::MAX));
        assert_eq!(Amount::MAX.to_string(), greatest);
        assert_eq!(Amount::new(Amount::MAX.minor() + 1), None);
        assert_eq!((Amount::MAX.minor() + 1).to_string().parse::<Amount>(), Err(AmountError::Huge));
        assert_eq!(Amount::MAX.checked_add(Amount::from(1)), None);
        assert_eq!(
            Amount::MAX.checked_sub(Amount::from(1)).and_then(|a| a.checked_add(1.into())),
            Some(Amount::MAX)
        );
        assert_eq!(Amount::ZERO.checked_sub(Amount::from(1)), None);
    }

    #[test]
    fn every_refusal_has_its_reason() {
        for (text, reason) in [
            ("-5", AmountError::Negative),
            ("1.5", AmountError::Malformed),
            ("007", AmountError::Malformed),
            ("", AmountError::Malformed),
            ("999999999999999999999999999999999999999999", AmountError::Huge),
        ] {
            assert_eq!(text.parse::<Amount>(), Err(reason), "{text}");
        }
    }
}
