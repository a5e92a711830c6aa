//! The decisions of opening a log, separate from all reading and writing.
//!
//! Pure functions. There are two tables. [`judge_files`] decides from the control file, the names
//! and the headers whether the records can be read. [`judge_end`] decides from the records whether
//! the log may end where they end. Every combination of inputs has a row, and a test goes through
//! all of them.

/// State of the control file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ControlFound {
    /// There is no control file.
    Absent,
    /// Sound, and nothing was ever written: creation may not have finished.
    Unused,
    /// Sound.
    Used,
    /// Neither slot is sound.
    Corrupt,
    /// A slot names a format version that this program does not read.
    OtherVersion,
}

/// State of the segments from the start on, judged by their names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SegmentsFound {
    /// There is no segment.
    None,
    /// Later segments exist, but not the one that holds the start.
    StartMissing,
    /// A segment between others is missing.
    Gap,
    /// The last segments below `prepared end` of the control file are missing.
    Cut,
    /// All segments from the start's to the last one exist.
    Complete,
}

/// The worst fault in the headers of the segments from the start on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadersFound {
    /// All headers agree with their names and the log.
    Sound,
    /// A segment is damaged, too short, or in the wrong place.
    Corrupt,
    /// The header belongs to another log.
    Foreign,
    /// A segment's header names a format version that this program does not read.
    OtherVersion,
}

/// Verdict about the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilesVerdict {
    /// Make a new log.
    Create,
    /// Finish making a log: its control file is there, its first segment is not.
    FinishCreation,
    /// Read the records.
    Read,
    /// Refuse the log: there are segments without a control file.
    MissingControl,
    /// Refuse the log: no slot of the control file is sound.
    CorruptControl,
    /// Refuse the log: a segment is missing.
    MissingSegment,
    /// Refuse the log: a segment is damaged.
    CorruptSegment,
    /// Refuse the log: a segment belongs to another log.
    ForeignSegment,
    /// Refuse the log: a file is of another version.
    OtherVersion,
}

/// Decides whether the records can be read.
///
/// Files of a program of another version are not judged further. A foreign segment is reported
/// before a missing one, because it shows that files of another log were copied here. A missing
/// segment is reported before a corrupt one, because restoring files comes before repairing them.
pub(crate) fn judge_files(
    control: ControlFound,
    segments: SegmentsFound,
    headers: HeadersFound,
) -> FilesVerdict {
    use ControlFound::{Absent, Corrupt, OtherVersion, Unused, Used};
    match (control, segments, headers) {
        (OtherVersion, _, _) => FilesVerdict::OtherVersion,
        (Corrupt, _, _) => FilesVerdict::CorruptControl,
        (Absent, SegmentsFound::None, _) => FilesVerdict::Create,
        // Segments are made after the control file and never outlive it, so the control file was
        // removed by hand.
        (Absent, _, _) => FilesVerdict::MissingControl,
        (Unused, SegmentsFound::None, _) => FilesVerdict::FinishCreation,
        // The start's segment always exists once the log was used.
        (Used, SegmentsFound::None, _) => FilesVerdict::MissingSegment,
        (Unused | Used, _, HeadersFound::OtherVersion) => FilesVerdict::OtherVersion,
        (Unused | Used, _, HeadersFound::Foreign) => FilesVerdict::ForeignSegment,
        // Segments are made and removed in order, so no crash leaves a gap. The control file names
        // a segment only after the segment exists.
        (Unused | Used, SegmentsFound::StartMissing | SegmentsFound::Gap | SegmentsFound::Cut, _) => {
            FilesVerdict::MissingSegment
        }
        // A segment's header is durable before the file has its name.
        (Unused | Used, SegmentsFound::Complete, HeadersFound::Corrupt) => FilesVerdict::CorruptSegment,
        (Unused | Used, SegmentsFound::Complete, HeadersFound::Sound) => FilesVerdict::Read,
    }
}

/// The bytes at which the valid records end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopFound {
    /// Zeros, or bytes left over from an earlier use of the file or of the ring: the last use has
    /// written nothing there.
    Blank,
    /// Part of a record that was written there.
    Broken,
    /// The last segment ends there.
    SegmentsEnd,
}

/// Presence of valid records that the last opening wrote beyond the first position without a valid
/// record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Survivors {
    /// There is no such record.
    None,
    /// There is at least one such record.
    Some,
}

/// Position up to which the log is known to have been durable, by any evidence: the control file,
/// and all valid records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DurableFound {
    /// Not beyond the end of the valid records.
    Reached,
    /// Beyond the end of the valid records.
    Beyond,
    /// Beyond the last segment.
    BeyondSegments,
}

/// Verdict about the end of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndVerdict {
    /// There is no trace of an interrupted write: the log can be opened.
    CleanEnd,
    /// A crash interrupted a write: no record beyond the end was acknowledged as durable, and the
    /// log can be opened.
    TornTail,
    /// Refuse the log: a durable record is damaged.
    CorruptBelowDurable,
    /// Refuse the log: a segment with durable records is missing.
    MissingSegment,
}

