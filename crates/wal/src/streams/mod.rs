//! The streams of a log, made and opened in parallel.
//!
//! | file | what |
//! |---|---|
//! | `control` | the file that counts the streams of a log that has several |
//! | `folders` | where the streams lie |
//! | `opening` | which streams there are; opening or making them |
//! | `decoders` | the decoders of a device's bytes, for the fuzzer |

pub(crate) mod control;
pub(crate) mod decoders;
pub(crate) mod folders;
pub(crate) mod opening;
