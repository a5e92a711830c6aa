//! Opening `nv_entries` and `nv_logging`: what of the memory counts from now on, and what is free.
//!
//! One thread that has the region alone, after the walk has said where the log ends.
//!
//! 1. Entries beyond the end that are set in their lap were left by appends below which a hole was.
//!    They are reset, and that is persisted, before anything is put into the heap: their objects'
//!    memory is free, and an object that is put there must not be read by their positions too.
//! 2. What an entry below the end names stays where it is, and all of it is persisted: after a kill
//!    it may be in caches only.
//!
//! A crash leaves any of the entries reset; none of them counted, for the hole below them is still
//! there.

use super::entries::{ENTRY, Entries, Named};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::nvram::arena::{Arenas, Open};
use std::collections::BTreeMap;

/// Settles what is between `start` and `end`, and forgets what is beyond. Returns which slot has
/// which memory then, for `slots` slots.
pub(super) fn reopen(entries: &Entries, start: Lsn, end: Lsn, slots: usize) -> Arenas {
    let mut used: BTreeMap<u64, Open> = BTreeMap::new();
    for at in positions(start, end) {
        let Named::Object { at: object, .. } = entries.named(at) else { continue };
        // SAFETY: the caller has the region alone, and the walk found a valid record here.
        let bytes = unsafe { entries.object_bytes(object) };
        entries.write_back_object(object, bytes);
        let (chunk, offset) = (object / entries.chunk_bytes(), object % entries.chunk_bytes());
        let open = used.entry(chunk).or_insert(Open { chunk, used: 0, until: 0 });
        open.used = open.used.max(offset + bytes);
        open.until = open.until.max(at.get() + ENTRY);
    }
    for at in positions(end, start.plus(entries.bytes())) {
        if entries.named(at) != Named::Nothing {
            entries.reset(at);
        }
    }
    // Its fence ends the write-backs above.
    entries.persist_all();
    let count = Arenas::count(slots, entries.chunks());
    Arenas::new(count, entries.chunks(), entries.chunk_bytes(), used.into_values().collect(), start.get())
}

fn positions(from: Lsn, to: Lsn) -> impl Iterator<Item = Lsn> {
    (from.get()..to.get()).step_by(ENTRY as usize).map(Lsn::new)
}
