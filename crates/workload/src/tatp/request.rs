//! The seven transactions. Each is drawn before it is run.

use super::population::{START_TIMES, digits};
use super::rows::{self, AccessInfo, CallForwarding, Number, SpecialFacility, Subscriber};
use super::run::Kind;
use super::tables::{CALL_FORWARDING, SPECIAL_FACILITY, SUBSCRIBER_BY_NUMBER, TABLES};
use crate::drive::Ending;
use crate::row::{Row, add, change, find, read, try_change, wrong};
use crate::store::{Keys, Result, StoreError, Transaction};
use fastrand::Rng;

/// A call forwarding that a transaction looks for, inserts or deletes: its key without the
/// subscriber, and its end time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forwarding {
    facility: u8,
    start_time: u8,
    end_time: u8,
}

impl Forwarding {
    fn draw(rng: &mut Rng) -> Self {
        let start_time = START_TIMES[rng.usize(..START_TIMES.len())];
        Forwarding { facility: rng.u8(1..=4), start_time, end_time: rng.u8(1..=24) }
    }
}

/// Operation on a subscriber.
#[derive(Debug, Clone, Copy)]
enum Operation {
    GetSubscriberData,
    GetNewDestination(Forwarding),
    GetAccessData { kind: u8 },
    UpdateSubscriberData { bit: u8, facility: u8, data_a: u8 },
    UpdateLocation { location: u32 },
    InsertCallForwarding(Forwarding, Number),
    DeleteCallForwarding(Forwarding),
}

/// A transaction to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    subscriber: u32,
    what: Operation,
}

impl Request {
    pub(super) fn draw(kind: Kind, subscriber: u32, rng: &mut Rng) -> Self {
        let what = match kind {
            Kind::GetSubscriberData => Operation::GetSubscriberData,
            Kind::GetNewDestination => Operation::GetNewDestination(Forwarding::draw(rng)),
            Kind::GetAccessData => Operation::GetAccessData { kind: rng.u8(1..=4) },
            Kind::UpdateSubscriberData => Operation::UpdateSubscriberData {
                bit: rng.u8(0..=1),
                facility: rng.u8(1..=4),
                data_a: rng.u8(..),
            },
            Kind::UpdateLocation => Operation::UpdateLocation { location: rng.u32(1..) },
            Kind::InsertCallForwarding => Operation::InsertCallForwarding(Forwarding::draw(rng), digits(rng)),
            Kind::DeleteCallForwarding => Operation::DeleteCallForwarding(Forwarding::draw(rng)),
        };
        Request { subscriber, what }
    }

    /// Runs the request. A transaction that fails by the standard's rules is rolled back.
    pub(super) fn run<T: Transaction>(&self, transaction: &mut T) -> Result<Ending> {
        let subscriber = self.subscriber;
        let succeeds = match self.what {
            Operation::GetSubscriberData => {
                let _shown: Subscriber = read(transaction, &rows::subscriber(subscriber))?;
                true
            }
            Operation::GetNewDestination(asked) => new_destination(transaction, subscriber, asked)?,
            Operation::GetAccessData { kind } => {
                let shown: Option<AccessInfo> = find(transaction, &rows::of_subscriber(subscriber, kind))?;
                shown.is_some()
            }
            Operation::UpdateSubscriberData { bit, facility, data_a } => {
                let key = rows::of_subscriber(subscriber, facility);
                change(transaction, &rows::subscriber(subscriber), |row: &mut Subscriber| row.bits[0] = bit)?;
                try_change(transaction, &key, |row: &mut SpecialFacility| row.data_a = data_a)?.is_some()
            }
            Operation::UpdateLocation { location } => {
                let key = rows::subscriber(by_number(transaction, subscriber)?);
                change(transaction, &key, |row: &mut Subscriber| row.vlr_location = location)?;
                true
            }
            Operation::InsertCallForwarding(new, number) => {
                insert_forwarding(transaction, subscriber, new, number)?
            }
            Operation::DeleteCallForwarding(old) => {
                let subscriber = by_number(transaction, subscriber)?;
                let key = rows::forwarding(subscriber, old.facility, old.start_time);
                transaction.on(CALL_FORWARDING).delete(&key)?
            }
        };
        Ok(if succeeds { Ending::Commit } else { Ending::RollBack })
    }
}

/// Looks up a subscriber by its telephone number.
fn by_number<T: Transaction>(transaction: &mut T, subscriber: u32) -> Result<u32> {
    let number = rows::number(subscriber);
    let found = transaction.on(SUBSCRIBER_BY_NUMBER).get(&number)?;
    let found = found.and_then(|found| rows::read_subscriber(&found));
    found.ok_or_else(|| wrong(TABLES[SUBSCRIBER_BY_NUMBER], &number, "leads to nobody"))
}

/// Returns whether a call from the start time to the end time is forwarded.
fn new_destination<T: Transaction>(transaction: &mut T, subscriber: u32, asked: Forwarding) -> Result<bool> {
    let key = rows::of_subscriber(subscriber, asked.facility);
    match find::<SpecialFacility, T>(transaction, &key)? {
        Some(facility) if facility.active == 1 => {}
        _ => return Ok(false),
    }
    let from = rows::forwarding(subscriber, asked.facility, 0);
    let to = rows::forwarding(subscriber, asked.facility, asked.start_time + 1);
    let (mut found, mut cut) = (false, None);
    transaction.on(CALL_FORWARDING).range(Keys::between(&from, &to), usize::MAX, &mut |key, row| {
        match CallForwarding::read(row) {
            Some(row) => found |= asked.end_time < row.end_time,
            None => cut = Some(wrong(TABLES[CALL_FORWARDING], key, "is cut")),
        }
    })?;
    cut.map_or(Ok(found), Err)
}

/// Inserts a call forwarding. Returns whether the special facility exists and had no call
/// forwarding with this key.
fn insert_forwarding<T: Transaction>(
    transaction: &mut T,
    subscriber: u32,
    new: Forwarding,
    number: Number,
) -> Result<bool> {
    let subscriber = by_number(transaction, subscriber)?;
    let (from, to) = (rows::of_subscriber(subscriber, 0), rows::of_subscriber(subscriber, u8::MAX));
    let mut known = false;
    transaction.on(SPECIAL_FACILITY).range(Keys::between(&from, &to), usize::MAX, &mut |key, _| {
        known |= key.last() == Some(&new.facility);
    })?;
    if !known {
        return Ok(false);
    }
    let key = rows::forwarding(subscriber, new.facility, new.start_time);
    match add(transaction, &key, &CallForwarding { end_time: new.end_time, number }) {
        Ok(()) => Ok(true),
        Err(StoreError::KeyExists(_)) => Ok(false),
        Err(error) => Err(error),
    }
}
