//! `tptrace recover`

use std::io;
use std::path::PathBuf;

use crate::journal;
use crate::merge::convert::{ConvertTo, format_of};
use crate::output::Target;
use crate::{Error, ExportOptions, Format};
use clap::{Args, ValueEnum};

use super::writing::Compress;

/// Makes the trace that a journal tells of: what a process had recorded before it was killed or crashed.
///
/// Spans that were open end where the journal does, and carry "unfinished". The journal stays as it is.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The journal.
    journal: PathBuf,
    /// The document: .json, .pftrace (Perfetto's own format), or either with .gz; `-` is standard output.
    #[arg(short, long)]
    output: PathBuf,
    /// Its format, if not by its name: Perfetto's for .pftrace, else torch.
    #[arg(long, value_enum)]
    format: Option<Kind>,
    #[command(flatten)]
    compress: Compress,
    /// Say nothing of what became of it.
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// As PyTorch's profiler writes it: for Perfetto, HTA, TensorBoard.
    Torch,
    /// Events alone.
    Plain,
    /// Perfetto's own.
    Perfetto,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Error> {
    let options = ExportOptions {
        format: match arguments.format {
            Some(Kind::Torch) => Format::Torch,
            Some(Kind::Plain) => Format::Plain,
            Some(Kind::Perfetto) => Format::Perfetto,
            None => match format_of(&arguments.output) {
                Ok(ConvertTo::Perfetto) => Format::Perfetto,
                _ => Format::Torch,
            },
        },
        trace_name: arguments.output.to_string_lossy().into_owned(),
        write: arguments.compress.options(),
        ..ExportOptions::default()
    };
    let stdout = arguments.output.as_os_str() == "-";
    let mut out = io::stdout().lock();
    let target = if stdout { Target::Writer(&mut out) } else { Target::File(&arguments.output) };
    let (recovered, _) = journal::recover(&arguments.journal, target, &options, None)?;
    if !arguments.quiet {
        let name = arguments.journal.display();
        super::terminal::say!(
            "tptrace: {name}: {} events, {} of them unfinished",
            recovered.events,
            recovered.unfinished
        );
        if recovered.cut_bytes > 0 {
            let (at, cut, why) = (recovered.journal_bytes, recovered.cut_bytes, &recovered.damage);
            super::terminal::say!("tptrace: {name}: the last {cut} bytes were cut, at byte {at}: {why}");
        }
    }
    Ok(())
}
