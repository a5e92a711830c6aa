//! Contents of a simulated memory after a crash: fenced bytes always survive, and the seed decides
//! the rest.

use katydid_device::nvram::{NvRegion, SimNvram};
use katydid_device::testing::seed;
use katydid_device::{Create, Method, SimDevice, Survival, WriteMode};
use std::io::IoSlice;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;

const SEEDS: u64 = if cfg!(miri) { 20 } else { 300 };

fn write(region: &NvRegion, at: u64, bytes: &[u8]) {
    // SAFETY: in these tests each thread writes bytes of its own.
    unsafe { region.write(at, bytes) }
}

fn word(memory: &SimNvram, at: u64) -> u64 {
    memory.region().word(at).load(Ordering::Relaxed)
}

fn words(memory: &SimNvram) -> Vec<u64> {
    let region = memory.region();
    (0..region.len() / 8).map(|nth| region.word(nth * 8).load(Ordering::Relaxed)).collect()
}

/// Returns the word's values after crashes from many seeds, each once, ascending.
fn values(memory: &SimNvram, at: u64) -> Vec<u64> {
    let mut values: Vec<u64> = (0..SEEDS).map(|seed| word(&memory.reopen_after_crash(seed), at)).collect();
    values.sort_unstable();
    values.dedup();
    values
}

#[test]
fn fenced_is_there_and_the_rest_sometimes_is() {
    let memory = SimNvram::new(1024);
    let region = memory.region();
    region.word(0).store(1, Ordering::Relaxed);
    region.persist(0, 8);
    // This word is fenced, and then stored again.
    region.word(256).store(5, Ordering::Relaxed);
    region.persist(256, 8);
    region.word(256).store(6, Ordering::Relaxed);
    // This word is stored again before the fence, so either value may survive.
    region.word(320).store(7, Ordering::Relaxed);
    region.write_back(320, 8);
    region.word(320).store(8, Ordering::Relaxed);
    region.fence();
    // These stores are not fenced.
    region.word(64).store(2, Ordering::Relaxed);
    region.write_back(64, 8);
    region.word(128).store(3, Ordering::Relaxed);
    write(&region, 192, &4_u64.to_ne_bytes());
    assert_eq!(values(&memory, 64), [0, 2], "written back");
    let memory = memory.reopen_after_kill();
    // Stores of a process that was killed are still only in the caches.
    assert_eq!(values(&memory, 0), [1], "fenced");
    assert_eq!(values(&memory, 128), [0, 3], "stored, as a word");
    assert_eq!(values(&memory, 192), [0, 4], "stored, as bytes");
    assert_eq!(values(&memory, 256), [5, 6], "fenced, then stored");
    assert_eq!(values(&memory, 320), [7, 8], "written back, stored, then fenced");

    let worst = memory.reopen_with(0, Survival::DropAll);
    assert_eq!([0, 64, 128, 192, 256, 320].map(|at| word(&worst, at)), [1, 0, 0, 0, 5, 7]);
    let best = memory.reopen_with(0, Survival::KeepAll);
    assert_eq!([0, 64, 128, 192, 256, 320].map(|at| word(&best, at)), [1, 2, 3, 4, 6, 8]);
}

#[test]
fn a_fence_is_no_other_threads() {
    let memory = SimNvram::new(128);
    let region = memory.region();
    region.word(0).store(1, Ordering::Relaxed);
    region.write_back(0, 8);
    thread::scope(|scope| {
        scope.spawn(|| {
            region.word(64).store(2, Ordering::Relaxed);
            region.persist(64, 8);
        });
    });
    assert_eq!(values(&memory, 64), [2], "its own");
    assert_eq!(values(&memory, 0), [0, 1], "the other's");

    let memory = SimNvram::new(128);
    let region = memory.region();
    region.word(0).store(1, Ordering::Relaxed);
    region.write_back(0, 8);
    thread::scope(|scope| drop(scope.spawn(|| region.fence())));
    region.fence();
    assert_eq!(values(&memory, 0), [1], "nobody has taken it away");
}

