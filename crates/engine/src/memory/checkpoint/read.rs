//! Reading a checkpoint, and locating damage in it.

use super::block::{BLOCK, HEAD, Head, Kind, Malformed, Row, checksum, decode_row};
use super::manifest::{Fault, Identity, MANIFEST, Manifest, PART_HEAD, PartSummary, VERSION, check_part};
use super::{CheckpointFolder, manifest_name, part_name};
use crate::error::{Error, Foreign, Result};
use katydid_device::{AlignedBuffer, File};
use std::sync::Arc;

/// A complete checkpoint. Several threads share a reader, and each thread reads different parts.
#[derive(Debug)]
pub(crate) struct CheckpointReader {
    folder: CheckpointFolder,
    pub(super) identity: Identity,
    manifest: Manifest,
}

impl CheckpointReader {
    pub(super) fn open(folder: CheckpointFolder, identity: Identity) -> Result<Self> {
        let name = manifest_name(identity.number);
        let file = folder.open(&name)?;
        // One byte more than a manifest has, to find out whether the file is too long.
        let mut bytes = AlignedBuffer::new_zeroed(MANIFEST + 1);
        let read = file.read_at(&mut bytes, 0)?;
        let manifest =
            Manifest::decode(&bytes[..read], identity).map_err(|fault| head_fault(fault, &folder, &name))?;
        Ok(CheckpointReader { folder, identity, manifest })
    }

    /// The values of the checkpoint other than its rows.
    pub(crate) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Opens the part that `summary`, from the manifest, describes.
    pub(crate) fn part(&self, summary: PartSummary) -> Result<PartReader> {
        let (name, file) = self.part_file(summary)?;
        let mut head = AlignedBuffer::new_zeroed(PART_HEAD);
        let read = file.read_at(&mut head, 0)?;
        self.check_part_head(&head[..read], &name, summary)?;
        Ok(PartReader {
            file,
            identity: self.identity,
            name,
            summary,
            block: AlignedBuffer::new_zeroed(BLOCK),
            block_at: 0,
            unread: 0..0,
            rows_left: 0,
            next_at: PART_HEAD as u64,
            blocks: 0,
            rows: 0,
            ended: false,
        })
    }

    /// Opens the file of a part, which has as many bytes as the manifest says. Also returns the
    /// name of the file.
    pub(super) fn part_file(&self, summary: PartSummary) -> Result<(String, Arc<dyn File>)> {
        let name = part_name(self.identity.number, summary.part);
        let file = self.folder.open(&name)?;
        let length = file.len()?;
        if length != summary.bytes {
            return Err(corrupt(
                &name,
                length.min(summary.bytes),
                "the file is not as long as the manifest says",
            ));
        }
        Ok((name, file))
    }

    /// Checks that `head` is the head of the part in file `name`.
    pub(super) fn check_part_head(&self, head: &[u8], name: &str, summary: PartSummary) -> Result<()> {
        check_part(head, self.identity, summary.part).map_err(|fault| head_fault(fault, &self.folder, name))
    }
}

pub(super) fn corrupt(file: &str, at: u64, finding: &str) -> Error {
    Error::Corrupt { place: format!("{file} at {at}"), page: None, finding: finding.to_owned() }
}

fn head_fault(fault: Fault, folder: &CheckpointFolder, name: &str) -> Error {
    let what = match fault {
        Fault::Damaged(finding) => return corrupt(name, 0, finding),
        Fault::Newer(found) => Foreign::NewerVersion { file: name.to_owned(), found, known: VERSION },
        Fault::Other => Foreign::Identity(name.to_owned()),
    };
    Error::Foreign { place: folder.directory.describe(), what }
}

/// One part of a checkpoint that is being read; used by one thread.
#[derive(Debug)]
pub(crate) struct PartReader {
    file: Arc<dyn File>,
    identity: Identity,
    name: String,
    summary: PartSummary,
    block: AlignedBuffer,
    block_at: u64,
    /// Range of `block` with the rows that were not yet returned.
    unread: std::ops::Range<usize>,
    rows_left: u32,
    next_at: u64,
    blocks: u32,
    rows: u64,
    ended: bool,
}

