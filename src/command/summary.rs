//! `tptrace summary`

use std::path::PathBuf;

use crate::Error;
use crate::summary::{Summary, SummaryOptions, TextOptions, compare, summarize};
use clap::Args;

use super::terminal;

/// Prints what stands in traces: operators and kernels by their time, GPU work and gaps, steps, memory.
///
/// Files are one trace each, or the traces of several ranks of one run, or merged ones.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Trace files, JSON or gzip, told apart by their bytes; `-` is standard input.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Print what changed from this trace to FILES instead; may be given again, for more ranks.
    #[arg(long, value_name = "OLD")]
    compare: Vec<PathBuf>,
    /// Rows of each table.
    #[arg(long, default_value_t = 10, value_name = "N")]
    top: usize,
    /// One JSON object, with all rows.
    #[arg(long)]
    json: bool,
    /// Keep what can be kept of damaged files, and say what was not.
    #[arg(long)]
    salvage: bool,
    /// Threads; 0 for one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// No progress.
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<u8, Error> {
    let Arguments { files, compare: old, top, json, salvage, threads, quiet } = arguments;
    let options = SummaryOptions { gaps: top, salvage, threads, ..SummaryOptions::default() };
    let sum = |files: Vec<PathBuf>| -> Result<Summary, Error> {
        let inputs = terminal::inputs(files)?;
        let bar = terminal::Bar::new(quiet, "reading");
        let summary = summarize(inputs, &options, Some(&mut |done, total| bar.tell(done, total)));
        bar.clear();
        summary
    };
    let text = TextOptions { top, colour: terminal::colour(), width: terminal::width() };
    let printed = if old.is_empty() {
        let summary = sum(files)?;
        if json { summary.to_json() + "\n" } else { summary.to_text(&text) }
    } else {
        let comparison = compare(&sum(old)?, &sum(files)?);
        if json { comparison.to_json() + "\n" } else { comparison.to_text(&text) }
    };
    terminal::print(&printed)?;
    Ok(0)
}
