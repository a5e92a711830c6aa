//! One connection of a replica: requests in order, each answered before the next is read.
//!
//! The connection's thread runs this code.

use super::answers::Entry;
use super::apply::{KnownTables, apply};
use super::contents;
use super::frame::{self, FrameError};
use super::message::{Answer, ClientId, Operation, Outcome, Refusal, Reply, Request, TransactionId};
use super::server::Shared;
use crate::transport::prepare;
use katydid::device::Waiting;
use parking_lot::Mutex;
use socket2::SockRef;
use std::cmp::Ordering;
use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

/// One connection of a replica to a client, and the session that the client has begun.
pub(super) struct Connection<'s> {
    shared: &'s Shared,
    requests: BufReader<TcpStream>,
    replies: TcpStream,
    tables: KnownTables,
    session: Option<Begun>,
}

/// The session that a connection belongs to.
struct Begun {
    client: ClientId,
    entry: Arc<Mutex<Entry>>,
    /// The session's count of connections when this connection began the session.
    connection: u64,
}

impl<'s> Connection<'s> {
    pub fn new(shared: &'s Shared, socket: TcpStream) -> Result<Self, FrameError> {
        // A client that has lost its power or its network does not end its connection. Probes of
        // the operating system end the connection, so that it does not keep a thread for ever.
        prepare(SockRef::from(&socket))?;
        socket.set_write_timeout(Some(shared.options.send_timeout))?;
        let replies = socket.try_clone()?;
        let requests = BufReader::new(socket);
        Ok(Connection { shared, requests, replies, tables: KnownTables::default(), session: None })
    }

    /// Serves requests until the client ends the connection, a frame is damaged, or the server is
    /// stopped.
    pub fn serve(mut self) -> Result<(), FrameError> {
        let half = self.shared.options.network_delay / 2;
        loop {
            let request = match frame::read(&mut self.requests) {
                Err(FrameError::Ended) => return Ok(()),
                request => request?,
            };
            Waiting::Timer.wait(half);
            let reply = self.reply(request);
            Waiting::Timer.wait(half);
            self.replies.write_all(&frame::encode(&reply)?)?;
            if self.shared.is_stopping() {
                return Ok(());
            }
        }
    }

    fn reply(&mut self, request: Request) -> Reply {
        let database = &self.shared.database;
        let served = match request {
            Request::Hello { client } => return self.welcome(client),
            Request::Transact { id, operations } => {
                let begun = Instant::now();
                let (outcome, repeated) = self.transact(id, &operations);
                let server_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                let answer = Answer { id, outcome, repeated, server_ns };
                self.shared.tally.count(&answer);
                return Reply::Answered(answer);
            }
            Request::Read { table, key } => self
                .tables
                .get(database, &table)
                .and_then(|table| database.get(&table, key))
                .map(Reply::Value),
            Request::Rows { table, after, before, limit } => {
                self.tables.get(database, &table).and_then(|table| {
                    contents::rows(database, &table, after.as_deref(), before.as_deref(), limit)
                        .map(Reply::Rows)
                })
            }
            Request::Contents => contents::contents(database).map(Reply::Contents),
            Request::Stat => self.shared.tally.stat(database).map(Reply::Stat),
            Request::Forget => match &self.session {
                None => return Reply::Unserved("the connection has begun no session".to_owned()),
                Some(Begun { client, entry, connection }) => {
                    let mut entry = entry.lock();
                    if entry.ended || entry.connections != *connection {
                        return Reply::Unserved(
                            "the session has a newer connection, or has ended".to_owned(),
                        );
                    }
                    self.shared.answers.forget(database, *client, &mut entry).map(|()| Reply::Forgotten)
                }
            },
        };
        served.unwrap_or_else(|error| Reply::Unserved(error.to_string()))
    }

    fn welcome(&mut self, client: ClientId) -> Reply {
        let Some(entry) = self.shared.answers.entry(client) else {
            return Reply::Unserved(format!(
                "the replica remembers {} sessions already",
                self.shared.options.sessions_max
            ));
        };
        // Taking the lock waits for a request of this session that another connection still runs.
        let mut locked = entry.lock();
        locked.connections += 1;
        let (connection, last) = (locked.connections, locked.last.as_ref().map(|answer| answer.sequence));
        drop(locked);
        self.session = Some(Begun { client, entry, connection });
        Reply::Welcome { last }
    }

    /// Returns the outcome of a transaction, and whether an earlier request had that outcome.
    fn transact(&mut self, id: TransactionId, operations: &[Operation]) -> (Outcome, bool) {
        let not_allowed = |text: String| (Outcome::Refused(Refusal::NotAllowed(text)), false);
        let Some(Begun { client, entry, connection }) = &self.session else {
            return not_allowed("the connection has begun no session".to_owned());
        };
        if *client != id.client {
            return not_allowed(format!("the connection belongs to session {client}"));
        }
        let mut entry = entry.lock();
        if entry.ended {
            return not_allowed("the session has ended".to_owned());
        }
        if entry.connections != *connection {
            return (Outcome::InDoubt("the session has a newer connection".to_owned()), false);
        }
        let last = entry.last.as_ref();
        match last.map_or(Ordering::Greater, |last| id.sequence.cmp(&last.sequence)) {
            Ordering::Equal => {
                let found = last.map(|last| last.found.clone()).unwrap_or_default();
                (Outcome::Committed { found }, true)
            }
            Ordering::Less => (Outcome::InDoubt("the session has a later transaction".to_owned()), false),
            Ordering::Greater => {
                let shared = self.shared;
                match apply(&shared.database, &mut self.tables, &shared.answers, id, operations) {
                    Err(outcome) => (outcome, false),
                    Ok(answer) => {
                        let found = answer.found.clone();
                        entry.last = Some(answer);
                        (Outcome::Committed { found }, false)
                    }
                }
            }
        }
    }
}
