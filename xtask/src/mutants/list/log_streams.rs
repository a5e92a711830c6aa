//! Mutants of logs with several streams: which records survive a crash.

use super::tests::{CRASH, HEAD, STREAMS};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "the name of the streams' control file is not synced",
        file: "crates/wal/src/streams/control.rs",
        old: "        directory.rename(STREAMS_NEW_NAME, STREAMS_NAME)?;\n        directory.sync()\n",
        new: "        directory.rename(STREAMS_NEW_NAME, STREAMS_NAME)\n",
        tests: STREAMS,
    },
    Mutant {
        name: "a record is kept although a position it names was lost",
        file: "crates/wal/src/head.rs",
        old: "!incarnations[position.stream.index()].holds(*incarnation, position.end)",
        new: "!incarnations[position.stream.index()].holds(*incarnation, position.end) && position.end == Lsn::ZERO",
        tests: STREAMS,
    },
    Mutant {
        name: "a position of an earlier incarnation of its own stream is taken to be there",
        file: "crates/wal/src/head.rs",
        old: "position.stream == stream && of == incarnation && position.end <= at",
        new: "position.stream == stream && of <= incarnation && position.end <= at",
        tests: HEAD,
    },
    Mutant {
        name: "a position of another stream is taken to be there",
        file: "crates/wal/src/head.rs",
        old: "position.stream == stream && of == incarnation && position.end <= at",
        new: "(position.stream == stream || of == incarnation) && position.end <= at",
        tests: STREAMS,
    },
    Mutant {
        name: "of two positions of a stream the last one joined counts",
        file: "crates/kernels/src/dependencies.rs",
        old: "self.positions[known].end = self.positions[known].end.max(at.end)",
        new: "self.positions[known].end = at.end",
        tests: STREAMS,
    },
    Mutant {
        name: "a record names no positions",
        file: "crates/wal/src/session.rs",
        old: "for at in missing {",
        new: "for at in missing.take(0) {",
        tests: STREAMS,
    },
    Mutant {
        name: "a record's header counts no dependencies",
        file: "crates/wal/src/session.rs",
        old: "dependencies: dependencies as u16 },",
        new: "dependencies: dependencies as u16 / u16::MAX },",
        tests: STREAMS,
    },
    Mutant {
        name: "a commit waits for its own position only",
        file: "crates/wal/src/open_log.rs",
        old: "        for at in std::iter::once(at).chain(dependencies.iter()) {\n            self.core(at.stream).wait(",
        new: "        for at in std::iter::once(at).chain(dependencies.iter()).take(1) {\n            self.core(at.stream).wait(",
        tests: STREAMS,
    },
    Mutant {
        name: "a commit is settled when its own position is",
        file: "crates/wal/src/open_log.rs",
        old: "        for at in std::iter::once(at).chain(dependencies.iter()) {\n            match self",
        new: "        for at in std::iter::once(at).chain(dependencies.iter()).take(1) {\n            match self",
        tests: STREAMS,
    },
    Mutant {
        name: "a sync of all streams waits for the first",
        file: "crates/wal/src/log.rs",
        old: "self.streams.iter().zip(&ends).try_for_each(|(stream, end)| {",
        new: "self.streams.iter().zip(&ends).take(1).try_for_each(|(stream, end)| {",
        tests: CRASH,
    },
    Mutant {
        name: "a record is applied before other streams were looked at",
        file: "crates/wal/src/replay/while_opening.rs",
        old: "if !head.is_kept_by(stream, header.incarnation, header.lsn) {",
        new: "if !head.is_kept_by(stream, header.incarnation, header.lsn) && self.streams == 0 {",
        tests: STREAMS,
    },
    Mutant {
        name: "a replay keeps what an opening drops",
        file: "crates/wal/src/replay/mod.rs",
        old: "} else if head.lost(&log.incarnations).is_some() {",
        new: "} else if head.lost(&log.incarnations).is_some() && log.streams.is_empty() {",
        tests: STREAMS,
    },
    Mutant {
        name: "streams that were made are not noted as made",
        file: "crates/wal/src/streams/opening.rs",
        old: "    StreamsState { making: CreationState::Done, ..state }.write(directory.as_ref())?;\n",
        new: "",
        tests: STREAMS,
    },
];
