//! What can go wrong, said so that a person can act on it.

use std::io;
use std::path::{Path, PathBuf};

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, with where it happened and what was wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The caller passed a value that cannot be used.
    #[error("{0}")]
    InvalidArgument(String),
    /// The operating system refused an operation on a file.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was attempted: "create", "write", "rename"...
        action: &'static str,
        /// The file it was attempted on.
        path: PathBuf,
        /// What the system answered.
        source: io::Error,
    },
    /// An input document is damaged or is not a trace.
    #[error("{}: at byte {offset}: {what}", path.display())]
    Malformed {
        /// The input.
        path: PathBuf,
        /// Where in the input, in bytes of JSON (after decompression) from 0.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// An input goes past a limit that keeps memory bounded.
    #[error("{}: at byte {offset}: {what}", path.display())]
    Limit {
        /// The input.
        path: PathBuf,
        /// Where in the input, in bytes of JSON (after decompression) from 0.
        offset: u64,
        /// Which limit, and its value.
        what: String,
    },
    /// The caller's output callback refused the bytes.
    #[error("the output callback failed with {0}")]
    Callback(i32),
    /// The caller's progress callback asked to stop.
    #[error("cancelled by the progress callback")]
    Cancelled,
    /// GPU work cannot be collected.
    #[error("{message}")]
    Gpu {
        /// What stands against it.
        failure: GpuFailure,
        /// Why, and what to do.
        message: String,
    },
    /// Memory could not be had.
    #[error("out of memory: {0}")]
    OutOfMemory(String),
    /// A defect of this library: please report it.
    #[error("internal error (please report it): {0}")]
    Internal(String),
}

/// What stands against collecting GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GpuFailure {
    /// No driver, no device, or no CUPTI that works.
    Unavailable,
    /// Another profiler has it, or another trace of this process.
    Busy,
    /// The system does not permit it.
    Permission,
    /// The collector failed in some other way.
    Failed,
}

impl Error {
    /// An [`Error::InvalidArgument`] with this message.
    pub fn invalid(message: impl Into<String>) -> Self {
        Error::InvalidArgument(message.into())
    }

    /// An [`Error::Io`]; meant for `map_err`.
    pub fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Error::Io { action, path, source }
    }
}

/// What the system would refuse under this number, in better words. The number stays in them: callers look for it.
pub(crate) fn refused(number: i32, words: &str) -> io::Error {
    io::Error::new(io::Error::from_raw_os_error(number).kind(), format!("{words} (os error {number})"))
}

/// A panic as an error, where a thread must say what became of its work.
pub(crate) fn contained<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::Internal(text.unwrap_or_else(|| "a worker panicked".to_owned())))
    })
}
