//! Tests of each format on a few lines, detected and named; then invalid input of every kind, which
//! is refused with its position or skipped and counted.

use std::io::Cursor;

use crate::support::{Row, drain, ordered, raw, reader, request};
use drivebay_trace::Op::{Flush, Read, Trim, Write};
use drivebay_trace::{ColumnMap, Given, Order, Reader, Request, TimeUnit, Trace, TraceError};

/// Checks that detection and the format's name give these rows, in time order from 0.
pub fn holds(format: &str, text: &str, rows: &[Row]) {
    let expected: Vec<_> = rows.iter().map(|row| request(*row)).collect();
    let detected = reader(text.as_bytes(), None).expect("detected").format().name();
    assert_eq!(detected, format);
    for format in [None, Some(format)] {
        assert_eq!(ordered(text.as_bytes(), format).expect("readable"), expected);
    }
    // Other line ends, a byte order mark, blank lines, or a missing last line end change nothing.
    let windows = text.replace('\n', "\r\n");
    let marked = format!("\u{feff}{}", text.trim_end());
    let blank = text.replace('\n', "\n\n");
    let mixed = text.replacen('\n', "\r", 1);
    for text in [windows, marked, blank, mixed] {
        assert_eq!(ordered(text.as_bytes(), None).expect("readable"), expected, "{text:?}");
    }
}

/// Notes on a file that is read.
pub fn notes(bytes: &[u8]) -> Vec<String> {
    let mut reader = reader(bytes, None).expect("detected");
    while reader.read(&mut Vec::new(), usize::MAX).expect("readable") {}
    reader.skipped().notes()
}

pub fn refused(bytes: &[u8], format: Option<&str>) -> String {
    ordered(bytes, format).expect_err("refused").to_string()
}

#[test]
fn msr() {
    let text = "128166372003061629,src1,1,Read,1000,4096,50\n\
                128166372003061639,src1,1,Write,8192,512,1\n";
    let rows = [(0, Read, 1000, 4096, 1, Some(5_000)), (1_000, Write, 8192, 512, 1, Some(100))];
    holds("msr", text, &rows);
    let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    holds("msr", &format!("{header}{text}"), &rows);
    assert_eq!(raw(text.as_bytes(), None).expect("raw")[0].at.0, 12_816_637_200_306_162_900);
}

#[test]
fn systor() {
    let text = "Timestamp,Response,IOType,LUN,Offset,Size\n\
                1456095145.133076000,0.000806000,R,0,4096,131072\n\
                1456095145.126285000,,W,3,8192,512\n";
    let rows = [(0, Write, 8192, 512, 3, None), (6_791_000, Read, 4096, 131_072, 0, Some(806_000))];
    holds("systor", text, &rows);
}

#[test]
fn systor_lines_with_empty_fields_are_left_out_and_counted() {
    let text = b"Timestamp,Response,IOType,LUN,Offset,Size\n\
                 1.0,0.1,R,0,4096,512\n1.1,0.1,,0,4096,512\n1.2,0.1,R,0,,\n1.3,,,,,\n\
                 Timestamp,Response,IOType,LUN,Offset,Size\n1.4,0.1,W,0,0,512\n";
    let mut reader = reader(text, None).expect("detected");
    let mut requests = Vec::new();
    while reader.read(&mut requests, 100).expect("readable") {}
    assert_eq!(requests.len(), 2);
    assert_eq!(reader.skipped().incomplete, 3);
    assert_eq!(reader.skipped().notes(), ["3 lines with empty fields were left out"]);
}

#[test]
fn alibaba() {
    let text = "419,W,8792731648,16384,1577808144360767\n725,R,59110326272,4096,1577808144360813\n";
    holds(
        "alibaba",
        text,
        &[
            (0, Write, 8_792_731_648, 16384, 419, None),
            (46_000, Read, 59_110_326_272, 4096, 725, None),
        ],
    );
}

#[test]
fn tencent() {
    let text = "1538323201,100,8,1,1063\n1538323200,8,16,0,1064\n";
    holds(
        "tencent",
        text,
        &[(0, Read, 4096, 8192, 1064, None), (1_000_000_000, Write, 51200, 4096, 1063, None)],
    );
}

/// First lines of libCacheSim's data/cloudPhysicsIO.csv, whose 113,872 requests last two hours.
#[test]
fn vscsi_text_of_libcachesim_is_in_seconds() {
    let text = "version,time,op,size,lbn\n1,5633898,2a,512,42932745\n1,5633899,28,6144,31954535\n\
                1,5633900,35,0,0\n";
    holds(
        "vscsi",
        text,
        &[
            (0, Write, 42_932_745 * 512, 512, 0, None),
            (1_000_000_000, Read, 31_954_535 * 512, 6144, 0, None),
            (2_000_000_000, Flush, 0, 0, 0, None),
        ],
    );
}

