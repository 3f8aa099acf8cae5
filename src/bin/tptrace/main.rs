//! The command: `tptrace merge`, `tptrace convert`, `tptrace view`, `tptrace gpu`.
#![forbid(unsafe_code)]

mod convert;
mod gpu;
mod merge;
mod units;
mod view;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Works on GPU and CPU traces that every trace viewer opens.
#[derive(Debug, Parser)]
#[command(name = "tptrace", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Merge(merge::Arguments),
    Convert(convert::Arguments),
    View(view::Arguments),
    Gpu(gpu::Arguments),
}

fn main() -> ExitCode {
    // Ends with 2 and a message if the arguments cannot be used.
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Merge(arguments) => merge::run(arguments),
        Command::Convert(arguments) => convert::run(arguments),
        Command::View(arguments) => view::run(arguments),
        Command::Gpu(arguments) => return gpu::run(arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tptrace: {error}");
            ExitCode::FAILURE
        }
    }
}
