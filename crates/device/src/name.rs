//! Names of files: one plain component, so that no name from a caller leads out of a directory.

use crate::error::{Cause, Error, Result, Verb};
use std::io;
use std::sync::Arc;

/// Longest accepted name in bytes, as on every common file system.
const NAME_BYTES_MAX: usize = 255;

/// Refuses empty names, `.`, `..`, names with `/` or a NUL byte, and names of more than
/// [`NAME_BYTES_MAX`] bytes. The check is the same for every kind of directory.
pub(crate) fn check(verb: Verb, name: &str) -> Result<()> {
    let plain = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && name != "."
        && name != ".."
        && !name.contains(['/', '\0']);
    if plain {
        return Ok(());
    }
    let error = io::Error::new(io::ErrorKind::InvalidInput, "not a plain file name");
    Err(Error::new(verb, format!("{name:?}"), Cause::Io(Arc::new(error))))
}
