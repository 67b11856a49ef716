//! The control socket: a line of words in, a line of JSON out.
//!
//! For people and scripts on this machine: a unix socket, open to its owner alone. A power cut leaves
//! it connected. Lines are answered in their order; one that has to wait is tried again at every tick.
//! Where a server has several drives, a line names its drive, and is answered in that one's event loop.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use serde_json::{Value, json};
use socket2::Socket;

use crate::buffers::Output;
use crate::drive::{ControlCommand, ControlReply, Drive};
use crate::request::Completion;
use crate::session::{Next, Session};

/// Longest command line that a client may send, in bytes.
const LINE_MAX: usize = 4096;
/// Bytes of replies that wait for a client that does not read.
const OUTPUT_MAX: usize = 1 << 20;

/// Events that are written at a time to a client that follows: at most 64 KiB.
const EVENTS_AT_A_TIME: usize = 64;

const COMMANDS: &str = "drives, status, events, follow, power-cut, power-on, ambient CELSIUS, fault JSON, no-faults, \
    resize BYTES, resize NSID BYTES, snapshot NAME, restore NAME, forget NAME, clone NAME FOLDER";
const FAULT_EXAMPLE: &str = r#"fault {"kind": "hang", "for_s": 5}"#;

/// A connection to the control socket.
pub(crate) struct Control {
    socket: Socket,
    /// The names of all drives of the server.
    drives: Arc<[String]>,
    /// The number of the drive in whose event loop it is.
    drive: usize,
    input: Vec<u8>,
    output: Output,
    /// The number of the next event, for a client that follows; nothing that it says is heard any more.
    follows: Option<u64>,
}

impl Control {
    /// In the event loop of this drive.
    pub fn new(socket: Socket, drives: Arc<[String]>, drive: usize) -> Control {
        Control {
            socket,
            drives,
            drive,
            input: Vec::new(),
            output: Output::default(),
            follows: None,
        }
    }

    /// The number of the drive that a line is for, and its command; or the answer to it.
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
        match drives.iter().position(|one| one == name) {
            Some(drive) => Ok((drive, command.trim_start())),
            None => Err(json!({
                "error": format!("there is no drive {name}"), "hint": drives.join(", ")
            })),
        }
    }
}

/// All events of a drive that are kept.
fn events(drive: &dyn Drive) -> Value {
    json!({ "events": drive.events(0, usize::MAX) })
}

/// What a line asks for, or an error and its hint.
fn parse(line: &str) -> Result<ControlCommand, (String, &'static str)> {
    let (word, rest) = line.split_once(' ').map_or((line, ""), |(w, r)| (w, r.trim()));
    match (word, rest) {
        ("status", "") => Ok(ControlCommand::Report),
        ("power-cut", "") => Ok(ControlCommand::PowerCut),
        ("power-on", "") => Ok(ControlCommand::PowerOn),
        ("ambient", celsius) => match celsius.parse::<f64>() {
            Ok(celsius) if (-40.0..=100.0).contains(&celsius) => {
                Ok(ControlCommand::Ambient(celsius))
            }
            _ => Err(("ambient takes -40 to 100 degrees Celsius".to_owned(), "ambient 45")),
        },
        ("fault", text) => match serde_json::from_str(text) {
            Ok(fault) => Ok(ControlCommand::AddFault(fault)),
            Err(why) => Err((why.to_string(), FAULT_EXAMPLE)),
        },
        ("no-faults", "") => Ok(ControlCommand::ClearFaults),
        ("resize", rest) => {
            let (nsid, bytes) = rest.split_once(' ').map_or((None, rest), |(n, b)| (Some(n), b));
            let nsid = nsid.map(str::parse).transpose().ok();
            match (nsid, bytes.trim_start().parse()) {
                (Some(nsid), Ok(bytes)) => Ok(ControlCommand::Resize(nsid, bytes)),
                _ => Err(("resize takes a size in bytes".to_owned(), "resize 1 107374182400")),
            }
        }
        ("clone", rest) if rest.contains(' ') => {
            let (name, folder) = rest.split_once(' ').expect("a blank");
            Ok(ControlCommand::Clone(name.to_owned(), folder.trim().into()))
        }
        ("snapshot" | "restore" | "forget", name) if !name.is_empty() && !name.contains(' ') => {
            let command = match word {
                "snapshot" => ControlCommand::Snapshot,
                "restore" => ControlCommand::Restore,
                _ => ControlCommand::Forget,
            };
            Ok(command(name.to_owned()))
        }
        _ => Err((format!("{line} is not a command"), COMMANDS)),
    }
}

/// Carries out a line; no answer means later.
fn answer(line: &str, drive: &mut dyn Drive) -> Option<Value> {
    let command = match parse(line) {
        Ok(command) => command,
        Err((error, hint)) => return Some(json!({ "error": error, "hint": hint })),
    };
    Some(match (drive.control(command.clone()), command) {
        (Ok(ControlReply::Later), _) => return None,
        (Ok(ControlReply::Success), ControlCommand::Ambient(celsius)) => {
            json!({ "ambient_c": celsius })
        }
        (Ok(ControlReply::Success), ControlCommand::PowerOn) => json!({ "is_off": false }),
        (Ok(ControlReply::Success), command) => {
            json!({ "faults": u8::from(matches!(command, ControlCommand::AddFault(_))) })
        }
        (Ok(reply), _) => serde_json::to_value(reply).expect("numbers"),
        (Err(why), _) => {
            let text = why.to_string();
            let (error, hint) = text.split_once("\nhint: ").unwrap_or((&text, FAULT_EXAMPLE));
            json!({ "error": error, "hint": hint })
        }
    })
}

impl Control {
    /// Appends what has happened since, as far as its client reads.
    fn follow(&mut self, drive: &dyn Drive) {
        while let Some(from) = self.follows
            && self.output.unsent().len() < OUTPUT_MAX
        {
            let found = drive.events(from, EVENTS_AT_A_TIME);
            let Some(last) = found.last() else { return };
            self.follows = Some(last.number + 1);
            for event in &found {
                let line = serde_json::to_string(event).expect("numbers and texts");
                self.output.append().extend(format!("{line}\n").as_bytes());
            }
        }
    }
}

impl Session for Control {
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
                Ok((_, "events")) => Some(events(drive)),
                Ok((_, "follow")) => {
                    self.follows = Some(0);
                    self.input.clear();
                    break;
                }
                Ok((_, command)) => answer(command, drive),
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
        if !waits && self.input.len() > LINE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let all = self.output.drain(|bytes| self.socket.write(bytes))?;
        Ok(Next::Wait { read: !waits && self.output.unsent().len() < OUTPUT_MAX, write: !all })
    }

    fn power_cut(&mut self) -> bool {
        true
    }
}
