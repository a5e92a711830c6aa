//! Reading records that were appended and never written, after the log has failed or was closed.

use crate::{Acknowledged, append, on_every_protocol_and_device, options, payload};
use katydid_device::{Fault, Verb};
use katydid_wal::{AppendError, Durability, Error, Log, Lsn, ReadError};

#[test]
fn records_that_a_failed_write_lost_are_reported_as_poisoned_not_as_missing() {
    on_every_protocol_and_device(|sync, place| {
        let device = place.make();
        let log = Log::open_in(device.directory(), options(sync, place)).expect("open");
        let mut session = log.session().expect("session");
        let mut counts = Acknowledged::default();
        let kept = append(&mut session, 0, &mut counts).expect("append");
        log.first().wait(kept, Durability::Durable).expect("nothing fails");
        let lost = log.first().reserved();
        let end = append(&mut session, 0, &mut counts).expect("append");
        device
            .fail_once(|verb, name| (verb == Verb::Write && name.starts_with("log.0")).then_some(Fault::Io));
        let first = log.first().wait(end, Durability::Durable).expect_err("planned");
        assert!(matches!(first, Error::Poisoned { .. }), "{sync}: {first}");
        let read = log.first().read(lost).expect_err("it was not written");
        assert!(matches!(read, Error::Poisoned { .. }), "{sync}: {read}");
        // A reader may begin at the end of what was written, and finds nothing there.
        assert_eq!(log.first().reader(lost).expect("a reader").count(), 0, "{sync}");
        let second = append(&mut session, 0, &mut counts);
        assert!(matches!(second, Err(AppendError::Poisoned { .. })), "{sync}: {second:?}");
        // A position that was never appended still gets its own error, and written records can be
        // read.
        let beyond =
            log.first().read(Lsn::new(log.first().reserved().get() + 8)).expect_err("there is nothing");
        assert!(matches!(beyond, Error::Read(ReadError::BeyondEnd { .. })), "{sync}: {beyond}");
        let first = log
            .first()
            .reader(log.first().start())
            .expect("a reader")
            .next()
            .expect("one was written")
            .expect("sound");
        assert_eq!(log.first().read(first.lsn).expect("it was written").payload, payload(0, 0), "{sync}");
        // Closing returns the failure, and changes no result of a read.
        log.close().expect_err("it has failed");
        let read = log.first().read(lost).expect_err("it was not written");
        assert!(matches!(read, Error::Poisoned { .. }), "{sync}: {read}");
    });
}
