//! Rounds of a measurement with one rate, and their table. Each round runs every case of every
//! candidate once. Every second round runs in reverse order, so that slow drift of the machine
//! affects all alike.

use crate::Result;
use crate::flags;
use crate::logs::raw_write_us;
use crate::statistics::{extremes, median, quantile_us, ratios};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// One run of one candidate in one case.
pub struct Run {
    /// Acknowledged units of work per second.
    pub per_second: f64,
    /// Nanoseconds of each call.
    pub times: Vec<u64>,
}

impl Run {
    /// Runs each of `workers` on a thread of its own, call after call. All workers begin at the
    /// same moment, and end when `wait` returns. A worker gets the number of its calls so far, and
    /// returns the time of the call.
    pub fn of_workers<W>(workers: Vec<W>, wait: impl FnOnce()) -> Result<Run>
    where
        W: FnMut(usize) -> Result<Duration> + Send,
    {
        let (begin, stop) = (Barrier::new(workers.len() + 1), AtomicBool::new(false));
        let repeat = |mut worker: W| -> Result<Vec<u64>> {
            let mut times = Vec::new();
            begin.wait();
            while !stop.load(Ordering::Relaxed) {
                times.push(worker(times.len())?.as_nanos() as u64);
            }
            Ok(times)
        };
        let (done, elapsed) = std::thread::scope(|scope| {
            let repeat = &repeat;
            let threads: Vec<_> =
                workers.into_iter().map(|worker| scope.spawn(move || repeat(worker))).collect();
            begin.wait();
            let since = Instant::now();
            wait();
            stop.store(true, Ordering::Relaxed);
            let done: Vec<_> =
                threads.into_iter().map(|thread| thread.join().expect("no worker panics")).collect();
            (done, since.elapsed())
        });
        let mut times = Vec::new();
        for mine in done {
            times.extend(mine?);
        }
        Ok(Run { per_second: times.len() as f64 / elapsed.as_secs_f64(), times })
    }
}

/// A candidate in one case, with its rounds.
pub struct Row<C> {
    name: &'static str,
    case: C,
    rounds: Vec<Run>,
}

impl<C> Row<C> {
    fn rates(&self) -> Vec<f64> {
        self.rounds.iter().map(|run| run.per_second).collect()
    }
}

/// Set-up of the rounds.
pub struct Turns {
    /// Folder to work in.
    pub dir: PathBuf,
    /// The candidates to run. The first candidate of the command's own list is compared with each
    /// of the others.
    pub names: Vec<&'static str>,
    pub rounds: usize,
    /// Time of each run.
    pub time: Duration,
}

/// Order of `many` turns in a round: every second round is reversed.
pub fn order(many: usize, round: usize) -> Vec<usize> {
    match round % 2 {
        0 => (0..many).collect(),
        _ => (0..many).rev().collect(),
    }
}

impl Turns {
    /// Reads the flags of a command, over these defaults; `None` if the arguments ask for help.
    /// `own` gets each flag that is not common to all commands, and returns whether the command has
    /// this flag.
    pub fn read(
        mut self,
        arguments: Vec<String>,
        mut own: impl FnMut(&mut Turns, &str, &Option<String>) -> Result<bool>,
    ) -> Result<Option<Turns>> {
        let Some(pairs) = flags::pairs(arguments)? else { return Ok(None) };
        for (flag, value) in &pairs {
            match flag.as_str() {
                "--dir" => self.dir = flags::value(flag, value)?,
                "--seconds" => self.time = Duration::try_from_secs_f64(flags::value(flag, value)?)?,
                "--rounds" => self.rounds = flags::many(&flags::value::<String>(flag, value)?)?,
                _ if own(&mut self, flag, value)? => {}
                _ => return Err(format!("unknown: {flag}; see --help").into()),
            }
        }
        Ok(Some(self))
    }