/// Times that cannot be seconds require a unit; it is not guessed.
#[test]
fn vscsi_text_in_microseconds_asks_for_the_unit() {
    let text = b"1,5633898611441,2a,512,8\n1,5633898611541,28,4096,16\n";
    assert_eq!(
        refused(text, None),
        "t, line 1: time is '5633898611441', which cannot be seconds\n\
         hint: give the unit of the times: --time-unit us"
    );
    let read = in_unit(text, TimeUnit::Us).expect("with its unit");
    assert_eq!(read[1].at.0, 100_000);
}

fn in_unit(bytes: &[u8], unit: TimeUnit) -> Result<Vec<Request>, TraceError> {
    let given = Given { time_unit: Some(unit), ..Given::default() };
    let reader = Reader::new(Cursor::new(bytes.to_vec()), "t", &given)?;
    drain(Trace::new(reader, Order::Window))
}

#[test]
fn the_unit_of_times_is_the_users_where_the_format_does_not_fix_it() {
    let alibaba = b"1,R,0,512,10\n1,R,512,512,20.5\n";
    for (unit, ns) in [
        (TimeUnit::S, 10_500_000_000),
        (TimeUnit::Ms, 10_500_000),
        (TimeUnit::Us, 10_500),
        (TimeUnit::Ns, 10),
    ] {
        assert_eq!(in_unit(alibaba, unit).expect("readable")[1].at.0, ns);
    }
    let own = b"at_ns,op,offset_bytes,bytes,device,response_ns\n0,read,4096,4096,1,50000\n";
    let error = in_unit(own, TimeUnit::Ms).expect_err("the column's name says it").to_string();
    assert!(error.starts_with("t: --time-unit ms: the unit of times in csv files"), "{error}");
}

/// Small numbers of microseconds fit 32 bits of seconds, but would be implausibly far apart for a
/// traced disk.
#[test]
fn vscsi_text_whose_seconds_would_be_too_long_asks_for_the_unit() {
    let lines = |step: u64| -> String {
        (0..100).map(|i| format!("1,{},28,4096,{}\n", 1_000_000 + i * step, i * 8)).collect()
    };
    let error = refused(lines(100_000).as_bytes(), None);
    assert!(error.starts_with("t, line 4: times of 4 requests span 300000 seconds"), "{error}");
    assert!(error.ends_with("hint: give the unit of the times: --time-unit us (or s)"), "{error}");
    let error = refused(lines(150).as_bytes(), None);
    assert!(error.starts_with("t, line 100: times of 100 requests span 14850 s"), "{error}");
    assert_eq!(in_unit(lines(150).as_bytes(), TimeUnit::S).expect("said so").len(), 100);
    assert_eq!(ordered(lines(9).as_bytes(), None).expect("seconds").len(), 100);
}

/// From the README of IOTTA 26930: seconds since the first request of all volumes.
#[test]
fn k5cloud() {
    let text = "1063,0.000102,R,4096,8192\n1063,0.500102,W,51200,512\n";
    let rows = [(0, Read, 4096, 8192, 1063, None), (500_000_000, Write, 51200, 512, 1063, None)];
    holds("k5cloud", text, &rows);
}

/// Columns by name, in any order; ids are sectors, as in oracleGeneral.
#[test]
fn libcachesim_with_a_header() {
    let rows =
        [(0, Write, 800 * 512, 4096, 0, None), (1_000_000_000, Read, 16 * 512, 512, 0, None)];
    holds("libcachesim", "clock_time,obj_id,obj_size,op\n7,800,4096,write\n8,16,512,get\n", &rows);
    holds("libcachesim", "op,obj_size,obj_id,time\n2a,4096,800,7\n28,512,16,8\n", &rows);
    holds("libcachesim", "\"time\";\"lbn\";\"size\";\"op\"\n7;800;4096;3\n8;16;512;1\n", &rows);
    let no_op = "# time,object,size,next_access_vtime\n7,800,4096,-1\n8,16,512,-1\n";
    holds(
        "libcachesim",
        no_op,
        &rows.map(|(at, _, place, len, disk, _)| (at, Read, place, len, disk, None)),
    );
    let note = "2 requests count as reads: this file has no operations";
    assert_eq!(notes(no_op.as_bytes()), [note]);
    let names = b"time,obj_id,obj_size\n1,user:17,512\n";
    assert!(
        refused(names, Some("libcachesim")).starts_with("t, line 2: obj_id is 'user:17'; must be")
    );
}

/// Chunks lie 16 MiB apart, in order of appearance.
#[test]
fn meta() {
    let header = "op_time,block_id,block_id_size,io_size,io_offset,user_name,user_namespace,op_name,op_count,\
                  host_name,rs_shard_id\n";
    let text = "1000,9,40,4096,8192,u,n,getChunkData.Permanent,1,h,0\n\
                1001,9,40,512,0,u,n,putChunk.NotInitialized,2,h,3\n\
                1002.5,9,40,4096,0,u,n,getChunkData.NotInitialized,1,h,0\n";
    let other_chunk = 16 << 20;
    let rows = [
        (0, Read, 8192, 4096, 0, None),
        (1_000_000_000, Write, other_chunk, 512, 0, None),
        (1_000_000_000, Write, other_chunk, 512, 0, None),
        (2_500_000_000, Read, 0, 4096, 0, None),
    ];
    holds("meta", &format!("{header}{text}"), &rows);
    holds("meta", text, &rows);
    let turned = "op,rs_shard_id,io_offset,io_size,block_id,op_time\ngetChunkData.Permanent,0,8192,4096,9,5\n";
    holds("meta", turned, &rows[..1]);
}

