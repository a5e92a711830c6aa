//! The host of a measurement: the machine, the device of the log, and the folder.

pub mod device;
pub mod folder;
pub mod limit;
pub mod machine;
pub mod raw;
pub mod split;
pub mod stripes;
pub mod usage;
