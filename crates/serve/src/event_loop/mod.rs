//! Event loop: one iteration reads all sockets that have bytes, then passes on all completions that
//! are due, then writes each session's answers at once.
//!
//! It waits in epoll, with a timeout in nanoseconds (epoll_pwait2, Linux 5.11). The thread's timer
//! slack is 1 ns, as the default of 50 us would delay each wake-up.

pub(crate) mod channel;
pub(crate) mod listener;

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU64;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use drivebay_units::Nanos;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::io::Errno;
use slotmap::{Key, KeyData, SlotMap};

use crate::engine::Engine;
use crate::event_loop::channel::{Channel, Handle, Message};
use crate::interface::drive::Io as _;
use crate::interface::events::What;
use crate::interface::session::{Listen, Next, Session};
use crate::memory_limit::{SESSION_BYTES, Share, Use};
use crate::pacing::starvation::Starvation;
use crate::request::SessionId;

/// Most sessions at a time, of all transports; further ones are closed.
const SESSIONS_MAX: usize = 64;
/// Sockets whose events one iteration takes; the next iteration takes the others.
const EVENTS_MAX: usize = 64;
/// Interval of [`Session::tick`].
const TICK: Duration = Duration::from_millis(100);
/// Time that a stopping server waits for commands in flight, and for the next command of a session
/// that continues.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Time for which a listener that failed (no more open files) is not watched.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Event data in epoll: the waker, listeners (from [`LISTENERS`] on), and sessions (smaller
/// values).
const WAKER: u64 = u64::MAX;
const LISTENERS: u64 = 1 << 63;

struct Entry {
    session: Box<dyn Session>,
    /// Events that epoll watches for.
    watched: EventFlags,
    /// True if the session must be flushed at the end of the iteration.
    is_dirty: bool,
    /// Protocol with which the session was reported as a connected host.
    reported: Option<&'static str>,
    since: Instant,
    /// Memory of its buffers.
    _memory: Share,
}

/// Engine of a drive, with all its connections.
///
/// If a server has several drives, each has an event loop in its own thread. All of them listen at
/// the same addresses, and a session moves to the loop of the drive that it chooses.
pub struct EventLoop {
    engine: Engine,
    /// Handles of all drives of the server, including this one; empty if it is the only one.
    drives: Vec<Handle>,
    /// Number of this drive.
    number: usize,
    epoll: OwnedFd,
    listeners: Vec<Box<dyn Listen>>,
    sessions: SlotMap<SessionId, Entry>,
    dirty: Vec<SessionId>,
    channel: Channel,
    /// Time of the request to stop.
    stopping: Option<Instant>,
    /// Time until which listeners are not watched, after one failed.
    paused: Option<Instant>,
    ticked: Instant,
    last_event: Instant,
    /// Connections refused since the last tick, by reason.
    refused: BTreeMap<&'static str, u64>,
    /// Number of [`Engine::interruptions`] that sessions know of.
    interruptions: u64,
}