fn mapped(text: &str, columns: &str) -> Result<Vec<Request>, String> {
    let given = Given { columns: Some(ColumnMap::parse(columns)?), ..Given::default() };
    let reader = Reader::new(Cursor::new(text.as_bytes().to_vec()), "t", &given);
    reader.and_then(|reader| drain(Trace::new(reader, Order::Window))).map_err(|e| e.to_string())
}

#[test]
fn columns_that_the_user_names() {
    let rows = [
        (0, Read, 4096, 8192, 3, Some(50_000)),
        (1_500, Write, 512, 512, 3, None),
        (1_500, Flush, 0, 0, 3, None),
    ];
    let expected = rows.map(request);
    let columns = "time=ts:us,offset=lba:512,length=len:512,op=rw,device=disk,response=lat:ms";
    let text = "lba,ts,rw,len,disk,lat\n8,10,WS,16,3,0.05\n1,11.5,W,1,3,\n0,11.5,FF,0,3,\n";
    let text = text.replace("10,WS", "10,RS");
    assert_eq!(mapped(&text, columns).expect("readable"), expected);
    assert_eq!(mapped(&text.replace(',', "\t"), columns).expect("readable"), expected);
    // Column numbers if there is no header; drivebay's own columns keep their names.
    let bare = "8,10,R,16\n1,11.5,W,1\n";
    let numbers = "time=2:us,offset=1:512,length=4:512,op=3";
    assert_eq!(mapped(bare, numbers).expect("readable").len(), 2);
    assert_eq!(mapped(&bare.replace(',', ";"), numbers).expect("readable").len(), 2);
    let own = "ts,lba,bytes,op\n5,8,512,read\n";
    assert_eq!(mapped(own, "time=ts,offset=lba:512").expect("readable")[0].offset_bytes, 4096);
    let flag = "ts,offset,bytes,is_write\n5,0,512,false\n5,0,512,true\n";
    let ops = mapped(flag, "time=ts,op=is_write:false").expect("readable");
    assert_eq!((ops[0].op, ops[1].op), (Read, Write));
    for (columns, what) in [
        ("time", "--columns: 'time' is not FIELD=COLUMN\nhint: --columns time="),
        ("when=ts", "--columns: 'when' is not a field; must be one of time, offset, length, op,"),
        ("time=ts:h", "--columns: 'h' is not a unit of time; must be s, ms, us, ns or a number"),
        ("offset=lba:0", "--columns: '0' is not a unit of offset; must be a number of bytes"),
        ("offset=", "--columns: 'offset=' names no column"),
        ("device=d:1", "--columns: 'device=d:1': a device has no unit"),
        (
            "time=at,offset=lba",
            "t, line 1: no column is named at; this line has 'ts', 'lba', 'bytes', 'op'",
        ),
        ("time=bytes,offset=lba,op=ts", "t, line 2: the operation is '5'\nhint: give the word"),
    ] {
        let error = mapped(own, columns).expect_err("refused");
        assert!(error.starts_with(what), "{columns}: {error}");
    }
    let fraction =
        mapped("time,offset,length,op\n0.5,0,512,r\n", "time=time").expect_err("of what?");
    assert!(
        fraction.starts_with("t, line 2: time is '0.5', which is not a whole number\nhint: give")
    );
}

/// Records of libCacheSim's data/cloudPhysicsIO.oracleGeneral.bin, made from the same trace as its
/// CSV.
#[test]
fn oracle_general() {
    let record = |at: u32, id: u64, bytes: u32, next: i64| {
        let mut record = at.to_le_bytes().to_vec();
        record.extend(id.to_le_bytes());
        record.extend(bytes.to_le_bytes());
        record.extend(next.to_le_bytes());
        record
    };
    let start = [
        record(5_633_898, 42_932_745, 512, -1),
        record(5_633_899, 6_160_447, 4096, 19),
        record(5_633_899, u64::MAX, 4096, i64::MAX),
    ]
    .concat();
    let reader = reader(&start, None).expect("detected");
    assert_eq!(reader.format().name(), "oracle-general");
    let rows = [
        (0, Read, 42_932_745 * 512, 512, 0, None),
        (1_000_000_000, Read, 6_160_447 * 512, 4096, 0, None),
        // A hash, not a sector: modulo 2^53 sectors.
        (1_000_000_000, Read, ((1 << 53) - 1) * 512, 4096, 0, None),
    ];
    assert_eq!(ordered(&start, None).expect("readable"), rows.map(request));
    let cut = [&start[..], &start[..9]].concat();
    let error = refused(&cut, Some("oracle-general"));
    assert!(error.starts_with("t, record 4: has 9 bytes; must be 24"), "{error}");
    let mut backward = start.clone();
    backward[16] = 0;
    assert!(refused(&backward[..24 * 2], None).contains("is of no known format"));
}

