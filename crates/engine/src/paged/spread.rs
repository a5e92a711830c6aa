//! Page writes of the next checkpoint, spread over the log up to that checkpoint.
//!
//! A checkpoint writes back the pages that have been dirty since before the previous checkpoint. So
//! these pages are known when the previous checkpoint ends. If they were all written when the next
//! checkpoint is due, every commit would meanwhile share the device with them. So they are written
//! in small batches, in step with the log. The last batch is due when 80 % of the log up to the
//! next checkpoint is appended. PostgreSQL calls this share `checkpoint_completion_target`. While
//! the log grows fast, batches are larger ([`Pace`]). Decisions 82 and 89 have the measurements.
//!
//! Pure functions; the writes are in `checkpoint`. The list of pages is a hint: a listed page may
//! have been written since, and a page may be latched when its batch is due. The next checkpoint
//! collects its pages again and writes those that are left. Nothing here survives a crash.

use crate::Lsn;
use crate::paged::double_write;
use crate::paged::page::PageId;

/// Bytes of pages in a batch that is written beside commits, if the log grows slowly. A commit
/// queues behind the writes and syncs of the batch that is under way. The p99 of the commits'
/// latency, as a ratio to a store that writes no page, was 5.3 with spread batches of 1 MiB, 4.35
/// with 128 KiB, and 4.6 with 32 KiB. Batches of 32 KiB cost four times as many syncs as those of
/// 128 KiB.
const BATCH_BYTES: usize = 128 << 10;

/// Bytes of pages that a batch may have for each byte by which the log grew during the batch
/// before.
const BYTES_FOR_LOG: u64 = 2;

/// Percentage of the log between two checkpoints over which the page writes are spread. The rest is
/// a reserve for a device that falls behind.
const SPREAD_PERCENT: u64 = 80;

/// Number of pages in a batch that is written beside commits, if the log grows slowly.
pub(crate) const fn batch_pages(page_bytes: usize) -> usize {
    let pages = BATCH_BYTES / page_bytes;
    if pages == 0 { 1 } else { pages }
}

/// The sizes of batches that follow one another. A batch of any size takes the same number of
/// syncs, so large batches write more pages in the same time. A commit waits longer behind a large
/// batch, unless the log grows so fast that the commit waits as long behind the writes of the log.
#[derive(Debug)]
pub(crate) struct Pace {
    page_bytes: usize,
    /// End of the log when the last batch began.
    began: Option<Lsn>,
}

impl Pace {
    /// Makes the pace of a first batch of [`batch_pages`].
    pub(crate) fn new(page_bytes: usize) -> Self {
        Pace { page_bytes, began: None }
    }

    /// Returns the maximum number of pages of the batch that begins when the log ends at `end`.
    pub(crate) fn next(&mut self, end: Lsn) -> usize {
        let grown = self.began.replace(end).map_or(0, |began| end.since(began));
        let bytes = grown.saturating_mul(BYTES_FOR_LOG);
        let pages = usize::try_from(bytes).unwrap_or(usize::MAX) / self.page_bytes;
        let least = batch_pages(self.page_bytes);
        pages.clamp(least, double_write::batch_pages(self.page_bytes).max(least))
    }
}

/// The pages that the next checkpoint has to write, and how many of them were taken.
#[derive(Debug, Default)]
pub(crate) struct Spread {
    /// Begin record of the checkpoint after which the pages were listed.
    begin: Lsn,
    /// Bytes of log after `begin` at which all pages are due.
    span: u64,
    /// Pages that have been dirty since before `begin`, in the order of the file. Empty once all
    /// are taken.
    pages: Vec<PageId>,
    taken: usize,
}

impl Spread {
    /// Spreads `pages` over the log from `begin` on. The next checkpoint is due `checkpoint_bytes`
    /// after `begin`.
    pub(crate) fn new(begin: Lsn, checkpoint_bytes: u64, pages: Vec<PageId>) -> Self {
        Spread { begin, span: checkpoint_bytes / 100 * SPREAD_PERCENT, pages, taken: 0 }
    }

    /// Begin record of the checkpoint after which the pages were listed.
    pub(crate) fn begin(&self) -> Lsn {
        self.begin
    }

    /// Position of the log at which the next batch is due; `None` if no page is left. When the log
    /// has advanced by some fraction of the span, at least that fraction of the pages is due.
    pub(crate) fn next_at(&self) -> Option<Lsn> {
        if self.pages.is_empty() {
            return None;
        }
        let passed = (u128::from(self.span) * self.taken as u128).div_ceil(self.pages.len() as u128);
        Some(self.begin.plus(u64::try_from(passed).unwrap_or(u64::MAX)))
    }

