//! Redo: repeating history.
//!
//! One thread reads the log, checks its sums and deals batches of records to as many threads as there are cores. Each
//! applies the records of the pages that are its own, by page number, so the changes of one page stay in log order and
//! no two threads wait for a page. Before that the dirty pages are read in page order, which a cold device likes better
//! than the order of the log.
//!
//! A page that cannot be read fails recovery: it names itself, and nothing was appended.

use super::Progress;
use super::analysis::{Analysis, DirtyPages, malformed};
use crate::error::{Error, Result};
use crate::paged::change::{ChangeKind, Place, pages_of, redo_at};
use crate::paged::log_record::{COMPENSATION, Malformed, decode_compensation};
use crate::paged::page::PageId;
use crate::paged::pool::Pool;
use crate::{Lsn, Phase};
use katydid_wal::{Log, RecordRef};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

const BATCH_BYTES: usize = 256 << 10;
const BATCHES_AHEAD: usize = 4;
const THREADS_MAX: usize = 4;
/// Pages read ahead by one thread in one go.
const PREFETCH_PAGES: usize = 512;

/// For which thread a record is.
const EVERYBODY: usize = usize::MAX;

struct Deal {
    lsn: Lsn,
    first: Lsn,
    end: Lsn,
    kind: ChangeKind,
    whose: usize,
    from: usize,
    to: usize,
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    deals: Vec<Deal>,
}

fn owner(page: PageId, threads: usize) -> usize {
    // Neighbours go to different threads: hot pages are often neighbours.
    page.get() as usize % threads
}

fn is_wanted(dirty: &DirtyPages, page: PageId, lsn: Lsn) -> bool {
    dirty.get(&page.get()).is_some_and(|from| *from <= lsn)
}

/// Applies what pages may lack; how many changes were applied.
pub(crate) fn repeat(log: &Log, pool: &Pool, analysis: &Analysis, progress: &Progress) -> Result<u64> {
    let Some(from) = analysis.redo_from() else {
        progress.tell(Phase::Redo, 0, 0);
        return Ok(0);
    };
    let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
    prefetch(pool, &analysis.dirty, threads)?;
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut appliers = Vec::new();
        for number in 0..threads {
            let (sender, receiver) = sync_channel::<Arc<Batch>>(BATCHES_AHEAD);
            senders.push(sender);
            let dirty = &analysis.dirty;
            appliers.push(scope.spawn(move || apply(pool, dirty, &receiver, number, threads)));
        }
        let read = deal(log, from, threads, &analysis.dirty, &senders, progress);
        drop(senders);
        let mut applied = 0;
        let mut first_failure = None;
        for applier in appliers {
            match applier.join() {
                Ok(Ok(count)) => applied += count,
                Ok(Err(error)) => first_failure = first_failure.or(Some(error)),
                Err(_) => return Err(Error::Internal("a redo thread panicked")),
            }
        }
        match first_failure {
            Some(error) => Err(error),
            None => read.map(|()| applied),
        }
    })
}

/// Reads the dirty pages in page order, several runs at a time.
fn prefetch(pool: &Pool, dirty: &DirtyPages, threads: usize) -> Result<()> {
    let mut pages: Vec<PageId> = dirty.keys().map(|page| PageId::new(*page)).collect();
    pages.sort_unstable();
    // More than the pool has room for would push out what was just read.
    pages.truncate(pool.stat().capacity);
    let chunks: Vec<&[PageId]> = pages.chunks(PREFETCH_PAGES).collect();
    let next = std::sync::atomic::AtomicUsize::new(0);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..(threads * 2).min(chunks.len()))
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    while let Some(chunk) =
                        chunks.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                    {
                        pool.prefetch(chunk)?;
                    }
                    Ok(())
                })
            })
            .collect();
        for reader in readers {
            reader.join().map_err(|_| Error::Internal("a reading thread panicked"))??;
        }
        Ok(())
    })
}

fn deal(
    log: &Log,
    from: Lsn,
    threads: usize,
    dirty: &DirtyPages,
    senders: &[SyncSender<Arc<Batch>>],
    progress: &Progress,
) -> Result<()> {
    let mut walk = progress.over(Phase::Redo, from, log.reserved());
    let mut reader = log.reader(from)?;
    let mut batch = Batch::default();
    while let Some(record) = reader.next_record()? {
        walk.at(record.lsn);
        add(&record, threads, dirty, &mut batch)?;
        if batch.bytes.len() >= BATCH_BYTES && !send(std::mem::take(&mut batch), senders) {
            // An applier failed; its error is the one to report.
            return Ok(());
        }
    }
    send(batch, senders);
    walk.done();
    Ok(())
}

fn send(batch: Batch, senders: &[SyncSender<Arc<Batch>>]) -> bool {
    let batch = Arc::new(batch);
    senders.iter().all(|sender| sender.send(batch.clone()).is_ok())
}

fn add(record: &RecordRef<'_>, threads: usize, dirty: &DirtyPages, batch: &mut Batch) -> Result<()> {
    let (kind, payload) = match record.kind.get() {
        COMPENSATION => {
            let failed = |fault| malformed(record.lsn, fault);
            let (_, kind, payload) = decode_compensation(record.payload).map_err(failed)?;
            (kind, payload)
        }
        kind => (kind, record.payload),
    };
    let Some(kind) = ChangeKind::decode(kind) else {
        if record.kind.get() == COMPENSATION {
            return Err(malformed(record.lsn, Malformed("a compensation record of an unknown change")));
        }
        return Ok(());
    };
    let mut whose = None;
    for page in pages_of(kind, payload) {
        let page = page.map_err(|fault| fault.at(record.lsn))?;
        if is_wanted(dirty, page, record.lsn) {
            let owner = owner(page, threads);
            whose = Some(if whose.is_none_or(|known| known == owner) { owner } else { EVERYBODY });
        }
    }
    let Some(whose) = whose else { return Ok(()) };
    let from = batch.bytes.len();
    batch.bytes.extend_from_slice(payload);
    let (lsn, first, end) = (record.lsn, record.first, record.end);
    batch.deals.push(Deal { lsn, first, end, kind, whose, from, to: batch.bytes.len() });
    Ok(())
}

fn apply(
    pool: &Pool,
    dirty: &DirtyPages,
    batches: &Receiver<Arc<Batch>>,
    number: usize,
    threads: usize,
) -> Result<u64> {
    let mut applied = 0;
    while let Ok(batch) = batches.recv() {
        for deal in batch.deals.iter().filter(|deal| deal.whose == number || deal.whose == EVERYBODY) {
            let payload = &batch.bytes[deal.from..deal.to];
            let mine = |page| owner(page, threads) == number && is_wanted(dirty, page, deal.lsn);
            let place = Place { first: deal.first, lsn: deal.lsn, end: deal.end };
            applied += redo_at(pool, deal.kind, payload, place, mine)? as u64;
        }
    }
    Ok(applied)
}
