//! What is read, and within which bounds.

use std::io::Read;
use std::path::PathBuf;

/// One document to read.
pub enum Input {
    /// A file: JSON or gzip, told apart by its bytes. A pipe is copied to a temporary file first.
    Path(PathBuf),
    /// Any reader, such as standard input; copied to a temporary file first, since documents are read more than once.
    Reader {
        /// What messages call it.
        name: String,
        /// Where the bytes come from.
        reader: Box<dyn Read + Send>,
    },
}

impl From<PathBuf> for Input {
    fn from(path: PathBuf) -> Self {
        Input::Path(path)
    }
}

impl From<&str> for Input {
    fn from(path: &str) -> Self {
        Input::Path(path.into())
    }
}

/// Bounds that keep memory small whatever the inputs hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of one event; 4 MiB by default.
    pub event_bytes: usize,
    /// Bytes of one input's metadata (everything but its events); 16 MiB by default.
    pub metadata_bytes: usize,
    /// Bytes that a selection sorts the ends of flows in, of all its threads together; 32 MiB by default. What is more goes
    /// through a temporary file. A summary or a check sorts in three times as much.
    pub sort_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { event_bytes: 4 << 20, metadata_bytes: 16 << 20, sort_bytes: 32 << 20 }
    }
}