    /// Takes the next batch, of at most `limit` pages, if it is due in a log that ends at `end`.
    pub(crate) fn take_due(&mut self, end: Lsn, limit: usize) -> Option<Vec<PageId>> {
        self.next_at().filter(|at| *at <= end)?;
        let from = self.taken;
        self.taken = self.pages.len().min(from.saturating_add(limit.max(1)));
        let batch = self.pages[from..self.taken].to_vec();
        if self.taken == self.pages.len() {
            self.pages = Vec::new();
        }
        Some(batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(count: u64) -> Vec<PageId> {
        (0..count).map(PageId::new).collect()
    }

    /// While the log advances by one byte at a time, every page is taken once, in order, in batches
    /// of at most the limit. When the log has passed some fraction of the span, at least that
    /// fraction of the pages is taken.
    #[test]
    fn pages_are_due_in_step_with_the_log() {
        for (count, limit) in [(0, 16), (1, 16), (15, 16), (16, 16), (1000, 16), (999, 1), (64, 1000), (7, 0)]
        {
            let (begin, checkpoint) = (5000, 10_000);
            let mut spread = Spread::new(Lsn::new(begin), checkpoint, pages(count));
            let mut all = Vec::new();
            for passed in 0..=checkpoint {
                let end = Lsn::new(begin + passed);
                let mut batches = 0;
                while let Some(batch) = spread.take_due(end, limit) {
                    assert!((1..=limit.max(1)).contains(&batch.len()), "{count} {limit} {passed}");
                    all.extend(batch);
                    batches += 1;
                }
                assert!(batches <= 1, "{count} {limit}: {batches} batches at {passed}");
                let due = (count * passed / 8000).min(count);
                let taken = all.len() as u64;
                assert!(taken >= due, "{count} {limit}: {taken} of {due} pages at {passed}");
                assert!(taken <= due + limit.max(1) as u64, "{count} {limit}: {taken} pages at {passed}");
                assert!(spread.next_at().is_none_or(|at| at > end), "{count} {limit} {passed}");
            }
            assert_eq!(all, pages(count), "{count} {limit}");
            assert_eq!(spread.next_at(), None);
        }
    }

    #[test]
    fn a_log_that_has_passed_the_span_gets_all_batches_at_once() {
        let mut spread = Spread::new(Lsn::new(100), 1 << 20, pages(40));
        assert_eq!(spread.take_due(Lsn::new(99), 16), None);
        let batches: Vec<usize> =
            std::iter::from_fn(|| spread.take_due(Lsn::new(2 << 20), 16).map(|batch| batch.len())).collect();
        assert_eq!(batches, [16, 16, 8]);
        assert_eq!(Spread::default().next_at(), None);
    }

    #[test]
    fn the_largest_numbers_do_not_overflow() {
        let mut spread = Spread::new(Lsn::new(u64::MAX), u64::MAX, pages(3));
        assert_eq!(spread.take_due(Lsn::new(u64::MAX), usize::MAX), Some(pages(3)));
        let mut spread = Spread::new(Lsn::ZERO, u64::MAX, pages(3));
        assert_eq!(spread.take_due(Lsn::ZERO, 2), Some(pages(2)));
        let span = u128::from(u64::MAX / 100 * 80);
        assert_eq!(spread.next_at().map(|at| u128::from(at.get())), Some((span * 2).div_ceil(3)));
    }

    #[test]
    fn batches_grow_with_the_log() {
        let mut pace = Pace::new(8192);
        let ends = [10 << 20, 10 << 20, (10 << 20) + 5000, (10 << 20) + 105_000, 11 << 20, 1 << 40, 1 << 40];
        let sizes = ends.map(|end| pace.next(Lsn::new(end)));
        // 2 bytes of pages for each byte of log, but at least 128 KiB and at most 1 MiB.
        assert_eq!(sizes, [16, 16, 16, 24, 128, 128, 16]);
        let mut pace = Pace::new(1 << 20);
        assert_eq!([0, u64::MAX].map(|end| pace.next(Lsn::new(end))), [1, 1], "a batch has a page");
    }

    #[test]
    fn a_batch_has_at_most_128_kib() {
        let sizes = [4096, 8192, 16_384, 32_768, 65_536].map(batch_pages);
        assert_eq!(sizes, [32, 16, 8, 4, 2]);
        assert_eq!(batch_pages(1 << 20), 1, "a batch has a page");
    }
}
