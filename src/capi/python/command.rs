//! The command `tptrace`, for `python -m tptrace`.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

use super::guard;
use crate::command;

/// What a Rust program that panics ends with.
const PANICKED: c_int = 101;

/// Runs the command `tptrace` and answers its exit status. `arguments`: `count` texts that end with a zero byte, the name
/// of the command first.
///
/// Without the GIL. It prints to the process's standard output and error.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_command(count: usize, arguments: *const *const c_char) -> c_int {
    let mut status = PANICKED;
    guard(|| {
        let arguments: Vec<OsString> = (0..count)
            .map(|at| {
                // SAFETY: the caller vouches for `count` texts.
                let text = unsafe { CStr::from_ptr(*arguments.add(at)) };
                OsStr::from_bytes(text.to_bytes()).to_owned()
            })
            .collect();
        status = command::main(arguments).into();
        Ok(())
    });
    // A Rust program does this when it ends. Where nobody reads any more there is nobody to tell.
    let _ = std::io::stdout().flush();
    status
}
