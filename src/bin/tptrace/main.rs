//! The command: `tptrace merge`, `tptrace summary`, `tptrace check`, `tptrace cut`, `tptrace gpu`.
#![forbid(unsafe_code)]

mod check;
mod cut;
mod gpu;
mod merge;
mod select;
mod summary;
mod terminal;
mod units;

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
    Summary(summary::Arguments),
    Check(check::Arguments),
    Cut(cut::Arguments),
    Gpu(gpu::Arguments),
}

fn main() -> ExitCode {
    // Ends with 2 and a message if the arguments cannot be used.
    let arguments = Arguments::parse();
    let result = match arguments.command {
        Command::Merge(arguments) => merge::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Summary(arguments) => summary::run(arguments),
        Command::Cut(arguments) => cut::run(arguments).map(|()| ExitCode::SUCCESS),
        Command::Check(arguments) => check::run(arguments),
        Command::Gpu(arguments) => return gpu::run(arguments),
    };
    result.unwrap_or_else(|error| {
        eprintln!("tptrace: {error}");
        ExitCode::FAILURE
    })
}
