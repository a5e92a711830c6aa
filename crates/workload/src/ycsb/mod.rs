//! The core workload of YCSB (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC
//! 2010): its settings, its load phase and its run phase.

mod load;
mod record;
mod run;
mod settings;
#[cfg(test)]
mod settings_tests;
mod values;

pub use load::YcsbLoad;
pub use record::{FIELDS_MAX, Record, encode, replace};
pub use run::YcsbRun;
pub use settings::{FieldLength, InsertOrder, Operation, ScanLength, Settings, SettingsError, WORKLOAD_A};
