//! Copies of a database: backups and what is made of them.

use super::tests::{BACKUP, DUMP};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "a copy keeps nothing of the log",
        file: "crates/engine/src/paged/copy.rs",
        old: "(self.whole_log.pin_all(self.options.advanced.log_hard_bytes), self.control.get())",
        new: "(self.whole_log.pin_all(0), self.control.get())",
        tests: BACKUP,
    },
    Mutant {
        name: "a copy takes a torn page",
        file: "crates/engine/src/paged/copy.rs",
        old: "Err(fault) => source.again(fault, bytes)?,",
        new: "Err(_) => {}",
        tests: BACKUP,
    },
    Mutant {
        name: "order: a copy is whole before its pages are durable",
        file: "crates/engine/src/paged/copy.rs",
        old: "        copy.sync()?;\n        let folder = ",
        new: "        let folder = ",
        tests: BACKUP,
    },
    Mutant {
        name: "a copy's log ends where it did before the pages were copied",
        file: "crates/engine/src/paged/copy.rs",
        old: "self.whole_log.copy(&[start], &[end], log,",
        new: "self.whole_log.copy(&[start], &[seen], log,",
        tests: BACKUP,
    },
    Mutant {
        name: "a checkpoint removes files that are being copied",
        file: "crates/engine/src/memory/checkpoints.rs",
        old: "let mut keep = self.copied.numbers();",
        new: "let mut keep = Vec::new();",
        tests: BACKUP,
    },
    Mutant {
        name: "nothing says that a copy is incomplete",
        file: "crates/engine/src/copy/mod.rs",
        old: "        drop(directory.open(INCOMPLETE, Create::New, log.method)?);\n",
        new: "",
        tests: BACKUP,
    },
    Mutant {
        name: "a copy that was opened is restored",
        file: "crates/engine/src/backup.rs",
        old: "if open::incarnations(directory.as_ref())? != manifest.incarnations {",
        new: "if open::incarnations(directory.as_ref())? < manifest.incarnations {",
        tests: BACKUP,
    },
    Mutant {
        name: "a dump that was cut off is restored",
        file: "crates/cli/src/dump/restore.rs",
        old: "                None if is_ended => return Ok(()),\n                None => return Err(wrong(\"the dump is cut off: its last line is missing\".to_owned())),\n",
        new: "                None => return self.put().map_err(|error| wrong(error.to_string())),\n",
        tests: DUMP,
    },
    Mutant {
        name: "order: a compacted file takes its name before it is durable",
        file: "crates/engine/src/paged/compact.rs",
        old: "        new.sync()?;\n",
        new: "",
        tests: BACKUP,
    },
    Mutant {
        name: "compacting leaves overflow chains where they were",
        file: "crates/engine/src/paged/page/relocate.rs",
        old: "                    header::set_u64(cell, at, head.get());\n",
        new: "                    let _ = (cell, at, head);\n",
        tests: BACKUP,
    },
    Mutant {
        name: "an increment to another backup is applied",
        file: "crates/engine/src/backup.rs",
        old: "            && base != Some(before.manifest.id)\n",
        new: "            && base.is_none_or(|base| base == before.manifest.source)\n",
        tests: BACKUP,
    },
    Mutant {
        name: "an increment has only pages changed after the end of its base",
        file: "crates/engine/src/paged/copy.rs",
        old: "incarnations, log_start: start })",
        new: "incarnations, log_start: end })",
        tests: BACKUP,
    },
    Mutant {
        name: "compacted pages keep their LSNs",
        file: "crates/engine/src/paged/page/relocate.rs",
        old: "    header::set_page_lsn(page, lsn);\n",
        new: "    let _ = lsn;\n",
        tests: BACKUP,
    },
];
