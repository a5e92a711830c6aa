//! Parallel logs: which records a crash leaves.

use super::tests::{CRASH, HEAD, PARALLEL};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "the name of the streams' control file is not synced",
        file: "crates/wal/src/parallel/control.rs",
        old: "        directory.rename(STREAMS_NEW_NAME, STREAMS_NAME)?;\n        directory.sync()\n",
        new: "        directory.rename(STREAMS_NEW_NAME, STREAMS_NAME)\n",
        tests: PARALLEL,
    },
    Mutant {
        name: "a record is kept although a place it names was lost",
        file: "crates/wal/src/parallel/head.rs",
        old: "!eras[place.stream.index()].holds(*incarnation, place.end)",
        new: "!eras[place.stream.index()].holds(*incarnation, place.end) && place.end == Lsn::ZERO",
        tests: PARALLEL,
    },
    Mutant {
        name: "a place of an earlier incarnation of its own stream is taken to be there",
        file: "crates/wal/src/parallel/head.rs",
        old: "place.stream == stream && of == incarnation && place.end <= at",
        new: "place.stream == stream && of <= incarnation && place.end <= at",
        tests: HEAD,
    },
    Mutant {
        name: "a place of another stream is taken to be there",
        file: "crates/wal/src/parallel/head.rs",
        old: "place.stream == stream && of == incarnation && place.end <= at",
        new: "(place.stream == stream || of == incarnation) && place.end <= at",
        tests: PARALLEL,
    },
    Mutant {
        name: "of two places of a stream the last one joined counts",
        file: "crates/kernels/src/dependencies.rs",
        old: "self.places[at].end = self.places[at].end.max(place.end)",
        new: "self.places[at].end = place.end",
        tests: PARALLEL,
    },
    Mutant {
        name: "a record names no places",
        file: "crates/wal/src/parallel/session.rs",
        old: "for place in depends.iter().filter(|place| !self.log.is_durable(*place)) {",
        new: "for place in depends.iter().filter(|place| !self.log.is_durable(*place)).take(0) {",
        tests: PARALLEL,
    },
    Mutant {
        name: "a record's header counts no dependencies",
        file: "crates/wal/src/parallel/session.rs",
        old: "dependencies: dependencies as u16 };",
        new: "dependencies: dependencies as u16 / u16::MAX };",
        tests: PARALLEL,
    },
    Mutant {
        name: "a commit waits for its own place only",
        file: "crates/wal/src/parallel/log.rs",
        old: "        for place in std::iter::once(place).chain(depends.iter()) {\n            self.stream(place.stream).wait(",
        new: "        for place in std::iter::once(place).chain(depends.iter()).take(1) {\n            self.stream(place.stream).wait(",
        tests: PARALLEL,
    },
    Mutant {
        name: "a commit is settled when its own place is",
        file: "crates/wal/src/parallel/log.rs",
        old: "        for place in std::iter::once(place).chain(depends.iter()) {\n            match self",
        new: "        for place in std::iter::once(place).chain(depends.iter()).take(1) {\n            match self",
        tests: PARALLEL,
    },
    Mutant {
        name: "a sync of all streams waits for the first",
        file: "crates/wal/src/parallel/log.rs",
        old: "self.streams().iter().zip(&ends).try_for_each(|(log, end)| log.wait(",
        new: "self.streams().iter().zip(&ends).take(1).try_for_each(|(log, end)| log.wait(",
        tests: CRASH,
    },
    Mutant {
        name: "a record is applied before other streams were looked at",
        file: "crates/wal/src/parallel/while_opening.rs",
        old: "if !head.is_kept_by(stream, header.incarnation, header.lsn) {",
        new: "if !head.is_kept_by(stream, header.incarnation, header.lsn) && self.streams == 0 {",
        tests: PARALLEL,
    },
    Mutant {
        name: "a replay keeps what an opening drops",
        file: "crates/wal/src/parallel/replay.rs",
        old: "} else if head.lost(self.eras()).is_some() {",
        new: "} else if head.lost(self.eras()).is_some() && self.streams().is_empty() {",
        tests: PARALLEL,
    },
    Mutant {
        name: "streams that were made are not noted as made",
        file: "crates/wal/src/parallel/opening.rs",
        old: "    StreamsState { making: Making::Done, ..state }.write(directory)?;\n",
        new: "",
        tests: PARALLEL,
    },
];
