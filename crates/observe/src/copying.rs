//! Copies of the database. A client asks for a copy, and the process that has the database open
//! writes the copy.
//!
//! The thread of the connection runs this code, and reports progress to the client at most five
//! times a second. The client cancels the copy by ending its side of the connection or by
//! disconnecting. Closing the socket also cancels the copy. The copying thread checks for a
//! cancellation between two pieces of at most 1 MiB, and ten times a second while it sleeps. A
//! cancelled copy leaves an incomplete folder ([`katydid::CopyFault::Incomplete`]).

use crate::bytes::Bytes;
use crate::frame;
use crate::presence::is_gone;
use crate::protocol::{Refusal, Reply};
use katydid::{BackupOptions, Database, Error};
use std::ffi::OsString;
use std::io;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two progress messages to the client.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Request for a copy.
pub(crate) struct CopyRequest<'a> {
    pub(crate) to: &'a Bytes,
    pub(crate) base: Option<&'a Bytes>,
    pub(crate) bytes_per_second: Option<NonZeroU64>,
}

/// Makes the copy. An error becomes the reply.
pub(crate) fn copy(database: &Database, request: &CopyRequest<'_>, stream: &UnixStream) -> Reply {
    match try_copy(database, request, stream) {
        Ok(reply) => reply,
        Err(CopyError::Relative(path)) => {
            Reply::Refused(Refusal::Request(format!("{} is not an absolute path", path.display())))
        }
        Err(CopyError::Io(error)) => Reply::Refused(Refusal::Failed(error.to_string())),
        Err(CopyError::Database(Error::Closed)) => Reply::Refused(Refusal::Closed),
        Err(CopyError::Database(error)) => Reply::Refused(Refusal::Failed(error.to_string())),
    }
}

#[derive(Debug)]
enum CopyError {
    Relative(PathBuf),
    Io(io::Error),
    Database(Error),
}

impl From<Error> for CopyError {
    fn from(error: Error) -> CopyError {
        CopyError::Database(error)
    }
}

fn try_copy(database: &Database, request: &CopyRequest<'_>, stream: &UnixStream) -> Result<Reply, CopyError> {
    let to = absolute(request.to)?;
    let base = request.base.map(absolute).transpose()?;
    let connection = Mutex::new((stream.try_clone().map_err(CopyError::Io)?, Instant::now()));
    let on_progress = move |done: u64, of: u64| {
        let (stream, last) = &mut *connection.lock().unwrap_or_else(PoisonError::into_inner);
        if is_gone(stream) {
            return ControlFlow::Break(());
        }
        if last.elapsed() >= PROGRESS_INTERVAL {
            *last = Instant::now();
            if frame::write(stream, &Reply::Copying { done, of }).is_err() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    };
    let options = BackupOptions {
        bytes_per_second: request.bytes_per_second,
        on_progress: Some(Arc::new(on_progress)),
        // The client checks the copy itself.
        verify: false,
    };
    let report = match base {
        Some(base) => database.backup_changes(to, base, &options)?,
        None => database.backup_with(to, &options)?,
    };
    Ok(Reply::Copied {
        id: report.id.to_string(),
        stamp: report.stamp.get(),
        bytes: report.bytes,
        micros: u64::try_from(report.elapsed.as_micros()).unwrap_or(u64::MAX),
    })
}

/// Returns the path if it is absolute, so that it has one meaning in every process.
fn absolute(bytes: &Bytes) -> Result<PathBuf, CopyError> {
    let path = PathBuf::from(OsString::from_vec(bytes.0.clone()));
    if path.is_absolute() { Ok(path) } else { Err(CopyError::Relative(path)) }
}
