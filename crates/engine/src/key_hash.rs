//! The hash by which keys are distributed over shards. Any thread may call it.

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product as u64) ^ ((product >> 64) as u64)
}

/// Returns the hash of a key, by folded multiplications. With a seed that no program knows, no
/// program can choose keys that all fall into one shard.
pub(crate) fn hash(seed: u64, key: &[u8]) -> u64 {
    let (chunks, rest) = key.as_chunks::<8>();
    let mut hash = seed ^ (key.len() as u64).wrapping_mul(FACTOR);
    for chunk in chunks {
        hash = fold(hash ^ u64::from_le_bytes(*chunk), FACTOR);
    }
    let rest = rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    fold(hash ^ rest, FACTOR ^ seed)
}
