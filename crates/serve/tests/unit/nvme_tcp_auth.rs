//! Unit tests of `nvme/tcp/auth.rs`, with access to its private items.

use super::*;

#[test]
fn primes_are_those_that_rfc_7919_prints() {
    // First digits after the leading ones, and last digits before the trailing ones, of each.
    let ends = ["61285C97", "66C62E37", "5E655F6A", "D0E40E65", "C5C6424C"];
    for ((bits, term), end) in GROUPS.into_iter().zip(ends) {
        let text = format!("{:X}", prime(bits, term));
        assert_eq!(text.len() as u64, bits / 4);
        assert!(text.starts_with("FFFFFFFFFFFFFFFFADF85458A2BB4A9AAFDC5620273D3CF1"), "{text}");
        assert!(text.ends_with(&format!("{end}FFFFFFFFFFFFFFFF")), "{text}");
    }
}

#[test]
fn a_secret_is_a_key_with_its_checksum() {
    let key: Vec<u8> = (0..32).collect();
    let whole = [&key[..], &crc32fast::hash(&key).to_le_bytes()].concat();
    let text = BASE64_STANDARD.encode(whole);
    let secret = Secret::parse(&format!("DHHC-1:00:{text}:\n")).expect("a secret");
    assert_eq!(secret.key_for("nqn"), key);
    let transformed = Secret::parse(&format!("DHHC-1:01:{text}:")).expect("a secret");
    assert_ne!(transformed.key_for("nqn.a"), transformed.key_for("nqn.b"));
    let damaged = text.replacen('A', "B", 1);
    for (wrong, why) in [
        ("", "begin with"),
        ("DHHC-1:00", "no hash"),
        ("DHHC-1:04:AAAA:", "not 00 to 03"),
        ("DHHC-1:00:AAAA", "end with a colon"),
        ("DHHC-1:00:A*AA:", "not base64"),
        ("DHHC-1:00:AAAA:", "32, 48 or 64"),
        (&format!("DHHC-1:00:{damaged}:"), "checksum"),
    ] {
        let message = Secret::parse(wrong).err().expect(wrong);
        assert!(message.contains(why), "{wrong}: {message}");
    }
}
