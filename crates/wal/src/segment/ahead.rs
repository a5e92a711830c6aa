//! Reading ahead: threads read the next pieces of the log while the caller looks at the present
//! piece.
//!
//! Meant for recovery, which reads the whole log once from one end to the other. Two threads read
//! alternate pieces, so the device always has something to do. The reading thread copies from the
//! pieces. Rules:
//!
//! 1. Reading ahead changes only the speed. If the next piece cannot serve the bytes, they are read
//!    from the source at once, with the source's own outcome. A piece cannot serve the bytes if the
//!    caller goes to another position, if the piece could not be read as a whole, or if there are
//!    no threads.
//! 2. No byte at or beyond `to`, the end given to [`ReadAhead::new`], is served from a piece,
//!    because such a byte may have changed since it was read.
//! 3. Memory is at most two pieces for each of the [`LANES`], and the piece that the caller looks
//!    at.
//!
//! The threads end at `to`, or when the [`ReadAhead`] is dropped. Dropping it waits for reads under
//! way.

use super::files::Source;
use katydid_device::{self as device, AlignedBuffer};
use katydid_kernels::lsn::{BLOCK_BYTES, Lsn};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// Bytes of a piece; few in debug builds, so that the logs of tests have many pieces.
const PIECE: usize = if cfg!(any(test, debug_assertions)) { 2 * BLOCK_BYTES as usize } else { 1 << 20 };
/// Number of lanes. A lane is a thread that reads ahead, with one read under way at a time.
const LANES: usize = 2;

/// A source whose bytes from some position on are read ahead, once, in order.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    source: Arc<dyn Source>,
    run: Mutex<Run>,
}

/// A piece that a lane has read, and the number of its bytes that belong to the log.
type ReadPiece = (AlignedBuffer, usize);

#[derive(Debug)]
struct Lane {
    pieces: Receiver<ReadPiece>,
    /// The channel that returns the memory of pieces to the lane.
    used: Sender<AlignedBuffer>,
}

#[derive(Debug)]
struct Run {
    /// The piece being looked at, and its start.
    piece: ReadPiece,
    base: Lsn,
    /// Start of the next piece, and the lane that reads it.
    next: Lsn,
    lane: usize,
    /// No lanes, or [`LANES`] of them.
    lanes: Vec<Lane>,
    threads: Vec<JoinHandle<()>>,
}

impl ReadAhead {
    /// Reads `[from, to)` of the source ahead.
    pub(crate) fn new(source: Arc<dyn Source>, from: Lsn, to: Lsn) -> Self {
        let base = from.floor_block();
        let piece = (AlignedBuffer::new_zeroed(0), 0);
        let mut run = Run { piece, base, next: base, lane: 0, lanes: Vec::new(), threads: Vec::new() };
        // A shorter range is not worth the threads.
        if to > base.plus((LANES * PIECE) as u64) {
            run.start(&source, to);
        }
        ReadAhead { source, run: Mutex::new(run) }
    }
}

impl Source for ReadAhead {
    fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        let mut done = 0;
        while done < buffer.len() {
            let Some(bytes) = run.bytes(at.plus(done as u64)) else { break };
            let count = bytes.len().min(buffer.len() - done);
            buffer[done..done + count].copy_from_slice(&bytes[..count]);
            done += count;
        }
        drop(run);
        if done < buffer.len() {
            done += self.source.read(at.plus(done as u64), &mut buffer[done..])?;
        }
        Ok(done)
    }

    fn prepared_end(&self) -> Lsn {
        self.source.prepared_end()
    }

    fn file_name(&self, at: Lsn) -> String {
        self.source.file_name(at)
    }
}

impl Run {
    fn start(&mut self, source: &Arc<dyn Source>, to: Lsn) {
        for nth in 0..LANES {
            let (sender, pieces) = sync_channel(1);
            let (used, memory) = channel();
            let (source, from) = (source.clone(), self.next.plus((nth * PIECE) as u64));
            let lane = move || read_lane(source.as_ref(), from, to, &sender, &memory);
            match thread::Builder::new().name("katydid-read".to_owned()).spawn(lane) {
                Ok(thread) => {
                    self.threads.push(thread);
                    self.lanes.push(Lane { pieces, used });
                }
                // Without threads all bytes are read from the source (rule 1).
                Err(_) => return self.stop(),
            }
        }
    }

