//! The GPU at run time: what is there, and what it does.
//!
//! CUDA's libraries are found when they are asked for. Nothing is loaded or called before, there is no header of
//! NVIDIA's in the build, and what was loaded stays loaded.
#![allow(unsafe_code)]

mod cupti;
mod discover;
mod driver;
mod library;
mod process;
mod report;
mod search;

pub use crate::model::gpu::{GpuDevice, GpuInfo, GpuLibrary, GpuState};
pub use search::GpuLibraries;

/// Looks for driver, devices, runtime and CUPTI, and says why GPU work cannot be collected, if so.
///
/// Starts the driver if there is one, which takes up to seconds, and after which CUDA does not work in children that
/// this process forks. Without a driver the answer takes about a millisecond. Any thread.
pub fn info(libraries: &GpuLibraries) -> GpuInfo {
    discover::discover(libraries)
}
