//! The difference between two values: their middles, without the bytes that both values have at the
//! front and at the end.

/// A change of one value into another: `old` at `offset` became `new`. All other bytes are the same
/// in both values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Diff<'a> {
    /// Number of bytes that the values share at the front.
    pub(crate) offset: u16,
    /// Length of the old value in bytes.
    pub(crate) old_total: u16,
    /// Length of the new value in bytes.
    pub(crate) new_total: u16,
    /// Length of the replaced part of the old value, in bytes.
    pub(crate) old_bytes: u16,
    /// The replaced part of the old value; `None` in records that are never undone.
    pub(crate) old: Option<&'a [u8]>,
    /// The part of the new value that replaces the part of the old value.
    pub(crate) new: &'a [u8],
}

/// Number of bytes that `a` and `b` share at the front.
fn shared_front(a: &[u8], b: &[u8]) -> usize {
    let (long_a, long_b) = (a.as_chunks::<16>().0, b.as_chunks::<16>().0);
    let at = 16 * long_a.iter().zip(long_b).take_while(|(a, b)| a == b).count();
    at + a[at..].iter().zip(&b[at..]).take_while(|(a, b)| a == b).count()
}

/// Number of bytes that `a` and `b` share at the end.
fn shared_end(a: &[u8], b: &[u8]) -> usize {
    let (long_a, long_b) = (a.as_rchunks::<16>().1, b.as_rchunks::<16>().1);
    let at = 16 * long_a.iter().rev().zip(long_b.iter().rev()).take_while(|(a, b)| a == b).count();
    let (a, b) = (&a[..a.len() - at], &b[..b.len() - at]);
    at + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}

impl<'a> Diff<'a> {
    /// Returns the difference that turns `old` into `new`. Returns `None` if either value has more
    /// than 65,535 bytes, which no inline value has.
    pub(crate) fn between(old: &'a [u8], new: &'a [u8]) -> Option<Diff<'a>> {
        let (old_total, new_total) = (u16::try_from(old.len()).ok()?, u16::try_from(new.len()).ok()?);
        let front = shared_front(old, new);
        let end = shared_end(&old[front..], &new[front..]);
        let gone = &old[front..old.len() - end];
        Some(Diff {
            offset: front as u16,
            old_total,
            new_total,
            old_bytes: gone.len() as u16,
            old: Some(gone),
            new: &new[front..new.len() - end],
        })
    }

    /// Returns the difference without the part that only undo needs.
    pub(crate) fn redo_only(self) -> Diff<'a> {
        Diff { old: None, ..self }
    }

    /// Returns the difference without the part that only undo needs, and without a borrow of the
    /// old value. `new` is the whole new value.
    pub(crate) fn with_new_of<'n>(&self, new: &'n [u8]) -> Diff<'n> {
        let Diff { offset, old_total, new_total, old_bytes, .. } = *self;
        let from = usize::from(offset);
        Diff { offset, old_total, new_total, old_bytes, old: None, new: &new[from..from + self.new.len()] }
    }

    /// Returns whether the lengths agree with each other.
    pub(crate) fn is_consistent(&self) -> bool {
        let (offset, old_bytes) = (usize::from(self.offset), usize::from(self.old_bytes));
        let Some(old_end) = usize::from(self.old_total).checked_sub(offset + old_bytes) else { return false };
        let Some(new_end) = usize::from(self.new_total).checked_sub(offset + self.new.len()) else {
            return false;
        };
        old_end == new_end && self.old.is_none_or(|old| old.len() == old_bytes)
    }

    /// Returns whether the old and the new value have the same length, so that no other byte moves.
    pub(crate) fn keeps_length(&self) -> bool {
        self.old_total == self.new_total
    }

    /// Returns the new value that the difference makes of the old value `value`, or `None` if
    /// `value` cannot be the old value.
    pub(crate) fn apply(&self, value: &[u8]) -> Option<Vec<u8>> {
        if value.len() != usize::from(self.old_total) || !self.is_consistent() {
            return None;
        }
        let offset = usize::from(self.offset);
        let mut made = Vec::with_capacity(usize::from(self.new_total));
        made.extend_from_slice(&value[..offset]);
        made.extend_from_slice(self.new);
        made.extend_from_slice(&value[offset + usize::from(self.old_bytes)..]);
        Some(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_turns_old_into_new() {
        let seed = std::env::var("KATYDID_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(3);
        println!("KATYDID_SEED={seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..20_000 {
            let old: Vec<u8> = (0..random.usize(0..80)).map(|_| random.u8(0..2)).collect();
            let mut new = old.clone();
            for _ in 0..random.usize(0..3) {
                let at = random.usize(0..=new.len());
                let to = random.usize(at..=new.len());
                let length = random.usize(0..20);
                new.splice(at..to, (0..length).map(|_| random.u8(0..2)));
            }
            let diff = Diff::between(&old, &new).unwrap();
            assert!(diff.is_consistent());
            assert_eq!(diff.apply(&old).as_deref(), Some(&new[..]));
            let naive = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
            assert_eq!(usize::from(diff.offset), naive);
            if old == new {
                assert!(diff.new.is_empty() && diff.old_bytes == 0);
            }
        }
    }

    #[test]
    fn one_changed_field_of_a_long_value_is_all_that_is_kept() {
        let mut new = vec![7; 1000];
        let old = new.clone();
        new[300..400].fill(9);
        let diff = Diff::between(&old, &new).unwrap();
        assert_eq!((diff.offset, diff.new.len(), diff.old.map(<[u8]>::len)), (300, 100, Some(100)));
        assert!(diff.keeps_length());
    }
}
