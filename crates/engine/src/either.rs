//! One engine made of two: each value is a value of the first engine or of the second.
//!
//! An [`Either`] stores the value of its engine inline. A call costs one predictable branch, and
//! neither an allocation nor a virtual call (docs/adr/0030).
//!
//! A value of one engine is never passed to the other engine, because the public handles refuse
//! values of another opening ([`crate::engine`]). If a call got a value of the other engine all the
//! same, the call would fail.

use crate::CommitStamp;
use crate::Durability;
use crate::body::DatabaseKey;
use crate::changes::{Changes, ChangesFrom};
use crate::copy::{Copied, Pace, Target};
use crate::direction::Direction;
use crate::engine::{Engine, EngineLoad, EngineRange, EngineTable, EngineTransaction, Entry, Purpose};
use crate::error::{Error, Result};
use crate::ids::{TableId, TxnId};
use crate::opening::{Opened, Opening};
use crate::options::{Options, TransactionOptions};
use crate::report::{VerifyProgress, VerifyReport};
use crate::stat::Stat;
use crate::ticket::{OpenEngine, Ticket};
use katydid_device::Id;
use katydid_wal::Log;
use std::fmt;
use std::ops::{Bound, Deref};
use std::sync::Arc;

/// A value of the first engine or of the second.
#[derive(Clone)]
pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

use Either::{First, Second};

/// Makes a call on the inner value.
macro_rules! either {
    ($of:expr, $inner:ident => $call:expr) => {
        match $of {
            First($inner) => $call,
            Second($inner) => $call,
        }
    };
}

/// Makes a call on the inner value. The result belongs to the same engine.
macro_rules! either_map {
    ($of:expr, $inner:ident => $call:expr) => {
        match $of {
            First($inner) => First($call),
            Second($inner) => Second($call),
        }
    };
}

/// Defines methods that call the method of the same name on the inner value.
macro_rules! pass_on {
    ($(fn $name:ident(&$this:ident $(, $arg:ident: $of:ty)*) $(-> $out:ty)?;)*) => {$(
        #[inline]
        fn $name(&$this $(, $arg: $of)*) $(-> $out)? {
            either!($this, inner => inner.$name($($arg),*))
        }
    )*};
    (mut $(fn $name:ident(&mut $this:ident $(, $arg:ident: $of:ty)*) $(-> $out:ty)?;)*) => {$(
        #[inline]
        fn $name(&mut $this $(, $arg: $of)*) $(-> $out)? {
            either!($this, inner => inner.$name($($arg),*))
        }
    )*};
    // Methods of a transaction that take a table of the same engine.
    (with_table $(fn $name:ident(&mut $this:ident $(, $arg:ident: $of:ty)*) -> $out:ty;)*) => {$(
        #[inline]
        fn $name(&mut $this, table: &Self::Table $(, $arg: $of)*) -> $out {
            match ($this, table) {
                (First(txn), First(table)) => txn.$name(table $(, $arg)*),
                (Second(txn), Second(table)) => txn.$name(table $(, $arg)*),
                (_, table) => Err(foreign(table)),
            }
        }
    )*};
}

#[cold]
fn foreign(table: &impl EngineTable) -> Error {
    Error::ForeignTable { name: table.name().to_string() }
}

impl<A: Opened, B: Opened> Opened for Either<A, B> {
    pass_on! { fn opening(&self) -> &Opening; }
}

impl<A: fmt::Debug, B: fmt::Debug> fmt::Debug for Either<A, B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        either!(self, inner => inner.fmt(f))
    }
}

impl<A: Deref<Target = [u8]>, B: Deref<Target = [u8]>> Deref for Either<A, B> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        either!(self, inner => inner)
    }
}

impl<A: Engine, B: Engine> Engine for Either<A, B> {
    type Table = Either<A::Table, B::Table>;
    type Transaction = Either<A::Transaction, B::Transaction>;
    type Load = Either<A::Load, B::Load>;

