//! Whole server in one process: a client of a few lines talks NBD to it over a Unix socket.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;

use crate::support::{PATIENCE, changed_spec, spec};
use drivebay_drive::{Device, Spec};
use drivebay_serve::nbd::{Connection, Export, Exports, Stream};
use drivebay_serve::{
    Address, Channel, Control as _, Engine, EventLoop, Fault, Handle, HostDurability, Listener,
    MemoryLimit, NamespaceTable, Pace, PowerCutLoss, Session, Store,
};
use tempfile::TempDir;

const SECTORS: u64 = 8192;

struct TestServer {
    folder: TempDir,
    handle: Handle,
    thread: Option<JoinHandle<Engine>>,
}

impl TestServer {
    fn new(prepare: impl FnOnce(&mut Engine) + Send + 'static) -> TestServer {
        TestServer::within(MemoryLimit::new(0, 1 << 30, 1 << 30), prepare)
    }

    fn within(
        limit: MemoryLimit,
        prepare: impl FnOnce(&mut Engine) + Send + 'static,
    ) -> TestServer {
        TestServer::of(spec(SECTORS as i64, false), limit, prepare)
    }

    fn of(
        spec: Spec,
        limit: MemoryLimit,
        prepare: impl FnOnce(&mut Engine) + Send + 'static,
    ) -> TestServer {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let image = folder.path().join("image");
        let channel = Channel::new().expect("an eventfd");
        let handle = channel.handle();
        let address = Address::Unix(path);
        let export = Arc::new(Exports {
            tls: None,
            memory: limit.clone(),
            all: Export::for_drive("drive", 0, &NamespaceTable::whole(SECTORS, false)),
        });
        let open = move |socket| -> std::io::Result<Box<dyn Session>> {
            Ok(Box::new(Connection::new(Stream::Plain(socket), Arc::clone(&export), 0)))
        };
        let listener = Listener::new(&address, Box::new(open)).expect("a socket");
        let thread = std::thread::spawn(move || {
            let store = Store::open(
                &image,
                SECTORS,
                HostDurability::Flush,
                channel.handle().waker(),
                &limit,
            )
            .expect("a file");
            let device = Device::new(spec, 1).expect("memory");
            let mut engine = Engine::new(device, store, Pace::Sleep, 1);
            prepare(&mut engine);
            let mut event_loop = EventLoop::new(engine, channel).expect("epoll");
            event_loop.listen(Box::new(listener)).expect("epoll");
            event_loop.run().expect("epoll")
        });
        TestServer { folder, handle, thread: Some(thread) }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn client(&self) -> Client {
        let socket = UnixStream::connect(self.path()).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        Client::greet(socket)
    }

    fn end(mut self) -> Engine {
        self.handle.stop();
        self.thread.take().expect("once").join().expect("no panic")
    }
}

struct Client(UnixStream);

impl Client {
    /// Flags, then EXPORT_NAME, which any server must know.
    fn greet(mut socket: UnixStream) -> Client {
        let mut greeting = [0; 18];
        socket.read_exact(&mut greeting).expect("a greeting");
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        socket.write_all(&3u32.to_be_bytes()).expect("room");
        socket.write_all(b"IHAVEOPT\0\0\0\x01\0\0\0\x05drive").expect("room");
        let mut export = [0; 10];
        socket.read_exact(&mut export).expect("size and flags");
        assert_eq!(export[..8], (SECTORS * 512).to_be_bytes());
        Client(socket)
    }

