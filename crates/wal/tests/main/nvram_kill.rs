//! Logs in NVRAM whose process is killed while it appends: every record that was acknowledged to
//! the process exists when the log is opened again.
//!
//! The child is this program, run again for one of its tests, with the folder and the kind in its
//! environment. The child prints which records were acknowledged and which it is about to trim, and
//! is killed after some number of lines. Here the kernel keeps bytes that were only in caches;
//! `nvram_crashes` simulates crashes of the memory.

use katydid_device::testing::seed;
use katydid_wal::{
    Append, AppendError, Durability, Kind, Log, LogKind, MediumSettings, NvramOptions, Options,
};
use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

const FOLDER: &str = "KATYDID_KILL_FOLDER";
const KIND: &str = "KATYDID_KILL_KIND";
const KINDS: [LogKind; 4] = [LogKind::NvDirect, LogKind::NvRing, LogKind::NvEntries, LogKind::NvLogging];

fn options(log: LogKind) -> Options {
    let memory = NvramOptions { bytes: 64 << 10, ..NvramOptions::default() };
    let medium = MediumSettings { memory, ..MediumSettings::default() }.medium(log);
    Options { medium, reserve_bytes: 1 << 10, sessions_max: 4, ..Options::default() }
}

fn payload(number: u64) -> Vec<u8> {
    let mut payload = number.to_le_bytes().to_vec();
    payload.resize(8 + number as usize * 37 % 700, number as u8);
    payload
}

fn numbers(log: &Log) -> Vec<u64> {
    let records =
        log.first().reader(log.first().start()).expect("reader").map(|record| record.expect("record"));
    let numbers = records.map(|record| {
        let number = u64::from_le_bytes(record.payload[..8].try_into().expect("eight bytes"));
        assert!(record.payload == payload(number), "{number} is damaged");
        number
    });
    numbers.collect()
}

/// Does the work of the child. In an ordinary run it does nothing.
#[test]
fn child() {
    let (Ok(folder), Ok(kind)) = (std::env::var(FOLDER), std::env::var(KIND)) else { return };
    let log = Log::open(folder, options(kind.parse().expect("a kind"))).expect("opened");
    let mut number = numbers(&log).last().map_or(0, |last| last + 1);
    let mut sessions = [log.session().expect("session"), log.session().expect("session")];
    let mut live: VecDeque<_> = VecDeque::new();
    let mut out = std::io::stdout().lock();
    loop {
        let bytes = payload(number);
        match sessions[number as usize % 2].append(&Append::new(Kind::USER, &[&bytes])) {
            Ok(appended) => {
                live.push_back((number, appended.first));
                // Every third record has no wait of its own, because the next wait also covers it.
                if !number.is_multiple_of(3) {
                    log.first().wait(appended.end, Durability::Durable).expect("wait");
                    writeln!(out, "\nacknowledged {number}").expect("a parent");
                }
                number += 1;
            }
            Err(AppendError::NoSpace) => {
                let last = live.drain(..live.len() / 2).next_back();
                let (below, to) = last.unwrap_or((number, log.first().durable()));
                writeln!(out, "\ntrim {below}").expect("a parent");
                log.first().trim(to).expect("trim");
            }
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_was_acknowledged_to_a_killed_process_is_there() {
    let seed = seed();
    println!("seed {seed}");
    let mut rng = fastrand::Rng::with_seed(seed);
    for kind in KINDS {
        let folder = tempfile::tempdir().expect("folder");
        let (mut acknowledged, mut trimmed) = (None, 0);
        for life in 0..5 {
            let mut child = Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "nvram_kill::child", "--nocapture"])
                .env(FOLDER, folder.path())
                .env(KIND, kind.to_string())
                .stdout(Stdio::piped())
                .spawn()
                .expect("spawned");
            let mut output = BufReader::new(child.stdout.take().expect("piped"));
            let mut read = |line: &str| match line.split_once(' ') {
                Some(("acknowledged", number)) => {
                    acknowledged = Some(number.parse::<u64>().expect("a number"))
                }
                Some(("trim", number)) => trimmed = number.parse().expect("a number"),
                _ => {}
            };
            for line in output.by_ref().lines().take(rng.usize(1..3000)) {
                read(&line.expect("a line"));
            }
            child.kill().expect("killed");
            // Lines that the child printed before it died count, except a line that was cut.
            let mut rest = String::new();
            output.read_to_string(&mut rest).expect("text");
            rest.truncate(rest.rfind('\n').unwrap_or(0));
            rest.lines().for_each(read);
            child.wait().expect("ended");
            let context = format!(
                "seed {seed}, {kind}, life {life}: acknowledged {acknowledged:?}, trimmed below {trimmed}"
            );
            let log = Log::open(folder.path(), options(kind)).expect(&context);
            let found = numbers(&log);
            assert!(found.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{context}: {found:?}");
            if let Some(acknowledged) = acknowledged {
                assert!(found.last().is_some_and(|last| *last >= acknowledged), "{context}: {found:?}");
                assert!(found[0] <= trimmed, "{context}: from {} on", found[0]);
            }
        }
    }
}
