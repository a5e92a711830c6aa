//! Mutants of the paged engine's bulk loads, and of the read-ahead of its scans.

use super::tests::{BULK_LOADS, LOAD_STEPS, TREE_AHEAD, TREE_LOADS};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "a scan reads as far ahead as the cache is large",
        file: "crates/engine/src/paged/pool/mod.rs",
        old: "Method::Buffered => self.capacity / 4,",
        new: "Method::Buffered => self.capacity,",
        tests: TREE_AHEAD,
    },
    Mutant {
        name: "a full page of a load that is no leaf takes its last separator along",
        file: "crates/engine/src/paged/tree/load.rs",
        old: "let Some((upper, first)) = inner.entries.pop() else {",
        new: "let Some((upper, first)) = inner.entries.last().cloned() else {",
        tests: TREE_LOADS,
    },
    Mutant {
        name: "a separator that a load adds to a page of an earlier record is not logged",
        file: "crates/engine/src/paged/tree/load.rs",
        old: "self.entries.push((separator, child));\n        self.is_changed = true;",
        new: "self.entries.push((separator, child));",
        tests: TREE_LOADS,
    },
    Mutant {
        name: "a load that is given up leaves its tree",
        file: "crates/engine/src/paged/load.rs",
        old: ".and_then(|_ddl| self.database.remove_load(self.tree, false));",
        new: ".map(|_ddl| ());",
        tests: BULK_LOADS,
    },
    Mutant {
        name: "an opening leaves the tree of a load that a crash has ended",
        file: "crates/engine/src/paged/load.rs",
        old: "for LoadTree { tree, is_committed } in found.loads {",
        new: "for LoadTree { tree, is_committed } in found.loads.into_iter().filter(|load| load.is_committed) {",
        tests: LOAD_STEPS,
    },
    Mutant {
        name: "an opening gives a table nothing of a load that was committed",
        file: "crates/engine/src/paged/load.rs",
        old: "engine.exchange_loaded(table, tree)?;\n            }",
        new: "let _ = table;\n            }",
        tests: LOAD_STEPS,
    },
    Mutant {
        name: "views see the keys of a load whenever they began",
        file: "crates/engine/src/paged/views/versions.rs",
        old: "(seen < stamps.len()).then_some(seen)",
        new: "(seen > stamps.len()).then_some(seen)",
        tests: BULK_LOADS,
    },
    Mutant {
        name: "a view takes an image from after a load for one from before it",
        file: "crates/engine/src/paged/views/versions.rs",
        old: "era.is_none_or(|era| first.era == era).then_some(&first.before)",
        new: "era.is_none_or(|_| true).then_some(&first.before)",
        tests: BULK_LOADS,
    },
    Mutant {
        name: "a load leaves the hints that lead to leaves of the former tree",
        file: "crates/engine/src/paged/load.rs",
        old: "        self.table.hints.forget();",
        new: "",
        tests: BULK_LOADS,
    },
    Mutant {
        name: "a repair takes the former root of a loaded table for its newest leaf",
        file: "crates/engine/src/paged/salvage/mod.rs",
        old: "        survey.leave_out_replaced(&pool, *table, *root)?;",
        new: "        let _ = (table, root);",
        tests: LOAD_STEPS,
    },
    Mutant {
        name: "a repair takes all leaves of a table for those of a load that was given up",
        file: "crates/engine/src/paged/salvage/survey.rs",
        old: "leaves.retain(|leaf| !found.pages.contains(&leaf.page));",
        new: "leaves.clear();",
        tests: LOAD_STEPS,
    },
    Mutant {
        name: "a repair brings the rows of a tree back that was to be freed",
        file: "crates/engine/src/paged/salvage/history.rs",
        old: "State::Committed => replayed.freed.extend(entry.chains.into_iter().map(PageId::new)),",
        new: "State::Committed => drop(entry.chains),",
        tests: LOAD_STEPS,
    },
];
