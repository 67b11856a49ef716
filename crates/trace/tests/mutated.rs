//! Random changes to a whole file of each format: cut, joined, swapped, with arbitrary bytes
//! inserted. It is read or refused; there is no panic, no request out of bounds, and no figure that
//! is not a number.
//!
//! 300 cases per format in `make test`, 10,000 with DRIVEBAY_LONG. A failure prints the format and
//! the number of the case.

use std::fmt::Write as _;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::support::{ordered, reader, survives};
use drivebay_trace::Format;
use drivebay_units::Rng;

const LINES: u64 = 60;

/// Returns a file of the format as its recorder writes it.
fn sample(format: Format) -> Vec<u8> {
    let line = |i: u64| -> String {
        let (at, place) = (i * 1_000, i % 7 * 4096);
        let (sector, rw, kind) =
            (place / 512, ["R", "W"][(i % 2) as usize], ["Read", "Write"][(i % 2) as usize]);
        match format {
            Format::Msr => format!("{at},src1,0,{kind},{place},4096,{i}"),
            Format::Systor => format!("{i}.000{i},0.0{i},{rw},0,{place},4096"),
            Format::Alibaba => format!("3,{rw},{place},4096,{at}"),
            Format::Tencent => format!("{i},{sector},8,{},9", i % 2),
            Format::K5cloud => format!("4,{i}.5,{rw},{place},4096"),
            Format::Vscsi => {
                format!("1,{i},{},4096,{sector}", ["28", "2a", "35"][(i % 3) as usize])
            }
            Format::LibCacheSim => {
                format!("{i},{sector},4096,{}", ["get", "set", "12", "2a"][(i % 4) as usize])
            }
            Format::Meta => {
                format!("{i},b{},40,4096,{place},u,n,getChunkData.Temp,{},h,0", i % 5, i % 3)
            }
            Format::Spc => format!("0,{sector},4096,{rw},{i}.25"),
            Format::MqSim => format!("{at} 0 {sector} 8 {}", i % 2),
            Format::DiskSim => format!("{i}.5 0 {sector} 8 {}", i % 2),
            Format::Blkparse => blkparse(i, sector),
            Format::Ftrace => ftrace(i, sector),
            Format::Biosnoop => {
                format!("{i}.5 kworker/0:1 wq {i} nvme0n1 {rw} {sector} 4096 R 0.{i}")
            }
            Format::FtraceNvme => nvme(i, sector),
            Format::Fiu => format!("{at} 7 nfsd {sector} 8 {rw} 6 0 9b08923d"),
            Format::Etw => format!(
                "  Disk{kind}, {at}, System ( 4), 12, 0xff, 0x{place:09x}, 0x00001000, {i}, 0, 0x06, 9, Normal"
            ),
            Format::Iolog => match i % 10 {
                8 => format!("/dev/x wait {i} 0"),
                9 => "/dev/x sync 0 0".to_string(),
                _ => format!("/dev/x {} {place} 4096", kind.to_lowercase()),
            },
            _ => format!("{at},{},{place},4096,0,{i}", kind.to_lowercase()),
        }
    };
    let header = match format {
        Format::Systor => "Timestamp,Response,IOType,LUN,Offset,Size\n",
        Format::Vscsi => "version,time,op,size,lbn\n",
        Format::LibCacheSim => "time,obj_id,obj_size,op\n",
        Format::Ftrace | Format::FtraceNvme => "# tracer: nop\n#\n",
        Format::Biosnoop => "TIME(s) COMM PID DISK T SECTOR BYTES P LAT(ms)\n",
        Format::Etw => "BeginHeader\nEndHeader\nOS Version: 10.0.19041\n",
        Format::Iolog => "fio version 2 iolog\n/dev/x add\n/dev/x open\n",
        Format::Csv | Format::Parquet => "at_ns,op,offset_bytes,bytes,device,response_ns\n",
        _ => "",
    };
    match format {
        Format::VscsiBinary => (0..LINES).flat_map(vscsi_record).collect(),
        Format::OracleGeneral => (0..LINES).flat_map(oracle_record).collect(),
        _ => (0..LINES)
            .fold(header.to_string(), |mut text, i| {
                writeln!(text, "{}", line(i)).expect("in memory");
                text
            })
            .into_bytes(),
    }
}

