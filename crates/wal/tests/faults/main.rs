//! The log on a device that fails, stalls, or is full: every protocol, every device, every kind of
//! fault, every place.
//!
//! | file | what goes wrong |
//! |---|---|
//! | `calls` | one write or sync on the path of a commit, while callers of every kind wait for it |
//! | `steps` | any one call that changes the device, by its number, from opening to closing |
//! | `opening` | reads of recovery |
//! | `reads` | reads of records that a failed write lost |
//! | `stalls` | nothing fails; the device stands still for seconds |
//! | `futures` | nothing fails; a caller drops its future |
//! | `beside` | threads, wakers and callbacks off the path of a commit |
//! | `wakers` | nothing, or a write; wakers drop the last handle, wait for the log, stand still |
//! | `panics` | one call, which panics |
//!
//! All tests check the same conditions. The next opening finds every record that was acknowledged
//! as durable, whatever happens to the machine. After a failed write or sync no call succeeds any
//! more, and every caller gets the first cause. The records that are found were appended, are
//! whole, are in the order of their session, and begin with the first one.

mod beside;
mod calls;
mod futures;
mod opening;
mod panics;
mod places;
mod reads;
mod stalls;
mod steps;
mod wakers;

use katydid_wal::{Append, FileOptions, Id, Kind, Log, Options, SyncKind};
use places::TestDevice;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

/// Returns options with small segments, and a ring with room for everything that a test appends at
/// once.
pub fn options(sync: SyncKind, place: &TestDevice) -> Options {
    Options {
        medium: FileOptions {
            sync: sync.into(),
            segment_bytes: 64 << 10,
            ring_bytes: 64 << 10,
            spare_segments: 1,
            ..FileOptions::default()
        }
        .into(),
        method: place.method,
        run_ahead_bytes: 16 << 10,
        reserve_bytes: 8 << 10,
        log_id: Some(Id::new(1)),
        ..Options::default()
    }
}

/// Runs `test` on every protocol and device. Prints their names first, so that a failure shows
/// them.
pub fn on_every_protocol_and_device(test: impl Fn(SyncKind, &TestDevice)) {
    for place in places::ALL {
        for sync in SyncKind::ALL {
            println!("{sync} on {}", place.name);
            test(sync, place);
        }
    }
}

/// Returns the payload of a session's record.
pub fn payload(session: u64, number: u64) -> Vec<u8> {
    let text = format!("session {session} record {number} ");
    text.into_bytes().into_iter().cycle().take(60 + (session * 37 + number * 101) as usize % 700).collect()
}

/// Numbers of the records of one session that are appended, acknowledged, or perhaps trimmed.
#[derive(Debug, Clone, Default)]
pub struct Acknowledged {
    /// Number of appended records.
    pub appended: u64,
    /// Number of acknowledged records.
    pub acknowledged: u64,
    /// Number of records that may be gone, because a trim was called.
    pub trimmed: u64,
}

/// Appends the session's next record.
pub fn append(
    session: &mut katydid_wal::Session,
    number: u64,
    counts: &mut Acknowledged,
) -> Result<katydid_wal::Lsn, katydid_wal::AppendError> {
    let bytes = payload(number, counts.appended);
    let appended = session.append(&Append::new(Kind::USER, &[&bytes]).txn(number))?;
    counts.appended += 1;
    Ok(appended.end)
}

/// Checks that the log has the first records of each session, except the trimmed ones. The records
/// of the log must include all acknowledged ones, and none that is damaged or was never appended.
pub fn check(log: &Log, counts: &[Acknowledged], when: &str) {
    let mut found = vec![0; counts.len()];
    for record in log.first().reader(log.first().start()).expect("reader") {
        let record = record.unwrap_or_else(|error| panic!("{when}: {error}"));
        let session = record.txn as usize;
        if found[session] == 0 {
            let is_first = |number: &u64| payload(record.txn, *number) == record.payload;
            found[session] = (0..=counts[session].trimmed).find(is_first).unwrap_or(0);
        }
        assert_eq!(record.payload, payload(record.txn, found[session]), "{when}: session {session}");
        found[session] += 1;
    }
    for (session, (found, counts)) in found.iter().zip(counts).enumerate() {
        let Acknowledged { appended, acknowledged, trimmed } = counts;
        assert!(
            found >= acknowledged || *found == 0 && trimmed >= acknowledged,
            "{when}: session {session}: {found} of {acknowledged} acknowledged ones"
        );
        assert!(found <= appended, "{when}: session {session}: {found} of {appended} appended ones");
    }
}

struct Alarm(Thread);

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Alarm(std::thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(outcome) => return outcome,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Returns the text of the first failure, which caused this error.
pub fn first(error: &katydid_device::Error) -> String {
    match &error.cause {
        katydid_device::Cause::Poisoned(earlier) => first(earlier),
        _ => error.to_string(),
    }
}
