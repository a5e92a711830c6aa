//! Decoders refuse what they cannot read; they do not panic or allocate without bound, whatever the
//! bytes. `cargo xtask ci` ends a decoder that hangs, and names it.

use fastrand::Rng;
use katydid_device::testing::{memory, seed};
use katydid_wal::testing::fuzz_targets;

#[global_allocator]
static ALLOCATOR: memory::Counting = memory::Counting;

/// Bytes that a decoder may allocate for one input, in addition to 64 times the input's length.
/// Mutation puts lengths above this limit into headers.
const MEMORY_MAX: usize = 4 << 20;

fn fed((name, call): (&str, fn(&[u8])), input: &[u8]) {
    let before = memory::begin();
    call(input);
    let allocated = memory::most_since(before);
    assert!(
        allocated <= MEMORY_MAX + 64 * input.len(),
        "{name} allocated {allocated} bytes for {input:02x?}"
    );
}

/// Returns a valid sample with a few changes, or noise.
fn mutate(samples: &[Vec<u8>], random: &mut Rng) -> Vec<u8> {
    if random.u8(..) < 16 {
        return (0..random.usize(..600)).map(|_| random.u8(..)).collect();
    }
    let mut input = samples[random.usize(..samples.len())].clone();
    for _ in 0..random.usize(1..5) {
        let at = random.usize(..input.len());
        let numbers = [0, 1, 48, 0xffff_ffff, 64 << 10, 64 << 20, 1 << 62, u64::MAX];
        match random.u8(..6) {
            0 => input[at] ^= 1 << random.u8(..8),
            1 => input[at] = random.u8(..),
            2 => input.truncate(at.max(1)),
            3 => {
                let width = [4, 8][random.usize(..2)].min(input.len() - at);
                let number = numbers[random.usize(..numbers.len())].to_le_bytes();
                input[at..at + width].copy_from_slice(&number[..width]);
            }
            4 => {
                // Changes a field of a header, at its offset.
                let at = at / 8 * 8;
                let width = 8.min(input.len() - at);
                let number = numbers[random.usize(..numbers.len())].to_le_bytes();
                input[at..at + width].copy_from_slice(&number[..width]);
            }
            _ => {
                let from = random.usize(..input.len()) / 8 * 8;
                let bytes = random.usize(..200).min(input.len() - from.max(at));
                input.copy_within(from..from + bytes, at);
            }
        }
    }
    input
}

#[test]
fn decoders_take_any_bytes() {
    let seed = seed();
    for (name, samples, call) in fuzz_targets() {
        let mut random = Rng::with_seed(seed);
        let decoder = (name, call);
        samples.iter().for_each(|sample| fed(decoder, sample));
        let inputs = if name == "log record" { 50_000 } else { 3_000 };
        for _ in 0..inputs {
            fed(decoder, &mutate(&samples, &mut random));
        }
        for length in 0..samples[0].len().min(300) {
            fed(decoder, &samples[0][..length]);
        }
    }
}
