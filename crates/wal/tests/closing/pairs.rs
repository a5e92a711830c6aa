//! One call is held up at each device call that it makes, in turn, while another thread makes a
//! second call. One of the two calls closes the log.

use crate::asleep::{alone, wait_until_all_sleep};
use crate::held::{Opening, ThreadFilter, enlist};
use crate::{append, is_fine, make_durable, number, options};
use katydid_device::{Directory, MemoryDirectory};
use katydid_wal::{
    Append, AppendClass, Background, CommitStamp, Dependencies, Durability, Error, Kind, Log, LogKind,
    Options, Stream,
};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The name of a call on an open log, and the call.
type Call<L> = (&'static str, fn(&L) -> Result<(), Error>);

/// A log of one kind: how it is opened and filled, which calls can be made, and which records must
/// exist afterwards.
struct Subject<L> {
    name: String,
    open: Box<dyn Fn(Arc<dyn Directory>) -> L>,
    /// Leaves acknowledged records that later calls may trim, and records that are in memory only.
    fill: fn(&L),
    check: fn(&L),
    close: Call<L>,
    others: Vec<Call<L>>,
}

/// Number of records that are acknowledged before any other call.
const KEPT: u32 = 40;

impl<L: Clone + Send + Sync> Subject<L> {
    /// Holds up the device call number `passing` of `first` while another thread makes the `second`
    /// call. Returns whether `first` makes such a device call.
    fn attempt(&self, filter: ThreadFilter, first: Call<L>, second: Call<L>, passing: usize) -> bool {
        let memory = MemoryDirectory::new();
        let opening = Opening::of(&memory);
        let log = (self.open)(Arc::new(opening.clone()));
        (self.fill)(&log);
        wait_until_all_sleep();
        let reached = opening.hold(filter, passing);
        let found = std::thread::scope(|scope| {
            let (log, opening) = (&log, &opening);
            let one = scope.spawn(move || {
                enlist();
                let outcome = first.1(log);
                if filter != ThreadFilter::Enlisted {
                    // Another thread may be about to do work that this thread has requested.
                    wait_until_all_sleep();
                }
                opening.expect_nothing();
                outcome
            });
            let Ok(held) = reached.recv() else {
                assert!(is_fine(&one.join().expect("no panic")));
                return None;
            };
            let what = format!(
                "{}: {} held up at its call {passing}, {}; {}",
                self.name, first.0, held.call, second.0
            );
            let two = scope.spawn(|| {
                let outcome = second.1(log);
                // When any call to close returns, even the second call, the directory is free.
                let is_free = second.0 != "close" || memory.lock().is_ok();
                (outcome, is_free)
            });
            wait_until_all_sleep();
            held.let_go();
            let (one, (two, is_free)) = (one.join().expect("no panic"), two.join().expect("no panic"));
            assert!(is_fine(&one) && is_fine(&two), "{what}: {one:?}, {two:?}");
            assert!(is_free, "{what}: close has returned, and the directory is not free");
            Some(what)
        });
        (self.close.1)(&log).expect("closed, or closed again");
        drop(log);
        assert!(opening.is_ended());
        let what = found.as_deref().unwrap_or(&self.name);
        assert!(opening.faults().is_empty(), "{what}: {:?}", opening.faults());
        let next = (self.open)(Arc::new(Opening::of(&memory)));
        (self.check)(&next);
        (self.close.1)(&next).expect("nothing fails");
        found.is_some()
    }

    fn at_each_call(&self, filter: ThreadFilter, first: Call<L>, second: Call<L>) -> usize {
        (0..200).find(|passing| !self.attempt(filter, first, second, *passing)).expect("it ends")
    }

    fn all_pairs(&self) {
        let _alone = alone();
        let mut held = 0;
        for &other in &self.others {
            held += self.at_each_call(ThreadFilter::Enlisted, other, self.close);
            held += self.at_each_call(ThreadFilter::Enlisted, self.close, other);
        }
        held += self.at_each_call(ThreadFilter::Enlisted, self.close, self.close);
        assert!(held > 0, "{}: no call was held up", self.name);
    }
}

fn poll(log: &Log) -> Result<(), Error> {
    let end = append(log, KEPT..KEPT + 3)?;
    let mut future = std::pin::pin!(log.first().wait_async(end, Durability::Durable));
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => {
            // In a log without threads of its own, only this call makes the sync that the future
            // has requested.
            log.run_background();
            log.first().wait(end, Durability::Durable)
        }
    }
}

