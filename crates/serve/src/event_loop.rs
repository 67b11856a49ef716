//! The event loop: one turn reads all sockets that have bytes, then hands out all completions whose
//! time has come, then writes each session's answers in one go.
//!
//! Waiting is epoll's, with a timeout in nanoseconds (epoll_pwait2, Linux 5.11); the thread's timer
//! slack is 1 ns, as the default of 50 us would come on top of each wake-up.

use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use drivebay_units::Nanos;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;

use crate::clock::Pace;
use crate::engine::Engine;
use crate::mailbox::{Handle, Mailbox, Message, Waker};
use crate::session::{Listen, Next, Session, SessionId};
use crate::slab::Slab;

/// What the loop allows.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sessions at a time, of all transports; more are closed as they come.
    pub sessions_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { sessions_max: 64 }
    }
}

/// Why the loop has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Somebody asked for it.
    Stopped,
}

/// Sockets heard of in one turn; the others have theirs in the next.
const EVENTS_MAX: usize = 64;
/// How often sessions are told the time.
const TICK: Duration = Duration::from_millis(100);
/// How long a server that stops waits for requests that are under way.
const GRACE: Duration = Duration::from_secs(5);
/// How long a listener that failed (no more open files) is left alone.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

const WAKER: u64 = u64::MAX;
/// Listeners have names from here on.
const LISTENERS: u64 = 1 << 63;

struct Place {
    session: Box<dyn Session>,
    /// What epoll watches for.
    watched: EventFlags,
    dirty: bool,
}

/// The engine, and all that is connected to it.
pub struct EventLoop {
    engine: Engine,
    epoll: OwnedFd,
    listeners: Vec<Box<dyn Listen>>,
    sessions: Slab<Place>,
    /// Sessions to be flushed at the end of the turn.
    dirty: Vec<SessionId>,
    mailbox: Mailbox,
    waker: Waker,
    limits: Limits,
    stopping: Option<Instant>,
    /// Listeners that failed, until when.
    resting: Option<Instant>,
    ticked: Instant,
    active: Instant,
    /// Power cuts whose sessions have been dropped.
    cuts_seen: u64,
}

/// Letters and wake-ups for a loop that is still to be made; a store's file needs it.
pub struct Post {
    mailbox: Mailbox,
    waker: Waker,
}

impl Post {
    /// A new one.
    ///
    /// # Errors
    /// The system's: no more open files.
    pub fn new() -> io::Result<Post> {
        let waker = Waker::new()?;
        Ok(Post { mailbox: Mailbox::new(waker.clone()), waker })
    }

    /// Sends letters to the loop.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.mailbox.handle()
    }
}