fn vscsi_record(version: u8, command: u16, bytes: u32, sector: u64, us: u64) -> Vec<u8> {
    let mut record = vec![0; 4];
    record.extend(bytes.to_le_bytes());
    record.extend([1, 0, 0, 0]);
    record.extend(command.to_le_bytes());
    record.extend([0, version]);
    record.extend(sector.to_le_bytes());
    record.extend(us.to_le_bytes());
    record
}

#[test]
fn vscsi_binary() {
    let both =
        [vscsi_record(1, 0x2a, 512, 8, 1_000), vscsi_record(1, 0x28, 4096, 16, 1_100)].concat();
    let rows = [(0, Write, 4096, 512, 0, None), (100_000, Read, 8192, 4096, 0, None)];
    let expected = rows.map(request);
    assert_eq!(reader(&both, None).expect("detected").format().name(), "vscsi-binary");
    assert_eq!(ordered(&both, None).expect("readable"), expected);
    let cut = [&both[..], &both[..9]].concat();
    assert!(
        refused(&cut, Some("vscsi-binary"))
            .starts_with("t, record 3: has 9 bytes; must be 32\nhint: ")
    );
    let mixed = [&both[..], &vscsi_record(2, 0x28, 1, 1, 1)].concat();
    assert!(
        refused(&mixed, Some("vscsi-binary")).starts_with("t, record 3: the record's version is 2")
    );
    let far = [&both[..], &vscsi_record(1, 0x28, 1, u64::MAX, 1)].concat();
    assert!(
        refused(&far, Some("vscsi-binary")).starts_with("t, record 3: the sector is too large")
    );
}

#[test]
fn spc() {
    let text = "0,303567,3584,w,0.000000\n1,55590,3072,R,0.026214\n";
    holds(
        "spc",
        text,
        &[
            (0, Write, 303_567 * 512, 3584, 0, None),
            (26_214_000, Read, 55_590 * 512, 3072, 1, None),
        ],
    );
}

#[test]
fn mqsim_and_disksim() {
    let rows = [(0, Read, 4096, 4096, 0, None), (1_000, Write, 512, 512, 2, None)];
    holds("mqsim", "5000 0 8 8 1\n6000 2 1 1 0\n", &rows);
    holds("disksim", "0.005000 0 8 8 1\n0.006000 2 1 1 0\n", &rows);
}

#[test]
fn fiu() {
    let text = "89966 4892 syslogd 904 8 W 6 0 531e77\n89967 4253 nfsd 508121 16 R 8 1 795b,ff\n";
    let rows = [
        (0, Write, 904 * 512, 4096, 6 << 20, None),
        (1, Read, 508_121 * 512, 8192, 8 << 20 | 1, None),
    ];
    holds("fiu", text, &rows);
}

#[test]
fn the_reason_for_a_format_is_told_with_the_assumed_unit() {
    let why = |text: &str| reader(text.as_bytes(), None).expect("detected").why().to_string();
    assert_eq!(why("1538323201,100,8,1,1063\nx\n"), "1 of 2 lines fit");
    let unit = "1 of 1 lines fit; times taken for milliseconds: --time-unit";
    assert_eq!(why("0.000000000 0 0 8 0\n"), unit);
    assert_eq!(why("fio version 3 iolog\n"), "by its first line");
    let given = reader(b"1 0 0 8 0\n", Some("disksim")).expect("given");
    assert!(given.why().starts_with("as given; times taken for milliseconds"));
}

#[test]
fn text_that_is_no_trace_of_requests_and_text_of_two_formats_is_refused() {
    for (text, what) in [
        ("503, 564192, 1, 0, 0\n1000, 591263, 1, 0, 0\n", "is a log of fio's rates or latencies"),
        ("503,564192,0,4096\nx\n999,1,1,4096\n", "is a log of fio's rates or latencies"),
        ("{\"timestamp\": 0, \"hash_ids\": [1]}\n", "is Mooncake's trace"),
        ("Timestamp,Operation,Object_Size_Bytes,Tier,Key,Phase\n", "is a trace of a KV cache"),
        ("1,100,28,1,5\n", "fits two formats: tencent (1 lines) and vscsi (1)"),
    ] {
        let error = refused(text.as_bytes(), None);
        assert!(error.starts_with(&format!("t: {what}")), "{error}");
    }
}

#[test]
fn padding_after_gzip_is_ignored() {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut gzip, b"1,h,0,Read,0,512,1\n").expect("in memory");
    let member = gzip.finish().expect("in memory");
    let padded = [&member[..], &[0; 700], &member[..], &[0; 3]].concat();
    assert_eq!(raw(&padded, None).expect("padded").len(), 2);
    let rubbish = [&member[..], b"\0rubbish"].concat();
    assert!(refused(&rubbish, None).contains("the compressed data are damaged"));
}

