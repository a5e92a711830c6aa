//! One file of a striped set.
//!
//! `others` is empty for as long as this handle knows of no parts. Another handle may make parts
//! for the file. So every call that could reach parts looks at the header first. Accesses within
//! the first unit look at no header, because the bytes of that unit stay in directory 0.

use super::label::HEADER_BYTES;
use super::layout::FILE_BYTES_MAX;
use super::set::Set;
use crate::directory::{Advice, File, Method, WriteMode};
use crate::error::{Error, Result, Verb};
use std::io::{self, IoSlice};
use std::sync::{Arc, OnceLock};

#[derive(Debug)]
pub(super) struct StripedFile {
    set: Arc<Set>,
    /// The file in directory 0: a header, then this directory's part.
    first: Arc<dyn File>,
    /// Files in the other directories. Set once, by any thread, after all of them were opened.
    others: OnceLock<Vec<Arc<dyn File>>>,
    /// The method that was asked for; `None` if the file was opened for reading only.
    method: Option<Method>,
}

/// The part of a write that goes to one directory.
struct Share<'a> {
    nth: usize,
    offset: u64,
    parts: Vec<IoSlice<'a>>,
}

impl StripedFile {
    pub(super) fn new(set: Arc<Set>, first: Arc<dyn File>, method: Option<Method>) -> Result<Self> {
        let parts = match set.directories.len() {
            1 => None,
            _ => set.parts_of_opened(&*first, method)?,
        };
        let others = parts.map_or_else(OnceLock::new, OnceLock::from);
        Ok(StripedFile { set, first, others, method })
    }

    /// Returns the parts in the other directories, if the file has any. Looks at the header if this
    /// handle knows of none.
    fn look(&self) -> Result<Option<&[Arc<dyn File>]>> {
        if self.others.get().is_none()
            && self.set.directories.len() > 1
            && let Some(parts) = self.set.parts_of(&*self.first, self.method)?
        {
            self.others.get_or_init(|| parts);
        }
        Ok(self.others.get().map(Vec::as_slice))
    }

    /// Returns whether bytes up to `end` can lie in directories besides the first. Makes the parts,
    /// if the file has none, before it returns true.
    fn is_spread(&self, end: u64, verb: Verb) -> Result<bool> {
        if self.others.get().is_some() {
            return Ok(true);
        }
        let method = match self.method {
            Some(method) if end > self.set.layout.unit && self.set.directories.len() > 1 => method,
            _ => return Ok(false),
        };
        let parts = self.set.make_parts(&*self.first, method, verb)?;
        self.others.get_or_init(|| parts);
        Ok(true)
    }

    /// Returns the file in directory `nth`, and the offset at which its part begins.
    fn part(&self, nth: usize) -> (&Arc<dyn File>, u64) {
        match (nth.checked_sub(1), self.others.get()) {
            (Some(other), Some(others)) => (&others[other], 0),
            _ => (&self.first, HEADER_BYTES),
        }
    }

    /// Returns all parts that this handle knows of, the first directory's included.
    fn parts(&self) -> impl Iterator<Item = &Arc<dyn File>> {
        std::iter::once(&self.first).chain(self.others.get().into_iter().flatten())
    }

    /// Runs `call` on all parts at the same time.
    fn everywhere(&self, call: impl Fn(&dyn File) -> Result<()> + Sync) -> Result<()> {
        self.look()?;
        let files: Vec<&Arc<dyn File>> = self.parts().collect();
        self.set.helpers.each(files.len(), &|nth| call(&**files[nth]))
    }

    fn check_end(&self, verb: Verb, end: Option<u64>) -> Result<u64> {
        end.filter(|end| *end <= FILE_BYTES_MAX).ok_or_else(|| {
            Error::from_io(verb, self.set.first().describe(), io::Error::from(io::ErrorKind::FileTooLarge))
        })
    }