    /// Runs every candidate in every case. `one` gets a folder that does not exist, and may create
    /// it.
    pub fn measure<C: Copy + Display>(
        &self,
        cases: &[C],
        mut one: impl FnMut(&'static str, &Path, C) -> Result<Run>,
    ) -> Result<Vec<Row<C>>> {
        let mut rows: Vec<Row<C>> = Vec::new();
        for &case in cases {
            rows.extend(self.names.iter().map(|&name| Row { name, case, rounds: Vec::new() }));
        }
        let mut raw = Vec::new();
        for round in 0..self.rounds {
            raw.push(raw_write_us(&self.dir, self.time / 2)?);
            for at in order(rows.len(), round) {
                let row = &mut rows[at];
                eprintln!("round {} of {}: {}, {}", round + 1, self.rounds, row.name, row.case);
                let place = self.dir.join("run");
                let run = one(row.name, &place, row.case);
                if place.exists() {
                    std::fs::remove_dir_all(&place)?;
                }
                row.rounds.push(run.map_err(|error| format!("{}, {}: {error}", row.name, row.case))?);
            }
        }
        println!("raw durable 4 KiB write: {:.1} us (median round)", median(raw));
        println!("{} s, {} rounds", self.time.as_secs_f64(), self.rounds);
        Ok(rows)
    }
}

/// Prints the rows. `first` is compared with each other candidate; `unit` is the counted work.
pub fn print<C: Copy + Display + PartialEq>(rows: &[Row<C>], first: &str, unit: &str) {
    println!(
        "{:<22}{:<32}{:>12}{:>12}{:>12}  {:<26}{:>10}{:>10}",
        "",
        "case",
        format!("{unit}/s"),
        "slowest",
        "fastest",
        "ours is",
        "p50 us",
        "p99 us"
    );
    for row in rows {
        let ours = rows.iter().find(|other| other.name == first && other.case == row.case);
        let rates = row.rates();
        let (slowest, fastest) = extremes(&rates);
        let ratio = ours.map_or(String::new(), |ours| {
            let ratios = ratios(&ours.rates(), &rates);
            let (least, greatest) = extremes(&ratios);
            format!("{:.2} x ({least:.2} to {greatest:.2})", median(ratios))
        });
        let mut times: Vec<u64> = row.rounds.iter().flat_map(|run| run.times.iter().copied()).collect();
        times.sort_unstable();
        println!(
            "{:<22}{:<32}{:>12.0}{:>12.0}{:>12.0}  {:<26}{:>10.1}{:>10.1}",
            row.name,
            row.case.to_string(),
            median(rates),
            slowest,
            fastest,
            ratio,
            quantile_us(&times, 0.5),
            quantile_us(&times, 0.99)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::atomic::AtomicUsize;

    fn turns() -> Turns {
        Turns { dir: "d".into(), names: vec!["a"], rounds: 5, time: Duration::from_secs(1) }
    }

    #[test]
    fn flags_replace_the_defaults_and_unknown_ones_are_refused() {
        let read = |words: &str| {
            turns().read(words.split_whitespace().map(str::to_owned).collect(), |turns, flag, _| {
                turns.names.push("b");
                Ok(flag == "--own")
            })
        };
        let read_well = read("--seconds 0.5 --own x --rounds 7 --dir e").unwrap().unwrap();
        assert_eq!((read_well.rounds, read_well.time), (7, Duration::from_millis(500)));
        assert_eq!((read_well.dir, read_well.names), (PathBuf::from("e"), vec!["a", "b"]));
        let refused = |words: &str| read(words).err().expect("an error").to_string();
        assert_eq!(refused("--other x"), "unknown: --other; see --help");
        assert_eq!(refused("--rounds 0"), "there must be at least one");
        assert!(read("--own --help").unwrap().is_none());
    }

    #[test]
    fn every_call_of_the_workers_is_counted_and_an_error_ends_the_run() {
        let calls = AtomicUsize::new(0);
        let count = |nth: usize| -> Result<Duration> {
            calls.fetch_add(1, Ordering::Relaxed);
            Ok(Duration::from_nanos(nth as u64))
        };
        let wait = || {
            while calls.load(Ordering::Relaxed) < 10 {
                std::thread::yield_now();
            }
        };
        let run = Run::of_workers(vec![count; 2], wait).unwrap();
        assert_eq!(run.times.len(), calls.into_inner());
        assert!(run.times.contains(&0) && run.times.len() >= 10, "{:?}", run.times);
        let failing = |_| -> Result<Duration> { Err("no".into()) };
        assert_eq!(Run::of_workers(vec![failing], || ()).err().unwrap().to_string(), "no");
    }

    #[test]
    fn every_case_runs_once_in_each_round_and_the_order_alternates() {
        let folder = tempfile::tempdir().unwrap();
        let turns = Turns {
            dir: folder.path().to_owned(),
            names: vec!["a", "b"],
            rounds: 2,
            time: Duration::from_millis(1),
        };
        let order = RefCell::new(Vec::new());
        let one = |name, place: &Path, case| {
            assert!(!place.exists());
            std::fs::create_dir(place)?;
            order.borrow_mut().push(format!("{name}{case}"));
            Ok(Run { per_second: 1.0, times: vec![1] })
        };
        let rows = turns.measure(&[1, 2], one).unwrap();
        assert_eq!(rows.iter().map(|row| row.rounds.len()).collect::<Vec<_>>(), [2; 4]);
        assert_eq!(order.into_inner().join(" "), "a1 b1 a2 b2 b2 a2 b1 a1");
        let failing = turns.measure(&[1], |_, _, _: i32| Err("no".into()));
        assert_eq!(failing.err().map(|error| error.to_string()).as_deref(), Some("a, 1: no"));
    }
}
