//! Background work of a log: writing and syncing what was requested without blocking, and preparing
//! segments.
//!
//! By default, threads of the log do this work. With [`Background::Caller`] the log starts no
//! thread: requests wait until [`crate::Log::run_background`] is called, and a thread that needs a
//! segment prepares it. Tests that must do the same in every run choose this setting, and so do
//! openings that discard their changes: those of a database that is only read or only checked. The
//! protocols are the same. Without a syncer thread, a thread that would hand the baton (the right
//! to lead) to the syncer leads instead.

use crate::options::Background;
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;
use katydid_kernels::sync::{Rounds, SyncDesign, SyncProtocol};
use std::collections::BTreeMap;
use std::mem;
use std::sync::{Mutex, PoisonError};

impl Background {
    /// Limits a log without threads of its own to one write in flight. Such a log is meant for one
    /// thread, so no other thread would perform a second write.
    pub(crate) fn limit(self, sync: SyncDesign) -> SyncDesign {
        match (self, sync) {
            (Background::Caller, SyncDesign::Adaptive { heuristics, .. }) => {
                SyncDesign::adaptive(1).with_heuristics(heuristics)
            }
            _ => sync,
        }
    }

    /// Returns the protocol that the log uses. If no thread serves requests, the returned protocol
    /// keeps them until the caller runs the background work.
    pub(crate) fn arrange(self, protocol: Box<dyn SyncProtocol>) -> Box<dyn SyncProtocol> {
        match self {
            Background::Threads => protocol,
            Background::Caller => Box::new(Deferred { protocol, requested: Mutex::new(BTreeMap::new()) }),
        }
    }
}

/// A protocol whose requests wait for [`SyncProtocol::serve`], which returns when all requests are
/// met.
#[derive(Debug)]
struct Deferred {
    protocol: Box<dyn SyncProtocol>,
    /// The highest level requested for each end, if the protocol syncs each commit by itself. In
    /// other protocols the map has one entry, under [`Lsn::ZERO`], with the highest level of all
    /// requests. This is a leaf latch.
    requested: Mutex<BTreeMap<Lsn, Durability>>,
}

impl SyncProtocol for Deferred {
    fn wait(&self, rounds: &dyn Rounds, end: Lsn, level: Durability) {
        self.protocol.wait(rounds, end, level);
    }

    fn offer(&self, rounds: &dyn Rounds) {
        self.protocol.offer(rounds);
    }

    fn looks_at_frontiers(&self) -> bool {
        self.protocol.looks_at_frontiers()
    }

    fn request(&self, _: &dyn Rounds, end: Lsn, level: Durability) {
        let key = if self.protocol.syncs_each() { end } else { Lsn::ZERO };
        let mut requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = requested.entry(key).or_insert(level);
        *of_key = level.max(*of_key);
    }

    fn syncs_each(&self) -> bool {
        self.protocol.syncs_each()
    }

    fn serve(&self, rounds: &dyn Rounds, _: usize) {
        let requested = mem::take(&mut *self.requested.lock().unwrap_or_else(PoisonError::into_inner));
        for (end, level) in requested {
            let end = if self.protocol.syncs_each() { end } else { rounds.reserved() };
            self.protocol.request(rounds, end, level);
        }
    }

    fn stop(&self) {
        self.protocol.stop();
    }

    fn syncer_wakeups(&self) -> u64 {
        self.protocol.syncer_wakeups()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Append, FileOptions, InserterKind, Kind, Log, Options, SyncKind};
    use katydid_device::SimDevice;

    fn options(inserter: InserterKind, sync: SyncKind) -> Options {
        Options {
            medium: FileOptions {
                segment_bytes: 32 << 10,
                ring_bytes: 16 << 10,
                spare_segments: 1,
                inserter: inserter.into(),
                sync: sync.into(),
                ..FileOptions::default()
            }
            .into(),
            run_ahead_bytes: 8 << 10,
            reserve_bytes: 0,
            background: Background::Caller,
            ..Options::default()
        }
    }

