//! Writes the traces of a made-up training run on two ranks, as `tptrace demo` does, and one of them in the plain
//! and in Perfetto's format too: what the tests show to the real trace readers.
//!
//!     cargo run --release --example demo -- [FOLDER [RANKS]]

use std::path::Path;

use tptrace::command::demo;
use tptrace::{Error, ExportOptions, Format, Result};

fn main() -> Result<()> {
    let folder = std::env::args_os().nth(1).unwrap_or_else(|| "target/demo".into());
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    let ranks = std::env::args().nth(2).and_then(|ranks| ranks.parse().ok()).unwrap_or(2);
    for rank in 0..ranks {
        let trace = demo::record(rank, ranks)?;
        let path = demo::file(folder, rank);
        trace.write(&path, &ExportOptions { format: Format::Torch, ..ExportOptions::default() })?;
        println!("{}", path.display());
        if rank == 0 {
            // Beside, not among them: readers of a run take each file of its folder for a rank.
            std::fs::create_dir_all(folder.join("plain")).map_err(Error::io("create", folder))?;
            let path = folder.join("plain/rank0.json");
            trace.write(&path, &ExportOptions::default())?;
            println!("{}", path.display());
            std::fs::create_dir_all(folder.join("perfetto")).map_err(Error::io("create", folder))?;
            let path = folder.join("perfetto/rank0.pftrace");
            trace.write(&path, &ExportOptions { format: Format::Perfetto, ..ExportOptions::default() })?;
            println!("{}", path.display());
        }
    }
    println!("Open them at https://ui.perfetto.dev, in chrome://tracing, or the folder in TensorBoard or HTA.");
    Ok(())
}