impl EventLoop {
    /// Creates a loop around an engine, without connections.
    pub fn new(engine: Engine, channel: Channel) -> io::Result<EventLoop> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, channel.waker().fd(), EventData::new_u64(WAKER), EventFlags::IN)?;
        let now = Instant::now();
        Ok(EventLoop {
            engine,
            drives: Vec::new(),
            number: 0,
            epoll,
            listeners: Vec::new(),
            sessions: SlotMap::with_key(),
            dirty: Vec::new(),
            channel,
            stopping: None,
            paused: None,
            ticked: now,
            last_event: now,
            refused: BTreeMap::new(),
            interruptions: 0,
        })
    }

    /// Makes this the loop of drive `number` among several drives, whose handles are given.
    pub fn join(&mut self, number: usize, drives: Vec<Handle>) {
        (self.number, self.drives) = (number, drives);
    }

    /// Adds a socket that accepts connections.
    pub fn listen(&mut self, listener: Box<dyn Listen>) -> io::Result<()> {
        let data = EventData::new_u64(LISTENERS + self.listeners.len() as u64);
        epoll::add(&self.epoll, listener.fd(), data, EventFlags::IN)?;
        self.listeners.push(listener);
        Ok(())
    }

    /// Adds a session without a listener: a device of a virtual machine.
    pub fn add(&mut self, session: Box<dyn Session>) -> io::Result<SessionId> {
        let memory = self.engine.store().memory_limit().share(Use::Sessions);
        self.add_with(session, memory)
    }

    fn add_with(&mut self, session: Box<dyn Session>, memory: Share) -> io::Result<SessionId> {
        let watched = EventFlags::empty();
        let since = Instant::now();
        let entry =
            Entry { session, watched, is_dirty: false, reported: None, since, _memory: memory };
        let id = self.sessions.insert(entry);
        if let Some(fd) = self.sessions[id].session.fd() {
            let added = epoll::add(&self.epoll, fd, event_data(id), EventFlags::empty());
            if let Err(why) = added {
                self.sessions.remove(id);
                return Err(why.into());
            }
        }
        self.mark(id);
        Ok(id)
    }

    /// Requests a call of [`Session::notified`] once the loop runs.
    pub(crate) fn notify(&self, id: SessionId) {
        self.channel.handle().send(Message::Notify(id));
    }

    /// The engine, before the loop runs.
    pub fn engine(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Serves until asked to stop, completes the commands in flight, and returns the engine.
    pub fn run(mut self) -> io::Result<Engine> {
        self.engine.expect_follow_ups();
        // If this fails, wake-ups are later, which the lateness shows.
        let _ = rustix::thread::set_current_timer_slack(Some(NonZeroU64::MIN));
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let is_paced = self.engine.clock().is_paced();
        let mut starvation = Starvation::of_this_thread();
        if is_paced {
            // If permitted, runs before the machine's compute-bound programs, as a real drive
            // would.
            let _ = rustix::process::setpriority_process(None, -20);
        }
        let mut any_answer = false;
        loop {
            self.end_iteration();
            if is_paced && any_answer {
                // The starvation made these answers late, which is counted already.
                starvation.take();
            }
            if self.is_over() {
                self.say_refused();
                return Ok(self.engine);
            }
            let timeout = self.timeout();
            events.clear();
            let buffer = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, buffer, Some(&timeout)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(why) => return Err(why.into()),
            }
            self.engine.begin_iteration();
            if is_paced && !events.is_empty() {
                self.engine.note_starved(starvation.take());
            }
            for event in &events {
                self.handle(event);
            }
            self.engine.watch_link();
            self.engine.planned_power_cut()?;
            self.drop_cut_sessions();
            any_answer = self.hand_out();
            if any_answer || !events.is_empty() {
                self.last_event = Instant::now();
            }
            self.tick();
        }
    }

    /// Longest time to wait.
    fn timeout(&mut self) -> Timespec {
        let longest = self.engine.patience().map_or(TICK, |left| Duration::from_nanos(left.0));
        let clock = self.engine.clock();
        let quiet = match clock.polls_after_events() {
            true => Nanos(self.last_event.elapsed().as_nanos() as u64),
            false => Nanos::ZERO,
        };
        let wait =
            clock.sleep(self.engine.next_due(), quiet).unwrap_or(TICK).min(longest).min(TICK);
        Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) }
    }

    fn handle(&mut self, event: &Event) {
        match event.data.u64() {
            WAKER => self.read_messages(),
            data if data >= LISTENERS => self.accept((data - LISTENERS) as usize),
            data => {
                let id = SessionId::from(KeyData::from_ffi(data));
                let Some(entry) = self.sessions.get_mut(id) else { return };
                let flags = event.flags;
                let is_broken = flags.intersects(EventFlags::ERR | EventFlags::HUP);
                let is_readable = flags.contains(EventFlags::IN);
                let reads = is_broken || (entry.watched.contains(EventFlags::IN) && is_readable);
                if reads && let Err(why) = entry.session.readable(self.engine.drive_of(id)) {
                    self.close_for(id, &why);
                    return;
                }
                self.mark(id);
            }
        }
    }

    /// Drops connections after a power cut (planned or requested), an outage of the link, or the
    /// restore of a snapshot.
    fn drop_cut_sessions(&mut self) {
        if self.interruptions == self.engine.interruptions() {
            return;
        }
        self.interruptions = self.engine.interruptions();
        let sessions = self.sessions.iter_mut();
        let gone = sessions.filter_map(|(id, entry)| (!entry.session.power_cut()).then_some(id));
        for id in gone.collect::<Vec<SessionId>>() {
            self.close(id);
        }
        self.mark_all();
    }

    /// Passes on the completions that are due; returns true if there were any.
    fn hand_out(&mut self) -> bool {
        let mut any = false;
        while let Some(completion) = self.engine.next_completion() {
            any = true;
            let id = completion.session;
            // The session may have ended since.
            if let Some(entry) = self.sessions.get_mut(id) {
                entry.session.complete(self.engine.drive_of(id), completion);
                self.mark(id);
            }
        }
        any
    }

    /// Lets every session with changes write its answers.
    fn end_iteration(&mut self) {
        while let Some(id) = self.dirty.pop() {
            let Some(entry) = self.sessions.get_mut(id) else { continue };
            entry.is_dirty = false;
            match entry.session.flush(self.engine.drive_of(id)) {
                Ok(Next::Wait { read, write }) => {
                    if entry.reported.is_none()
                        && let Some(protocol) = entry.session.protocol()
                    {
                        entry.reported = Some(protocol);
                        self.engine.note(What::Connected { protocol });
                    }
                    let read = read && (self.stopping.is_none() || !entry.session.is_stopped());
                    if self.watch(id, read, write).is_err() {
                        self.close(id);
                    }
                }
                Ok(Next::Move(drive)) => self.transfer(id, drive),
                Ok(Next::Close) => self.close(id),
                Err(why) => self.close_for(id, &why),
            }
            // Connections drop before a session submits requests of an earlier time.
            self.drop_cut_sessions();
        }
        self.engine.end_iteration();
    }

    fn watch(&mut self, id: SessionId, read: bool, write: bool) -> io::Result<()> {
        let entry = &mut self.sessions[id];
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, read);
        wanted.set(EventFlags::OUT, write);
        if wanted != entry.watched
            && let Some(fd) = entry.session.fd()
        {
            epoll::modify(&self.epoll, fd, event_data(id), wanted)?;
            entry.watched = wanted;
        }
        Ok(())
    }

    fn mark(&mut self, id: SessionId) {
        if let Some(entry) = self.sessions.get_mut(id)
            && !std::mem::replace(&mut entry.is_dirty, true)
        {
            self.dirty.push(id);
        }
    }

    fn mark_all(&mut self) {
        let all: Vec<SessionId> = self.sessions.keys().collect();
        all.into_iter().for_each(|id| self.mark(id));
    }

    fn close(&mut self, id: SessionId) {
        drop(self.take_out(id));
    }

    fn take_out(&mut self, id: SessionId) -> Option<Box<dyn Session>> {
        let Entry { session, reported, .. } = self.sessions.remove(id)?;
        self.engine.end_session(id);
        if let Some(protocol) = reported {
            self.engine.note(What::Disconnected { protocol });
        }
        if let Some(fd) = session.fd() {
            let _ = epoll::delete(&self.epoll, fd);
        }
        Some(session)
    }

    /// Moves a session to the drive that it has chosen.
    fn transfer(&mut self, id: SessionId, drive: usize) {
        let Some(session) = self.take_out(id) else { return };
        match self.drives.get(drive) {
            Some(handle) if drive != self.number => handle.send(Message::Adopt(session)),
            _ => self.admit(session),
        }
    }

    /// Accepts a session, unless the power is off or there are too many.
    fn admit(&mut self, mut session: Box<dyn Session>) {
        let mut memory = self.engine.store().memory_limit().share(Use::Sessions);
        // Without power, only sessions that survive a power cut may connect.
        if self.engine.is_off() && !session.power_cut() {
            self.refuse("the power is off");
        } else if self.sessions.len() >= SESSIONS_MAX && !self.close_idle_session() {
            self.refuse("there are too many");
        } else if !memory.resize(SESSION_BYTES) {
            self.refuse("--memory leaves no space for its buffers");
        } else if self.stopping.is_none() {
            // A session that cannot be watched is closed.
            let _ = self.add_with(session, memory);
        }
    }

    /// Closes the oldest connection that has not chosen a drive yet, to make space for a new one,
    /// so that idle connections do not block others. Returns false if there is none.
    fn close_idle_session(&mut self) -> bool {
        let is_idle =
            |(_, entry): &(_, &Entry)| entry.reported.is_none() && entry.session.fd().is_some();
        let idle = self.sessions.iter().filter(is_idle);
        let Some(longest) = idle.min_by_key(|(_, entry)| entry.since).map(|(id, _)| id) else {
            return false;
        };
        self.refuse("it was idle, and others came");
        self.close(longest);
        true
    }

    /// Closes a session after an error; an end by the other side does not count as refused.
    fn close_for(&mut self, id: SessionId, why: &io::Error) {
        match why.kind() {
            io::ErrorKind::InvalidData => self.refuse("it violates the protocol"),
            io::ErrorKind::TimedOut => self.refuse("it was silent for too long"),
            _ => {}
        }
        self.close(id);
    }

    fn refuse(&mut self, why: &'static str) {
        *self.refused.entry(why).or_default() += 1;
        self.engine.note_refused();
    }

    fn accept(&mut self, index: usize) {
        loop {
            match self.listeners[index].accept() {
                Ok(None) => return,
                Ok(Some(session)) => self.admit(session),
                Err(_) => {
                    self.watch_listeners(false);
                    return;
                }
            }
        }
    }

    /// Epoll is level-triggered: a listener that cannot accept would report an event again at once.
    fn watch_listeners(&mut self, is_watched: bool) {
        let flags = if is_watched { EventFlags::IN } else { EventFlags::empty() };
        for (i, listener) in self.listeners.iter().enumerate() {
            let data = EventData::new_u64(LISTENERS + i as u64);
            let _ = epoll::modify(&self.epoll, listener.fd(), data, flags);
        }
        self.paused = (!is_watched).then(|| Instant::now() + ACCEPT_PAUSE);
    }

    fn read_messages(&mut self) {
        self.channel.waker().clear();
        while let Some(message) = self.channel.next() {
            match message {
                Message::Stop => {
                    self.stopping.get_or_insert_with(Instant::now);
                    self.watch_listeners(false);
                    self.mark_all();
                }
                Message::Call(work) => work(&mut self.engine),
                Message::Adopt(session) => self.admit(session),
                Message::Notify(id) => {
                    let Some(entry) = self.sessions.get_mut(id) else { continue };
                    match entry.session.notified(self.engine.drive_of(id)) {
                        Ok(()) => self.mark(id),
                        Err(_) => self.close(id),
                    }
                }
            }
        }
    }

    fn is_over(&mut self) -> bool {
        let Some(since) = self.stopping else { return false };
        let stopped = self.sessions.values_mut().map(|entry| entry.session.is_stopped());
        // The fold asks every session.
        if stopped.fold(true, |all, is_stopped| all & is_stopped) {
            return self.engine.outstanding() == 0 || since.elapsed() > STOP_TIMEOUT;
        }
        since.max(self.last_event).elapsed() > STOP_TIMEOUT
    }

    fn tick(&mut self) {
        if self.ticked.elapsed() < TICK {
            return;
        }
        self.ticked = Instant::now();
        if self.paused.is_some_and(|until| until <= self.ticked) && self.stopping.is_none() {
            self.watch_listeners(true);
        }
        let mut gone = Vec::new();
        for (id, entry) in &mut self.sessions {
            if let Err(why) = entry.session.tick(self.engine.drive_of(id)) {
                gone.push((id, why));
            }
        }
        gone.into_iter().for_each(|(id, why)| self.close_for(id, &why));
        self.say_refused();
        self.engine.watch();
        self.mark_all();
    }

    fn say_refused(&mut self) {
        for (why, count) in std::mem::take(&mut self.refused) {
            eprintln!("refused: {count} connections: {why}");
            self.engine.note(What::Refused { count, why });
        }
    }
}

/// Values are below [`LISTENERS`]: versions never reach that size, as each counts one session.
fn event_data(id: SessionId) -> EventData {
    EventData::new_u64(id.data().as_ffi() & !LISTENERS)
}