#[test]
fn lines_tear_at_eight_bytes_and_words_never() {
    let memory = SimNvram::new(256);
    let region = memory.region();
    write(&region, 0, &[1; 256]);
    region.persist(0, 256);
    write(&region, 0, &[2; 256]);
    region.write_back(0, 256);
    let (mut torn, mut whole, mut reordered) = (false, [false; 2], false);
    for seed in 0..SEEDS {
        let found = words(&memory.reopen_after_crash(seed));
        let news: Vec<bool> = found
            .iter()
            .map(|word| match word.to_ne_bytes() {
                [1, 1, 1, 1, 1, 1, 1, 1] => false,
                [2, 2, 2, 2, 2, 2, 2, 2] => true,
                other => panic!("seed {seed}: a word is torn: {other:?}"),
            })
            .collect();
        torn |= news[..8].contains(&true) && news[..8].contains(&false);
        whole[0] |= !news.contains(&true);
        whole[1] |= !news.contains(&false);
        reordered |= news[..8] == [false; 8] && news[8..16] == [true; 8];
    }
    assert!(cfg!(miri) || torn && whole == [true; 2] && reordered, "{torn} {whole:?} {reordered}");

    let mut cuts: Vec<usize> = (0..SEEDS)
        .map(|seed| {
            let found = words(&memory.reopen_with(seed, Survival::Prefix));
            let cut =
                found.iter().position(|word| *word == u64::from_ne_bytes([1; 8])).unwrap_or(found.len());
            assert!(found[cut..].iter().all(|word| *word == u64::from_ne_bytes([1; 8])), "seed {seed}");
            cut
        })
        .collect();
    cuts.sort_unstable();
    cuts.dedup();
    assert!(cfg!(miri) || cuts.len() == 33, "a cut at each word: {cuts:?}");
}

/// The values that each word may have after a crash: the fenced value, and the values stored since.
struct Model {
    words: Vec<Vec<u64>>,
    /// Lines written back, with the newest value that each of their words had at the write-back.
    pending: Vec<(usize, [u64; 8])>,
}

impl Model {
    fn store(&mut self, nth: usize, value: u64) {
        self.words[nth].push(value);
    }

    fn write_back(&mut self, lines: std::ops::Range<usize>) {
        for line in lines {
            let newest = |nth: usize| *self.words[line * 8 + nth].last().expect("never empty");
            self.pending.push((line, std::array::from_fn(newest)));
        }
    }

    fn fence(&mut self) {
        for (line, values) in self.pending.drain(..) {
            for (nth, value) in values.into_iter().enumerate() {
                let versions = &mut self.words[line * 8 + nth];
                // A thread stores each value once. If a value is not found, an earlier fence has
                // kept a later value and dropped this one.
                if let Some(from) = versions.iter().position(|version| *version == value) {
                    versions.drain(..from);
                }
            }
        }
    }
}

#[test]
fn random_stores_survive_as_the_model_allows() {
    let first = seed();
    for round in 0..if cfg!(miri) { 5 } else { 200 } {
        let seed = first.wrapping_add(round);
        let mut rng = fastrand::Rng::with_seed(seed);
        let bytes = 512;
        let memory = SimNvram::new(bytes);
        let region = memory.region();
        let mut model = Model { words: vec![vec![0]; bytes as usize / 8], pending: Vec::new() };
        memory.crash_at(rng.u64(0..60));
        let mut value = 0;
        while !memory.is_crashed() {
            let nth = rng.usize(0..bytes as usize / 8);
            let len = rng.usize(1..=(bytes as usize / 8 - nth).min(20));
            match rng.u8(0..10) {
                0..4 => {
                    value += 1;
                    region.word(nth as u64 * 8).store(value, Ordering::Relaxed);
                    model.store(nth, value);
                }
                4..7 => {
                    let values: Vec<u64> = (value + 1..).take(len).collect();
                    value += len as u64;
                    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_ne_bytes()).collect();
                    write(&region, nth as u64 * 8, &bytes);
                    values.iter().enumerate().for_each(|(at, value)| model.store(nth + at, *value));
                }
                7..9 => {
                    region.write_back(nth as u64 * 8, len as u64 * 8);
                    if !memory.is_crashed() {
                        model.write_back(nth / 8..(nth + len).div_ceil(8));
                    }
                }
                _ => {
                    region.fence();
                    if !memory.is_crashed() {
                        model.fence();
                    }
                }
            }
        }
        // Nothing stored after the crash survives.
        write(&region, 0, &[0xff; 512]);
        region.persist(0, 512);
        for survival in
            [Survival::Random, Survival::DropAll, Survival::KeepAll, Survival::Prefix, Survival::Trash]
        {
            for crash in 0..10 {
                let found = words(&memory.reopen_with(crash, survival));
                for (nth, value) in found.iter().enumerate() {
                    let allowed = &model.words[nth];
                    let ok = match survival {
                        Survival::Random | Survival::Trash => allowed.contains(value),
                        Survival::DropAll => allowed[0] == *value,
                        Survival::KeepAll => allowed.last() == Some(value),
                        Survival::Prefix => allowed[0] == *value || allowed.last() == Some(value),
                    };
                    assert!(
                        ok,
                        "KATYDID_SEED={seed} {survival:?} {crash}: word {nth} is {value} of {allowed:?}\n{}",
                        memory.dump()
                    );
                }
            }
        }
    }
}

