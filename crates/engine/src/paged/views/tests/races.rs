//! Views that open or close at one instant of a writing transaction.

use super::super::versions::{Before, Outcome, Publishing, Stamp, Versions};
use super::super::{TxnImages, Views};
use crate::paged::page::Value;
use crate::pause::{PausePoint, with_hook};
use crate::{Database, Error, Lsn, Options, PagedOptions, Table, TableId, Transaction};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A transaction changes a key a second time. Before this change takes one of its latches, the only
/// view closes. That view needed an older value of the key, so the image of the last committed
/// value was not published. A view that opens next must show the last committed value, and not the
/// value of the transaction's first change.
#[test]
fn no_view_shows_the_first_of_two_changes() {
    for latch in 1.. {
        let views = Rc::new(Views::new(1 << 20));
        let versions = Arc::new(Versions::new(TableId::new(1)));
        let change = |images: &TxnImages, key: &str, before: &str| {
            let before = Value::Inline(before.as_bytes());
            views.keep(images, &versions, key.as_bytes(), Some(before));
        };
        let old = views.open(|| Lsn::ZERO);
        let committed = views.take_images();
        change(&committed, "k", "0");
        change(&committed, "other", "0");
        views.committed(&committed, Lsn::new(1));
        views.ended(&committed);
        let writer = views.take_images();
        change(&writer, "k", "1");
        change(&writer, "other", "1");
        let (left, old) = (Cell::new(latch), Rc::new(RefCell::new(Some(old))));
        let hook = {
            let (views, old) = (views.clone(), old.clone());
            move |place| {
                if place != PausePoint::Latch || left.get() == 0 {
                    return;
                }
                left.set(left.get() - 1);
                let closing = if left.get() == 0 { old.take() } else { None };
                if let Some(old) = closing {
                    views.close(old);
                }
            }
        };
        with_hook(hook, || change(&writer, "k", "2"));
        let left_open = old.take();
        let was_last = left_open.is_some();
        if let Some(old) = left_open {
            views.close(old);
        }
        let mut new = views.open(|| Lsn::ZERO);
        views.visit(&mut new);
        for key in ["k", "other"] {
            let shown = versions.look(key.as_bytes(), new.stamp, |image| image.cloned());
            assert_eq!(shown, Some(Before::Bytes(b"1"[..].into())), "{key}, closed at latch {latch}");
        }
        views.close(new);
        if was_last {
            assert!(latch > 2, "the change takes latches");
            break;
        }
    }
}

/// A view opens and finds that no commit has read the clock. Before the view has its stamp, a
/// transaction commits. The image of one of its keys is not published, because the only view in a
/// slot does not need it. The new view must see both changes of the transaction, or neither.
#[test]
fn a_view_sees_all_or_nothing_of_what_commits_before_it_has_its_stamp() {
    let views = Rc::new(Views::new(1 << 20));
    let versions = Arc::new(Versions::new(TableId::new(1)));
    let change = |keys: &[&str]| {
        let images = views.take_images();
        for key in keys {
            views.keep(&images, &versions, key.as_bytes(), Some(Value::Inline(b"before")));
        }
        images
    };
    let old = views.open(|| Lsn::ZERO);
    let committed = change(&["a"]);
    views.committed(&committed, Lsn::new(1));
    views.ended(&committed);
    // This view raises the clock.
    views.close(views.open(|| Lsn::ZERO));
    let writer = RefCell::new(Some(change(&["a", "b"])));
    let hook = {
        let views = views.clone();
        move |place| {
            if place == PausePoint::Stamped
                && let Some(writer) = writer.take()
            {
                views.committed(&writer, Lsn::new(2));
                views.ended(&writer);
            }
        }
    };
    let mut new = with_hook(hook, || views.open(|| Lsn::ZERO));
    views.visit(&mut new);
    let is_hidden = |key: &str| versions.look(key.as_bytes(), new.stamp, |image| image.is_some());
    assert_eq!(is_hidden("a"), is_hidden("b"));
    views.close(new);
    views.close(old);
    assert_eq!((versions.images(), views.stat().bytes), (0, 0));
}

/// Opens a database that allows fewer bytes of images than `fill` needs, and fills a table.
fn with_few_images() -> (Database, Table) {
    let pages = PagedOptions { page_bytes: 4096, view_bytes_max: 64 << 10, ..PagedOptions::default() };
    let database =
        Database::in_memory_with(Options { engine: pages.into(), ..Options::default() }).expect("open");
    let table = database.table("t").expect("table");
    database
        .transact(|txn| {
            fill(txn, &table, 1);
            Ok(())
        })
        .expect("fill");
    (database, table)
}

fn fill(txn: &Transaction, table: &Table, value: u8) {
    (0..250).try_for_each(|key: u8| txn.put(table, [key], [value; 500])).expect("fill");
}

