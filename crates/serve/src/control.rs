//! Control socket: one command per line in, one line of JSON out.
//!
//! For people and scripts on this machine: a Unix socket that only its owner can open. It stays
//! connected over a power cut. Lines are answered in order; a command that has to wait is tried
//! again at every tick. If a server has several drives, a line names its drive, and that drive's
//! event loop answers it.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;

use drivebay_units::refuse_if;
use serde::Serialize;
use serde_json::{Value, json};
use socket2::Socket;

use crate::buffers::Output;
use crate::interface::drive::{Control, ControlError, Drive};
use crate::interface::report::Report;
use crate::interface::session::{Next, Session};
use crate::request::Completion;

/// Longest command line that a client may send, in bytes.
const LINE_MAX: usize = 4096;
/// Bytes of replies that wait for a client that does not read.
const OUTPUT_MAX: usize = 1 << 20;

/// Most events per write to a client that follows: at most 64 KiB.
const EVENTS_AT_A_TIME: usize = 64;

const COMMANDS: &str = "drives, status, now, events, follow, power-cut, power-on, ambient CELSIUS, \
    ana-state PORTAL STATE, fault JSON, no-faults, \
    resize BYTES, resize NSID BYTES, mark TEXT, snapshot NAME, restore NAME, forget NAME, clone NAME FOLDER";
const FAULT_EXAMPLE: &str = r#"fault {"kind": "hang", "for_s": 5}"#;

/// Connection to the control socket.
pub(crate) struct ControlConnection {
    socket: Socket,
    /// Names of all drives of the server.
    drives: Arc<[String]>,
    /// Number of the drive whose event loop has the connection.
    drive: usize,
    input: Vec<u8>,
    output: Output,
    /// Number of the next event, for a client that follows; its further input is ignored.
    follows: Option<u64>,
}

impl ControlConnection {
    /// Creates a connection in the event loop of this drive.
    pub fn new(socket: Socket, drives: Arc<[String]>, drive: usize) -> ControlConnection {
        ControlConnection {
            socket,
            drives,
            drive,
            input: Vec::new(),
            output: Output::default(),
            follows: None,
        }
    }

    /// Returns the number of the drive that a line addresses and its command, or the answer to the
    /// line.
    fn address<'a>(&self, line: &'a str) -> Result<(usize, &'a str), Value> {
        let drives = &self.drives;
        if line == "drives" {
            return Err(json!({ "drives": drives[..] }));
        }
        let Some(rest) = line.strip_prefix("drive ") else {
            if let [_] = drives[..] {
                return Ok((0, line));
            }
            return Err(json!({
                "error": format!("which drive? There are {}", drives.join(", ")),
                "hint": format!("drivebay ctl SOCKET --drive {} COMMAND", drives[0]),
            }));
        };
        let (name, command) = rest.split_once(' ').unwrap_or((rest, ""));
        match drives.iter().position(|drive| drive == name) {
            Some(drive) => Ok((drive, command.trim_start())),
            None => Err(json!({
                "error": format!("there is no drive {name}"), "hint": drives.join(", ")
            })),
        }
    }
}

/// Error message and an example.
type Refusal = (String, String);

