//! The hash that scatters record numbers. This hash equals YCSB's hash bit for bit, so keys and
//! popular records are those of YCSB.

/// FNV-1a of the eight bytes of `value`, lowest byte first. The result is the absolute value of the
/// hash as an `i64`.
pub fn fnv64(value: u64) -> u64 {
    let mut hash: u64 = 0xCBF2_9CE4_8422_2325;
    for byte in value.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
    }
    (hash as i64).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::fnv64;

    #[test]
    fn agrees_with_the_keys_ycsb_makes() {
        // The first keys of a YCSB load with hashed insert order.
        assert_eq!(fnv64(0), 6284781860667377211);
        assert_eq!(fnv64(1), 8517097267634966620);
        assert_eq!(fnv64(2), 1820151046732198393);
    }
}
