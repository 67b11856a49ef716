//! Tests of recordings of Linux's block layer: issues, completions, requeues, flushes, and foreign
//! lines.

use crate::formats::{holds, notes, refused};
use crate::support::{ordered, raw, reader};
use drivebay_trace::Op::{Flush, Read, Trim, Write};

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
            (120_000, Flush, 0, 0, device, None),
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

/// The same events, with the process separate from its number and the subsystem before the name.
#[test]
fn perf_script_is_read_as_ftrace() {
    let text = "     randread.pl  2522 [000]  6011.824759: block:block_rq_issue: 254,16 R 0 () 7322849 + 16 [randread.pl]
         swapper     0 [000]  6011.828913: block:block_rq_complete: 254,16 R () 7322849 + 16 [0]
         swapper     0 [000]  6011.829000:       block:block_rq_issue: 254,16 FF 0 () 0 + 0 be,0,4 [kworker/1:1H wq]
         swapper     0 [000]  6011.830000:    block:block_rq_complete: 254,16 FF () 18446744073709551615 + 0 none,0,0 [0]
";
    let device = 254 << 20 | 16;
    let rows = [
        (0, Read, 7_322_849 * 512, 8192, device, Some(4_154_000)),
        (4_241_000, Flush, 0, 0, device, Some(1_000_000)),
    ];
    holds("ftrace", text, &rows);
}

