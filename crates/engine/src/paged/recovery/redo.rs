//! Redo: repeats history, and finds out on the way which transactions had not ended.
//!
//! One thread reads the log, verifies its checksums, keeps the table of transactions, and deals
//! batches of records to appliers. Pages are divided among the appliers by page number, and each
//! applier applies the records of its own pages. So the changes of one page stay in log order, and
//! no two threads wait for a page. Before an applier applies a batch, it reads those of its pages
//! in the batch that no earlier batch had, in page order. While one applier waits for the device,
//! another one runs; so there are two appliers for each core, up to 16 appliers. With
//! [`Background::Caller`] there is one applier.
//!
//! Below the checkpoint's begin record, redo applies only the records of pages that were dirty at
//! the checkpoint, from their recovery LSNs on. Above the begin record, redo applies the records of
//! all pages. A page that already has a record's change has at least the record's LSN, so redo
//! leaves it alone. If a record overwrites a whole page, redo may make the page anew without its
//! former LSN; redo then repeats all later changes of the page, too.
//!
//! A page that cannot be read fails recovery. The error names the page, and recovery has appended
//! nothing.

use super::Progress;
use super::analysis::{Analysis, ByNumber, Checkpoint};
use crate::error::{Error, Result};
use crate::options::Phase;
use crate::paged::change::{ChangeKind, RecordSpan, pages_of, redo_at};
use crate::paged::log_record::{COMPENSATION, Malformed, decode_compensation};
use crate::paged::page::PageId;
use crate::paged::pool::Pool;
use katydid_wal::{Background, RecordRef, Stream};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// Minimum bytes of payload in a batch. With a small cache, batches have this size. Larger batches
/// are better, because more of their pages are neighbours in the file, and one call reads all
/// neighbours.
const BATCH_BYTES_MIN: usize = 16 << 10;
const BATCH_BYTES_MAX: usize = 8 << 20;
/// A batch takes at most 1/`BATCH_PART` of the cache's size, because about five batches are in
/// memory at a time.
const BATCH_PART: usize = 16;
const BATCHES_AHEAD: usize = 2;
const THREADS_MAX: usize = 16;
/// Number of neighbouring pages that belong to one applier, so that it reads them with one call.
const NEIGHBOURS: u64 = 16;

/// Value of `Deal::applier` for a record whose pages belong to several appliers. All appliers look
/// at such a record.
const ALL_APPLIERS: u32 = u32::MAX;

struct Deal {
    span: RecordSpan,
    kind: ChangeKind,
    applier: u32,
    from: u32,
    to: u32,
}

#[derive(Default)]
struct Batch {
    bytes: Vec<u8>,
    deals: Vec<Deal>,
    /// Pages that no earlier batch had, and that have to be read.
    fresh: Vec<PageId>,
}

fn owner(page: PageId, appliers: u32) -> u32 {
    (page.get() / NEIGHBOURS % u64::from(appliers)) as u32
}

/// Applies the changes that pages may lack. Returns what the log says about transactions.
pub(crate) fn repeat(
    log: &Stream,
    pool: &Pool,
    checkpoint: &Checkpoint,
    analysis: Analysis,
    background: Background,
    progress: &Progress,
) -> Result<Analysis> {
    let appliers = match background {
        Background::Threads => thread::available_parallelism().map_or(1, usize::from) * 2,
        // One applier only, because the order in which pages are written back to make room must not
        // differ between runs.
        Background::Caller => 1,
    };
    let appliers = appliers.min(THREADS_MAX) as u32;
    let cache_bytes = pool.stat().capacity * pool.page_bytes();
    let batch_bytes = (cache_bytes / BATCH_PART).clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX);
    thread::scope(|scope| {
        let mut senders = Vec::new();
        let mut threads = Vec::new();
        for number in 0..appliers {
            let (sender, receiver) = sync_channel::<Arc<Batch>>(BATCHES_AHEAD);
            senders.push(sender);
            threads.push(scope.spawn(move || apply(pool, checkpoint, &receiver, number, appliers)));
        }
        let dealer = Dealer {
            checkpoint,
            analysis,
            senders,
            seen: HashSet::default(),
            batch: Batch::default(),
            batch_bytes,
            dealt: VecDeque::new(),
        };
        let dealt = dealer.run(log, progress);
        let mut failure = None;
        for thread in threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(_) => return Err(Error::Internal("a redo thread panicked")),
            }
        }
        match failure {
            Some(error) => Err(error),
            None => dealt,
        }
    })
}

