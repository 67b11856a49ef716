//! Trace formats: one file per family of parsers, and detection by trying all of them.
//!
//! A parser turns one line into at most a few requests and knows nothing of files or order. It
//! rejects lines that it cannot read. It skips, and counts, only entries that its format is known
//! to contain besides I/Os. A new format needs a parser in one of these files and a line in
//! [`formats!`] below.

mod columns;
mod kernel;
mod mapped;
mod number;
mod pairs;
mod parse;
mod records;
mod tools;

use crate::error::TraceError;
use crate::input::MARK;
use crate::request::TimeUnit;
use columns::{
    Alibaba, Csv, DiskSim, Fiu, K5cloud, MqSim, Msr, Own, Spc, Systor, Tencent, VscsiText,
};
use kernel::{Blkparse, Ftrace, FtraceNvme};
use mapped::Mapped;
use records::{OracleRecords, VscsiRecords};
use tools::{Biosnoop, Etw, Iolog};

pub use columns::CSV_HEADER;
pub use mapped::ColumnMap;
pub use parse::Skipped;
pub(crate) use parse::{Input, Out, Parse, read_error};

/// Properties of a file that the user gives; all others are detected.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Given {
    /// Format of the file.
    pub format: Option<Format>,
    /// Unit of the times, in place of the format's own.
    pub time_unit: Option<TimeUnit>,
    /// Columns of a CSV or Parquet file.
    pub columns: Option<ColumnMap>,
}

