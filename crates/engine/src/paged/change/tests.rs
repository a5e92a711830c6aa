//! Tests of the encoding and decoding of page changes, and of payloads that are garbage.

use super::*;
use crate::TableId;
use crate::paged::page::tests::for_seeds;
use crate::paged::page::{InnerMut, LeafMut, PageId, Value, check_structure, image, map};
use fastrand::Rng;

const PAGE_BYTES: usize = 4096;

fn encoded(change: &LeafChange<'_>) -> Vec<u8> {
    change.encode(|pieces| pieces.concat())
}

fn leaf_changes() -> Vec<LeafChange<'static>> {
    let inline = Value::Inline(b"value");
    let long = Value::Overflow { head: PageId::new(77), length: 70_000 };
    let diff = Diff::between(b"one two three", b"one 2 three").expect("short values");
    let ops = [
        LeafOp::Insert { new: inline },
        LeafOp::Insert { new: Value::Inline(b"") },
        LeafOp::Insert { new: long },
        LeafOp::Delete { old: Some(inline) },
        LeafOp::Delete { old: Some(long) },
        LeafOp::Delete { old: None },
        LeafOp::Diff(diff),
        LeafOp::Diff(diff.redo_only()),
        LeafOp::Replace { old: Some(inline), new: long },
        LeafOp::Replace { old: Some(long), new: inline },
        LeafOp::Replace { old: None, new: long },
    ];
    let (table, root, page) = (TableId::new(3), PageId::new(5), PageId::new(9));
    let change = |op| LeafChange { table, root, page, slot: 2, key: b"key", op };
    ops.into_iter().map(change).collect()
}

#[test]
fn leaf_changes_are_decoded_as_encoded() {
    for change in leaf_changes() {
        let payload = encoded(&change);
        assert_eq!(LeafChange::decode(change.kind(), &payload), Ok(change));
        let pages: Vec<_> = pages_of(change.kind(), &payload).collect();
        assert_eq!(pages, [Ok(PageId::new(9))]);
    }
}

#[test]
fn a_long_value_is_undone_by_the_ids_of_its_pages_alone() {
    let pages = [PageId::new(40), PageId::new(41), PageId::new(90)];
    let mut parts = PartsWriter::new();
    for page in pages {
        parts.overflow(page, TableId::new(7), PageId::NONE, &[1; 4000]);
    }
    parts.map_set(PageId::FIRST_MAP, &[40, 41, 90]);
    let kept = without_contents(parts.payload());
    assert!(kept.payload().len() <= 3 * 16, "{} bytes are kept", kept.payload().len());
    for payload in [parts.payload(), kept.payload()] {
        assert_eq!(undo_of(ChangeKind::ChainWrite, payload), Ok(UndoOp::FreePages(pages.to_vec())));
    }
}

#[test]
fn undo_turns_back_or_says_that_it_cannot() {
    for change in leaf_changes() {
        let payload = encoded(&change);
        let undo = undo_of(change.kind(), &payload);
        let expected = match change.op {
            LeafOp::Insert { .. } => {
                UndoOp::Delete { table: change.table, root: change.root, key: change.key }
            }
            LeafOp::Delete { old: Some(old) } => {
                UndoOp::Insert { table: change.table, root: change.root, key: change.key, old }
            }
            LeafOp::Replace { old: Some(old), .. } => {
                UndoOp::Replace { table: change.table, root: change.root, key: change.key, old }
            }
            LeafOp::Diff(diff) if diff.old.is_some() => {
                let Ok(UndoOp::Diff { back, .. }) = undo else { panic!("{undo:?}") };
                assert_eq!(back.apply(b"one 2 three").as_deref(), Some(&b"one two three"[..]));
                continue;
            }
            _ => {
                assert!(undo.is_err());
                continue;
            }
        };
        assert_eq!(undo, Ok(expected));
    }
}

fn parts() -> PartsWriter {
    let mut page = vec![0; PAGE_BYTES];
    let mut leaf = LeafMut::format(&mut page, PageId::new(20), TableId::new(3), b"a", Some(b"m"));
    leaf.insert_at(0, b"b", &Value::Inline(b"value")).expect("room");
    let mut parts = PartsWriter::new();
    parts.image(PageId::new(20), image::parts(&page));
    parts.overflow(PageId::new(21), TableId::new(3), PageId::new(22), b"a piece");
    parts.inner_insert(PageId::new(23), 4, b"separator", PageId::new(24));
    parts.inner_remove(PageId::new(25), 6);
    parts.truncate(PageId::new(26), 7, b"fence");
    parts.free(PageId::new(27));
    parts.map_set(PageId::new(28), &[1, 900]);
    parts.map_clear(PageId::new(29), &[]);
    parts
}

