//! Powers, exponentials and logarithms that are the same bit for bit on every platform.
//!
//! The system's `exp` and `ln` may differ in the last bit from one C library to another, and with it a
//! drawn number and a whole run. Here are only additions, multiplications and divisions, which IEEE 754
//! defines exactly. Accurate to about 1e-15; slow, so for tables only.

use std::f64::consts::{LN_2, SQRT_2};

/// e to the power of `x`; 0 below -700, infinite above 700.
pub fn exp(x: f64) -> f64 {
    if x < -700.0 {
        return 0.0;
    }
    if x > 700.0 {
        return f64::INFINITY;
    }
    // x = k ln 2 + r with |r| <= ln 2 / 2: Taylor's series has converged after 20 terms.
    let k = (x / LN_2).round();
    let r = x - k * LN_2;
    let series = (1..=20).rev().fold(1.0, |sum, n| 1.0 + sum * r / f64::from(n));
    series * power_of_two(k as i64)
}

/// The natural logarithm of a positive number.
pub fn ln(x: f64) -> f64 {
    assert!(x >= f64::MIN_POSITIVE && x.is_finite(), "no logarithm of {x}");
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i64 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh s, s = (m - 1) / (m + 1), |s| < 0.18.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let series = (0..=12).rev().fold(0.0, |sum, n| sum * square + 1.0 / f64::from(2 * n + 1));
    exponent as f64 * LN_2 + 2.0 * s * series
}

/// `base` to the power of `exponent`, for a base that is not negative; 0 to the power of 0 is 1.
pub fn power(base: f64, exponent: f64) -> f64 {
    if exponent == 0.0 {
        return 1.0;
    }
    if base < f64::MIN_POSITIVE {
        return 0.0;
    }
    exp(exponent * ln(base))
}

fn power_of_two(k: i64) -> f64 {
    // Within +-1010: never subnormal.
    f64::from_bits(((k + 1023) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_the_library() {
        for i in -6990..6990 {
            let x = f64::from(i) / 10.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "e^{x}");
            let y = x.exp();
            assert!((ln(y) - x).abs() < 1e-13 * x.abs().max(1.0), "ln {y}");
        }
        for base in [0.0, 1e-9, 0.3, 1.0, 2.0, 1e4, 4e9] {
            for exponent in [0.0, 0.14, 0.33, 1.0, 2.05, 10.0] {
                let (got, expected) = (power(base, exponent), base.powf(exponent));
                assert!((got - expected).abs() <= expected * 1e-12, "{base}^{exponent}: {got}");
            }
        }
        assert_eq!(exp(-1e9), 0.0);
    }
}