    /// Returns the bytes from `at` on that were read ahead; `None` if they have to be read from the
    /// source.
    fn bytes(&mut self, at: Lsn) -> Option<&[u8]> {
        if at == self.next && !self.lanes.is_empty() {
            self.advance();
        }
        let skip = usize::try_from(at.get().checked_sub(self.base.get())?).ok()?;
        let (memory, filled) = &self.piece;
        memory[..*filled].get(skip..).filter(|bytes| !bytes.is_empty())
    }

    fn advance(&mut self) {
        let lane = &self.lanes[self.lane];
        match lane.pieces.recv() {
            Ok(piece) => {
                let (memory, _) = std::mem::replace(&mut self.piece, piece);
                // The lane uses this memory again; a lane that has come to its end needs none.
                drop(lane.used.send(memory));
                self.base = self.next;
                self.next = self.next.plus(PIECE as u64);
                self.lane = (self.lane + 1) % LANES;
            }
            Err(_) => self.stop(),
        }
    }

    fn stop(&mut self) {
        // A lane that cannot hand over its piece ends.
        self.lanes.clear();
        for thread in self.threads.drain(..) {
            // A panic of the thread changes only the speed of reading (rule 1).
            drop(thread.join());
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Reads every [`LANES`]th piece from `from` on, until the end or until the receiver is dropped.
fn read_lane(
    source: &dyn Source,
    from: Lsn,
    to: Lsn,
    pieces: &SyncSender<ReadPiece>,
    memory: &Receiver<AlignedBuffer>,
) {
    let mut at = from;
    while at < to {
        let fresh = || AlignedBuffer::new_zeroed(PIECE);
        let mut buffer = memory.try_iter().find(|buffer| buffer.len() == PIECE).unwrap_or_else(fresh);
        let bytes = usize::try_from(to.since(at)).map_or(PIECE, |left| left.min(PIECE));
        // The lane reads whole blocks; only the first `bytes` bytes count (rule 2).
        let blocks = bytes.next_multiple_of(BLOCK_BYTES as usize);
        let Ok(got) = source.read(at, &mut buffer[..blocks]) else { return };
        if pieces.send((buffer, got.min(bytes))).is_err() || got < bytes {
            return;
        }
        at = at.plus((LANES * PIECE) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use katydid_device::{Cause, Error, Verb};
    use std::collections::HashSet;

    const BLOCK: u64 = BLOCK_BYTES;

    /// A source whose bytes follow from their positions; some blocks cannot be read.
    #[derive(Debug, Default)]
    struct Numbered {
        end: u64,
        unreadable: HashSet<u64>,
        reads: Mutex<Vec<u64>>,
    }

    fn byte(at: u64) -> u8 {
        (at ^ at >> 8 ^ at >> 16) as u8
    }

    impl Source for Numbered {
        fn read(&self, at: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
            self.reads.lock().unwrap().push(at.get());
            let end = (at.get() + buffer.len() as u64).min(self.end);
            if (at.get() / BLOCK..end.div_ceil(BLOCK)).any(|block| self.unreadable.contains(&block)) {
                return Err(Error::new(Verb::Read, "a block".to_owned(), Cause::Crashed));
            }
            let got = end.saturating_sub(at.get()) as usize;
            buffer[..got].iter_mut().zip(at.get()..).for_each(|(place, at)| *place = byte(at));
            Ok(got)
        }

        fn prepared_end(&self) -> Lsn {
            Lsn::new(self.end)
        }

        fn file_name(&self, _: Lsn) -> String {
            "numbered".to_owned()
        }
    }

    fn numbered(end: u64, unreadable: &[u64]) -> Arc<Numbered> {
        Arc::new(Numbered { end, unreadable: unreadable.iter().copied().collect(), ..Numbered::default() })
    }

    /// Reads from `at` on, `step` bytes at a time, up to the end. Returns the position at which it
    /// ended, and the error if there was one.
    fn read_through(source: &dyn Source, mut at: u64, step: usize) -> (u64, Option<Error>) {
        let mut bytes = vec![0; step];
        loop {
            match source.read(Lsn::new(at), &mut bytes) {
                Ok(0) => return (at, None),
                Ok(got) => {
                    assert!(bytes[..got].iter().zip(at..).all(|(found, at)| *found == byte(at)), "at {at}");
                    at += got as u64;
                }
                Err(error) => return (at, Some(error)),
            }
        }
    }

    #[test]
    fn every_byte_is_the_sources_whatever_is_asked_for() {
        let end = 41 * BLOCK + 17;
        for (from, to) in [(0, end), (0, 20 * BLOCK + 1), (3 * BLOCK + 5, 40 * BLOCK), (40 * BLOCK, end)] {
            for step in [100, 5000, PIECE, 3 * PIECE + 1] {
                let ahead = ReadAhead::new(numbered(end, &[]), Lsn::new(from), Lsn::new(to));
                assert_eq!(read_through(&ahead, from / BLOCK * BLOCK, step).0, end);
                // Goes backwards, and reads to the end once more.
                assert_eq!(read_through(&ahead, 2 * BLOCK, step).0, end);
            }
        }
    }

    #[test]
    fn pieces_are_read_once_and_in_turn() {
        let source = numbered(40 * BLOCK, &[]);
        let ahead = ReadAhead::new(source.clone(), Lsn::ZERO, source.prepared_end());
        assert_eq!(read_through(&ahead, 0, 1000).0, 40 * BLOCK);
        drop(ahead);
        let mut reads = source.reads.lock().unwrap().clone();
        reads.sort_unstable();
        reads.retain(|at| *at < 40 * BLOCK);
        let pieces: Vec<u64> = (0..40 * BLOCK).step_by(PIECE).collect();
        assert_eq!(reads, pieces);
    }

    #[test]
    fn what_cannot_be_read_fails_where_it_lies_and_not_before() {
        let source = numbered(40 * BLOCK, &[21]);
        let ahead = ReadAhead::new(source.clone(), Lsn::ZERO, source.prepared_end());
        let (at, error) = read_through(&ahead, 0, 512);
        assert_eq!(at, 21 * BLOCK, "every byte before it was served");
        assert!(error.is_some());
        assert_eq!(read_through(&ahead, 22 * BLOCK, 512).0, 40 * BLOCK, "nor does it harm what follows");
    }

    #[test]
    fn what_changes_beyond_the_end_is_read_again() {
        #[derive(Debug)]
        struct Growing(Mutex<u8>);
        impl Source for Growing {
            fn read(&self, _: Lsn, buffer: &mut [u8]) -> device::Result<usize> {
                buffer.fill(*self.0.lock().unwrap());
                Ok(buffer.len())
            }

            fn prepared_end(&self) -> Lsn {
                Lsn::LIMIT
            }

            fn file_name(&self, _: Lsn) -> String {
                "growing".to_owned()
            }
        }
        let source = Arc::new(Growing(Mutex::new(1)));
        let to = 20 * BLOCK + 100;
        let ahead = ReadAhead::new(source.clone(), Lsn::ZERO, Lsn::new(to));
        let mut bytes = vec![0; to as usize];
        assert_eq!(ahead.read(Lsn::ZERO, &mut bytes).unwrap(), bytes.len());
        assert!(bytes.iter().all(|byte| *byte == 1));
        *source.0.lock().unwrap() = 2;
        assert_eq!(ahead.read(Lsn::new(to), &mut bytes[..50]).unwrap(), 50);
        assert_eq!(bytes[..50], [2; 50], "the rest of the last block was written since");
    }

    #[test]
    fn dropping_it_midway_ends_its_threads() {
        let source = numbered(400 * BLOCK, &[]);
        for read in [0, 1, 3 * PIECE] {
            let ahead = ReadAhead::new(source.clone(), Lsn::ZERO, source.prepared_end());
            let mut bytes = vec![0; read];
            assert_eq!(ahead.read(Lsn::ZERO, &mut bytes).unwrap(), read);
            drop(ahead);
            assert_eq!(Arc::strong_count(&source), 1, "no thread has it any more");
        }
    }
}
