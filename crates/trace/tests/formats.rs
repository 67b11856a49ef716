//! Each format on a few lines, detected and named; then every kind of dirt, refused with its place or
//! left out and counted.

use std::io::Cursor;

use crate::support::{drain, ordered, raw, reader, request};
use drivebay_trace::Op::{Flush, Read, Trim, Write};
use drivebay_trace::{Op, Order, Reader, Request, TimeUnit, Trace, TraceError};

type Row = (u64, Op, u64, u64, u32, Option<u64>);

/// Read by detection and by name, in order of time from 0.
fn holds(format: &str, text: &str, rows: &[Row]) {
    let expected: Vec<_> = rows.iter().map(|row| request(*row)).collect();
    let detected = reader(text.as_bytes(), None).expect("detected").format().name();
    assert_eq!(detected, format);
    for format in [None, Some(format)] {
        assert_eq!(ordered(text.as_bytes(), format).expect("readable"), expected);
    }
    // Other line ends, a mark, blank lines, no end of the last line: all the same.
    let windows = text.replace('\n', "\r\n");
    let marked = format!("\u{feff}{}", text.trim_end());
    let blank = text.replace('\n', "\n\n");
    let mixed = text.replacen('\n', "\r", 1);
    for text in [windows, marked, blank, mixed] {
        assert_eq!(ordered(text.as_bytes(), None).expect("readable"), expected, "{text:?}");
    }
}