#[test]
fn microseconds_that_are_all_whole_milliseconds_are_pointed_out() {
    let iolog = |step_us: u64| {
        let lines: Vec<_> = (1..=100).map(|i| format!("{} x read 0 4096", i * step_us)).collect();
        format!("fio version 3 iolog\n{}\n", lines.join("\n"))
    };
    let note = "100 requests have times of whole milliseconds: if these are nanoseconds, give \
                --time-unit ns";
    assert_eq!(notes(iolog(1_000_000).as_bytes()), [note]);
    assert!(notes(iolog(1_001).as_bytes()).is_empty());
    let rows = in_unit(iolog(1_000_000).as_bytes(), TimeUnit::Ns).expect("in ns");
    assert_eq!(rows[99].at.0 - rows[0].at.0, 99_000_000);
}

#[test]
fn biosnoop_with_the_pattern() {
    let text = "TIME(s)     COMM           PID     DISK      T SECTOR     BYTES  P LAT(ms)
11.269319   kworker/u16:4  2784813 vda       W 113638304  8192   R    5.49
11.270254   kworker/u16:4  2784813 vda       W 114100936  425984 ?    6.68
";
    let rows = [
        (0, Write, 114_100_936 * 512, 425_984, 0, Some(6_680_000)),
        (255_000, Write, 113_638_304 * 512, 8192, 0, Some(5_490_000)),
    ];
    holds("biosnoop", text, &rows);
}

#[test]
fn iosnoop_with_and_without_times() {
    let lines = "\
5982800.302061 5982800.302679 supervise        1809   W    202,1    17039600     4096       0.62
5982800.302423 5982800.302842 jbd2 xvda1       212    WS   202,1    17039608     512        0.42
5982800.309206 5982800.309206 flush            1      FF   202,16   0            0          0.00
";
    let head = "Tracing block I/O. Ctrl-C to end.\nSTARTs         ENDs           COMM    PID    TYPE \
                DEV      BLOCK        BYTES     LATms\n";
    let rows = [
        (0, Write, 17_039_600 * 512, 4096, 0, Some(618_000)),
        (362_000, Write, 17_039_608 * 512, 512, 0, Some(419_000)),
        (7_145_000, Flush, 0, 0, 1, Some(0)),
    ];
    holds("biosnoop", &format!("{head}{lines}\nEnding tracing...\n"), &rows);
    let without = |columns: &[usize], names: &[&str]| {
        let head = names.iter().fold(head.to_string(), |head, name| head.replace(name, ""));
        let lines = lines.lines().map(|line| {
            let words = line.split(' ').enumerate().filter(|(n, _)| !columns.contains(n));
            words.map(|(_, word)| word).collect::<Vec<_>>().join(" ") + "\n"
        });
        head + &lines.collect::<String>()
    };
    let rounded = |at: [u64; 3]| {
        let [one, two, three] = rows;
        let row = |row: (u64, _, _, _, _, _), at, response| {
            (at, row.1, row.2, row.3, row.4, Some(response))
        };
        [row(one, at[0], 620_000), row(two, at[1], 420_000), row(three, at[2], 0)]
    };
    holds("biosnoop", &without(&[1], &["ENDs"]), &rounded([0, 362_000, 7_145_000]));
    holds("biosnoop", &without(&[0], &["STARTs"]), &rounded([0, 363_000, 7_147_000]));
    let plain = without(&[0, 1], &["STARTs", "ENDs"]);
    holds("biosnoop", &plain, &rounded([0; 3]));
    assert_eq!(
        notes(plain.as_bytes()),
        ["3 requests have no times: this format has only their order and pauses"]
    );
    let headless = refused(lines.as_bytes(), Some("biosnoop"));
    assert!(headless.contains("T is '202,1'; must be letters"), "{headless}");
}

/// It lacks the columns that a replay needs.
#[test]
fn bpftraces_biosnoop_is_refused_with_the_reason() {
    let text = b"Attaching 4 probes...
TIME(ms)     DISK ID        COMM             PID    LAT(ms)
             MAJOR MINOR
611          259   0        bash             4179        10
";
    let error = refused(text, None);
    assert!(error.starts_with("t, line 2: these are lines of bpftrace's biosnoop.bt"), "{error}");
    assert!(
        error.contains(
            "neither its operation nor its address nor its size\nhint: record with bcc's"
        )
    );
}

#[test]
fn biosnoop() {
    let text = "TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  LAT(ms)
0.001000    Web Content    1950   nvme0n1   W 8          4096      1.00
0.002000    jbd2/sda1-8    300    sda       R 16         512       0.50
";
    let rows = [
        (0, Write, 4096, 4096, 0, Some(1_000_000)),
        (1_500_000, Read, 8192, 512, 1, Some(500_000)),
    ];
    holds("biosnoop", text, &rows);
    let queued = text
        .replace("LAT(ms)", "QUE(ms) LAT(ms)")
        .replace(" 1.00\n", " 9.00 1.00\n")
        .replace(" 0.50\n", " 9.00 0.50\n");
    holds("biosnoop", &queued, &rows);
}

