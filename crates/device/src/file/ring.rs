//! Rings of the kernel (io_uring) through which the pieces of one write, or several reads, are in
//! flight at once.
//!
//! Any thread may call this code. A call takes an idle ring, or makes one, and puts it back when it
//! is done. Each ring has one user at a time, so no call waits for another's completions. At most
//! [`IDLE_MAX`] idle rings are kept.
//!
//! Invariants:
//!
//! 1. [`drive`] returns only when the kernel is done with everything that was submitted, whatever
//!    failed meanwhile: until then the kernel uses the caller's memory. Nothing between submission
//!    and that point panics.
//! 2. A ring whose system call failed is dropped and never used again, so the entries that the
//!    kernel had not taken by then are never run.
//! 3. Writes and reads carry `RWF_NOWAIT`. The kernel hands back a write or read that it cannot
//!    start at once (a file that grows, blocks not yet allocated, a full queue of the device).
//!    Without this flag the kernel would give it to a worker thread that outlives the call. With
//!    the flag, an idle file has no thread, no timer and no wake-up.
//! 4. Pieces and reads that were handed back, refused, cut short or never submitted are left to the
//!    caller's ordinary way of writing and reading. Any other failure of a piece or read is an
//!    error, and the piece or read is not tried again.

use crate::directory::WriteMode;
use io_uring::{IoUring, opcode, squeue, types};
use rustix::io::{Errno, ReadWriteFlags};
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError};

/// Maximum number of pieces of one write that are in flight at once.
const WRITE_DEPTH: usize = 8;
/// Maximum number of reads of one call that are in flight at once, and the number of entries of a
/// ring.
const READ_DEPTH: u32 = 32;
/// Bytes of a piece. Pieces are small in debug builds, so that the writes of tests have many
/// pieces. Pieces are large in release builds, because a device that cannot write through its cache
/// empties the cache after each durable piece. Measured on such a device, a write of 1 MiB in two
/// pieces took 1.2 times as long as a plain write, and in eight pieces 1.7 times as long.
const PIECE_BYTES: usize = if cfg!(debug_assertions) { 16 << 10 } else { 512 << 10 };
/// Maximum number of parts that the kernel takes in one piece.
const PARTS_MAX: usize = 1024;
/// Maximum number of idle rings that are kept for later calls.
const IDLE_MAX: usize = 16;

/// The rings of a directory and of the directories inside it.
pub(super) struct Rings {
    /// The rings not in use. This is a leaf latch.
    idle: Mutex<Vec<IoUring>>,
    make: fn() -> io::Result<IoUring>,
}

/// Consecutive parts of one write, and the kernel's result for them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct WritePiece {
    /// Index of the first part.
    first: usize,
    count: usize,
    offset: u64,
    bytes: usize,
    /// Result of the kernel: a number of bytes, or a negated error; `None` if the piece never
    /// reached the kernel.
    outcome: Option<i32>,
}

/// The step that a piece or a read needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Whole,
    /// This number of bytes is done; the rest has to be written or read in another way.
    After(usize),
    /// The kernel or the file does not take such calls at all.
    Refused,
    Failed(Errno),
}

impl Verdict {
    /// Returns the verdict on a call of `bytes` bytes: `outcome` is the kernel's result, or `None`
    /// if the call never reached the kernel.
    fn on(outcome: Option<i32>, bytes: usize) -> Self {
        match outcome {
            None => Verdict::After(0),
            Some(done) if done >= 0 && done as usize >= bytes => Verdict::Whole,
            Some(done) if done >= 0 => Verdict::After(done as usize),
            Some(error) => match Errno::from_raw_os_error(error.wrapping_neg()) {
                // The kernel stopped the call before its end and promised nothing, so the caller
                // makes the whole call again.
                Errno::AGAIN | Errno::INTR | Errno::CANCELED => Verdict::After(0),
                Errno::OPNOTSUPP | Errno::INVAL => Verdict::Refused,
                errno => Verdict::Failed(errno),
            },
        }
    }
}

impl WritePiece {
    fn verdict(&self) -> Verdict {
        Verdict::on(self.outcome, self.bytes)
    }
}

/// Failure of a write through a ring.
#[derive(Debug)]
pub(super) enum Failed<E> {
    /// A piece failed in the kernel.
    Piece(Errno),
    /// The part of the write that was left to the caller failed.
    Rest(E),
}

/// Decision whether the next write should use the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RingSupport {
    Yes,
    Refused,
}

