//! `tptrace completions` and `tptrace man`, for those who install the command.

use std::path::{Path, PathBuf};

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::terminal::print;
use crate::{Error, Result};

/// Prints what a shell needs to complete the command's arguments.
#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the manual page, or writes it and those of the subcommands.
#[derive(Debug, Args)]
pub(super) struct Man {
    /// Where the pages go; made if it is not there.
    folder: Option<PathBuf>,
}

pub(super) fn completions(arguments: &Completions) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(arguments.shell, &mut super::Arguments::command(), "tptrace", &mut text);
    print(&String::from_utf8_lossy(&text))
}

pub(super) fn man(arguments: &Man) -> Result<()> {
    let command = super::Arguments::command();
    let Some(folder) = &arguments.folder else {
        let mut text = Vec::new();
        clap_mangen::Man::new(command).render(&mut text).map_err(Error::io("make", Path::new("the page")))?;
        return print(&String::from_utf8_lossy(&text));
    };
    std::fs::create_dir_all(folder).map_err(Error::io("create", folder))?;
    clap_mangen::generate_to(command, folder).map_err(Error::io("write", folder))
}
