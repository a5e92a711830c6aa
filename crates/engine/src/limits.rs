//! Limits of sizes, for both engines.

/// Maximum length of a key in bytes. With pages of 4,096 bytes the paged engine allows 512.
pub const KEY_BYTES_MAX: usize = 1024;

/// Maximum length of a value in bytes.
pub const VALUE_BYTES_MAX: usize = 16 << 20;

/// Maximum number of streams of the memory engine's log.
pub const STREAMS_MAX: u16 = 64;

/// Maximum length of a table name in bytes.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Smallest page of the paged engine in bytes.
pub(crate) const PAGE_BYTES_MIN: usize = 4096;

/// Largest page of the paged engine in bytes.
pub(crate) const PAGE_BYTES_MAX: usize = 32768;

/// Bytes of pages kept in memory during the check of a database that is not open.
pub(crate) const VERIFY_CACHE_BYTES: usize = 64 << 20;

/// Prefix of the names of consumers that archive the log. No consumer of the feed has such a name.
pub(crate) const ARCHIVER_PREFIX: &str = "archive-";
