//! What a simulated crash leaves, of files and of non-volatile memory.
//!
//! Pure; any thread.

/// Fate of unsynced bytes at a crash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Survival {
    /// The seed decides, sector by sector and name by name: kept, dropped, torn or reordered.
    #[default]
    Random,
    /// Nothing un-synced survives.
    DropAll,
    /// Everything un-synced survives, as if it was synced in the last moment.
    KeepAll,
    /// Of each file's un-synced sectors the first ones survive, the seed decides how many: so each
    /// place of a long write that is cut is as likely as any other. Of names as with `Random`.
    Prefix,
    /// As `Random`, on a device that does not write sectors whole or not at all: a sector of a call
    /// that was under way at the crash may also hold bytes that no call has written, or bytes of
    /// both versions. Under way are the call that the device crashed at, and those that waited
    /// because of [`SimDevice::stall_writes`](crate::SimDevice::stall_writes), which take partial
    /// effect.
    Trash,
}
