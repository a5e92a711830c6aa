//! A store whose metrics Prometheus reads: the times of commits and waits as histograms with
//! buckets, counters, and gauges from `Database::stat`.
//!
//! Run: `cargo run -p katydid-examples --bin prometheus -- FOLDER [ADDRESS]`, and then
//! `curl localhost:9464/metrics`. The load consists of threads that increment a few counters and
//! wait for each other's locks.

use anyhow::Result;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use katydid::typed::TypedTable;
use katydid::{Database, Error};
use metrics::{Unit, describe_counter, describe_gauge, describe_histogram, gauge};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle};
use std::thread;
use std::time::Duration;

/// Upper bounds of the buckets in seconds. The least suits a commit to memory, the greatest a wait
/// that ends in a timeout.
const BUCKETS: [f64; 16] =
    [25e-6, 50e-6, 1e-4, 25e-5, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 10.0];
/// Interval at which histograms take in new recordings if no scrape does so.
const UPKEEP: Duration = Duration::from_secs(5);
const THREADS: u64 = 4;
const KEYS: u64 = 8;

/// Registers descriptions of the metrics for the `# HELP` lines.
fn describe() {
    for (name, help) in [
        ("katydid_commit_seconds", "Time from the call of a commit until it was acknowledged."),
        ("katydid_wait_seconds", "Time that a transaction waited for others."),
        ("katydid_checkpoint_seconds", "Time that a checkpoint took."),
        ("katydid_open_seconds", "Time that opening the database took, with recovery."),
    ] {
        describe_histogram!(name, Unit::Seconds, help);
    }
    for (name, help) in [
        ("katydid_conflicts_total", "Transactions that met a conflict, by kind."),
        ("katydid_checkpoint_failures_total", "Checkpoints that failed."),
        ("katydid_slow_transactions_total", "Transactions that were open for longer than the limit."),
    ] {
        describe_counter!(name, help);
    }
    for (name, unit, help) in [
        ("katydid_transactions_open", Unit::Count, "Open transactions."),
        ("katydid_oldest_transaction_seconds", Unit::Seconds, "Age of the oldest open transaction."),
        ("katydid_log_bytes", Unit::Bytes, "Bytes of log that recovery would read."),
        ("katydid_log_pinned_bytes", Unit::Bytes, "Bytes of log that backups and consumers keep."),
        ("katydid_device_stalls", Unit::Count, "Calls of the device that took longer than the limit."),
    ] {
        describe_gauge!(name, unit, help);
    }
}

/// Returns the metrics in Prometheus's text format.
async fn scrape(State((db, recorder)): State<(Database, PrometheusHandle)>) -> impl IntoResponse {
    if let Ok(stat) = db.stat() {
        let oldest = stat.transactions_open.first().map_or(Duration::ZERO, |open| open.age);
        gauge!("katydid_transactions_open").set(stat.transactions_open.len() as f64);
        gauge!("katydid_oldest_transaction_seconds").set(oldest);
        gauge!("katydid_log_bytes").set(stat.log.bytes as f64);
        gauge!("katydid_log_pinned_bytes").set(stat.log.pinned_bytes as f64);
        gauge!("katydid_device_stalls").set(stat.stalls.count as f64);
    }
    ([(CONTENT_TYPE, "text/plain; version=0.0.4")], recorder.render())
}

/// Increments counters until the database is closed.
fn work(db: &Database, thread: u64) -> katydid::Result<()> {
    let counters: TypedTable<u64, u64> = TypedTable::new(db.table("counters")?);
    for nth in thread.. {
        let key = nth % KEYS;
        let added = db.transact(|txn| {
            let old = counters.get_for_update(txn, key)?.unwrap_or(0);
            counters.put(txn, key, old + 1)
        });
        match added {
            Ok(()) => {}
            Err(Error::Closed) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().unwrap_or_else(|| "prometheus-data".to_owned());
    let address = args.next().unwrap_or_else(|| "127.0.0.1:9464".to_owned());
    // The recorder is installed first, because opening the database records metrics.
    let recorder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), &BUCKETS)?
        .install_recorder()?;
    describe();
    let db = Database::open(folder)?;
    let workers: Vec<_> = (0..THREADS).map(|nth| (db.clone(), nth)).collect();
    let workers: Vec<_> =
        workers.into_iter().map(|(db, nth)| thread::spawn(move || work(&db, nth))).collect();
    let upkeep = recorder.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(UPKEEP).await;
            upkeep.run_upkeep();
        }
    });
    let app = Router::new().route("/metrics", get(scrape)).with_state((db.clone(), recorder));
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app)
        .with_graceful_shutdown(async { tokio::signal::ctrl_c().await.unwrap_or_default() })
        .await?;
    db.close()?;
    workers.into_iter().try_for_each(|worker| worker.join().expect("a worker"))?;
    Ok(())
}