/// Returns the samples of all formats, and that of iosnoop, which is read as biosnoop.
fn samples() -> impl Iterator<Item = (Format, Vec<u8>)> {
    let lines = (0..LINES).map(|i| {
        let (rw, sector) = (["R", "WS", "FF"][(i % 3) as usize], i % 7 * 8);
        format!("{i}.302061 {i}.302679 jbd2 xvda{i} 212 {rw} 202,1 {sector} 4096 0.62\n")
    });
    let head =
        "Tracing block I/O. Ctrl-C to end.\nSTARTs ENDs COMM PID TYPE DEV BLOCK BYTES LATms\n";
    let iosnoop = head.to_string() + &lines.collect::<String>();
    let all = Format::ALL.into_iter().map(|format| (format, sample(format)));
    all.chain([(Format::Biosnoop, iosnoop.into_bytes())])
}

fn nvme(i: u64, sector: u64) -> String {
    let disk = format!("nvme0: disk=nvme0n1, qid=1, cmdid={}", i / 2);
    match i % 2 {
        0 => format!(
            " fio-7 [000] ..... {i}.5: nvme_setup_cmd: {disk}, nsid=1, flags=0x0, meta=0x0, \
             cmd=(nvme_cmd_read slba={sector}, len=7, ctrl=0x0)"
        ),
        _ => format!(" fio-7 [000] d.h1. {i}.5: nvme_complete_rq: {disk}, res=0x0, status=0x0"),
    }
}

fn blkparse(i: u64, sector: u64) -> String {
    let head = |action: &str, letters: &str| {
        format!("  8,0  0 {i} {i}.00000{} 7 {action} {letters}", i % 10)
    };
    match i % 6 {
        0 | 2 => format!("{} {sector} + 8 [dd]", head("D", "R")),
        1 => format!("{} {} + 8 [0]", head("C", "R"), (i - 1) % 7 * 8),
        3 => format!("{} {} + 8 [0]", head("R", "R"), (i - 1) % 7 * 8),
        4 => format!("{} [kworker/0:1H]", head("D", "FN")),
        _ => format!("{} 0 [0]", head("C", "FN")),
    }
}

fn ftrace(i: u64, sector: u64) -> String {
    let head = format!("  fio job-{i} [001] d..1. {i}.000010: block_rq_");
    match i % 4 {
        0 => format!("{head}issue: 259,0 WS 4096 () {sector} + 8 none,0,0 [fio job]"),
        1 => format!("{head}complete: 259,0 WS () {} + 8 [0]", (i - 1) % 7 * 8),
        2 => format!("{head}requeue: 259,0 WS () {sector} + 8 [0]"),
        _ => format!("CPU:1 [LOST {i} EVENTS]"),
    }
}

fn vscsi_record(i: u64) -> Vec<u8> {
    let command = [0x28_u16, 0x2a][(i % 2) as usize].to_le_bytes();
    let head =
        [&(i as u32).to_le_bytes()[..], &4096_u32.to_le_bytes(), &[1, 0, 0, 0], &command, &[0, 1]];
    [&head.concat()[..], &(i % 7 * 8).to_le_bytes(), &(i * 1_000).to_le_bytes()].concat()
}

fn oracle_record(i: u64) -> Vec<u8> {
    let parts =
        [&(i as u32).to_le_bytes()[..], &(i % 7 * 8).to_le_bytes(), &4096_u32.to_le_bytes()];
    [&parts.concat()[..], &(-1_i64).to_le_bytes()].concat()
}

