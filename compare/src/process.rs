//! A child process, which is killed when this value is dropped.

use crate::Result;
use std::process::{Child, Command};

pub struct Process(pub Child);

impl Process {
    pub fn start(command: &mut Command) -> Result<Process> {
        let name = command.get_program().to_string_lossy().into_owned();
        Ok(Process(command.spawn().map_err(|error| format!("cannot start {name}: {error}"))?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process has ended already, or is not needed any more.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
