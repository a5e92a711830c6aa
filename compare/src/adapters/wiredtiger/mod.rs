//! WiredTiger: a B-tree with a write-ahead log, the storage engine of MongoDB.
//!
//! With `Commits::Durable`: `log=(enabled)` and `transaction_sync=(enabled,method=fsync)`. One
//! `fdatasync` of the log covers all commits whose records were written when it began.
//!
//! With `Commits::Unsafe`: no log.
//!
//! Snapshot isolation: a transaction sees the state at its beginning, and is refused at once if it
//! writes or reserves a key that other transactions have written since then. A read for update
//! reserves its key.
//!
//! Safety rules:
//! 1. A connection outlives its sessions, and a session its cursors: clients borrow the store,
//!    transactions borrow their client.
//! 2. Threads share a connection, as WiredTiger documents; a session and its cursors belong to one
//!    client and are never used by two threads at once.
//! 3. Bytes that a cursor returns are copied, or passed to `visit`, before the cursor is used
//!    again.

mod ffi;

use super::{Options, Rival, exists, failed, read_only};
use katydid_workload::{Client, Counters, Intent, Keys, Result, Store, StoreError, Transaction};
use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// Number of sessions other than the clients': WiredTiger's own and those of checks.
const OTHER_SESSIONS: usize = 64;

fn text(code: c_int) -> String {
    // SAFETY: the text of a code is constant.
    unsafe { CStr::from_ptr(ffi::katydid_wt_text(code)).to_string_lossy().into_owned() }
}

fn done(code: c_int) -> Result<()> {
    // SAFETY: the value is constant.
    let conflict = unsafe { ffi::katydid_wt_conflict };
    match code {
        0 => Ok(()),
        code if code == conflict => Err(StoreError::Conflict(text(code).into())),
        code => Err(failed(format!("wiredtiger: {} ({code})", text(code)))),
    }
}

/// Returns whether a key was found.
fn found(code: c_int) -> Result<bool> {
    // SAFETY: the value is constant.
    if code == unsafe { ffi::katydid_wt_not_found } {
        return Ok(false);
    }
    done(code).map(|()| true)
}

/// # Safety
/// The conditions of `slice::from_raw_parts` must hold, but `at` may be null if `length` is 0.
unsafe fn bytes<'b>(at: *const c_void, length: usize) -> &'b [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller promises this.
    unsafe { std::slice::from_raw_parts(at.cast(), length) }
}

pub struct WiredTiger {
    connection: *mut ffi::Connection,
}

// SAFETY: rule 2.
unsafe impl Send for WiredTiger {}
// SAFETY: rule 2.
unsafe impl Sync for WiredTiger {}

impl WiredTiger {
    pub fn open(place: &Path, options: &Options) -> Result<WiredTiger> {
        let log = match options.durable() {
            true => "log=(enabled=true),transaction_sync=(enabled=true,method=fsync)",
            false => "",
        };
        let sessions = options.clients + OTHER_SESSIONS;
        let config = format!("create,cache_size={},session_max={sessions},{log}", options.cache_bytes);
        let (home, config) = (CString::new(place.as_os_str().as_bytes()), CString::new(config));
        let (home, config) = (home.map_err(failed)?, config.map_err(failed)?);
        let mut connection = ptr::null_mut();
        // SAFETY: the texts live during the call, and this store owns the connection.
        done(unsafe { ffi::katydid_wt_open(home.as_ptr(), config.as_ptr(), &mut connection) })?;
        Ok(WiredTiger { connection })
    }
}

impl Drop for WiredTiger {
    fn drop(&mut self) {
        if !self.connection.is_null() {
            // Only a store that has failed is dropped without being closed, so the error of this
            // close is not reported.
            // SAFETY: rule 1: no thread uses the connection any more.
            unsafe { ffi::katydid_wt_close(self.connection) };
        }
    }
}

impl Store for WiredTiger {
    type Client<'s> = WiredClient<'s>;

    fn client(&self, tables: &[&str]) -> Result<WiredClient<'_>> {
        let mut session = ptr::null_mut();
        // SAFETY: the client's drop closes the session before the connection is closed.
        done(unsafe { ffi::katydid_wt_session(self.connection, &mut session) })?;
        let mut client = WiredClient { _store: self, session, tables: Vec::new() };
        for name in tables {
            client.tables.push(client.table(name)?);
        }
        Ok(client)
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    fn describe(&self) -> String {
        // SAFETY: the text is a constant.
        unsafe { CStr::from_ptr(ffi::katydid_wt_version()).to_string_lossy().into_owned() }
    }
}

impl Rival for WiredTiger {
    fn close(mut self) -> Result<()> {
        let connection = std::mem::replace(&mut self.connection, ptr::null_mut());
        // SAFETY: rule 1, and no other call closes the connection again.
        done(unsafe { ffi::katydid_wt_close(connection) })
    }
}

/// A table's cursors.
#[derive(Clone, Copy)]
struct Table {
    any: *mut ffi::Cursor,
    /// A cursor that refuses to insert an existing key.
    new: *mut ffi::Cursor,
}

pub struct WiredClient<'s> {
    _store: &'s WiredTiger,
    session: *mut ffi::Session,
    tables: Vec<Table>,
}

