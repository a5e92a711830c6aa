//! A proxy between a client and a replica. It can hold requests back, or end the connection instead
//! of passing an answer on.
//!
//! The threads of a connection end with its sockets.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Requests wait in the proxy until the mode is changed.
    HoldRequests,
    /// The proxy ends the connection when an answer arrives, at which time the replica has
    /// committed.
    CutAnswers,
}

#[derive(Debug)]
struct Switch {
    mode: Mutex<Mode>,
    changed: Condvar,
}

#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    switch: Arc<Switch>,
}

impl Proxy {
    pub fn before(replica: SocketAddr) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let switch = Arc::new(Switch { mode: Mutex::new(Mode::Pass), changed: Condvar::new() });
        let of = Arc::clone(&switch);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (Ok(client), Ok(replica)) = (client, TcpStream::connect(replica)) else { continue };
                let requests = (client.try_clone().unwrap(), replica.try_clone().unwrap());
                let switch = Arc::clone(&of);
                std::thread::spawn(move || pump(requests.0, requests.1, &switch, Mode::HoldRequests));
                let switch = Arc::clone(&of);
                std::thread::spawn(move || pump(replica, client, &switch, Mode::CutAnswers));
            }
        });
        Proxy { address, switch }
    }

    pub fn set(&self, mode: Mode) {
        *self.switch.mode.lock().unwrap() = mode;
        self.switch.changed.notify_all();
    }
}

/// Passes bytes on until either side ends. `obeyed` is the mode that this direction obeys.
fn pump(mut from: TcpStream, mut to: TcpStream, switch: &Switch, obeyed: Mode) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        let mut mode = switch.mode.lock().unwrap();
        while *mode == Mode::HoldRequests && obeyed == Mode::HoldRequests {
            mode = switch.changed.wait(mode).unwrap();
        }
        let cut = *mode == Mode::CutAnswers && obeyed == Mode::CutAnswers;
        drop(mode);
        if cut || to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    for socket in [from, to] {
        let _ended = socket.shutdown(Shutdown::Both);
    }
}
