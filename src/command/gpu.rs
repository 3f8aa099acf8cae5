//! `tptrace gpu`

use std::path::PathBuf;

use super::terminal::print;
use crate::Result;
use crate::gpu::{GpuLibraries, GpuState, info};
use clap::Args;

/// Tells whether GPU work can be collected on this machine, and if not, why and what to do.
///
/// Ends with 0 if it can, and with 1 if not.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// The driver's library, instead of looking for it.
    #[arg(long, value_name = "FILE")]
    libcuda: Option<PathBuf>,
    /// The runtime's library, instead of looking for it.
    #[arg(long, value_name = "FILE")]
    libcudart: Option<PathBuf>,
    /// CUPTI's library, instead of looking for it.
    #[arg(long, value_name = "FILE")]
    libcupti: Option<PathBuf>,
    /// A folder that NVIDIA's wheels may be installed in, such as a site-packages; may be given again.
    #[arg(long, value_name = "FOLDER")]
    search: Vec<PathBuf>,
}

pub(super) fn run(arguments: Arguments) -> Result<u8> {
    let Arguments { json, libcuda, libcudart, libcupti, search } = arguments;
    let found = info(&GpuLibraries { libcuda, libcudart, libcupti, search_paths: search });
    print(&format!("{}\n", if json { found.to_json() } else { found.to_text() }))?;
    Ok(u8::from(found.state != GpuState::Ready))
}
