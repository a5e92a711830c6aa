//! The life of a log alone: numbered records, appended, waited for and trimmed.

use crate::{LifeFolders, common::Rng};
use katydid::{Lsn, Method, SyncKind};
use katydid_device::Directory;
use katydid_wal::{Append, Durability, FileOptions, Kind, Log, Options};
use std::io::Write as _;
use std::sync::Arc;

const PROCESSES: usize = 3;

/// A life, as the parent describes it to the child.
#[derive(Debug, Clone, Copy)]
pub struct LogLife {
    pub sync: SyncKind,
    pub method: Method,
    pub seed: u64,
    /// Number of records that one process appends.
    pub records: u64,
}

fn payload(number: u64) -> Vec<u8> {
    let length =
        (number.wrapping_mul(2_654_435_761) >> 8) % if number.is_multiple_of(7) { 9000 } else { 900 };
    [&number.to_le_bytes()[..], &vec![number as u8; length as usize]].concat()
}

/// Returns the number and position of each record.
fn numbers(log: &Log) -> Vec<(u64, Lsn)> {
    let numbered = |record: katydid_wal::Record| {
        let number = u64::from_le_bytes(record.payload[..8].try_into().expect("a number"));
        assert_eq!(record.payload, payload(number), "record {number} is another one");
        (number, record.first)
    };
    let records = log.first().reader(log.first().start()).expect("a reader");
    records.map(|record| numbered(record.expect("a record"))).collect()
}

impl LogLife {
    fn options(self) -> Options {
        Options {
            medium: FileOptions {
                segment_bytes: 32 << 10,
                ring_bytes: 16 << 10,
                spare_segments: 1,
                sync: self.sync.into(),
                ..FileOptions::default()
            }
            .into(),
            reserve_bytes: 16 << 10,
            run_ahead_bytes: 8 << 10,
            method: self.method,
            ..Options::default()
        }
    }

    pub fn next_process(process: usize) -> Option<usize> {
        (process + 1 < PROCESSES).then_some(process + 1)
    }

    /// Runs one process of the life.
    pub fn run(self, place: &LifeFolders, process: usize) -> ! {
        let directory: Arc<dyn Directory> = place.open().expect("the folder");
        let log = Log::open_in(directory, self.options()).expect("open the log");
        let mut random = Rng::with_seed(self.seed + process as u64);
        let mut session = log.session().expect("a session");
        let mut places = numbers(&log);
        let first = places.last().map_or(0, |(number, _)| number + 1);
        let last = first + self.records;
        for number in first..last {
            let appended = session.append(&Append::new(Kind::USER, &[&payload(number)])).expect("append");
            places.push((number, appended.first));
            if number + 1 == last || random.u32(0..3) > 0 {
                log.first().wait(appended.end, Durability::Durable).expect("wait");
                say(&format!("acknowledged 0 {}", number + 1));
                if random.u32(0..12) == 0 {
                    let (kept, place) = places[places.len() - 1 - random.usize(..places.len().min(20))];
                    say(&format!("trimmed 0 {kept}"));
                    log.first().trim(place).expect("trim");
                }
            }
        }
        if process.is_multiple_of(2) {
            drop(session);
            log.close().expect("close");
        }
        std::process::exit(0);
    }

    /// Checks that `directory` has all records from a number of at most `trimmed` to a number of at
    /// least `acknowledged`.
    pub fn check(self, directory: Arc<dyn Directory>, acknowledged: u64, trimmed: u64) {
        let log = Log::open_in(directory, self.options()).expect("open what the crash left");
        let found: Vec<u64> = numbers(&log).into_iter().map(|(number, _)| number).collect();
        let first = found.first().copied().unwrap_or(0);
        let end = found.last().map_or(0, |last| last + 1);
        assert!(
            end >= acknowledged,
            "{acknowledged} records were acknowledged, and those from {end} on are lost"
        );
        assert!(first <= trimmed, "the log was trimmed up to record {trimmed} and begins with {first}");
        assert!(found.iter().copied().eq(first..end) || found.is_empty(), "records are missing: {found:?}");
    }
}

fn say(line: &str) {
    std::io::stdout().write_all(format!("{line}\n").as_bytes()).expect("the parent reads");
}
