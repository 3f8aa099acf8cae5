//! Write and merge GPU and CPU traces that every trace viewer opens.
//!
//! ```
//! use tptrace::{ExportOptions, Op, Trace};
//!
//! let trace = Trace::default();
//! let start = tptrace::monotonic_ns();
//! trace.add_op(&Op { name: "matmul".into(), start_ns: start, end_ns: start + 1_500, thread_id: 1, ..Op::default() })?;
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! trace.write("trace.json.gz", &ExportOptions::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![deny(unsafe_code)]

/// The README's code in Rust, which the documentation tests compile.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// The code of the guide, which shows the layer for `tracing` too.
#[cfg(all(doctest, feature = "tracing"))]
#[doc = include_str!("../docs/guide-rust.md")]
mod guide {}

// It hands out the bytes of atomics, which loom's are not.
#[cfg(not(loom))]
pub mod capi;
pub mod check;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod command;
mod error;
mod export;
pub mod gpu;
pub mod journal;
pub mod merge;
mod model;
pub mod output;
mod perfetto;
mod read;
pub mod record;
pub mod summary;
mod sync;
mod trace;
#[cfg(feature = "tracing")]
pub mod tracing;

pub use error::{Error, GpuFailure, Result};
pub use export::{ExportOptions, Exported, Format};
pub use model::clock::{ClockAnchor, ClockDomain, monotonic_ns, realtime_ns};
pub use model::counts::Counts;
pub use model::dtype::dtype_name;
pub use model::event::{
    Arg, Counter, Dtypes, GpuActivity, GpuDetails, GpuKind, Inputs, Instant, InstantScope, Int, MemoryEvent, Op,
    OpKind, Sample, Text, Value,
};
pub use model::identity::RankWorld;
pub use trace::{Trace, TraceOptions};
