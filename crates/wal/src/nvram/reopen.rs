//! Opening `nv_entries` and `nv_logging`: which memory is valid from now on, and which is free.
//!
//! One thread runs this code, after the walk has found the end of the log. That thread has the
//! region alone. Rules:
//!
//! 1. An entry beyond the end counts as set if it holds the lap of its position (`Entries::named`).
//!    Such entries were left by appends above a hole. They are reset, and the reset is persisted,
//!    before anything is put into the heap. The memory of their objects counts as free, so a new
//!    object may be put there; an entry that stayed set would then name the new object.
//! 2. An object that an entry below the end names stays where it is, and is persisted, because
//!    after a kill it may be in caches only.
//!
//! A crash may leave some entries of rule 1 reset and others not. That does no harm: none of them
//! names a valid record, because the hole below them is still there.

use super::entries::{ENTRY, Entries, Named};
use katydid_kernels::lsn::Lsn;
use katydid_kernels::nvram::arena::{Arenas, Open};
use std::collections::BTreeMap;

/// Persists the objects between `start` and `end`, and resets the entries beyond. Returns the
/// arenas of the heap for `slots` slots.
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
    // The fence of this call ends the write-backs above.
    entries.persist_all();
    let count = Arenas::count(slots, entries.chunks());
    Arenas::new(count, entries.chunks(), entries.chunk_bytes(), used.into_values().collect(), start.get())
}

fn positions(from: Lsn, to: Lsn) -> impl Iterator<Item = Lsn> {
    (from.get()..to.get()).step_by(ENTRY as usize).map(Lsn::new)
}
