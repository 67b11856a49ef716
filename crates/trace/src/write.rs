//! Output of traces: fio's iolog version 3, and CSV with all fields of a request.
//!
//! Source: fio's HOWTO, "Trace file format v3"; its times are microseconds and begin at 1 here,
//! since fio takes 0 for "no time". Lost in an iolog: nanoseconds, response times, device numbers
//! (each device becomes a file name, `device<number>`; fio's --replay_redirect changes it).

use std::collections::HashSet;
use std::io::{self, Write};

use crate::formats::CSV_HEADER;
use crate::request::{DEVICES_MAX, Op, Request};

drivebay_units::named! {
    /// Text formats for output.
    pub enum TextFormat {
        /// fio's iolog, version 3.
        Iolog = "iolog",
        /// CSV: [`CSV_HEADER`].
        Csv = "csv",
    }
}

/// Writer of a trace as text.
pub struct Writer<W: Write> {
    out: W,
    kind: TextFormat,
    devices: HashSet<u32>,
    last_us: u64,
}

impl<W: Write> Writer<W> {
    /// Creates a writer, and writes the header.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn new(mut out: W, kind: TextFormat) -> io::Result<Writer<W>> {
        match kind {
            TextFormat::Iolog => writeln!(out, "fio version 3 iolog")?,
            TextFormat::Csv => writeln!(out, "{CSV_HEADER}")?,
        }
        Ok(Writer { out, kind, devices: HashSet::new(), last_us: 1 })
    }

    /// Writes requests, in order.
    ///
    /// # Errors
    /// Errors of `out`, or if there are more than 65,536 devices.
    pub fn write(&mut self, requests: &[Request]) -> io::Result<()> {
        for request in requests {
            match self.kind {
                TextFormat::Iolog => self.iolog(request)?,
                TextFormat::Csv => self.csv(request)?,
            }
        }
        Ok(())
    }

    fn csv(&mut self, request: &Request) -> io::Result<()> {
        let Request { at, offset_bytes, bytes, response, device, op } = request;
        write!(self.out, "{},{},{offset_bytes},{bytes},{device},", at.0, op.name())?;
        match response {
            Some(response) => writeln!(self.out, "{}", response.0),
            None => writeln!(self.out),
        }
    }

    fn iolog(&mut self, request: &Request) -> io::Result<()> {
        let us = request.at.0 / 1_000 + 1;
        self.last_us = us;
        let device = request.device;
        if !self.devices.contains(&device) {
            if self.devices.len() == DEVICES_MAX {
                return Err(io::Error::other("more than 65536 devices"));
            }
            self.devices.insert(device);
            writeln!(self.out, "{us} device{device} add\n{us} device{device} open")?;
        }
        let action = match request.op {
            Op::Flush => "sync",
            Op::WriteFua => "write",
            op => op.name(),
        };
        let Request { offset_bytes, bytes, .. } = request;
        writeln!(self.out, "{us} device{device} {action} {offset_bytes} {bytes}")
    }

    /// Ends the file and returns `out`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        if self.kind == TextFormat::Iolog {
            let mut devices: Vec<_> = self.devices.into_iter().collect();
            devices.sort_unstable();
            for device in devices {
                writeln!(self.out, "{} device{device} close", self.last_us)?;
            }
        }
        self.out.flush()?;
        Ok(self.out)
    }
}
