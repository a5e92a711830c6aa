//! A page in memory with its latch held. The guard owns all that it needs, borrows nothing, and may
//! outlive the pool.

use super::Pool;
use super::frame::Body;
use super::load::Exclusive;
use crate::Lsn;
use crate::paged::page::{InnerRef, Kind, LeafRef, MapRef, OverflowRef, PageFault, PageId, header};
use parking_lot::{ArcRwLockReadGuard, RawRwLock};
use std::fmt;
use std::ops::{Deref, DerefMut};

/// A page with its latch held shared. Derefs to the page's bytes.
pub(crate) struct PageRead {
    pub(super) body: ArcRwLockReadGuard<RawRwLock, Body>,
}

/// A page with its latch held exclusively. Derefs to the page's bytes.
///
/// The steps of a change: [`PageWrite::begin_change`], append the log record, edit,
/// [`PageWrite::finish_change`]. The page must not be edited if the append failed. A panic between
/// the first step and the last shuts the engine off, because the page may be half changed.
pub(crate) struct PageWrite {
    body: Exclusive,
    /// True between `begin_change` and `finish_change`.
    changing: bool,
}

/// A page that is about to be made anew, with its latch held exclusively. [`Pool::create`] returns
/// it. If it is dropped before [`PageWrite::finish_change`], the page stays as it was before.
#[derive(Debug)]
pub(crate) struct NewPage<'p> {
    pool: &'p Pool,
    page: PageWrite,
}

macro_rules! reading {
    ($guard:ty) => {
        impl Deref for $guard {
            type Target = [u8];

            #[inline]
            fn deref(&self) -> &[u8] {
                &self.body.bytes
            }
        }

        impl fmt::Debug for $guard {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($guard)).field(&self.id()).finish()
            }
        }

        #[allow(dead_code)]
        impl $guard {
            /// The page's id.
            #[inline]
            pub(crate) fn id(&self) -> PageId {
                PageId::new(self.body.meta.page())
            }

            /// The page LSN.
            #[inline]
            pub(crate) fn lsn(&self) -> Lsn {
                header::page_lsn(&self.body.bytes)
            }

            /// The page's kind. A page that was read always has one.
            pub(crate) fn kind(&self) -> Option<Kind> {
                header::kind(&self.body.bytes)
            }

            /// The page as a leaf; a fault if it is of another kind.
            #[inline]
            pub(crate) fn leaf(&self) -> Result<LeafRef<'_>, PageFault> {
                header::expect(&self.body.bytes, Kind::Leaf)?;
                Ok(LeafRef::new(&self.body.bytes))
            }

            /// The page as an inner page; a fault if it is of another kind.
            #[inline]
            pub(crate) fn inner(&self) -> Result<InnerRef<'_>, PageFault> {
                header::expect(&self.body.bytes, Kind::Inner)?;
                Ok(InnerRef::new(&self.body.bytes))
            }

            /// The page as an overflow page; a fault if it is of another kind.
            pub(crate) fn overflow(&self) -> Result<OverflowRef<'_>, PageFault> {
                header::expect(&self.body.bytes, Kind::Overflow)?;
                Ok(OverflowRef::new(&self.body.bytes))
            }

            /// The page as an allocation map; a fault if it is of another kind.
            pub(crate) fn map(&self) -> Result<MapRef<'_>, PageFault> {
                header::expect(&self.body.bytes, Kind::Map)?;
                Ok(MapRef::new(&self.body.bytes))
            }
        }
    };
}

reading!(PageRead);
reading!(PageWrite);

impl PageWrite {
    pub(super) fn new(body: Exclusive) -> Self {
        PageWrite { body, changing: false }
    }

    /// Announces that a record which changes this page is about to be appended. Must come before
    /// the append. Otherwise a checkpoint that begins after the append and before the announcement
    /// would not see the page as dirty.
    #[inline]
    pub(crate) fn begin_change(&mut self) {
        self.changing = true;
        self.body.begin_change();
    }

    /// Begins a change like [`PageWrite::begin_change`], for redo of a record that is in the log
    /// already and begins (with its first fragment) at `first`.
    /// [`WalBarrier::floor`](super::WalBarrier::floor) is no lower bound for this record, because
    /// the record lies below the end of the log.
    pub(crate) fn begin_redo(&mut self, first: Lsn) {
        self.begin_change();
        self.body.meta.lower_recovery_lsn(first);
    }

    /// Notes that the page contains the change of the record at `lsn` that ends at `end`, and sets
    /// the page LSN. Follows `begin_change` or `begin_redo`.
    #[inline]
    pub(crate) fn finish_change(&mut self, lsn: Lsn, end: Lsn) {
        // Needed only if redo of a record began with `begin_change` instead of `begin_redo`.
        // Without this call the page's recovery LSN would then lie above the record, and a
        // checkpoint would trim the record away.
        self.body.meta.lower_recovery_lsn(lsn);
        header::set_page_lsn(&mut self.body.bytes, lsn);
        self.body.change_end = self.body.change_end.max(end);
        self.body.loaded = true;
        self.changing = false;
    }

    /// The page's bytes, which may be changed between `begin_change` and `finish_change`.
    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.body.bytes
    }
}

impl Drop for PageWrite {
    fn drop(&mut self) {
        // The latch does not record that its holder panicked, so the page itself does.
        if self.changing && std::thread::panicking() {
            self.body.tear();
        }
    }
}

impl<'p> NewPage<'p> {
    pub(super) fn new(pool: &'p Pool, body: Exclusive) -> Self {
        NewPage { pool, page: PageWrite::new(body) }
    }
}

impl Deref for NewPage<'_> {
    type Target = PageWrite;

    fn deref(&self) -> &PageWrite {
        &self.page
    }
}

impl DerefMut for NewPage<'_> {
    fn deref_mut(&mut self) -> &mut PageWrite {
        &mut self.page
    }
}

impl Drop for NewPage<'_> {
    fn drop(&mut self) {
        let body = &self.page.body;
        if !body.loaded {
            body.forget_change();
            self.pool.reject(self.page.id(), body);
        }
    }
}
