//! `lab manycore calibrate` measures this machine, and the real inserters on it, and writes both as
//! a machine description.

use super::real;
use crate::host::machine::Machine as Host;
use clap::Args;
use katydid_command::failure::{Failure, Result};
use katydid_command::output::say;
use katydid_wal::testing::rate::{SoloCost, alone};
use std::hint::{black_box, spin_loop};
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Measure this machine, and write a description of it for `manycore run`
///
/// The command takes about half a minute, and needs at least two cores. Other work on the machine
/// distorts the results.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  katydid lab manycore calibrate --out here.toml && katydid lab manycore run --machine here.toml --threads 1,2,4,8")]
pub struct Calibrate {
    /// File to write
    #[arg(long, value_name = "FILE", default_value = "machine.toml")]
    out: PathBuf,
}

/// Measured times, in nanoseconds.
#[derive(Debug)]
struct Measured {
    modify: f64,
    added_alone: f64,
    added_by_two: f64,
    ping_pong: f64,
    pause: f64,
    yield_now: f64,
    unpark: f64,
    wake_round: f64,
    small: SoloCost,
    large: SoloCost,
    large_by_two: SoloCost,
}

const SMALL: usize = 120;
const LARGE: usize = 12 << 10;
/// Number of multiplications that a thread makes between two additions.
const WORK: u32 = 40;
/// Bytes of each thread's ring in the measurements of single inserts.
const RING: usize = 1 << 20;

impl Calibrate {
    pub fn run(self) -> Result<()> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        if cores < 2 {
            return Err(Failure::failed("two cores are needed: lines are passed from one to the other"));
        }
        let measured = measure();
        let real = real::measure(SMALL, &[1, 2]);
        let text = describe(&measured, cores, &Host::read(Path::new(".")).line(), &real);
        // Check that the text can be parsed before it is written.
        katydid_manycore::Machine::parse(&text).map_err(Failure::failed)?;
        katydid_command::whole_file::write(&self.out, text.as_bytes())?;
        say(format!("{text}\nwritten to {}", self.out.display()))
    }
}

fn measure() -> Measured {
    const TIMES: u64 = 2_000_000;
    let word = AtomicU64::new(0);
    let modify = median(|| {
        time(TIMES, || {
            black_box(&word).fetch_add(1, Ordering::SeqCst);
        })
    });
    Measured {
        modify,
        added_alone: median(|| additions(1, TIMES)),
        added_by_two: median(|| additions(2, TIMES)),
        ping_pong: median(|| ping_pong(200_000)),
        pause: median(|| time(TIMES, spin_loop)),
        yield_now: median(|| time(200_000, thread::yield_now)),
        unpark: median(|| wake_up(3_000).0),
        wake_round: median(|| wake_up(3_000).1),
        small: alone(RING, 1, SMALL, TIMES),
        large: alone(RING, 1, LARGE, TIMES / 50),
        large_by_two: alone(RING, 2, LARGE, TIMES / 50),
    }
}

/// Median of five measurements.
fn median(mut measure: impl FnMut() -> f64) -> f64 {
    let mut all = [0.0; 5];
    all.fill_with(&mut measure);
    all.sort_by(f64::total_cmp);
    all[2]
}

fn time(times: u64, mut act: impl FnMut()) -> f64 {
    let since = Instant::now();
    (0..times).for_each(|_| act());
    since.elapsed().as_nanos() as f64 / times as f64
}

/// Nanoseconds that a thread takes for one addition to a shared word and the other work after it,
/// while `threads` threads (one or two) do this. The work is needed because a core that adds
/// without pause keeps the cache line for several additions. An inserter's additions are not that
/// close together.
fn additions(threads: usize, times: u64) -> f64 {
    let (word, begin) = (AtomicU64::new(0), Barrier::new(threads));
    let one = || {
        begin.wait();
        time(times, || {
            let mut number = word.fetch_add(1, Ordering::SeqCst);
            for _ in 0..WORK {
                number = black_box(number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            }
        })
    };
    thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(one)).collect();
        let mine = one();
        let sum = mine + others.into_iter().map(|other| other.join().unwrap_or(mine)).sum::<f64>();
        sum / threads as f64
    })
}

/// Time of a round in which two threads pass a word to each other.
fn ping_pong(rounds: u64) -> f64 {
    let word = AtomicU64::new(0);
    let until = |value: u64| {
        while word.load(Ordering::Acquire) != value {
            spin_loop();
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                until(2 * round + 1);
                word.store(2 * round + 2, Ordering::Release);
            }
        });
        let since = Instant::now();
        for round in 0..rounds {
            word.store(2 * round + 1, Ordering::Release);
            until(2 * round + 2);
        }
        since.elapsed().as_nanos() as f64 / rounds as f64
    })
}