/// A transaction that keeps no images commits after a view has opened. The view must not show its
/// changes, although no key is locked any more.
#[test]
fn a_view_does_not_show_what_commits_later_without_images() {
    let (database, table) = with_few_images();
    let writer = database.begin().expect("begin");
    fill(&writer, &table, 2);
    let view = database.begin_read_only().expect("begin");
    writer.commit().expect("commit");
    let shown = view.get(&table, [0]);
    assert!(matches!(shown, Err(Error::ViewTooOld { .. })), "{shown:?}");
}

/// A view finds a key unlocked. Before it reads the leaf, a transaction that has changed too much
/// to keep images changes the key. The view must not show this change.
#[test]
fn a_view_does_not_show_a_change_without_an_image() {
    let (database, table) = with_few_images();
    database.put(&table, "key", "old").expect("put");
    let writer = database.begin().expect("begin");
    fill(&writer, &table, 2);
    let view = database.begin_read_only().expect("begin");
    let (latches, writer) = (Cell::new(0), Rc::new(RefCell::new(Some(writer))));
    let hook = {
        let (table, writer) = (table.clone(), writer.clone());
        move |place| {
            if place != PausePoint::Latch {
                return;
            }
            latches.set(latches.get() + 1);
            // The first latch is that of the key's lock.
            if latches.get() == 2 {
                writer.borrow().as_ref().expect("a writer").put(&table, "key", "new").expect("put");
            }
        }
    };
    let shown = with_hook(hook, || view.get(&table, "key"));
    assert!(matches!(shown, Err(Error::ViewTooOld { .. })), "{shown:?}");
    writer.take().expect("a writer").rollback().expect("rollback");
    view.commit().expect("commit");
    assert_eq!(database.get(&table, "key").expect("get").as_deref(), Some(&b"old"[..]));
}

/// A transaction keeps two images of a key while no view is open. A view publishes them, and before
/// the second one the last image of the key's previous writer goes. The second image has a value of
/// the transaction itself, so no view may show it.
#[test]
fn the_second_image_of_a_key_is_not_published() {
    let views = Views::new(1 << 20);
    let versions = Arc::new(Versions::new(TableId::new(1)));
    let previous = Arc::new(Outcome::default());
    let before = || Before::Bytes(b"0"[..].into());
    let published = versions.publish(b"k", &previous, Stamp(1), before);
    assert!(matches!(published, Publishing::Published(_)));
    previous.commit(Stamp(2));
    let images = views.take_images();
    for (key, before) in [("k", "1"), ("other", "1"), ("k", "2")] {
        views.keep(&images, &versions, key.as_bytes(), Some(Value::Inline(before.as_bytes())));
    }
    let latches = Cell::new(0);
    let hook = {
        let versions = versions.clone();
        move |place| {
            latches.set(latches.get() + usize::from(place == PausePoint::Latch));
            if latches.get() == 2 {
                versions.remove(b"k", &previous);
            }
        }
    };
    let mut kept = images.kept.lock();
    with_hook(hook, || kept.publish(Stamp(1)));
    kept.publish(Stamp(2));
    drop(kept);
    let shown = versions.look(b"k", Stamp(2), |image| image.cloned());
    assert_eq!(shown, Some(Before::Bytes(b"1"[..].into())));
}

/// A transaction has changed too much to keep images. While a view opens, another transaction
/// changes a value and commits; the first transaction copies that value, and commits, too. The view
/// must not show the copy together with the former value.
#[test]
fn a_view_does_not_show_part_of_what_commits_while_it_opens() {
    let (database, table) = with_few_images();
    for key in ["copy", "original"] {
        database.put(&table, key, "old").expect("put");
    }
    let writer = database.begin().expect("begin");
    fill(&writer, &table, 2);
    let (stamped, writer) = (Cell::new(0), RefCell::new(Some(writer)));
    let hook = {
        let (database, table) = (database.clone(), table.clone());
        move |place| match place {
            PausePoint::Stamped => stamped.set(stamped.get() + 1),
            // The view has raised the clock, and holds no latch.
            PausePoint::Latch if stamped.get() == 2 => {
                let Some(writer) = writer.take() else { return };
                database.put(&table, "original", "new").expect("put");
                let value = writer.get_for_update(&table, "original").expect("get").expect("the original");
                assert_eq!(value, b"new");
                writer.put(&table, "copy", value).expect("put");
                writer.commit().expect("commit");
            }
            _ => {}
        }
    };
    let view = with_hook(hook, || database.begin_read_only().expect("begin"));
    assert_eq!(database.get(&table, "copy").expect("get").as_deref(), Some(&b"new"[..]));
    let unknown = view.get(&table, [0]);
    assert!(matches!(unknown, Err(Error::ViewTooOld { .. })), "no image was kept: {unknown:?}");
    match (view.get(&table, "copy"), view.get(&table, "original")) {
        (Ok(copy), Ok(original)) => assert_eq!(copy, original),
        (copy, original) => {
            for outcome in [copy, original] {
                assert!(matches!(outcome, Ok(_) | Err(Error::ViewTooOld { .. })), "{outcome:?}");
            }
        }
    }
}