struct Dealer<'a> {
    checkpoint: &'a Checkpoint,
    analysis: Analysis,
    senders: Vec<SyncSender<Arc<Batch>>>,
    seen: HashSet<u64, ByNumber>,
    batch: Batch,
    batch_bytes: usize,
    /// Batches that were sent, the oldest first. A batch that no applier has any more is reused,
    /// because fresh memory for each batch would cost more than filling it.
    dealt: VecDeque<Arc<Batch>>,
}

impl Dealer<'_> {
    fn run(mut self, log: &Stream, progress: &Progress) -> Result<Analysis> {
        let from = self.checkpoint.redo_from;
        let mut walk = progress.over(Phase::Redo, from, log.reserved());
        let mut reader = log.reader(from)?.read_ahead();
        while let Some(record) = reader.next_record()? {
            walk.at(record.lsn);
            if record.lsn >= self.checkpoint.begin {
                self.analysis.see(&record)?;
            }
            self.deal(&record)?;
            if self.batch.bytes.len() >= self.batch_bytes && !self.send() {
                // An applier failed, and its error is the one to report.
                return Ok(self.analysis);
            }
        }
        self.send();
        walk.done();
        Ok(self.analysis)
    }

    /// Sends the batch to the appliers. Returns `false` if an applier has ended.
    fn send(&mut self) -> bool {
        let next = self.empty_batch();
        let batch = Arc::new(std::mem::replace(&mut self.batch, next));
        self.dealt.push_back(batch.clone());
        self.senders.iter().all(|sender| sender.send(batch.clone()).is_ok())
    }

    fn empty_batch(&mut self) -> Batch {
        let mut batch = match self.dealt.pop_front().map(Arc::try_unwrap) {
            Some(Ok(batch)) => batch,
            Some(Err(in_use)) => {
                self.dealt.push_front(in_use);
                Batch::default()
            }
            None => Batch::default(),
        };
        batch.bytes.clear();
        batch.deals.clear();
        batch.fresh.clear();
        batch.bytes.reserve(self.batch_bytes + self.batch_bytes / 4);
        batch
    }

    fn deal(&mut self, record: &RecordRef<'_>) -> Result<()> {
        let failed = |fault: Malformed| fault.at(record.lsn);
        let (kind, payload) = match record.kind.get() {
            COMPENSATION => {
                let (_, kind, payload) = decode_compensation(record.payload).map_err(failed)?;
                let kind = ChangeKind::decode(kind)
                    .ok_or_else(|| failed(Malformed("a compensation record of an unknown change")))?;
                (kind, payload)
            }
            kind => match ChangeKind::decode(kind) {
                Some(kind) => (kind, record.payload),
                None => return Ok(()),
            },
        };
        // Redo of a record that fills or frees whole pages does not read them.
        let reads = matches!(kind, ChangeKind::LeafInsert | ChangeKind::LeafDelete | ChangeKind::LeafUpdate);
        let appliers = self.senders.len() as u32;
        let mut applier = None;
        for page in pages_of(kind, payload) {
            let page = page.map_err(|fault| fault.at(record.lsn))?;
            if !self.checkpoint.wants(page, record.lsn) {
                continue;
            }
            let owner = owner(page, appliers);
            applier = Some(if applier.is_none_or(|known| known == owner) { owner } else { ALL_APPLIERS });
            if self.seen.insert(page.get()) && reads {
                self.batch.fresh.push(page);
            }
        }
        let Some(applier) = applier else { return Ok(()) };
        let from = self.batch.bytes.len() as u32;
        self.batch.bytes.extend_from_slice(payload);
        let span = RecordSpan { first: record.first, lsn: record.lsn, end: record.end };
        let to = self.batch.bytes.len() as u32;
        self.batch.deals.push(Deal { span, kind, applier, from, to });
        Ok(())
    }
}

fn apply(
    pool: &Pool,
    checkpoint: &Checkpoint,
    batches: &Receiver<Arc<Batch>>,
    number: u32,
    appliers: u32,
) -> Result<()> {
    let mut fresh = Vec::new();
    while let Ok(batch) = batches.recv() {
        fresh.clear();
        fresh.extend(batch.fresh.iter().copied().filter(|page| owner(*page, appliers) == number));
        // Reading more pages than the pool has room for would evict pages that were just read.
        fresh.truncate(pool.stat().capacity / 2);
        pool.prefetch(&fresh)?;
        for deal in batch.deals.iter().filter(|deal| deal.applier == number || deal.applier == ALL_APPLIERS) {
            let payload = &batch.bytes[deal.from as usize..deal.to as usize];
            let mine = |page| owner(page, appliers) == number && checkpoint.wants(page, deal.span.lsn);
            redo_at(pool, deal.kind, payload, deal.span, mine)?;
        }
    }
    Ok(())
}