#[test]
fn the_same_seeds_and_calls_give_the_same_memory() {
    let run = || {
        let memory = SimNvram::new(4096);
        let region = memory.region();
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..100 {
            write(&region, rng.u64(0..4000), &[rng.u8(..); 90]);
            region.write_back(rng.u64(0..4000), 90);
            if rng.u8(0..5) == 0 {
                region.fence();
            }
        }
        memory
    };
    let (one, other) = (run(), run());
    for seed in 0..SEEDS {
        assert_eq!(words(&one.reopen_after_crash(seed)), words(&other.reopen_after_crash(seed)));
    }
    assert_eq!(one.counts(), other.counts());
}

#[test]
fn steps_are_write_backs_and_fences_and_a_crash_comes_before_its_step() {
    let memory = SimNvram::new(256);
    let region = memory.region();
    region.persist(10, 70);
    region.write_back(0, 0);
    region.fence();
    let counts = memory.counts();
    assert_eq!((counts.write_backs, counts.lines, counts.fences, memory.steps()), (1, 2, 2, 3));

    memory.crash_at(4);
    region.word(0).store(1, Ordering::Relaxed);
    region.write_back(0, 8);
    assert!(!region.is_crashed());
    region.fence();
    assert!(region.is_crashed() && memory.is_crashed());
    region.word(0).store(2, Ordering::Relaxed);
    region.persist(0, 8);
    assert_eq!(region.word(0).load(Ordering::Relaxed), 2, "programs go on without a sign");
    assert_eq!((memory.steps(), memory.counts().fences), (4, 2), "and nothing is done");
    assert_eq!(values(&memory, 0), [0, 1]);
    assert!(memory.durable_image().iter().all(|byte| *byte == 0));
    let again = memory.reopen_with(0, Survival::KeepAll);
    assert_eq!((again.steps(), again.is_crashed(), word(&again, 0)), (0, false, 1));
    assert_eq!(values(&again, 0), [1], "what is found after a crash is durable");
}

/// Right and wrong ways of publishing a record and the flag that says that the record is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Publish {
    Right,
    FlagFirst,
    NoFence,
    NoWriteBack,
    FlagNotPersisted,
}

/// Publishes records until the memory crashes. Returns the number of records acknowledged before
/// the crash.
fn publish(region: &NvRegion, way: Publish) -> u64 {
    for number in 1.. {
        let at = 64 * number;
        if at == region.len() {
            return number - 1;
        }
        if way == Publish::FlagFirst {
            region.word(0).store(number, Ordering::Release);
            region.persist(0, 8);
        }
        write(region, at, &[number as u8; 40]);
        match way {
            Publish::NoWriteBack => region.fence(),
            Publish::NoFence => region.write_back(at, 40),
            _ => region.persist(at, 40),
        }
        region.word(0).store(number, Ordering::Release);
        if way != Publish::FlagNotPersisted {
            region.persist(0, 8);
        }
        if region.is_crashed() {
            return number - 1;
        }
    }
    0
}

#[test]
fn each_forgotten_step_is_found_and_the_whole_protocol_is_not() {
    for way in [
        Publish::Right,
        Publish::FlagFirst,
        Publish::NoFence,
        Publish::NoWriteBack,
        Publish::FlagNotPersisted,
    ] {
        let dry = SimNvram::new(512);
        publish(&dry.region(), way);
        let mut wrong = None;
        for step in 0..dry.steps() {
            let memory = SimNvram::new(512);
            memory.crash_at(step);
            let acknowledged = publish(&memory.region(), way);
            for seed in 0..if cfg!(miri) { 5 } else { 100 } {
                let found = memory.reopen_after_crash(seed).region();
                let flag = found.word(0).load(Ordering::Acquire);
                // SAFETY: no thread writes.
                let record = |number: u64| unsafe { found.slice(64 * number, 40) };
                let whole = (1..=flag).all(|number| record(number) == [number as u8; 40]);
                if !whole || flag < acknowledged {
                    wrong = Some((step, seed));
                }
            }
        }
        assert_eq!(wrong.is_none(), way == Publish::Right, "{way:?}: {wrong:?}");
    }
}

