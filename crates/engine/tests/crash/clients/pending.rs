//! The commits of one client, in their three forms, and the errors that calls may return.
//!
//! Every commit reports its outcome once: to a callback in the order of its session's commits, or
//! to a future when it is awaited. Before the crash a call fails only because transactions
//! conflict, or a small log in NVRAM is full. After the crash every outcome is still reported, and
//! a call may fail only for reasons that the crash explains.

use super::{Log, Version};
use crate::common::{Rng, block_on};
use katydid::{CommitFuture, ConflictKind, EngineKind, Error, Session, Transaction};
use katydid_device::SimDevice;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Says which errors are allowed, and fails the test at any other.
#[derive(Debug, Clone)]
pub struct Judge {
    pub device: SimDevice,
    pub engine: EngineKind,
    pub in_nvram: bool,
}

impl Judge {
    /// Returns whether a client goes on after this error of a call on a transaction that has not
    /// ended.
    pub fn goes_on_after(&self, error: &Error) -> bool {
        match error {
            Error::Conflict { kind, .. } => {
                // A wait that nothing ends is a deadlock that was not found, or a lock that was not
                // released.
                let is_timeout = *kind == ConflictKind::Timeout;
                assert!(!is_timeout || self.device.is_crashed(), "a wait without end: {error}");
                true
            }
            Error::LogFull { .. } if self.in_nvram => true,
            error => {
                self.expect_crash(error);
                false
            }
        }
    }

    /// Returns whether a commit with this error was refused, and has left nothing.
    fn refuses(&self, error: &Error) -> bool {
        let conflicts = self.engine == EngineKind::Memory && error.is_retryable();
        if !conflicts {
            self.expect_crash(error);
        }
        conflicts
    }

    fn expect_crash(&self, error: &Error) {
        assert!(self.device.is_crashed(), "failed without a crash: {error}");
        assert!(Self::is_of_crash(error), "this is not the crash's fault: {error:?}");
    }

    fn is_of_crash(error: &Error) -> bool {
        match error {
            Error::Poisoned { .. } | Error::Device(_) => true,
            Error::MustRollBack { cause } | Error::Unended { cause, .. } => Self::is_of_crash(cause),
            _ => false,
        }
    }
}

/// Promise of a successful commit.
pub enum Promise {
    Nothing,
    Wrote(u64),
    Shown(Vec<Version>),
    /// The commit must not succeed.
    Refused,
}

/// Outcomes of commits so far.
#[derive(Debug, Default)]
struct Heard {
    acknowledged: BTreeSet<u64>,
    shown: Vec<Version>,
    refused: BTreeSet<u64>,
    /// Number of callbacks that have run.
    callbacks: u64,
}

impl Heard {
    /// Notes the outcome of a commit. Number 0 is a transaction that only reads.
    fn hear(
        &mut self,
        judge: &Judge,
        outcome: Result<katydid::CommitStamp, Error>,
        promise: Promise,
        number: u64,
    ) {
        match (outcome, promise) {
            (Ok(_), Promise::Nothing) => {}
            (Ok(_), Promise::Wrote(number)) => self.acknowledged.extend([number]),
            (Ok(_), Promise::Shown(versions)) => self.shown.extend(versions),
            (Ok(_), Promise::Refused) => {
                panic!("transaction {number} went by what no longer holds, and was committed")
            }
            (Err(error), _) => {
                if judge.refuses(&error) && number > 0 {
                    self.refused.insert(number);
                }
            }
        }
    }
}

/// Commits whose outcome the client does not know yet, while it runs further transactions.
pub struct Pending<'a> {
    session: &'a Session,
    judge: &'a Judge,
    heard: Arc<Mutex<Heard>>,
    futures: Vec<(CommitFuture, Promise, u64)>,
    /// Number of commits that were given a callback.
    callbacks: u64,
}

impl<'a> Pending<'a> {
    pub fn new(session: &'a Session, judge: &'a Judge) -> Self {
        Pending { session, judge, heard: Arc::default(), futures: Vec::new(), callbacks: 0 }
    }

    /// Commits in one of the three forms.
    ///
    /// # Errors
    /// If the commit blocks and fails because of the crash.
    pub fn commit(
        &mut self,
        txn: Transaction,
        promise: Promise,
        number: u64,
        random: &mut Rng,
    ) -> Result<(), Error> {
        match random.u32(0..4) {
            0 | 1 => {
                let (heard, judge, turn) = (self.heard.clone(), self.judge.clone(), self.callbacks);
                self.callbacks += 1;
                txn.commit_with(self.session, move |outcome| {
                    let mut heard = heard.lock().expect("no panic");
                    assert_eq!(heard.callbacks, turn, "callbacks out of their order");
                    heard.callbacks += 1;
                    heard.hear(&judge, outcome, promise, number);
                });
            }
            2 => self.futures.push((txn.commit_async(), promise, number)),
            _ => {
                let outcome = txn.commit();
                let failure = outcome.as_ref().err().filter(|error| !error.is_retryable()).cloned();
                self.heard.lock().expect("no panic").hear(self.judge, outcome, promise, number);
                failure.map_or(Ok(()), Err)?;
            }
        }
        Ok(())
    }

    /// Notes the outcomes that are known now.
    pub fn poll(&mut self) {
        self.session.poll();
        let mut context = Context::from_waker(Waker::noop());
        for (mut future, promise, number) in std::mem::take(&mut self.futures) {
            match Pin::new(&mut future).poll(&mut context) {
                Poll::Ready(outcome) => {
                    self.heard.lock().expect("no panic").hear(self.judge, outcome, promise, number);
                }
                Poll::Pending => self.futures.push((future, promise, number)),
            }
        }
    }

    /// Waits until every commit has reported its outcome, even after the crash.
    pub fn finish(mut self, log: &mut Log) {
        self.session.drain().expect("the database is open");
        for (future, promise, number) in std::mem::take(&mut self.futures) {
            let outcome = block_on(future);
            self.heard.lock().expect("no panic").hear(self.judge, outcome, promise, number);
        }
        let heard = std::mem::take(&mut *self.heard.lock().expect("no panic"));
        assert_eq!(heard.callbacks, self.callbacks, "some callbacks never ran");
        log.acknowledged = heard.acknowledged;
        log.refused = heard.refused;
        log.shown.extend(heard.shown);
    }
}
