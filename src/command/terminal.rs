//! What the commands share: inputs, progress, and whether a person looks at the output.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::merge::Input;
use crate::merge::convert::{ConvertTo, format_of};
use crate::output::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// The files; `-` is standard input.
pub(super) fn inputs(paths: Vec<PathBuf>) -> Result<Vec<Input>, Error> {
    paths.into_iter().map(input).collect()
}

/// The file; `-` is standard input.
pub(super) fn input(path: PathBuf) -> Result<Input, Error> {
    if is_perfetto(&path) {
        return Err(Error::invalid(format!(
            "{}: Perfetto's format is written, not read; take the JSON that it was made of",
            path.display()
        )));
    }
    Ok(match path.as_os_str() == "-" {
        true => Input::Reader { name: "<stdin>".to_owned(), reader: Box::new(io::stdin()) },
        false => Input::Path(path),
    })
}

/// Refuses to write JSON by a name of Perfetto's format.
pub(super) fn json_output(path: &Path) -> Result<(), Error> {
    match is_perfetto(path) {
        true => Err(Error::invalid(format!(
            "{}: this writes JSON; end the name in .json or .json.gz, and make a .pftrace of it with `tptrace convert`",
            path.display()
        ))),
        false => Ok(()),
    }
}

fn is_perfetto(path: &Path) -> bool {
    matches!(format_of(path), Ok(ConvertTo::Perfetto))
}

/// Whether to print in colours: on a terminal that can, unless NO_COLOR is set.
pub(super) fn colour() -> bool {
    let unset = |name: &str| std::env::var_os(name).is_none_or(|value| value.is_empty());
    io::stdout().is_terminal() && unset("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Columns of the terminal; `None` if there is none.
pub(super) fn width() -> Option<usize> {
    let out = io::stdout();
    let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten()?;
    Some(usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

/// Prints to standard output. Somebody who reads no further, such as `head`, is no failure.
pub(super) fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::io("write to", Path::new("<stdout>"))(error))
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard error. That nobody can read it is no failure, and no reason to panic as `eprintln` does.
macro_rules! say {
    ($($words:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($words)*);
    }};
}
pub(super) use say;

/// A progress bar on standard error, if a person looks at it.
pub(super) struct Bar(ProgressBar);

impl Bar {
    pub(super) fn new(quiet: bool, what: &'static str) -> Self {
        if quiet || !io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        let style = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {binary_bytes_per_sec}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        Self(ProgressBar::new(0).with_message(what).with_style(style))
    }

    /// `total`: 0 if it is not known.
    pub(super) fn tell(&self, done: u64, total: u64) -> bool {
        if total > 0 {
            self.0.set_length(total);
        }
        self.0.set_position(done);
        true
    }

    /// What is left if no total is known are the bytes that were made.
    pub(super) fn show(&self, told: &Progress) -> bool {
        match told.total {
            0 => self.tell(told.bytes, 0),
            total => self.tell(told.done, total),
        }
    }

    pub(super) fn clear(&self) {
        self.0.finish_and_clear();
    }
}