impl Rings {
    pub(super) fn new() -> Self {
        Self::made_by(|| {
            // This module looks for completions only while it waits for them, so the kernel need
            // not interrupt the thread.
            let cooperative = IoUring::builder().setup_coop_taskrun().build(READ_DEPTH);
            // Linux before 5.19 refuses that flag.
            cooperative.or_else(|_| IoUring::new(READ_DEPTH))
        })
    }

    fn made_by(make: fn() -> io::Result<IoUring>) -> Self {
        Rings { idle: Mutex::new(Vec::new()), make }
    }

    /// Returns whether the kernel provides rings: it may be too old, or configured to refuse them.
    pub(super) fn work(&self) -> bool {
        self.take().map(|ring| self.put(ring)).is_some()
    }

    fn take(&self) -> Option<IoUring> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.or_else(|| (self.make)().ok())
    }

    fn put(&self, ring: IoUring) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE_MAX {
            idle.push(ring);
        }
    }

    /// Writes all of `parts` at `offset`. The parts must be aligned as for direct writes. `rest`
    /// gets the bytes that the ring did not write, in order.
    pub(super) fn write<E>(
        &self,
        fd: impl AsFd,
        parts: &[IoSlice<'_>],
        offset: u64,
        mode: WriteMode,
        rest: impl FnMut(&[IoSlice<'_>], u64) -> Result<(), E>,
    ) -> Result<RingSupport, Failed<E>> {
        let parts = cut(parts);
        let mut pieces = gather(&parts, offset);
        if let Some(mut ring) = self.take()
            && write_pieces(&mut ring, fd, &parts, &mut pieces, mode).is_ok()
        {
            self.put(ring);
        }
        finish(&parts, &pieces, rest)
    }

    /// Makes all of `reads`, each at most `u32::MAX` bytes and aligned as for direct reads. Returns
    /// the verdict on each. The caller reads the bytes that the ring did not read.
    pub(super) fn read(&self, fd: impl AsFd, reads: &mut [(u64, &mut [u8])]) -> Vec<Verdict> {
        let mut outcomes = vec![None; reads.len()];
        if let Some(mut ring) = self.take()
            && read_pieces(&mut ring, fd, reads, &mut outcomes).is_ok()
        {
            self.put(ring);
        }
        let verdict =
            |(outcome, (_, buffer)): (&Option<i32>, &(u64, &mut [u8]))| Verdict::on(*outcome, buffer.len());
        outcomes.iter().zip(reads.iter()).map(verdict).collect()
    }
}

impl fmt::Debug for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rings")
    }
}

