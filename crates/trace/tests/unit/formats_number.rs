//! Unit tests of `formats/number.rs`, with access to its private items.

use super::*;

#[test]
fn whole_numbers_to_the_last() {
    assert_eq!(whole(b"0", "x").expect("zero"), 0);
    assert_eq!(whole(b" 18446744073709551615\t", "x").expect("the last"), u64::MAX);
    for (field, message) in [
        (&b"18446744073709551616"[..], "x is too large"),
        (b"99999999999999999999999999", "x is too large"),
        (b"", "x is empty"),
        (b"-5", "x is negative"),
        (b"+5", "x is '+5'"),
        (b"5.0", "x is '5.0'"),
        (b"4\x000", "x is '4?0'"),
    ] {
        let problem = whole(field, "x").expect_err("refused");
        assert!(problem.what.starts_with(message), "{}", problem.what);
    }
}

#[test]
fn decimals_become_whole_nanoseconds() {
    let s = |field: &[u8]| decimal_ns(field, 1_000_000_000, "t");
    assert_eq!(s(b"1456095145.133076000").expect("systor"), 1_456_095_145_133_076_000);
    assert_eq!(s(b"0.0000000019").expect("rounded down"), 1);
    assert_eq!(s(b"7").expect("whole"), 7_000_000_000);
    assert_eq!(s(b".5").expect("no head"), 500_000_000);
    assert_eq!(decimal_ns(b"1.5", 1_000_000, "t").expect("ms"), 1_500_000);
    for bad in [&b"."[..], b"", b"-1.0", b"1.2.3", b"1e5", b"nan", b"18446744073710"] {
        assert!(s(bad).is_err(), "{bad:?}");
    }
    assert_eq!(decimal_ns(b"12.9", 1, "t").expect("in nanoseconds"), 12);
}

#[test]
fn floats_as_programs_write_them() {
    for (field, unit, value) in [
        ("1696982400.123456", Some(1_000_000_000), 1_696_982_400_123_456_000),
        ("1.6969824e+09", Some(1_000_000_000), 1_696_982_400_000_000_000),
        ("1e-07", Some(1_000_000_000), 100),
        ("0E-9", None, 0),
        ("4096.0", Some(512), 2_097_152),
        ("0.5", Some(512), 256),
        ("12.", None, 12),
        ("1e-400000", Some(1), 0),
        ("18446744073709551615", None, u64::MAX),
        ("0.33333333333333333333333333", Some(1_000), 333),
    ] {
        assert_eq!(measure(field.as_bytes(), unit, "x").expect(field), value, "{field}");
    }
    for bad in ["", ".", "e5", "1e", "1e5.0", "-1.5", "nan", "inf", "1e30", "1e999999999999", "1_0"]
    {
        assert!(measure(bad.as_bytes(), Some(1), "x").is_err(), "{bad}");
    }
    let fraction = measure(b"0.5", None, "time").expect_err("of what?");
    assert_eq!(fraction.what, "time is '0.5', which is not a whole number");
}

#[test]
fn hexadecimal_where_it_says_so() {
    assert_eq!(hex_or_whole(b" 0x1F000", "x").expect("hex"), 0x1f000);
    assert_eq!(hex_or_whole(b"10", "x").expect("decimal"), 10);
    for bad in [&b"0x"[..], b"0x+1", b"0xg", b"1F", b"0x11111111111111111"] {
        assert!(hex_or_whole(bad, "x").is_err(), "{bad:?}");
    }
}

#[test]
fn fields_and_words() {
    assert_eq!(split::<3>(b"a,,c", b','), ([&b"a"[..], b"", b"c"], 3));
    assert_eq!(split::<2>(b"a,b,c", b',').1, 3);
    assert_eq!(split::<2>(b"", b',').1, 1);
    assert_eq!(words::<2>(b"  a \t b  "), ([&b"a"[..], b"b"], 2));
}
