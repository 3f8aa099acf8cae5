//! The GPU at run time: what is there, and what it does.
//!
//! CUDA's libraries are found when they are asked for. Nothing is loaded or called before, there is no header of
//! NVIDIA's in the build, and what was loaded stays loaded.
#![allow(unsafe_code)]

mod activity;
mod clock;
mod collector;
mod cupti;
mod discover;
mod driver;
mod intake;
mod library;
mod names;
mod ops;
mod pool;
mod process;
mod reader;
mod records;
mod report;
mod search;
mod session;
mod texts;

pub use crate::model::gpu::{GpuDevice, GpuInfo, GpuLibrary, GpuReport, GpuState};
pub use collector::GpuKinds;
pub(crate) use ops::push;
pub use ops::{pop_op, push_op};
#[doc(hidden)]
pub use records::{MEMBERS, Member};
pub use search::GpuLibraries;
pub use session::{GpuOptions, start, stop};

/// Looks for driver, devices, runtime and CUPTI, and says why GPU work cannot be collected, if so.
///
/// Starts the driver if there is one, which takes up to seconds, and after which CUDA does not work in children that
/// this process forks. Without a driver the answer takes about a millisecond. Any thread.
pub fn info(libraries: &GpuLibraries) -> GpuInfo {
    discover::discover(libraries).0
}
