//! Truncating a stream: dropping the records of its suffix so that no crash brings them back.
//!
//! Any thread may call this code; one truncation or trim of a stream runs at a time. A truncation
//! appends a record that names the range of positions to be dropped, and waits until the record is
//! durable. `truncated.rs` says how readers treat the range; `docs/adr/0052-truncating-a-suffix.md`
//! says why the end of the log does not move back. Invariants:
//!
//! 1. The control file says that the log may have such records before the first one is appended. A
//!    program that does not know these records refuses the log.
//! 2. The records of the suffix that are kept are appended again above the range and below the
//!    record that drops the range. A crash therefore leaves the suffix, or the kept records.
//! 3. The range ends at a barrier of the inserter. So the range contains every record whose append
//!    returned before the barrier, and no record whose append begins after the barrier.
//!
//! If a crash comes before the record that drops the range is durable, the suffix remains, perhaps
//! with the kept records above it. If it comes later, the log is truncated.

use crate::append::{Append, Appended};
use crate::core::locked;
use crate::error::{Error, ReadError, Result};
use crate::stream::Stream;
use crate::truncated::Range;
use katydid_kernels::durability::Durability;
use katydid_kernels::lsn::Lsn;

/// A durable truncation. See [`Stream::truncate_after`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Truncation {
    /// Start of the dropped records.
    pub from: Lsn,
    /// Exclusive end of the dropped records.
    pub to: Lsn,
    /// Positions of the kept records, in their order. All are at `to` or above.
    pub kept: Vec<Appended>,
}

impl Stream {
    /// Drops every record whose LSN is `position` or above and that was appended before this call.
    /// `position` is the LSN of the first record to drop ([`Appended::lsn`]), the end of the last
    /// record to keep, or [`Stream::durable`]. The truncation is durable when this returns: no
    /// crash brings a dropped record back. The call blocks for a sync, so it should be rare.
    ///
    /// The records of `kept` are appended in the same step: after a crash either no record is
    /// dropped, or all of them are dropped and the kept records exist. `kept` is for records that
    /// must survive the truncation. An example is the vote of a Raft log, if the last copy of the
    /// vote is among the dropped records.
    ///
    /// Positions are not used again: the next record starts above everything that was dropped.
    /// Readers pass over dropped records, and [`Stream::read`] returns [`ReadError::Truncated`] for
    /// them. A follower that has returned such a record gets that error once ([`Stream::follow`]).
    /// Pins and named consumers stay where they are. The space becomes free when the log is trimmed
    /// above the dropped records.
    ///
    /// A record that another thread is appending at the same time may be dropped or not.
    ///
    /// ```
    /// use katydid_wal::{Append, Durability, Kind, Log, Options};
    /// # use katydid_device::SimDevice;
    /// # let directory = SimDevice::new(1).directory();
    /// let log = Log::open_in(directory, Options::default())?;
    /// let (stream, mut session) = (log.first(), log.session()?);
    /// let mut entries = Vec::new();
    /// for entry in ["one", "two", "three"] {
    ///     entries.push(session.append(&Append::new(Kind::USER, &[entry.as_bytes()]))?);
    /// }
    /// stream.truncate_after(entries[0].end, &[])?;
    /// session.append(&Append::new(Kind::USER, &[b"another second"]))?;
    /// let payloads: Vec<_> = stream.reader(stream.start())?.map(|record| record.map(|record| record.payload)).collect::<Result<_, _>>()?;
    /// assert_eq!(payloads, [&b"one"[..], b"another second"]);
    /// # log.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NotTruncatable`] unless the log is in files and has one stream. [`Error::Closed`],
    /// and [`Error::Device`] if the control file cannot be written. [`Error::BeyondEnd`] if
    /// `position` is beyond the end of the log. [`Error::Read`] with [`ReadError::Trimmed`], with
    /// [`ReadError::Corrupt`] if no record starts at `position`, with [`ReadError::Truncated`] if
    /// `position` lies in a part that was dropped before, or with [`ReadError::Device`]. The errors
    /// of [`Session::append`](crate::Session::append) for `kept`, after which the first records of
    /// `kept` may be in the log. [`Error::Poisoned`]: the next opening decides whether the records
    /// were dropped.
    pub fn truncate_after(&self, position: Lsn, kept: &[Append<'_>]) -> Result<Truncation> {
        let core = self.core();
        let streams = self.log().streams.len();
        if streams != 1 || !core.medium.is_truncatable() {
            return Err(Error::NotTruncatable { kind: core.medium.kind(), streams });
        }
        core.check_appendable()?;
        let _turn = locked(&core.truncations.turn);
        self.check_truncation(position)?;
        // The control file allows such records before the first one is appended (invariant 1).
        core.medium.allow_truncations()?;
        // The barrier is the end of the range (invariant 3).
        let range = Range { from: position, to: self.barrier() };
        let (kept, end) = core.append_truncation(range, kept)?;
        self.wait(end, Durability::Durable)?;
        core.settle(end);
        if range.from < range.to {
            core.truncations.add(range);
        }
        Ok(Truncation { from: range.from, to: range.to, kept })
    }

    /// Fails unless the stream may be truncated at `position`.
    fn check_truncation(&self, position: Lsn) -> Result<()> {
        let core = self.core();
        self.wait(position, Durability::Durable)?;
        self.check_cut(position)?;
        // `position` may be the beginning of a range that was dropped before, because the new range
        // then contains that range. `position` may also be the end of such a range.
        match core.truncations.dropping(position) {
            Some(range) if range.from < position => {
                let Range { from, to } = range;
                Err(ReadError::Truncated { at: position, from, to }.into())
            }
            _ => Ok(()),
        }
    }
}
