//! Tests of lines with every kind of end and encoding, and of records.

use super::*;

fn lines_of(bytes: &[u8]) -> Vec<(u64, String)> {
    let mut lines = Lines::new(Box::new(Cursor::new(bytes.to_vec())));
    lines.peek().expect("readable");
    lines.decode().expect("readable");
    let mut numbered = Vec::new();
    while let Some(line) = lines.next().expect("readable") {
        let text = String::from_utf8(line.to_vec()).expect("text");
        numbered.push((lines.number(), text));
    }
    numbered
}

#[test]
fn every_line_end_counts_once() {
    let lines = lines_of(b"a\nb\r\nc\rd\n\r\n\ne");
    let expected = [(1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, ""), (6, ""), (7, "e")]
        .map(|(n, s)| (n, s.to_string()));
    assert_eq!(lines, expected);
}

#[test]
fn runs_of_nul_end_a_line_and_are_counted_where_they_are_inside() {
    let zeros = "\0".repeat(BUFFER_BYTES);
    let lines = lines_of(format!("a\nb{zeros}c\nd\0\0e\r\nf\n{zeros}").as_bytes());
    let texts: Vec<_> = lines.iter().filter(|(_, text)| !text.is_empty()).cloned().collect();
    let expected = [(1, "a"), (2, "b"), (2, "c"), (3, "d"), (3, "e"), (4, "f")];
    assert_eq!(texts, expected.map(|(n, s)| (n, s.to_string())));
    let mut lines = Lines::new(Box::new(Cursor::new(b"a\0\0b\n\0c\n\0\0\0".to_vec())));
    while lines.next().expect("readable").is_some() {}
    assert_eq!((lines.holes, lines.cut), (2, false), "zeros at the end are no hole");
}

/// Files as Windows' editors and shells write them, also concatenated ones with several marks.
#[test]
fn every_encoding_gives_the_same_lines() {
    let text = "1,é,\u{1f600}\r\nsecond line\n";
    let marked = format!("\u{feff}{text}");
    let units = |text: &str, big: bool| -> Vec<u8> {
        let pair = |unit: u16| if big { unit.to_be_bytes() } else { unit.to_le_bytes() };
        text.encode_utf16().flat_map(pair).collect()
    };
    let expected = lines_of(text.as_bytes());
    let twice = format!("{marked}{marked}");
    assert_eq!(lines_of(twice.as_bytes())[2], (3, expected[0].1.clone()));
    let long = marked.repeat(5_000); // longer than one decoding step
    let mut whole = lines_of(&units(&long, false));
    assert_eq!(whole.len(), 10_000);
    whole.truncate(2);
    assert_eq!(whole, expected);
    for bytes in [marked.as_bytes(), &units(&marked, false), &units(&marked, true)] {
        assert_eq!(lines_of(bytes), expected);
    }
    for big in [false, true] {
        assert_eq!(lines_of(&units("1,plain\r\n", big)), [(1, "1,plain".to_string())], "no mark");
    }
    assert_eq!(lines_of(b"\xff\xfea\x00\x00\xd8"), [(1, "a\u{fffd}".to_string())], "half a pair");
}

#[test]
fn a_line_may_be_as_long_as_the_bound_and_no_longer() {
    let mut text = vec![b'x'; LINE_BYTES_MAX];
    text.push(b'\n');
    assert_eq!(lines_of(&text)[0].1.len(), LINE_BYTES_MAX);
    text.insert(0, b'x');
    let mut lines = Lines::new(Box::new(Cursor::new(text)));
    assert!(matches!(lines.next(), Err(LineError::TooLong)));
    let mut lines = Lines::new(Box::new(io::repeat(b'x')));
    assert!(matches!(lines.next(), Err(LineError::TooLong)), "an endless line");
}

#[test]
fn lines_longer_than_what_is_read_at_once_are_whole() {
    let text: String = (0..50_000).map(|i| format!("line number {i}\r\n")).collect();
    let lines = lines_of(text.as_bytes());
    assert_eq!(lines.len(), 50_000);
    assert!(
        lines
            .iter()
            .enumerate()
            .all(|(i, (n, s))| { *n == i as u64 + 1 && *s == format!("line number {i}") })
    );
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