    fn on_every_design(check: impl Fn(&SimDevice, &Log)) {
        for inserter in [InserterKind::Mutex, InserterKind::Marks] {
            for sync in SyncKind::ALL {
                let device = SimDevice::new(1);
                let log = Log::open_in(device.directory(), options(inserter, sync)).expect("open");
                check(&device, &log);
                assert_eq!(log.counters().syncer_wakeups + log.counters().maintenance_wakeups, 0);
                log.close().expect("close");
            }
        }
    }

    #[test]
    fn a_request_waits_for_the_caller_and_touches_no_device_before() {
        on_every_design(|device, log| {
            let mut session = log.session().expect("session");
            let end = session.append(&Append::new(Kind::USER, &[b"record"])).expect("append").end;
            let before = device.steps();
            log.first().request(end, Durability::Durable);
            assert_eq!((device.steps(), log.first().written() < end), (before, true));
            log.run_background();
            assert!(log.first().durable() >= end && device.steps() > before);
            let after = device.steps();
            log.run_background();
            assert_eq!(device.steps(), after, "nothing was left to do");
        });
    }

    #[test]
    fn much_that_no_thread_waits_for_is_written_behind_the_appends() {
        on_every_design(|_, log| {
            let mut session = log.session().expect("session");
            let payload = [7; 900];
            let start = log.first().written();
            // A quarter of the ring is 4 KiB. Less is not written.
            let mut fill = |bytes: u64| {
                while log.first().reserved().since(start) < bytes {
                    session.append(&Append::new(Kind::USER, &[&payload])).expect("append");
                }
                log.run_background();
                log.first().written()
            };
            assert_eq!(fill(2 << 10), start, "little waits in the ring");
            let written = fill(8 << 10);
            assert!(written.since(start) >= 4 << 10, "written up to {written} only");
            // A request is made at the latest when a quarter and an eighth are not written.
            assert!(log.first().reserved().since(written) <= 6 << 10);
        });
    }

    /// No other thread makes a record durable here. If draining waited only for the last record,
    /// which is `Buffered`, the first record would stay in the queue for ever.
    #[test]
    fn draining_waits_for_a_durable_one_before_a_buffered_one() {
        on_every_design(|_, log| {
            let mut session = log.session().expect("session");
            let mut queue = log.completions();
            for level in [Durability::Durable, Durability::Written, Durability::Buffered] {
                let end = session.append(&Append::new(Kind::USER, &[b"record"])).expect("append").end;
                queue.push(log.first().at(end), &crate::Dependencies::default(), level, level);
            }
            let mut reported = Vec::new();
            queue.drain_with(|level, outcome| reported.push((level, outcome.is_ok())));
            let all = [Durability::Durable, Durability::Written, Durability::Buffered];
            assert_eq!(reported, all.map(|level| (level, true)));
        });
    }

    /// A poll must report a position inside the log, even if the program pushed a position beyond
    /// the end earlier.
    #[test]
    fn a_position_beyond_the_end_does_not_hide_later_ones() {
        on_every_design(|_, log| {
            let mut session = log.session().expect("session");
            let mut queue = log.completions();
            let none = crate::Dependencies::default();
            for level in [Durability::Written, Durability::Durable] {
                let beyond = log.first().reserved().plus(1 << 40);
                queue.push(log.first().at(beyond), &none, level, "beyond");
                let end = session.append(&Append::new(Kind::USER, &[b"record"])).expect("append").end;
                queue.push(log.first().at(end), &none, level, "good");
                let mut reported = Vec::new();
                for _ in 0..4 {
                    log.run_background();
                    queue.poll_with(|which, outcome| reported.push((which, outcome.is_ok())));
                }
                assert_eq!(reported, [("beyond", false), ("good", true)], "{level:?}");
            }
        });
    }

    #[test]
    fn an_append_that_needs_a_segment_prepares_it() {
        on_every_design(|_, log| {
            let mut session = log.session().expect("session");
            let payload = [7; 1500];
            for _ in 0..200 {
                let end = session.append(&Append::new(Kind::USER, &[&payload])).expect("append").end;
                log.first().request(end, Durability::Durable);
            }
            let end = log.first().sync().expect("sync");
            log.first().trim(end).expect("trim");
            session.append(&Append::new(Kind::USER, &[&payload])).expect("append");
        });
    }
}
