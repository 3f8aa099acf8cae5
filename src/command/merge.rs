//! `tptrace merge`

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use super::select::{self, Select};
use super::terminal;
use super::writing::Compress;
use crate::Error;
use crate::merge::{Alignment, MergeOptions, MergeReport, Selection, merge};
use crate::output::{Progress, Target, WriteOptions};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};

/// Merges trace files, one for each rank, into one.
///
/// The ranks' processes, lanes and flows are kept apart, processes are named and sorted by rank, and timestamps are moved
/// onto one clock where the files say how. Memory stays small however large the files are.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Trace files, JSON or gzip, told apart by their bytes; `-` is standard input.
    #[arg(required = true)]
    inputs: Vec<PathBuf>,
    /// The merged file, compressed if its name ends in .gz; `-` is standard output. It may be one of the inputs.
    #[arg(short, long)]
    output: PathBuf,
    /// Shift pids by rank x 10,000,000 and change nothing else.
    #[arg(long, conflicts_with_all = ["align", "offset_ns"])]
    verbatim: bool,
    /// Keep what can be kept of damaged files, and say what was not.
    #[arg(long)]
    salvage: bool,
    /// Whether timestamps are moved onto one clock.
    #[arg(long, value_enum, default_value_t = Align::Auto)]
    align: Align,
    /// Nanoseconds to add to the timestamps of each file, in their order.
    #[arg(long, value_delimiter = ',', allow_hyphen_values = true, conflicts_with = "align")]
    offset_ns: Option<Vec<i64>>,
    #[command(flatten)]
    select: Select,
    #[command(flatten)]
    compress: Compress,
    /// Threads; 0 for one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Wait until the file is on the disk.
    #[arg(long)]
    fsync: bool,
    /// No progress, and no warnings.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Align {
    /// If every file says how; else leave them, and warn.
    Auto,
    /// By the time bases that the files state, comparable or not.
    Force,
    /// Leave them.
    Off,
}

impl Arguments {
    pub(super) fn selection(&self) -> Result<Selection, Error> {
        self.select.selection()
    }
}

pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let count = arguments.inputs.len();
    terminal::json_output(&arguments.output)?;
    let inputs = terminal::inputs(arguments.inputs)?;
    let alignment = match (arguments.offset_ns, arguments.align) {
        (Some(offsets), _) => Alignment::Offsets(offsets),
        (None, Align::Auto) => Alignment::Auto,
        (None, Align::Force) => Alignment::Force,
        (None, Align::Off) => Alignment::Off,
    };
    let options = MergeOptions {
        verbatim: arguments.verbatim,
        salvage: arguments.salvage,
        alignment,
        selection: arguments.select.selection()?,
        write: WriteOptions { threads: arguments.threads, fsync: arguments.fsync, ..arguments.compress.options() },
        ..MergeOptions::default()
    };
    let bar = if arguments.quiet || !io::stderr().is_terminal() { ProgressBar::hidden() } else { bar(count) };
    let mut progress = |progress: &Progress| {
        if progress.total > 0 {
            bar.set_length(progress.total);
            bar.set_position(progress.done);
        } else {
            bar.set_position(progress.bytes);
        }
        if progress.files > 0 {
            let files = if count == 1 { "file" } else { "files" };
            bar.set_message(format!("{} of {count} {files}, {} events", progress.files, progress.events));
        }
        true
    };
    let stdout = arguments.output.as_os_str() == "-";
    let mut out = io::stdout().lock();
    let target = if stdout { Target::Writer(&mut out) } else { Target::File(&arguments.output) };
    let report = merge(inputs, target, &options, Some(&mut progress));
    bar.finish_and_clear();
    let report = report?;
    if !arguments.quiet {
        tell(&report);
    }
    Ok(())
}

fn bar(count: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec}");
    ProgressBar::new(0)
        .with_message(if count == 1 { "merging 1 file".to_owned() } else { format!("merging {count} files") })
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// To standard error, where it does not mix with the document.
fn tell(report: &MergeReport) {
    select::tell(report);
    let clock = if report.aligned { "on one clock" } else { "each on its own clock" };
    // Those that were merged: some may have been left out.
    let count = report.inputs.len();
    let files = if count == 1 { "file" } else { "files" };
    super::terminal::say!(
        "tptrace: {} events of {count} {files}, {clock}, in {} bytes",
        report.kept(),
        report.written.written
    );
}
