//! Tests of each compression, also cut off, in several parts, and as a bomb.

use std::io::Write;

use super::*;

fn xz(bytes: &[u8], dictionary_bytes: u32) -> Vec<u8> {
    let mut options = lzma_rust2::XzOptions::with_preset(1);
    options.lzma_options.dict_size = dictionary_bytes;
    let mut xz = lzma_rust2::XzWriter::new(Vec::new(), options).expect("options");
    xz.write_all(bytes).expect("in memory");
    xz.finish().expect("in memory")
}

fn packed(bytes: &[u8]) -> [Vec<u8>; 4] {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gzip.write_all(bytes).expect("in memory");
    let mut bzip = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::default());
    bzip.write_all(bytes).expect("in memory");
    let zstd = zstd::encode_all(bytes, 1).expect("in memory");
    let (gzip, bzip) = (gzip.finish().expect("in memory"), bzip.finish().expect("in memory"));
    [gzip, bzip, zstd, xz(bytes, 1 << 20)]
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
    for (first, second) in packed(&text).into_iter().zip(packed(b"more\n")) {
        let both = [&text[..], b"more\n"].concat();
        assert_eq!(unpacked([first, second].concat()).expect("two parts"), both);
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
    for (name, bomb) in ["gzip", "bzip2", "zstd", "xz"].into_iter().zip(packed(&zeros)) {
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
fn an_xz_dictionary_beyond_the_bound_is_refused_before_it_is_made() {
    let mut large = xz(b"1,h,0,Read,0,512,1\n", 256 << 20);
    let error = unpacked(large.clone()).expect_err("refused").to_string();
    assert!(error.contains("memory"), "{error}");
    large.truncate(9);
    assert!(unpacked(large).is_err());
}