#[test]
fn threads_that_persist_words_of_one_line_lose_none_that_was_acknowledged() {
    let first = seed();
    for round in 0..if cfg!(miri) { 2 } else { 60 } {
        let seed = first.wrapping_add(round);
        let mut rng = fastrand::Rng::with_seed(seed);
        let memory = SimNvram::new(64 * 5);
        memory.crash_at(rng.u64(0..if cfg!(miri) { 40 } else { 400 }));
        let region = memory.region();
        let acknowledged: [AtomicU64; 4] = std::array::from_fn(|_| AtomicU64::new(0));
        let begin = Barrier::new(4);
        thread::scope(|scope| {
            for (nth, acknowledged) in acknowledged.iter().enumerate() {
                let (region, begin) = (&region, &begin);
                scope.spawn(move || {
                    begin.wait();
                    let nth = nth as u64;
                    for number in 1_u64.. {
                        // A thread persists a record in its own line, and then its word in the line
                        // that all threads share.
                        write(region, 64 + nth * 64, &number.to_ne_bytes().repeat(8));
                        region.persist(64 + nth * 64, 64);
                        region.word(nth * 8).store(number, Ordering::Release);
                        region.persist(nth * 8, 8);
                        if region.is_crashed() {
                            break;
                        }
                        acknowledged.store(number, Ordering::Relaxed);
                    }
                });
            }
        });
        for crash in 0..20 {
            let found = words(&memory.reopen_after_crash(crash));
            for (nth, acknowledged) in acknowledged.iter().enumerate() {
                let (flag, least) = (found[nth], acknowledged.load(Ordering::Relaxed));
                assert!(flag == least || flag == least + 1, "KATYDID_SEED={seed}: {flag} of {least}");
                let record = &found[8 + nth * 8..16 + nth * 8];
                let allowed = [flag, flag + 1];
                assert!(
                    record.iter().all(|word| allowed.contains(word)),
                    "KATYDID_SEED={seed}: {record:?} of {flag}"
                );
            }
        }
    }
}

#[test]
fn memory_and_device_of_one_machine_crash_together() {
    let durable = |device: &SimDevice, byte: u8| {
        let file = device.directory().open("a", Create::IfMissing, Method::Buffered)?;
        file.write_at(&[IoSlice::new(&[byte])], 0, WriteMode::Durable)
    };
    // After a crash of the memory the device accepts no further write.
    let device = SimDevice::new(1);
    let memory = SimNvram::new(64).beside(&device);
    durable(&device, 1).expect("alive");
    memory.crash_at(0);
    memory.region().persist(0, 8);
    assert!(device.is_crashed());
    durable(&device, 2).expect_err("crashed");
    // After a crash of the device the memory persists nothing more.
    let device = SimDevice::new(1);
    let memory = SimNvram::new(64).beside(&device);
    let region = memory.region();
    region.word(0).store(1, Ordering::Relaxed);
    region.persist(0, 8);
    device.crash_at(device.steps());
    durable(&device, 1).expect_err("crashed");
    region.word(0).store(2, Ordering::Relaxed);
    region.word(0).store(3, Ordering::Relaxed);
    region.persist(0, 8);
    assert!(region.is_crashed());
    assert_eq!(memory.durable_image()[..8], 1_u64.to_ne_bytes());
    // Threads use memory and device at once. A crash keeps what was persisted before it, and a byte
    // is on the device only if the memory already has it.
    for round in 0..20 {
        let device = SimDevice::new(1);
        let memory = SimNvram::new(64 * 2).beside(&device);
        let last = Mutex::new([0_u8; 2]);
        let region = memory.region();
        if round % 2 == 0 {
            memory.crash_at(round)
        } else {
            device.crash_at(device.steps() + round)
        }
        thread::scope(|scope| {
            for nth in 0..2 {
                let (device, region, last) = (&device, &region, &last);
                scope.spawn(move || {
                    for number in 1..=200_u8 {
                        write(region, 64 * nth, &[number; 8]);
                        region.persist(64 * nth, 8);
                        if region.is_crashed() || (nth == 0 && durable(device, number).is_err()) {
                            break;
                        }
                        last.lock().expect("alive")[nth as usize] = number;
                    }
                });
            }
        });
        let last = *last.lock().expect("alive");
        let found = words(&memory.reopen_with(0, Survival::DropAll));
        for (nth, last) in last.into_iter().enumerate() {
            assert!(found[nth * 8].to_ne_bytes()[0] >= last, "round {round}");
        }
        let kept = device.reopen_with(0, Survival::DropAll).image().get("a").map_or(0, |bytes| bytes[0]);
        assert!(kept <= found[0].to_ne_bytes()[0], "the device holds what the memory was to hold before");
    }
}
