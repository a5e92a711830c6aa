//! The functions of `shim.c`.

use std::ffi::{c_char, c_int, c_void};

#[repr(C)]
pub struct Connection {
    _bytes: [u8; 0],
}

#[repr(C)]
pub struct Session {
    _bytes: [u8; 0],
}

#[repr(C)]
pub struct Cursor {
    _bytes: [u8; 0],
}

unsafe extern "C" {
    pub static katydid_wt_not_found: c_int;
    pub static katydid_wt_duplicate_key: c_int;
    pub static katydid_wt_conflict: c_int;

    pub fn katydid_wt_version() -> *const c_char;
    pub fn katydid_wt_text(code: c_int) -> *const c_char;
    pub fn katydid_wt_open(
        home: *const c_char,
        config: *const c_char,
        connection: *mut *mut Connection,
    ) -> c_int;
    pub fn katydid_wt_close(connection: *mut Connection) -> c_int;
    pub fn katydid_wt_session(connection: *mut Connection, session: *mut *mut Session) -> c_int;
    pub fn katydid_wt_session_close(session: *mut Session) -> c_int;
    pub fn katydid_wt_create(session: *mut Session, uri: *const c_char, config: *const c_char) -> c_int;
    pub fn katydid_wt_cursor(
        session: *mut Session,
        uri: *const c_char,
        config: *const c_char,
        cursor: *mut *mut Cursor,
    ) -> c_int;
    pub fn katydid_wt_begin(session: *mut Session) -> c_int;
    pub fn katydid_wt_commit(session: *mut Session) -> c_int;
    pub fn katydid_wt_rollback(session: *mut Session) -> c_int;
    pub fn katydid_wt_get(
        cursor: *mut Cursor,
        key: *const c_void,
        length: usize,
        value: *mut *const c_void,
        value_length: *mut usize,
    ) -> c_int;
    pub fn katydid_wt_get_for_update(
        cursor: *mut Cursor,
        key: *const c_void,
        length: usize,
        value: *mut *const c_void,
        value_length: *mut usize,
    ) -> c_int;
    pub fn katydid_wt_insert(
        cursor: *mut Cursor,
        key: *const c_void,
        length: usize,
        value: *const c_void,
        value_length: usize,
    ) -> c_int;
    pub fn katydid_wt_remove(cursor: *mut Cursor, key: *const c_void, length: usize) -> c_int;
    pub fn katydid_wt_seek(cursor: *mut Cursor, key: *const c_void, length: usize) -> c_int;
    pub fn katydid_wt_next(cursor: *mut Cursor) -> c_int;
    pub fn katydid_wt_entry(
        cursor: *mut Cursor,
        key: *mut *const c_void,
        length: *mut usize,
        value: *mut *const c_void,
        value_length: *mut usize,
    ) -> c_int;
    pub fn katydid_wt_reset(cursor: *mut Cursor) -> c_int;
}