/// Cuts the parts into parts of at most [`PIECE_BYTES`], and leaves out empty ones.
fn cut<'a>(parts: &'a [IoSlice<'_>]) -> Vec<IoSlice<'a>> {
    parts.iter().flat_map(|part| part.chunks(PIECE_BYTES)).map(IoSlice::new).collect()
}

fn gather(parts: &[IoSlice<'_>], offset: u64) -> Vec<WritePiece> {
    let mut pieces: Vec<WritePiece> = Vec::new();
    let mut at = offset;
    for (index, part) in parts.iter().enumerate() {
        match pieces.last_mut() {
            Some(piece) if piece.bytes + part.len() <= PIECE_BYTES && piece.count < PARTS_MAX => {
                piece.count += 1;
                piece.bytes += part.len();
            }
            _ => pieces.push(WritePiece {
                first: index,
                count: 1,
                offset: at,
                bytes: part.len(),
                outcome: None,
            }),
        }
        at += part.len() as u64;
    }
    pieces
}

/// Runs the pieces of a write through the ring, and notes the outcome of each. Returns an error if
/// the ring must not be used again.
fn write_pieces(
    ring: &mut IoUring,
    fd: impl AsFd,
    parts: &[IoSlice<'_>],
    pieces: &mut [WritePiece],
    mode: WriteMode,
) -> io::Result<()> {
    let flags = match mode {
        WriteMode::Durable => ReadWriteFlags::DSYNC | ReadWriteFlags::NOWAIT,
        WriteMode::Written => ReadWriteFlags::NOWAIT,
    };
    let fd = fd.as_fd();
    let entry = |piece: &WritePiece| {
        let own = &parts[piece.first..piece.first + piece.count];
        // `IoSlice` is the system's `iovec`.
        opcode::Writev::new(types::Fd(fd.as_raw_fd()), own.as_ptr().cast(), own.len() as u32)
            .offset(piece.offset)
            .rw_flags(flags.bits() as i32)
            .build()
    };
    let entries: Vec<squeue::Entry> = pieces.iter().map(entry).collect();
    let mut done = |nth: usize, result| {
        let Some(piece) = pieces.get_mut(nth) else { return true };
        piece.outcome = Some(result);
        !matches!(piece.verdict(), Verdict::Failed(_) | Verdict::Refused)
    };
    // SAFETY: this function borrows the file, the parts and the memory that they name until `drive`
    // returns.
    unsafe { drive(ring, entries, WRITE_DEPTH, &mut done) }
}

/// Runs reads through the ring, and notes the outcome of each. Returns an error if the ring must
/// not be used again.
fn read_pieces(
    ring: &mut IoUring,
    fd: impl AsFd,
    reads: &mut [(u64, &mut [u8])],
    outcomes: &mut [Option<i32>],
) -> io::Result<()> {
    let fd = fd.as_fd();
    let entry = |(offset, buffer): &mut (u64, &mut [u8])| {
        opcode::Read::new(types::Fd(fd.as_raw_fd()), buffer.as_mut_ptr(), buffer.len() as u32)
            .offset(*offset)
            .rw_flags(ReadWriteFlags::NOWAIT.bits() as i32)
            .build()
    };
    let entries: Vec<squeue::Entry> = reads.iter_mut().map(entry).collect();
    let mut done = |nth: usize, result| {
        if let Some(outcome) = outcomes.get_mut(nth) {
            *outcome = Some(result);
        }
        true
    };
    // SAFETY: this function borrows the file and the buffers until `drive` returns, and touches no
    // buffer meanwhile.
    unsafe { drive(ring, entries, READ_DEPTH as usize, &mut done) }
}

/// Runs `entries` through the ring, at most `depth` of them at once, and calls `done` with the
/// number of each entry and the kernel's result for it. After `done` has returned false, no further
/// entry is submitted. Returns an error if the ring must not be used again.
///
/// # Safety
/// The file and the memory that the entries name must live until the function returns, and no other
/// code may use that memory in a way that conflicts with the kernel's use. `done` must not panic.
unsafe fn drive(
    ring: &mut IoUring,
    entries: Vec<squeue::Entry>,
    depth: usize,
    done: &mut dyn FnMut(usize, i32) -> bool,
) -> io::Result<()> {
    let mut rest = entries.into_iter().zip(0..).peekable();
    let (mut pushed, mut completed) = (0, 0);
    let mut goes_on = true;
    let mut broken = Ok(());
    loop {
        while broken.is_ok()
            && goes_on
            && pushed - completed < depth
            && let Some((entry, nth)) = rest.next()
        {
            // SAFETY: the kernel uses what the entry names until its completion, and this function
            // returns only after the completion of all that the kernel took (invariant 1).
            if unsafe { ring.submission().push(&entry.user_data(nth)) }.is_err() {
                // No depth exceeds the number of entries of a ring, so the ring has room. If it had
                // none, this entry would be left to the caller.
                break;
            }
            pushed += 1;
        }
        let waiting = ring.submission().len();
        let in_flight = (pushed - completed).saturating_sub(waiting);
        if in_flight == 0 && (waiting == 0 || broken.is_err()) {
            return broken;
        }
        match &broken {
            // The thread waits once for all of the last entries, instead of waking up for each.
            Ok(()) => {
                let wanted = if goes_on && rest.peek().is_some() { 1 } else { waiting + in_flight };
                match ring.submit_and_wait(wanted) {
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => broken = Err(error),
                    _ => {}
                }
            }
            // Any system call, such as this yield, lets the kernel post completions.
            Err(_) => std::thread::yield_now(),
        }
        for entry in ring.completion() {
            completed += 1;
            goes_on &= done(entry.user_data() as usize, entry.result());
        }
    }
}

/// Reports the first failure; if there is none, has `rest` write the missing bytes.
fn finish<E>(
    parts: &[IoSlice<'_>],
    pieces: &[WritePiece],
    mut rest: impl FnMut(&[IoSlice<'_>], u64) -> Result<(), E>,
) -> Result<RingSupport, Failed<E>> {
    let mut taken = RingSupport::Yes;
    for piece in pieces {
        if let Verdict::Failed(errno) = piece.verdict() {
            return Err(Failed::Piece(errno));
        }
    }
    for piece in pieces {
        let done = match piece.verdict() {
            Verdict::Whole => continue,
            Verdict::After(done) => done,
            Verdict::Refused | Verdict::Failed(_) => {
                taken = RingSupport::Refused;
                0
            }
        };
        let mut copy = parts[piece.first..piece.first + piece.count].to_vec();
        let mut left = &mut copy[..];
        IoSlice::advance_slices(&mut left, done);
        rest(left, piece.offset + done as u64).map_err(Failed::Rest)?;
    }
    Ok(taken)
}

#[cfg(test)]
mod tests;
