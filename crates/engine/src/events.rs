//! Events for `tracing` and numbers for `metrics`, which engines report to the program. Without
//! these features every function here is empty.
//!
//! Any thread may call these functions. A subscriber or recorder is code of the user. So a caller
//! of these functions holds no latch that a call of the database needs, except for
//! `CheckpointSchedule::turn`. Names and fields are part of the interface; the guide lists them
//! ([`crate::guide::observing`]).

#[cfg(feature = "tracing")]
use crate::contested::Contested;
#[cfg(any(feature = "tracing", feature = "metrics"))]
use crate::error::ConflictKind;
use crate::error::Error;
use crate::ids::{EngineKind, TxnId};
#[cfg(feature = "tracing")]
use crate::options::Phase;
use crate::options::RecoveryProgress;
use std::panic::Location;
use std::time::Duration;

/// True if events or numbers are reported. If it is false, engines do not read the clock for them.
pub(crate) const IS_ON: bool = cfg!(any(feature = "tracing", feature = "metrics"));

/// Reports that a database was opened.
pub(crate) fn opened(_place: &str, _engine: EngineKind, _took: Duration) {
    #[cfg(feature = "tracing")]
    tracing::info!(target: "katydid::open", place = _place, engine = %_engine, took_ms = ms(_took), "database opened");
    #[cfg(feature = "metrics")]
    metrics::histogram!("katydid_open_seconds").record(_took);
}

/// Reports that a database could not be opened.
pub(crate) fn not_opened(_place: &str, _error: &Error) {
    #[cfg(feature = "tracing")]
    tracing::error!(target: "katydid::open", place = _place, error = %_error, "database not opened");
}

/// Returns `receiver`, because without `tracing` the end of a phase is not reported.
#[cfg(not(feature = "tracing"))]
pub(crate) fn recovery(receiver: Option<RecoveryProgress>) -> Option<RecoveryProgress> {
    receiver
}

/// Returns a receiver of progress that reports the end of each phase of recovery, and passes all
/// progress on to `receiver`.
#[cfg(feature = "tracing")]
pub(crate) fn recovery(receiver: Option<RecoveryProgress>) -> Option<RecoveryProgress> {
    use std::time::Instant;
    // The last phase with progress, whether its end was reported, and when it began.
    let last = crate::latch::Mutex::new(None::<(Phase, bool, Instant)>);
    Some(std::sync::Arc::new(move |phase, done, total| {
        let is_over = done >= total;
        let ended = {
            let mut last = last.lock();
            let (since, was_over) = match *last {
                Some((same, was_over, since)) if same == phase => (since, was_over),
                _ => (Instant::now(), false),
            };
            *last = Some((phase, was_over || is_over, since));
            (is_over && !was_over).then(|| since.elapsed())
        };
        if let Some(took) = ended {
            tracing::info!(target: "katydid::recovery", %phase, total, took_ms = ms(took), "recovery phase done");
        }
        if let Some(receiver) = &receiver {
            receiver(phase, done, total);
        }
    }))
}

/// Reports a checkpoint that was taken, or failed.
pub(crate) fn checkpoint(_place: &str, _took: Duration, _failed: Option<&Error>) {
    #[cfg(feature = "tracing")]
    match _failed {
        None => {
            tracing::info!(target: "katydid::checkpoint", place = _place, took_ms = ms(_took), "checkpoint taken");
        }
        Some(error) => {
            tracing::warn!(target: "katydid::checkpoint", place = _place, %error, "checkpoint failed");
        }
    }
    #[cfg(feature = "metrics")]
    match _failed {
        None => metrics::histogram!("katydid_checkpoint_seconds").record(_took),
        Some(_) => metrics::counter!("katydid_checkpoint_failures_total").increment(1),
    }
}

/// State of a slow transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slow {
    /// The transaction is still open.
    Open,
    /// The transaction has just ended.
    Ended,
}

/// Reports a transaction that was open for longer than `AdvancedOptions::slow_transaction`.
#[cold]
pub(crate) fn slow_transaction(_txn: TxnId, _age: Duration, _origin: &Location<'_>, _slow: Slow) {
    #[cfg(feature = "tracing")]
    tracing::warn!(
        target: "katydid::slow_transaction",
        txn = _txn.get(),
        age_ms = ms(_age),
        origin = %_origin,
        open = _slow == Slow::Open,
        "slow transaction"
    );
    #[cfg(feature = "metrics")]
    if _slow == Slow::Ended {
        metrics::counter!("katydid_slow_transactions_total").increment(1);
    }
}

/// Reports a transaction's conflict, and returns the error.
#[cold]
pub(crate) fn conflict(error: Error) -> Error {
    #[cfg(any(feature = "tracing", feature = "metrics"))]
    if let Error::Conflict { victim: _victim, holder: _holder, kind, contested: _contested } = &error {
        let _kind = match kind {
            ConflictKind::Timeout => "timeout",
            ConflictKind::Deadlock => "deadlock",
            ConflictKind::Changed => "changed",
            ConflictKind::Overtaken => "overtaken",
        };
        #[cfg(feature = "tracing")]
        trace_conflict(*_victim, *_holder, _kind, _contested.as_deref());
        #[cfg(feature = "metrics")]
        metrics::counter!("katydid_conflicts_total", "kind" => _kind).increment(1);
    }
    error
}

#[cfg(feature = "tracing")]
fn trace_conflict(victim: TxnId, holder: Option<TxnId>, kind: &str, contested: Option<&Contested>) {
    tracing::warn!(
        target: "katydid::conflict",
        victim = victim.get(),
        holder = holder.map(TxnId::get),
        kind,
        contested = contested.map(tracing::field::display),
        holder_open_ms = contested.and_then(|contested| contested.holder_open).map(ms),
        "conflict"
    );
}

/// Reports how long a transaction has waited for another one.
pub(crate) fn waited(_took: Duration) {
    #[cfg(feature = "metrics")]
    metrics::histogram!("katydid_wait_seconds").record(_took);
}

/// Reports the latency of a commit that is acknowledged.
#[inline]
pub(crate) fn committed(_took: Duration) {
    #[cfg(feature = "metrics")]
    metrics::histogram!("katydid_commit_seconds").record(_took);
}

#[cfg(feature = "tracing")]
fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
