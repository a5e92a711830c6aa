//! The log stores, all behind one trait. Each is used as its documentation says.
//!
//! A store gets the appends of one leader, on one thread. Its durable writes run on a thread of the
//! store.

use crate::Result;
use crate::logs::{Indexed, open_raft_engine, wait_for_segments};
use katydid_raft_log::RaftLog;
use openraft::alias::{EntryOf, LeaderIdOf, LogIdOf};
use openraft::entry::RaftEntry;
use openraft::storage::{IOFlushed, RaftLogStorage};
use openraft::type_config::TypeConfigExt;
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, RaftLogReader};
use protobuf::well_known_types::BytesValue;
use raft_engine::{Engine, LogBatch, MessageExt};
use raft_log::api::raft_log_writer::RaftLogWriter;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::runtime::Runtime;

openraft::declare_raft_types!(pub Types: D = String, R = String);

/// Term of the leader.
const TERM: u64 = 1;
/// Number of the leader's node.
const NODE: u64 = 1;

/// Blocks until an append is durable.
pub type Pending = Box<dyn FnOnce() -> Result<()>>;

/// An open log store. Indexes begin with 0 and have no gap.
pub trait Store {
    /// Appends an entry for each payload, from index `first` on. Does not wait for durability.
    fn append(&mut self, first: u64, payloads: Vec<String>) -> Result<Pending>;
    /// Drops the entries up to `last`, which are durable.
    fn purge(&mut self, last: u64) -> Result<()>;
    /// Index of the last entry.
    fn last(&mut self) -> Result<Option<u64>>;
    fn close(self: Box<Self>) -> Result<()>;
}

/// All stores. The first is compared with each of the others.
pub const NAMES: [&str; 5] =
    ["katydid-raft-log", "raft-engine", "raft-engine-prefilled", "raft-log", "raft-log-eager"];

/// The name, if there is a store with this name.
pub fn known(name: &str) -> Result<&'static str> {
    let found = NAMES.into_iter().find(|known| *known == name);
    found.ok_or_else(|| format!("no log store {name:?}; there are {}", NAMES.join(", ")).into())
}

/// Opens a store, which is new unless `place` has one.
pub fn open(name: &str, place: &Path) -> Result<Box<dyn Store>> {
    Ok(match name {
        "katydid-raft-log" => Box::new(Katydid::open(place)?),
        "raft-engine" | "raft-engine-prefilled" => Box::new(RaftEngine::open(name, place)?),
        "raft-log" => Box::new(Databend::open(place, None)?),
        // By default the store waits a millisecond for more appends before each sync. Here it does
        // not wait.
        _ => Box::new(Databend::open(place, Some(Duration::ZERO))?),
    })
}

fn log_id(index: u64) -> LogIdOf<Types> {
    LogIdOf::<Types>::new(LeaderIdOf::<Types>::new(TERM, NODE).to_committed(), index)
}

fn entry(index: u64, payload: String) -> EntryOf<Types> {
    EntryOf::<Types>::new(log_id(index), EntryPayload::Normal(payload))
}

fn received(outcome: &Receiver<io::Result<()>>) -> Result<()> {
    Ok(outcome.recv().map_err(|_| "the log store dropped an append")??)
}

/// The store of this project, called as openraft calls it.
struct Katydid {
    log: RaftLog<Types>,
    runtime: Rc<Runtime>,
}

impl Katydid {
    fn open(place: &Path) -> Result<Katydid> {
        let runtime = Rc::new(tokio::runtime::Builder::new_current_thread().build()?);
        let log = RaftLog::open(place, katydid_wal::Options::default())?;
        wait_for_segments(log.log());
        Ok(Katydid { log, runtime })
    }
}

impl Store for Katydid {
    fn append(&mut self, first: u64, payloads: Vec<String>) -> Result<Pending> {
        let entries: Vec<_> = (first..).zip(payloads).map(|(index, payload)| entry(index, payload)).collect();
        let (sender, outcome) = Types::oneshot();
        let appended = RaftLogStorage::append(&mut self.log, entries, IOFlushed::signal(sender));
        self.runtime.block_on(appended)?;
        let runtime = self.runtime.clone();
        Ok(Box::new(move || {
            Ok(runtime.block_on(outcome).map_err(|_| "the log store dropped an append")??)
        }))
    }

    fn purge(&mut self, last: u64) -> Result<()> {
        Ok(self.runtime.block_on(RaftLogStorage::purge(&mut self.log, log_id(last)))?)
    }

    fn last(&mut self) -> Result<Option<u64>> {
        let state = self.runtime.block_on(self.log.get_log_state())?;
        let Some(last) = state.last_log_id.map(|id| id.index()) else { return Ok(None) };
        let entries = self.runtime.block_on(self.log.try_get_log_entries(last..=last))?;
        Ok((entries.len() == 1).then_some(last))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.log.close()?)
    }
}

/// Appends on their way to the writer of a [`RaftEngine`], with the senders of their outcomes.
type Waiting = (Vec<BytesValue>, SyncSender<io::Result<()>>);

/// raft-engine blocks in each durable write, so a thread makes these writes. The thread takes all
/// waiting appends as one batch. This store does less work than openraft demands of a log store: it
/// does not make entries readable before they are written. An entry is its index, in eight bytes,
/// and openraft's entry as MessagePack.
struct RaftEngine {
    engine: Arc<Engine>,
    /// The sender of appends, and the thread.
    writer: Option<(Sender<Waiting>, JoinHandle<()>)>,
}

/// The only Raft group.
const GROUP: u64 = 1;

