//! Mutants of the paged engine's read views: when images are kept and published, the instant of a
//! commit, and which changes need an image.

use super::tests::{VIEWS, VIEWS_IN_ORDERS, VIEWS_MODEL, VIEWS_RACES, VIEWS_UNSHOWN};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "a before-image is kept after the leaf was changed and given up",
        file: "crates/engine/src/paged/tree/write.rs",
        old: "        writer.keep_before(key, Some(leaf.value(slot)));
        page.begin_change();
        let old = (undo == UndoPart::Keep).then_some(page.leaf()?.value(slot));
        let logged = append(&self.change(page.id(), slot, key, LeafOp::Delete { old }), page.lsn(), writer)?;
        let change = self.change(page.id(), slot, key, LeafOp::Delete { old: None });
        finish(&mut page, &change, logged, writer)?;
        let after = page.leaf()?.used_bytes();
        drop(page);
",
        new: "        let kept = match leaf.value(slot) {
            Value::Inline(bytes) => Ok(bytes.to_vec()),
            Value::Overflow { head, length } => Err((head, length)),
        };
        page.begin_change();
        let old = (undo == UndoPart::Keep).then_some(page.leaf()?.value(slot));
        let logged = append(&self.change(page.id(), slot, key, LeafOp::Delete { old }), page.lsn(), writer)?;
        let change = self.change(page.id(), slot, key, LeafOp::Delete { old: None });
        finish(&mut page, &change, logged, writer)?;
        let after = page.leaf()?.used_bytes();
        drop(page);
        let kept = match &kept {
            Ok(bytes) => Value::Inline(bytes),
            Err((head, length)) => Value::Overflow { head: *head, length: *length },
        };
        writer.keep_before(key, Some(kept));
