//! One input's events, rewritten and compressed, as a file of their own.
//!
//! The file is a gzip member that holds the events without a comma before or after them, and an empty gzip member whose
//! header says what the first holds (RFC 1952, FEXTRA, subfield "TP"). Any gzip reader shows the events.

use std::path::Path;

use super::super::blocks::Blocks;
use super::super::plan::{Part, Plan};
use super::super::report::InputReport;
use super::super::rewrite::Rewriter;
use super::super::select;
use super::text::{self, Fragment, Kind, Task};
use crate::error::{Error, Result};
use crate::output::{self, Compression, OnProgress, Progress, Target, WriteOptions};
use crate::read::Input;
use crate::read::reader::Stored;

/// Of an empty member with an extra field: header, length of the field, name and length of its subfield.
const FIXED: [u8; 10] = [0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff];
const BEFORE: usize = FIXED.len() + 6;
/// The length of the whole member, at the end of the subfield; an empty last block; checksum and length, both 0.
const AFTER: usize = 4 + 10;
/// The longest such member.
pub(super) const MOST: usize = (1 << 16) + 64;

/// Rewrites one input, which may have another path than when it was surveyed, and writes its fragment to `target`. Of
/// `write` level, threads and durability count.
///
/// # Errors
/// As for [`super::super::merge`]; [`Error::InvalidArgument`] for a text that is no task of this version.
pub fn fragment(
    input: Input,
    task: &str,
    target: &Path,
    write: &WriteOptions,
    mut progress: Option<OnProgress<'_>>,
) -> Result<InputReport> {
    let task: Task = text::parse(task, "task")?;
    let stored = Stored::new(input)?;
    if stored.size != task.survey.size {
        return Err(crate::read::document::changed(&stored.name));
    }
    let options = task.options();
    let part = Part::new(task.survey.surveyed(&stored)?, task.ids(), task.fates());
    let mut plan = Plan::of_part(part, task.count, &options);
    let mut tell = |told: &Progress| progress.as_mut().is_none_or(|progress| progress(told));
    let passes = options.selection.passes();
    let total = stored.size * (1 + passes);
    let selected = select::select(&plan, &options.selection, task.origin, |read| {
        tell(&Progress { done: read.min(stored.size * passes), total, ..Progress::default() })
    })?;
    plan.selected = selected.map(|(selected, _)| selected);
    let plan = &plan;
    let mut watch = |told: &Progress| {
        let (files, events) = plan.done();
        tell(&Progress { done: told.done + stored.size * passes, total, files, events, ..*told })
    };
    let mut blocks = Blocks::of_fragment(plan);
    let write = WriteOptions { compression: Compression::Gzip, ..write.clone() };
    output::write_then(
        Target::File(target),
        &write,
        Some(&mut watch),
        total,
        || blocks.next(),
        || {
            let mut rewriter = Rewriter::new(plan);
            move |job, out: &mut Vec<u8>| rewriter.job(job, out)
        },
        |written| tail(&Fragment::new(&task, written.bytes, &plan.input_report(0))),
    )?;
    Ok(plan.input_report(0))
}

/// The second member.
fn tail(fragment: &Fragment) -> Vec<u8> {
    let content = text::print(fragment).into_bytes();
    let field = content.len() + 4;
    let size = BEFORE + content.len() + AFTER;
    let mut out = FIXED.to_vec();
    out.extend_from_slice(&((field + 4) as u16).to_le_bytes());
    out.extend_from_slice(b"TP");
    out.extend_from_slice(&(field as u16).to_le_bytes());
    out.extend_from_slice(&content);
    out.extend_from_slice(&(size as u32).to_le_bytes());
    out.extend_from_slice(&[3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    out
}

/// What a fragment says of itself, and the size of its first member. `end`: its last bytes, [`MOST`] if it has as many.
pub(super) fn read_tail(path: &Path, size: u64, end: &[u8]) -> Result<(Fragment, u64)> {
    let wrong = || Error::Malformed {
        path: path.into(),
        offset: size,
        what: format!("this is no whole {} of a merge: make it again", Fragment::KIND),
    };
    let [a, b, c, d, ..] = *end.last_chunk::<AFTER>().ok_or_else(wrong)?;
    let length = u32::from_le_bytes([a, b, c, d]) as usize;
    let start = end.len().checked_sub(length).ok_or_else(wrong)?;
    let member = &end[start..];
    if length < BEFORE + AFTER || !member.starts_with(&FIXED) || &member[12..14] != b"TP" {
        return Err(wrong());
    }
    let content = std::str::from_utf8(&member[BEFORE..length - AFTER]).map_err(|_| wrong())?;
    let fragment = text::parse(content, Fragment::KIND).map_err(|error| Error::Malformed {
        path: path.into(),
        offset: size,
        what: error.to_string(),
    })?;
    Ok((fragment, size - length as u64))
}
