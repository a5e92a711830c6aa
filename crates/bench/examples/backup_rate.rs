//! Measures the speed of a backup, and the speed of transactions that run at the same time:
//! `backup_rate --dir D [--records N] [--seconds S] [--rate BYTES] [--threads N] [--engine E]`.
//!
//! The first run loads 2 million records of YCSB (2 GB) into `D/db`; later runs use them again.
//! Each round of the program then takes these measurements, one after the other: the device of D
//! with one sequential writer, and with one thread that reads and writes as a copy does; the backup
//! alone; workload A alone; and both together. Because every round takes all measurements, a change
//! of the machine's load between rounds affects all of them alike. With `--rate`, each round also
//! measures the workload together with a backup that is limited to that rate. The program removes
//! each copy after its measurement.

use katydid::{BackupOptions, Database, EngineKind, Options};
use katydid_device::{AlignedBuffer, Create, Directory, FileDirectory, Method, WriteMode};
use katydid_workload::KatydidStore;
use katydid_workload::drive::{Plan, drive};
use katydid_workload::properties::Properties;
use katydid_workload::ycsb::{Settings, WORKLOAD_A, YcsbLoad, YcsbRun};
use std::io::IoSlice;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

type Failed = Box<dyn std::error::Error + Send + Sync>;

const ROUNDS: usize = 3;
const PIECE: usize = 1 << 20;
/// Number of bytes with which the device's rates are measured.
const DEVICE_BYTES: u64 = 1 << 30;
const MIB: f64 = (1 << 20) as f64;

fn flag(name: &str) -> Option<String> {
    std::env::args().skip_while(|argument| argument != name).nth(1)
}

fn number(name: &str, default: u64) -> Result<u64, Failed> {
    flag(name).map_or(Ok(default), |text| Ok(text.parse()?))
}

/// Rates in MiB/s of one sequential writer of a new file, and of one thread that then copies the
/// file. Both files are synced at the end.
fn device(folder: &Path) -> Result<(f64, f64), Failed> {
    let directory = FileDirectory::open(folder)?;
    let buffer = &mut AlignedBuffer::new_zeroed(PIECE);
    buffer.fill(0x5a);
    let [first, second] = ["device.first", "device.second"];
    let begin = Instant::now();
    let file = directory.open(first, Create::New, Method::Direct)?;
    for at in (0..DEVICE_BYTES).step_by(PIECE) {
        file.write_at(&[IoSlice::new(buffer)], at, WriteMode::Written)?;
    }
    file.sync()?;
    let written = DEVICE_BYTES as f64 / MIB / begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let copy = directory.open(second, Create::New, Method::Direct)?;
    for at in (0..DEVICE_BYTES).step_by(PIECE) {
        file.read_at(buffer, at)?;
        copy.write_at(&[IoSlice::new(buffer)], at, WriteMode::Written)?;
    }
    copy.sync()?;
    let copied = DEVICE_BYTES as f64 / MIB / begin.elapsed().as_secs_f64();
    directory.remove(first)?;
    directory.remove(second)?;
    Ok((written, copied))
}

/// The store, its workload, and the folder for a copy.
struct Bench {
    store: KatydidStore,
    settings: Settings,
    records: u64,
    copy: PathBuf,
    threads: usize,
}

impl Bench {
    /// Transactions per second of workload A, until `stop` is set or the time is over.
    fn workload(&self, time: Option<Duration>, stop: &Arc<AtomicBool>) -> Result<f64, Failed> {
        let run = YcsbRun::new(&self.settings, self.records, 0);
        let plan = Plan { threads: self.threads, time, ..Plan::default() };
        let outcome = drive(&self.store, &[self.settings.table.as_str()], &run, &plan, stop, &mut |_| ())?;
        Ok(outcome.transactions_per_second())
    }

    /// Size of a backup in MiB, and its rate in MiB/s.
    fn backup(&self, rate: Option<NonZeroU64>) -> Result<(f64, f64), Failed> {
        let options = BackupOptions { bytes_per_second: rate, ..BackupOptions::default() };
        let report = self.store.database().backup_with(&self.copy, &options)?;
        std::fs::remove_dir_all(&self.copy)?;
        let mib = report.bytes as f64 / MIB;
        Ok((mib, mib / report.elapsed.as_secs_f64()))
    }

    /// Runs backup and workload together. Returns the backup's MiB/s, and the transactions per
    /// second during the backup.
    fn beside(&self, rate: Option<NonZeroU64>) -> Result<(f64, f64), Failed> {
        let stop = Arc::new(AtomicBool::new(false));
        std::thread::scope(|scope| {
            let workload = scope.spawn(|| self.workload(None, &stop));
            let backup = self.backup(rate);
            stop.store(true, Ordering::Relaxed);
            let transactions = workload.join().map_err(|_| "the workload panicked")??;
            Ok((backup?.1, transactions))
        })
    }
}

fn main() -> Result<(), Failed> {
    let folder = PathBuf::from(flag("--dir").ok_or("--dir is needed: the device to measure on")?);
    let records = number("--records", 2_000_000)?;
    let time = Duration::from_secs(number("--seconds", 10)?);
    let rate = NonZeroU64::new(number("--rate", 0)?);
    let threads = usize::try_from(number("--threads", 8)?)?;
    let engine: EngineKind = flag("--engine").map_or(Ok(EngineKind::Paged), |word| word.parse())?;
    let mut properties = Properties::parse(WORKLOAD_A)?;
    properties.set("recordcount", records.to_string());
    let settings = Settings::from_properties(&properties)?;
    let database =
        Database::open_with(folder.join("db"), Options { engine: engine.into(), ..Options::default() })?;
    let table = database.table(&settings.table)?;
    let loaded = database.begin_read_only()?.range(&table, ..).count() as u64;
    let bench = Bench {
        store: KatydidStore::new(database.clone()),
        settings,
        records,
        copy: folder.join("copy"),
        threads,
    };
    match loaded {
        0 => {
            let load = YcsbLoad::new(&bench.settings);
            let plan = Plan { threads: 2, in_flight: 256, ..Plan::default() };
            let never = Arc::new(AtomicBool::new(false));
            drive(&bench.store, &[bench.settings.table.as_str()], &load, &plan, &never, &mut |_| ())?;
        }
        _ if loaded == records => {}
        _ => return Err(format!("{} has {loaded} records, not {records}", folder.display()).into()),
    }
    database.checkpoint()?;
    println!("{engine} engine, {records} records, {threads} threads of YCSB A, on {}", folder.display());
    for round in 1..=ROUNDS {
        let (written, copied) = device(&folder)?;
        let (mib, alone) = bench.backup(None)?;
        let undisturbed = bench.workload(Some(time), &Arc::new(AtomicBool::new(false)))?;
        println!("round {round}: the device writes {written:.0} MiB/s and copies {copied:.0} MiB/s");
        println!("  backup alone: {mib:.0} MiB at {alone:.0} MiB/s, {:.2} x written", alone / written);
        println!("  workload alone: {undisturbed:.0} transactions/s");
        for rate in [None].into_iter().chain(rate.map(Some)) {
            let (backup, transactions) = bench.beside(rate)?;
            let paced = rate.map_or_else(|| "unpaced".to_owned(), |rate| format!("at most {rate} bytes/s"));
            println!(
                "  together, {paced}: backup {backup:.0} MiB/s, {:.2} x written, {:.2} x copied; workload {transactions:.0}/s, {:.2} x",
                backup / written,
                backup / copied,
                transactions / undisturbed
            );
        }
    }
    Ok(database.close()?)
}
