//! The command `tptrace`, which the program of that name and the Python package both run.
//!
//! No part of the crate's API: anything here may change with any version.

mod check;
mod convert;
mod cut;
pub mod demo;
mod gpu;
mod merge;
mod pages;
mod recover;
mod select;
mod summary;
mod terminal;
mod units;
mod view;
mod writing;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::merge::Selection;

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
    Convert(convert::Arguments),
    View(view::Arguments),
    Recover(recover::Arguments),
    Gpu(gpu::Arguments),
    Demo(demo::Arguments),
    #[command(hide = true)]
    Completions(pages::Completions),
    #[command(hide = true)]
    Man(pages::Man),
}

/// What the command would do, as text, and the selection that its options stand for; or what it would say and end with.
/// Does nothing: for the fuzzer.
pub fn understood(arguments: impl IntoIterator<Item = OsString>) -> Result<(String, Selection), (String, u8)> {
    match Arguments::try_parse_from(arguments) {
        Ok(arguments) => {
            let said = format!("{arguments:?}");
            let selection = match arguments.command {
                Command::Merge(arguments) => arguments.selection(),
                Command::Cut(arguments) => arguments.selection(),
                _ => Ok(Selection::default()),
            };
            selection.map(|selection| (said, selection)).map_err(|error| (error.to_string(), 1))
        }
        Err(error) => Err((error.to_string(), error.exit_code().try_into().unwrap_or(2))),
    }
}

/// Runs the command and answers its exit status: 0, 1 if it failed, 2 if its arguments, the first of which is its name,
/// cannot be used.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and versions go to the standard output, and end with 0. A closed one is nobody's concern.
            let _ = error.print();
            return error.exit_code().try_into().unwrap_or(2);
        }
    };
    let result = match arguments.command {
        Command::Merge(arguments) => merge::run(arguments).map(|()| 0),
        Command::Summary(arguments) => summary::run(arguments),
        Command::Check(arguments) => check::run(arguments),
        Command::Cut(arguments) => cut::run(arguments).map(|()| 0),
        Command::Convert(arguments) => convert::run(arguments).map(|()| 0),
        Command::View(arguments) => view::run(arguments).map(|()| 0),
        Command::Recover(arguments) => recover::run(arguments).map(|()| 0),
        Command::Gpu(arguments) => gpu::run(arguments),
        Command::Demo(arguments) => demo::run(&arguments).map(|()| 0),
        Command::Completions(arguments) => pages::completions(&arguments).map(|()| 0),
        Command::Man(arguments) => pages::man(&arguments).map(|()| 0),
    };
    result.unwrap_or_else(|error| {
        terminal::say!("tptrace: {error}");
        1
    })
}
