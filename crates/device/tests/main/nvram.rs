//! Regions of non-volatile memory: the rules that hold in a file, in memory and simulated.

use katydid_device::nvram::{NvRegion, SimNvram};
use katydid_device::testing::seed;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

pub const BYTES: u64 = 64 << 10;

pub fn write(region: &NvRegion, at: u64, bytes: &[u8]) {
    // SAFETY: in these tests each thread writes bytes of its own.
    unsafe { region.write(at, bytes) }
}

pub fn read(region: &NvRegion, at: u64, len: u64) -> Vec<u8> {
    // SAFETY: no thread writes what is read here.
    unsafe { region.slice(at, len) }.to_vec()
}

/// Rules for every region. If the region can be opened again, `reopen` closes it and returns the
/// region that the next opening finds.
pub fn conformance(region: NvRegion, reopen: impl FnOnce(NvRegion) -> Option<NvRegion>) {
    assert_eq!(region.len(), BYTES);
    assert!(read(&region, 0, BYTES).iter().all(|byte| *byte == 0), "new regions are zeros");

    let mut rng = fastrand::Rng::with_seed(seed());
    let mut model = vec![0_u8; BYTES as usize];
    for _ in 0..if cfg!(miri) { 20 } else { 500 } {
        let at = rng.u64(0..BYTES);
        let len = rng.u64(0..=(BYTES - at).min(300));
        let bytes: Vec<u8> = (0..len).map(|_| rng.u8(..)).collect();
        write(&region, at, &bytes);
        model[at as usize..(at + len) as usize].copy_from_slice(&bytes);
        region.write_back(at, len);
        if rng.bool() {
            region.fence();
        }
    }
    assert_eq!(read(&region, 0, BYTES), model);

    // Words and bytes are the same memory, also at its very end.
    region.word(BYTES - 8).store(0x0102_0304_0506_0708, Ordering::Release);
    assert_eq!(read(&region, BYTES - 8, 8), 0x0102_0304_0506_0708_u64.to_ne_bytes());
    model[BYTES as usize - 8..].copy_from_slice(&0x0102_0304_0506_0708_u64.to_ne_bytes());
    region.persist(BYTES - 8, 8);
    region.persist(0, BYTES);
    region.persist(BYTES, 0);
    region.fence();

    threads_persist_words_of_one_line(&region);
    for word in 0..8 {
        let at = word as usize * 8;
        model[at..at + 8].copy_from_slice(&region.word(word * 8).load(Ordering::Acquire).to_ne_bytes());
    }
    offsets_outside_are_refused(&region);
    if let Some(again) = reopen(region) {
        assert_eq!(again.len(), BYTES);
        assert_eq!(read(&again, 0, BYTES), model);
    }
}

fn threads_persist_words_of_one_line(region: &NvRegion) {
    let rounds = if cfg!(miri) { 5 } else { 500 };
    (0..8).for_each(|word| region.word(word * 8).store(0, Ordering::Relaxed));
    thread::scope(|scope| {
        for nth in 0..4 {
            scope.spawn(move || {
                for _ in 0..rounds {
                    region.word(nth * 8).fetch_add(1, Ordering::Relaxed);
                    region.word(7 * 8).fetch_add(1, Ordering::Relaxed);
                    region.persist(nth * 8, 8);
                }
            });
        }
    });
    assert_eq!(region.word(7 * 8).load(Ordering::Relaxed), 4 * rounds);
    (0..4).for_each(|nth| assert_eq!(region.word(nth * 8).load(Ordering::Relaxed), rounds));
}

fn offsets_outside_are_refused(region: &NvRegion) {
    let before = read(region, 0, BYTES);
    let calls: [fn(&NvRegion); 9] = [
        |region| write(region, BYTES - 1, b"ab"),
        |region| write(region, u64::MAX, b"ab"),
        |region| drop(read(region, BYTES, 1)),
        |region| drop(read(region, 8, u64::MAX)),
        |region| drop(read(region, u64::MAX, 0)),
        |region| region.word(BYTES).store(1, Ordering::Relaxed),
        |region| region.word(4).store(1, Ordering::Relaxed),
        |region| region.write_back(BYTES - 1, 2),
        |region| region.persist(u64::MAX - 3, 8),
    ];
    for (nth, call) in calls.into_iter().enumerate() {
        let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| call(region)));
        assert!(caught.is_err(), "call {nth} is refused");
    }
    assert_eq!(read(region, 0, BYTES), before);
}

#[test]
fn memory_is_a_region() {
    conformance(NvRegion::memory(BYTES), |_| None);
    let slow = NvRegion::memory_with_latency(BYTES, Duration::from_nanos(400));
    assert_eq!(slow.form().latency(), Duration::from_nanos(400));
    conformance(slow, |_| None);
}

#[test]
fn simulated_memory_is_a_region() {
    let memory = SimNvram::new(BYTES);
    conformance(memory.region(), |region| {
        drop(region);
        assert!(!memory.is_crashed());
        Some(memory.region())
    });
    // The rules also hold for the memory that a killed process leaves.
    let memory = SimNvram::new(BYTES);
    conformance(memory.region(), |_| Some(memory.reopen_after_kill().region()));
}
