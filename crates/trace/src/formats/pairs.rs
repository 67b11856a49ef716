//! Issues held until their completions, for recordings that have the two as lines of their own.
//!
//! Matched by device, first sector and kind; of several alike, the oldest first. Bounded: an issue still
//! open [`OPEN_MAX`] issues later is given without a response time.
//! Not modelled: requests that complete in parts. Effect: they seem to end with their first part.

use std::collections::{HashMap, VecDeque};

use drivebay_units::Nanos;

use super::parse::Out;
use crate::error::Problem;
use crate::request::{Op, Request};

/// Most issues held open.
pub(crate) const OPEN_MAX: usize = 1 << 16;

type Key = (u32, u64, Op);

fn key(request: &Request) -> Key {
    (request.device, request.offset_bytes, request.op)
}

/// Issues that wait for their completions.
#[derive(Default)]
pub(crate) struct Pairs {
    /// Issues in order, from number `first` on, each with the number of the next one of the same key.
    open: VecDeque<(Option<Request>, Option<u64>)>,
    first: u64,
    /// Oldest and newest open issue of each key.
    by_key: HashMap<Key, (u64, u64)>,
}

impl Pairs {
    /// A request is issued.
    pub(crate) fn issue(&mut self, request: Request, out: &mut Out<'_>) -> Result<(), Problem> {
        if self.open.len() == OPEN_MAX {
            let oldest = self.open.front().expect("just counted").0;
            if let Some(request) = oldest {
                self.remove(self.first);
                out.push(request)?;
            }
            self.forget_ended();
        }
        let number = self.first + self.open.len() as u64;
        self.open.push_back((Some(request), None));
        match self.by_key.get_mut(&key(&request)) {
            Some((_, newest)) => {
                let before = std::mem::replace(newest, number);
                self.open[(before - self.first) as usize].1 = Some(number);
            }
            None => {
                self.by_key.insert(key(&request), (number, number));
            }
        }
        Ok(())
    }

    /// A request is complete; `like` says which one, by device, offset and kind.
    pub(crate) fn complete(&mut self, like: &Request, out: &mut Out<'_>) -> Result<(), Problem> {
        let Some((number, _)) = self.by_key.get(&key(like)).copied() else {
            out.skipped.unmatched += 1;
            return Ok(());
        };
        let request = self.remove(number);
        self.forget_ended();
        let response = like.at.0.checked_sub(request.at.0).map(Nanos);
        out.push(Request { response, ..request }).map(|_| ())
    }

    /// The recording ends: what is open has no response time.
    pub(crate) fn end(&mut self, out: &mut Out<'_>) {
        for (request, _) in self.open.drain(..) {
            if let Some(request) = request {
                out.push(request).expect("was checked when it was issued");
            }
        }
        self.by_key.clear();
    }

    /// Takes out the oldest issue of its key.
    fn remove(&mut self, number: u64) -> Request {
        let slot = &mut self.open[(number - self.first) as usize];
        let request = slot.0.take().expect("open until removed");
        match slot.1 {
            Some(next) => {
                self.by_key.get_mut(&key(&request)).expect("has a next one").0 = next;
            }
            None => {
                self.by_key.remove(&key(&request));
            }
        }
        request
    }

    fn forget_ended(&mut self) {
        while matches!(self.open.front(), Some((None, _))) {
            self.open.pop_front();
            self.first += 1;
        }
    }
}