/// Defines the enum and its table from rows `Variant "name" parser`, with `in units` before the
/// parser if the user may give the unit of times.
macro_rules! formats {
    ($($(#[$doc:meta])* $variant:ident $name:literal $(in $units:ident)? $parser:expr;)*) => {
        drivebay_units::named! {
            /// A trace format that can be read.
            #[derive(Hash)]
            #[non_exhaustive]
            pub enum Format { $($(#[$doc])* $variant = $name,)* }
        }

        impl Format {
            /// True if the user may give the unit of times; false if the format defines it.
            #[must_use]
            pub fn takes_time_unit(self) -> bool {
                match self { $(Format::$variant => formats!(@units $($units)?),)* }
            }

            fn maker(self) -> fn(Option<TimeUnit>) -> Box<dyn Parse> {
                match self { $(Format::$variant => $parser,)* }
            }
        }
    };
    (@units units) => { true };
    (@units) => { false };
}

formats! {
    /// MSR Cambridge CSV.
    Msr "msr" in units |unit| Box::new(Csv::<Msr>::new(unit));
    /// SYSTOR '17 CSV.
    Systor "systor" in units |unit| Box::new(Csv::<Systor>::new(unit));
    /// Alibaba block traces, CSV.
    Alibaba "alibaba" in units |unit| Box::new(Csv::<Alibaba>::new(unit));
    /// Tencent block storage traces, CSV.
    Tencent "tencent" in units |unit| Box::new(Csv::<Tencent>::new(unit));
    /// FUJITSU K5 cloud service, CSV.
    K5cloud "k5cloud" in units |unit| Box::new(Csv::<K5cloud>::new(unit));
    /// CloudPhysics (VMware vscsiStats), libCacheSim's CSV: times in seconds.
    Vscsi "vscsi" in units |unit| Box::new(VscsiText::new(unit));
    /// CloudPhysics, 32-byte binary records (version 1).
    VscsiBinary "vscsi-binary" |_| Box::new(VscsiRecords);
    /// libCacheSim's CSV with a header.
    LibCacheSim "libcachesim" in units |unit| Box::new(Mapped::lib_cache_sim(unit));
    /// libCacheSim's oracleGeneral, 24-byte binary records.
    OracleGeneral "oracle-general" in units |unit| Box::new(OracleRecords::new(unit));
    /// Meta's block traces (Tectonic), CSV.
    Meta "meta" in units |unit| Box::new(Mapped::meta(unit));
    /// Storage Performance Council: Financial, WebSearch.
    Spc "spc" in units |unit| Box::new(Csv::<Spc>::new(unit));
    /// MQSim ASCII: DiskSim's columns with times in whole nanoseconds.
    MqSim "mqsim" in units |unit| Box::new(Csv::<MqSim>::new(unit));
    /// DiskSim ASCII: times in milliseconds.
    DiskSim "disksim" in units |unit| Box::new(Csv::<DiskSim>::new(unit));
    /// blkparse's default text.
    Blkparse "blkparse" |_| Box::new(Blkparse);
    /// Text of ftrace or perf with block_rq_issue and block_rq_complete.
    Ftrace "ftrace" |_| Box::new(Ftrace);
    /// Text of ftrace or perf with nvme_setup_cmd and nvme_complete_rq.
    FtraceNvme "ftrace-nvme" |_| Box::<FtraceNvme>::default();
    /// FIU's traces, text.
    Fiu "fiu" in units |unit| Box::new(Csv::<Fiu>::new(unit));
    /// bcc's biosnoop, and perf-tools' iosnoop.
    Biosnoop "biosnoop" |_| Box::<Biosnoop>::default();
    /// xperf's disk I/O text.
    Etw "etw" |_| Box::new(Etw);
    /// fio's iolog, versions 2 and 3.
    Iolog "iolog" in units |unit| Box::new(Iolog::new(unit));
    /// This program's own CSV, or another CSV whose columns the user names.
    Csv "csv" |_| Box::new(Csv::<Own>::new(None));
    /// Parquet, converted to such a CSV by the caller.
    Parquet "parquet" |_| Box::new(Csv::<Own>::new(None));
}

impl Format {
    /// Returns the format with this name.
    ///
    /// # Errors
    /// [`TraceError::UnknownFormat`].
    pub fn parse(name: &str) -> Result<Format, TraceError> {
        Format::from_name(name).ok_or_else(|| {
            let known = Format::list();
            TraceError::UnknownFormat(format!("'{name}' is unknown; must be one of {known}"))
        })
    }

    /// Unit of times that two formats with the same columns differ in.
    pub(crate) fn assumed_unit(self) -> Option<&'static str> {
        match self {
            Format::DiskSim => Some("milliseconds"),
            Format::MqSim => Some("nanoseconds"),
            _ => None,
        }
    }

    /// True for formats with records of fixed length instead of text lines.
    pub(crate) fn is_binary(self) -> bool {
        matches!(self, Format::VscsiBinary | Format::OracleGeneral)
    }

    pub(crate) fn parser(self, given: &Given) -> Box<dyn Parse> {
        match &given.columns {
            Some(columns) => Box::new(Mapped::by(columns, given.time_unit)),
            None => self.maker()(given.time_unit),
        }
    }

    /// All names, separated by commas.
    #[must_use]
    pub fn list() -> String {
        Format::ALL.map(Format::name).join(", ")
    }
}

/// Most lines at a file's start that detection reads.
const DETECT_LINES: usize = 2_000;

/// Detects a binary format from a file's start.
pub(crate) fn detect_binary(sample: &[u8]) -> Option<Format> {
    if records::looks_like_vscsi(sample) {
        Some(Format::VscsiBinary)
    } else {
        records::looks_like_oracle(sample).then_some(Format::OracleGeneral)
    }
}

/// Result of detection: the format and the reason, or an error and its hint.
type Detected = Result<(Format, String), (String, String)>;

/// Returns the text format whose parser recognizes the most lines of `sample`; `None` if no parser
/// recognizes any. Refuses a sample that another format fits nearly as well.
pub(crate) fn detect(sample: &[u8]) -> Option<Detected> {
    let sample = sample.strip_prefix(MARK).unwrap_or(sample);
    let lines = || {
        sample
            .split(|byte| matches!(byte, b'\n' | b'\r' | 0))
            .filter(|line| !line.is_empty())
            .take(DETECT_LINES)
    };
    if sample.starts_with(b"fio version ") {
        return Some(Ok((Format::Iolog, "by its first line".to_string())));
    }
    let begins = |line: &[u8]| line.starts_with(b"TIME(ms)");
    if lines().take(4).any(begins) {
        // bpftrace's; its parser reports why it cannot be read
        return Some(Ok((Format::Biosnoop, "by its header".to_string())));
    }
    if is_fio_log(lines()) {
        let what = "is a log of fio's rates or latencies, and no trace of requests";
        let hint = "import it with the JSON beside it: drivebay import fio FILE.json --out DIR";
        return Some(Err((what.to_string(), hint.to_string())));
    }
    let count = lines().count();
    // An iolog is recognized by its first line; its parser would accept any words.
    let mut known: Vec<_> = Format::ALL
        .into_iter()
        .filter(|format| !matches!(format, Format::Iolog | Format::Parquet))
        .map(|format| {
            // Accepts lines with either unit; the reader then asks for the unit.
            let unit = (format == Format::Vscsi).then_some(TimeUnit::Us);
            (known_lines(&mut *format.maker()(unit), lines()), format)
        })
        .filter(|(known, _)| *known > 0)
        .collect();
    known.sort_by_key(|(known, _)| std::cmp::Reverse(*known));
    Some(match known[..] {
        [] => return None,
        // libCacheSim's names may be part of another format's header.
        [(best, one), (other, two), ..]
            if other * 10 >= best * 9 && ![one, two].contains(&Format::LibCacheSim) =>
        {
            let (one, two) = (one.name(), two.name());
            let what = format!("fits two formats: {one} ({best} lines) and {two} ({other})");
            Err((what, format!("name the right one: --format {one} (or --from)")))
        }
        [(best, format), ..] => Ok((format, format!("{best} of {count} lines fit"))),
    })
}

/// True for a log of fio: time in ms, value, direction, block size, and more. Directions are 0 to
/// 2, unlike the third column of any trace.
fn is_fio_log<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let (mut all, mut of_fio) = (0, 0);
    for line in lines {
        let (f, count) = number::split::<4>(line, b',');
        let direction = matches!(number::trimmed(f[2]), b"0" | b"1" | b"2");
        let is_number = |field: &&[u8]| number::whole(field, "").is_ok();
        all += 1;
        of_fio += usize::from(direction && f[..count.min(4)].iter().all(is_number));
    }
    of_fio * 2 > all
}

fn known_lines<'a>(parser: &mut dyn Parse, lines: impl Iterator<Item = &'a [u8]>) -> usize {
    let (mut requests, mut skipped, mut pairs) = Default::default();
    let mut out = Out { requests: &mut requests, skipped: &mut skipped, pairs: &mut pairs };
    lines.filter(|line| parser.line(line, &mut out).unwrap_or(false)).count()
}