/// Decides what the end of the valid records means.
pub(crate) fn judge_end(stop: StopFound, survivors: Survivors, durable: DurableFound) -> EndVerdict {
    match (stop, survivors, durable) {
        (_, _, DurableFound::BeyondSegments) => EndVerdict::MissingSegment,
        (_, _, DurableFound::Beyond) => EndVerdict::CorruptBelowDurable,
        (StopFound::Broken, _, DurableFound::Reached) => EndVerdict::TornTail,
        (_, Survivors::Some, DurableFound::Reached) => EndVerdict::TornTail,
        (StopFound::Blank | StopFound::SegmentsEnd, Survivors::None, DurableFound::Reached) => {
            EndVerdict::CleanEnd
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks every combination against rules that are stated in another way than the table.
    #[test]
    fn files_table() {
        use ControlFound::{Absent, Corrupt, OtherVersion, Unused, Used};
        let mut rows = 0;
        for control in [Absent, Unused, Used, Corrupt, OtherVersion] {
            for segments in [
                SegmentsFound::None,
                SegmentsFound::StartMissing,
                SegmentsFound::Gap,
                SegmentsFound::Cut,
                SegmentsFound::Complete,
            ] {
                for headers in [
                    HeadersFound::Sound,
                    HeadersFound::Corrupt,
                    HeadersFound::Foreign,
                    HeadersFound::OtherVersion,
                ] {
                    let verdict = judge_files(control, segments, headers);
                    let none = segments == SegmentsFound::None;
                    let complete = segments == SegmentsFound::Complete;
                    let open = matches!(control, Unused | Used);
                    let expected = if control == OtherVersion
                        || open && !none && headers == HeadersFound::OtherVersion
                    {
                        FilesVerdict::OtherVersion
                    } else if control == Corrupt {
                        FilesVerdict::CorruptControl
                    } else if control == Absent {
                        if none { FilesVerdict::Create } else { FilesVerdict::MissingControl }
                    } else if control == Unused && none {
                        FilesVerdict::FinishCreation
                    } else if !none && headers == HeadersFound::Foreign {
                        FilesVerdict::ForeignSegment
                    } else if !complete {
                        FilesVerdict::MissingSegment
                    } else if headers == HeadersFound::Corrupt {
                        FilesVerdict::CorruptSegment
                    } else {
                        FilesVerdict::Read
                    };
                    assert_eq!(verdict, expected, "{control:?} {segments:?} {headers:?}");
                    // A new log is made only where nothing of an old one exists.
                    assert_eq!(verdict == FilesVerdict::Create, control == Absent && none);
                    rows += 1;
                }
            }
        }
        assert_eq!(rows, 100);
    }

    #[test]
    fn end_table() {
        use DurableFound::{Beyond, BeyondSegments, Reached};
        use EndVerdict::{CleanEnd, CorruptBelowDurable, MissingSegment, TornTail};
        use StopFound::{Blank, Broken, SegmentsEnd};
        let table = [
            (Blank, Survivors::None, Reached, CleanEnd),
            (Blank, Survivors::None, Beyond, CorruptBelowDurable),
            (Blank, Survivors::None, BeyondSegments, MissingSegment),
            (Blank, Survivors::Some, Reached, TornTail),
            (Blank, Survivors::Some, Beyond, CorruptBelowDurable),
            (Blank, Survivors::Some, BeyondSegments, MissingSegment),
            (Broken, Survivors::None, Reached, TornTail),
            (Broken, Survivors::None, Beyond, CorruptBelowDurable),
            (Broken, Survivors::None, BeyondSegments, MissingSegment),
            (Broken, Survivors::Some, Reached, TornTail),
            (Broken, Survivors::Some, Beyond, CorruptBelowDurable),
            (Broken, Survivors::Some, BeyondSegments, MissingSegment),
            (SegmentsEnd, Survivors::None, Reached, CleanEnd),
            (SegmentsEnd, Survivors::None, Beyond, CorruptBelowDurable),
            (SegmentsEnd, Survivors::None, BeyondSegments, MissingSegment),
            (SegmentsEnd, Survivors::Some, Reached, TornTail),
            (SegmentsEnd, Survivors::Some, Beyond, CorruptBelowDurable),
            (SegmentsEnd, Survivors::Some, BeyondSegments, MissingSegment),
        ];
        for (row, (stop, survivors, durable, expected)) in table.iter().enumerate() {
            assert_eq!(judge_end(*stop, *survivors, *durable), *expected, "row {row}");
            for other in &table[..row] {
                assert_ne!((other.0, other.1, other.2), (*stop, *survivors, *durable), "row {row} twice");
            }
        }
        assert_eq!(table.len(), 3 * 2 * 3, "every combination has a row");
    }
}
