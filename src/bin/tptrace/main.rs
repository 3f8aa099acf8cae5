//! The command `tptrace`: see `src/command`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    tptrace::command::main(std::env::args_os()).into()
}
