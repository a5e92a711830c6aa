//! Harm that is done to the bytes of a database.

use crate::common::Rng;
use crate::disk::DiskImage;
use crate::subject::Subject;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// Bytes that a device writes whole.
pub const SECTOR: usize = 512;

/// Bytes that the paged engine reads and writes at once.
pub const PAGE: usize = 4096;

/// One kind of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// One bit of a sector is flipped.
    Flip,
    /// A sector, or a page, is zeros.
    Zero(usize),
    /// A sector, or a page, is exchanged with another one of the same file.
    Swap(usize),
    /// A sector, or a page, has its content of the earlier moment with this number: later writes of
    /// the sector or page were lost.
    Older(usize, usize),
    /// A file is cut at this sector.
    Cut,
    /// A file is extended with zeros, or with random bytes.
    Extend(bool),
    /// A whole file has its content of the earlier moment with this number.
    OlderFile(usize),
    /// A file is replaced by the file of the same name of another database.
    Foreign,
    /// A file is missing.
    Remove,
}

impl Harm {
    /// Returns every harm to a sector of this subject, and every harm to a whole file.
    pub fn all(subject: &Subject) -> (Vec<Harm>, Vec<Harm>) {
        let mut of_sector = vec![Harm::Flip, Harm::Cut];
        for bytes in [SECTOR, PAGE] {
            of_sector.extend([Harm::Zero(bytes), Harm::Swap(bytes)]);
            of_sector.extend((0..subject.earlier.len()).map(|moment| Harm::Older(bytes, moment)));
        }
        let mut of_file = vec![Harm::Extend(false), Harm::Extend(true), Harm::Foreign, Harm::Remove];
        of_file.extend((0..subject.earlier.len()).map(Harm::OlderFile));
        (of_sector, of_file)
    }

    /// Returns the bytes of a file of this length that the harm at this sector concerns.
    pub fn range(self, sector: usize, length: usize) -> Range<usize> {
        let of = match self {
            Harm::Zero(of) | Harm::Swap(of) | Harm::Older(of, _) => of,
            Harm::Flip => SECTOR,
            Harm::Cut => return (sector * SECTOR).min(length)..length,
            _ => return 0..length,
        };
        let from = sector * SECTOR / of * of;
        from.min(length)..(from + of).min(length)
    }

    /// Returns the name without the number of a moment.
    pub fn name(self) -> String {
        match self {
            Harm::Zero(bytes) => format!("zero {bytes}"),
            Harm::Swap(bytes) => format!("swap {bytes}"),
            Harm::Older(bytes, _) => format!("older {bytes}"),
            Harm::OlderFile(_) => "older file".to_owned(),
            Harm::Extend(_) => "extend".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        }
    }
}

/// One damage to one file.
#[derive(Clone, Debug)]
pub struct Case {
    pub path: String,
    pub sector: usize,
    pub harm: Harm,
    /// Seed of the random choices: which bit, which other sector.
    pub seed: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} at byte {}", self.harm.name(), self.path, self.sector * SECTOR)?;
        if let Harm::Older(_, moment) | Harm::OlderFile(moment) = self.harm {
            write!(f, ", as at moment {moment}")?;
        }
        write!(f, ", seed {}", self.seed)
    }
}

impl Case {
    /// Returns the damaged copy, or `None` if it is the same as the original.
    pub fn apply(&self, subject: &Subject, other: &Subject) -> Option<DiskImage> {
        let mut image = subject.image.clone();
        let is_region = image.regions.contains_key(&self.path);
        let of = |image: &DiskImage| {
            let map = if is_region { &image.regions } else { &image.files };
            map.get(&self.path).cloned()
        };
        let original = of(&image)?;
        let mut bytes = (*original).clone();
        let harmed = self.harm_bytes(&mut bytes, |moment| of(&subject.earlier[moment]), || of(&other.image));
        if harmed == Some(true) && bytes == *original {
            return None;
        }
        // A region is mapped whole, so no harm may remove it or change its length.
        if is_region && (harmed != Some(true) || bytes.len() != original.len()) {
            return None;
        }
        let map = if is_region { &mut image.regions } else { &mut image.files };
        match harmed {
            Some(true) => map.insert(self.path.clone(), Arc::new(bytes)),
            Some(false) => map.remove(&self.path),
            None => return None,
        };
        Some(image)
    }

    /// Returns the number of the sector or page that a [`Harm::Swap`] exchanges with the case's
    /// own, in a file that has `count` of them.
    fn other_of_swap(&self, count: usize) -> usize {
        Rng::with_seed(self.seed).usize(..count.max(1))
    }

    /// Returns the first byte that may differ in a file of this length.
    pub fn first_byte(&self, length: usize) -> usize {
        let own = self.harm.range(self.sector, length).start;
        match self.harm {
            Harm::Swap(of) => own.min(self.other_of_swap(length / of) * of),
            _ => own,
        }
    }

    /// Harms the file. Returns whether the file still exists, or `None` if the file is too short
    /// for the harm or has no other version.
    fn harm_bytes(
        &self,
        bytes: &mut Vec<u8>,
        earlier: impl Fn(usize) -> Option<Arc<Vec<u8>>>,
        other: impl Fn() -> Option<Arc<Vec<u8>>>,
    ) -> Option<bool> {
        let mut random = Rng::with_seed(self.seed);
        match self.harm {
            Harm::Flip => {
                let range = self.harm.range(self.sector, bytes.len());
                if range.is_empty() {
                    return None;
                }
                bytes[random.usize(range)] ^= 1 << random.u8(..8);
            }
            Harm::Zero(_) => {
                let range = self.harm.range(self.sector, bytes.len());
                bytes[range].fill(0);
            }
            Harm::Swap(of) => {
                let (one, count) = (self.sector * SECTOR / of, bytes.len() / of);
                let two = self.other_of_swap(count);
                if one >= count || one == two {
                    return None;
                }
                for at in 0..of {
                    bytes.swap(one * of + at, two * of + at);
                }
            }
            Harm::Older(_, moment) => {
                let older = earlier(moment)?;
                let range = self.harm.range(self.sector, bytes.len().min(older.len()));
                bytes[range.clone()].copy_from_slice(&older[range]);
            }
            Harm::Cut => bytes.truncate(self.sector * SECTOR),
            Harm::Extend(is_random) => {
                let more = random.usize(1..3 * PAGE);
                bytes.extend((0..more).map(|_| if is_random { random.u8(..) } else { 0 }));
            }
            Harm::OlderFile(moment) => *bytes = (*earlier(moment)?).clone(),
            Harm::Foreign => *bytes = (*other()?).clone(),
            Harm::Remove => return Some(false),
        }
        Some(true)
    }
}
