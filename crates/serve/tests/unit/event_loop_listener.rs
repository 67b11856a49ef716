//! Unit tests of `event_loop/listener.rs`, with its private items in reach.

use super::*;
use std::net::TcpStream;
use std::sync::mpsc::channel;

#[test]
fn a_tcp_peer_that_has_vanished_is_noticed() {
    let (sender, accepted) = channel();
    let open = move |socket| {
        sender.send(socket).expect("the test waits for it");
        Err(io::ErrorKind::Other.into())
    };
    let address = Address::Tcp("127.0.0.1".into(), 0);
    let mut listener = Listener::new(&address, Box::new(open)).expect("a port");
    let _client = TcpStream::connect(listener.address()).expect("it listens");
    let socket = loop {
        assert!(listener.accept().expect("no error").is_none());
        if let Ok(socket) = accepted.try_recv() {
            break socket;
        }
    };
    assert!(socket.keepalive().expect("a socket"));
    assert_eq!(socket.tcp_keepalive_time().expect("a socket"), SILENCE);
    assert_eq!(socket.tcp_user_timeout().expect("a socket"), Some(2 * SILENCE));
}
