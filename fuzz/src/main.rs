//! Feeds mutated bytes to every decoder that reads what a device holds. A decoder may refuse; it must not panic, hang
//! or allocate without bound. A failure prints the seed and the input, and the command that runs it again.
//!
//! Coverage is not guided: the decoders are small, and the samples that are mutated are valid, so that most mutants get
//! past the first check. Sums are often mended after a mutation by the targets themselves, for the same reason.

use clap::Parser;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Feeds mutated bytes to every decoder.
#[derive(Parser)]
struct Arguments {
    /// For how long, in seconds, per decoder.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Start from this seed instead of a random one.
    #[arg(long)]
    seed: Option<u64>,
    /// Only the decoder of this name.
    #[arg(long)]
    target: Option<String>,
}

/// One decoder: its name, valid inputs, and the call.
type Target = (&'static str, Vec<Vec<u8>>, fn(&[u8]));

fn targets() -> Vec<Target> {
    let mut all = katydid_wal::testing::fuzz_targets();
    all.extend(katydid::testing::fuzz_targets());
    all
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..));
    let mut sound = true;
    for target in targets() {
        if arguments.target.as_deref().is_some_and(|only| only != target.0) {
            continue;
        }
        let end = Instant::now() + Duration::from_secs(arguments.seconds);
        sound &= feed(&target, seed, |_| Instant::now() >= end);
    }
    if sound { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Feeds one decoder until there were inputs enough; whether it took all of them.
fn feed((name, samples, call): &Target, seed: u64, is_enough: impl Fn(u64) -> bool) -> bool {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut inputs = 0;
    while !is_enough(inputs) {
        let input = mutate(samples, &mut random);
        if catch_unwind(AssertUnwindSafe(|| call(&input))).is_err() {
            eprintln!("{name} panicked at input {inputs} of seed {seed}: {input:02x?}");
            eprintln!(
                "again: cargo run --release -p katydid-fuzz -- --seed {seed} --target '{name}' --seconds 600"
            );
            return false;
        }
        inputs += 1;
    }
    println!("{name}: {inputs} inputs, seed {seed}");
    true
}

/// A valid sample with a few changes, or noise.
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
    /// As many as every change is worth; `cargo xtask fuzz` feeds more.
    #[test]
    fn no_decoder_panics() {
        let seed = fastrand::u64(..);
        for target in super::targets() {
            assert!(super::feed(&target, seed, |inputs| inputs == 10_000), "see above");
        }
    }
}
