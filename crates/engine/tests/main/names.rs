//! Every type in a public signature can be named by a program that depends on this crate alone, or
//! on the log alone.

use std::any::type_name;

fn name<T: ?Sized>() -> &'static str {
    type_name::<T>()
}

/// Names the types that opening a log or a database takes, and the types of the errors and counters
/// of both, field by field.
#[test]
fn each_type_of_a_public_signature_has_a_name_here() {
    use katydid::{device, wal};
    let of_the_store = [
        name::<dyn katydid::Directory>(),
        name::<katydid::FileDirectory>(),
        name::<katydid::MemoryDirectory>(),
        name::<katydid::StripedDirectory>(),
        name::<katydid::Group>(),
        name::<katydid::DeviceError>(),
        name::<katydid::Cause>(),
        name::<katydid::Verb>(),
        name::<katydid::LogCounters>(),
        name::<katydid::LogError>(),
        name::<katydid::LogOpenError>(),
        name::<wal::AppendError>(),
        name::<wal::ReadError>(),
        name::<wal::OptionsError>(),
        name::<katydid::Contested>(),
        name::<katydid::ContestedKeys>(),
        name::<katydid::KeyExcerpt>(),
        name::<katydid::Foreign>(),
        name::<katydid::ConflictKind>(),
        name::<katydid::Form>(),
        name::<device::nvram::Medium>(),
        name::<device::nvram::Instruction>(),
        name::<wal::OutOfRange>(),
        name::<wal::Device>(),
    ];
    let of_a_directory = [
        name::<dyn device::File>(),
        name::<dyn device::DirectoryLock>(),
        name::<device::nvram::NvRegion>(),
        name::<device::Create>(),
        name::<device::NvramFault>(),
        name::<device::StripesFault>(),
    ];
    let of_the_log = [
        name::<dyn wal::Directory>(),
        name::<wal::FileDirectory>(),
        name::<wal::MemoryDirectory>(),
        name::<wal::DeviceError>(),
        name::<wal::Cause>(),
        name::<wal::Counters>(),
        name::<wal::Inspection>(),
        name::<wal::Records>(),
        name::<wal::testing::rig::Rig>(),
        name::<wal::testing::sizes::Sizes>(),
    ];
    for name in of_the_store.iter().chain(&of_a_directory).chain(&of_the_log) {
        assert!(name.contains("katydid"), "{name}");
    }
}