/// Inserted pieces: marks, line ends, numbers of all sizes, parts of other formats, bytes that are
/// not text.
const PIECES: &[&[u8]] = &[
    b"\0",
    b"\0\0\0\0\0\0\0\0",
    b"\n",
    b"\r",
    b"\r\n",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"\xfe\xff",
    b"\xff",
    b"\x1b[0m",
    b",",
    b",,",
    b" ",
    b"\t",
    b";",
    b"\"",
    b"-",
    b".",
    b"-1",
    b"0",
    b"1e9",
    b"nan",
    b"inf",
    b"4294967296",
    b"9223372036854775807",
    b"18446744073709551615",
    b"18446744073709551616",
    b"99999999999999999999999999",
    b"0.000000000000000000001",
    b"[",
    b"]",
    b"(",
    b")",
    b"#",
    b"fio version 3 iolog\n",
    b"TIME(ms)\n",
    b"block_rq_issue: ",
    b"time,obj_id,obj_size\n",
    b"PAR1",
    b"\x1f\x8b",
    "\u{1f600}".as_bytes(),
];

fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = |rng: &mut Rng, bytes: &[u8]| rng.below(bytes.len() as u64 + 1) as usize;
    let place = at(rng, bytes);
    match rng.below(8) {
        0 => {
            if let Some(byte) = bytes.get_mut(place) {
                *byte ^= 1 << rng.below(8);
            }
        }
        1 => bytes.truncate(place),
        2 => {
            bytes.drain(..place);
        }
        3 => {
            let end = (place + rng.below(40) as usize).min(bytes.len());
            bytes.drain(place..end);
        }
        4 => {
            let end = (place + rng.below(200) as usize).min(bytes.len());
            let copy = bytes[place..end].to_vec();
            let to = at(rng, bytes);
            bytes.splice(to..to, copy);
        }
        5 => {
            let mut lines: Vec<_> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
            let (first, other) =
                (rng.below(lines.len().max(1) as u64), rng.below(lines.len().max(1) as u64));
            if !lines.is_empty() {
                lines.swap(first as usize, other as usize);
            }
            *bytes = lines.concat();
        }
        _ => {
            let piece = PIECES[rng.below(PIECES.len() as u64) as usize];
            // Replaces a number as often as it inserts.
            let digits = bytes[place..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let end = if rng.below(2) == 0 { place + digits } else { place };
            bytes.splice(place..end, piece.iter().copied());
        }
    }
}

fn in_utf16(bytes: &[u8]) -> Vec<u8> {
    String::from_utf8_lossy(bytes).encode_utf16().flat_map(u16::to_le_bytes).collect()
}

fn packed(bytes: &[u8], how: u64) -> Vec<u8> {
    let fine = "in memory";
    match how {
        0 => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(bytes).expect(fine);
            gzip.finish().expect(fine)
        }
        _ => {
            let mut xz =
                lzma_rust2::XzWriter::new(Vec::new(), lzma_rust2::XzOptions::with_preset(0))
                    .expect(fine);
            xz.write_all(bytes).expect(fine);
            xz.finish().expect(fine)
        }
    }
}

#[test]
fn the_samples_are_of_their_formats() {
    for (format, bytes) in samples() {
        let name = format.name();
        let detected = reader(&bytes, None).expect("detected").format();
        assert!(detected == format || format == Format::Parquet, "{name}: {detected:?}");
        let requests = ordered(&bytes, Some(name)).expect("readable");
        assert!(requests.len() as u64 >= LINES / 4, "{name}: {}", requests.len());
    }
}

#[test]
fn no_changed_file_makes_a_reader_panic() {
    let cases = if std::env::var_os("DRIVEBAY_LONG").is_some() { 10_000 } else { 300 };
    for (number, (format, whole)) in samples().enumerate() {
        let name = format.name();
        for case in 0..cases {
            let mut rng = Rng::new((number as u64) << 32 | case);
            let mut bytes = whole.clone();
            let wrapped = rng.below(8);
            if wrapped == 2 {
                bytes = in_utf16(&bytes);
            } else if wrapped < 2 && case % 4 == 0 {
                bytes = packed(&bytes, wrapped);
            }
            for _ in 0..=rng.below(4) {
                mutate(&mut bytes, &mut rng);
            }
            let read = catch_unwind(AssertUnwindSafe(|| {
                survives(&bytes, None);
                survives(&bytes, Some(name));
            }));
            assert!(read.is_ok(), "{name}, case {case}: {:?}", String::from_utf8_lossy(&bytes));
        }
    }
}
