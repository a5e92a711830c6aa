//! Writing a checkpoint: first the parts, each by one thread, then the manifest.

use super::block::{ALIGN, BLOCK, HEAD, Head, Kind, PAYLOAD_MAX, Row, checksum};
use super::manifest::{Identity, MANIFEST, Manifest, PART_HEAD, PARTS_MAX, PartSummary, encode_part};
use super::{CheckpointFolder, manifest_name, part_name};
use crate::error::{Error, Result};
use katydid_device::{AlignedBuffer, Create, Directory, File, Method, WriteMode};
use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum bytes that are prepared ahead in one step.
const PREPARE: u64 = 16 << 20;

/// A checkpoint that is being written. Several threads share a writer, and each thread writes
/// different parts.
#[derive(Debug)]
pub(crate) struct CheckpointWriter {
    folder: CheckpointFolder,
    identity: Identity,
    /// Number of parts begun. Relaxed, because it only has to give each part a different number.
    parts: AtomicU32,
}

impl CheckpointWriter {
    pub(super) fn new(folder: CheckpointFolder, identity: Identity) -> Self {
        CheckpointWriter { folder, identity, parts: AtomicU32::new(0) }
    }

    /// Begins the next part.
    pub(crate) fn part(&self) -> Result<PartWriter> {
        PartWriter::create(&self.folder, self.identity, self.next_part()?)
    }

    /// Creates the file of the next part, whose blocks are copied from another checkpoint. Returns
    /// the file, and the checkpoint and number of the part.
    pub(super) fn copied_part(&self) -> Result<(Arc<dyn File>, Identity, u32)> {
        let part = self.next_part()?;
        let name = part_name(self.identity.number, part);
        let file = self.folder.directory.open(&name, Create::New, self.folder.method)?;
        Ok((file, self.identity, part))
    }

    fn next_part(&self) -> Result<u32> {
        let part = self.parts.fetch_add(1, Ordering::Relaxed);
        if part as usize >= PARTS_MAX {
            return Err(Error::Internal("a checkpoint of too many parts"));
        }
        Ok(part)
    }

    /// Writes the manifest. `manifest.parts` must be all parts that were begun, in any order, and
    /// each part must be finished. When this returns, the checkpoint is durable and complete. The
    /// checkpoint is valid only after the control file names it.
    pub(crate) fn finish(self, mut manifest: Manifest) -> Result<()> {
        manifest.parts.sort_by_key(|part| part.part);
        let begun = self.parts.into_inner();
        if !manifest.parts.iter().map(|part| part.part).eq(0..begun) || !manifest.fits() {
            return Err(Error::Internal("a checkpoint's manifest lacks a part, or is too long"));
        }
        let (directory, method) = (self.folder.directory.as_ref(), self.folder.method);
        let file = create(directory, &manifest_name(self.identity.number), method)?;
        prepare(file.as_ref(), 0, MANIFEST as u64)?;
        let mut bytes = AlignedBuffer::new_zeroed(MANIFEST);
        manifest.encode(&mut bytes, self.identity);
        file.write_at(&[IoSlice::new(&bytes)], 0, WriteMode::Durable)?;
        file.sync()?;
        // This sync makes the names of the manifest and of the parts durable.
        directory.sync()?;
        Ok(())
    }
}

fn create(directory: &dyn Directory, name: &str, method: Method) -> Result<Arc<dyn File>> {
    directory.open(name, Create::New, method).map_err(no_space)
}

fn prepare(file: &dyn File, from: u64, to: u64) -> Result<()> {
    file.prepare(from, to).map_err(no_space)
}

fn no_space(error: katydid_device::Error) -> Error {
    match error.is_no_space_ahead() {
        true => Error::NoSpace { what: "a checkpoint".to_owned() },
        false => error.into(),
    }
}

