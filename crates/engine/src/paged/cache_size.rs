//! Memory that the cache of pages may take.
//!
//! `CacheSize::of` is a pure function; the thread that opens the database calls it. A size in the
//! options is used as it is. Without a size in the options, the cache takes a share of the memory
//! that this process may use. With buffered I/O the share is smaller, because the system's page
//! cache keeps further pages in the memory that the store leaves to it.

use katydid_device::Method;

/// Minimum size in bytes, if the options leave the choice to the store.
const LEAST: u64 = 16 << 20;
/// Size in bytes, if the system does not say how much memory there is.
const UNKNOWN: usize = 256 << 20;

/// The size of the cache, and the reason for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CacheSize {
    pub(crate) bytes: usize,
    /// Bytes of memory of which the cache takes a share. `None` if the options give the size, or
    /// the system does not say how much memory there is.
    pub(crate) share_of: Option<u64>,
}

impl CacheSize {
    /// Returns the size for `asked` bytes, or for a share of `limit()` if `asked` is 0. `method` is
    /// the way in which pages are read and written.
    pub(crate) fn of(asked: usize, method: Method, limit: impl FnOnce() -> Option<u64>) -> CacheSize {
        if asked != 0 {
            return CacheSize { bytes: asked, share_of: None };
        }
        let share = |memory: u64| match method {
            Method::Buffered => memory / 4,
            _ => memory / 2,
        };
        let share_of = limit();
        let bytes = share_of
            .map_or(UNKNOWN, |memory| usize::try_from(share(memory).max(LEAST)).unwrap_or(usize::MAX));
        CacheSize { bytes, share_of }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_that_was_asked_for_counts_and_the_memory_is_not_looked_at() {
        let asked = CacheSize::of(5 << 20, Method::Buffered, || panic!("looked"));
        assert_eq!(asked, CacheSize { bytes: 5 << 20, share_of: None });
    }

    #[test]
    fn the_share_is_smaller_where_the_system_keeps_pages_too() {
        let of = |method, memory| CacheSize::of(0, method, || memory);
        let memory = Some(1 << 30);
        let sized = |bytes, share_of| CacheSize { bytes, share_of };
        assert_eq!(of(Method::Buffered, memory), sized(256 << 20, memory));
        assert_eq!(of(Method::Direct, memory), sized(512 << 20, memory));
        assert_eq!(of(Method::Uring, memory), sized(512 << 20, memory));
        assert_eq!(of(Method::Buffered, Some(0)), sized(16 << 20, Some(0)), "the least");
        assert_eq!(of(Method::Direct, Some(40 << 20)), sized(20 << 20, Some(40 << 20)));
        assert_eq!(of(Method::Direct, None), sized(256 << 20, None), "nobody knows");
    }
}