    pass_on! {
        fn options(&self) -> &Options;
        fn place(&self) -> &str;
        fn key(&self) -> DatabaseKey;
        fn tables(&self) -> Result<Vec<String>>;
        fn rename_table(&self, from: &str, to: &str) -> Result<bool>;
        fn drop_table(&self, name: &str) -> Result<bool>;
        fn sync(&self) -> Result<()>;
        fn checkpoint(&self) -> Result<()>;
        fn log(&self) -> &Log;
        fn archive_facts(&self) -> Result<(u64, u32)>;
        fn archive_horizon(&self) -> Result<Option<CommitStamp>>;
        fn changes(&self, from: &ChangesFrom) -> Result<Changes>;
        fn close(&self) -> Result<()>;
        fn stat(&self) -> Result<Stat>;
        fn id(&self) -> Id;
        fn copy(&self, target: &Target, pace: &mut Pace<'_>) -> Result<Copied>;
        fn verify(&self, progress: Option<VerifyProgress>) -> Result<VerifyReport>;
        fn run_background(&self);
        fn keeps_open(&self) -> Arc<dyn OpenEngine>;
    }

    fn table(&self, name: &str) -> Result<Self::Table> {
        Ok(either_map!(self, engine => engine.table(name)?))
    }

    fn open_table(&self, name: &str) -> Result<Option<Self::Table>> {
        Ok(match self {
            First(engine) => engine.open_table(name)?.map(First),
            Second(engine) => engine.open_table(name)?.map(Second),
        })
    }

    #[inline]
    fn begin(&self, options: TransactionOptions) -> Result<Self::Transaction> {
        Ok(either_map!(self, engine => engine.begin(options)?))
    }

    fn load(&self, table: &Self::Table) -> Result<Self::Load> {
        match (self, table) {
            (First(engine), First(table)) => Ok(First(engine.load(table)?)),
            (Second(engine), Second(table)) => Ok(Second(engine.load(table)?)),
            (_, table) => Err(foreign(table)),
        }
    }
}

impl<A: EngineLoad, B: EngineLoad> EngineLoad for Either<A, B> {
    #[inline]
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        either!(self, load => load.push(key, value))
    }

    fn finish(self) -> Result<()> {
        either!(self, load => load.finish())
    }
}

impl<A: EngineTable, B: EngineTable> EngineTable for Either<A, B> {
    pass_on! {
        fn name(&self) -> Arc<str>;
        fn id(&self) -> TableId;
    }
}

impl<A: EngineTransaction, B: EngineTransaction> EngineTransaction for Either<A, B> {
    type Table = Either<A::Table, B::Table>;
    type Range = Either<A::Range, B::Range>;
    type Unlocked = Either<A::Unlocked, B::Unlocked>;
    type Lent = Either<A::Lent, B::Lent>;

    pass_on! {
        fn id(&self) -> TxnId;
        fn has_changes(&self) -> bool;
        fn durability(&self) -> Durability;
        fn failure(&self) -> Option<&Error>;
        fn keeps_open(&self) -> Arc<dyn OpenEngine>;
    }

    pass_on! { with_table
        fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;
        fn multi_get(&mut self, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>>;
        fn contains(&mut self, key: &[u8]) -> Result<bool>;
        fn get_for_update(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>>;
        fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
        fn put_all(&mut self, entries: &[(&[u8], &[u8])]) -> Result<()>;
        fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<()>;
        fn delete(&mut self, key: &[u8]) -> Result<bool>;
    }

    #[inline]
    fn lend(&mut self, table: &Self::Table, key: &[u8]) -> Result<Option<Self::Lent>> {
        match (self, table) {
            (First(txn), First(table)) => Ok(txn.lend(table, key)?.map(First)),
            (Second(txn), Second(table)) => Ok(txn.lend(table, key)?.map(Second)),
            (_, table) => Err(foreign(table)),
        }
    }

    pass_on! { mut
        fn savepoint(&mut self) -> u64;
        fn rollback_to(&mut self, savepoint: u64) -> Result<()>;
        fn forget_savepoint(&mut self, savepoint: u64);
        fn commit(&mut self) -> Result<CommitStamp>;
        fn submit(&mut self) -> Result<Ticket>;
        fn rollback(&mut self) -> Result<()>;
        fn conclude(&mut self) -> Result<()>;
        fn abandon(&mut self);
    }

    fn range(
        table: &Self::Table,
        low: Bound<Vec<u8>>,
        high: Bound<Vec<u8>>,
        purpose: Purpose,
    ) -> Self::Range {
        match table {
            First(table) => First(A::range(table, low, high, purpose)),
            Second(table) => Second(B::range(table, low, high, purpose)),
        }
    }

    fn range_unlocked(table: &Self::Table, low: Bound<Vec<u8>>, high: Bound<Vec<u8>>) -> Self::Unlocked {
        match table {
            First(table) => First(A::range_unlocked(table, low, high)),
            Second(table) => Second(B::range_unlocked(table, low, high)),
        }
    }
}

impl<A, B, R: EngineRange<A>, S: EngineRange<B>> EngineRange<Either<A, B>> for Either<R, S> {
    #[inline]
    fn step<'r>(
        &'r mut self,
        transaction: &mut Either<A, B>,
        direction: Direction,
        limit: Option<usize>,
    ) -> Result<Option<Entry<'r>>> {
        match (self, transaction) {
            (First(range), First(txn)) => range.step(txn, direction, limit),
            (Second(range), Second(txn)) => range.step(txn, direction, limit),
            (_, _) => Err(Error::Internal("a range of one engine met a transaction of the other")),
        }
    }
}
