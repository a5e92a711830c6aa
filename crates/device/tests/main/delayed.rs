//! Counts of the calls that a delayed device delays; no time is asserted.

use katydid_device::testing::conformance;
use katydid_device::{
    Create, DelayedDirectory, Directory, Fault, MemoryDirectory, Method, SimDevice, Waiting, WriteMode,
};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

const WAYS: [Waiting; 3] = [Waiting::Spin, Waiting::Timer, Waiting::Auto];

#[test]
fn delayed_devices_conform() {
    for waiting in WAYS {
        for delay in [Duration::ZERO, Duration::from_micros(if cfg!(miri) { 1 } else { 60 })] {
            conformance(|| Arc::new(DelayedDirectory::new(Arc::new(MemoryDirectory::new()), delay, waiting)));
        }
    }
}

#[test]
fn only_what_promises_durability_is_delayed_and_once() {
    for waiting in WAYS {
        let device = SimDevice::new(1);
        let slow = DelayedDirectory::new(device.directory(), Duration::from_nanos(1), waiting);
        let file = slow.open("a", Create::New, Method::Direct).expect("create");
        let write = |mode| file.write_at(&[IoSlice::new(&[7; 512])], 0, mode);
        write(WriteMode::Written).expect("write");
        assert_eq!(file.read_at(&mut [0; 9], 0).expect("read"), 9);
        file.truncate(100).expect("truncate");
        slow.rename("a", "b").expect("rename");
        assert_eq!(slow.delays(), 0, "{waiting:?}");
        write(WriteMode::Durable).expect("write");
        assert_eq!(slow.delays(), 1);
        file.sync().expect("sync");
        slow.sync().expect("sync");
        assert_eq!(slow.delays(), 3);
        file.prepare(0, 8192).expect("prepare");
        assert_eq!(slow.delays(), 4);
        let inner = slow.subdirectory("inner").expect("create");
        inner.sync().expect("sync");
        assert_eq!(slow.delays(), 6, "directories inside it are as slow");
        device.fail_at(device.steps(), Fault::Io);
        write(WriteMode::Durable).expect_err("planned");
        assert_eq!(slow.delays(), 6, "a failure is reported at once");
    }
}

#[test]
fn without_a_delay_everything_passes_through() {
    let memory = Arc::new(MemoryDirectory::new());
    let same = DelayedDirectory::new(memory.clone(), Duration::ZERO, Waiting::Timer);
    let file = same.open("a", Create::New, Method::Buffered).expect("create");
    file.write_at(&[IoSlice::new(b"x")], 0, WriteMode::Durable).expect("write");
    file.sync().expect("sync");
    assert_eq!((same.delays(), same.describe()), (0, memory.describe()));
}
