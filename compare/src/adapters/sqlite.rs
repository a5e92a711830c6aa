//! SQLite, compiled into the program: a B-tree with a write-ahead log.
//!
//! With `Commits::Durable`: `journal_mode=WAL` and `synchronous=FULL`. Each commit makes one
//! `fdatasync` of the log, and each checkpoint syncs both files.
//!
//! With `Commits::Unsafe`: `journal_mode=WAL` and `synchronous=OFF`.
//!
//! Each client has a connection. One transaction writes at a time, so transactions are
//! serializable. Other writers wait in `begin` for a lock of this adapter. Without this lock,
//! SQLite would make them sleep and try again. Readers have a snapshot. The cache is divided among
//! the connections. Pages have 8 KiB, as in Katydid, so rows of 1 KiB need no overflow pages.

use super::{Options, Rival, exists, failed, read_only};
use katydid_workload::{Client, Counters, Intent, Keys, Result, Store, StoreError, Transaction};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Statement};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Name of the file in a store's folder.
const FILE: &str = "sqlite";

/// Minimum cache of a connection: SQLite's default.
const CACHE_KIB_MIN: u64 = 2000;

/// Maximum number of statements that a connection keeps compiled, more than a workload has.
const STATEMENTS: usize = 256;

pub struct Sqlite {
    path: PathBuf,
    durable: bool,
    cache_kib: u64,
    /// The writing transaction holds this mutex from its beginning to its end.
    writer: Mutex<()>,
}

impl Sqlite {
    pub fn open(place: &Path, options: &Options) -> Result<Sqlite> {
        let cache_kib = (options.cache_bytes / 1024 / options.clients.max(1) as u64).max(CACHE_KIB_MIN);
        let store =
            Sqlite { path: place.join(FILE), durable: options.durable(), cache_kib, writer: Mutex::new(()) };
        store.connect()?;
        Ok(store)
    }

    fn connect(&self) -> Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags).map_err(wrong)?;
        // A checkpoint may block a connection for a moment, even a connection that holds the
        // writers' lock. So a connection waits before it fails.
        connection.busy_timeout(Duration::from_secs(10)).map_err(wrong)?;
        let synchronous = if self.durable { "FULL" } else { "OFF" };
        let settings = format!(
            "PRAGMA page_size=8192; PRAGMA journal_mode=WAL; PRAGMA synchronous={synchronous}; PRAGMA cache_size=-{};",
            self.cache_kib
        );
        connection.execute_batch(&settings).map_err(wrong)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        Ok(connection)
    }
}

fn wrong(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseBusy | rusqlite::ErrorCode::DatabaseLocked) => {
            StoreError::Conflict(error.into())
        }
        _ => failed(error),
    }
}

impl Store for Sqlite {
    type Client<'s> = SqliteClient<'s>;

    fn client(&self, tables: &[&str]) -> Result<SqliteClient<'_>> {
        let connection = self.connect()?;
        let _writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        for name in tables {
            let make = format!(
                "CREATE TABLE IF NOT EXISTS \"{name}\" (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"
            );
            connection.execute_batch(&make).map_err(wrong)?;
        }
        let tables = tables.iter().map(|name| Statements::of(name)).collect();
        Ok(SqliteClient { store: self, connection, tables })
    }

    fn counters(&self) -> Result<Counters> {
        Ok(Counters::default())
    }

    fn describe(&self) -> String {
        format!("sqlite {}, rusqlite 0.42.0", rusqlite::version())
    }
}

impl Rival for Sqlite {
    /// Clients close their connections. SQLite makes a checkpoint when the last connection is
    /// closed.
    fn close(self) -> Result<()> {
        Ok(())
    }
}

/// Texts of the statements about one table. A connection finds the compiled statement by its text.
struct Statements {
    get: String,
    put: String,
    insert: String,
    delete: String,
    range: String,
    /// Statement of a range with an exclusive end.
    range_to: String,
}

impl Statements {
    fn of(name: &str) -> Statements {
        Statements {
            get: format!("SELECT v FROM \"{name}\" WHERE k=?1"),
            put: format!("INSERT INTO \"{name}\" (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO UPDATE SET v=?2"),
            insert: format!("INSERT INTO \"{name}\" (k, v) VALUES (?1, ?2) ON CONFLICT (k) DO NOTHING"),
            delete: format!("DELETE FROM \"{name}\" WHERE k=?1"),
            range: format!("SELECT k, v FROM \"{name}\" WHERE k>=?1 ORDER BY k"),
            range_to: format!("SELECT k, v FROM \"{name}\" WHERE k>=?1 AND k<?2 ORDER BY k"),
        }
    }
}

