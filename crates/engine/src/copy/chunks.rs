//! Copying files in chunks: one thread reads and checks a chunk while another thread writes the
//! chunk before it. So the source and the device of the copy work at the same time.
//!
//! Invariant: the reading thread has ended when [`copy_chunks`] returns, also after an error.

use crate::error::{Error, Result};
use katydid_device::AlignedBuffer;
use katydid_wal::Background;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;

/// Bytes that are read and written with one call, unless a part that must be read whole needs more.
pub(crate) const CHUNK: usize = 1 << 20;

/// Number of chunks that are read ahead of the chunk that is written.
const CHUNKS_AHEAD: usize = 2;

/// Bytes that were read and checked, as the copy has them.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) buffer: AlignedBuffer,
    /// Number of bytes of `buffer` to be written.
    pub(crate) bytes: usize,
    /// Offset of these bytes in the file of the copy.
    pub(crate) offset: u64,
}

/// The reading side of [`copy_chunks`].
pub(crate) trait ReadChunks: Clone + Send {
    /// Reads the next chunk into `buffer`, which has at least [`CHUNK`] bytes; `None` after the
    /// last chunk. The chunk may have a longer buffer instead of `buffer`.
    fn read(&mut self, buffer: AlignedBuffer) -> Result<Option<Chunk>>;

    /// Reads all chunks into the buffers that `spare` gives. Ends early if the writing side has
    /// dropped its ends of the channels.
    fn run(mut self, spare: &Receiver<AlignedBuffer>, filled: &SyncSender<Result<Option<Chunk>>>) {
        while let Ok(buffer) = spare.recv() {
            let chunk = self.read(buffer);
            let over = !matches!(chunk, Ok(Some(_)));
            if filled.send(chunk).is_err() || over {
                return;
            }
        }
    }
}

/// Passes all chunks of `reader` to `write`, in the order in which they are read.
///
/// With `Background::Threads` a second thread reads up to [`CHUNKS_AHEAD`] chunks ahead of the
/// chunk that the caller writes. If this thread cannot be started, the caller itself reads.
///
/// # Errors
/// The first error of `reader` or `write`. The chunks before it were written.
pub(crate) fn copy_chunks(
    reader: impl ReadChunks,
    mut write: impl FnMut(&mut Chunk) -> Result<()>,
    background: Background,
) -> Result<()> {
    let buffer = || AlignedBuffer::new_zeroed(CHUNK);
    if background == Background::Threads {
        let reader = reader.clone();
        let outcome = thread::scope(|scope| {
            let (filled, chunks) = sync_channel(CHUNKS_AHEAD);
            let (give_back, spare) = channel();
            let thread = thread::Builder::new().name("katydid-copy".to_owned());
            let thread = thread.spawn_scoped(scope, move || reader.run(&spare, &filled)).ok()?;
            // The chunk that is written and those read ahead each have a buffer.
            for _ in 0..=CHUNKS_AHEAD {
                let _ended = give_back.send(buffer());
            }
            // The call drops the channels, so the reading thread ends at its next use of a channel.
            let written = write_chunks(&mut write, chunks, give_back);
            Some(thread.join().map_or(Err(Error::Internal(PANICKED)), |()| written))
        });
        if let Some(outcome) = outcome {
            return outcome;
        }
    }
    let (mut reader, mut spare) = (reader, buffer());
    while let Some(mut chunk) = reader.read(spare)? {
        write(&mut chunk)?;
        spare = chunk.buffer;
    }
    Ok(())
}

const PANICKED: &str = "the thread that reads the chunks of a copy panicked";

/// Writes the chunks that the reading thread sends, and gives their buffers back to it.
fn write_chunks(
    write: &mut impl FnMut(&mut Chunk) -> Result<()>,
    chunks: Receiver<Result<Option<Chunk>>>,
    give_back: Sender<AlignedBuffer>,
) -> Result<()> {
    loop {
        match chunks.recv() {
            Ok(Ok(Some(mut chunk))) => {
                write(&mut chunk)?;
                // The send fails after the last chunk, when the reading thread has ended.
                let _ended = give_back.send(chunk.buffer);
            }
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(Error::Internal(PANICKED)),
        }
    }
}
