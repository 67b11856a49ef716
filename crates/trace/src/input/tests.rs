//! Lines with every kind of end; each compression; bombs.

use std::io::Write;

use super::*;

fn lines_of(bytes: &[u8]) -> Vec<(u64, String)> {
    let mut lines = Lines::new(Box::new(Cursor::new(bytes.to_vec())));
    let mut found = Vec::new();
    while let Some(line) = lines.next().expect("readable") {
        let text = String::from_utf8(line.to_vec()).expect("text");
        found.push((lines.number(), text));
    }
    found
}

#[test]
fn every_line_end_counts_once() {
    let found = lines_of(b"a\nb\r\nc\rd\n\r\n\ne");
    let expected = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, ""), (6, ""), (7, "e")]
        .map(|(n, s)| (n, s.to_string()));
    assert_eq!(found, expected);
}

#[test]
fn a_line_may_be_as_long_as_the_bound_and_no_longer() {
    let mut text = vec![b'x'; LINE_BYTES_MAX];
    text.push(b'\n');
    assert_eq!(lines_of(&text)[0].1.len(), LINE_BYTES_MAX);
    text.insert(0, b'x');
    let mut lines = Lines::new(Box::new(Cursor::new(text)));
    assert!(matches!(lines.next(), Err(LineError::TooLong)));
    let mut lines = Lines::new(Box::new(io::repeat(0)));
    assert!(matches!(lines.next(), Err(LineError::TooLong)), "an endless line");
}

#[test]
fn lines_longer_than_what_is_read_at_once_are_whole() {
    let text: String = (0..50_000).map(|i| format!("line number {i}\r\n")).collect();
    let found = lines_of(text.as_bytes());
    assert_eq!(found.len(), 50_000);
    assert!(
        found
            .iter()
            .enumerate()
            .all(|(i, (n, s))| { *n == i as u64 + 1 && *s == format!("line number {i}") })
    );
}

fn packed(bytes: &[u8]) -> [Vec<u8>; 3] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).expect("in memory");
    let mut bzip = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    bzip.write_all(bytes).expect("in memory");
    let zstd =
        ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
    [gzip.finish().expect("in memory"), bzip.finish().expect("in memory"), zstd]
}

fn unpacked(bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    unpack(Box::new(Cursor::new(bytes)))?.read_to_end(&mut all)?;
    Ok(all)
}

#[test]
fn each_compression_unpacks_also_in_several_parts() {
    let text: Vec<u8> =
        (0..20_000).flat_map(|i: u32| format!("{}\n", i * 7919).into_bytes()).collect();
    assert_eq!(unpacked(text.clone()).expect("plain"), text);
    for (one, two) in packed(&text).into_iter().zip(packed(b"more\n")) {
        let both = [&text[..], b"more\n"].concat();
        assert_eq!(unpacked([one, two].concat()).expect("two parts"), both);
    }
    let skippable =
        [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3], &packed(&text)[2][..]].concat();
    assert_eq!(unpacked(skippable).expect("a skippable frame first"), text);
}

#[test]
fn a_cut_compressed_file_is_an_error_everywhere() {
    let text: Vec<u8> =
        (0..3_000).flat_map(|i: u32| format!("{}\n", i * 7919).into_bytes()).collect();
    for whole in packed(&text) {
        for len in [5, 6, 9, 15, whole.len() / 2, whole.len() - 5, whole.len() - 1] {
            assert!(unpacked(whole[..len].to_vec()).is_err(), "{len} of {}", whole.len());
        }
    }
}

#[test]
fn a_bomb_is_refused_long_before_it_is_unpacked() {
    let zeros = vec![b'\n'; 64 << 20];
    for (name, bomb) in ["gzip", "bzip2", "zstd"].into_iter().zip(packed(&zeros)) {
        let mut from = unpack(Box::new(Cursor::new(bomb))).expect("starts well");
        let mut taken = 0;
        let error = loop {
            match from.read(&mut [0; 65536]) {
                Ok(0) => panic!("{name}: unpacked {taken} bytes"),
                Ok(len) => taken += len,
                Err(error) => break error,
            }
        };
        assert!(error.to_string().contains("250 times its size"), "{name}: {error}");
        assert!(taken < 40 << 20, "{name}: {taken}");
    }
}

#[test]
fn records_are_whole_until_the_file_ends() {
    let bytes: Vec<u8> = (0..=255).cycle().take(BUFFER_BYTES + 13).collect();
    let mut lines = Lines::new(Box::new(Cursor::new(bytes.clone())));
    assert_eq!(lines.peek().expect("readable").len(), BUFFER_BYTES);
    let mut all = Vec::new();
    loop {
        let (record, len) = lines.record::<24>().expect("readable");
        all.extend_from_slice(&record[..len]);
        if len < 24 {
            break;
        }
    }
    assert_eq!(all, bytes);
}
