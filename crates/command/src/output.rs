//! Block-buffered standard output, for commands that print much. If the reader closes the pipe, the
//! command ends without a message.

use crate::failure::{Failure, Result};
use serde_json::Value;
use std::io::{BufWriter, ErrorKind, StdoutLock, Write};

/// Standard output.
#[derive(Debug)]
pub struct Output {
    out: BufWriter<StdoutLock<'static>>,
}

impl Default for Output {
    fn default() -> Output {
        Output::new()
    }
}

impl Output {
    /// Locks standard output until the value is dropped.
    pub fn new() -> Output {
        Output { out: BufWriter::with_capacity(1 << 16, std::io::stdout().lock()) }
    }

    /// Prints a line.
    pub fn line(&mut self, line: impl AsRef<[u8]>) -> Result<()> {
        let written = self.out.write_all(line.as_ref()).and_then(|()| self.out.write_all(b"\n"));
        written.map_err(failed)
    }

    /// Prints bytes, without a line end.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(failed)
    }

    /// Prints an object on a line of its own.
    pub fn json(&mut self, value: &Value) -> Result<()> {
        self.line(value.to_string())
    }

    /// Writes the buffer to standard output. Output that is not flushed before the end of the
    /// program is lost.
    pub fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(failed)
    }
}

fn failed(error: std::io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::NobodyReads,
        _ => Failure::failed(format_args!("cannot write to standard output: {error}")),
    }
}

/// Prints a line at once.
pub fn say(line: impl AsRef<[u8]>) -> Result<()> {
    let mut out = Output::new();
    out.line(line)?;
    out.flush()
}