impl EventLoop {
    /// A loop around an engine; nothing is connected yet.
    ///
    /// # Errors
    /// The system's: no epoll, no more open files.
    pub fn new(engine: Engine, post: Post, limits: Limits) -> io::Result<EventLoop> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let Post { mailbox, waker } = post;
        epoll::add(&epoll, waker.fd(), EventData::new_u64(WAKER), EventFlags::IN)?;
        let now = Instant::now();
        Ok(EventLoop {
            engine,
            epoll,
            listeners: Vec::new(),
            sessions: Slab::default(),
            dirty: Vec::new(),
            mailbox,
            waker,
            limits,
            stopping: None,
            resting: None,
            ticked: now,
            active: now,
            cuts_seen: 0,
        })
    }

    /// Adds a socket on which connections arrive.
    ///
    /// # Errors
    /// The system's.
    pub fn listen(&mut self, listener: Box<dyn Listen>) -> io::Result<()> {
        let name = EventData::new_u64(LISTENERS + self.listeners.len() as u64);
        epoll::add(&self.epoll, listener.fd(), name, EventFlags::IN)?;
        self.listeners.push(listener);
        Ok(())
    }

    /// Adds a session that no listener made: a device of a virtual machine.
    ///
    /// # Errors
    /// The system's.
    pub fn add(&mut self, session: Box<dyn Session>) -> io::Result<SessionId> {
        let place = Place { session, watched: EventFlags::empty(), dirty: false };
        let (index, generation) = self.sessions.insert(place);
        let id = SessionId { index, generation };
        let session = &self.sessions.get_mut(index).expect("just put there").session;
        if let Some(fd) = session.fd() {
            let name = EventData::new_u64(name(id));
            if let Err(why) = epoll::add(&self.epoll, fd, name, EventFlags::empty()) {
                self.sessions.remove(index);
                return Err(why.into());
            }
        }
        self.mark(id);
        Ok(id)
    }

    /// The engine.
    #[must_use]
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Serves until somebody asks it to stop; then answers what is under way. The engine comes back.
    ///
    /// # Errors
    /// The system's, from epoll.
    pub fn run(mut self) -> io::Result<(Engine, Ended)> {
        // Where it fails, wake-ups are later, which the lateness shows.
        let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            self.end_turn();
            if self.is_over() {
                return Ok((self.engine, Ended::Stopped));
            }
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
            self.engine.begin_turn();
            let mut happened = !events.is_empty();
            for event in &events {
                self.hear(event);
            }
            if self.engine.power_goes() {
                let _ = self.engine.power_cut()?;
            }
            self.drop_cut_sessions();
            happened |= self.hand_out();
            if happened {
                self.active = Instant::now();
            }
            self.tick();
        }
    }

    /// How long to wait at most.
    fn timeout(&self) -> Option<Timespec> {
        let clock = self.engine.clock();
        let wait = clock.sleep(self.engine.next_due(), self.quiet());
        let wait = wait.unwrap_or(TICK).min(TICK);
        Some(Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    fn quiet(&self) -> Nanos {
        match self.engine.clock().pace() {
            Pace::Hybrid | Pace::None => Nanos(self.active.elapsed().as_nanos() as u64),
            Pace::Sleep | Pace::Spin => Nanos::ZERO,
        }
    }

    fn hear(&mut self, event: &Event) {
        match event.data.u64() {
            WAKER => self.read_letters(),
            name if name >= LISTENERS => self.accept((name - LISTENERS) as usize),
            name => {
                let id = SessionId { index: name as u32, generation: (name >> 32) as u32 };
                let Some(place) = self.sessions.same_mut(id.index, id.generation) else { return };
                let wanted = place.watched.contains(EventFlags::IN);
                let flags = event.flags;
                let broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
                let reads = broken || (wanted && flags.contains(EventFlags::IN));
                if reads && place.session.readable(&mut self.engine, id).is_err() {
                    self.close(id);
                    return;
                }
                self.mark(id);
            }
        }
    }

    /// After a power cut, by plan or by word, connections drop.
    fn drop_cut_sessions(&mut self) {
        let (cuts, _) = self.engine.cuts();
        if cuts == self.cuts_seen {
            return;
        }
        self.cuts_seen = cuts;
        let mut gone = Vec::new();
        for (index, generation, place) in self.sessions.iter_mut() {
            if !place.session.power_cut() {
                gone.push(SessionId { index, generation });
            }
        }
        for id in gone {
            self.close(id);
        }
    }

    /// Hands out what is due; returns whether there was anything.
    fn hand_out(&mut self) -> bool {
        let mut any = false;
        while let Some(done) = self.engine.next_done() {
            any = true;
            let id = done.request.session;
            // The session may have gone since.
            if let Some(place) = self.sessions.same_mut(id.index, id.generation) {
                place.session.complete(&mut self.engine, done);
                self.mark(id);
            }
        }
        any
    }

    /// Every session that something happened to writes what it has.
    fn end_turn(&mut self) {
        while let Some(id) = self.dirty.pop() {
            let Some(place) = self.sessions.same_mut(id.index, id.generation) else { continue };
            place.dirty = false;
            match place.session.flush(&mut self.engine) {
                Ok(Next::Wait { read, write }) => {
                    if self.watch(id, read && self.stopping.is_none(), write).is_err() {
                        self.close(id);
                    }
                }
                Ok(Next::Close) | Err(_) => self.close(id),
            }
        }
        self.engine.end_turn();
    }

    fn watch(&mut self, id: SessionId, read: bool, write: bool) -> io::Result<()> {
        let Some(place) = self.sessions.same_mut(id.index, id.generation) else { return Ok(()) };
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, read);
        wanted.set(EventFlags::OUT, write);
        if wanted != place.watched
            && let Some(fd) = place.session.fd()
        {
            epoll::modify(&self.epoll, fd, EventData::new_u64(name(id)), wanted)?;
            place.watched = wanted;
        }
        Ok(())
    }

    fn mark(&mut self, id: SessionId) {
        if let Some(place) = self.sessions.same_mut(id.index, id.generation)
            && !place.dirty
        {
            place.dirty = true;
            self.dirty.push(id);
        }
    }

    fn close(&mut self, id: SessionId) {
        if let Some(place) = self.sessions.remove(id.index)
            && let Some(fd) = place.session.fd()
        {
            let _ = epoll::delete(&self.epoll, fd);
        }
    }

    fn accept(&mut self, index: usize) {
        loop {
            match self.listeners[index].accept() {
                Ok(None) => return,
                Ok(Some(session)) => {
                    let full = self.sessions.len() >= self.limits.sessions_max;
                    if !full && self.stopping.is_none() {
                        // One that cannot be watched is closed.
                        let _ = self.add(session);
                    }
                }
                Err(_) => {
                    self.rest_listeners(true);
                    return;
                }
            }
        }
    }

    /// Level-triggered: a listener that cannot accept would be heard of again at once.
    fn rest_listeners(&mut self, rest: bool) {
        let flags = if rest { EventFlags::empty() } else { EventFlags::IN };
        for (i, listener) in self.listeners.iter().enumerate() {
            let name = EventData::new_u64(LISTENERS + i as u64);
            let _ = epoll::modify(&self.epoll, listener.fd(), name, flags);
        }
        self.resting = rest.then(|| Instant::now() + ACCEPT_AGAIN);
    }

    fn read_letters(&mut self) {
        self.waker.clear();
        while let Some(letter) = self.mailbox.next() {
            match letter {
                Message::Stop => self.stop(),
                Message::Call(work) => work(&mut self.engine),
                Message::Mail(id, letter) => {
                    let Some(place) = self.sessions.same_mut(id.index, id.generation) else {
                        continue;
                    };
                    if place.session.mail(&mut self.engine, id, letter).is_err() {
                        self.close(id);
                    } else {
                        self.mark(id);
                    }
                }
            }
        }
    }

    fn stop(&mut self) {
        self.stopping.get_or_insert_with(Instant::now);
        self.rest_listeners(true);
        self.mark_all();
    }

    fn mark_all(&mut self) {
        let all: Vec<SessionId> = self
            .sessions
            .iter_mut()
            .map(|(index, generation, _)| SessionId { index, generation })
            .collect();
        for id in all {
            self.mark(id);
        }
    }

    fn is_over(&self) -> bool {
        self.stopping.is_some_and(|since| self.engine.outstanding() == 0 || since.elapsed() > GRACE)
    }

    fn tick(&mut self) {
        if self.ticked.elapsed() < TICK {
            return;
        }
        self.ticked = Instant::now();
        if self.resting.is_some_and(|until| until <= self.ticked) && self.stopping.is_none() {
            self.rest_listeners(false);
        }
        let now = self.engine.now();
        let mut gone = Vec::new();
        for (index, generation, place) in self.sessions.iter_mut() {
            let id = SessionId { index, generation };
            if place.session.tick(&mut self.engine, now).is_err() {
                gone.push(id);
            } else if !place.dirty {
                place.dirty = true;
                self.dirty.push(id);
            }
        }
        for id in gone {
            self.close(id);
        }
    }
}

/// Below [`LISTENERS`], as generations of that size do not come up.
fn name(id: SessionId) -> u64 {
    (u64::from(id.generation & 0x7FFF_FFFF) << 32) | u64::from(id.index)
}
