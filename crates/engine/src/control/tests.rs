//! Tests of the control file.

use super::*;
use crate::paged::page::tests::for_seeds;
use katydid_device::{MemoryDirectory, SimDevice, Survival};

fn control() -> Control {
    Control {
        checkpoint: Lsn::new(0x1234_5678),
        next_transaction: 42,
        next_table: 7,
        ..Control::paged(Id::new(0x1122_3344_5566_7788_99AA_BBCC_DDEE_FF00), 8192)
    }
}

fn of_memory() -> Control {
    let control = Control::memory(Id::new(0x1122_3344_5566_7788_99AA_BBCC_DDEE_FF00), 5);
    Control { checkpoint_number: 0x1234_5678, next_table: 7, ..control }
}

fn slot(sequence: u64, control: &Control) -> Vec<u8> {
    let mut slot = vec![0xEE; SLOT];
    encode(&mut slot, sequence, control);
    slot
}

#[test]
fn slot_is_read_back() {
    for control in [control(), of_memory()] {
        assert_eq!(decode(&slot(9, &control)), Slot::Valid(9, control));
        let clean = Control { shutdown: Shutdown::Clean, ..control };
        assert_eq!(decode(&slot(9, &clean)), Slot::Valid(9, clean));
    }
}

#[test]
fn format_1_is_still_read_and_written_for_pages() {
    let fixture = include_bytes!("../../tests/fixtures/control-v1");
    assert_eq!(decode(fixture), Slot::Valid(9, control()));
    assert_eq!(slot(9, &control()), fixture);
}

#[test]
fn format_2_is_still_read_and_written_for_memory() {
    let fixture = include_bytes!("../../tests/fixtures/control-v2");
    assert_eq!(decode(fixture), Slot::Valid(9, of_memory()));
    assert_eq!(slot(9, &of_memory()), fixture);
}

#[test]
fn what_no_engine_can_be_opened_with_is_damage() {
    for streams in [0, STREAMS_MAX + 1] {
        assert_eq!(decode(&slot(9, &Control { streams, ..of_memory() })), Slot::Damaged);
    }
    for page_bytes in [0, 2048, 5000, 65536] {
        assert_eq!(decode(&slot(9, &Control { page_bytes, ..control() })), Slot::Damaged);
    }
    for count in [1 << 63, u64::MAX] {
        assert_eq!(decode(&slot(count, &control())), Slot::Damaged);
        assert_eq!(decode(&slot(9, &Control { next_transaction: count, ..control() })), Slot::Damaged);
        assert_eq!(decode(&slot(9, &Control { checkpoint_number: count, ..of_memory() })), Slot::Damaged);
    }
    let mut early = slot(9, &of_memory());
    early[8] = 1;
    let sum = checksum(&early);
    early[12..16].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(decode(&early), Slot::Damaged, "format 1 knows no memory engine");
}

#[test]
fn every_pair_of_slots_is_judged() {
    let (low, high) = (control(), Control { checkpoint: Lsn::new(77), ..control() });
    let current = |sequence, control| Finding::Current { sequence, control };
    let slots = [Slot::Valid(4, low), Slot::Valid(5, high), Slot::Newer(3), Slot::Damaged, Slot::Other];
    for (first_index, first) in slots.into_iter().enumerate() {
        for (second_index, second) in slots.into_iter().enumerate() {
            let expected = match (first_index, second_index) {
                (2, _) | (_, 2) => Finding::Newer(3),
                (1, _) | (_, 1) => current(5, high),
                (0, _) | (_, 0) => current(4, low),
                (3, _) | (_, 3) => Finding::Corrupt,
                _ => Finding::Foreign,
            };
            assert_eq!(judge([first, second]), expected, "{first:?} {second:?}");
        }
    }
}

#[test]
fn garbage_never_panics_and_never_counts() {
    for_seeds(300, |rng| {
        let whole = if rng.bool() { control() } else { of_memory() };
        let mut bytes = slot(rng.u64(..), &whole);
        for _ in 0..rng.usize(1..4) {
            let reach = if rng.bool() { 76 } else { SLOT };
            let at = rng.usize(0..reach);
            bytes[at] ^= 1 << rng.u8(0..8);
        }
        let decoded = decode(&bytes);
        // Two flips of the same bit cancel out: the slot is then valid, with its original content.
        assert!(!matches!(decoded, Slot::Valid(_, found) if found != whole), "{decoded:?}");
        bytes.truncate(rng.usize(0..SLOT));
        assert!(matches!(decode(&bytes), Slot::Damaged | Slot::Other));
    });
}

