//! The examples, run as their readers would run them. Each example ends by itself.

use katydid::{Database, EngineKind, Options};

// The tests call `run` of each example, because `main` opens a folder named on the command line.
#[path = "../../examples/backup.rs"]
#[expect(dead_code, reason = "`main` is not called")]
mod backup;
#[path = "../../examples/follower.rs"]
#[expect(dead_code, reason = "`main` is not called")]
mod follower;
#[path = "../../examples/index.rs"]
#[expect(dead_code, reason = "`main` is not called")]
mod index;
#[path = "../../examples/outbox.rs"]
#[expect(dead_code, reason = "`main` is not called")]
mod outbox;
#[path = "../../examples/queue.rs"]
#[expect(dead_code, reason = "`main` is not called")]
mod queue;

#[test]
fn examples_do_what_they_say() {
    for engine in [EngineKind::Paged, EngineKind::Memory] {
        let open = || {
            let options = Options { engine: engine.into(), ..Options::default() };
            Database::in_memory_with(options).expect("open")
        };
        outbox::run(&open()).expect("outbox");
        index::run(&open()).expect("index");
    }
    queue::run(&Database::in_memory().expect("open")).expect("queue");
    let folder = || tempfile::tempdir().expect("a folder");
    backup::run(folder().path()).expect("backup");
    follower::run(folder().path()).expect("follower");
}
