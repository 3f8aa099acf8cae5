//! The document out of its fragments.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use super::super::head;
use super::super::report::MergeReport;
use super::fragment::{MOST, read_tail};
use super::text::{self, Around, Fragment};
use crate::error::{Error, Result};
use crate::output::{self, Member, OnProgress, Target, WriteOptions};

/// Makes the document of the fragments of all tasks of a plan, in any order. A compressed one is one gzip member, in which
/// the fragments' bytes stand as they are; a plain one is inflated. The target must be none of the fragments.
///
/// # Errors
/// [`Error::InvalidArgument`] if a fragment is missing, is there twice or is of another plan; [`Error::Malformed`] for one
/// that is not whole; [`Error::Io`]; [`Error::Cancelled`]. The target is then as it was.
pub fn join(
    plan: &str,
    fragments: &[PathBuf],
    target: Target<'_>,
    write: &WriteOptions,
    progress: Option<OnProgress<'_>>,
) -> Result<MergeReport> {
    let around: Around = text::parse(plan, "plan")?;
    let mut found: Vec<Option<(&PathBuf, u64, Fragment)>> = (0..around.sources.len()).map(|_| None).collect();
    for path in fragments {
        let file = File::open(path).map_err(Error::io("open", path))?;
        let size = file.metadata().map_err(Error::io("read the size of", path))?.len();
        let mut end = vec![0; size.min(MOST as u64) as usize];
        let from = size - end.len() as u64;
        file.read_exact_at(&mut end, from).map_err(Error::io("read", path))?;
        let (fragment, stored) = read_tail(path, size, &end)?;
        let place = found.get_mut(fragment.index).filter(|_| fragment.plan == around.plan);
        let Some(place) = place else {
            return Err(Error::invalid(format!("{}: it is a fragment of another plan", path.display())));
        };
        if let Some((other, ..)) = place {
            let (one, other) = (path.display(), other.display());
            return Err(Error::invalid(format!("{other} and {one} are fragments of the same input")));
        }
        *place = Some((path, stored, fragment));
    }
    let missing = found.iter().zip(&around.sources).filter(|(fragment, _)| fragment.is_none());
    let names: Vec<&str> = missing.map(|(_, source)| source.name.as_str()).take(8).collect();
    if !names.is_empty() {
        return Err(Error::invalid(format!("fragments are missing, of {}", names.join(", "))));
    }
    let found: Vec<_> = found.into_iter().flatten().collect();
    let total = found.iter().map(|(_, stored, _)| stored).sum();
    let written = output::splice(target, write, progress, total, |splice| {
        splice.text(around.before.as_bytes())?;
        let mut any = false;
        for (path, stored, fragment) in &found {
            if fragment.bytes == 0 {
                continue;
            }
            if any {
                splice.text(b",\n")?;
            }
            any = true;
            let mut file = File::open(path).map_err(Error::io("open", path))?;
            let failed = |offset: u64, error: io::Error| match error.kind() {
                io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput | io::ErrorKind::UnexpectedEof => {
                    Error::Malformed { path: path.to_path_buf(), offset, what: format!("a damaged fragment: {error}") }
                }
                _ => Error::io("read", path)(error),
            };
            let member = Member { reader: &mut file, stored: *stored, raw: fragment.bytes, failed: &failed };
            splice.member(member, *stored)?;
        }
        splice.text(head::END)
    })?;
    Ok(around.report(found.into_iter().map(|(.., fragment)| fragment).collect(), written))
}