#[test]
fn newer_foreign_and_damaged_files_are_distinguished() {
    let directory = MemoryDirectory::new();
    assert!(read(&directory).expect("no file").is_none());
    assert!(ControlFile::open(&directory, Method::Direct).expect("no file").is_none());
    let write = |bytes: &[u8]| {
        let file = directory.open(FILE_NAME, Create::IfMissing, Method::Direct).expect("a file");
        file.write_at(&[IoSlice::new(bytes)], 0, WriteMode::Durable).expect("a write");
        read(&directory)
    };
    let newer = {
        let mut bytes = slot(3, &control());
        bytes[8] = 3;
        let sum = checksum(&bytes);
        bytes[12..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    };
    let both = |a: &[u8], b: &[u8]| [a, b].concat();
    let foreign = write(&vec![b'x'; 2 * SLOT]);
    assert!(matches!(foreign, Err(Error::Foreign { what: Foreign::Magic(_), .. })), "{foreign:?}");
    let zeroed = write(&vec![0; 2 * SLOT]);
    assert!(matches!(zeroed, Err(Error::Corrupt { .. })), "{zeroed:?}");
    let found = write(&both(&slot(2, &control()), &newer));
    let what = Foreign::NewerVersion { file: FILE_NAME.to_owned(), found: 3, known: 2 };
    assert!(matches!(&found, Err(Error::Foreign { what: w, .. }) if *w == what), "{found:?}");
    let mut torn = slot(3, &control());
    torn[100] = 1;
    assert_eq!(write(&both(&slot(2, &control()), &torn)).expect("one slot is valid"), Some(control()));
    let damaged = write(&both(&torn, &torn));
    assert!(matches!(damaged, Err(Error::Corrupt { .. })), "{damaged:?}");
}

fn create_and_update(directory: &dyn Directory, acknowledged: &mut Option<u64>) -> Result<()> {
    let file = ControlFile::create(directory, Method::Direct, control())?;
    *acknowledged = Some(control().checkpoint.get());
    for checkpoint in control().checkpoint.get() + 1..control().checkpoint.get() + 6 {
        file.update(|control| control.checkpoint = Lsn::new(checkpoint))?;
        assert_eq!(file.get().checkpoint.get(), checkpoint);
        *acknowledged = Some(checkpoint);
    }
    Ok(())
}

#[test]
fn crash_at_any_step_leaves_the_old_state_or_the_new_one() {
    let steps = {
        let device = SimDevice::new(1);
        create_and_update(device.directory().as_ref(), &mut None).expect("no crash");
        device.steps()
    };
    for step in 0..steps {
        for seed in 0..16 {
            let device = SimDevice::new(1);
            device.crash_at(step);
            let mut acknowledged = None;
            create_and_update(device.directory().as_ref(), &mut acknowledged)
                .expect_err("the device crashes");
            // Successive slots differ in one sector only, so a torn write leaves the old or the new
            // slot. Every second crash leaves garbage in the sectors that were being written, so
            // that damaged slots occur as well.
            let again = match seed % 2 {
                0 => device.reopen_after_crash(seed),
                _ => device.reopen_with(seed, Survival::Trash),
            };
            let directory = again.directory();
            let found = ControlFile::open(directory.as_ref(), Method::Direct).expect("valid or absent");
            match (found, acknowledged) {
                (Some(file), Some(acknowledged)) => {
                    let checkpoint = file.get().checkpoint.get();
                    assert!(
                        checkpoint == acknowledged || checkpoint == acknowledged + 1,
                        "step {step}, crash {seed}"
                    );
                    file.update(|control| control.shutdown = Shutdown::Clean).expect("usable");
                    let read = read(directory.as_ref()).expect("valid").expect("there");
                    assert_eq!((read.shutdown, read.checkpoint.get()), (Shutdown::Clean, checkpoint));
                }
                (Some(file), None) => assert_eq!(file.get(), control()),
                (None, None) => {
                    create_and_update(directory.as_ref(), &mut None).expect("creation begins anew")
                }
                (None, Some(_)) => panic!("step {step}, crash {seed}: an acknowledged database is gone"),
            }
        }
    }
}
