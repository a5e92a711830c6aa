//! Rings of the kernel (io_uring) through which the pieces of one write are in flight at once.
//!
//! Any thread may call this code. A write takes an idle ring, or makes one, and puts it back when
//! it is done. Each ring has one user at a time, so no write waits for another's completions. At
//! most [`IDLE_MAX`] idle rings are kept.
//!
//! Invariants:
//!
//! 1. [`drive`] returns only when the kernel is done with everything that was submitted, whatever
//!    failed meanwhile: until then the kernel reads the caller's memory. Nothing between submission
//!    and that point panics.
//! 2. A ring that refused a call is dropped and never used again, so the kernel never takes the
//!    entries that it had not taken by then.
//! 3. Writes carry `RWF_NOWAIT`. The kernel hands back a write that it cannot start at once (a file
//!    that grows, blocks not yet allocated), instead of giving the write to a worker thread of its
//!    own that would outlive the write. So an idle file has no thread, no timer and no wake-up.
//! 4. Pieces that were handed back, cut short or never submitted are left to the caller's ordinary
//!    way of writing. A failed piece is an error and is not tried again.

use crate::directory::WriteMode;
use io_uring::{IoUring, opcode, types};
use rustix::io::{Errno, ReadWriteFlags};
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Mutex, PoisonError};

/// Maximum number of pieces of one write that are in flight at once.
const DEPTH: u32 = 8;
/// Bytes of a piece; few in debug builds, so that the writes of tests have many pieces. Release
/// builds use no smaller pieces, because a device that cannot write through its cache empties the
/// cache after each durable piece: where this was measured, a write of 1 MiB in two pieces took 1.2
/// times as long as a plain write, and one in eight pieces 1.7 times.
const PIECE_BYTES: usize = if cfg!(debug_assertions) { 16 << 10 } else { 512 << 10 };
/// Maximum number of parts that the kernel takes in one piece.
const PARTS_MAX: usize = 1024;
/// Maximum number of idle rings that are kept for later writes.
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

/// The step that a piece needs next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Whole,
    /// This number of bytes is written; the rest has to be written in another way.
    After(usize),
    /// The kernel or the file does not take such writes at all.
    Refused,
    Failed(Errno),
}

impl WritePiece {
    fn verdict(&self) -> Verdict {
        match self.outcome {
            None => Verdict::After(0),
            Some(done) if done >= 0 && done as usize >= self.bytes => Verdict::Whole,
            Some(done) if done >= 0 => Verdict::After(done as usize),
            Some(error) => match Errno::from_raw_os_error(error.wrapping_neg()) {
                // The kernel began no part of the piece, or not all of it: nothing was promised,
                // and nothing is lost.
                Errno::AGAIN | Errno::INTR | Errno::CANCELED => Verdict::After(0),
                Errno::OPNOTSUPP | Errno::INVAL => Verdict::Refused,
                errno => Verdict::Failed(errno),
            },
        }
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
            let cooperative = IoUring::builder().setup_coop_taskrun().build(DEPTH);
            // Linux before 5.19 refuses that flag.
            cooperative.or_else(|_| IoUring::new(DEPTH))
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
            && drive(&mut ring, fd.as_fd(), &parts, &mut pieces, mode).is_ok()
        {
            self.put(ring);
        }
        finish(&parts, &pieces, rest)
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

/// Runs the pieces through the ring, and notes the outcome of each. Returns an error if the ring
/// must not be used again.
fn drive(
    ring: &mut IoUring,
    fd: BorrowedFd<'_>,
    parts: &[IoSlice<'_>],
    pieces: &mut [WritePiece],
    mode: WriteMode,
) -> io::Result<()> {
    let flags = match mode {
        WriteMode::Durable => ReadWriteFlags::DSYNC | ReadWriteFlags::NOWAIT,
        WriteMode::Written => ReadWriteFlags::NOWAIT,
    };
    let (mut next, mut pushed, mut completed) = (0, 0, 0);
    let mut broken = Ok(());
    loop {
        while broken.is_ok()
            && pushed - completed < DEPTH as usize
            && let Some(piece) = pieces.get(next)
        {
            let Some(first) = parts.get(piece.first) else { break };
            // `IoSlice` is the system's `iovec`.
            let vector = std::ptr::from_ref(first).cast();
            let entry = opcode::Writev::new(types::Fd(fd.as_raw_fd()), vector, piece.count as u32)
                .offset(piece.offset)
                .rw_flags(flags.bits() as i32)
                .build()
                .user_data(next as u64);
            // SAFETY: the file, the vector and the memory it names are borrowed by this function,
            // which returns only when the kernel is done with what it took (invariant 1); the
            // kernel reads `count` parts, which exist.
            if unsafe { ring.submission().push(&entry) }.is_err() {
                break;
            }
            next += 1;
            pushed += 1;
        }
        let waiting = ring.submission().len();
        let in_flight = (pushed - completed).saturating_sub(waiting);
        if in_flight == 0 && (waiting == 0 || broken.is_err()) {
            return broken;
        }
        match &broken {
            // The thread waits once for all of the last pieces, instead of waking up for each.
            Ok(()) => {
                let wanted = if next < pieces.len() { 1 } else { waiting + in_flight };
                match ring.submit_and_wait(wanted) {
                    Err(error) if error.kind() != io::ErrorKind::Interrupted => broken = Err(error),
                    _ => {}
                }
            }
            // Entering the kernel in any way lets it post completions.
            Err(_) => std::thread::yield_now(),
        }
        for entry in ring.completion() {
            completed += 1;
            let Some(piece) = pieces.get_mut(entry.user_data() as usize) else { continue };
            piece.outcome = Some(entry.result());
            if matches!(piece.verdict(), Verdict::Failed(_) | Verdict::Refused) {
                next = usize::MAX;
            }
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
