//! The handles of named consumers: making, listing, acknowledging and forgetting them. Their stored
//! form is in `consumers`.
//!
//! Any thread may call this code.

use crate::consumers::{ConsumerPlace, OpenConsumer};
use crate::core::locked;
use crate::error::{Error, ReadError};
use crate::log::Log;
use crate::stream::Stream;
use katydid_kernels::lsn::Lsn;

/// Longest name in bytes.
const NAME_BYTES_MAX: usize = 64;

/// A consumer of a log, as [`Log::consumers`] lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConsumerStat {
    /// The consumer's name.
    pub name: String,
    /// The greatest number that the consumer has given with a position.
    pub mark: u64,
    /// The acknowledged position in each stream.
    pub from: Vec<Lsn>,
    /// Maximum number of bytes that the consumer may be behind the end of the log.
    pub bytes_max: u64,
    /// Number of bytes that the consumer is behind the end of the log, over all streams.
    pub behind: u64,
    /// True if the consumer was too far behind, so that the log was trimmed above its position.
    pub is_lost: bool,
}

/// A named consumer of a log. Made by [`Log::consumer`]. Dropping the handle does not remove the
/// consumer: the consumer pins the log until [`Log::remove_consumer`].
#[derive(Debug, Clone)]
pub struct Consumer {
    log: Log,
    name: String,
}

impl Log {
    /// Returns the consumer of this name; if there is none, makes one that begins at `from`. A
    /// consumer pins the log from its position on, in this and every later opening, up to
    /// `bytes_max` bytes behind the end of the log (see [`Log::pin`]). The consumer is durable when
    /// this returns.
    ///
    /// Each position in `from` is the start of a record, or
    /// [`Stream::durable`](crate::Stream::durable). `mark` is a number chosen by the caller, and
    /// stored with the positions.
    ///
    /// ```
    /// use katydid_wal::{Append, Kind, Log, Options};
    /// # use katydid_device::SimDevice;
    /// # let directory = SimDevice::new(1).directory();
    /// let log = Log::open_in(directory, Options::default())?;
    /// let start = log.first().start();
    /// let consumer = log.consumer("follower", 1 << 30, 0, &[start])?;
    /// log.session()?.append(&Append::new(Kind::USER, &[b"record"]))?;
    /// log.sync()?;
    /// let mut follower = log.first().follow(consumer.stat()?.from[0])?;
    /// while let Some(record) = follower.try_next()? {
    ///     println!("{record:?}");
    /// }
    /// consumer.acknowledge(1, &[follower.position()])?;
    /// # log.close()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ConsumerName`] unless the name has 1 to 64 lower-case letters, digits, `-` and `_`.
    /// If the call makes the consumer, also the errors of [`Log::pin`], [`Error::Poisoned`],
    /// [`Error::Closed`] and [`Error::Device`].
    ///
    /// # Panics
    /// If `from` does not have a position for each stream.
    pub fn consumer(&self, name: &str, bytes_max: u64, mark: u64, from: &[Lsn]) -> Result<Consumer, Error> {
        let is_letter = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_');
        if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(is_letter) {
            return Err(Error::ConsumerName { name: name.to_owned() });
        }
        let consumers = &self.inside().consumers;
        let mut kept = locked(&consumers.kept);
        if !kept.contains_key(name) {
            let pin = self.pin(from, bytes_max)?;
            let place = ConsumerPlace { seq: 1, bytes_max, mark, from: from.to_vec() };
            let file = consumers.create(name, &place)?;
            kept.insert(name.to_owned(), OpenConsumer { file, place, pin });
        }
        Ok(Consumer { log: self.clone(), name: name.to_owned() })
    }

    /// Returns the consumers, sorted by name.
    pub fn consumers(&self) -> Vec<ConsumerStat> {
        let kept = locked(&self.inside().consumers.kept);
        kept.iter().map(|(name, kept)| self.stat_of(name, kept)).collect()
    }

