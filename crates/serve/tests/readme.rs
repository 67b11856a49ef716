//! The example of the README.

use std::{io::Read, net::TcpStream, thread};

use drivebay_drive::Spec;
use drivebay_drive::samples::{SM951_AHCI_512, WINDOWS_8_1_Z97};
use drivebay_run::Control;
use drivebay_serve::{DriveOptions, Options, Server};

#[test]
fn main() {
    let spec = Spec::from_family(WINDOWS_8_1_Z97, SM951_AHCI_512).expect("a valid profile");
    let nbd = vec!["127.0.0.1:0".to_owned()]; // any free port
    let options = Options { nbd, memory_max_bytes: 1 << 30, ..Options::default() };
    let drives = vec![(spec, DriveOptions::new("sm951"))];
    let server = Server::new(drives, &options, &Control::default()).expect("memory and a port");
    let (address, handle) = (server.addresses()[0].clone(), server.handles().remove(0));
    let running = thread::spawn(move || server.run());
    println!("nbdinfo nbd://{address}/sm951");
    let mut greeting = [0; 8];
    let mut client = TcpStream::connect(address).expect("a server");
    client.read_exact(&mut greeting).expect("a greeting");
    assert_eq!(&greeting, b"NBDMAGIC");
    handle.stop();
    running.join().expect("no panic").expect("an orderly end");
}