impl RaftEngine {
    fn open(name: &str, place: &Path) -> Result<RaftEngine> {
        let engine = Arc::new(open_raft_engine(name, place)?);
        let (sender, receiver) = channel();
        let of_writer = engine.clone();
        let writer = std::thread::Builder::new().spawn(move || write(&of_writer, &receiver))?;
        Ok(RaftEngine { engine, writer: Some((sender, writer)) })
    }
}

fn write(engine: &Engine, receiver: &Receiver<Waiting>) {
    let mut batch = LogBatch::default();
    let mut senders = Vec::new();
    while let Ok(first) = receiver.recv() {
        let mut waiting = std::iter::once(first).chain(receiver.try_iter());
        let added = waiting.try_for_each(|(entries, sender)| {
            senders.push(sender);
            batch.add_entries::<Indexed>(GROUP, &entries)
        });
        let outcome = added.and_then(|()| engine.write(&mut batch, true).map(drop));
        for sender in senders.drain(..) {
            let outcome = outcome.as_ref().map_err(|error| io::Error::other(error.to_string()));
            // If the leader has failed, there is no receiver.
            sender.send(outcome.copied()).ok();
        }
    }
}

impl Store for RaftEngine {
    fn append(&mut self, first: u64, payloads: Vec<String>) -> Result<Pending> {
        let encode = |(index, payload)| -> Result<BytesValue> {
            let mut encoded = BytesValue::new();
            encoded.value = u64::to_le_bytes(index).to_vec();
            rmp_serde::encode::write_named(&mut encoded.value, &entry(index, payload))?;
            Ok(encoded)
        };
        let entries = (first..).zip(payloads).map(encode).collect::<Result<_>>()?;
        let (sender, outcome) = sync_channel(1);
        let (writer, _) = self.writer.as_ref().ok_or("the log store is closed")?;
        writer.send((entries, sender)).map_err(|_| "the writer of raft-engine has ended")?;
        Ok(Box::new(move || received(&outcome)))
    }

    fn purge(&mut self, last: u64) -> Result<()> {
        self.engine.compact_to(GROUP, last + 1);
        // raft-engine removes files only above a threshold that short runs do not reach.
        self.engine.purge_expired_files()?;
        Ok(())
    }

    fn last(&mut self) -> Result<Option<u64>> {
        let Some(last) = self.engine.last_index(GROUP) else { return Ok(None) };
        Ok(self.engine.get_entry::<Indexed>(GROUP, last)?.map(|entry| Indexed::index(&entry)))
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        if let Some((sender, writer)) = self.writer.take() {
            drop(sender);
            writer.join().map_err(|_| "the writer of raft-engine panicked")?;
        }
        Ok(())
    }
}

/// The log store of Databend's metadata service, which is an openraft group. Its entries are a
/// term, an index and the payload.
struct Databend(raft_log::RaftLog<DatabendTypes>);

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct DatabendTypes;

impl raft_log::Types for DatabendTypes {
    type LogId = (u64, u64);
    type LogPayload = String;
    type Vote = (u64, u64);
    type UserData = String;
    type Callback = SyncSender<io::Result<()>>;

    fn log_index(log_id: &(u64, u64)) -> u64 {
        log_id.1
    }

    fn payload_size(payload: &String) -> u64 {
        payload.len() as u64
    }
}

impl Databend {
    fn open(place: &Path, batch_wait: Option<Duration>) -> Result<Databend> {
        std::fs::create_dir_all(place)?;
        let mut config = raft_log::Config::new(place.display());
        config.wal.flush_batch_wait = batch_wait;
        Ok(Databend(raft_log::RaftLog::open(Arc::new(config))?))
    }
}

impl Store for Databend {
    fn append(&mut self, first: u64, payloads: Vec<String>) -> Result<Pending> {
        self.0.append((first..).zip(payloads).map(|(index, payload)| ((TERM, index), payload)))?;
        let (sender, outcome) = sync_channel(1);
        self.0.flush(true, Some(sender))?;
        Ok(Box::new(move || received(&outcome)))
    }

    fn purge(&mut self, last: u64) -> Result<()> {
        self.0.purge((TERM, last))?;
        Ok(self.0.flush(true, None)?)
    }

    fn last(&mut self) -> Result<Option<u64>> {
        let Some((_, last)) = self.0.log_state().last().copied() else { return Ok(None) };
        let entries = self.0.read(last, last + 1).collect::<io::Result<Vec<_>>>()?;
        Ok((entries.len() == 1).then_some(last))
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(self.0.wait_worker_idle()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_has_its_acknowledged_entries_after_it_was_opened_again() {
        for name in NAMES {
            let folder = tempfile::tempdir().unwrap();
            let place = folder.path().join("log");
            let mut store = open(name, &place).unwrap();
            assert_eq!(store.last().unwrap(), None, "{name}");
            let payloads = |count| (0..count).map(|_| "x".repeat(120)).collect::<Vec<_>>();
            let pending = [(0, 3), (3, 1), (4, 6)].map(|(first, count)| {
                let pending = store.append(first, payloads(count));
                pending.unwrap_or_else(|error| panic!("{name}: {error}"))
            });
            pending.into_iter().for_each(|pending| pending().unwrap());
            assert_eq!(store.last().unwrap(), Some(9), "{name}");
            store.purge(4).unwrap();
            store.close().unwrap();
            let mut store = open(name, &place).unwrap();
            assert_eq!(store.last().unwrap(), Some(9), "{name}");
            store.append(10, payloads(1)).unwrap()().unwrap();
            assert_eq!(store.last().unwrap(), Some(10), "{name}");
            store.close().unwrap();
        }
        assert!(known("raft").is_err());
    }
}
