//! Objects, errors and bytes that RocksDB hands out. The safety rules are those of the parent's
//! head.

use super::ffi;
use crate::adapters::failed;
use katydid_workload::{Result, StoreError};
use std::ffi::{CStr, c_char};
use std::ptr;

/// Something of RocksDB's that is freed when it is dropped.
pub struct Owned<T> {
    pub it: *mut T,
    free: unsafe extern "C" fn(*mut T),
}

impl<T> Owned<T> {
    pub fn new(it: *mut T, free: unsafe extern "C" fn(*mut T)) -> Owned<T> {
        Owned { it, free }
    }
}

impl<T> Drop for Owned<T> {
    fn drop(&mut self) {
        // SAFETY: rule 3: `it` is owned by this alone, and `free` is what frees its kind.
        unsafe { (self.free)(self.it) }
    }
}

/// Runs a call that reports errors as texts.
pub fn checked<T>(call: impl FnOnce(ffi::Errors) -> T) -> Result<T> {
    let mut error: *mut c_char = ptr::null_mut();
    let result = call(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: an error that was set is a text that ends with a zero and is the caller's to free; it
    // is copied first.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        ffi::rocksdb_free(error.cast());
        text
    };
    // The C interface has no codes: a status is told by the words that its text begins with.
    let conflicts = ["Resource busy", "Operation timed out", "Operation failed. Try again."];
    match conflicts.iter().any(|begin| text.starts_with(begin)) {
        true => Err(StoreError::Conflict(text.into())),
        false => Err(failed(text)),
    }
}

/// A copy of a value that was found, which is given back.
pub fn taken(found: *mut ffi::Pinned) -> Option<Vec<u8>> {
    if found.is_null() {
        return None;
    }
    let found = Owned::new(found, ffi::rocksdb_pinnableslice_destroy);
    let mut length = 0;
    // SAFETY: the value is alive and unchanged until `found` is dropped.
    unsafe {
        let at = ffi::rocksdb_pinnableslice_value(found.it, &mut length);
        Some(bytes(at, length).to_vec())
    }
}

/// # Safety
/// As for `slice::from_raw_parts`, but `at` may be null where there are no bytes.
pub unsafe fn bytes<'b>(at: *const c_char, length: usize) -> &'b [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}
