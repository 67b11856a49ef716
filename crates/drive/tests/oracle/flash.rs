//! The oracle's dies: arrays with read priority, suspended programs, and a data register.
//!
//! A die does one array operation at a time. Reads go first, in order of arrival; a running program or
//! erase stops at most `suspend` after the first of them comes, and goes on when no read waits.
//! Programs and erases go in order of arrival. A program's data moves in when the register is free:
//! when the program before has begun (`cache_program`), else when it has ended.

use std::collections::VecDeque;

/// What a die is asked to keep.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Array time.
    pub len: u64,
    /// Stream and newest flash page of a program; None for an erase.
    pub pages: Option<(usize, u64)>,
    loaded: bool,
}

/// A running or suspended program or erase.
#[derive(Clone, Copy, Debug)]
struct Running {
    write: Write,
    left: u64,
    /// Since when it runs; None while suspended.
    since: Option<u64>,
}

/// What a die wants of the simulator.
#[derive(Clone, Copy, Debug)]
pub enum Wish<J> {
    /// A call of `timer` at this time, with this number.
    Timer(u64, u64),
    /// Move a program's data in.
    Load,
    /// A read's data is in the register.
    Sensed(J),
    /// A program has ended.
    Programmed(usize, u64),
}

/// One die. `J` names a read.
pub struct Die<J> {
    suspend: u64,
    cached: bool,
    reads: VecDeque<(u64, J)>,
    reading: bool,
    writes: VecDeque<Write>,
    running: Option<Running>,
    suspending: bool,
    loading: bool,
    /// Timers with an older number are void.
    timer: u64,
}

impl<J: Copy> Die<J> {
    pub fn new(suspend: u64, cached: bool) -> Die<J> {
        Die {
            suspend,
            cached,
            reads: VecDeque::new(),
            reading: false,
            writes: VecDeque::new(),
            running: None,
            suspending: false,
            loading: false,
            timer: 0,
        }
    }

    pub fn read(&mut self, now: u64, len: u64, job: J, wishes: &mut Vec<Wish<J>>) {
        self.reads.push_back((len, job));
        self.go_on(now, wishes);
    }

    pub fn program(&mut self, now: u64, len: u64, pages: (usize, u64), wishes: &mut Vec<Wish<J>>) {
        self.writes.push_back(Write { len, pages: Some(pages), loaded: false });
        self.go_on(now, wishes);
    }

    /// A program of what nobody waits for.
    pub fn program_parity(&mut self, now: u64, len: u64, wishes: &mut Vec<Wish<J>>) {
        self.writes.push_back(Write { len, pages: None, loaded: false });
        self.go_on(now, wishes);
    }

    pub fn erase(&mut self, now: u64, len: u64, wishes: &mut Vec<Wish<J>>) {
        self.writes.push_back(Write { len, pages: None, loaded: true });
        self.go_on(now, wishes);
    }

    /// The data of the program that was loading has come.
    pub fn loaded(&mut self, now: u64, wishes: &mut Vec<Wish<J>>) {
        let write = self.writes.iter_mut().find(|w| !w.loaded).expect("a program was loading");
        write.loaded = true;
        self.loading = false;
        self.go_on(now, wishes);
    }

    /// What was set a timer for has come.
    pub fn timer(&mut self, now: u64, number: u64, wishes: &mut Vec<Wish<J>>) {
        if number != self.timer {
            return;
        }
        if self.reading {
            self.reading = false;
            let (_, job) = self.reads.pop_front().expect("it was being read");
            wishes.push(Wish::Sensed(job));
        } else {
            let running = self.running.as_mut().expect("timers are for reads, ends and suspends");
            let since = running.since.expect("it runs");
            running.left -= now - since;
            running.since = None;
            if running.left == 0 {
                if let Some((stream, page)) = running.write.pages {
                    wishes.push(Wish::Programmed(stream, page));
                }
                self.running = None;
            }
            self.suspending = false;
        }
        self.go_on(now, wishes);
    }

    fn set_timer(&mut self, at: u64, wishes: &mut Vec<Wish<J>>) {
        self.timer += 1;
        wishes.push(Wish::Timer(at, self.timer));
    }

    /// Begins whatever can begin.
    fn go_on(&mut self, now: u64, wishes: &mut Vec<Wish<J>>) {
        if !self.reading {
            self.array(now, wishes);
        }
        self.load(wishes);
    }

    fn array(&mut self, now: u64, wishes: &mut Vec<Wish<J>>) {
        if let Some(Running { left, since: Some(since), .. }) = self.running {
            if !self.reads.is_empty() && !self.suspending {
                self.suspending = true;
                self.set_timer((now + self.suspend).min(since + left), wishes);
            }
        } else if let Some(&(len, _)) = self.reads.front() {
            self.reading = true;
            self.set_timer(now + len, wishes);
        } else {
            self.run(now, wishes);
        }
    }

    /// Resumes the suspended write, or begins the next one.
    fn run(&mut self, now: u64, wishes: &mut Vec<Wish<J>>) {
        if self.running.is_none() && self.writes.front().is_some_and(|w| w.loaded) {
            let write = self.writes.pop_front().expect("there is one");
            self.running = Some(Running { write, left: write.len, since: None });
        }
        if let Some(running) = self.running.as_mut() {
            running.since = Some(now);
            let end = now + running.left;
            self.set_timer(end, wishes);
        }
    }

    /// Asks for the next program's data if the register is free.
    fn load(&mut self, wishes: &mut Vec<Wish<J>>) {
        let full = self.writes.iter().any(|w| w.loaded && w.pages.is_some());
        let next = self.writes.iter().position(|w| !w.loaded);
        let in_turn = self.cached || (self.running.is_none() && next == Some(0));
        if !self.loading && !full && next.is_some() && in_turn {
            self.loading = true;
            wishes.push(Wish::Load);
        }
    }
}
