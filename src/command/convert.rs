//! `tptrace convert`

use std::io;
use std::path::PathBuf;

use crate::Error;
use crate::merge::convert::{ConvertReport, ConvertTo, convert, format_of};
use crate::output::{Target, WriteOptions};
use clap::{Args, ValueEnum};

use super::terminal;
use super::writing::Compress;

/// Turns a trace into another format: Chrome's trace format, of any writer, into Perfetto's own, plain or gzip.
///
/// Perfetto shows the same names, tracks, times, arguments and flows, from a file that is a fraction of the size. The plain
/// and the torch format are not turned into one another: a plain document does not have what a torch one says.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A trace file, JSON or gzip, told apart by its bytes; `-` is standard input.
    input: PathBuf,
    /// The new file: .json, .json.gz, .pftrace or .pftrace.gz; `-` is standard output.
    #[arg(short, long)]
    output: PathBuf,
    /// The format, if the name of the output does not say it.
    #[arg(long, value_enum)]
    to: Option<To>,
    #[command(flatten)]
    compress: Compress,
    /// Wait until the file is on the disk.
    #[arg(long)]
    fsync: bool,
    /// Say nothing of what was changed or left out.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum To {
    /// The same document.
    Json,
    /// Perfetto's own format.
    Perfetto,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let to = match arguments.to {
        Some(To::Json) => ConvertTo::Json,
        Some(To::Perfetto) => ConvertTo::Perfetto,
        None => format_of(&arguments.output)?,
    };
    let input = terminal::input(arguments.input)?;
    let write = WriteOptions { fsync: arguments.fsync, ..arguments.compress.options() };
    let mut out = io::stdout().lock();
    let stdout = arguments.output.as_os_str() == "-";
    let target = if stdout { Target::Writer(&mut out) } else { Target::File(&arguments.output) };
    let bar = terminal::Bar::new(arguments.quiet, "converting");
    let report = convert(input, target, to, &write, Some(&mut |told| bar.show(told)));
    bar.clear();
    let report = report?;
    if !arguments.quiet {
        tell(&report, to);
    }
    Ok(())
}

/// To standard error, where it does not mix with the document.
fn tell(report: &ConvertReport, to: ConvertTo) {
    for (count, what) in [
        (report.overlaps_moved, "slices that cross another one are drawn in a track beside their lane"),
        (report.overlaps_left, "slices that cross too many others were left out"),
        (report.truncated, "slices end with the slice around them, which ended first"),
        (report.unmatched_ends, "ends of slices that did not start were left out"),
        (report.unusable, "events without a usable time, id or value were left out"),
    ] {
        if count > 0 {
            super::terminal::say!("tptrace: {count} {what}");
        }
    }
    for (phase, count) in &report.unknown {
        super::terminal::say!("tptrace: {count} events of the unknown phase {phase:?} were left out");
    }
    if to == ConvertTo::Perfetto {
        super::terminal::say!("tptrace: {} events in {} bytes", report.events, report.written.written);
    }
}
