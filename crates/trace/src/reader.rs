//! Reads requests from a file, in the file's own order.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use crate::error::{TraceError, shown};
use crate::formats::{Format, Given, Input, Parse, Skipped, detect, detect_binary, read_error};
use crate::input::{Lines, MARK};
use crate::request::Request;
use crate::unpack::unpack;

const SIZE: &str = "drivebay size DRIVE FILE";
/// Known files that cannot be read directly: offset and bytes of their signature, description, and
/// the command that converts them to text or takes them.
const FOREIGN: [(usize, &[u8], &str, &str); 8] = [
    (0, b"PAR1", "Parquet, and was not converted", "drivebay trace convert FILE.parquet FILE.csv"),
    (1, b"tae", "blktrace's recording of one processor", "blkparse -i NAME > NAME.txt"),
    (0, b"PERFILE2", "perf's recording", "perf script -i FILE > FILE.txt"),
    (3, b"tracing", "trace-cmd's recording", "trace-cmd report -i FILE > FILE.txt"),
    (257, b"ustar", "an archive of files", "tar -xf FILE, and name one of them"),
    (0, b"PK\x03\x04", "an archive of files", "unzip FILE, and name one of them"),
    (0, b"{\"timestamp\"", "Mooncake's trace of a KV cache: blocks without addresses", SIZE),
    (
        0,
        b"Timestamp,Operation,Object_Size",
        "a trace of a KV cache: objects without addresses",
        SIZE,
    ),
];

/// A recorded trace as the user names it.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceFile {
    /// Path of the file.
    pub path: PathBuf,
    /// Properties that the user gives.
    pub given: Given,
    /// For a Parquet file: path of its columns as CSV, under their own names.
    pub unpacked: Option<PathBuf>,
}

impl TraceFile {
    /// True if the file can be read more than once, unlike a pipe.
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
    why: String,
    parser: Box<dyn Parse>,
    requests: u64,
}

impl Reader {
    /// Opens a file, compressed or not; the format is detected unless given.
    ///
    /// # Errors
    /// If the file cannot be opened, is empty, or is of no known format.
    pub fn open(trace: &TraceFile) -> Result<Reader, TraceError> {
        let name = trace.path.display().to_string();
        let mut given = trace.given.clone();
        let path = trace.unpacked.as_ref().inspect(|_| given.format = Some(Format::Parquet));
        let path = path.unwrap_or(&trace.path);
        let cannot = |error| TraceError::Io {
            file: name.clone(),
            what: "cannot be opened",
            error,
            hint: "check the name and the permissions: ls -l",
        };
        let file = File::open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.is_dir() {
            let what = "is a directory; must be a file";
            return Err(TraceError::file(&name, what, "name one of the files in it"));
        }
        Reader::new(file, &name, &given)
    }

    /// Reads from any source; errors refer to it as `name`.
    ///
    /// # Errors
    /// If it cannot be read, is empty, or is of no known format.
    pub fn new(
        from: impl Read + Send + 'static,
        name: &str,
        given: &Given,
    ) -> Result<Reader, TraceError> {
        let failed = |error| read_error(name, 0, error);
        let mut lines = Lines::new(unpack(Box::new(from)).map_err(failed)?);
        let sample = lines.peek().map_err(failed)?;
        let refuse = |problem: String, hint: &str| Err(TraceError::file(name, problem, hint));
        if sample.is_empty() {
            return refuse("is empty".to_string(), "was the recording or the copy cut short?");
        }
        let has = |place: usize, bytes| sample.get(place..).is_some_and(|at| at.starts_with(bytes));
        let foreign = FOREIGN.iter().find(|(place, bytes, ..)| has(*place, bytes));
        if let Some((_, _, what, hint)) = foreign {
            return refuse(format!("is {what}"), hint);
        }
        let columns = given.columns.as_ref().map(|_| Format::Csv);
        let format = given.format.or(columns).or_else(|| detect_binary(sample));
        if !format.is_some_and(Format::is_binary) {
            lines.decode().map_err(failed)?;
        }
        let sample = lines.peek().map_err(failed)?;
        let is_given = given.format.or(columns).is_some();
        let by = if is_given { "as given" } else { "by its first record" };
        let detected = match format {
            Some(format) => Some(Ok((format, by.to_string()))),
            None => detect(sample),
        };
        let Some(detected) = detected else {
            let sample = sample.strip_prefix(MARK).unwrap_or(sample);
            let first = sample.split(|byte| *byte == b'\n').next().unwrap_or_default();
            let hint = format!(
                "give the format with --format (or --from): {}; or the columns of a table: \
                 --columns time=NAME:us,offset=NAME,length=NAME,op=NAME",
                Format::list()
            );
            let what = format!("is of no known format; it begins with {}", shown(first));
            return refuse(what, &hint);
        };
        let (format, mut why) = match detected {
            Ok(detected) => detected,
            Err((problem, hint)) => return refuse(problem, &hint),
        };
        if given.time_unit.is_none()
            && let Some(unit) = format.assumed_unit()
        {
            why.push_str(&format!("; times taken for {unit}: --time-unit"));
        }
        if columns.is_some() && !matches!(format, Format::Csv | Format::Parquet) {
            let what = format!("--columns: the columns of {} are known", format.name());
            return refuse(what, "leave it out, or --format csv");
        }
        if let Some(unit) = given.time_unit
            && !format.takes_time_unit()
            && columns.is_none()
        {
            let (unit, format) = (unit.name(), format.name());
            let what = format!("--time-unit {unit}: the unit of times in {format} files is known");
            return refuse(what, "leave it out; is --format (or --from) the right one?");
        }
        Ok(Reader {
            input: Input::new(name, lines),
            format,
            why,
            parser: format.parser(given),
            requests: 0,
        })
    }

    /// Format, given or detected.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Reason for the format.
    #[must_use]
    pub fn why(&self) -> &str {
        &self.why
    }

    /// Name of the file as given.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.input.file
    }

    /// Skipped entries so far.
    #[must_use]
    pub fn skipped(&self) -> Skipped {
        Skipped { holes: self.input.lines.holes, ..self.input.skipped.clone() }
    }

    /// Appends requests until `into` holds `len_max`, the input ends, or some ten milliseconds have
    /// passed; returns false at the end. Memory grows by at most 65,536 requests beyond `len_max`:
    /// those still open when the recording ends, or those of a single line.
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
            let hint = match self.format {
                Format::Blkparse => "record issues and completions: blktrace -a issue -a complete",
                Format::Ftrace => "record the events block_rq_issue and block_rq_complete",
                _ => "is it another format? they are listed by: drivebay trace info --help",
            };
            let what = format!("holds no request, read as {}", self.format.name());
            return Err(TraceError::file(&self.input.file, what, hint));
        }
        Ok(!self.input.ended)
    }
}
