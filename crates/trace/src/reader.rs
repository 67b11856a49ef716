//! From a file to requests, in the file's own order.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Problem, TraceError, shown};
use crate::formats::{
    Alibaba, Biosnoop, Blkparse, Csv, DiskSim, Etw, Format, Ftrace, Iolog, LeftOut, Msr, Out, Own,
    Parse, RECORD_BYTES, Spc, Systor, Tencent, Vscsi, detect, vscsi_record,
};
use crate::input::{LINE_BYTES_MAX, LineError, Lines, unpack};
use crate::request::Request;

/// Lines taken by one call of [`Reader::read`]: some ten milliseconds.
const LINES_PER_CALL: usize = 1 << 16;

/// Requests of a trace in the file's order, on the recording's own clock.
///
/// Cost: one pass over the bytes; nothing is allocated per line.
pub struct Reader {
    file: String,
    lines: Lines,
    format: Format,
    parser: Parser,
    left_out: LeftOut,
    requests: u64,
    ended: bool,
}

/// One parser; chosen once, outside of the loop over lines.
enum Parser {
    Msr(Csv<Msr>),
    Systor(Csv<Systor>),
    Alibaba(Csv<Alibaba>),
    Tencent(Csv<Tencent>),
    Vscsi(Csv<Vscsi>),
    VscsiBinary,
    Spc(Csv<Spc>),
    DiskSim(DiskSim<true>),
    MqSim(DiskSim<false>),
    Blkparse(Box<Blkparse>),
    Ftrace(Box<Ftrace>),
    Biosnoop(Biosnoop),
    Etw(Etw),
    Iolog(Iolog),
    Own(Csv<Own>),
}

impl Parser {
    fn new(format: Format) -> Parser {
        match format {
            Format::Msr => Parser::Msr(Csv::default()),
            Format::Systor => Parser::Systor(Csv::default()),
            Format::Alibaba => Parser::Alibaba(Csv::default()),
            Format::Tencent => Parser::Tencent(Csv::default()),
            Format::Vscsi => Parser::Vscsi(Csv::default()),
            Format::VscsiBinary => Parser::VscsiBinary,
            Format::Spc => Parser::Spc(Csv::default()),
            Format::DiskSim => Parser::DiskSim(DiskSim),
            Format::MqSim => Parser::MqSim(DiskSim),
            Format::Blkparse => Parser::Blkparse(Box::default()),
            Format::Ftrace => Parser::Ftrace(Box::default()),
            Format::Biosnoop => Parser::Biosnoop(Biosnoop::default()),
            Format::Etw => Parser::Etw(Etw),
            Format::Iolog => Parser::Iolog(Iolog::default()),
            Format::Csv => Parser::Own(Csv::default()),
        }
    }
}

impl Reader {
    /// Opens a file, compressed or not; without a format it is detected.
    ///
    /// # Errors
    /// If the file cannot be opened, is empty, or is of no known format.
    pub fn open(path: &Path, format: Option<Format>) -> Result<Reader, TraceError> {
        let name = path.display().to_string();
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
        Reader::new(file, &name, format)
    }