pub struct SqliteClient<'s> {
    store: &'s Sqlite,
    connection: Connection,
    tables: Vec<Statements>,
}

impl Client for SqliteClient<'_> {
    type Transaction<'c>
        = SqliteTransaction<'c>
    where
        Self: 'c;

    fn begin(&mut self, intent: Intent) -> Result<SqliteTransaction<'_>> {
        let writer = match intent {
            Intent::ReadOnly => None,
            Intent::ReadWrite => Some(self.store.writer.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        let begin = if writer.is_some() { "BEGIN IMMEDIATE" } else { "BEGIN" };
        execute(&self.connection, begin)?;
        Ok(SqliteTransaction {
            connection: &self.connection,
            table: &self.tables[0],
            tables: &self.tables,
            open: true,
            writer,
        })
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

fn execute(connection: &Connection, statement: &str) -> Result<()> {
    connection.prepare_cached(statement).map_err(wrong)?.execute([]).map(|_| ()).map_err(wrong)
}

pub struct SqliteTransaction<'c> {
    connection: &'c Connection,
    table: &'c Statements,
    tables: &'c [Statements],
    /// True if the transaction must be rolled back when it is dropped. The rollback comes before
    /// the writers' lock is released.
    open: bool,
    writer: Option<MutexGuard<'c, ()>>,
}

impl SqliteTransaction<'_> {
    fn with<T>(
        &self,
        statement: &str,
        work: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T> {
        let mut statement = self.connection.prepare_cached(statement).map_err(wrong)?;
        work(&mut statement).map_err(wrong)
    }

    /// Runs a statement and returns the number of rows that it changed.
    fn change(&self, statement: &str, values: impl rusqlite::Params) -> Result<usize> {
        if self.writer.is_none() {
            return Err(read_only());
        }
        self.with(statement, |statement| statement.execute(values))
    }
}

impl Drop for SqliteTransaction<'_> {
    fn drop(&mut self) {
        if self.open {
            // If the rollback fails, the transaction stays open in SQLite: the next `begin` on this
            // connection fails, and closing the connection rolls the transaction back.
            self.connection.execute_batch("ROLLBACK").ok();
        }
    }
}

impl Transaction for SqliteTransaction<'_> {
    fn on(&mut self, table: usize) -> &mut Self {
        self.table = &self.tables[table];
        self
    }

    fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.with(&self.table.get, |statement| statement.query_row([key], |row| row.get(0)).optional())
    }

    fn get_with(&mut self, key: &[u8], visit: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.with(&self.table.get, |statement| {
            let mut rows = statement.query([key])?;
            let Some(row) = rows.next()? else { return Ok(false) };
            visit(row.get_ref(0)?.as_blob()?);
            Ok(true)
        })
    }

    fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.get(key)
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.change(&self.table.put, (key, value)).map(|_| ())
    }

    fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        match self.change(&self.table.insert, (key, value))? {
            0 => Err(exists(key)),
            _ => Ok(()),
        }
    }

    fn delete(&mut self, key: &[u8]) -> Result<bool> {
        Ok(self.change(&self.table.delete, [key])? > 0)
    }

    fn range(&mut self, keys: Keys<'_>, limit: usize, visit: &mut dyn FnMut(&[u8], &[u8])) -> Result<usize> {
        let statement = if keys.to.is_some() { &self.table.range_to } else { &self.table.range };
        self.with(statement, |statement| {
            let rows = match keys.to {
                Some(to) => statement.query([keys.from, to]),
                None => statement.query([keys.from]),
            };
            let (mut rows, mut seen) = (rows?, 0);
            while seen < limit {
                let Some(row) = rows.next()? else { break };
                visit(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
                seen += 1;
            }
            Ok(seen)
        })
    }

    fn commit(mut self) -> Result<()> {
        execute(self.connection, "COMMIT")?;
        self.open = false;
        Ok(())
    }

    fn commit_with(self, done: impl FnOnce(Result<()>) + Send + 'static) {
        done(self.commit());
    }
}
