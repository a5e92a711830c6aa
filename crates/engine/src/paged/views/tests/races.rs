//! Views that open or close at one instant of a writing transaction.

use super::super::versions::{Before, Versions};
use super::super::{TxnImages, Views};
use crate::paged::page::Value;
use crate::pause::{PausePoint, with_hook};
use crate::{Lsn, TableId};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// A transaction changes a key a second time. Before this change takes one of its latches, the only
/// view closes, for which the key's last committed value was kept. A view that opens next must show
/// that value, and not the transaction's first one.
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
        let new = views.open(|| Lsn::ZERO);
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