/// A busy driver requeues a request; it counts once, from the issue that was served.
#[test]
fn perf_traces_own_notation_is_read_as_ftrace() {
    let text =
        "     0.000 fio/4000 block:block_rq_issue(dev: 271581184, sector: 1000, nr_sector: 8, \
                bytes: 4096, rwbs: \"R\", comm: \"fio\", cmd: \"\")
     0.200 swapper/0 block:block_rq_complete(dev: 271581184, sector: 1000, nr_sector: 8, \
                rwbs: \"R\", cmd: \"\")
";
    holds("ftrace", text, &[(0, Read, 512_000, 4096, 271_581_184, Some(200_000))]);
}

#[test]
fn ftraces_events_of_nvme() {
    let text = "# tracer: nop
     fio-100   [000] ..... 10.000000: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=1, cmdid=0, nsid=1, \
                flags=0x0, meta=0x0, cmd=(nvme_cmd_read slba=1000, len=7, ctrl=0x0)
     fio-100   [000] ..... 10.000050: nvme_setup_cmd: nvme0: disk=nvme0n1, qid=2, cmdid=0, nsid=1, \
                flags=0x0, meta=0x0, cmd=(nvme_cmd_write slba=8, len=0, ctrl=0x0)
  <idle>-0     [000] d.h1. 10.000100: nvme_complete_rq: nvme0: disk=nvme0n1, qid=1, cmdid=0, res=0x0
  nvme-7       [000] ..... 10.000110: nvme_complete_rq: nvme0: qid=0, cmdid=0, res=0x0
";
    let rows = [(0, Read, 512_000, 4096, 0, Some(100_000)), (50_000, Write, 4096, 512, 0, None)];
    holds("ftrace-nvme", text, &rows);
    let note = "2 requests count blocks of the namespace, taken for 512 bytes each";
    assert_eq!(notes(text.as_bytes()), [note]);
}

#[test]
fn a_requeued_request_counts_once_from_its_last_issue() {
    let text = "  8,0    0        1     0.000000000   697  D   R 1000 + 64 [dd]
  8,0    0        2     0.000500000   697  R   R 1000 + 64 [0]
  8,0    0        3     0.001000000   697  D   R 1000 + 64 [dd]
  8,0    0        4     0.002000000     0  C   R 1000 + 64 [0]
  8,0    0        5     0.003000000    73  D  FN [kworker/12:0H]
  8,0    0        6     0.003001000    73  R  FN 0 [0]
  8,0    0        7     0.003500000    73  D  FN [kworker/12:0H]
  8,0    0        8     0.003600000     0  C  FN 0 [0]
  8,0    0        9     0.004000000     0  R   W 77 + 8 [0]
";
    let device = 8 << 20;
    let rows = [
        (0, Read, 1000 * 512, 64 * 512, device, Some(1_000_000)),
        (2_500_000, Flush, 0, 0, device, Some(100_000)),
    ];
    holds("blkparse", text, &rows);
    let note =
        "2 issues were requeued by the driver; their requests count once, from the last issue";
    assert_eq!(notes(text.as_bytes()), [note]);
    let ftrace = "dd-1 [000] 1.000000: block_rq_issue: 8,0 WS 512 () 8 + 1 [dd]
dd-1 [000] 1.000100: block_rq_issue: 8,0 WS 512 () 8 + 1 [dd]
dd-1 [000] 1.000200: block_rq_requeue: 8,0 WS () 8 + 1 be,0,4 [0]
dd-1 [000] 1.000500: block_rq_issue: 8,0 WS 512 () 8 + 1 [dd]
dd-1 [000] 1.001000: block_rq_complete: 8,0 WS () 8 + 1 [0]
dd-1 [000] 1.001500: block_rq_complete: 8,0 WS () 8 + 1 [0]
";
    let both = [
        (0, Write, 4096, 512, device, Some(1_000_000)),
        (500_000, Write, 4096, 512, device, Some(1_000_000)),
    ];
    holds("ftrace", ftrace, &both);
}

/// sync(1): its bio waits for the flush and completes after it, with no sectors, at the end of the
/// last write.
#[test]
fn the_completion_of_a_bio_that_waited_for_a_flush_is_no_request() {
    for bio in ["C  WS 0 [0]", "C WSM 43781957 [0]", "C FWS 0 [0]", "C FWS 0 (     123) [0]"] {
        let text = format!(
            "  8,0    0        1     0.000000000 34004  Q FWS [sync]
  8,0    0        2     0.000001335 34004  G FWS [sync]
  8,0    0        3     0.000004327 31088  D  FN [kworker/0:2H wq]
  8,0    0        4     0.000068945     0  C  FN 0 [0]
  8,0    0        5     0.000069466     0  {bio}
  8,0    0        6     0.001000000 34004  D WFSM 223490 + 8 [dd]
  8,0    0        7     0.002000000     0  C WFSM 223490 + 8 [0]
"
        );
        let device = 8 << 20;
        let rows = [
            (0, Flush, 0, 0, device, Some(64_618)),
            (995_673, Write, 223_490 * 512, 4096, device, Some(1_000_000)),
        ];
        holds("blkparse", &text, &rows);
        assert_eq!(notes(text.as_bytes()), [""; 0]);
    }
}

/// Lines left by consoles, crashes, and two recorders in one file.
#[test]
fn a_single_unreadable_line_is_skipped_and_reported() {
    use std::fmt::Write as _;
    let good = |count: u64| {
        (0..count).fold(String::new(), |mut text, i| {
            writeln!(text, "8,0 0 {i} {i}.5 7 D R {} + 8 [x\u{fffd}]", i * 8).expect("in memory");
            text
        })
    };
    for odd in
        [&b"8,0 1 1 0.5 7 D R 1"[..], b"^C", b"8,0 1 1 \xff\xfe", b"BUG: \x1b[0m", b"\x000,1"]
    {
        let text = [good(1_000).as_bytes(), odd, b"\n", good(1_000).as_bytes()].concat();
        assert_eq!(ordered(&text, None).expect("readable").len(), 2_000, "{odd:?}");
        let remarks = notes(&text);
        assert!(
            remarks[0]
                .starts_with("1 line that cannot be read was left out; the first is line 1001: "),
            "{remarks:?}"
        );
        let mostly = [good(1).as_bytes(), &[odd, b"\n"].concat().repeat(2_000)].concat();
        let error = refused(&mostly, Some("blkparse"));
        assert!(error.starts_with("t, line 2: "), "{error}");
        assert!(error.contains("; 101 more of 10"), "refused at once: {error}");
    }
    let many = [good(50).as_bytes(), b"^C\n"].concat();
    let error = refused(&many, None);
    assert!(
        error.starts_with("t, line 51: the device is '^C'; must be major,minor\nhint: "),
        "{error}"
    );
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