impl PartReader {
    /// Returns the next row, in the order in which the rows were written.
    ///
    /// # Errors
    /// `Error::Corrupt` with file and offset. After an error the part must not be read further.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row<'_>>> {
        if !self.has_unread()? {
            return Ok(None);
        }
        let Some(rows_left) = self.rows_left.checked_sub(1) else {
            return Err(self.corrupt("a block has more rows than its head says"));
        };
        let unread = self.unread.clone();
        let before = unread.len();
        match decode_row(&self.block[unread.clone()]) {
            Ok((row, rest)) => {
                self.unread.start += before - rest.len();
                self.rows_left = rows_left;
                self.rows += 1;
                Ok(Some(row))
            }
            Err(Malformed(finding)) => Err(corrupt(&self.name, self.block_at + unread.start as u64, finding)),
        }
    }

    /// Returns the unread rows of the present block or, if it has none, all rows of the next block.
    /// The rows come in the order in which they were written.
    ///
    /// # Errors
    /// Those of [`PartReader::next_row`].
    pub(crate) fn next_rows(&mut self) -> Result<Option<Vec<Row<'_>>>> {
        if !self.has_unread()? {
            return Ok(None);
        }
        let unread = std::mem::take(&mut self.unread);
        let count = std::mem::take(&mut self.rows_left);
        self.rows += u64::from(count);
        let mut rows = Vec::new();
        let mut rest = &self.block[unread.clone()];
        while !rest.is_empty() {
            let at = self.block_at + (unread.end - rest.len()) as u64;
            let (row, behind) =
                decode_row(rest).map_err(|Malformed(finding)| corrupt(&self.name, at, finding))?;
            rows.push(row);
            rest = behind;
        }
        if rows.len() != count as usize {
            return Err(self.corrupt("a block has more or fewer rows than its head says"));
        }
        Ok(Some(rows))
    }

    /// Reads blocks until one has an unread row. Returns false at the end of the part.
    fn has_unread(&mut self) -> Result<bool> {
        while self.unread.is_empty() {
            if self.rows_left > 0 {
                return Err(self.corrupt("a block has fewer rows than its head says"));
            }
            if self.ended || !self.read_block()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn corrupt(&self, finding: &str) -> Error {
        corrupt(&self.name, self.block_at, finding)
    }

    /// Reads the next block. Returns true if it is a block of rows, and false if it is the end
    /// block.
    fn read_block(&mut self) -> Result<bool> {
        self.block_at = self.next_at;
        let left = self.summary.bytes.saturating_sub(self.block_at);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK);
        let read = self.file.read_at(&mut self.block[..wanted], self.block_at)?;
        let head = Head::decode(&self.block[..read], self.identity)
            .map_err(|Malformed(finding)| self.corrupt(finding))?;
        if (head.part, head.number) != (self.summary.part, self.blocks) {
            return Err(self.corrupt("the block belongs to another part or place"));
        }
        let bytes = head.block_bytes();
        if bytes as u64 > left {
            return Err(self.corrupt("a block is cut off"));
        }
        if bytes > read {
            // This is the block of a long row. Its length can be trusted: the head's checksum
            // covers the length, and the file is long enough.
            if bytes > self.block.len() {
                let mut longer = AlignedBuffer::new_zeroed(bytes);
                longer[..read].copy_from_slice(&self.block[..read]);
                self.block = longer;
            }
            let more = self.file.read_at(&mut self.block[read..bytes], self.block_at + read as u64)?;
            if more < bytes - read {
                return Err(self.corrupt("a block is cut off"));
            }
        }
        let payload = HEAD..HEAD + head.payload_bytes as usize;
        if checksum(&self.block[payload.clone()]) != head.payload_sum {
            return Err(self.corrupt("a block has a wrong checksum"));
        }
        self.next_at += bytes as u64;
        self.blocks += 1;
        match head.kind {
            Kind::Rows => {
                self.rows_left = head.rows;
                self.unread = payload;
                Ok(true)
            }
            Kind::End => self.end(payload).map(|()| false),
        }
    }

    /// Checks the end block: that no row is missing, and that the file ends here.
    fn end(&mut self, payload: std::ops::Range<usize>) -> Result<()> {
        self.ended = true;
        let rows = self.rows.to_le_bytes();
        if self.block[payload] != rows || self.rows != self.summary.rows {
            return Err(self.corrupt("the number of rows is not that of the end block and the manifest"));
        }
        if self.next_at != self.summary.bytes {
            return Err(self.corrupt("there are bytes behind the end block"));
        }
        Ok(())
    }
}