/// One part of a checkpoint that is being written; used by one thread.
#[derive(Debug)]
pub(crate) struct PartWriter {
    file: Arc<dyn File>,
    identity: Identity,
    part: u32,
    block: AlignedBuffer,
    /// Bytes of `block` in use, including its head.
    used: usize,
    rows_in_block: u32,
    blocks: u32,
    rows: u64,
    /// Offset of the next block.
    at: u64,
    /// The file is prepared up to this offset. So no write fails because the device is full; such a
    /// failure would shut the gate.
    prepared: u64,
}

impl PartWriter {
    fn create(folder: &CheckpointFolder, identity: Identity, part: u32) -> Result<Self> {
        let name = part_name(identity.number, part);
        let file = create(folder.directory.as_ref(), &name, folder.method)?;
        let mut writer = PartWriter {
            file,
            identity,
            part,
            block: AlignedBuffer::new_zeroed(BLOCK),
            used: HEAD,
            rows_in_block: 0,
            blocks: 0,
            rows: 0,
            at: PART_HEAD as u64,
            prepared: 0,
        };
        writer.make_room(PART_HEAD as u64)?;
        let mut head = AlignedBuffer::new_zeroed(PART_HEAD);
        encode_part(&mut head, identity, part);
        writer.file.write_at(&[IoSlice::new(&head)], 0, WriteMode::Written)?;
        Ok(writer)
    }

    /// Adds a row. Key and value have lengths that the store allows.
    pub(crate) fn push(&mut self, row: &Row<'_>) -> Result<()> {
        let length = row.encoded_len();
        debug_assert!(length <= PAYLOAD_MAX);
        if self.used + length > self.block.len() {
            if self.rows_in_block > 0 {
                self.write_block(Kind::Rows)?;
            }
            if HEAD + length > self.block.len() {
                self.block = AlignedBuffer::new_zeroed((HEAD + length).next_multiple_of(ALIGN));
            }
        }
        self.used += row.encode(&mut self.block[self.used..]);
        self.rows_in_block += 1;
        self.rows += 1;
        if self.block.len() > BLOCK {
            // This row needs a block of its own: a second row might make the payload longer than
            // `PAYLOAD_MAX`.
            self.write_block(Kind::Rows)?;
        }
        Ok(())
    }

    /// Ends the part. Its contents are durable when this returns; its name is not yet durable.
    pub(crate) fn finish(mut self) -> Result<PartSummary> {
        if self.rows_in_block > 0 {
            self.write_block(Kind::Rows)?;
        }
        self.block[HEAD..HEAD + 8].copy_from_slice(&self.rows.to_le_bytes());
        self.used = HEAD + 8;
        self.write_block(Kind::End)?;
        if self.prepared > self.at {
            self.file.truncate(self.at)?;
        }
        self.file.sync()?;
        Ok(PartSummary { part: self.part, rows: self.rows, bytes: self.at })
    }

    fn write_block(&mut self, kind: Kind) -> Result<()> {
        let head = Head {
            kind,
            part: self.part,
            number: self.blocks,
            payload_bytes: (self.used - HEAD) as u32,
            rows: self.rows_in_block,
            payload_sum: checksum(&self.block[HEAD..self.used]),
        };
        head.encode(&mut self.block, self.identity);
        let bytes = head.block_bytes();
        self.block[self.used..bytes].fill(0);
        self.make_room(self.at + bytes as u64)?;
        self.file.write_at(&[IoSlice::new(&self.block[..bytes])], self.at, WriteMode::Written)?;
        self.at += bytes as u64;
        self.blocks += 1;
        self.rows_in_block = 0;
        self.used = HEAD;
        if self.block.len() > BLOCK {
            self.block = AlignedBuffer::new_zeroed(BLOCK);
        }
        Ok(())
    }

    fn make_room(&mut self, to: u64) -> Result<()> {
        if to > self.prepared {
            // Steps are small at first, because most parts of a small database are small.
            let to = to.max(self.prepared + self.prepared.min(PREPARE));
            prepare(self.file.as_ref(), self.prepared, to)?;
            self.prepared = to;
        }
        Ok(())
    }
}