/// Lets two threads wake each other in turn. Returns the time that waking costs the waker, and the
/// time of a round.
fn wake_up(rounds: u64) -> (f64, f64) {
    let (turn, begin) = (AtomicBool::new(false), Barrier::new(2));
    let main = thread::current();
    let sleep_until = |mine: bool| {
        while turn.load(Ordering::Acquire) != mine {
            thread::park();
        }
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            begin.wait();
            for _ in 0..rounds {
                sleep_until(true);
                turn.store(false, Ordering::Release);
                main.unpark();
            }
        });
        begin.wait();
        let since = Instant::now();
        let mut waking = 0;
        for _ in 0..rounds {
            turn.store(true, Ordering::Release);
            let before = Instant::now();
            other.thread().unpark();
            waking += before.elapsed().as_nanos();
            sleep_until(false);
        }
        (waking as f64 / rounds as f64, since.elapsed().as_nanos() as f64 / rounds as f64)
    })
}

fn describe(measured: &Measured, cores: usize, host: &str, real: &[katydid_manycore::Real]) -> String {
    let Measured {
        modify, added_alone, added_by_two, ping_pong, pause, yield_now, unpark, wake_round, ..
    } = measured;
    let (small, large) = (measured.small, measured.large);
    let bytes = (LARGE - SMALL) as f64;
    let own = (added_by_two - added_alone).max(1.0);
    let store = 0.5;
    let woken = (wake_round / 2.0 - unpark).max(100.0);
    // `prepare` and `copy` are the parts of a checksum and of one copy that do not depend on the
    // number of bytes. A record is copied in two parts, hence the division by 2.
    let sum_byte = ((large.prepare_ns - small.prepare_ns) / bytes).max(0.001);
    let copy_byte = ((large.copy_ns - small.copy_ns) / bytes).max(0.001);
    let prepare = (small.prepare_ns - sum_byte * SMALL as f64).max(0.0);
    let copy = ((small.copy_ns - copy_byte * SMALL as f64) / 2.0).max(0.0);
    let (sum_rate, copy_rate) = (1.0 / sum_byte, 1.0 / copy_byte);
    let shared = (2.0 * LARGE as f64 / measured.large_by_two.copy_ns).max(LARGE as f64 / large.copy_ns);
    let mut text = format!(
        "\
# Written by `katydid lab manycore calibrate` on: {host}
# Figures are medians of five unless they say otherwise. [assumed] marks what is not measured.
summary = \"calibrated: {cores} cores\"
# All cores are taken for one socket.
sockets = 1
cores = {cores}
placement = \"compact\"
# std's mutex on Linux looks 100 times.
mutex_spins = 100

[nanos]
# [assumed]
load = 1.0
store = {store:?}
# fetch_add by one thread.
modify = {modify:.2}
# Taken to be as much as to write it. Half a round of ping-pong, with a pause between two looks, takes {:.1} ns.
share = {own:.2}
share_far = {own:.2}
# An addition and some work by each of two threads ({added_by_two:.1} ns), less the same by one ({added_alone:.1} ns).
own = {own:.2}
own_far = {own:.2}
# [assumed]
serve = 8.0
# One spin hint.
pause = {pause:.2}
# A yield with nobody else on the core.
yield = {yield_now:.1}
# [assumed]
sleep = 1000.0
# std's unpark of a sleeping thread on another core; half a round of two threads that wake each other ({wake_round:.0} ns), less that.
wake = {unpark:.0}
woken = {woken:.0}
# The log's own 50 us, and as much default timer slack.
nap = 100000.0
# [assumed]
switch = 560.0
quantum = 3000000.0
# Header and checksum of a 120-byte record ({:.1} ns) less the checksum's bytes; the checksum's own start is in it.
insert = {prepare:.2}
sum = 0.0
# The two copies of a 120-byte record ({:.1} ns) less the bytes, halved.
copy = {copy:.2}

[bandwidth]
# GB/s: 12 KiB against 120 bytes, into a ring of 1 MiB; two threads into a ring each.
sum = {sum_rate:.2}
copy = {copy_rate:.2}
shared = {shared:.2}

# Inserts a second of real threads, the same code, the default ring.
",
        ping_pong / 2.0,
        small.prepare_ns,
        small.copy_ns
    );
    for real in real {
        text += &format!(
            "[[real]]\ninserter = \"{}\"\nthreads = {}\nrecord = {}\nper_second = {:.1}\n\n",
            real.inserter, real.threads, real.record, real.per_second
        );
    }
    text
}
