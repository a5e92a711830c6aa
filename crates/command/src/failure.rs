//! Failures of a command, with their exit codes.

use crate::stderr::warn;
use std::fmt;
use std::process::ExitCode;

/// The result of a command.
pub type Result<T> = std::result::Result<T, Failure>;

/// The reason why a command ends.
#[derive(Debug)]
pub enum Failure {
    /// The command failed, or found a fault. The message goes to standard error. Exit code 1.
    Failed(String),
    /// The command line, or an input file, is wrong. Exit code 2.
    Usage(String),
    /// The command has found something missing or faulty, and has printed it. Exit code 1.
    Said,
    /// The command could not find out the answer, and has printed why. Exit code 3.
    Unchecked,
    /// The reader of the output is gone (`katydid scan | head`). Exit code 0, silently.
    NobodyReads,
}

impl Failure {
    /// Makes a [`Failure::Failed`].
    pub fn failed(message: impl fmt::Display) -> Failure {
        Failure::Failed(message.to_string())
    }

    /// Makes a [`Failure::Usage`].
    pub fn usage(message: impl fmt::Display) -> Failure {
        Failure::Usage(message.to_string())
    }

    /// Prints the message, and returns the exit code.
    pub fn report(self) -> ExitCode {
        match self {
            Failure::Failed(message) => {
                warn(format_args!("katydid: {message}"));
                ExitCode::from(1)
            }
            Failure::Usage(message) => {
                warn(format_args!("katydid: {message}"));
                ExitCode::from(2)
            }
            Failure::Said => ExitCode::from(1),
            Failure::Unchecked => ExitCode::from(3),
            Failure::NobodyReads => ExitCode::SUCCESS,
        }
    }
}

impl From<katydid::Error> for Failure {
    fn from(error: katydid::Error) -> Failure {
        Failure::failed(error)
    }
}

impl From<katydid_workload::StoreError> for Failure {
    fn from(error: katydid_workload::StoreError) -> Failure {
        Failure::failed(error)
    }
}

impl From<katydid_device::Error> for Failure {
    fn from(error: katydid_device::Error) -> Failure {
        Failure::failed(error)
    }
}
