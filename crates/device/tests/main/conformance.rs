//! Memory and simulated devices pass the suite that every directory passes, bare and behind a gate.

use katydid_device::testing::conformance;
use katydid_device::{Gate, MemoryDirectory, SimDevice};
use std::sync::Arc;

#[test]
fn memory_conforms() {
    conformance(|| Arc::new(MemoryDirectory::new()));
    if !cfg!(miri) {
        conformance(|| Gate::wrap(Arc::new(MemoryDirectory::new())).0);
    }
}

#[test]
fn simulated_devices_conform() {
    conformance(|| SimDevice::new(1).directory());
    if !cfg!(miri) {
        conformance(|| SimDevice::new(1).directory().subdirectory("below").expect("create"));
        conformance(|| Gate::wrap(SimDevice::new(1).directory()).0);
    }
}
