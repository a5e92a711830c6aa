//! The feed of the memory engine: the records of all streams, in the order of their stamps.
//!
//! A transaction has one record, in one stream. The feed returns transactions in the order of their
//! stamps, and a transaction takes its stamp when it begins. So after a record is durable, a record
//! with a lower stamp may still be appended, in the same stream or in another. The feed works in
//! rounds. A round finds a stamp below which no record can be appended any more (a *horizon*), then
//! notes the end of each stream. The feed returns the round's records, those below the horizon,
//! when all streams are durable up to the noted ends. Invariants:
//!
//! 1. The horizon is at most the bound of a reader that begins at the same moment. It is also at
//!    most the stamp of each transaction that has versions in place and has not ended
//!    (`Slots::in_flight_below`). A transaction that is still reading takes a new stamp before it
//!    puts versions in place. So every record below the horizon lies below the ends, which are
//!    noted afterwards.
//! 2. Each dependency of a record has a lower stamp or was in the log before the record. So the
//!    dependency lies below the ends, and is durable when the feed returns the record. If a record
//!    of an earlier opening has lost a dependency, the feed drops the record, as recovery does.
//! 3. No wake-up is lost: if a transaction that has not ended holds the horizon back, the feed
//!    registers its waker with [`FeedWakers`] and then computes the horizon once more. A thread
//!    that ends a transaction notifies the registered wakers.
//! 4. The payloads of waiting records are kept in memory up to [`WAITING_BYTES_MAX`]; other
//!    payloads are read from the log again.

use super::engine::Engine;
use super::log_record::{self, LoggedWrite, WRITES};
use crate::changes::{
    Change, ChangePosition, ChangesFrom, CommittedTransaction, EngineFeed, NewValue, OldValue, with_renames,
};
use crate::error::{Error, Result};
use crate::ids::TableId;
use crate::latch::Mutex;
use crate::options::Access;
use crate::{CommitStamp, Durability, Lsn};
use katydid_kernels::txn::Timestamp;
use katydid_wal::{self as wal, DependencyStatus, Follower, Log, ReadError, RecordRef, StreamId};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

/// Maximum bytes of the payloads that are kept in memory for records that the feed has read and not
/// yet returned.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Feeds that wait for the end of a transaction (invariant 3).
#[derive(Debug, Default)]
pub(crate) struct FeedWakers {
    /// Number of wakers in `wakers`, changed under the latch of `wakers`. A feed changes the number
    /// before it looks at the slots once more; a thread that has ended a transaction reads the
    /// number. Sequentially consistent, like the slots: either the feed finds that the transaction
    /// has ended, or the thread finds the waker.
    waiting: AtomicUsize,
    /// A leaf latch. No thread calls or drops a waker while it holds this latch.
    wakers: Mutex<Vec<Waker>>,
}

impl FeedWakers {
    fn register(&self, waker: Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|left| left.will_wake(&waker)) {
            wakers.push(waker);
        }
        self.waiting.store(wakers.len(), Ordering::SeqCst);
    }

    /// Called after a transaction has ended; notifies the registered wakers.
    #[inline]
    pub(super) fn notify(&self, log: &Log) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            self.notify_all(log);
        }
    }

    #[cold]
    fn notify_all(&self, log: &Log) {
        let wakers = {
            let mut wakers = self.wakers.lock();
            self.waiting.store(0, Ordering::SeqCst);
            std::mem::take(&mut *wakers)
        };
        // Wakers run code of the program, so a thread of the log calls them.
        wakers.into_iter().for_each(|waker| log.call(waker));
    }
}

/// A durable record that the feed has not returned yet.
#[derive(Debug)]
struct Waiting {
    stream: StreamId,
    first: Lsn,
    lsn: Lsn,
    /// `None` if the payload has to be read again.
    payload: Option<Vec<u8>>,
}

/// Name of a table.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) name: Arc<str>,
    /// Stamp of the transaction that gave the table this name.
    pub(super) since: CommitStamp,
}

/// Names of tables: those in the changes that the feed has returned, and those of the present
/// tables. A transaction that the feed returns later may have given a present table its name.
pub(super) type Names = HashMap<TableId, Named>;

/// A round of the feed.
#[derive(Debug)]
struct Round {
    /// All records with lower stamps lie below `ends`.
    horizon: CommitStamp,
    ends: Vec<Lsn>,
}

/// The feed of a database of the memory engine.
#[derive(Debug)]
pub(crate) struct MemoryFeed {
    engine: Arc<Engine>,
    followers: Vec<Follower>,
    /// Transactions up to this stamp were returned, or lie before the beginning of the feed. The
    /// stamp is never above the greatest durable stamp: the next opening gives stamps from there
    /// on, and a feed that goes on from this position must not skip them.
    stamp: CommitStamp,
    /// The greatest stamp that was read.
    seen: CommitStamp,
    waiting: BTreeMap<CommitStamp, Waiting>,
    waiting_bytes: usize,
    round: Option<Round>,
    names: Names,
}

