//! Kinds of records that change pages.
//!
//! A `ChangeKind` is a plain value; any thread may use it.

/// Kind of a record that changes pages. The number is the record's kind in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum ChangeKind {
    /// A key was inserted into a leaf.
    LeafInsert = 16,
    /// A key was deleted from a leaf.
    LeafDelete = 17,
    /// A key's value changed.
    LeafUpdate = 18,
    /// Pages of a long value, or the root of a new tree, were allocated and filled. The undo of
    /// such a record frees the pages.
    ChainWrite = 19,
    /// Pages of the tree changed in a way that no reader of keys and values can notice. Such a
    /// record is never undone.
    Structure = 20,
    /// A long value or a tree was freed, after the commit of the transaction that no longer used
    /// it. Such a record is never undone.
    ChainFree = 21,
}

impl ChangeKind {
    /// Returns the kind with this number, or `None` if records of this kind change no page.
    pub(crate) fn decode(kind: u8) -> Option<ChangeKind> {
        Some(match kind {
            16 => ChangeKind::LeafInsert,
            17 => ChangeKind::LeafDelete,
            18 => ChangeKind::LeafUpdate,
            19 => ChangeKind::ChainWrite,
            20 => ChangeKind::Structure,
            21 => ChangeKind::ChainFree,
            _ => return None,
        })
    }

    /// The number.
    pub(crate) const fn number(self) -> u8 {
        self as u8
    }

    /// Name of the change in a dump of the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            ChangeKind::LeafInsert => "leaf-insert",
            ChangeKind::LeafDelete => "leaf-delete",
            ChangeKind::LeafUpdate => "leaf-update",
            ChangeKind::ChainWrite => "chain-write",
            ChangeKind::Structure => "structure",
            ChangeKind::ChainFree => "chain-free",
        }
    }
}