    fn shares<'a>(&self, parts: &'a [IoSlice<'_>], offset: u64) -> Vec<Share<'a>> {
        let layout = self.set.layout;
        let mut shares: Vec<Share<'a>> = Vec::new();
        let mut at = offset;
        for part in parts {
            let mut rest: &'a [u8] = part;
            while !rest.is_empty() {
                let room = usize::try_from(layout.left(at)).unwrap_or(usize::MAX);
                let (here, later) = rest.split_at(rest.len().min(room));
                let nth = layout.directory(at);
                match shares.iter_mut().find(|share| share.nth == nth) {
                    Some(share) => share.parts.push(IoSlice::new(here)),
                    None => {
                        let offset = self.part(nth).1 + layout.share(nth, at);
                        shares.push(Share { nth, offset, parts: vec![IoSlice::new(here)] });
                    }
                }
                at += here.len() as u64;
                rest = later;
            }
        }
        shares
    }

    /// Cuts the parts to the lengths that they had before a failed preparation. If this fails, the
    /// caller still gets the error of the preparation, as in one directory.
    fn give_back(&self, before: &[u64], to: u64) {
        for (nth, before) in before.iter().enumerate() {
            let (file, base) = self.part(nth);
            if file.len().is_ok_and(|now| *before < now && now <= base + self.set.layout.share(nth, to)) {
                file.truncate(*before).ok();
            }
        }
    }
}

impl File for StripedFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let layout = self.set.layout;
        if offset.saturating_add(buffer.len() as u64) <= layout.unit || self.set.directories.len() == 1 {
            let Some(at) = offset.checked_add(HEADER_BYTES) else { return Ok(0) };
            let done = self.first.read_at(buffer, at)?;
            if done == buffer.len() {
                return Ok(done);
            }
        }
        let spread = self.look()?.is_some();
        let (mut done, mut end) = (0, None);
        while done < buffer.len() {
            let Some(at) = offset.checked_add(done as u64).filter(|at| *at < FILE_BYTES_MAX) else { break };
            if !spread && at >= layout.unit && self.set.directories.len() > 1 {
                break;
            }
            let room = usize::try_from(layout.left(at)).unwrap_or(usize::MAX).min(buffer.len() - done);
            let nth = layout.directory(at);
            let (file, base) = self.part(nth);
            let here = &mut buffer[done..done + room];
            let got = file.read_at(here, base + layout.share(nth, at))?;
            if got < room {
                // The read is short at the end of the file, or in a part that is shorter because
                // nothing was ever written there.
                let end = match end {
                    Some(end) => end,
                    None => *end.insert(self.len()?),
                };
                let there = usize::try_from(end.saturating_sub(at)).map_or(room, |left| left.min(room));
                if there > got {
                    here[got..there].fill(0);
                }
                done += got.max(there);
                if got.max(there) < room {
                    break;
                }
            } else {
                done += room;
            }
        }
        Ok(done)
    }

    fn write_at(&self, parts: &[IoSlice<'_>], offset: u64, mode: WriteMode) -> Result<()> {
        let total: u64 = parts.iter().map(|part| part.len() as u64).sum();
        let end = self.check_end(Verb::Write, offset.checked_add(total))?;
        if total == 0 || !self.is_spread(end, Verb::Write)? {
            return self.first.write_at(parts, HEADER_BYTES + offset, mode);
        }
        let shares = self.shares(parts, offset);
        self.set.helpers.each(shares.len(), &|nth| {
            let share = &shares[nth];
            self.part(share.nth).0.write_at(&share.parts, share.offset, mode)
        })
    }

    fn sync(&self) -> Result<()> {
        self.everywhere(|file| file.sync())
    }

    fn len(&self) -> Result<u64> {
        self.look()?;
        let mut end = 0;
        for nth in 0..self.parts().count() {
            let (file, base) = self.part(nth);
            let bytes = file.len()?.saturating_sub(base);
            let alone = self.others.get().is_none();
            end = end.max(if alone { bytes } else { self.set.layout.end(nth, bytes) });
        }
        Ok(end)
    }

    fn prepare(&self, from: u64, to: u64) -> Result<()> {
        if to <= from {
            return Ok(());
        }
        self.check_end(Verb::Prepare, Some(to))?;
        if !self.is_spread(to, Verb::Prepare)? {
            return self.first.prepare(HEADER_BYTES + from, HEADER_BYTES + to);
        }
        let before = self.parts().map(|file| file.len()).collect::<Result<Vec<_>>>()?;
        let layout = self.set.layout;
        // The preparation runs on threads of its own: it takes long, and helpers are for the short
        // calls that committing threads wait for.
        let outcomes: Vec<Result<()>> = std::thread::scope(|scope| {
            let prepare = |nth: usize| {
                let (file, base) = self.part(nth);
                file.prepare(base + layout.share(nth, from), base + layout.share(nth, to))
            };
            let others: Vec<_> = (1..before.len())
                .map(|nth| {
                    let spawned = std::thread::Builder::new()
                        .name("katydid-prepare".to_owned())
                        .spawn_scoped(scope, move || prepare(nth));
                    (nth, spawned)
                })
                .collect();
            let first = prepare(0);
            let join =
                |(nth, spawned): (usize, io::Result<std::thread::ScopedJoinHandle<'_, _>>)| match spawned {
                    Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                    Err(_) => prepare(nth),
                };
            std::iter::once(first).chain(others.into_iter().map(join)).collect()
        });
        let failures: Vec<Error> = outcomes.into_iter().filter_map(Result::err).collect();
        if !failures.is_empty() {
            self.give_back(&before, to);
        }
        // An error that is worse than a lack of room takes precedence.
        let is_mild = |error: &Error| error.is_no_space() && error.verb == Verb::Prepare;
        let worst = failures.iter().find(|error| !is_mild(error)).or(failures.first());
        worst.map_or(Ok(()), |error| Err(error.clone()))
    }

    fn truncate(&self, length: u64) -> Result<()> {
        let now = self.len()?;
        if length > now {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "truncating cannot make a file longer");
            return Err(Error::from_io(Verb::Length, self.set.first().describe(), error));
        }
        let alone = self.others.get().is_none();
        for nth in (0..self.parts().count()).rev() {
            let (file, base) = self.part(nth);
            let share = if alone { length } else { self.set.layout.share(nth, length) };
            let bytes = file.len()?;
            file.truncate(bytes.min(base + share))?;
        }
        match length.checked_sub(1) {
            // Nothing was ever written into the part that the last byte is in, so that part is too
            // short for `length`.
            Some(last) if self.len()? < length => {
                self.write_at(&[IoSlice::new(&[0])], last, WriteMode::Written)
            }
            _ => Ok(()),
        }
    }

    fn drop_cache(&self) -> Result<()> {
        self.look()?;
        self.parts().try_for_each(|file| file.drop_cache())
    }

    fn advise(&self, advice: Advice) {
        let Advice::Soon { offset, bytes } = advice else {
            return self.parts().for_each(|file| file.advise(advice));
        };
        // The read itself finds parts that this handle does not know yet.
        let (layout, mut at, mut left) = (self.set.layout, offset, bytes.min(FILE_BYTES_MAX));
        while left > 0 && at < FILE_BYTES_MAX {
            let here = layout.left(at).min(left);
            let nth = layout.directory(at);
            if nth > 0 && self.others.get().is_none() {
                break;
            }
            let (file, base) = self.part(nth);
            file.advise(Advice::Soon { offset: base + layout.share(nth, at), bytes: here });
            (at, left) = (at + here, left - here);
        }
    }

    fn method(&self) -> Method {
        let first = self.first.method();
        match self.parts().map(|file| file.method()).find(|method| *method != first) {
            None => first,
            // One buffered part makes the whole file buffered, because a gate lets syncs of the
            // page cache run only one at a time.
            Some(_) if self.parts().any(|file| file.method() == Method::Buffered) => Method::Buffered,
            Some(_) => Method::Direct,
        }
    }

    fn alignment(&self) -> usize {
        self.parts().map(|file| file.alignment()).max().unwrap_or(1)
    }
}