#[test]
fn parts_are_decoded_as_encoded() {
    let writer = parts();
    let decoded: Vec<_> = decode_parts(writer.payload()).map(|part| part.expect("a part")).collect();
    let pages: Vec<_> = decoded.iter().map(|part| part.page.get()).collect();
    assert_eq!(pages, [20, 21, 23, 25, 26, 27, 28, 29]);
    assert!(matches!(decoded[0].part, Part::PageImage(_)));
    let overflow = Part::Overflow { table: TableId::new(3), next: PageId::new(22), payload: b"a piece" };
    assert_eq!(decoded[1].part, overflow);
    let insert = Part::InnerInsert { slot: 4, separator: b"separator", child: PageId::new(24) };
    assert_eq!(decoded[2].part, insert);
    assert_eq!(decoded[3].part, Part::InnerRemove { slot: 6 });
    assert_eq!(decoded[4].part, Part::Truncate { keep: 7, upper: b"fence" });
    assert_eq!(decoded[5].part, Part::Free);
    assert!(matches!(decoded[6].part, Part::MapSet(bits) if bits.iter().eq([1, 900])));
    assert!(matches!(decoded[7].part, Part::MapClear(bits) if bits.iter().len() == 0));
    let undo = undo_of(ChangeKind::ChainWrite, writer.payload());
    assert_eq!(undo, Ok(UndoOp::FreePages([20, 21, 27].map(PageId::new).to_vec())));
    let mut free = encode_chain_free(PageId::new(20)).to_vec();
    free.extend_from_slice(writer.payload());
    assert_eq!(decode_chain_free(&free), Ok((PageId::new(20), writer.payload())));
    assert_eq!(pages_of(ChangeKind::ChainFree, &free).count(), 8);
    assert_eq!(undo_of(ChangeKind::Structure, &free), Ok(UndoOp::Nothing));
}

/// Returns a sample with a few bytes changed, a sample that is cut short, or random bytes.
fn mangled(rng: &mut Rng, samples: &[Vec<u8>]) -> Vec<u8> {
    if rng.u32(0..4) == 0 {
        return (0..rng.usize(0..80)).map(|_| rng.u8(..)).collect();
    }
    let mut payload = samples[rng.usize(0..samples.len())].clone();
    for _ in 0..rng.usize(0..4) {
        let at = rng.usize(0..payload.len());
        payload[at] = [0, 1, 255, rng.u8(..)][rng.usize(0..4)];
    }
    if rng.bool() {
        payload.truncate(rng.usize(0..=payload.len()));
    }
    payload
}

/// Returns one page of each kind.
fn pages() -> Vec<Vec<u8>> {
    let mut pages = vec![vec![0; PAGE_BYTES]; 3];
    let mut leaf = LeafMut::format(&mut pages[0], PageId::new(9), TableId::new(3), b"", None);
    for (slot, key) in [&b"a"[..], b"b", b"key", b"z"].into_iter().enumerate() {
        leaf.insert_at(slot, key, &Value::Inline(b"one two three")).expect("room");
    }
    let (id, table) = (PageId::new(9), TableId::new(3));
    let mut inner = InnerMut::format(&mut pages[1], id, table, 1, (b"", None), PageId::new(30));
    for slot in 0..8 {
        inner.insert_at(slot, &[slot as u8 + 1], PageId::new(40 + slot as u64)).expect("room");
    }
    map::format(&mut pages[2], PageId::FIRST_MAP);
    pages
}

#[test]
fn garbage_is_refused_without_panic() {
    for_seeds(4, |rng| {
        let mut samples: Vec<Vec<u8>> = leaf_changes().iter().map(encoded).collect();
        samples.push(parts().payload().to_vec());
        let kinds = (0..=255).filter_map(ChangeKind::decode).collect::<Vec<_>>();
        assert_eq!(kinds.len(), 6);
        let mut sound = 0;
        for _ in 0..5000 {
            let payload = mangled(rng, &samples);
            for kind in kinds.iter().copied() {
                if let Ok(UndoOp::FreePages(pages)) = undo_of(kind, &payload) {
                    assert!(pages.len() <= payload.len());
                }
                assert!(pages_of(kind, &payload).count() <= payload.len() + 1);
                let mut page = pages().swap_remove(rng.usize(0..3));
                // A change that decodes and applies may still leave a page with keys out of order,
                // because only the writer of a change orders the keys. Checking such a page must
                // not panic.
                if let Ok(change) = LeafChange::decode(kind, &payload)
                    && apply_leaf(&mut page, &change).is_ok()
                {
                    sound += u32::from(check_structure(&page).is_ok());
                }
                for part in decode_parts(&payload).map_while(std::result::Result::ok) {
                    if apply_part(&mut page, PageId::new(9), &part.part).is_ok() {
                        sound += u32::from(check_structure(&page).is_ok());
                    }
                }
            }
        }
        assert!(sound > 0);
    });
}