impl WiredClient<'_> {
    fn table(&self, name: &str) -> Result<Table> {
        let uri = CString::new(format!("table:{name}")).map_err(failed)?;
        let cursor = |config: &CStr| -> Result<*mut ffi::Cursor> {
            let mut cursor = ptr::null_mut();
            // SAFETY: the session is open, and closing it closes its cursors.
            done(unsafe {
                ffi::katydid_wt_cursor(self.session, uri.as_ptr(), config.as_ptr(), &mut cursor)
            })?;
            Ok(cursor)
        };
        // SAFETY: the session is open. The call does not change an existing table of the same
        // formats.
        done(unsafe {
            ffi::katydid_wt_create(self.session, uri.as_ptr(), c"key_format=u,value_format=u".as_ptr())
        })?;
        Ok(Table { any: cursor(c"overwrite=true")?, new: cursor(c"overwrite=false")? })
    }
}

impl Drop for WiredClient<'_> {
    fn drop(&mut self) {
        // Closing the session rolls back its open transaction.
        // SAFETY: rule 2: no other thread has the session or its cursors.
        unsafe { ffi::katydid_wt_session_close(self.session) };
    }
}

impl Client for WiredClient<'_> {
    type Transaction<'c>
        = WiredTransaction<'c>
    where
        Self: 'c;

    fn begin(&mut self, intent: Intent) -> Result<WiredTransaction<'_>> {
        // SAFETY: the session is open and has no transaction: the previous transaction ended when
        // it was dropped.
        done(unsafe { ffi::katydid_wt_begin(self.session) })?;
        let (table, tables) = (self.tables[0], &self.tables[..]);
        Ok(WiredTransaction { session: self.session, table, tables, intent, open: true })
    }

    fn poll(&mut self) -> usize {
        0
    }

    fn pending(&self) -> usize {
        0
    }

    fn wait_below(&mut self, _limit: usize) -> Result<()> {
        Ok(())
    }
}

pub struct WiredTransaction<'c> {
    session: *mut ffi::Session,
    table: Table,
    tables: &'c [Table],
    intent: Intent,
    /// True if the transaction must be rolled back when it is dropped.
    open: bool,
}

type Get =
    unsafe extern "C" fn(*mut ffi::Cursor, *const c_void, usize, *mut *const c_void, *mut usize) -> c_int;

impl WiredTransaction<'_> {
    /// Finds the value of a key, and passes it to `visit`.
    fn find<T>(&mut self, key: &[u8], get: Get, visit: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let (mut value, mut length) = (ptr::null(), 0);
        // SAFETY: the cursor is open; the key lives until the cursor is reset, and `visit` uses the
        // value before the reset (rule 3).
        unsafe {
            let code = get(self.table.any, key.as_ptr().cast(), key.len(), &mut value, &mut length);
            let visited = found(code)?.then(|| visit(bytes(value, length)));
            done(ffi::katydid_wt_reset(self.table.any))?;
            Ok(visited)
        }
    }

    fn insert_by(&mut self, cursor: *mut ffi::Cursor, key: &[u8], value: &[u8]) -> Result<()> {
        if self.intent == Intent::ReadOnly {
            return Err(read_only());
        }
        // SAFETY: the cursor is open, and WiredTiger copies key and value.
        let code = unsafe {
            ffi::katydid_wt_insert(cursor, key.as_ptr().cast(), key.len(), value.as_ptr().cast(), value.len())
        };
        // SAFETY: the value is constant.
        if code == unsafe { ffi::katydid_wt_duplicate_key } {
            return Err(exists(key));
        }
        done(code)
    }
}

impl Drop for WiredTransaction<'_> {
    fn drop(&mut self) {
        if self.open {
            // If the rollback fails, the session is unusable and its next `begin` fails.
            // SAFETY: the session is open and in a transaction.
            unsafe { ffi::katydid_wt_rollback(self.session) };
        }
    }
}

impl Transaction for WiredTransaction<'_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = self.tables[table];
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.find(key, ffi::katydid_wt_get, <[u8]>::to_vec)
    }

    fn get_with(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        Ok(self.find(key, ffi::katydid_wt_get, visit)?.is_some())
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.find(key, ffi::katydid_wt_get_for_update, <[u8]>::to_vec)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert_by(self.table.any, key, value)
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.insert_by(self.table.new, key, value)
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        if self.intent == Intent::ReadOnly {
            return Err(read_only());
        }
        // SAFETY: the cursor is open; WiredTiger uses the key during the call only. This cursor
        // reports keys that are missing.
        found(unsafe { ffi::katydid_wt_remove(self.table.new, key.as_ptr().cast(), key.len()) })
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let (cursor, from, mut seen) = (self.table.any, keys.from, 0);
        // SAFETY: the cursor is open; `visit` uses key and value before the cursor moves (rule 3).
        unsafe {
            let mut more = found(ffi::katydid_wt_seek(cursor, from.as_ptr().cast(), from.len()))?;
            while more && seen < limit {
                let (mut key, mut length, mut value, mut value_length) = (ptr::null(), 0, ptr::null(), 0);
                done(ffi::katydid_wt_entry(cursor, &mut key, &mut length, &mut value, &mut value_length))?;
                let key = bytes(key, length);
                if keys.to.is_some_and(|to| key >= to) {
                    break;
                }
                visit(key, bytes(value, value_length));
                seen += 1;
                more = found(ffi::katydid_wt_next(cursor))?;
            }
            done(ffi::katydid_wt_reset(cursor))?;
        }
        Ok(seen)
    }

    fn commit(mut self) -> Result<()> {
        // A commit that fails has rolled back.
        self.open = false;
        // SAFETY: the session is open and in a transaction.
        done(unsafe { ffi::katydid_wt_commit(self.session) })
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        done(self.commit());
    }
}