fn large(log: &Log) -> Result<(), Error> {
    let end = match log.session()?.append(&Append::new(Kind::USER, &[&[3; 30_000]])) {
        Err(katydid_wal::AppendError::NoSpace | katydid_wal::AppendError::TooLarge { .. })
            if log.first().kind().in_nvram() =>
        {
            return Ok(());
        }
        other => other?.end,
    };
    log.first().wait(end, Durability::Durable)
}

fn calls() -> Vec<Call<Log>> {
    vec![
        ("append and wait", |log| make_durable(log, KEPT..KEPT + 5)),
        ("append more than is prepared", large),
        ("append a critical record", |log| {
            let append = Append::new(Kind::USER, &[&[1; 100]]).class(AppendClass::Critical);
            let end = log.session()?.append(&append)?.end;
            log.first().wait(end, Durability::Written)
        }),
        ("wait_async", poll),
        ("request", |log| {
            log.first().request(append(log, KEPT..KEPT + 3)?, Durability::Durable);
            log.run_background();
            Ok(())
        }),
        ("sync", |log| log.first().sync().map(drop)),
        ("barrier", |log| {
            log.first().barrier();
            Ok(())
        }),
        ("reader", |log| {
            log.first().reader(log.first().start())?.try_for_each(|record| record.map(drop))?;
            Ok(())
        }),
        ("trim", |log| log.first().trim(log.first().durable())),
        ("trim twice", |log| {
            log.first().trim(log.first().durable())?;
            make_durable(log, KEPT..KEPT + 3)?;
            log.first().trim(log.first().durable())
        }),
        ("raise_reserve", |log| match log.first().raise_reserve(64 << 10) {
            Err(Error::NoSpace) if log.first().kind().in_nvram() => Ok(()),
            other => other.map(drop),
        }),
    ]
}

fn of_log(kind: LogKind, background: Background) -> Subject<Log> {
    Subject {
        name: format!("{kind}, {background:?}"),
        open: Box::new(move |directory| {
            Log::open_in(directory, options(kind, background)).expect("it can be opened")
        }),
        fill: |log| {
            make_durable(log, 0..KEPT).expect("nothing fails");
            append(log, KEPT..KEPT + 2).expect("nothing fails");
        },
        check: |log| {
            let found: Vec<_> = log.first().reader(log.first().start()).expect("a reader").collect();
            let small = found.iter().flatten().filter(|record| record.payload.len() == 1004).map(number);
            let small: Vec<u32> = small.collect();
            assert!(found.iter().all(Result::is_ok), "{found:?}");
            // A call that trims leaves none of the acknowledged records. Every other call leaves
            // all of them.
            let is_trimmed = log.first().start() > log.first().recovery().start
                || small.first().is_none_or(|first| *first >= KEPT);
            assert!(is_trimmed || small.starts_with(&(0..KEPT + 2).collect::<Vec<_>>()), "{small:?}");
        },
        close: ("close", Log::close),
        others: calls(),
    }
}

#[test]
fn no_call_reaches_the_directory_after_close() {
    for background in [Background::Threads, Background::Caller] {
        of_log(LogKind::Disk, background).all_pairs();
    }
}

#[test]
fn no_call_of_a_log_in_nvram_reaches_the_directory_after_close() {
    for kind in LogKind::ALL.into_iter().filter(|kind| kind.in_nvram()) {
        of_log(kind, Background::Threads).all_pairs();
    }
}