",
        tests: VIEWS_IN_ORDERS,
    },
    Mutant {
        name: "a view does not publish what open transactions have kept",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "                Phase::Active => {
                    self.publish(&mut kept, view.stamp);",
        new: "                Phase::Active => {",
        tests: VIEWS,
    },
    Mutant {
        name: "transactions that commit beside a view have its stamp",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "compare_exchange(now, now + 1,",
        new: "compare_exchange(now, now,",
        tests: VIEWS,
    },
    Mutant {
        name: "a transaction that has committed is seen before its commit is stored",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "        images.commit(&mut kept, stamp, end);\n",
        new: "        images.commit(&mut kept, stamp, end);\n        drop(kept);\n        (0..30).for_each(|_| drop(self.dead.lock()));\n        let stamp = self.stamp();\n        let mut kept = images.kept.lock();\n        images.commit(&mut kept, stamp, end);\n",
        tests: VIEWS_IN_ORDERS,
    },
    Mutant {
        name: "images of a transaction go before its changes are undone",
        file: "crates/engine/src/paged/transaction.rs",
        old: "                outcome = engine.check_open().and_then(|()| engine.roll_back_all(&mut writer));",
        new: "                writer.images.iter().for_each(|images| engine.views.ended(images));
                outcome = engine.check_open().and_then(|()| engine.roll_back_all(&mut writer));",
        tests: VIEWS_IN_ORDERS,
    },
    Mutant {
        name: "a closed view takes images with it that an older one needs",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "        committed.into_iter().for_each(|images| self.settle_in(images));",
        new: "        for mut images in committed {\n            images.stamp = Stamp::NONE;\n            self.settle_in(images);\n        }",
        tests: VIEWS_MODEL,
    },
    Mutant {
        name: "images of a committed transaction go although a view needs them",
        file: "crates/engine/src/paged/views/versions.rs",
        old: "images[at].since <= view",
        new: "images[at].since == view",
        tests: VIEWS_MODEL,
    },
    Mutant {
        name: "images stay that no view needs",
        file: "crates/engine/src/paged/views/versions.rs",
        old: "images[at].since <= view",
        new: "view > Stamp::NONE",
        tests: VIEWS_MODEL,
    },
    Mutant {
        name: "a later value of the same transaction replaces what a long value was before",
        file: "crates/engine/src/paged/views/versions.rs",
        old: " && image.before == named;",
        new: " && named != Before::Absent;",
        tests: VIEWS_IN_ORDERS,
    },
    Mutant {
        name: "pages of a long value are freed before the image has its bytes",
        file: "crates/engine/src/paged/commit.rs",
        old: "        if let Some(images) = &self.images {
            engine.views",
        new: "        if !writer.has_chains()
            && let Some(images) = &self.images
        {
            engine.views",
        tests: VIEWS,
    },
    Mutant {
        name: "an image of a long value that a savepoint brought back keeps naming its pages",
        file: "crates/engine/src/paged/commit.rs",
        old: "        if let Some(images) = &self.images {
            engine.views",
        new: "        if writer.has_chains()
            && let Some(images) = &self.images
        {
            engine.views",
        tests: VIEWS,
    },
    Mutant {
        name: "a view depends on no commit",
        file: "crates/engine/src/paged/transaction.rs",
        old: "            let end = view.depends_on(table.space.dependence_of(keys));
            self.depend_on(end);",
        new: "            let _ = view.depends_on(table.space.dependence_of(keys));",
        tests: VIEWS,
    },
    Mutant {
        name: "a view does not depend on a commit that still holds its locks",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "view.depends = view.depends.max(end)",
        new: "view.depends = view.depends.min(end)",
        tests: VIEWS_MODEL,
    },
    Mutant {
        name: "a view does not see an acknowledged commit whose locks are not released",
        file: "crates/engine/src/paged/engine.rs",
        old: "        self.unshown.show_settled(is_settled, |images, end| self.show_to_views(Some(images), end));",
        new: "        let _ = is_settled;",
        tests: VIEWS,
    },
    Mutant {
        name: "a commit that has failed is shown to views",
        file: "crates/engine/src/paged/engine.rs",
        old: "self.unshown.take(committed.end, |_| {});",
        new: "self.unshown.take(committed.end, |images| self.show_to_views(Some(images), committed.end));",
        tests: VIEWS,
    },
    Mutant {
        name: "a dropped table is not marked",
        file: "crates/engine/src/paged/commit.rs",
        old: "        if let Some(table) = self.drops.take() {
            table.dropped.store(true, Ordering::Release);
        }
",
        new: "",
        tests: VIEWS_IN_ORDERS,
    },
    Mutant {
        name: "the merged range of a view goes beyond the fences of its leaf",
        file: "crates/engine/src/paged/tree/cursor.rs",
        old: "            (_, Some(fence)) => Bound::Excluded(fence),",
        new: "            (high, Some(_)) => high,",
        tests: VIEWS,
    },
    Mutant {
        name: "a view that was given up gets no error",
        file: "crates/engine/src/paged/views/view.rs",
        old: "        if bytes != 0 || self.has_forgotten(table.tree.table) {",
        new: "        if self.has_forgotten(table.tree.table) {",
        tests: VIEWS,
    },
    Mutant {
        name: "a transaction that keeps no images does not say so",
        file: "crates/engine/src/paged/views/view.rs",
        old: "        if bytes != 0 || self.has_forgotten(table.tree.table) {",
        new: "        if bytes != 0 {",
        tests: VIEWS,
    },
    Mutant {
        name: "a second image of a key is kept beside one that is held back",
        file: "crates/engine/src/paged/views/images.rs",
        old: "self.held_back.get(&table).is_some_and(|keys| keys.contains(key))",
        new: "false",
        tests: VIEWS_RACES,
    },
    Mutant {
        name: "a commit without images does not name its tables to a view that opens",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "            self.slots.add_forgotten(stamp, tables);",
        new: "            let _ = (stamp, tables);",
        tests: VIEWS_RACES,
    },
    Mutant {
        name: "a commit does not note that it has read the clock of views",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "            self.read.fetch_max(stamp, Ordering::SeqCst);",
        new: "",
        tests: VIEWS_MODEL,
    },
    Mutant {
        name: "a view takes an old stamp although a commit has read the clock meanwhile",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "                    if !is_read() {
                        return shared;
                    }",
        new: "                    return shared;",
        tests: VIEWS_RACES,
    },
    Mutant {
        name: "a view reads a locked key without having visited the transactions",
        file: "crates/engine/src/paged/transaction.rs",
        old: "        if !view.has_visited() && table.space.has_writer(key) {",
        new: "        if !view.has_visited() && table.space.has_writer(&key[..0]) {",
        tests: VIEWS_IN_ORDERS,
    },
    Mutant {
        name: "a view reads a range without having visited the transactions",
        file: "crates/engine/src/paged/range.rs",
        old: "            transaction.visit();",
        new: "",
        tests: VIEWS_IN_ORDERS,
    },
    Mutant {
        name: "an image that was kept while no view was open is taken for published",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "None => kept.keep_back(),",
        new: "None => {}",
        tests: VIEWS_MODEL,
    },
    Mutant {
        name: "images that were held back for an old view stay so for a view that opens later",
        file: "crates/engine/src/paged/views/images.rs",
        old: "        self.flushed = newest;\n        if from",
        new: "        self.flushed = self.flushed.max(newest);\n        if from",
        tests: VIEWS_MODEL,
    },
    Mutant {
        name: "images go into the slot of a view that has closed",
        file: "crates/engine/src/paged/views/slots.rs",
        old: "        if self.stamp() != Some(view) {
            return Some(images);
        }",
        new: "        let _ = view;",
        tests: VIEWS_IN_ORDERS,
    },
    Mutant {
        name: "a transaction without images does not name its tables to a view before it changes a leaf",
        file: "crates/engine/src/paged/views/mod.rs",
        old: "            self.slots.add_forgotten(Stamp::LAST, forgotten);",
        new: "",
        tests: VIEWS_RACES,
    },
    Mutant {
        name: "the second image of a key is published although the first one is held back",
        file: "crates/engine/src/paged/views/images.rs",
        old: "if from == 0 && self.held_back",
        new: "if from > self.private.len() && self.held_back",
        tests: VIEWS_RACES,
    },
    Mutant {
        name: "a commit counts as shown before it is shown",
        file: "crates/engine/src/paged/views/unshown.rs",
        old: "            show(&images);
            self.count.store(waiting.len(), Ordering::Release);
        }",
        new: "            self.count.store(waiting.len(), Ordering::Release);
            show(&images);
        }",
        tests: VIEWS_UNSHOWN,
    },
];
