//! Measures the time of persisting: `cargo run --release -p katydid-device --example nvram_persist
//! -- [FOLDER]`.
//!
//! The program copies records one behind the other into 1 MiB, again and again, and writes back and
//! fences each record. The program does so in three ways: in plain code on memory of its own,
//! through an emulated [`NvRegion`] in memory, and through an emulated [`NvRegion`] in a file. Then
//! the program measures how exact the added latency is, and how long a reading of the clock takes.
//! The output is the least and the median of all rounds, in ns for each record.

use katydid_device::AlignedBuffer;
use katydid_device::nvram::{Instruction, NvRegion, Persistence};
use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

const BYTES: u64 = 1 << 20;
const COUNT: u64 = 20_000;
const ROUNDS: usize = 31;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".to_owned());
    let path = std::path::Path::new(&folder).join(format!("nvram_persist.{}", std::process::id()));
    let outcome = measure(&path);
    std::fs::remove_file(&path)?;
    outcome
}

fn measure(path: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let plain = AlignedBuffer::new_zeroed(BYTES as usize);
    let memory = NvRegion::memory(BYTES);
    let file = NvRegion::open(path, BYTES, Persistence::Emulated { latency: Duration::ZERO })?;
    let instruction = memory.form().instruction();
    if cfg!(target_arch = "x86_64") && instruction != Some(Instruction::Clwb) {
        return Err("the plain code needs a processor with clwb".into());
    }
    println!("memory: {}\nfile:   {}\n", memory.form(), file.form());
    println!(
        "bytes | plain least, median | memory least, median | file least, median | file / plain (medians)"
    );
    for len in [64, 120, 128, 256, 1024] {
        let record = black_box(vec![7_u8; len as usize]);
        let mut took: [Vec<f64>; 3] = std::array::from_fn(|_| Vec::new());
        for _ in 0..ROUNDS {
            took[0].push(round(len, |at| persist_plainly(&plain, at, &record)));
            took[1].push(round(len, |at| persist(&memory, at, &record)));
            took[2].push(round(len, |at| persist(&file, at, &record)));
        }
        let [plain, memory, file] = took.map(sorted);
        let show = |took: &[f64]| format!("{:6.1} {:6.1}", took[0], took[ROUNDS / 2]);
        println!(
            "{len:5} | {} | {} | {} | {:.2}",
            show(&plain),
            show(&memory),
            show(&file),
            file[ROUNDS / 2] / plain[ROUNDS / 2]
        );
    }
    let clock = sorted((0..ROUNDS).map(|_| round(64, |_| _ = black_box(Instant::now()))).collect());
    println!(
        "\nreading the clock: {:.1} ns\nadded | taken beyond a persist without (64 bytes, median)",
        clock[ROUNDS / 2]
    );
    for added in [50, 100, 200, 400, 1000, 2000, 10_000] {
        let slow = NvRegion::memory_with_latency(BYTES, Duration::from_nanos(added));
        let (mut with, mut without) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            with.push(round(64, |at| persist(&slow, at, &[7; 64])));
            without.push(round(64, |at| persist(&memory, at, &[7; 64])));
        }
        println!("{added:5} | {:.0}", sorted(with)[2] - sorted(without)[2]);
    }
    Ok(())
}

/// Returns the average nanoseconds of a call, over `COUNT` calls at places `len` bytes apart.
fn round(len: u64, mut call: impl FnMut(u64)) -> f64 {
    let places = BYTES / len;
    let begun = Instant::now();
    let mut place = 0;
    for _ in 0..COUNT {
        call(place * len);
        place = if place + 1 == places { 0 } else { place + 1 };
    }
    begun.elapsed().as_nanos() as f64 / COUNT as f64
}

fn sorted(mut took: Vec<f64>) -> Vec<f64> {
    took.sort_by(f64::total_cmp);
    took
}

#[inline(always)]
fn persist(region: &NvRegion, at: u64, record: &[u8]) {
    // SAFETY: one thread, and nothing is borrowed.
    unsafe { region.write(at, record) };
    region.persist(at, record.len() as u64);
}

#[cfg(target_arch = "x86_64")]
fn persist_plainly(memory: &AlignedBuffer, at: u64, record: &[u8]) {
    use std::arch::asm;
    // SAFETY: places lie inside the memory, which nothing borrows meanwhile; the processor has
    // `clwb`.
    unsafe {
        let to = memory.base().as_ptr().add(at as usize);
        std::ptr::copy_nonoverlapping(record.as_ptr(), to, record.len());
        let mut line = to.map_addr(|address| address & !63);
        let end = to.add(record.len());
        while line < end {
            asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags));
            line = line.wrapping_add(64);
        }
        asm!("sfence", options(nostack, preserves_flags));
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn persist_plainly(memory: &AlignedBuffer, at: u64, record: &[u8]) {
    // SAFETY: places lie inside the memory, which nothing borrows meanwhile.
    unsafe {
        std::ptr::copy_nonoverlapping(record.as_ptr(), memory.base().as_ptr().add(at as usize), record.len())
    };
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}