    fn ask(&mut self, kind: u16, flags: u16, cookie: u64, offset: u64, length: u32, data: &[u8]) {
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(kind.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(data);
        self.0.write_all(&bytes).expect("room");
    }

    /// Returns cookie and error of the next reply.
    fn reply(&mut self) -> Option<(u64, u32)> {
        let mut head = [0; 16];
        self.0.read_exact(&mut head).ok()?;
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes(head[4..8].try_into().expect("4"));
        Some((u64::from_be_bytes(head[8..].try_into().expect("8")), error))
    }

    fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Option<u32> {
        self.ask(1, flags, 1, offset, data.len() as u32, data);
        self.reply().map(|(_, error)| error)
    }

    fn flush(&mut self) -> Option<u32> {
        self.ask(3, 0, 2, 0, 0, &[]);
        self.reply().map(|(_, error)| error)
    }

    fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, u32> {
        self.ask(0, 0, 3, offset, length as u32, &[]);
        match self.reply().expect("it is there") {
            (_, 0) => {
                let mut data = vec![0; length];
                self.0.read_exact(&mut data).expect("the data");
                Ok(data)
            }
            (_, error) => Err(error),
        }
    }
}

#[test]
fn what_is_written_is_read_by_all_and_lies_in_the_file() {
    let server = TestServer::new(|_| {});
    let (mut one, mut two) = (server.client(), server.client());
    let data = [7; 1536];
    assert_eq!(one.write(0, 512, &data), Some(0));
    assert_eq!(two.read(0, 2560).expect("data")[512..2048], data);
    assert_eq!(two.flush(), Some(0));
    one.ask(4, 0, 9, 512, 512, &[]);
    assert_eq!(one.reply(), Some((9, 0)));
    assert_eq!(two.read(512, 512), Ok(vec![0; 512]));
    // Many at once, more than the drive's queue depth: each is answered once.
    for cookie in 100..300 {
        one.ask(1, 1, cookie, (cookie - 100) * 4096, 4096, &[cookie as u8; 4096]);
    }
    let mut cookies: Vec<u64> = (0..200).map(|_| one.reply().expect("a reply").0).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (100..300).collect::<Vec<u64>>());
    let image = std::fs::read(server.folder.path().join("image")).expect("the file");
    assert!((0..200).all(|i| image[i * 4096] == (100 + i) as u8));
    server.end();
}

/// Reads pass writes that wait until they are admitted: each command is answered once, with its
/// data.
#[test]
fn a_drive_that_admits_writes_answers_each_command() {
    let admits = changed_spec(SECTORS as i64, false, |raw| {
        let leaf: toml::Table =
            "admission.interval_us = { value = 50, source = 'test' }".parse().expect("TOML");
        raw["controller"].as_table_mut().expect("a section").extend(leaf);
    });
    let server = TestServer::of(admits, MemoryLimit::new(0, 1 << 30, 1 << 30), |_| {});
    let mut client = server.client();
    let pages = SECTORS / 8;
    for page in 0..pages {
        assert_eq!(client.write(0, page * 4096, &[page as u8; 4096]), Some(0));
    }
    for round in 0..60 {
        let place = |i: u64| (round * 977 + i * 389) % pages;
        let is_write = |cookie: u64| cookie % 2 == 1;
        for cookie in 0..64 {
            let (kind, page) = (u16::from(is_write(cookie)), place(cookie));
            let data = [page as u8; 4096];
            let data: &[u8] = if is_write(cookie) { &data } else { &[] };
            client.ask(kind, 0, cookie, page * 4096, 4096, data);
        }
        let mut cookies = Vec::new();
        for _ in 0..64 {
            let (cookie, error) = client.reply().expect("a reply");
            assert_eq!(error, 0);
            if !is_write(cookie) {
                let mut data = [0; 4096];
                client.0.read_exact(&mut data).expect("the data");
                assert_eq!(data, [place(cookie) as u8; 4096]);
            }
            cookies.push(cookie);
        }
        cookies.sort_unstable();
        assert_eq!(cookies, (0..64).collect::<Vec<u64>>());
    }
    server.end();
}

#[test]
fn nonsense_is_refused_and_ends_no_one_else() {
    let server = TestServer::new(|_| {});
    let mut good = server.client();
    let mut odd = server.client();
    assert_eq!(odd.read(SECTORS * 512, 512), Err(22));
    assert_eq!(odd.read(u64::MAX - 511, 512), Err(22));
    assert_eq!(odd.read(100, 512), Err(22));
    assert_eq!(odd.write(0, SECTORS * 512 - 512, &[1; 1024]), Some(28));
    odd.ask(99, 0, 5, 0, 512, &[]);
    assert_eq!(odd.reply(), Some((5, 22)));
    odd.0.write_all(&[0xEE; 64]).expect("room");
    assert_eq!(odd.reply(), None, "a stream that cannot be followed ends");
    assert_eq!(good.write(0, 0, &[1; 512]), Some(0));
    server.end();
}

#[test]
fn a_power_cut_drops_the_connection_and_what_was_not_flushed() {
    let server = TestServer::new(|engine| engine.allow_power_cuts(None, PowerCutLoss::All));
    let mut client = server.client();
    assert_eq!(client.write(0, 0, &[1; 4096]), Some(0));
    assert_eq!(client.flush(), Some(0));
    assert_eq!(client.write(1, 4096, &[3; 512]), Some(0));
    assert_eq!(client.write(0, 0, &[2; 512]), Some(0));
    let cut = server.handle.ask(|engine| engine.power_cut().expect("a file")).expect("it runs");
    assert_eq!(cut.lost_bytes, 512);
    assert!(cut.ready_after_ns > 0);
    assert_eq!(client.reply(), None);
    let mut again = server.client();
    let read = again.read(0, 8192).expect("data");
    assert_eq!(read[..4096], [1; 4096], "the flushed version");
    assert_eq!(read[4096..4608], [3; 512], "written with FUA");
    server.end();
}

#[test]
fn faults_reach_the_host() {
    let server = TestServer::new(|engine| {
        for text in [
            r#"{"kind": "read-error", "lba": 8, "sectors": 1}"#,
            r#"{"kind": "read-only", "after_ios": 2}"#,
        ] {
            let fault: Fault = serde_json::from_str(text).expect("a fault");
            engine.add_fault(fault).expect("possible");
        }
    });
    let mut client = server.client();
    assert_eq!(client.read(4096, 512), Err(5));
    assert_eq!(client.read(4608, 512), Ok(vec![0; 512]));
    assert_eq!(client.write(0, 0, &[1; 512]), Some(1), "worn out");
    assert_eq!(client.read(0, 512), Ok(vec![0; 512]));
    server.end();
}

#[test]
fn requests_wait_for_memory_that_others_hold_and_small_ones_go_on() {
    const LARGE: usize = 3 << 20;
    // Memory for one large write: a session has 1 MiB for its requests in any case.
    let server = TestServer::within(MemoryLimit::new(0, 1 << 30, 3 << 20), |_| {});
    let mut slow = server.client();
    slow.ask(1, 0, 1, 0, LARGE as u32, &vec![1; LARGE / 2]);
    // It holds the memory of its write as soon as the server has read the header.
    let report = || server.handle.ask(|engine| engine.report()).expect("it runs");
    while report().buffer_bytes <= (2 << 20) {
        std::thread::yield_now();
    }
    let mut waiting: Vec<Client> = (0..10).map(|_| server.client()).collect();
    let waiting: Vec<JoinHandle<Option<u32>>> = waiting
        .drain(..)
        .map(|mut client| std::thread::spawn(move || client.write(0, 0, &vec![2; LARGE])))
        .collect();
    while report().memory_waits < 10 {
        std::thread::yield_now();
    }
    let mut small = server.client();
    assert_eq!(small.write(0, 0, &[3; 4096]), Some(0));
    assert_eq!(small.read(0, 4096), Ok(vec![3; 4096]));
    assert!(waiting.iter().all(|client| !client.is_finished()));
    assert!(report().buffer_bytes <= 12 * (2 << 20) + (3 << 20));
    slow.0.write_all(&vec![1; LARGE - LARGE / 2]).expect("room");
    assert_eq!(slow.reply(), Some((1, 0)));
    for client in waiting {
        assert_eq!(client.join().expect("no panic"), Some(0));
    }
    server.end();
}

#[test]
fn connections_without_memory_for_their_buffers_are_refused() {
    let server = TestServer::within(MemoryLimit::new(0, 4 << 20, 1 << 30), |_| {});
    let (one, mut two) = (server.client(), server.client());
    let mut refused = UnixStream::connect(server.path()).expect("it listens");
    assert_eq!(refused.read(&mut [0; 18]).expect("an end"), 0);
    let report = || server.handle.ask(|engine| engine.report()).expect("it runs");
    assert_eq!((report().refused, report().buffer_bytes), (1, 4 << 20));
    assert_eq!(two.write(0, 0, &[1; 4096]), Some(0));
    drop(one);
    while report().buffer_bytes > (2 << 20) {
        std::thread::yield_now();
    }
    server.client();
    server.end();
}

/// The maximum number of idle connections.
#[test]
fn who_only_connects_keeps_nobody_out() {
    let server = TestServer::new(|_| {});
    let mut first = server.client();
    assert_eq!(first.write(0, 0, &[1; 4096]), Some(0));
    let mut silent: Vec<UnixStream> =
        (0..80).map(|_| UnixStream::connect(server.path()).expect("it listens")).collect();
    let mut client = server.client();
    assert_eq!(client.read(0, 4096), Ok(vec![1; 4096]));
    assert_eq!(first.read(0, 4096), Ok(vec![1; 4096]), "it has chosen its drive, and stays");
    // The oldest one was closed first.
    let mut said = Vec::new();
    silent[0].read_to_end(&mut said).expect("an end");
    assert!(said.len() <= 18, "no more than the greeting");
    server.end();
}

/// Clients from before the fixed newstyle: flags 0, EXPORT_NAME, and 124 zeros after size and
/// flags.
#[test]
fn a_client_of_the_old_handshake_is_served() {
    let server = TestServer::new(|_| {});
    let greet = |option: &[u8]| {
        let mut socket = UnixStream::connect(server.path()).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        socket.read_exact(&mut [0; 18]).expect("a greeting");
        socket.write_all(&[0; 4]).expect("room");
        socket.write_all(option).expect("room");
        socket
    };
    let mut socket = greet(b"IHAVEOPT\0\0\0\x01\0\0\0\0");
    let mut export = [1; 134];
    socket.read_exact(&mut export).expect("size, flags and zeros");
    assert_eq!(export[..8], (SECTORS * 512).to_be_bytes());
    assert_eq!(export[10..], [0; 124]);
    let mut client = Client(socket);
    assert_eq!(client.write(0, 4096, &[7; 512]), Some(0));
    assert_eq!(client.read(4096, 512), Ok(vec![7; 512]));
    // It knows no other option, and would not understand an answer.
    let mut rest = Vec::new();
    greet(b"IHAVEOPT\0\0\0\x03\0\0\0\0").read_to_end(&mut rest).expect("an end");
    assert_eq!(rest, [0; 0]);
    server.end();
}

#[test]
fn only_a_regular_file_of_the_right_size_that_nobody_uses_is_opened() {
    let folder = tempfile::tempdir().expect("a folder");
    let channel = Channel::new().expect("an eventfd");
    let open = |path: PathBuf, sectors| {
        let limit = MemoryLimit::new(0, 0, 0);
        Store::open(&path, sectors, HostDurability::Flush, channel.handle().waker(), &limit)
            .map(|_| ())
            .map_err(|why| why.to_string())
    };
    let refused = |path: PathBuf| open(path, 8).expect_err("refused");
    assert!(refused("/dev/null".into()).contains("not a regular file"));
    assert!(refused(folder.path().into()).contains("not a regular file"));
    let image = folder.path().join("image");
    let limit = MemoryLimit::new(0, 0, 0);
    let kept = Store::open(&image, 8, HostDurability::Flush, channel.handle().waker(), &limit);
    let kept = kept.expect("made");
    assert!(refused(image.clone()).contains("in use"));
    drop(kept);
    assert_eq!(open(image.clone(), 8), Ok(()));
    assert!(open(image, 16).expect_err("refused").contains("4096 bytes"));
}
