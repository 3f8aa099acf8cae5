//! `tptrace check`

use std::path::PathBuf;

use crate::Error;
use crate::check::{CheckOptions, Severity, check, codes};
use clap::Args;

use super::terminal;

/// Says whether traces are valid, and what each reader of traces will stumble over.
///
/// Ends with 0 if there is nothing, with 1 if there are errors, and with 2 if a file could not be read.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Trace files, JSON or gzip, told apart by their bytes; `-` is standard input.
    #[arg(required_unless_present = "codes")]
    files: Vec<PathBuf>,
    /// End with 1 for warnings too.
    #[arg(long)]
    strict: bool,
    /// One JSON object.
    #[arg(long)]
    json: bool,
    /// List all that can be found.
    #[arg(long)]
    codes: bool,
    /// Threads; 0 for one per core.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// No progress.
    #[arg(short, long)]
    quiet: bool,
}

pub(super) fn run(arguments: Arguments) -> Result<u8, Error> {
    if arguments.codes {
        let mut list = String::new();
        for (code, severity, readers, text) in codes() {
            let severity = if severity == Severity::Error { "error" } else { "warning" };
            list.push_str(&format!("{code:24} {severity:8} {text} ({})\n", readers.join(", ")));
        }
        terminal::print(&list)?;
        return Ok(0);
    }
    let bar = terminal::Bar::new(arguments.quiet, "checking");
    let options = CheckOptions { threads: arguments.threads, ..CheckOptions::default() };
    let report = terminal::inputs(arguments.files)
        .and_then(|inputs| check(inputs, &options, Some(&mut |done, total| bar.tell(done, total))));
    bar.clear();
    let report = match report {
        Ok(report) => report,
        Err(error) => {
            super::terminal::say!("tptrace: {error}");
            return Ok(2);
        }
    };
    let text = if arguments.json { report.to_json() + "\n" } else { report.to_text(terminal::colour()) };
    terminal::print(&text)?;
    let (errors, warnings) = report.totals();
    Ok(u8::from(errors > 0 || arguments.strict && warnings > 0))
}
