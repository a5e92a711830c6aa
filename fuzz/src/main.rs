//! Feeds mutated bytes to the decoders of bytes from a device and of messages from other processes.
//! A decoder may refuse its input; it must not panic, hang or allocate without bound. A failure
//! prints the seed, the input and the command that repeats it.
//!
//! 1. The program catches panics of decoders.
//! 2. The program counts all allocations. A decoder may allocate [`MEMORY_MAX`] plus
//!    [`MEMORY_TIMES`] times the input's length, far less than the lengths that mutation puts into
//!    headers.
//! 3. A thread checks every second whether a new input was fed. If one input takes longer than
//!    [`HANG`], the program ends. Tests do not start this thread; `cargo xtask ci` ends a test that
//!    hangs.
//!
//! Coverage does not guide the mutation, because the decoders are small. The samples are valid
//! before their mutation, so most mutants pass the first check. For the same purpose many targets
//! correct checksums after a mutation.

use clap::Parser;
use katydid_device::testing::memory;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Bytes that a decoder may allocate for one input of length 0: its working buffers, and files in
/// memory if it reads files.
const MEMORY_MAX: usize = 4 << 20;
/// Bytes that a decoder may allocate in addition for each byte of the input.
const MEMORY_TIMES: usize = 64;

/// Maximum time of one input.
const HANG: Duration = Duration::from_secs(30);

/// Number of inputs fed so far to all decoders. Relaxed, because only changes of the number matter.
static FED: AtomicU64 = AtomicU64::new(0);

/// Feeds mutated bytes to every decoder.
#[derive(Parser)]
struct Arguments {
    /// Seconds for each decoder.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Start from this seed instead of a random one.
    #[arg(long)]
    seed: Option<u64>,
    /// Feed only the decoder of this name.
    #[arg(long)]
    target: Option<String>,
}

/// One decoder: its name, valid inputs, and the call.
type Target = (&'static str, Vec<Vec<u8>>, fn(&[u8]));

fn targets() -> Vec<Target> {
    let mut all = katydid_wal::testing::fuzz_targets();
    all.extend(katydid::testing::fuzz_targets());
    all.extend(katydid_replica::client_driven::fuzz_targets());
    all.extend(katydid_replica::fuzz_targets());
    all
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    std::thread::spawn(move || end_a_hang(seed));
    let (mut sound, mut fed) = (true, 0);
    for target in targets() {
        if arguments.target.as_deref().is_some_and(|only| only != target.0) {
            continue;
        }
        let end = Instant::now() + Duration::from_secs(arguments.seconds);
        let outcome = feed(&target, seed, |_| Instant::now() >= end);
        sound &= outcome.is_some();
        fed += outcome.unwrap_or_default();
    }
    println!("evidence: {fed} inputs");
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Ends the program if an input takes too long. The decoder that hangs is the first one that was
/// not yet printed as done.
fn end_a_hang(seed: u64) {
    let (mut last, mut since) = (0, Instant::now());
    loop {
        std::thread::sleep(Duration::from_secs(1));
        let now = FED.load(Ordering::Relaxed);
        if now != last {
            (last, since) = (now, Instant::now());
        } else if since.elapsed() > HANG {
            eprintln!(
                "the decoder after the last one printed hangs at its input, number {now} of all, of seed {seed}"
            );
            std::process::exit(1);
        }
    }
}

/// Feeds one decoder until `is_enough` returns true. Returns the number of inputs, or `None` if the
/// decoder failed.
fn feed((name, samples, call): &Target, seed: u64, is_enough: impl Fn(u64) -> bool) -> Option<u64> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut inputs = 0;
    while !is_enough(inputs) {
        let input = mutate(samples, &mut random);
        let before = memory::begin();
        let panicked = catch_unwind(AssertUnwindSafe(|| call(&input))).is_err();
        let allocated = memory::most_since(before);
        FED.fetch_add(1, Ordering::Relaxed);
        if panicked || allocated > MEMORY_MAX + MEMORY_TIMES * input.len() {
            let what = if panicked { "panicked".to_owned() } else { format!("allocated {allocated} bytes") };
            eprintln!("{name} {what} at input {inputs} of seed {seed}: {input:02x?}");
            eprintln!(
                "again: cargo run --profile campaign -p katydid-fuzz -- --seed {seed} --target '{name}' --seconds 600"
            );
            return None;
        }
        inputs += 1;
    }
    println!("{name}: {inputs} inputs, seed {seed}");
    Some(inputs)
}

/// Returns a valid sample with a few changes, or random bytes.
fn mutate(samples: &[Vec<u8>], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut input = match samples.len() {
        0 => Vec::new(),
        n => samples[random.usize(..n)].clone(),
    };
    if input.is_empty() || random.u8(..) == 0 {
        return (0..random.usize(..512)).map(|_| random.u8(..)).collect();
    }
    for _ in 0..=random.usize(..4) {
        let at = random.usize(..input.len());
        match random.u8(..7) {
            0 => input[at] ^= 1 << random.u8(..8),
            1 => input[at] = random.u8(..),
            2 => input[at] = [0, 0xff, 0x7f, 0x80][random.usize(..4)],
            3 => input.truncate(at.max(1)),
            4 => input.extend((0..random.usize(..32)).map(|_| 0_u8)),
            5 => {
                let number = [u64::MAX, 0, 1, 1 << 31, 1 << 63, 64 << 20][random.usize(..6)].to_le_bytes();
                let width = [1, 2, 4, 8][random.usize(..4)].min(input.len() - at);
                input[at..at + width].copy_from_slice(&number[..width]);
            }
            _ => {
                let (from, length) = (random.usize(..input.len()), random.usize(..16));
                let piece: Vec<u8> = input[from..].iter().take(length).copied().collect();
                let end = (at + piece.len()).min(input.len());
                input.splice(at..end, piece);
            }
        }
    }
    input
}

#[cfg(test)]
mod tests {
    /// Feeds 10,000 inputs to each decoder; `cargo xtask fuzz` feeds more.
    #[test]
    fn no_decoder_panics_or_allocates_without_bound() {
        let seed = fastrand::u64(..);
        for target in super::targets() {
            assert!(super::feed(&target, seed, |inputs| inputs == 10_000).is_some(), "see above");
        }
    }
}
