//! [`Stat`] as a JSON object, for programs and for clients of the socket. Pure functions.

use katydid::{
    EngineKind, EngineStat, Latencies, Lsn, MemoryStat, PagedStat, Stat, StreamStat, TxnId,
    WaitingTransaction,
};
use serde_json::{Value, json};
use std::time::Duration;

/// Maximum number of open transactions, and of waits, in the object.
const OLDEST: usize = 20;

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn latencies(latencies: &Latencies) -> Value {
    json!({
        "count": latencies.count,
        "p50": micros(latencies.p50),
        "p99": micros(latencies.p99),
        "p999": micros(latencies.p999),
        "max": micros(latencies.max),
    })
}

fn wait(waiting: &WaitingTransaction) -> Value {
    json!({
        "txn": waiting.txn.get(),
        "wanted": waiting.wanted.to_string(),
        "blockers": waiting.blockers.iter().map(|txn| txn.get()).collect::<Vec<_>>(),
        "blocker_age_us": waiting.wanted.holder_open.map(micros),
    })
}

/// Returns the object of `katydid stat --json`.
pub(crate) fn as_json(stat: &Stat) -> Value {
    let oldest = stat.transactions_open.iter().take(OLDEST).map(|open| {
        let waiting = stat.waiting.iter().find(|waiting| waiting.txn == open.txn);
        let waits_for = waiting.map(|waiting| waiting.wanted.to_string());
        json!({
            "txn": open.txn.get(),
            "age_us": micros(open.age),
            "origin": open.origin.to_string(),
            "waits_for": waits_for,
        })
    });
    let oldest: Vec<Value> = oldest.collect();
    let mut object = json!({
        "tables": stat.tables,
        "transactions_active": stat.transactions_active,
        "commits": stat.commits,
        "rollbacks": stat.rollbacks,
        "conflicts": stat.conflicts,
        "checkpoints": stat.checkpoints,
        "commit_latency_us": latencies(&stat.commit_latency),
        "wait_time_us": latencies(&stat.wait_time),
        "transactions_open": stat.transactions_open.len(),
        "oldest_transactions": oldest,
        "transactions_waiting": stat.waiting.len(),
        "waits": stat.waiting.iter().take(OLDEST).map(wait).collect::<Vec<_>>(),
        "device_stalls": {
            "count": stat.stalls.count,
            "longest_us": micros(stat.stalls.longest),
            "under_way": stat.stalls.under_way.as_ref().map(|stall| json!({
                "verb": stall.verb.to_string(),
                "subject": stall.subject,
                "so_far_us": micros(stall.lasts),
            })),
        },
        "log": {
            "kind": stat.log.kind.to_string(),
            "method": stat.log.method.to_string(),
            "nvram": stat.log.nvram.map(|form| form.to_string()),
            "fullness_per_mille": stat.log.fullness,
            "bytes": stat.log.bytes,
            "soft_bytes": stat.log.soft_bytes,
            "hard_bytes": stat.log.hard_bytes,
            "pinned_by": stat.log.pinned_by.to_string(),
            "pinned_lsn": stat.log.pinned_by.lsn().get(),
            "syncs": stat.log.syncs,
            "bytes_synced": stat.log.bytes_synced,
            "wakeups": stat.log.wakeups,
            "incarnation": stat.log.incarnation,
        },
    });
    let streams = stat.log.streams.iter().map(stream_json);
    match &stat.engine {
        EngineStat::Paged(paged) => {
            merge(&mut object, paged_json(paged));
            // The paged engine has one stream, whose positions become members of `log`.
            streams.for_each(|stream| merge(&mut object["log"], stream));
        }
        EngineStat::Memory(memory) => {
            merge(&mut object, memory_json(memory));
            object["log"]["streams"] = streams.collect();
        }
        _ => {}
    }
    object
}

fn paged_json(paged: &PagedStat) -> Value {
    json!({
        "engine": EngineKind::Paged.to_string(),
        "page_bytes": paged.page_bytes,
        "pages": paged.pages,
        "pages_free": paged.pages_free,
        "page_method": paged.page_method.to_string(),
        "cache_pages": paged.cache_pages,
        "cache_share_of_bytes": paged.cache_share_of,
        "cached": paged.cached,
        "dirty": paged.dirty,
        "cache_misses": paged.cache_misses,
        "pages_written": paged.pages_written,
        "views": paged.views,
        "view_bytes": paged.view_bytes,
        "view_bytes_max": paged.view_bytes_max,
        "views_given_up": paged.views_given_up,
        "oldest_view_seconds": paged.oldest_view.map(|view| view.age.as_secs_f64()),
        "checkpoint_lsn": paged.checkpoint_lsn.get(),
    })
}

fn memory_json(memory: &MemoryStat) -> Value {
    json!({
        "engine": EngineKind::Memory.to_string(),
        "used_bytes": memory.used_bytes,
        "limit_bytes": memory.limit_bytes,
        "records": memory.records,
        "versions_old": memory.versions_old,
        "pauses": memory.pauses,
        "held_by": memory.held_by.map(TxnId::get),
        "checkpoint": memory.checkpoint,
    })
}

fn stream_json(stream: &StreamStat) -> Value {
    positions(stream).into_iter().map(|(what, lsn)| (what.to_owned(), Value::from(lsn.get()))).collect()
}

/// Adds the members of one object to another.
fn merge(into: &mut Value, from: Value) {
    if let (Value::Object(into), Value::Object(from)) = (into, from) {
        into.extend(from);
    }
}

/// Returns the positions of a stream, from the lowest to the highest.
fn positions(stream: &StreamStat) -> [(&'static str, Lsn); 5] {
    [
        ("start", stream.start),
        ("durable", stream.durable),
        ("written", stream.written),
        ("filled", stream.filled),
        ("reserved", stream.reserved),
    ]
}
