//! Byte-addressable memory whose contents survive a crash, as far as they were persisted:
//! [`NvRegion`].
//!
//! | region | for | a killed process leaves | a crash of the machine leaves |
//! |---|---|---|---|
//! | [`NvRegion::open`] on a DAX file system | real NVRAM | everything | what was persisted |
//! | [`NvRegion::open`] anywhere else | emulation, best in `/dev/shm` | everything | anything: no byte is promised |
//! | [`NvRegion::memory`] | benchmarks and tests without files | nothing | nothing |
//! | [`SimNvram::region`] | crashes from a seed | everything | what was persisted; the seed decides the rest |
//!
//! A store goes into a processor's cache. The store is persisted in two steps. First its cache
//! lines are *written back* ([`NvRegion::write_back`]), which only begins the transfer. Then a
//! *fence* ([`NvRegion::fence`]) waits until all that this thread has written back is in the
//! memory. Three rules follow:
//!
//! 1. Bytes that a thread has written back and then fenced survive a crash, as they were at the
//!    write-back or as they were stored later.
//! 2. Any other stored bytes may survive a crash or not, eight bytes at a time, in any order. A
//!    cache may write a line back at any time, so leaving out the write-back does not keep a store
//!    from surviving.
//! 3. One thread's fence does nothing for another thread's write-backs.
//!
//! Structures in a region hold offsets, never pointers, because the next opening finds the region
//! at another address.
//!
//! ```
//! use katydid_device::nvram::{NvRegion, SimNvram};
//! use std::sync::atomic::Ordering;
//!
//! /// Persists the record first, then the flag that says that the record is there.
//! fn publish(region: &NvRegion, record: &[u8]) {
//!     // SAFETY: no other thread uses these bytes.
//!     unsafe { region.write(64, record) };
//!     region.persist(64, record.len() as u64);
//!     region.word(0).store(1, Ordering::Release);
//!     region.persist(0, 8);
//! }
//!
//! let memory = SimNvram::new(4096);
//! memory.crash_at(3); // record written back, fence, flag written back, crash
//! publish(&memory.region(), b"record");
//! for seed in 0..20 {
//!     let found = memory.reopen_after_crash(seed).region();
//!     // SAFETY: no thread writes.
//!     let record = unsafe { found.slice(64, 6) };
//!     assert!(found.word(0).load(Ordering::Acquire) == 0 || record == b"record");
//! }
//! ```

#[cfg(not(unix))]
mod absent;
mod cache;
mod delay;
#[cfg(unix)]
mod file;
mod form;
#[cfg_attr(not(unix), expect(dead_code, reason = "headers are of regions in files"))]
mod header;
mod region;
mod sim;

pub use cache::{Instruction, LINE_BYTES};
pub use form::{Form, Medium, Persistence};
pub use region::NvRegion;
pub(crate) use sim::CrashPeer;
pub use sim::{Counts, SimNvram};