#[test]
fn etw() {
    let text = "BeginHeader
          DiskRead,  TimeStamp,     Process Name ( PID),   ThreadID,             IrpPtr,   ByteOffset,     IOSize, ElapsedTime,  DiskNum, IrpFlags, DiskSvcTime, I/O Pri,  VolSnap,  FileObject, FileName
EndHeader
OS Version: 10.0.19041, Trace Size: 12KB
      DiskReadInit,        900,     System (   4),         12, 0xffffb
          DiskRead,       1000,     System (   4),         12, 0xffffb, 0x000001000, 0x00001000,         100,        0, 0x060043,          90,  Normal,  , 0xffff, \"C:\\x\"
         DiskWrite,       1300,     a, b.exe (1234),       12, 0xffffb, 0x000002000, 0x00000200,          50,        1, 0x060043,          40,  Normal,  , 0xffff, \"C:\\y\"
         DiskFlush,       1400,     System (   4),         12, 0xffffb,          10,        0
";
    holds(
        "etw",
        text,
        &[(0, Read, 4096, 4096, 0, Some(100_000)), (350_000, Write, 8192, 512, 1, Some(50_000))],
    );
}

#[test]
fn iolog() {
    let text = "fio version 3 iolog
1 /dev/x add
1 /dev/x open
1 /dev/x read 0 4096
501 /dev/x write 4096 512
502 /dev/x datasync 0 0
600 /dev/y trim 0 65536
601 /dev/x close
";
    holds(
        "iolog",
        text,
        &[
            (0, Read, 0, 4096, 0, None),
            (500_000, Write, 4096, 512, 0, None),
            (501_000, Flush, 0, 0, 0, None),
            (599_000, Trim, 0, 65536, 1, None),
        ],
    );
}

/// Version 2 has no times except its waits, which count milliseconds from the beginning.
#[test]
fn iolog_of_version_2() {
    let text = "fio version 2 iolog
/dev/x add
/dev/y add
/dev/x open
/dev/x read 0 4096
/dev/y write 8192 512
/dev/x wait 2 0
/dev/x sync 0 0
/dev/x wait 5 0
/dev/x wait 3 0
/dev/x trim 0 65536
/dev/x close
";
    let rows = [
        (0, Read, 0, 4096, 0, None),
        (0, Write, 8192, 512, 1, None),
        (2_000_000, Flush, 0, 0, 0, None),
        (5_000_000, Trim, 0, 65536, 0, None),
    ];
    holds("iolog", text, &rows);
    let note = "4 requests have no times: this format has only their order and pauses";
    assert_eq!(notes(text.as_bytes()), [note]);
    let other = b"fio version 4 iolog\n1 x read 0 4096\n";
    assert!(refused(other, None).starts_with("t, line 1: iolog version '4'; must be 2 or 3"));
    let bare = b"1 x read 0 4096\n";
    assert!(refused(bare, Some("iolog")).contains("comes before the line: fio version 3 iolog"));
}

#[test]
fn csv() {
    let text = "at_ns,op,offset_bytes,bytes,device,response_ns\n\
                5,read,0,4096,0,100\n7,flush,0,0,1,\n9,trim,512,512,1,3\n9,write,0,1,0,\n";
    holds(
        "csv",
        text,
        &[
            (0, Read, 0, 4096, 0, Some(100)),
            (2, Flush, 0, 0, 1, None),
            (4, Trim, 512, 512, 1, Some(3)),
            (4, Write, 0, 1, 0, None),
        ],
    );
}

