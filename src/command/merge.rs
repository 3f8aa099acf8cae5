//! `tptrace merge`

use std::io::{self, IsTerminal};
use std::path::PathBuf;

use super::units;
use crate::Error;
use crate::merge::{Alignment, Input, MergeOptions, MergeReport, Selection, merge};
use crate::output::{Compression, Progress, Target, WriteOptions};
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
    /// Only the files of these ranks, as in 0,4-7.
    #[arg(long, value_name = "RANKS", value_delimiter = ',', value_parser = units::ranks, allow_hyphen_values = true)]
    rank: Vec<Ranks>,
    /// Only what reaches into this time after the earliest event, as in 100ms..1.5s or ..2s.
    #[arg(long, value_name = "FROM..TO", value_parser = units::window, allow_hyphen_values = true)]
    window: Option<(i64, i64)>,
    /// Only events of this category; may be given more than once.
    #[arg(long, value_name = "CATEGORY", value_delimiter = ',')]
    category: Vec<String>,
    /// Only slices at least this long, as in 10us. What has no duration stays.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    min_duration: Option<u64>,
    /// Only events whose name matches this regular expression somewhere; may be given more than once.
    #[arg(long, value_name = "PATTERN")]
    name: Vec<String>,
    /// No events whose name matches this; may be given more than once.
    #[arg(long, value_name = "PATTERN")]
    exclude_name: Vec<String>,
    /// Only the longest slices that fit this size before compression, as in 500MB.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    max_size: Option<u64>,
    /// Compress, whatever the name of the output.
    #[arg(long)]
    gzip: bool,
    /// Gzip level, from fastest to smallest.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9))]
    level: u32,
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

/// What one `--rank` stands for.
type Ranks = Vec<i64>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Align {
    /// If every file says how; else leave them, and warn.
    Auto,
    /// By the time bases that the files state, comparable or not.
    Force,
    /// Leave them.
    Off,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let count = arguments.inputs.len();
    let inputs: Vec<Input> = arguments
        .inputs
        .into_iter()
        .map(|path| match path.as_os_str() == "-" {
            true => Input::Reader { name: "<stdin>".to_owned(), reader: Box::new(io::stdin()) },
            false => Input::Path(path),
        })
        .collect();
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
        selection: Selection {
            ranks: arguments.rank.into_iter().flatten().collect(),
            window_ns: arguments.window,
            categories: arguments.category,
            min_duration_ns: arguments.min_duration.unwrap_or(0),
            names: arguments.name,
            exclude_names: arguments.exclude_name,
            max_bytes: arguments.max_size,
        },
        write: WriteOptions {
            compression: if arguments.gzip { Compression::Gzip } else { Compression::Auto },
            level: arguments.level,
            threads: arguments.threads,
            fsync: arguments.fsync,
        },
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
            bar.set_message(format!("{} of {count} files, {} events", progress.files, progress.events));
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
        tell(&report, count);
    }
    Ok(())
}

fn bar(count: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec}");
    ProgressBar::new(0)
        .with_message(format!("merging {count} files"))
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// To standard error, where it does not mix with the document.
fn tell(report: &MergeReport, count: usize) {
    for warning in &report.warnings {
        eprintln!("tptrace: warning: {warning}");
    }
    for input in &report.inputs {
        for damage in &input.damage {
            eprintln!("tptrace: damaged: {damage}");
        }
        if input.repaired + input.lost > 0 {
            let (path, repaired, lost) = (input.path.display(), input.repaired, input.lost);
            eprintln!("tptrace: {path}: {repaired} events repaired, {lost} damaged pieces left out");
        }
    }
    let cut = report.cut();
    if cut.total() > 0 {
        let reasons = [
            (cut.window, "outside the window"),
            (cut.category, "of other categories"),
            (cut.name, "of other names"),
            (cut.duration, "too short"),
            (cut.budget, "beyond the size"),
            (cut.flow, "flow events without both ends"),
        ];
        let said: Vec<String> =
            reasons.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
        eprintln!("tptrace: {} events left out: {}", cut.total(), said.join(", "));
    }
    if let Some(ns) = report.complete_from_ns {
        eprintln!("tptrace: all slices of at least {} us are there", ns as f64 / 1e3);
    }
    let clock = if report.aligned { "on one clock" } else { "each on its own clock" };
    eprintln!("tptrace: {} events of {count} files, {clock}, in {} bytes", report.kept(), report.written.written);
}
