//! Copying the parts of a checkpoint to another database, block by block.
//!
//! Blocks are copied as they are, except for their heads: each head is bound to the id of its
//! database, so it is made anew. The reading thread compares the checksums of all heads and
//! payloads, so it finds damage in the source. It does not decode rows.

use super::block::{HEAD, Head, Kind, Malformed, checksum};
use super::manifest::{Identity, Manifest, PART_HEAD, PartSummary, encode_part};
use super::read::{CheckpointReader, corrupt};
use super::write::CheckpointWriter;
use crate::copy::{Chunk, ReadChunks, copy_chunks};
use crate::error::Result;
use katydid_device::{AlignedBuffer, File, WriteMode};
use katydid_wal::Background;
use std::io::IoSlice;
use std::sync::Arc;

/// A part whose blocks come from another checkpoint; used by one thread.
#[derive(Debug)]
struct CopiedPart {
    file: Arc<dyn File>,
    identity: Identity,
    part: u32,
}

impl CopiedPart {
    /// Writes blocks that [`PartBlocks`] has read for this part.
    fn write(&self, chunk: &Chunk) -> Result<()> {
        let blocks = IoSlice::new(&chunk.buffer[..chunk.bytes]);
        Ok(self.file.write_at(&[blocks], chunk.offset, WriteMode::Written)?)
    }

    /// Ends the part, which has all blocks of the part that `source` describes. Its contents are
    /// durable when this returns; its name is not yet durable.
    fn finish(self, source: PartSummary) -> Result<PartSummary> {
        self.file.sync()?;
        Ok(PartSummary { part: self.part, ..source })
    }
}

/// The blocks of a part, read for a copy.
#[derive(Debug, Clone)]
struct PartBlocks<'a> {
    reader: &'a CheckpointReader,
    file: Arc<dyn File>,
    name: String,
    summary: PartSummary,
    /// The checkpoint of the copy.
    copy_identity: Identity,
    /// Number of the part in the copy.
    copy_part: u32,
    /// Offset of the next block, or 0 before the part's head was read.
    next_at: u64,
    blocks: u32,
    rows: u64,
    ended: bool,
}

impl CheckpointReader {
    /// Copies all parts and the manifest to `writer`, whose checkpoint has no part yet. When this
    /// returns, the copy is durable and complete. Calls `step` with the number of bytes of each
    /// piece after the piece is copied; an error of `step` ends the copying.
    ///
    /// # Errors
    /// The errors of `step`; `Error::Corrupt` with file and offset; `Error::Foreign`;
    /// `Error::Device`.
    pub(crate) fn copy(
        &self,
        writer: CheckpointWriter,
        background: Background,
        step: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let mut parts = Vec::with_capacity(self.manifest().parts.len());
        for summary in &self.manifest().parts {
            let (file, identity, part) = writer.copied_part()?;
            let copy = CopiedPart { file, identity, part };
            let write = |chunk: &mut Chunk| {
                copy.write(chunk)?;
                step(chunk.bytes as u64)
            };
            copy_chunks(self.blocks(*summary, &copy)?, write, background)?;
            parts.push(copy.finish(*summary)?);
        }
        writer.finish(Manifest { parts, ..self.manifest().clone() })
    }

    /// Opens the part that `summary`, from the manifest, describes, for a copy to `copy`.
    fn blocks(&self, summary: PartSummary, copy: &CopiedPart) -> Result<PartBlocks<'_>> {
        let (name, file) = self.part_file(summary)?;
        Ok(PartBlocks {
            reader: self,
            file,
            name,
            summary,
            copy_identity: copy.identity,
            copy_part: copy.part,
            next_at: 0,
            blocks: 0,
            rows: 0,
            ended: false,
        })
    }
}

impl ReadChunks for PartBlocks<'_> {
    /// Reads the next blocks, and the part's head before the first block.
    ///
    /// # Errors
    /// `Error::Corrupt` with file and offset, `Error::Foreign` for the head of another part.
    fn read(&mut self, mut buffer: AlignedBuffer) -> Result<Option<Chunk>> {
        let offset = self.next_at;
        let left = self.summary.bytes - offset;
        if self.ended {
            return Ok(None);
        }
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let mut read = self.file.read_at(&mut buffer[..wanted], offset)?;
        let mut at = 0;
        if offset == 0 {
            let head = &buffer[..read.min(PART_HEAD)];
            self.reader.check_part_head(head, &self.name, self.summary)?;
            encode_part(&mut buffer[..PART_HEAD], self.copy_identity, self.copy_part);
            at = PART_HEAD;
        }
        while !self.ended && (at == 0 || at < read) {
            let head = Head::decode(&buffer[at..read], self.reader.identity);
            let head = head.map_err(|Malformed(finding)| self.corrupt(at, finding))?;
            if (head.part, head.number) != (self.summary.part, self.blocks) {
                return Err(self.corrupt(at, "the block belongs to another part or place"));
            }
            let end = at + head.block_bytes();
            if end as u64 > left {
                return Err(self.corrupt(at, "a block is cut off"));
            }
            if end > read {
                if at > 0 {
                    break;
                }
                // This is the block of a long row. Its length can be trusted: the head's checksum
                // covers the length, and the file is long enough.
                let mut longer = AlignedBuffer::new_zeroed(end.max(buffer.len()));
                read = self.file.read_at(&mut longer[..end], offset)?;
                buffer = longer;
                if read < end {
                    return Err(self.corrupt(at, "a block is cut off"));
                }
            }
            self.take(&head, &mut buffer[at..end], at, left - end as u64)?;
            at = end;
        }
        self.next_at += at as u64;
        Ok(Some(Chunk { buffer, bytes: at, offset }))
    }
}

impl PartBlocks<'_> {
    /// Checks the block with this head, and makes it a block of the copy. It lies `at` bytes behind
    /// `next_at`, and `behind` bytes of the part's file follow it.
    fn take(&mut self, head: &Head, block: &mut [u8], at: usize, behind: u64) -> Result<()> {
        let end = HEAD + head.payload_bytes as usize;
        let payload = &block[HEAD..end];
        if checksum(payload) != head.payload_sum {
            return Err(self.corrupt(at, "a block has a wrong checksum"));
        }
        match head.kind {
            Kind::Rows => self.rows += u64::from(head.rows),
            Kind::End => {
                self.ended = true;
                if payload != self.rows.to_le_bytes() || self.rows != self.summary.rows {
                    let finding = "the number of rows is not that of the end block and the manifest";
                    return Err(self.corrupt(at, finding));
                }
                if behind > 0 {
                    return Err(self.corrupt(at, "there are bytes behind the end block"));
                }
            }
        }
        block[end..].fill(0);
        Head { part: self.copy_part, ..*head }.encode(block, self.copy_identity);
        self.blocks += 1;
        Ok(())
    }

    fn corrupt(&self, at: usize, finding: &str) -> crate::Error {
        corrupt(&self.name, self.next_at + at as u64, finding)
    }
}