/// Format, invalid line (followed by a valid one), and the expected message.
const DIRT: &[(&str, &str, &str)] = &[
    ("msr", "1,h,0,Read,-4096,512,1", "Offset is negative ('-4096')"),
    ("msr", "1,h,0,Read,99999999999999999999,512,1", "Offset is too large"),
    (
        "msr",
        "1,h,0,Read,9223372036854775807,512,1",
        "offset 9223372036854775807 and 512 bytes lie beyond",
    ),
    ("msr", "1,h,0,Read,0,4294967296,1", "a read of 4294967296 bytes is too long"),
    ("msr", "1,h,0,Read,0,,1", "Size is empty"),
    ("msr", "1,h,0,Reed,0,512,1", "the operation is 'Reed'"),
    ("msr", "1,h,0,Read,0,512", "6 columns in '1,h,0,Read,0,512'; must be 7: Timestamp,"),
    ("msr", "-1,h,0,Read,0,512,1", "Timestamp is negative"),
    ("msr", "999999999999999999,h,0,Read,0,512,1", "Timestamp is too large"),
    ("msr", "1,h,0,Read,0,512,99999999999999999", "the response time is longer"),
    ("msr", "1,h,4294967296,Read,0,512,1", "DiskNumber is too large"),
    ("msr", "\x01\x02\x03", "1 columns in '???'"),
    ("systor", "1.5,0.1,X,0,0,512", "the operation is 'X'"),
    ("systor", "1.5.5,0.1,R,0,0,512", "Timestamp is '1.5.5'"),
    ("systor", "1.5,-0.1,R,0,0,512", "Response is negative"),
    ("alibaba", "1,R,0,512", "4 columns"),
    ("alibaba", "1,R,0,512,1e9", "timestamp is '1e9'"),
    ("tencent", "1,0,8,2,1", "the operation is '2'; must be 0 (read) or 1 (write)"),
    ("tencent", "1,99999999999999999,8,0,1", "offset is too large"),
    ("vscsi", "3,1,28,512,8", "version is '3'"),
    ("vscsi", "1,1,xx,512,8", "the operation is 'xx'"),
    ("spc", "0,1,512,r,", "Timestamp is empty"),
    ("mqsim", "1.5 0 8 8 1", "time is '1.5'"),
    ("mqsim", "1 0 8 8", "4 columns"),
    ("mqsim", "1 0 8 8 2", "type is '2'"),
    ("disksim", "x 0 8 8 1", "time is 'x'"),
    ("blkparse", "8,0 1 1 0.5 7 D R 100", "'8,0 1 1 0.5 7 D R 100' has no number of sectors"),
    ("blkparse", "8,0 1 1", "'8,0 1 1' has too few words"),
    ("blkparse", "80 1 1 0.5 7 D R 100 + 8 [x]", "the device is '80'"),
    ("blkparse", "8,0 1 1 0.5 7 D R -100 + 8 [x]", "the sector is negative"),
    ("blkparse", "8,0 1 1 0.5 7 %% R 100 + 8 [x]", "the action is '%%'"),
    ("blkparse", "\u{1}\u{2}", "the device is '??'"),
    ("ftrace", "x-1 [0] 1.0: block_rq_issue: 8,0 R 4096 () 100 +", "has no sector + count"),
    ("ftrace", "x-1 [0] 1.0: block_rq_issue: 8,0 R 4", "'8,0 R 4' is cut off"),
    ("ftrace", "x-1 [0] 1.0: block_rq_issue", "is not a line of a trace"),
    ("ftrace", "x-1 [0] noon: block_rq_issue: 8,0 R 4096 () 0 + 8 [x]", "the time is 'noon'"),
    ("ftrace", "\u{1}\u{2}", "'??' is not a line of a trace"),
    ("biosnoop", "1.0 x 1 sda R 8 4096", "PID is 'x'"),
    ("biosnoop", "1.0 x 1 sda Q 8 4096 1.0", "T is 'Q'"),
    ("biosnoop", "noise", "'noise' has too few words"),
    ("etw", "DiskRead, 5, System ( 4), 1, 0x1, 0x0, 0x200", "is cut off"),
    ("etw", "DiskRead, 5, System ( 4), 1, 0x1, 0xzz, 0x200, 1, 0, ", "ByteOffset is '0xzz'"),
    ("etw", "\u{1}\u{2}", "'??' is not text"),
    ("iolog", "1 x read 0", "'1 x read 0' is not an action"),
    ("iolog", "x read 0 4096", "timestamp is 'x'"),
    ("iolog", "1 x read -1 4096", "offset is negative"),
    ("k5cloud", "1,0.5,X,0,512", "the operation is 'X'; must be R or W"),
    ("libcachesim", "1,8", "2 columns in '1,8'; must be 3 or more"),
    ("meta", "5,9,40,512,0,u,n,getPhoto,1,h,0", "the operation is 'getPhoto'"),
    ("meta", "5,9,40,512,0,u,n,putChunk,99999,h,0", "op_count is 99999; must be 10000 or less"),
    ("csv", "1,erase,0,512,0,", "the operation is 'erase'"),
    ("csv", "1,read,0,512,0", "5 columns"),
];

fn clean(format: &str) -> &'static str {
    match format {
        "msr" => "1,h,0,Read,0,512,1\n",
        "systor" => "1.5,0.1,R,0,0,512\n",
        "alibaba" => "1,R,0,512,1\n",
        "tencent" => "1,0,8,0,1\n",
        "vscsi" => "1,1,28,512,8\n",
        "spc" => "0,1,512,r,0.5\n",
        "mqsim" => "1 0 8 8 1\n",
        "disksim" => "1.5 0 8 8 1\n",
        "blkparse" => "8,0 1 1 0.5 7 D R 100 + 8 [x]\n",
        "ftrace" => "x-1 [0] 1.0: block_rq_issue: 8,0 R 4096 () 100 + 8 [x]\n",
        "biosnoop" => "1.0 x 1 sda R 8 4096 1.0\n",
        "etw" => "DiskRead, 5, System ( 4), 1, 0x1, 0x0, 0x200, 1, 0, 0x0\n",
        "iolog" => "fio version 3 iolog\n1 x read 0 512\n",
        "csv" => "1,read,0,512,0,\n",
        "k5cloud" => "1,0.5,R,0,512\n",
        "libcachesim" => "time,obj_id,obj_size\n1,8,512\n",
        "meta" => "5,9,40,512,0,u,n,getChunkData.Temp,1,h,0\n",
        other => panic!("{other} has no clean line here"),
    }
}

