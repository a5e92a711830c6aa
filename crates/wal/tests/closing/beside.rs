//! Many threads make every kind of call while other threads close the log, in random order, over
//! and over. The directory itself notices calls made after its lock was released.

use crate::asleep::alone;
use crate::held::Opening;
use crate::{is_fine, make_durable, number, options};
use katydid_device::MemoryDirectory;
use katydid_wal::{Background, Log, LogKind};
use std::sync::Arc;
use std::sync::Barrier;

const ROUNDS: usize = 300;

#[test]
fn threads_that_call_beside_closing_threads_leave_the_directory_alone_afterwards() {
    let _alone = alone();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let memory = MemoryDirectory::new();
    let mut appended = 0;
    for round in 0..ROUNDS {
        let kind = LogKind::Disk;
        let opening = Opening::of(&memory);
        let log =
            Log::open_in(Arc::new(opening.clone()), options(kind, Background::Threads)).expect("it opens");
        let found: Vec<u32> = log
            .first()
            .reader(log.first().start())
            .expect("a reader")
            .map(|record| number(&record.expect("sound")))
            .collect();
        assert!(found.windows(2).all(|pair| pair[0] < pair[1]), "round {round}: {found:?}");
        assert!(found.last().is_none_or(|last| *last < appended), "round {round}");
        make_durable(&log, appended..appended + 20).expect("nothing fails");
        appended += 20;
        let start = Barrier::new(6);
        std::thread::scope(|scope| {
            let (log, start, opening) = (&log, &start, &opening);
            for _ in 0..2 {
                let spins = random.u32(0..2000);
                scope.spawn(move || {
                    start.wait();
                    (0..spins).for_each(|_| std::hint::spin_loop());
                    log.close().expect("nothing fails");
                    assert!(opening.is_ended(), "close has returned");
                });
            }
            for which in 0..4 {
                scope.spawn(move || {
                    start.wait();
                    let outcome = match which {
                        0 => log.first().trim(log.first().durable()),
                        1 => log.first().raise_reserve(20 << 10).map(drop),
                        2 => log.first().sync().map(drop),
                        _ => log.first().reader(log.first().durable()).map(drop),
                    };
                    assert!(is_fine(&outcome), "round {round}: {outcome:?}");
                });
            }
        });
        drop(log);
        assert!(opening.faults().is_empty(), "round {round}: {:?}", opening.faults());
    }
}