    /// Reads from anything; `name` stands for it in errors.
    ///
    /// # Errors
    /// If it cannot be read, is empty, or is of no known format.
    pub fn new(
        from: impl Read + Send + 'static,
        name: &str,
        format: Option<Format>,
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
        let mark = if sample.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 };
        let Some(format) = format.or_else(|| detect(&sample[mark..])) else {
            let first = sample[mark..].split(|byte| *byte == b'\n').next().unwrap_or_default();
            return refuse(
                format!("is of no known format; it begins with {}", shown(first)),
                format!("if you know it, say so with --format (or --from): {}", Format::list()),
            );
        };
        lines.skip(mark);
        Ok(Reader {
            file: name.to_string(),
            lines,
            format,
            parser: Parser::new(format),
            left_out: LeftOut::default(),
            requests: 0,
            ended: false,
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
        &self.file
    }

    /// What was left out so far.
    #[must_use]
    pub fn left_out(&self) -> LeftOut {
        self.left_out
    }

    /// Appends requests until `into` holds `len_max`, the input ends, or some ten milliseconds have
    /// passed; false when there is no more. Memory grows by at most two requests beyond `len_max`,
    /// but for those still open when the recording ends (65,536).
    ///
    /// # Errors
    /// If a line cannot be read, the file is damaged, or it ends without a single request.
    pub fn read(&mut self, into: &mut Vec<Request>, len_max: usize) -> Result<bool, TraceError> {
        if self.ended {
            return Ok(false);
        }
        let before = into.len();
        match &mut self.parser {
            Parser::VscsiBinary => self.read_records(into, len_max)?,
            parser => {
                let mut source = Source {
                    file: &self.file,
                    lines: &mut self.lines,
                    left_out: &mut self.left_out,
                    ended: &mut self.ended,
                };
                match parser {
                    Parser::Msr(p) => source.pump(p, into, len_max),
                    Parser::Systor(p) => source.pump(p, into, len_max),
                    Parser::Alibaba(p) => source.pump(p, into, len_max),
                    Parser::Tencent(p) => source.pump(p, into, len_max),
                    Parser::Vscsi(p) => source.pump(p, into, len_max),
                    Parser::Spc(p) => source.pump(p, into, len_max),
                    Parser::DiskSim(p) => source.pump(p, into, len_max),
                    Parser::MqSim(p) => source.pump(p, into, len_max),
                    Parser::Blkparse(p) => source.pump(&mut **p, into, len_max),
                    Parser::Ftrace(p) => source.pump(&mut **p, into, len_max),
                    Parser::Biosnoop(p) => source.pump(p, into, len_max),
                    Parser::Etw(p) => source.pump(p, into, len_max),
                    Parser::Iolog(p) => source.pump(p, into, len_max),
                    Parser::Own(p) => source.pump(p, into, len_max),
                    Parser::VscsiBinary => unreachable!("handled above"),
                }?;
            }
        }
        self.requests += (into.len() - before) as u64;
        if self.ended && self.requests == 0 {
            return Err(TraceError::File {
                file: self.file.clone(),
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
        Ok(!self.ended)
    }

    fn read_records(&mut self, into: &mut Vec<Request>, len_max: usize) -> Result<(), TraceError> {
        for _ in 0..LINES_PER_CALL {
            if into.len() >= len_max {
                return Ok(());
            }
            let (record, len) = self
                .lines
                .record::<RECORD_BYTES>()
                .map_err(|error| read_error(&self.file, self.lines.number(), error))?;
            if len == 0 {
                self.ended = true;
                return Ok(());
            }
            let mut out = Out { requests: into, left_out: &mut self.left_out };
            let result = if len < RECORD_BYTES {
                Err(Problem::with_hint(
                    format!("has {len} bytes; must be {RECORD_BYTES}"),
                    "the file is cut short: copy it again",
                ))
            } else {
                vscsi_record(&record, &mut out)
            };
            result.map_err(|problem| TraceError::Place {
                file: self.file.clone(),
                unit: "record",
                number: self.lines.number(),
                problem: problem.what,
                hint: problem.hint,
            })?;
        }
        Ok(())
    }
}

/// What a parser's loop needs of the reader.
struct Source<'a> {
    file: &'a str,
    lines: &'a mut Lines,
    left_out: &'a mut LeftOut,
    ended: &'a mut bool,
}

impl Source<'_> {
    fn pump<P: Parse>(
        &mut self,
        parser: &mut P,
        into: &mut Vec<Request>,
        len_max: usize,
    ) -> Result<(), TraceError> {
        let mut out = Out { requests: into, left_out: self.left_out };
        for _ in 0..LINES_PER_CALL {
            if out.requests.len() >= len_max {
                return Ok(());
            }
            match self.lines.next() {
                Ok(Some([])) => {}
                Ok(Some(line)) => {
                    if let Err(problem) = parser.line(line, &mut out) {
                        return Err(self.place(problem));
                    }
                }
                Ok(None) => {
                    parser.end(&mut out);
                    *self.ended = true;
                    return Ok(());
                }
                Err(LineError::TooLong) => {
                    let what = format!("is longer than {LINE_BYTES_MAX} bytes");
                    return Err(self.place(Problem::new(what)));
                }
                Err(LineError::Io(error)) => {
                    return Err(read_error(self.file, self.lines.number(), error));
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn place(&self, problem: Problem) -> TraceError {
        let cut = "the file ends in the middle of that line: copy it again, or remove the line";
        TraceError::Place {
            file: self.file.to_string(),
            unit: "line",
            number: self.lines.number(),
            problem: problem.what,
            hint: if self.lines.cut { cut.to_string() } else { problem.hint },
        }
    }
}

#[cold]
fn read_error(file: &str, line: u64, error: std::io::Error) -> TraceError {
    use std::io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    if !matches!(error.kind(), InvalidData | InvalidInput | Other | UnexpectedEof) {
        let hint = "is the disk or the connection all right? see: dmesg";
        return TraceError::Io { file: file.to_string(), what: "cannot be read", error, hint };
    }
    TraceError::File {
        file: file.to_string(),
        problem: format!("the compressed data are damaged or cut short after line {line}: {error}"),
        hint: "copy it again; gzip -t, bzip2 -t or zstd -t checks it".to_string(),
    }
}