#[test]
fn a_bad_line_is_refused_with_its_number_and_a_hint() {
    for (format, bad, message) in DIRT {
        let good = clean(format);
        let number = good.lines().count() + 1;
        let text = format!("{good}{bad}\n{}", good.lines().last().expect("a line"));
        for given in [None, Some(*format)] {
            let error = refused(text.as_bytes(), given);
            let (what, hint) = error.split_once("\nhint: ").expect("a hint");
            assert!(what.starts_with(&format!("t, line {number}: ")), "{format}: {error}");
            assert!(what.contains(message), "{format}: {error}");
            assert!(!hint.is_empty() && !error.contains('\0'));
        }
    }
}

#[test]
fn a_line_that_is_cut_off_by_the_files_end_says_so() {
    for (format, bad, _) in DIRT {
        if *format == "mqsim" || bad.starts_with('\u{1}') {
            continue;
        }
        let error = refused(format!("{}{bad}", clean(format)).as_bytes(), Some(format));
        assert!(error.contains("hint: the file ends in the middle of that line"), "{error}");
    }
}

#[test]
fn times_that_go_back_are_sorted_and_alike_ones_keep_their_order() {
    let text = b"30,h,0,Read,1,1,0\n10,h,0,Read,2,1,0\n20,h,0,Read,3,1,0\n10,h,0,Read,4,1,0\n";
    let offsets: Vec<_> =
        ordered(text, None).expect("sorted").iter().map(|r| r.offset_bytes).collect();
    assert_eq!(offsets, [2, 4, 3, 1]);
}

#[test]
fn requests_of_no_bytes_are_left_out_and_counted() {
    let mut reader = reader(b"1,h,0,Read,0,0,1\n1,h,0,Read,0,512,1\n", None).expect("msr");
    let mut requests = Vec::new();
    while reader.read(&mut requests, 10).expect("readable") {}
    assert_eq!((requests.len(), reader.skipped().no_bytes), (1, 1));
}

#[test]
fn files_that_hold_nothing() {
    for (bytes, message) in [
        (&b""[..], "t: is empty\nhint: "),
        (b"\n\n\n", "t: is of no known format; it begins with ''\nhint: "),
        (b"hello, world\n", "t: is of no known format; it begins with 'hello, world'\nhint: "),
        (b"\x00\x01\xff\xfe binary \x00", "t: is of no known format; it begins with '"),
        (b"\xff\xfe1\x00,\x00", "t: is of no known format; it begins with '1,'\nhint: "),
        (b"Timestamp,Response,IOType,LUN,Offset,Size\n", "t: holds no request, read as systor"),
        (b"at_ns,op,offset_bytes,bytes,device,response_ns\n", "t: holds no request, read as csv"),
        (b"8,16 1 1 0.5 7 Q WS 8 + 8 [dd]\n", "t: holds no request, read as blkparse"),
        (
            b"TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)\n",
            "t: holds no request, read as biosnoop",
        ),
        (b"time,obj_id,obj_size\n", "t: holds no request, read as libcachesim"),
        (b"\x07tae\x01\0\0\0", "t: is blktrace's recording of one processor\nhint: blkparse -i"),
        (b"PERFILE2\x68\0", "t: is perf's recording\nhint: perf script"),
        (b"\x17\x08\x44tracing6\0", "t: is trace-cmd's recording\nhint: trace-cmd report"),
        (b"fio version 3 iolog\n", "t: holds no request, read as iolog\nhint: "),
        (&[0x1f, 0x8b, 8], "t: the compressed data are damaged or cut short after line 0"),
        (&[0x28, 0xb5, 0x2f, 0xfd, 1, 2, 3], "t: the compressed data are damaged or cut short"),
        (b"BZh9rubbish", "t: the compressed data are damaged or cut short"),
    ] {
        let error = refused(bytes, None);
        assert!(error.starts_with(message), "{error}");
    }
    let header = b"Timestamp,Response,IOType,LUN,Offset,Size\n";
    assert!(refused(header, Some("systor")).starts_with("t: holds no request, read as systor"));
    let long = vec![b'1'; 100_000];
    assert!(refused(&long, Some("msr")).starts_with("t, line 1: is longer than 65536 bytes"));
}

#[test]
fn a_format_that_is_unknown_is_refused_with_the_list() {
    let error = drivebay_trace::Format::parse("mrs").expect_err("unknown");
    assert!(matches!(error, TraceError::UnknownFormat(_)));
    assert!(error.to_string().starts_with("format 'mrs' is unknown; must be one of msr, systor, "));
}
