//! Measuring a device: everything asked for is measured, and nothing is left behind, also after a
//! failure.

use katydid_device::probe::{FileState, Load, Scratch, SyncMethod, Trials};
use katydid_device::{Device, Method};
use std::fs;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn scratch() -> TempDir {
    TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a scratch directory")
}

fn is_empty(dir: &Path) -> bool {
    fs::read_dir(dir).expect("list").next().is_none()
}

#[test]
fn a_device_is_measured_and_left_clean() {
    let scratch = scratch();
    let dir = scratch.path().join("new");
    let device = Device::auto(&dir).expect("measure");
    assert!(Trials::SIZES.contains(&device.write_bytes) && Trials::DEPTHS.contains(&device.depth));
    assert!(!device.write_time.is_zero() && device.bytes_per_second > 0.0);
    assert!(device.to_string().starts_with(device.method.name()), "{device}");
    assert!(is_empty(&dir));
}

#[test]
fn every_state_way_and_depth_can_be_measured() {
    let dir = scratch();
    for state in FileState::ALL {
        let Ok(scratch) = Scratch::new(dir.path(), 1 << 20, state) else {
            assert_eq!(state, FileState::Allocated, "only this may be refused");
            continue;
        };
        assert!(is_empty(dir.path()), "the file has no name even while it is in use");
        assert!(scratch.methods().contains(&Method::Buffered));
        for method in scratch.methods() {
            for (sync, depth) in [(SyncMethod::Durable, 1), (SyncMethod::Durable, 3), (SyncMethod::Synced, 2)]
            {
                let load = Load { method, sync, block_bytes: 4096, depth, time: Duration::from_millis(1) };
                let samples = scratch.measure(&load).expect("measure");
                // A thread that appends stops at the end of the file, so it may have no sample. In
                // the other states each thread has at least one.
                assert!(state == FileState::Appended || samples.nanos().len() >= depth, "{state:?} {load:?}");
                assert!(samples.nanos().is_sorted() && samples.quantile(0.0) <= samples.quantile(1.0));
                assert!(samples.nanos().is_empty() || samples.per_second() > 0.0);
            }
        }
        let load = Load {
            method: Method::Buffered,
            sync: SyncMethod::Durable,
            block_bytes: 1 << 20,
            depth: 2,
            time: Duration::ZERO,
        };
        scratch.measure(&load).expect_err("the file is too small for two of these");
    }
}

#[test]
fn trials_report_what_they_do_and_choose_among_what_they_measured() {
    let dir = scratch();
    let mut reported = Vec::new();
    let trials = Trials::run(dir.path(), Trials::FILE_BYTES_MIN, Duration::ZERO, |done, what| {
        assert!((0.0..1.0).contains(&done), "{done}");
        reported.push(what.to_owned());
    })
    .expect("measure");
    assert_eq!(reported.len(), 2 * trials.methods.len() + 3 + 4);
    assert!(trials.methods.iter().any(|(method, ..)| *method == trials.device().method));
    assert!(is_empty(dir.path()));
}

#[test]
fn a_failure_leaves_nothing_behind() {
    let dir = scratch();
    let error =
        Scratch::new(dir.path(), 1 << 60, FileState::Overwritten).expect_err("no device is that large");
    assert!(error.is_no_space(), "{error}");
    assert!(is_empty(dir.path()));
    fs::write(dir.path().join("file"), b"x").expect("write");
    Device::auto(&dir.path().join("file")).expect_err("a file is no folder");
    assert_eq!(fs::read_dir(dir.path()).expect("list").count(), 1);
}

#[test]
fn several_can_measure_in_one_folder() {
    let dir = scratch();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20 {
                    Scratch::new(dir.path(), 4096, FileState::Appended).expect("make");
                }
            });
        }
    });
    assert!(is_empty(dir.path()));
}
