//! Takes the place of `nvram/file.rs` on systems that map no regions: opening a region is an error
//! that names the file. Memory and simulated regions exist everywhere.

use super::form::{Form, Persistence};
use crate::error::{Error, Result, Verb};
use std::io;
use std::path::Path;
use std::ptr::NonNull;

/// A mapped region. This system has none.
#[derive(Debug)]
pub(super) enum Mapping {}

impl Mapping {
    pub(super) fn base(&self) -> NonNull<u8> {
        match *self {}
    }

    pub(super) fn bytes(&self) -> u64 {
        match *self {}
    }

    pub(super) fn form(&self) -> Form {
        match *self {}
    }
}

/// Refuses to open a region.
pub(super) fn open(path: &Path, _: Option<u64>, _: Persistence) -> Result<Mapping> {
    let error =
        io::Error::new(io::ErrorKind::Unsupported, "regions in files are mapped on Linux and macOS only");
    Err(Error::from_io(Verb::Map, path.display().to_string(), error))
}
