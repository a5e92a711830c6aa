//! Objects, errors and bytes that RocksDB returns. The head of the parent module has the safety
//! rules.

use super::ffi;
use crate::adapters::failed;
use katydid_workload::{Result, StoreError};
use std::ffi::{CStr, c_char};
use std::ptr;

/// An object of RocksDB that is freed when it is dropped.
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
        // SAFETY: rule 3: only this value owns `it`, and `free` is the function for objects of this
        // type.
        unsafe { (self.free)(self.it) }
    }
}

/// Runs a call that reports an error as a text.
pub fn checked<T>(call: impl FnOnce(ffi::Errors) -> T) -> Result<T> {
    let mut error: *mut c_char = ptr::null_mut();
    let result = call(&mut error);
    if error.is_null() {
        return Ok(result);
    }
    // SAFETY: `error` is not null, so it points to a text that ends with a zero byte. The caller
    // must free the text; this block copies the text before it frees it.
    let text = unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        ffi::rocksdb_free(error.cast());
        text
    };
    // The C interface has no error codes, so the first words of the text identify the error.
    let conflicts = ["Resource busy", "Operation timed out", "Operation failed. Try again."];
    match conflicts.iter().any(|begin| text.starts_with(begin)) {
        true => Err(StoreError::Conflict(text.into())),
        false => Err(failed(text)),
    }
}

/// Passes a found value to `visit`, and frees RocksDB's value.
pub fn lent<T>(found: *mut ffi::Pinned, visit: impl FnOnce(&[u8]) -> T) -> Option<T> {
    if found.is_null() {
        return None;
    }
    let found = Owned::new(found, ffi::rocksdb_pinnableslice_destroy);
    let mut length = 0;
    // SAFETY: the value is alive and unchanged until `found` is dropped.
    unsafe {
        let at = ffi::rocksdb_pinnableslice_value(found.it, &mut length);
        Some(visit(bytes(at, length)))
    }
}

/// # Safety
/// The conditions of `slice::from_raw_parts` must hold, but `at` may be null if `length` is 0.
pub unsafe fn bytes<'b>(at: *const c_char, length: usize) -> &'b [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller promises this.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}
