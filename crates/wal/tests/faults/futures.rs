//! A future that is dropped, at whatever moment, changes nothing: the same calls reach the device,
//! and the device has the same content afterwards.

use crate::{Acknowledged, append, check, options, places};
use katydid_device::SimDevice;
use katydid_wal::{Background, Counters, Durability, Log, Options};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// End of a future.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FutureEnd {
    Kept,
    DroppedBeforeItIsPolled,
    DroppedWhilePending,
    DroppedWhenReady,
    DroppedAfterItsAnswer,
}

/// Result of a run.
#[derive(Debug, PartialEq)]
struct Outcome {
    steps: u64,
    counters: Counters,
    seen: BTreeMap<String, Vec<u8>>,
    kept: BTreeMap<String, Vec<u8>>,
}

fn run(options: &Options, future_end: FutureEnd) -> Outcome {
    let device = SimDevice::new(1);
    let log = Log::open_in(device.directory(), options.clone()).expect("open");
    let mut session = log.session().expect("session");
    let mut counts = Acknowledged::default();
    let mut context = Context::from_waker(Waker::noop());
    let mut kept = Vec::new();
    for round in 0..60 {
        let end = append(&mut session, 0, &mut counts).expect("append");
        let level = if round % 3 == 0 { Durability::Written } else { Durability::Durable };
        let mut future = log.first().wait_async(end, level);
        match future_end {
            FutureEnd::DroppedBeforeItIsPolled => drop(future),
            FutureEnd::DroppedWhilePending => {
                assert!(Pin::new(&mut future).poll(&mut context).is_pending());
                drop(future);
            }
            FutureEnd::DroppedWhenReady => kept.push(future),
            FutureEnd::DroppedAfterItsAnswer | FutureEnd::Kept => {
                assert!(Pin::new(&mut future).poll(&mut context).is_pending());
                kept.push(future);
            }
        }
        // Some requests are served several at a time, some alone.
        if round % 4 != 1 {
            log.run_background();
            assert!(
                if level == Durability::Durable { log.first().durable() } else { log.first().written() }
                    >= end
            );
            if future_end == FutureEnd::DroppedWhenReady {
                kept.clear();
            }
            if future_end == FutureEnd::DroppedAfterItsAnswer {
                for mut future in kept.drain(..) {
                    let answer = Pin::new(&mut future).poll(&mut context);
                    assert!(matches!(answer, Poll::Ready(Ok(()))), "{answer:?}");
                }
            }
        }
    }
    for future in &mut kept {
        let answer = Pin::new(future).poll(&mut context);
        assert!(matches!(answer, Poll::Ready(Ok(()))), "{answer:?}");
    }
    let mut counters = log.counters();
    // Times differ from run to run, so they are not compared.
    (counters.sync_lock_ns, counters.completion_ns, counters.sync_ns, counters.byte_ns) = (0, 0, 0, 0);
    counters.slot_wait_ns = 0;
    drop((kept, session));
    log.close().expect("close");
    counts.acknowledged = counts.appended;
    check(&log, &[counts], "after closing");
    drop(log);
    Outcome { steps: device.steps(), counters, seen: device.image(), kept: device.durable_image() }
}

#[test]
fn a_future_dropped_at_any_moment_changes_nothing() {
    for place in &places::ALL[..2] {
        for sync in katydid_wal::SyncKind::ALL {
            let options = Options { background: Background::Caller, ..options(sync, place) };
            let expected = run(&options, FutureEnd::Kept);
            for future_end in [
                FutureEnd::DroppedBeforeItIsPolled,
                FutureEnd::DroppedWhilePending,
                FutureEnd::DroppedWhenReady,
                FutureEnd::DroppedAfterItsAnswer,
            ] {
                let outcome = run(&options, future_end);
                assert_eq!(outcome.steps, expected.steps, "{sync}, {future_end:?}");
                assert_eq!(outcome.counters, expected.counters, "{sync}, {future_end:?}");
                assert!(outcome == expected, "{sync}, {future_end:?}: the device holds something else");
            }
        }
    }
}
