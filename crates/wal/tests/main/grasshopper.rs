//! Counters of inserter `grasshopper`: the bytes over which the filled frontier moves by crawling,
//! and by hopping.

use katydid_device::MemoryDirectory;
use katydid_wal::{Append, Background, FileOptions, InserterDesign, Kind, Log, Options};
use std::sync::Arc;

#[test]
fn lagging_behind_it_hops_and_keeping_up_it_crawls() {
    let options = Options {
        medium: FileOptions {
            inserter: InserterDesign::Grasshopper { hop_bytes: 4 << 10 },
            ..FileOptions::default()
        }
        .into(),
        // Without a tracker no thread scans between the appends.
        background: Background::Caller,
        ..Options::default()
    };
    let log = Log::open_in(Arc::new(MemoryDirectory::new()), options).expect("open");
    let opened = log.first().reserved();
    let mut session = log.session().expect("session");
    let mut append = |count: u64, wait: bool| {
        for _ in 0..count {
            let end = session.append(&Append::new(Kind::USER, &[&[7; 150]])).expect("append").end;
            if wait {
                log.first().wait(end, katydid_wal::Durability::Durable).expect("wait");
            }
        }
        log.sync().expect("sync");
        let counters = log.counters();
        assert_eq!(counters.crawled + counters.hopped, log.first().reserved().since(opened));
        counters
    };
    // The first scan comes after all appends, so whole ranges are filled and the frontier hops over
    // them.
    let lagging = append(800, false);
    assert!(lagging.hopped > 10 * lagging.crawled, "{lagging:?}");
    let keeping_up = append(800, true);
    assert!(keeping_up.crawled > lagging.crawled + 100 * 150, "{keeping_up:?}");
    assert_eq!(log.first().reader(log.first().start()).expect("reader").map(Result::unwrap).count(), 1600);
}
