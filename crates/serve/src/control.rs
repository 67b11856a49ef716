//! The control socket: a line of words in, a line of JSON out.
//!
//! For people and scripts on this machine: a unix socket, open to its owner alone. A power cut leaves
//! it connected.

use std::io::{self, Read, Write};
use std::os::fd::BorrowedFd;

use serde_json::{Value, json};

use crate::engine::{Done, Engine};
use crate::faults::Fault;
use crate::listener::Socket;
use crate::report::Report;
use crate::session::{Next, Session, SessionId};

/// Longest line.
const LINE_MAX: usize = 4096;
/// Answers that wait for a client that does not read.
const OUTPUT_MAX: usize = 1 << 20;

const COMMANDS: &str = "status, power-cut, ambient CELSIUS, fault JSON, no-faults";

/// Somebody on the control socket.
pub struct Control {
    socket: Socket,
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Control {
    /// A new one.
    #[must_use]
    pub fn new(socket: Socket) -> Control {
        Control { socket, input: Vec::new(), output: Vec::new() }
    }
}

fn refusal(error: &str, hint: &str) -> Value {
    json!({ "error": error, "hint": hint })
}

/// Does what a line says.
fn obey(line: &str, engine: &mut Engine) -> Value {
    let (word, rest) = line.split_once(' ').map_or((line, ""), |(w, r)| (w, r.trim()));
    match (word, rest) {
        ("status", "") => serde_json::to_value(Report::of(engine)).expect("numbers"),
        ("power-cut", "") => match engine.power_cut() {
            Ok(cut) => serde_json::to_value(cut).expect("numbers"),
            Err(why) => refusal(&format!("the store failed: {why}"), "see the disk: df, dmesg"),
        },
        ("ambient", celsius) => match celsius.parse::<f64>() {
            Ok(celsius) if (-40.0..=100.0).contains(&celsius) => {
                engine.set_ambient_c(celsius);
                json!({ "ambient_c": celsius })
            }
            _ => refusal("ambient takes -40 to 100 degrees Celsius", "ambient 45"),
        },
        ("fault", text) => add_fault(text, engine),
        ("no-faults", "") => {
            engine.faults().clear();
            json!({ "faults": 0 })
        }
        _ => refusal(&format!("{line} is not a command"), COMMANDS),
    }
}

fn add_fault(text: &str, engine: &mut Engine) -> Value {
    const EXAMPLE: &str = r#"fault {"kind": "hang", "for_s": 5}"#;
    let mut fault: Fault = match serde_json::from_str(text) {
        Ok(fault) => fault,
        Err(why) => return refusal(&why.to_string(), EXAMPLE),
    };
    // Said now, so its times count from now.
    fault.after_s += engine.since_start().as_secs_f64();
    fault.after_ios += engine.requests();
    match engine.faults().add(fault) {
        Ok(()) => json!({ "faults": 1 }),
        Err(why) => {
            let text = why.to_string();
            let (what, hint) = text.split_once("\nhint: ").unwrap_or((&text, EXAMPLE));
            refusal(what, hint)
        }
    }
}

impl Session for Control {
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.fd())
    }

    fn readable(&mut self, engine: &mut Engine, _me: SessionId) -> io::Result<()> {
        let mut bytes = [0; LINE_MAX];
        let got = match self.socket.read(&mut bytes) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(why) if why.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            other => other?,
        };
        self.input.extend(&bytes[..got]);
        while let Some(end) = self.input.iter().position(|&byte| byte == b'\n') {
            let line = String::from_utf8_lossy(&self.input[..end]).trim().to_string();
            self.input.drain(..=end);
            let answer = obey(&line, engine).to_string();
            self.output.extend(answer.as_bytes());
            self.output.push(b'\n');
        }
        if self.input.len() > LINE_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(())
    }

    fn complete(&mut self, _engine: &mut Engine, _done: Done) {
        unreachable!("it submits no requests")
    }

    fn flush(&mut self, _engine: &mut Engine) -> io::Result<Next> {
        while !self.output.is_empty() {
            match self.socket.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(why) if why.kind() == io::ErrorKind::WouldBlock => break,
                Err(why) => return Err(why),
            }
        }
        let read = self.output.len() < OUTPUT_MAX;
        Ok(Next::Wait { read, write: !self.output.is_empty() })
    }

    fn power_cut(&mut self) -> bool {
        true
    }
}
