//! The journal: a file that a trace's process writes as it records, so that the trace survives it.
//!
//! The file is the line `tptrace journal 1`, then blocks, which only ever are added:
//!
//! | bytes | what |
//! |---|---|
//! | 1 | the kind of block: see `journal/block.rs` |
//! | 3 | zeros |
//! | 4 | bytes of the contents |
//! | 4 | CRC-32 of the eight bytes before and of the contents |
//! | | the contents |
//!
//! Numbers are little endian. The file is good up to the first block that is not whole: so a process may be killed at
//! any moment.
#![forbid(unsafe_code)]

mod block;
mod delta;
mod facts;
mod file;
mod lanes;
mod recover;
mod restore;
mod writer;

pub use self::recover::{Recovered, recover};
pub(crate) use self::writer::Journal;
pub use self::writer::JournalState;
