//! The formats: what each line means. One file per family; detection by trying them all.
//!
//! A parser turns one line into at most a few requests and knows nothing of files or order. It refuses
//! what it cannot read; it leaves out, and counts, only what its format is known to hold besides I/Os.

mod columns;
mod kernel;
mod number;
mod pairs;
mod parse;
mod records;
mod tools;

use crate::error::TraceError;
use crate::request::TimeUnit;
use columns::{Alibaba, Csv, Msr, Own, Spc, Systor, Tencent, Vscsi};
use kernel::{Blkparse, Ftrace};
use records::{OracleRecords, VscsiRecords};
use tools::{Biosnoop, DiskSim, Etw, Iolog};

pub use columns::CSV_HEADER;
pub use parse::Skipped;
pub(crate) use parse::{Input, Out, Parse, read_error};

/// A trace format that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// MSR Cambridge CSV.
    Msr,
    /// SYSTOR '17 CSV.
    Systor,
    /// Alibaba block traces, CSV.
    Alibaba,
    /// Tencent block storage traces, CSV.
    Tencent,
    /// CloudPhysics (VMware vscsiStats), libCacheSim's CSV: times in seconds.
    Vscsi,
    /// CloudPhysics, 32-byte binary records (version 1).
    VscsiBinary,
    /// libCacheSim's oracleGeneral, 24-byte binary records.
    OracleGeneral,
    /// Storage Performance Council: Financial, WebSearch.
    Spc,
    /// DiskSim ASCII: times in milliseconds.
    DiskSim,
    /// MQSim ASCII: DiskSim's columns with times in whole nanoseconds.
    MqSim,
    /// blkparse's default text.
    Blkparse,
    /// ftrace text with block_rq_issue and block_rq_complete.
    Ftrace,
    /// bcc's biosnoop.
    Biosnoop,
    /// xperf's disk I/O text.
    Etw,
    /// fio's iolog, version 3.
    Iolog,
    /// This program's own CSV.
    Csv,
    /// Parquet with the columns of this program's CSV, which the caller has unpacked into one.
    Parquet,
}

impl Format {
    /// Every format and its name. Where a file fits two equally, the earlier wins.
    pub const ALL: [(Format, &'static str); 17] = [
        (Format::Msr, "msr"),
        (Format::Systor, "systor"),
        (Format::Alibaba, "alibaba"),
        (Format::Tencent, "tencent"),
        (Format::Vscsi, "vscsi"),
        (Format::VscsiBinary, "vscsi-binary"),
        (Format::OracleGeneral, "oracle-general"),
        (Format::Spc, "spc"),
        (Format::MqSim, "mqsim"),
        (Format::DiskSim, "disksim"),
        (Format::Blkparse, "blkparse"),
        (Format::Ftrace, "ftrace"),
        (Format::Biosnoop, "biosnoop"),
        (Format::Etw, "etw"),
        (Format::Iolog, "iolog"),
        (Format::Csv, "csv"),
        (Format::Parquet, "parquet"),
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        Format::ALL.iter().find(|(format, _)| *format == self).expect("ALL has every format").1
    }

    /// The format of that name.
    ///
    /// # Errors
    /// [`TraceError::UnknownFormat`].
    pub fn from_name(name: &str) -> Result<Format, TraceError> {
        let found = Format::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(format, _)| *format).ok_or_else(|| {
            let known = Format::list();
            TraceError::UnknownFormat(format!("'{name}' is unknown; must be one of {known}"))
        })
    }

    /// Whether the user may say in which unit its times are: not where the format itself says so.
    #[must_use]
    pub fn takes_time_unit(self) -> bool {
        use Format::{Alibaba, DiskSim, MqSim, Msr, OracleGeneral, Spc, Systor, Tencent, Vscsi};
        matches!(
            self,
            Msr | Systor | Alibaba | Tencent | Vscsi | OracleGeneral | Spc | DiskSim | MqSim
        )
    }

    pub(crate) fn parser(self, unit: Option<TimeUnit>) -> Box<dyn Parse> {
        match self {
            Format::Msr => Box::new(Csv::<Msr>::new(unit)),
            Format::Systor => Box::new(Csv::<Systor>::new(unit)),
            Format::Alibaba => Box::new(Csv::<Alibaba>::new(unit)),
            Format::Tencent => Box::new(Csv::<Tencent>::new(unit)),
            Format::Vscsi => Box::new(Csv::<Vscsi>::new(unit)),
            Format::VscsiBinary => Box::new(VscsiRecords),
            Format::OracleGeneral => Box::new(OracleRecords::new(unit)),
            Format::Spc => Box::new(Csv::<Spc>::new(unit)),
            Format::DiskSim => Box::new(DiskSim::<true>::new(unit)),
            Format::MqSim => Box::new(DiskSim::<false>::new(unit)),
            Format::Blkparse => Box::<Blkparse>::default(),
            Format::Ftrace => Box::<Ftrace>::default(),
            Format::Biosnoop => Box::<Biosnoop>::default(),
            Format::Etw => Box::new(Etw),
            Format::Iolog => Box::<Iolog>::default(),
            Format::Csv | Format::Parquet => Box::new(Csv::<Own>::new(None)),
        }
    }

    /// All names in one line.
    #[must_use]
    pub fn list() -> String {
        Format::ALL.map(|(_, name)| name).join(", ")
    }
}

/// How many lines of a file's start are looked at.
const DETECT_LINES: usize = 2_000;

/// The format whose parser knows the most lines of `sample`; None if none knows any.
pub(crate) fn detect(sample: &[u8]) -> Option<Format> {
    if sample.starts_with(b"fio version ") {
        return Some(Format::Iolog);
    }
    if records::looks_like_vscsi(sample) {
        return Some(Format::VscsiBinary);
    }
    if records::looks_like_oracle(sample) {
        return Some(Format::OracleGeneral);
    }
    let mut best = (0, None);
    for (format, _) in Format::ALL {
        // An iolog is told by how it begins; its parser would claim any words.
        if format == Format::Iolog {
            continue;
        }
        // Lines of either unit are of this format; the reader then asks for the unit.
        let unit = (format == Format::Vscsi).then_some(TimeUnit::Us);
        let known = known_lines(&mut *format.parser(unit), sample);
        if known > best.0 {
            best = (known, Some(format));
        }
    }
    best.1
}

fn known_lines(parser: &mut dyn Parse, sample: &[u8]) -> usize {
    let (mut requests, mut skipped) = (Vec::new(), Skipped::default());
    let lines = sample.split(|byte| matches!(byte, b'\n' | b'\r')).filter(|line| !line.is_empty());
    lines
        .take(DETECT_LINES)
        .filter(|line| {
            let mut out = Out { requests: &mut requests, skipped: &mut skipped };
            parser.line(line, &mut out).unwrap_or(false)
        })
        .count()
}
