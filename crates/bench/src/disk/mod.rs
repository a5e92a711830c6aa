//! The command `bench-disk` measures what a device can do for a log.

mod report;

use crate::host::limit::BLOCK;
use clap::Args;
use katydid_command::database::is_folder;
use katydid_command::failure::{Failure, Result};
use katydid_command::flags::seconds;
use katydid_command::output::say;
use katydid_command::progress::Progress;
use katydid_device::probe::{FileState, Load, Scratch, SyncMethod, Trials};
use katydid_device::{Cause, Directory, Error, FileDirectory, Method};
use report::{DiskReport, Row};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

/// Measure how fast a device makes writes durable, and recommend settings
///
/// The command measures writes with several states of the file's blocks, methods, sizes, numbers of
/// writes in flight, and numbers of concurrent syncs. The file that it writes has no name, so the
/// file disappears with the process. On a shared machine, repeat the measurement.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  katydid bench-disk --dir /mnt/fast\n  katydid bench-disk --dir . --quick --json"
)]
pub struct BenchDisk {
    /// Folder on the device
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Seconds of each of the 22 measurements
    ///
    /// A measurement of fresh blocks ends earlier if it comes to the end of the file.
    #[arg(long, value_name = "S", default_value = "1", value_parser = seconds)]
    seconds: f64,
    /// Take 0.1 seconds for each measurement, instead of --seconds
    #[arg(long, conflicts_with = "seconds")]
    quick: bool,
    /// Bytes of the file that the command writes, from 1MiB to 64GiB
    #[arg(long, value_name = "BYTES", default_value = "64MiB", value_parser = file_bytes)]
    file_bytes: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn file_bytes(text: &str) -> std::result::Result<u64, String> {
    match katydid_command::bytes::parse(text)? {
        bytes @ Trials::FILE_BYTES_MIN..=0x10_0000_0000 => Ok(bytes / BLOCK as u64 * BLOCK as u64),
        _ => Err("must be from 1 MiB to 64 GiB".to_owned()),
    }
}

/// Share of the time for trials of methods, sizes and numbers of writes in flight. The recommended
/// settings depend on these trials. The rest of the time is for the states of blocks and for
/// concurrent syncs.
const TRIALS_SHARE: f64 = 13.0 / 22.0;
const SYNCS: [usize; 5] = [1, 2, 4, 8, 16];

impl BenchDisk {
    /// Measures, and prints the results.
    ///
    /// # Errors
    /// The folder cannot be used, or the device failed.
    pub fn run(self) -> Result<()> {
        let cannot = |why: &dyn std::fmt::Display| {
            Failure::failed(format_args!("cannot measure {}: {why}", self.dir.display()))
        };
        is_folder(&self.dir).map_err(|why| cannot(&why))?;
        let place = FileDirectory::open_existing(&self.dir)?.describe();
        let found = match self.measure(place) {
            // The folder exists, but no file can be created in it, as in /proc.
            Err(MeasureError::Device(error)) if error.is_not_found() => {
                return Err(cannot(&"no file can be made in this folder"));
            }
            Err(MeasureError::Device(error)) => return Err(cannot(&error)),
            Err(MeasureError::Other(failure)) => return Err(failure),
            Ok(found) => found,
        };
        if self.json {
            return say(found.json().to_string());
        }
        found.print()
    }

    fn measure(&self, place: String) -> std::result::Result<DiskReport, MeasureError> {
        let mut progress = Progress::new("bench-disk");
        let time = Duration::from_secs_f64(if self.quick { 0.1 } else { self.seconds });
        let trials = Trials::run(&self.dir, self.file_bytes, time, |done, what| {
            progress.show(Some(done * TRIALS_SHARE), || what.to_owned());
        })?;
        let device = trials.device();

        let rest = (FileState::ALL.len() + 1 + SYNCS.len()) as f64;
        let mut done = 0.0;
        let mut show = |what: String| {
            progress.show(Some(TRIALS_SHARE + (1.0 - TRIALS_SHARE) * done / rest), || what);
            done += 1.0;
        };
        let load = |method, sync, depth| Load { method, sync, block_bytes: BLOCK, depth, time };
        let mut states = Vec::new();
        for state in FileState::ALL {
            show(format!("{} file", state.name()));
            let scratch = match Scratch::new(&self.dir, self.file_bytes, state) {
                Err(error) if is_unsupported(&error) => continue,
                other => other?,
            };
            let samples = scratch.measure(&load(device.method, SyncMethod::Durable, 1))?;
            states.push(Row::new(state.name(), &samples, BLOCK)?);
        }
        let scratch = Scratch::new(&self.dir, self.file_bytes, FileState::Overwritten)?;
        let mut syncs = Vec::new();
        for depth in SYNCS {
            show(format!("{depth} syncing at the same time"));
            let samples = scratch.measure(&load(Method::Buffered, SyncMethod::Synced, depth))?;
            syncs.push(Row::new(depth, &samples, BLOCK)?);
        }
        Ok(DiskReport::new(place, &trials, states, syncs)?)
    }
}

/// Reason why the measurement failed.
enum MeasureError {
    Device(Error),
    Other(Failure),
}

impl From<Error> for MeasureError {
    fn from(error: Error) -> Self {
        MeasureError::Device(error)
    }
}

impl From<Failure> for MeasureError {
    fn from(failure: Failure) -> Self {
        MeasureError::Other(failure)
    }
}

fn is_unsupported(error: &Error) -> bool {
    matches!(&error.cause, Cause::Io(source) if source.kind() == ErrorKind::Unsupported)
}