fn refused(bytes: &[u8], format: Option<&str>) -> String {
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

/// The first lines of libCacheSim's data/cloudPhysicsIO.csv, whose 113,872 requests last two hours.
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

/// What cannot be seconds is no guess of ours.
#[test]
fn vscsi_text_in_microseconds_asks_for_the_unit() {
    let text = b"1,5633898611441,2a,512,8\n1,5633898611541,28,4096,16\n";
    assert_eq!(
        refused(text, None),
        "t, line 1: time is '5633898611441', which are no seconds\n\
         hint: say in which unit the times are: --time-unit us"
    );
    let read = in_unit(text, TimeUnit::Us).expect("with its unit");
    assert_eq!(read[1].at.0, 100_000);
}

fn in_unit(bytes: &[u8], unit: TimeUnit) -> Result<Vec<Request>, TraceError> {
    let reader = Reader::new(Cursor::new(bytes.to_vec()), "t", None, Some(unit))?;
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
    assert!(error.starts_with("t: --time-unit ms: csv files say themselves"), "{error}");
}

/// Records of libCacheSim's data/cloudPhysicsIO.oracleGeneral.bin, made of the same trace as its CSV.
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
fn blkparse() {
    let text = "  8,0    3        1     0.000000000   697  Q   W 223490 + 8 [kjournald]
  8,0    3        2     0.000001000   697  G   W 223490 + 8 [kjournald]
  8,0    3        3     0.000010000   697  D   W 223490 + 8 [kjournald]
  8,0    3        4     0.000030000   697  D  RS 64 + 16 [fio job]
  8,0    1        5     0.000110000     0  C   W 223490 + 8 [0]
  8,0    1        6     0.000115000     0  C  RS 64 + 16 [0]
  8,0    1        7     0.000120000   697  D   D 0 + 2048 [fstrim]
  8,0    1        8     0.000130000   697  D  FN [kworker/0:1H]
  8,0    1        9     0.000140000     0  m   N cfq697S slice expired
  8,0    1       10     0.000150000     0  C   D 0 + 2048 [0]
  8,16   1       11     0.000160000     0  D   N 0 (12 00 00) [smartctl]
CPU0 (8,0):
 Reads Queued:           0,        0KiB\t Writes Queued:           1,        4KiB
Total (8,0):
Throughput (R/W): 0KiB/s / 4KiB/s
Events (8,0): 9 entries
Skips: 0 forward (0 -   0.0%)
";
    let device = 8 << 20;
    holds(
        "blkparse",
        text,
        &[
            (0, Write, 223_490 * 512, 4096, device, Some(100_000)),
            (20_000, Read, 64 * 512, 8192, device, Some(85_000)),
            (110_000, Trim, 0, 1 << 20, device, Some(30_000)),
        ],
    );
    let flush = "8,0 1 1 1.0 7 D FF 0 + 0 [x]\n8,0 1 2 1.5 0 C FF 0 [0]\n";
    holds("blkparse", flush, &[(0, Flush, 0, 0, device, Some(500_000_000))]);
}

#[test]
fn ftrace() {
    let text = "# tracer: nop
#
           fio-1234    [001] d..1.  1234.000010: block_rq_issue: 259,0 R 4096 () 2048 + 8 none,0,0 [fio]
           fio-1234    [001] .....  1234.000012: block_unplug: [fio] 1
 kworker/0:1H-99    [000] d..1.  1234.000020: block_rq_issue: 259,0 FF 0 () 18446744073709551615 + 0 none,0,0 [kworker/0:1H]
CPU:1 [LOST 12 EVENTS]
        <idle>-0       [001] d.h..  1234.000110: block_rq_complete: 259,0 R () 2048 + 8 none,0,0 [0]
        <idle>-0       [001] d.h..  1234.000120: block_rq_complete: 259,0 FF () 18446744073709551615 + 0 none,0,0 [0]
        <idle>-0       [001] d.h..  1234.000130: block_rq_complete: 259,0 W () 77 + 8 none,0,0 [0]
           my app-5    [001]  1234.000200: block_rq_issue:       259,0 WFS 512 () 1 + 1 [my app]
";
    let device = 259 << 20;
    let rows = [
        (0, Read, 2048 * 512, 4096, device, Some(100_000)),
        (10_000, Flush, 0, 0, device, Some(100_000)),
        (190_000, Write, 512, 512, device, None),
    ];
    // trace-cmd pads the event's name with blanks.
    holds("ftrace", text, &rows);
    let mut reader = reader(text.as_bytes(), None).expect("detected");
    while reader.read(&mut Vec::new(), 100).expect("readable") {}
    assert_eq!((reader.skipped().lost, reader.skipped().unmatched), (12, 1));
}

#[test]
fn requests_alike_are_matched_oldest_first() {
    let line = |ms: u32, action: &str| format!("8,0 0 1 0.00{ms} 1 {action} R 8 + 8 [x]\n");
    let text = [line(1, "D"), line(2, "D"), line(5, "C"), line(7, "C"), line(8, "C")].concat();
    let responses: Vec<_> = raw(text.as_bytes(), None)
        .expect("readable")
        .iter()
        .map(|r| r.response.map(|t| t.0))
        .collect();
    assert_eq!(responses, [Some(4_000_000), Some(5_000_000)]);
}

#[test]
fn an_issue_that_never_completes_does_not_hold_the_rest_back() {
    use std::fmt::Write as _;
    let mut text = String::from("8,0 0 1 0.0 1 D R 8 + 8 [x]\n");
    for i in 0..100_000 {
        writeln!(text, "8,0 0 1 {i}.1 1 D W {} + 8 [x]", 100 + i * 8).expect("in memory");
    }
    let requests = ordered(text.as_bytes(), Some("blkparse")).expect("readable");
    assert_eq!(requests.len(), 100_001);
    assert!(requests.iter().all(|request| request.response.is_none()));
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
    let old = b"fio version 2 iolog\n/dev/x add\n/dev/x open\n/dev/x read 0 4096\n";
    assert!(refused(old, None).starts_with("t, line 1: iolog version 2 has no times"));
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

/// A line after which another comes, and what is said of it.
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
    ("msr", "1,h,0,Reed,0,512,1", "the kind of request is 'Reed'"),
    ("msr", "1,h,0,Read,0,512", "6 columns in '1,h,0,Read,0,512'; must be 7: Timestamp,"),
    ("msr", "-1,h,0,Read,0,512,1", "Timestamp is negative"),
    ("msr", "999999999999999999,h,0,Read,0,512,1", "Timestamp is too large"),
    ("msr", "1,h,0,Read,0,512,99999999999999999", "the response time is longer"),
    ("msr", "1,h,4294967296,Read,0,512,1", "DiskNumber is too large"),
    ("msr", "\x00\x01\x02", "1 columns in '???'"),
    ("systor", "1.5,0.1,X,0,0,512", "the kind of request is 'X'"),
    ("systor", "1.5.5,0.1,R,0,0,512", "Timestamp is '1.5.5'"),
    ("systor", "1.5,-0.1,R,0,0,512", "Response is negative"),
    ("alibaba", "1,R,0,512", "4 columns"),
    ("alibaba", "1,R,0,512,1e9", "timestamp is '1e9'"),
    ("tencent", "1,0,8,2,1", "the kind of request is '2'; must be 0 (read) or 1 (write)"),
    ("tencent", "1,99999999999999999,8,0,1", "offset is too large"),
    ("vscsi", "3,1,28,512,8", "version is '3'"),
    ("vscsi", "1,1,xx,512,8", "the kind of request is 'xx'"),
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
    ("ftrace", "x-1 [0] 1.0: block_rq_issue: 8,0 R 4", "'8,0 R 4' breaks off"),
    ("ftrace", "x-1 [0] 1.0: block_rq_issue", "is no line of a trace"),
    ("ftrace", "x-1 [0] noon: block_rq_issue: 8,0 R 4096 () 0 + 8 [x]", "the time is 'noon'"),
    ("ftrace", "\u{1}\u{2}", "'??' is no line of a trace"),
    ("biosnoop", "1.0 x 1 sda R 8 4096", "PID is 'x'"),
    ("biosnoop", "1.0 x 1 sda Q 8 4096 1.0", "T is 'Q'"),
    ("biosnoop", "noise", "'noise' has too few words"),
    ("etw", "DiskRead, 5, System ( 4), 1, 0x1, 0x0, 0x200", "breaks off"),
    ("etw", "DiskRead, 5, System ( 4), 1, 0x1, 0xzz, 0x200, 1, 0, ", "ByteOffset is '0xzz'"),
    ("etw", "\u{1}\u{2}", "'??' is no text"),
    ("iolog", "1 x read 0", "'1 x read 0' is no action"),
    ("iolog", "x read 0 4096", "timestamp is 'x'"),
    ("iolog", "1 x read -1 4096", "offset is negative"),
    ("csv", "1,erase,0,512,0,", "the kind of request is 'erase'"),
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
        (b"\xff\xfe1\x00,\x00", "t: is UTF-16; must be UTF-8 or ASCII\nhint: iconv"),
        (b"Timestamp,Response,IOType,LUN,Offset,Size\n", "t: is of no known format"),
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
    let error = drivebay_trace::Format::from_name("mrs").expect_err("unknown");
    assert!(matches!(error, TraceError::UnknownFormat(_)));
    assert!(error.to_string().starts_with("format 'mrs' is unknown; must be one of msr, systor, "));
}