/// Closing also waits for the work that the log's own threads do for other threads.
#[test]
fn no_thread_of_the_log_reaches_the_directory_after_close() {
    let _alone = alone();
    let subject = of_log(LogKind::Disk, Background::Threads);
    for name in ["katydid-log-maintenance", "katydid-log-syncer"] {
        // If the syncer gets no processor in time, the closing thread becomes the leader, so one
        // attempt may not be enough.
        let mut held = 0;
        for _ in 0..100 {
            let calls = calls().into_iter().filter(|(name, _)| ["request", "raise_reserve"].contains(name));
            held += calls
                .map(|call| subject.at_each_call(ThreadFilter::Named(name), call, subject.close))
                .sum::<usize>();
            if held > 0 {
                break;
            }
        }
        assert!(held > 0, "{name} was never held up");
    }
}

fn of_streams() -> Subject<Log> {
    fn commit(log: &Log, count: u64) -> Result<(), Error> {
        let mut depends = Dependencies::default();
        for timestamp in 0..count {
            let mut session = log.streams()[(timestamp % 2) as usize].session()?;
            let record = Append::new(Kind::USER, &[&[9; 1000]]).commit(CommitStamp::new(timestamp), &depends);
            let at = session.append(&record)?.position();
            log.wait(at, &depends, Durability::Durable)?;
            depends = Dependencies::from_iter([at]);
        }
        Ok(())
    }
    Subject {
        name: "two streams".to_owned(),
        open: Box::new(|directory| {
            let options = Options { streams: 2, ..options(LogKind::Disk, Background::Threads) };
            Log::open_in(directory, options).expect("it can be opened")
        }),
        fill: |log| commit(log, KEPT.into()).expect("nothing fails"),
        check: |log| {
            let from: Vec<_> = log.streams().iter().map(Stream::start).collect();
            let report = log.replay(&from, &|_| Ok::<(), ()>(()), &|_| {}).expect("all can be read");
            // The log may have been closed before all streams were trimmed.
            let is_trimmed = from.iter().any(|start| start.get() > 0);
            assert!(is_trimmed || report.records >= u64::from(KEPT), "{report:?}");
        },
        close: ("close", Log::close),
        others: vec![
            ("append and wait", |log| commit(log, 4)),
            ("sync", |log| {
                let record = Append::new(Kind::USER, &[&[8; 5000]]).stamp(CommitStamp::new(100));
                log.streams()[1].session()?.append(&record)?;
                log.sync()
            }),
            ("trim", |log| log.trim(&log.streams().iter().map(Stream::durable).collect::<Vec<_>>())),
        ],
    }
}

#[test]
fn no_call_of_a_log_of_two_streams_reaches_the_directory_after_close() {
    of_streams().all_pairs();
}

/// Appenders in NVRAM store without passing the gate, but no other opening gets the memory while an
/// appender may store.
#[test]
fn memory_is_given_back_when_no_session_is_left_that_could_store_there() {
    let _alone = alone();
    for kind in LogKind::ALL.into_iter().filter(|kind| kind.in_nvram()) {
        let memory = MemoryDirectory::new();
        let open = || Log::open_in(Arc::new(memory.clone()), options(kind, Background::Threads));
        let log = open().expect("it can be opened");
        make_durable(&log, 0..3).expect("nothing fails");
        let session = log.session().expect("there is one");
        log.close().expect("nothing fails");
        drop(log);
        let refused = open().expect_err("its memory is in use");
        assert!(refused.to_string().contains("in use"), "{kind}: {refused}");
        drop(session);
        let next = open().expect("it is free");
        let found: Vec<u32> = next
            .first()
            .reader(next.first().start())
            .expect("a reader")
            .flatten()
            .map(|record| number(&record))
            .collect();
        assert_eq!(found, [0, 1, 2], "{kind}: and the refused opening has changed nothing");
    }
}
