//! One connection of a session to one replica.
//!
//! The session's thread runs this code.

use super::frame::{self, FrameError};
use super::message::{ClientId, Reply, Request};
use crate::transport::prepare;
use socket2::SockRef;
use std::io::{self, BufReader, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Link {
    replies: BufReader<TcpStream>,
    requests: TcpStream,
}

/// Makes the error for a reply of the wrong kind.
pub(super) fn unexpected(reply: &Reply) -> FrameError {
    io::Error::new(ErrorKind::InvalidData, format!("an unexpected reply: {reply:?}")).into()
}

impl Link {
    /// Connects, and begins the session. Also returns the number of the session's last transaction
    /// that the replica remembers.
    pub fn open(
        address: SocketAddr,
        client: ClientId,
        connect_timeout: Duration,
        answer_timeout: Duration,
    ) -> Result<(Link, Option<u64>), FrameError> {
        let requests = TcpStream::connect_timeout(&address, connect_timeout)?;
        prepare(SockRef::from(&requests))?;
        requests.set_read_timeout(Some(answer_timeout))?;
        requests.set_write_timeout(Some(answer_timeout))?;
        let replies = BufReader::new(requests.try_clone()?);
        let mut link = Link { replies, requests };
        match link.call(&Request::Hello { client })? {
            Reply::Welcome { last } => Ok((link, last)),
            other => Err(unexpected(&other)),
        }
    }

    /// Sends a frame.
    pub fn send(&mut self, frame: &[u8]) -> Result<(), FrameError> {
        Ok(self.requests.write_all(frame)?)
    }

    /// Waits for the next reply.
    pub fn receive(&mut self) -> Result<Reply, FrameError> {
        frame::read(&mut self.replies)
    }

    /// Sends a request and waits for its reply.
    pub fn call(&mut self, request: &Request) -> Result<Reply, FrameError> {
        self.send(&frame::encode(request)?)?;
        self.receive()
    }
}