    fn stat_of(&self, name: &str, kept: &OpenConsumer) -> ConsumerStat {
        let ConsumerPlace { bytes_max, mark, ref from, .. } = kept.place;
        let ends = self.inside().ends();
        ConsumerStat {
            name: name.to_owned(),
            mark,
            from: from.clone(),
            bytes_max,
            behind: from.iter().zip(&ends).map(|(from, end)| end.since(*from)).sum(),
            is_lost: !kept.pin.is_held(),
        }
    }

    /// Removes the consumer of this name, and returns whether there was one. The removal is durable
    /// when this returns. The next trim of the log drops the part that only this consumer retained.
    ///
    /// # Errors
    /// [`Error::Poisoned`], [`Error::Closed`], [`Error::Device`].
    pub fn remove_consumer(&self, name: &str) -> Result<bool, Error> {
        let consumers = &self.inside().consumers;
        let mut kept = locked(&consumers.kept);
        if !kept.contains_key(name) {
            return Ok(false);
        }
        consumers.remove(name)?;
        kept.remove(name);
        Ok(true)
    }
}

impl Consumer {
    /// Returns the consumer's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the consumer's position and state.
    ///
    /// # Errors
    /// [`Error::ConsumerGone`] if the consumer was removed.
    pub fn stat(&self) -> Result<ConsumerStat, Error> {
        let kept = locked(&self.log.inside().consumers.kept);
        let kept = kept.get(&self.name).ok_or_else(|| self.gone())?;
        Ok(self.log.stat_of(&self.name, kept))
    }

    /// Returns the error for a lost consumer at positions `from`. The error names a stream that was
    /// trimmed above the consumer's position.
    fn lost(&self, from: &[Lsn]) -> ReadError {
        let starts = self.log.streams().iter().map(Stream::start);
        let mut trimmed = from.iter().copied().zip(starts).filter(|(at, start)| at < start);
        let (at, start) = trimmed.next().unwrap_or((from[0], self.log.first().start()));
        ReadError::Trimmed { at, start }
    }

    fn gone(&self) -> Error {
        Error::ConsumerGone { name: self.name.clone() }
    }

    /// Moves the consumer to `from`: the consumer does not need the log below `from` any more.
    /// `mark` is stored with `from`, unless the stored mark is greater. The move is durable when
    /// this returns. In a stream whose position in `from` is below the consumer's position, the
    /// consumer's position stays.
    ///
    /// # Errors
    /// [`Error::Read`] with [`ReadError::Trimmed`] if the consumer is lost, [`Error::ConsumerGone`]
    /// if the consumer was removed, the errors of [`Log::pin`], [`Error::Poisoned`],
    /// [`Error::Closed`], [`Error::Device`].
    ///
    /// # Panics
    /// If `from` does not have a position for each stream.
    pub fn acknowledge(&self, mark: u64, from: &[Lsn]) -> Result<(), Error> {
        assert_eq!(from.len(), self.log.streams().len(), "a position for each stream");
        let consumers = &self.log.inside().consumers;
        let mut all = locked(&consumers.kept);
        let kept = all.get_mut(&self.name).ok_or_else(|| self.gone())?;
        if !kept.pin.is_held() {
            return Err(self.lost(&kept.place.from).into());
        }
        let from: Vec<Lsn> = from.iter().zip(&kept.place.from).map(|(new, old)| *new.max(old)).collect();
        // The new pin is set before the old one is dropped, so the log keeps everything from `from`
        // on.
        let pin = self.log.pin(&from, kept.place.bytes_max)?;
        let place =
            ConsumerPlace { seq: kept.place.seq + 1, mark: mark.max(kept.place.mark), from, ..kept.place };
        consumers.write(kept.file.as_ref(), &place)?;
        (kept.place, kept.pin) = (place, pin);
        Ok(())
    }
}
