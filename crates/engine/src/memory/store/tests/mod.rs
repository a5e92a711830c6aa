//! Tests of the whole store, over a fake log that only knows which positions are durable.

mod figures;
mod panics;
mod papers;
mod rules;
mod serial;

use super::testing::FakeLog;
use super::{ActiveTxn, Settings, Source, Store, Table, Validated};
use crate::ids::TableId;
use crate::options::Access;
use std::sync::Arc;
use std::time::Duration;

/// A wait that is longer than any that a test needs.
const LONG: Duration = Duration::from_secs(600);

fn store(source: Source) -> (Arc<Store>, Arc<FakeLog>) {
    let log = Arc::new(FakeLog::default());
    let settings = Settings::new(1 << 30, 64, source);
    (Store::new(settings, log.clone()), log)
}

fn table(store: &Store) -> Arc<Table> {
    store.table(TableId::new(1))
}

fn begin(store: &Arc<Store>) -> ActiveTxn {
    store.begin(Access::ReadWrite, LONG).expect("begin")
}

fn begin_read(store: &Arc<Store>) -> ActiveTxn {
    store.begin(Access::ReadOnly, LONG).expect("begin")
}

fn commit(running: ActiveTxn) {
    running.validate().map(Validated::committed).expect("nobody is in the way");
}

fn put(store: &Arc<Store>, table: &Arc<Table>, key: &[u8], value: &[u8]) {
    let mut running = begin(store);
    running.put(table, key, value).expect("put");
    commit(running);
}

fn get(store: &Arc<Store>, table: &Arc<Table>, key: &[u8]) -> Option<Vec<u8>> {
    begin_read(store).get(table, key).expect("get").map(|value| value.to_vec())
}
