//! `tptrace demo`

mod run;

use std::path::{Path, PathBuf};

use clap::Args;

use super::terminal::print;
use crate::{Error, ExportOptions, Format, Result, Trace};

/// Records a made-up training run on a few ranks and writes its traces: something to look at.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Where the traces go; made if it is not there.
    #[arg(short, long, value_name = "FOLDER", default_value = "tptrace-demo")]
    output: PathBuf,
    /// How many ranks.
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(i64).range(1..=1024))]
    ranks: i64,
    /// Replace traces of these names that are there.
    #[arg(long)]
    force: bool,
}

/// The trace of one rank of the run: four steps of training, as a profiler of a real one would record them.
pub fn record(rank: i64, world_size: i64) -> Result<Trace> {
    let mut run = run::Run::new(rank, world_size);
    for number in 0..4 {
        run.step(number)?;
    }
    Ok(run.trace)
}

/// The file of a rank, by the name that TensorBoard's plugin and HTA look for.
pub fn file(folder: &Path, rank: i64) -> PathBuf {
    folder.join(format!("rank{rank}.pt.trace.json.gz"))
}

pub(super) fn run(arguments: &Arguments) -> Result<()> {
    let folder = &arguments.output;
    let files: Vec<PathBuf> = (0..arguments.ranks).map(|rank| file(folder, rank)).collect();
    if let Some(there) = files.iter().find(|file| !arguments.force && file.symlink_metadata().is_ok()) {
        let error = std::io::Error::other("it is there already; --force replaces it, -o names another folder");
        return Err(Error::io("write", there)(error));
    }
    std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    for (rank, file) in (0..).zip(&files) {
        let trace = record(rank, arguments.ranks)?;
        trace.write(file, &ExportOptions { format: Format::Torch, ..ExportOptions::default() })?;
        print(&format!("{}\n", file.display()))?;
    }
    let folder = quoted(folder);
    print(&format!(
        "
Look at one:        open https://ui.perfetto.dev and drop a file on it
All ranks in one:   tptrace merge {folder}/rank*.json.gz -o {folder}/merged.json.gz
TensorBoard:        tensorboard --logdir {folder}, with the plugin torch-tb-profiler
HTA, in Python:     TraceAnalysis(trace_dir=\"{}\")\n",
        arguments.output.display()
    ))
}

/// As a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,@%".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