impl Engine {
    /// Begins a feed at `from`. `names` has the present tables.
    pub(super) fn changes(self: &Arc<Self>, from: &ChangesFrom, names: Names) -> Result<MemoryFeed> {
        // This pin prevents a trim until the followers have begun.
        let pin = self.log.pin_all(u64::MAX);
        let starts = pin.from().to_vec();
        let is_now = *from == ChangesFrom::Now;
        let (stamp, from) = match from {
            ChangesFrom::Oldest => (CommitStamp::new(self.trimmed_stamp.load(Ordering::Acquire)), starts),
            // The feed also returns the records that are already in the log and have a stamp
            // greater than `stamp`.
            ChangesFrom::Now => (CommitStamp::new(self.horizon(None)?.before().get()), starts),
            ChangesFrom::Position(position) => {
                if position.from.len() != starts.len() {
                    let (found, has) = (position.from.len(), starts.len());
                    let reason = format!("it is of a log of {found} streams; this database's has {has}");
                    return Err(Error::Option { option: "position", reason });
                }
                if let Some((_, start)) = position.from.iter().zip(&starts).find(|(from, start)| from < start)
                {
                    return Err(Error::ChangesGap { at: position.stamp, log_start: *start });
                }
                (position.stamp, position.from.clone())
            }
        };
        let followers = self.log.streams().iter().zip(from).map(|(stream, from)| stream.follow(from));
        let mut feed = MemoryFeed {
            engine: self.clone(),
            followers: followers.collect::<std::result::Result<_, _>>()?,
            stamp,
            seen: CommitStamp::new(self.trimmed_stamp.load(Ordering::Acquire)),
            waiting: BTreeMap::new(),
            waiting_bytes: 0,
            round: None,
            names,
        };
        if is_now {
            // Reads the log up to its end, so that the feed's position does not need earlier log.
            feed.read()?;
            feed.stamp = feed.stamp.min(feed.seen);
        }
        Ok(feed)
    }

    /// Returns a stamp below which no record is appended from now on. `durable` is the stamp of a
    /// durable record.
    pub(super) fn horizon(&self, durable: Option<CommitStamp>) -> Result<Timestamp> {
        if let Some(stamp) = durable {
            // From now on each reader that begins has a bound above the durable record. Such a
            // reader forces every transaction that is still reading at a lower stamp to take a new
            // stamp.
            self.acknowledge(Timestamp::new(stamp.get()));
        }
        let reader = self.begin(Access::ReadOnly)?;
        let bound = reader.bound();
        drop(reader);
        Ok(self.store.in_flight_below(bound))
    }
}

impl MemoryFeed {
    /// Reads all durable records from the streams.
    fn read(&mut self) -> Result<()> {
        for at in 0..self.followers.len() {
            loop {
                let log = &self.engine.log;
                let follower = &mut self.followers[at];
                let record = match follower.try_next() {
                    Ok(Some(record)) => record,
                    Ok(None) => break,
                    Err(wal::Error::Read(ReadError::Trimmed { start, .. })) => {
                        return Err(Error::ChangesGap { at: self.stamp, log_start: start });
                    }
                    Err(error) => return Err(error.into()),
                };
                let stream = StreamId::new(at as u16);
                let stamped = log.stamped(stream, &record)?;
                if stamped.status == DependencyStatus::Dropped {
                    continue;
                }
                self.seen = self.seen.max(stamped.stamp);
                if stamped.stamp <= self.stamp {
                    continue;
                }
                let fits = self.waiting_bytes + stamped.payload.len() <= WAITING_BYTES_MAX;
                let payload = fits.then(|| stamped.payload.to_vec());
                self.waiting_bytes += payload.as_ref().map_or(0, Vec::len);
                let RecordRef { first, lsn, .. } = record;
                check_kind(&record)?;
                self.waiting.insert(stamped.stamp, Waiting { stream, first, lsn, payload });
            }
        }
        Ok(())
    }

    /// Returns the first waiting record as a transaction, if it lies below the horizon.
    fn give(&mut self, horizon: CommitStamp) -> Result<Option<CommittedTransaction>> {
        let Some((stamp, waiting)) = self.waiting.first_key_value() else { return Ok(None) };
        let stamp = *stamp;
        if stamp >= horizon {
            return Ok(None);
        }
        let again;
        let payload = match &waiting.payload {
            Some(payload) => &payload[..],
            None => {
                let read = self.engine.log.streams()[waiting.stream.index()].read(waiting.lsn);
                again = read.map_err(|error| match error {
                    wal::Error::Read(ReadError::Trimmed { start, .. }) => {
                        Error::ChangesGap { at: self.stamp, log_start: start }
                    }
                    error => error.into(),
                })?;
                &again.payload[again.chain.dependency_bytes()..]
            }
        };
        let place = || format!("log record at {} in stream {}", waiting.lsn, waiting.stream);
        let mut changes = Vec::new();
        for write in log_record::decode(payload) {
            let write = write.map_err(|malformed| malformed.at(place()))?;
            changes.push(change(&mut self.names, stamp, &write));
        }
        if let Some(Waiting { payload: Some(payload), .. }) = self.waiting.remove(&stamp) {
            self.waiting_bytes -= payload.len();
        }
        self.stamp = stamp;
        let changes = with_renames(changes);
        Ok(Some(CommittedTransaction { stamp, changes }))
    }

