//! Mutants of readers that retain and follow the log: pins, followers, feeds.

use super::tests::{CHANGES, CONSUMERS, FOLLOW, MEMORY_RACES, PINS};
use crate::mutants::mutant::Mutant;

pub const LIST: &[Mutant] = &[
    Mutant {
        name: "a trim does not look at pins",
        file: "crates/wal/src/retention.rs",
        old: "            bound = bound.min(held.from[stream]);\n",
        new: "            let _ = held;\n",
        tests: PINS,
    },
    Mutant {
        name: "a follower gives what is only written",
        file: "crates/wal/src/follow.rs",
        old: "self.0.frontiers().durable().min(readable)",
        new: "readable",
        tests: FOLLOW,
    },
    Mutant {
        name: "a follower sleeps without a look after its waker was registered",
        file: "crates/wal/src/follow.rs",
        old: "waker, || settled(core))",
        new: "waker, || core.is_over())",
        tests: FOLLOW,
    },
    Mutant {
        name: "a consumer's place is not durable when it is acknowledged",
        file: "crates/wal/src/consumers.rs",
        old: "file.write_at(&[IoSlice::new(&place.encode(self.id))], offset, WriteMode::Durable)",
        new: "file.write_at(&[IoSlice::new(&place.encode(self.id))], offset, WriteMode::Written)",
        tests: CONSUMERS,
    },
    Mutant {
        name: "a consumer's pin is not there after opening",
        file: "crates/wal/src/retention.rs",
        old: "held.is_lost = is_lost;",
        new: "held.is_lost = is_lost;\n            held.from.fill(Lsn::LIMIT);",
        tests: CONSUMERS,
    },
    Mutant {
        name: "the feed gives what was rolled back to a savepoint",
        file: "crates/engine/src/paged/feed/assemble.rs",
        old: "open.done.pop_if(|(lsn, _)| *lsn > undo_next)",
        new: "open.done.pop_if(|(lsn, _)| *lsn > undo_next && record.lsn < *lsn)",
        tests: CHANGES,
    },
    Mutant {
        name: "the memory engine's feed looks at no transaction that has its versions in place",
        file: "crates/engine/src/memory/feed.rs",
        old: "Ok(self.store.in_flight_below(bound))",
        new: "Ok(bound)",
        tests: MEMORY_RACES,
    },
    Mutant {
        name: "a position of the paged engine's feed forgets transactions that have not ended",
        file: "crates/engine/src/paged/feed/mod.rs",
        old: "self.assembler.oldest().map_or(at, |first| first.min(at))",
        new: "at",
        tests: CHANGES,
    },
    Mutant {
        name: "a refused trim moves the owner's position and loses pins",
        file: "crates/wal/src/stream.rs",
        old: "if to > retention.owner(stream) {",
        new: "if false {",
        tests: PINS,
    },
    Mutant {
        name: "a lost consumer gets the first stream, whichever was trimmed",
        file: "crates/wal/src/consumer.rs",
        old: "filter(|(at, start)| at < start)",
        new: "filter(|(at, start)| at < start && false)",
        tests: CONSUMERS,
    },
];
