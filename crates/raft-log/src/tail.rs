//! The last entries of a log, encoded, in memory. Replication reads most entries soon after they
//! were appended.
//!
//! One thread at a time uses the tail, under the log's latch. The tail is a suffix of the entries
//! with at most [`BYTES_MAX`] bytes, or a single larger entry; other entries are read from the
//! log's files. A crash loses the tail.

use std::collections::VecDeque;

/// Maximum bytes of entries in memory.
pub(crate) const BYTES_MAX: usize = 8 << 20;

/// The last entries of a log, in memory. The head of this file has the rules.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    /// Number of the first entry in `entries`; without meaning while `entries` is empty.
    first: u64,
    entries: VecDeque<Box<[u8]>>,
    bytes: usize,
}

impl Tail {
    /// Adds the payload of entry `number`. Forgets all earlier entries if `number` does not follow
    /// them.
    pub(crate) fn push(&mut self, number: u64, payload: Vec<u8>) {
        if self.first + self.entries.len() as u64 != number {
            *self = Tail { first: number, ..Tail::default() };
        }
        self.bytes += payload.len();
        self.entries.push_back(payload.into_boxed_slice());
        while self.bytes > BYTES_MAX && self.entries.len() > 1 {
            let dropped = self.entries.pop_front().map_or(0, |entry| entry.len());
            self.bytes -= dropped;
            self.first += 1;
        }
    }

    /// Returns the number of the first entry in memory.
    pub(crate) fn first(&self) -> Option<u64> {
        (!self.entries.is_empty()).then_some(self.first)
    }

    /// Returns the payload of an entry, if it is in memory.
    pub(crate) fn get(&self, number: u64) -> Option<&[u8]> {
        let nth = number.checked_sub(self.first)?;
        self.entries.get(usize::try_from(nth).ok()?).map(|entry| &entry[..])
    }

    /// Forgets the entries from `number` on.
    pub(crate) fn truncate_from(&mut self, number: u64) {
        let keep = usize::try_from(number.saturating_sub(self.first)).unwrap_or(usize::MAX);
        let dropped: usize = self.entries.iter().skip(keep).map(|entry| entry.len()).sum();
        self.bytes -= dropped;
        self.entries.truncate(keep);
    }

    /// Forgets the entries below `number`.
    pub(crate) fn trim_before(&mut self, number: u64) {
        while self.first < number
            && let Some(entry) = self.entries.pop_front()
        {
            self.bytes -= entry.len();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(tail: &Tail) -> Vec<u64> {
        (0..100).filter(|number| tail.get(*number).is_some()).collect()
    }

    #[test]
    fn it_holds_a_suffix_of_bounded_size() {
        let mut tail = Tail::default();
        for number in 5..9 {
            tail.push(number, vec![number as u8; 10]);
        }
        assert_eq!(numbers(&tail), [5, 6, 7, 8]);
        tail.truncate_from(8);
        tail.trim_before(6);
        assert_eq!((numbers(&tail), tail.bytes), (vec![6, 7], 20));
        assert_eq!(tail.first(), Some(6));
        tail.push(8, vec![0; BYTES_MAX - 10]);
        assert_eq!((numbers(&tail), tail.bytes), (vec![7, 8], BYTES_MAX));
        tail.push(9, vec![1; BYTES_MAX + 1]);
        assert_eq!(numbers(&tail), [9]);
        tail.push(30, vec![2]);
        assert_eq!((numbers(&tail), tail.bytes), (vec![30], 1), "what came before has gone");
        tail.truncate_from(3);
        assert_eq!((numbers(&tail), tail.bytes), (vec![], 0));
        assert_eq!(tail.first(), None);
        tail.push(3, vec![2]);
        assert_eq!(numbers(&tail), [3]);
    }
}
