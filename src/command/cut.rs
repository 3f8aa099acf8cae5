//! `tptrace cut`

use std::io;
use std::path::PathBuf;

use crate::Error;
use crate::merge::{MergeOptions, Selection, cut};
use crate::output::{Target, WriteOptions};
use clap::Args;

use super::select::{self, Select};
use super::terminal;
use super::writing::Compress;

/// Writes a part of a trace file: a time, some ranks, categories or names, or what fits a size.
///
/// What stays, stays as it is: times, pids, ids, metadata.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The trace file, JSON or gzip, told apart by its bytes; `-` is standard input.
    file: PathBuf,
    /// The part, compressed if its name ends in .gz; `-` is standard output. It may be the trace file itself.
    #[arg(short, long)]
    output: PathBuf,
    #[command(flatten)]
    select: Select,
    /// Keep what can be kept of a damaged file, and say what was not.
    #[arg(long)]
    salvage: bool,
    #[command(flatten)]
    compress: Compress,
    /// Threads; 0 for one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// No progress, and not what was left out.
    #[arg(short, long)]
    quiet: bool,
}

impl Arguments {
    pub(super) fn selection(&self) -> Result<Selection, Error> {
        self.select.selection()
    }
}

pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let Arguments { file, output, select, salvage, compress, threads, quiet } = arguments;
    let options = MergeOptions {
        salvage,
        selection: select.selection()?,
        write: WriteOptions { threads, ..compress.options() },
        ..MergeOptions::default()
    };
    terminal::json_output(&output)?;
    let input = terminal::input(file)?;
    let bar = terminal::Bar::new(quiet, "cutting");
    let mut out = io::stdout().lock();
    let target = if output.as_os_str() == "-" { Target::Writer(&mut out) } else { Target::File(&output) };
    let report = cut(input, target, &options, Some(&mut |told| bar.show(told)));
    bar.clear();
    let report = report?;
    if !quiet {
        select::tell(&report);
        super::terminal::say!("tptrace: {} events in {} bytes", report.kept(), report.written.written);
    }
    Ok(())
}
