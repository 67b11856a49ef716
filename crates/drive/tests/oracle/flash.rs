//! The oracle's dies: arrays with read priority, suspended programs, and a data register.
//!
//! A die does one array operation at a time. Reads go first, in order of arrival; a running program
//! or erase stops at most `suspend` after the first of them comes, and resumes when no read waits.
//! Programs and erases are served in order of arrival. A program's data moves in when the register
//! is free: when the previous program has begun (`cache_program`), else when it has ended. Planes
//! that read independently have a queue of reads each: a plane starts its next read whenever no
//! write runs, and writes resume when no plane reads. A program that a host's read stops may
//! restart, with the pages of its word line before it.

use std::collections::VecDeque;

/// Restarts of a program, after which a read waits for its end.
const RESTARTS_MAX: u32 = 10;

/// A program or erase of a die.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Array time.
    pub len: u64,
    /// Stream and newest flash page of a program; None for an erase.
    pub pages: Option<(usize, u64)>,
    loaded: bool,
    erase: bool,
    /// Time of a restart; `None` if it resumes.
    whole: Option<u64>,
}

/// A running or suspended program or erase.
#[derive(Clone, Copy, Debug)]
struct Running {
    write: Write,
    left: u64,
    /// Start of the present run; `None` while suspended.
    since: Option<u64>,
    restarts: u32,
}

/// A request of a die to the simulator.
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

/// Reads that wait for one another; the first of them may be running.
struct Reads<J> {
    /// Array time, read, and true if it is the host's.
    queue: VecDeque<(u64, J, bool)>,
    /// Timer of the running read.
    running: Option<u64>,
}

/// One die. `J` names a read.
pub struct Die<J> {
    /// Waits for a program and for an erase.
    suspend: [u64; 2],
    cached: bool,
    /// Reads of the die, or of each plane that reads independently.
    reads: Vec<Reads<J>>,
    writes: VecDeque<Write>,
    running: Option<Running>,
    /// True if a suspension is under way for a read of the host, false for another read.
    suspending: Option<bool>,
    loading: bool,
    /// Timers set so far.
    timers: u64,
    /// Timer of the running write; other timers of writes are void.
    timer: u64,
}

impl<J: Copy> Die<J> {
    pub fn new(suspend: [u64; 2], cached: bool, independent_planes: usize) -> Die<J> {
        let reads = |_| Reads { queue: VecDeque::new(), running: None };
        Die {
            suspend,
            cached,
            reads: (0..independent_planes).map(reads).collect(),
            writes: VecDeque::new(),
            running: None,
            suspending: None,
            loading: false,
            timers: 0,
            timer: 0,
        }
    }

    /// `plane`: plane of the die if planes read independently; else any.
    pub fn read(
        &mut self,
        now: u64,
        plane: usize,
        (len, job, host): (u64, J, bool),
        wishes: &mut Vec<Wish<J>>,
    ) {
        let planes = self.reads.len();
        self.reads[plane % planes].queue.push_back((len, job, host));
        self.go_on(now, wishes);
    }

    /// `pages`: `None` if nobody waits for the program. `whole`: time of a restart, if it restarts.
    pub fn program(
        &mut self,
        now: u64,
        (len, whole): (u64, Option<u64>),
        pages: Option<(usize, u64)>,
        wishes: &mut Vec<Wish<J>>,
    ) {
        self.writes.push_back(Write { len, pages, loaded: false, erase: false, whole });
        self.go_on(now, wishes);
    }

    pub fn erase(&mut self, now: u64, len: u64, wishes: &mut Vec<Wish<J>>) {
        self.writes.push_back(Write { len, pages: None, loaded: true, erase: true, whole: None });
        self.go_on(now, wishes);
    }

    /// The data of the loading program has arrived.
    pub fn loaded(&mut self, now: u64, wishes: &mut Vec<Wish<J>>) {
        let write = self.writes.iter_mut().find(|w| !w.loaded).expect("a program was loading");
        write.loaded = true;
        self.loading = false;
        self.go_on(now, wishes);
    }

    /// A timer has expired.
    pub fn timer(&mut self, now: u64, number: u64, wishes: &mut Vec<Wish<J>>) {
        if let Some(reads) = self.reads.iter_mut().find(|r| r.running == Some(number)) {
            reads.running = None;
            let (_, job, _) = reads.queue.pop_front().expect("it was being read");
            wishes.push(Wish::Sensed(job));
        } else if number != self.timer {
            return;
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
            } else if self.suspending == Some(true)
                && let Some(whole) = running.write.whole
            {
                running.left = running.left.max(whole);
                running.restarts += 1;
            }
            self.suspending = None;
        }
        self.go_on(now, wishes);
    }

    fn set_timer(&mut self, at: u64, wishes: &mut Vec<Wish<J>>) {
        self.timers += 1;
        self.timer = self.timers;
        wishes.push(Wish::Timer(at, self.timer));
    }

    /// Starts all operations that can begin.
    fn go_on(&mut self, now: u64, wishes: &mut Vec<Wish<J>>) {
        self.array(now, wishes);
        self.load(wishes);
    }

    fn array(&mut self, now: u64, wishes: &mut Vec<Wish<J>>) {
        if let Some(Running { write, left, since: Some(since), restarts }) = self.running {
            let first = self.reads.iter().find_map(|r| r.queue.front());
            if let (Some(&(_, _, host)), None) = (first, self.suspending) {
                self.suspending = Some(host);
                let finishes = host && write.whole.is_some() && restarts == RESTARTS_MAX;
                let stops = if finishes {
                    since + left
                } else {
                    now + self.suspend[usize::from(write.erase)]
                };
                self.set_timer(stops.min(since + left), wishes);
            }
            return;
        }
        for reads in self.reads.iter_mut().filter(|r| r.running.is_none()) {
            if let Some(&(len, _, _)) = reads.queue.front() {
                self.timers += 1;
                reads.running = Some(self.timers);
                wishes.push(Wish::Timer(now + len, self.timers));
            }
        }
        if self.reads.iter().all(|r| r.running.is_none()) {
            self.run(now, wishes);
        }
    }

    /// Resumes the suspended write, or begins the next one.
    fn run(&mut self, now: u64, wishes: &mut Vec<Wish<J>>) {
        if self.running.is_none() && self.writes.front().is_some_and(|w| w.loaded) {
            let write = self.writes.pop_front().expect("there is one");
            self.running = Some(Running { write, left: write.len, since: None, restarts: 0 });
        }
        if let Some(running) = self.running.as_mut() {
            running.since = Some(now);
            let end = now + running.left;
            self.set_timer(end, wishes);
        }
    }

    /// Asks for the next program's data if the register is free.
    fn load(&mut self, wishes: &mut Vec<Wish<J>>) {
        let full = self.writes.iter().any(|w| w.loaded && w.pages.is_some() && w.len > 0);
        let next = self.writes.iter().position(|w| !w.loaded);
        let in_turn = self.cached || (self.running.is_none() && next == Some(0));
        if !self.loading && !full && next.is_some() && in_turn {
            self.loading = true;
            wishes.push(Wish::Load);
        }
    }
}
