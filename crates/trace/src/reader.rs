//! From a file to requests, in the file's own order.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use crate::error::{TraceError, shown};
use crate::formats::{Format, Input, Parse, Skipped, detect, read_error};
use crate::input::{Lines, unpack};
use crate::request::{Request, TimeUnit};

/// A recorded trace as the user names it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile {
    /// Where it is.
    pub path: PathBuf,
    /// Detected if not given.
    pub format: Option<Format>,
    /// The unit of its times; that of the format if not given.
    pub time_unit: Option<TimeUnit>,
    /// Of a Parquet file: where its columns are as this program's CSV.
    pub unpacked: Option<PathBuf>,
}

impl TraceFile {
    /// Whether it can be read more than once, which a pipe cannot.
    #[must_use]
    pub fn is_regular(&self) -> bool {
        let path = self.unpacked.as_ref().unwrap_or(&self.path);
        std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file())
    }
}

/// Requests of a trace in the file's order, on the recording's own clock.
///
/// Cost: one pass over the bytes; nothing is allocated per line.
pub struct Reader {
    input: Input,
    format: Format,
    parser: Box<dyn Parse>,
    requests: u64,
}

impl Reader {
    /// Opens a file, compressed or not; without a format it is detected.
    ///
    /// # Errors
    /// If the file cannot be opened, is empty, or is of no known format.
    pub fn open(trace: &TraceFile) -> Result<Reader, TraceError> {
        let name = trace.path.display().to_string();
        let (path, format) = match &trace.unpacked {
            Some(csv) => (csv, Some(Format::Parquet)),
            None => (&trace.path, trace.format),
        };
        let cannot = |error| TraceError::Io {
            file: name.clone(),
            what: "cannot be opened",
            error,
            hint: "check the name and the permissions: ls -l",
        };
        let file = File::open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_dir() {
            return Err(TraceError::File {
                file: name,
                problem: "is a directory; must be a file".to_string(),
                hint: "name one of the files in it".to_string(),
            });
        }
        Reader::new(file, &name, format, trace.time_unit)
    }

    /// Reads from anything; `name` stands for it in errors.
    ///
    /// # Errors
    /// If it cannot be read, is empty, or is of no known format.
    pub fn new(
        from: impl Read + Send + 'static,
        name: &str,
        format: Option<Format>,
        time_unit: Option<TimeUnit>,
    ) -> Result<Reader, TraceError> {
        let failed = |error| read_error(name, 0, error);
        let mut lines = Lines::new(unpack(Box::new(from)).map_err(failed)?);
        let sample = lines.peek().map_err(failed)?;
        let refuse = |problem: String, hint: String| {
            Err(TraceError::File { file: name.to_string(), problem, hint })
        };
        if sample.is_empty() {
            let hint = "was the recording or the copy cut short?";
            return refuse("is empty".to_string(), hint.to_string());
        }
        if sample.starts_with(&[0xff, 0xfe]) || sample.starts_with(&[0xfe, 0xff]) {
            let hint = "iconv -f UTF-16 -t UTF-8 FILE > FILE.utf8".to_string();
            return refuse("is UTF-16; must be UTF-8 or ASCII".to_string(), hint);
        }
        if sample.starts_with(b"PAR1") {
            let hint = "drivebay trace convert FILE.parquet FILE.csv";
            return refuse("is Parquet, and was not unpacked".to_string(), hint.to_string());
        }
        let mark = if sample.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let Some(format) = format.or_else(|| detect(&sample[mark..])) else {
            let first = sample[mark..].split(|byte| *byte == b'\n').next().unwrap_or_default();
            return refuse(
                format!("is of no known format; it begins with {}", shown(first)),
                format!("if you know it, say so with --format (or --from): {}", Format::list()),
            );
        };
        if let Some(unit) = time_unit
            && !format.takes_time_unit()
        {
            let unit =
                TimeUnit::ALL.iter().find(|(known, _)| *known == unit).map(|(_, name)| *name);
            return refuse(
                format!(
                    "--time-unit {}: {} files say themselves in which unit their times are",
                    unit.unwrap_or_default(),
                    format.name()
                ),
                "leave it out; is --format (or --from) the right one?".to_string(),
            );
        }
        lines.skip(mark);
        Ok(Reader {
            input: Input {
                file: name.to_string(),
                lines,
                skipped: Skipped::default(),
                ended: false,
            },
            format,
            parser: format.parser(time_unit),
            requests: 0,
        })
    }

    /// The format, given or detected.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The file's name as given.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.input.file
    }

    /// What was skipped so far.
    #[must_use]
    pub fn skipped(&self) -> Skipped {
        self.input.skipped
    }

    /// Appends requests until `into` holds `len_max`, the input ends, or some ten milliseconds have
    /// passed; false when there is no more. Memory grows by at most two requests beyond `len_max`,
    /// but for those still open when the recording ends (65,536).
    ///
    /// # Errors
    /// If a line cannot be read, the file is damaged, or it ends without a single request.
    pub fn read(&mut self, into: &mut Vec<Request>, len_max: usize) -> Result<bool, TraceError> {
        if self.input.ended {
            return Ok(false);
        }
        let before = into.len();
        self.parser.pump(&mut self.input, into, len_max)?;
        self.requests += (into.len() - before) as u64;
        if self.input.ended && self.requests == 0 {
            return Err(TraceError::File {
                file: self.input.file.clone(),
                problem: format!("holds no request, read as {}", self.format.name()),
                hint: match self.format {
                    Format::Blkparse => {
                        "record issues and completions: blktrace -a issue -a complete"
                    }
                    Format::Ftrace => "record the events block_rq_issue and block_rq_complete",
                    _ => "was the recording or the copy cut short? is it another format?",
                }
                .to_string(),
            });
        }
        Ok(!self.input.ended)
    }
}