    /// Begins a round if at least one waiting record lies below the new horizon. Returns whether it
    /// did.
    fn begin_round(&mut self, context: &mut Option<&mut Context<'_>>) -> Result<bool> {
        let (Some(first), Some(last)) = (self.waiting.keys().next(), self.waiting.keys().next_back()) else {
            return Ok(false);
        };
        let (first, last) = (*first, *last);
        let find = || Ok::<_, Error>(CommitStamp::new(self.engine.horizon(Some(last))?.get()));
        let mut horizon = find()?;
        if horizon <= first {
            let Some(context) = context else { return Ok(false) };
            self.engine.feed_wakers.register(context.waker().clone());
            horizon = find()?;
            if horizon <= first {
                return Ok(false);
            }
        }
        let ends: Vec<Lsn> = self.engine.log.streams().iter().map(|stream| stream.barrier()).collect();
        for (stream, end) in self.engine.log.streams().iter().zip(&ends) {
            // The feed requests this sync itself, because perhaps no other thread does.
            if stream.durable() < *end {
                stream.request(*end, Durability::Durable);
            }
        }
        self.round = Some(Round { horizon, ends });
        Ok(true)
    }

    /// Waits until a stream has more durable records. During a round only those streams count that
    /// have not reached their noted ends.
    fn poll_streams(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        let mut failed = None;
        let ends = self.round.as_ref().map(|round| &round.ends);
        for (at, follower) in self.followers.iter_mut().enumerate() {
            if ends.is_some_and(|ends| follower.position() >= ends[at]) {
                continue;
            }
            match follower.poll_more(context) {
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(())),
                Poll::Ready(Err(error)) => failed = Some(error),
                Poll::Pending => {}
            }
        }
        failed.map_or(Poll::Pending, |error| Poll::Ready(Err(error.into())))
    }
}

impl EngineFeed for MemoryFeed {
    fn poll_next(&mut self, mut context: Option<&mut Context<'_>>) -> Poll<Result<CommittedTransaction>> {
        loop {
            if let Err(error) = self.read() {
                return Poll::Ready(Err(error));
            }
            if let Some(Round { horizon, ends }) = &self.round {
                let is_there = |(follower, end): (&Follower, &Lsn)| follower.position() >= *end;
                if self.followers.iter().zip(ends).all(is_there) {
                    match self.give(*horizon) {
                        Ok(Some(transaction)) => return Poll::Ready(Ok(transaction)),
                        Ok(None) => self.round = None,
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
            }
            if self.round.is_none() {
                match self.begin_round(&mut context) {
                    Ok(true) => continue,
                    Ok(false) => {}
                    Err(error) => return Poll::Ready(Err(error)),
                }
            }
            let Some(context) = &mut context else { return Poll::Pending };
            match self.poll_streams(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn position(&self) -> ChangePosition {
        let mut from: Vec<Lsn> = self.followers.iter().map(Follower::position).collect();
        for waiting in self.waiting.values() {
            let from = &mut from[waiting.stream.index()];
            *from = (*from).min(waiting.first);
        }
        ChangePosition { stamp: self.stamp, from }
    }
}

fn check_kind(record: &RecordRef<'_>) -> Result<()> {
    if record.kind == WRITES {
        return Ok(());
    }
    Err(log_record::Malformed("its kind is unknown").at(format!("log record at {}", record.lsn)))
}

/// Returns the change of a write of the transaction with this stamp.
fn change(names: &mut Names, stamp: CommitStamp, write: &LoggedWrite<'_>) -> Change {
    let LoggedWrite { table, key, value } = *write;
    if table != TableId::CATALOG {
        let new = value.map_or(NewValue::Deleted, |value| NewValue::Value(value.to_vec()));
        let name = names.get(&table).map(|named| named.name.clone());
        return Change::Row { table, name, key: key.to_vec(), new, old: OldValue::NotLogged };
    }
    let name: Arc<str> = String::from_utf8_lossy(key).into();
    match value.and_then(|value| <[u8; 4]>::try_from(value).ok()) {
        Some(id) => {
            let table = TableId::new(u32::from_le_bytes(id));
            names.insert(table, Named { name: name.clone(), since: stamp });
            Change::TableCreated { table, name }
        }
        None => {
            // The record has only the name. Several tables may have had the name one after the
            // other, and a table may get it later. The dropped table is the last one that had the
            // name before this transaction.
            let had = names.iter().filter(|(_, named)| named.name == name && named.since < stamp);
            let table = had.max_by_key(|(_, named)| named.since).map(|(table, _)| *table);
            Change::TableDropped { table, name }
        }
    }
}
