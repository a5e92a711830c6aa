//! The verdict about the records: gathering its evidence, and making its error.
//!
//! One thread runs this code, which only reads. Opening and inspecting both use it, so they judge
//! alike.

use super::decide::{DurableFound, EndVerdict, StopFound, Survivors, judge_end};
use super::report::Finding;
use super::scan::{LivingRecords, NoVisitor, RecordVisitor, Search, Walk, search, walk};
use crate::control::ControlState;
use crate::error::OpenError;
use crate::segment::Source;
use crate::segment::window::Window;
use katydid_device as device;
use katydid_kernels::lsn::Lsn;

/// Findings, and the verdict on them.
#[derive(Debug, Clone)]
pub(crate) struct Judgement {
    pub walk: Walk,
    /// The farthest position known to have been durable.
    pub durable: Lsn,
    pub scanned_bytes: u64,
    pub outcome: Result<Outcome, OpenError>,
}

/// The finding about a sound log, and the incarnation (number of the opening) in which the log
/// continues.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub finding: Finding,
    /// The new incarnation, which no surviving byte of the log has.
    pub incarnation: u32,
}

/// Walks over the records, searches beyond their end if needed, and decides what the end means.
pub(crate) fn judge(
    source: &dyn Source,
    state: &ControlState,
    visitor: &mut dyn RecordVisitor,
) -> device::Result<Judgement> {
    let mut window = Window::new();
    let mut pass = |visitor: &mut dyn RecordVisitor| {
        walk(source, &mut window, state.start, state.start_incarnation, visitor)
    };
    let walk = if state.truncates && !visitor.ignores_records() {
        // A record that drops others lies above them. A first walk therefore finds the dropped
        // ranges, and the second walk calls the visitor.
        let truncated = pass(&mut NoVisitor)?.truncated;
        pass(&mut LivingRecords { visitor, truncated })?
    } else {
        pass(visitor)?
    };
    // Closing writes its record last, and then stores the end of that record in the control file.
    // If no opening has written since, there is nothing beyond that end to search for. In a log
    // whose commits do not wait for holes, however, another thread may have appended beyond a hole
    // meanwhile.
    let finished = state.log.waits_for_holes()
        && walk.closed
        && walk.incarnation == state.incarnation
        && walk.end == state.durable;
    let search =
        if finished { Search::default() } else { search(source, &mut window, walk.end, walk.incarnation)? };
    let durable = state.durable.max(state.start).max(walk.durable).max(search.durable);
    // If closing was finished, the bytes at the end are left over from an earlier use of the file
    // or of the ring. They may look torn, because they may be part of a record that an earlier
    // opening has cut off.
    let stop = if finished { StopFound::Blank } else { walk.stop };
    let outcome = decide(source, state, &walk, stop, &search, durable);
    Ok(Judgement { walk, durable, scanned_bytes: window.read_bytes(), outcome })
}

fn decide(
    source: &dyn Source,
    state: &ControlState,
    walk: &Walk,
    stop: StopFound,
    search: &Search,
    durable: Lsn,
) -> Result<Outcome, OpenError> {
    let reached = match durable {
        durable if durable <= walk.end => DurableFound::Reached,
        durable if durable <= source.prepared_end() => DurableFound::Beyond,
        _ => DurableFound::BeyondSegments,
    };
    let survivors = if search.records == 0 { Survivors::None } else { Survivors::Some };
    let finding = match judge_end(stop, survivors, reached) {
        EndVerdict::CleanEnd if state.incarnation == 0 => Finding::Created,
        EndVerdict::CleanEnd => Finding::CleanEnd { closed: walk.closed },
        EndVerdict::TornTail => Finding::TornTail { at: walk.end, dropped: search.records },
        EndVerdict::CorruptBelowDurable => {
            let file = source.file_name(walk.end);
            return Err(OpenError::CorruptBelowDurable { at: walk.end, file, durable });
        }
        EndVerdict::MissingSegment => {
            let from = source.prepared_end();
            return Err(OpenError::MissingSegment { file: source.file_name(from), from });
        }
    };
    let seen = state.incarnation.max(walk.incarnation).max(search.incarnation);
    let incarnation = seen.checked_add(1).ok_or(OpenError::IncarnationsExhausted)?;
    Ok(Outcome { finding, incarnation })
}