/// Executes a line; without an answer it is tried again later.
fn answer(line: &str, drive: &mut dyn Control) -> Result<Option<Value>, Refusal> {
    let (word, rest) = line.split_once(' ').map_or((line, ""), |(w, r)| (w, r.trim()));
    let is_name = !rest.is_empty() && !rest.contains(' ');
    Ok(Some(match (word, rest) {
        ("status", "") => value(drive.report()),
        ("now", "") => {
            let Report { drive_s, elapsed_s, time_scale, .. } = drive.report();
            json!({ "drive_s": drive_s, "elapsed_s": elapsed_s, "time_scale": time_scale })
        }
        ("events", "") => json!({ "events": drive.events(0, usize::MAX) }),
        ("power-cut", "") => {
            value(drive.power_cut().map_err(|why| refusal(ControlError::from(why)))?)
        }
        ("power-on", "") => {
            drive.power_on();
            json!({ "is_off": false })
        }
        ("ambient", celsius) => {
            let celsius = celsius.parse().ok().filter(|c| (-40.0..=100.0).contains(c));
            let refused =
                || ("ambient takes -40 to 100 degrees Celsius".to_owned(), "ambient 45".to_owned());
            let celsius = celsius.ok_or_else(refused)?;
            drive.set_ambient_c(celsius);
            json!({ "ambient_c": celsius })
        }
        ("ana-state", rest) => {
            let (portal, state) = rest.split_once(' ').unwrap_or((rest, ""));
            let form = |why: String| (why, "ana-state 1 inaccessible".to_owned());
            let portal =
                portal.parse().map_err(|_| form(format!("{portal} is no number of a portal")))?;
            let state = serde_json::from_value(Value::from(state.trim_start()));
            let state = state.map_err(|why| form(why.to_string()))?;
            json!({ "ana_states": drive.set_access(portal, state).map_err(refusal)? })
        }
        ("fault", text) => {
            let fault = serde_json::from_str(text)
                .map_err(|why| (why.to_string(), FAULT_EXAMPLE.to_owned()));
            drive.add_fault(fault?).map_err(refusal)?;
            json!({ "faults": 1 })
        }
        ("mark", text) if !text.is_empty() => {
            drive.mark(text).map_err(refusal)?;
            json!({ "mark": text })
        }
        ("no-faults", "") => {
            drive.clear_faults();
            json!({ "faults": 0 })
        }
        ("resize", rest) => {
            let (nsid, bytes) = rest.split_once(' ').map_or((None, rest), |(n, b)| (Some(n), b));
            let (Ok(nsid), Ok(bytes)) =
                (nsid.map(str::parse).transpose(), bytes.trim_start().parse())
            else {
                return Err((
                    "resize takes a size in bytes".to_owned(),
                    "resize 1 107374182400".to_owned(),
                ));
            };
            value(drive.resize(nsid, bytes).map_err(refusal)?)
        }
        ("snapshot", name) if is_name => match drive.snapshot(name).map_err(refusal)? {
            Some(held_s) => json!({ "held_s": held_s }),
            None => return Ok(None),
        },
        ("restore", name) if is_name => held(drive.restore(name))?,
        ("forget", name) if is_name => held(drive.forget_snapshot(name))?,
        ("clone", rest) if rest.contains(' ') => {
            let (name, folder) = rest.split_once(' ').expect("a blank");
            held(drive.clone_snapshot(name, Path::new(folder.trim())))?
        }
        _ => return Err((format!("{line} is not a command"), COMMANDS.to_owned())),
    }))
}

fn value(figures: impl Serialize) -> Value {
    serde_json::to_value(figures).expect("numbers and texts")
}

/// Answer with the pause of the drive.
fn held(done: Result<f64, ControlError>) -> Result<Value, Refusal> {
    Ok(json!({ "held_s": done.map_err(refusal)? }))
}

/// Splits an error into its message and its hint.
fn refusal(why: ControlError) -> Refusal {
    let text = why.to_string();
    let (error, hint) = text.split_once("\nhint: ").unwrap_or((&text, FAULT_EXAMPLE));
    (error.to_owned(), hint.to_owned())
}

impl ControlConnection {
    /// Appends new events while the client reads them.
    fn follow(&mut self, drive: &dyn Control) {
        while let Some(from) = self.follows
            && self.output.unsent().len() < OUTPUT_MAX
        {
            let events = drive.events(from, EVENTS_AT_A_TIME);
            let Some(last) = events.last() else { return };
            self.follows = Some(last.number + 1);
            for event in &events {
                let line = serde_json::to_string(event).expect("numbers and texts");
                self.output.append().extend(format!("{line}\n").as_bytes());
            }
        }
    }
}

impl Session for ControlConnection {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn readable(&mut self, _drive: &mut dyn Drive) -> io::Result<()> {
        let mut bytes = [0; LINE_MAX];
        let got = match self.socket.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            other => other?,
        };
        if self.follows.is_none() {
            self.input.extend(&bytes[..got]);
        }
        Ok(())
    }

    fn complete(&mut self, _drive: &mut dyn Drive, _completion: Completion) {
        unreachable!("it submits no requests")
    }

    fn flush(&mut self, drive: &mut dyn Drive) -> io::Result<Next> {
        let mut waits = false;
        while !waits && let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&self.input[..end]).trim().to_string();
            let answer = match self.address(&line) {
                Ok((number, _)) if number != self.drive => {
                    self.drive = number;
                    return Ok(Next::Move(number));
                }
                Ok((_, "follow")) => {
                    self.follows = Some(0);
                    self.input.clear();
                    break;
                }
                Ok((_, command)) => answer(command, drive)
                    .unwrap_or_else(|(error, hint)| Some(json!({ "error": error, "hint": hint }))),
                Err(answer) => Some(answer),
            };
            match answer {
                Some(answer) => {
                    self.output.append().extend(format!("{answer}\n").as_bytes());
                    self.input.drain(..=end);
                }
                None => waits = true,
            }
        }
        self.follow(drive);
        refuse_if(!waits && self.input.len() > LINE_MAX, io::ErrorKind::InvalidData)?;
        let all = self.output.drain(|bytes| self.socket.write(bytes))?;
        Ok(Next::Wait { read: !waits && self.output.unsent().len() < OUTPUT_MAX, write: !all })
    }

    fn power_cut(&mut self) -> bool {
        true
    }
}
