//! The device stands still for seconds, then goes on: an event and a metric say what it was doing,
//! no call succeeds meanwhile, and nothing is lost. The seconds are those of a clock that the test
//! moves.

use crate::places::Standstill;
use crate::{Acknowledged, append, block_on, check, on_every_protocol_and_device, options};
use katydid_device::{Verb, Watch};
use katydid_wal::{Durability, Log, Stalls};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

/// Collects events.
#[derive(Default)]
struct EventLog {
    heard: Mutex<Vec<String>>,
}

impl log::Log for EventLog {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        self.heard.lock().expect("no panic").push(format!("{}: {}", record.target(), record.args()));
    }

    fn flush(&self) {}
}

fn ears() -> &'static EventLog {
    static EARS: OnceLock<&'static EventLog> = OnceLock::new();
    EARS.get_or_init(|| {
        let ears: &'static EventLog = Box::leak(Box::default());
        log::set_logger(ears).expect("the only logger");
        log::set_max_level(log::LevelFilter::Warn);
        ears
    })
}

#[test]
fn a_device_that_stalls_is_named_and_loses_nothing() {
    let heard = |text: &str| {
        let heard = ears().heard.lock().expect("no panic");
        heard.iter().filter(|line| line.starts_with("katydid::device") && line.contains(text)).count()
    };
    on_every_protocol_and_device(|sync, place| {
        let device = place.make();
        let (watch, clock) = Watch::by_hand(Duration::from_secs(1));
        let directory = watch.before(device.directory());
        let log = Log::open_watched(directory, options(sync, place), watch).expect("open");
        let mut counts = vec![Acknowledged::default(); 3];
        let mut sessions: Vec<_> = (0..3).map(|_| log.session().expect("session")).collect();
        let end = append(&mut sessions[0], 0, &mut counts[0]).expect("append");
        log.first().wait(end, Durability::Durable).expect("wait");
        let (before, so_far, over) =
            (log.first().durable(), heard("has taken 4.0 s so far"), heard(" took 4.0 s"));
        std::thread::scope(|scope| {
            let standstill = Standstill::of(&device);
            let callers: Vec<_> = sessions
                .iter_mut()
                .zip(&mut counts)
                .enumerate()
                .map(|(number, (session, counts))| {
                    let log = &log;
                    scope.spawn(move || {
                        let end = append(session, number as u64, counts).expect("append");
                        match number {
                            0 => log.first().wait(end, Durability::Durable).expect("wait"),
                            1 => {
                                block_on(log.first().wait_async(end, Durability::Durable)).expect("a future")
                            }
                            _ => {
                                session.on_complete(end, Durability::Durable, |outcome| {
                                    outcome.expect("a callback");
                                });
                                session.drain();
                            }
                        }
                        counts.acknowledged = counts.appended;
                    })
                })
                .collect();
            device.wait_stalled();
            clock.advance(Duration::from_secs(4));
            let stalls = log.device_stalls();
            let stall = stalls.under_way.expect("a call under way");
            // The call is the log's next write or sync, or one for a segment that is prepared
            // ahead.
            let of_directory = stall.verb == Verb::SyncDirectory;
            assert!(of_directory || stall.subject.starts_with("log."), "{stall:?}");
            assert_eq!((stalls.longest, stall.lasts), (Duration::from_secs(4), Duration::from_secs(4)));
            assert!(heard("has taken 4.0 s so far") > so_far, "no event");
            assert_eq!(log.first().durable(), before, "acknowledged while the device stands still");
            assert!(log.poisoned().is_none(), "a stall is no failure");
            drop(standstill);
            callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
        });
        // Another thread may still be preparing a segment, and that stall ends too.
        while log.device_stalls().under_way.is_some() {
            std::thread::yield_now();
        }
        let Stalls { count, longest, .. } = log.device_stalls();
        assert!(count > 0 && longest == Duration::from_secs(4), "{count} stalls, longest {longest:?}");
        // The thread that made the call reports the stall after the call has ended.
        while heard(" took 4.0 s") <= over {
            std::thread::yield_now();
        }
        drop((sessions, log));
        for (when, device) in device.later() {
            let log = Log::open_in(device.directory(), options(sync, place)).expect(&when);
            check(&log, &counts, &when);
        }
    });
}
