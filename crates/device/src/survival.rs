//! The bytes that a simulated crash leaves, of files and of non-volatile memory.
//!
//! Plain values.

/// Choice of the un-synced bytes and names that a simulated crash keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Survival {
    /// The seed decides for each sector and name: kept, dropped, torn or reordered.
    #[default]
    Random,
    /// Nothing un-synced survives.
    DropAll,
    /// Everything un-synced survives, as if it had been synced in the last moment.
    KeepAll,
    /// The first un-synced sectors of each file survive, and the seed decides their number. So each
    /// place at which a long write can be cut is as likely as any other. Names survive as with
    /// `Random`.
    Prefix,
    /// `Random` on a device that may write a sector in part. A sector of a call that was under way
    /// at the crash may also hold bytes that no call has written, or bytes of both versions. Calls
    /// under way are the call at which the device crashed, and the writes that waited because of
    /// [`SimDevice::stall_writes`](crate::SimDevice::stall_writes). Only with `Trash` may such a
    /// waiting write take effect in part.
    Trash,
}
