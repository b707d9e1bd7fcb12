//! Products of 256 bits: multiplied before divided, so that nothing is rounded on the way.

use std::cmp::Ordering;

/// `a × b ÷ divisor` and the remainder, exactly; nothing if the quotient exceeds 128 bits or the divisor is zero.
pub(crate) fn mul_div(a: u128, b: u128, divisor: u128) -> Option<(u128, u128)> {
    if let Some(product) = a.checked_mul(b) {
        return Some((product.checked_div(divisor)?, product % divisor));
    }
    let (high, low) = product(a, b);
    if high >= divisor {
        return None;
    }
    // Long division, bit by bit. The remainder stays below the divisor, but its double may need a 129th bit.
    let (mut remainder, mut quotient) = (high, 0_u128);
    for bit in (0..128).rev() {
        let carry = remainder >> 127 == 1;
        remainder = remainder << 1 | low >> bit & 1;
        quotient <<= 1;
        if carry || remainder >= divisor {
            remainder = remainder.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    Some((quotient, remainder))
}

/// Compares `a × b` with `c × d`.
pub(crate) fn cmp_products(a: u128, b: u128, c: u128, d: u128) -> Ordering {
    product(a, b).cmp(&product(c, d))
}

/// The high and low halves of a product.
fn product(a: u128, b: u128) -> (u128, u128) {
    const HALF: u128 = u64::MAX as u128;
    let (a1, a0, b1, b0) = (a >> 64, a & HALF, b >> 64, b & HALF);
    // At most (2⁶⁴ − 1)² + 2 (2⁶⁴ − 1) = 2¹²⁸ − 1, so neither sum overflows.
    let middle = a1 * b0 + ((a0 * b0) >> 64);
    let carry = a0 * b1 + (middle & HALF);
    (a1 * b1 + (middle >> 64) + (carry >> 64), a.wrapping_mul(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotients_and_remainders_make_the_product_again() {
        let max = u128::MAX;
        for (a, b, divisor, expected) in [
            (0, 5, 3, Some((0, 0))),
            (7, 5, 3, Some((11, 2))),
            (max, max, max, Some((max, 0))),
            (max, max - 1, max, Some((max - 1, 0))),
            (max - 1, max - 1, max, Some((max - 2, 1))),
            (max, 2, 4, Some((max >> 1, 2))),
            (1 << 127, 2, 1, None),
            (1 << 127, 2, 2, Some((1 << 127, 0))),
            (1 << 127, 3, 1 << 127, Some((3, 0))),
            (max, max, 1, None),
            (1, 1, 0, None),
            (max, max, 0, None),
        ] {
            assert_eq!(mul_div(a, b, divisor), expected, "{a} × {b} ÷ {divisor}");
        }
    }

    #[test]
    fn products_are_compared_in_full_width() {
        let max = u128::MAX;
        assert_eq!(cmp_products(max, max, max, max - 1), Ordering::Greater);
        assert_eq!(cmp_products(max, 1, 1, max), Ordering::Equal);
        assert_eq!(cmp_products(1 << 64, 1 << 64, max, 1), Ordering::Greater);
        assert_eq!(cmp_products((1 << 64) - 1, (1 << 64) + 1, max, 1), Ordering::Equal);
        assert_eq!(product(max, max), (max - 1, 1));
    }
}
