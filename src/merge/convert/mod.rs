//! One document from one format to another: any of Chrome's trace format to Perfetto's own, and between plain and gzip.
//!
//! A track of Perfetto's format is a stack, so the events of each lane must come in order, whatever their order in the
//! document. They are encoded as they are read and put aside, in a file without a name if they are many; what they are
//! sorted by goes to the sorter of the merge. Then they are picked up lane by lane.

mod emit;
mod encode;
mod spool;
mod tracks;

use std::collections::BTreeMap;
use std::path::Path;

use super::options::MergeOptions;
use super::plan::Plan;
use super::survey;
use crate::error::{Error, Result};
use crate::output::{self, Job, OnProgress, Progress, Target, WriteOptions, Written};
use crate::read::Input;
use crate::read::cutter::Cutter;
use crate::read::document::Depth;
use crate::read::sorter::Sorter;
use crate::read::walk;
use emit::Emitter;
use encode::Encoder;

/// What a document is turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConvertTo {
    /// The same bytes, compressed or not.
    Json,
    /// Perfetto's own format.
    Perfetto,
}

/// What a conversion did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConvertReport {
    /// Bytes made and written.
    pub written: Written,
    /// Events of the document, those that say how lanes are called included.
    pub events: u64,
    /// Slices drawn in a track beside their lane, since they cross another one.
    pub overlaps_moved: u64,
    /// Slices left out, since they cross others on 256 tracks.
    pub overlaps_left: u64,
    /// Slices that end with the slice around them, which ended first.
    pub truncated: u64,
    /// Ends of slices that did not start, left out.
    pub unmatched_ends: u64,
    /// Events left out since they have no time, lie before time 0, or lack what their kind needs.
    pub unusable: u64,
    /// Events left out since Perfetto knows nothing to make of their kind, by `ph`.
    pub unknown: BTreeMap<String, u64>,
}

/// Bytes that are copied at a time.
const BLOCK: usize = 1 << 20;
/// Memory for what events are sorted by.
const SORT: usize = 64 << 20;

/// Turns a document into another format. Memory stays bounded however large it is; a temporary file takes what does
/// not fit.
///
/// # Errors
/// As [`super::merge`].
pub fn convert(
    input: Input,
    target: Target<'_>,
    to: ConvertTo,
    write: &WriteOptions,
    mut progress: Option<OnProgress<'_>>,
) -> Result<ConvertReport> {
    let stored = survey::store(vec![input])?;
    let total = stored.iter().map(|stored| stored.size).sum();
    if to == ConvertTo::Json {
        let mut source = stored[0].open()?;
        let next = || {
            let mut block = Vec::new();
            let got = source.fill(&mut block, BLOCK)?;
            Ok((got > 0).then_some(Job { item: block, units: got as u64 }))
        };
        let written = output::write(target, write, progress, 0, next, copying)?;
        return Ok(ConvertReport { written, ..ConvertReport::default() });
    }
    let options = MergeOptions { verbatim: true, ..MergeOptions::default() };
    let surveyed = survey::survey(&stored, Depth::Full, &options)?;
    let plan = Plan::new(surveyed, String::new(), &options)?;
    let Some(part) = plan.parts.first() else { return Err(Error::invalid("no document to convert")) };
    let mut encoder = Encoder::new(Sorter::new(SORT))?;
    if let Some(mut cutter) = Cutter::open(part)? {
        while let Some(mut cut) = cutter.next(part, &options.limits, options.salvage)? {
            let done = cut.offset + cut.length as u64;
            walk::walk(part, false, &mut cut, |bytes, event| encoder.event(bytes, event))?;
            cutter.spare = cut.bytes;
            if let Some(progress) = &mut progress
                && !progress(&Progress { done: done.min(total), total, ..Progress::default() })
            {
                return Err(Error::Cancelled);
            }
        }
    }
    let mut emitter = Emitter::new(encoder, &part.input.document)?;
    let written = output::write(
        target,
        write,
        progress,
        0,
        || {
            let block = emitter.block(BLOCK)?;
            Ok((!block.is_empty()).then_some(Job { units: block.len() as u64, item: block }))
        },
        copying,
    )?;
    Ok(ConvertReport { written, ..emitter.report })
}

/// A worker that has nothing to do but to compress.
fn copying() -> impl FnMut(Vec<u8>, &mut Vec<u8>) -> Result<()> {
    |block, out| {
        out.extend_from_slice(&block);
        Ok(())
    }
}

/// What a path's name asks for.
///
/// # Errors
/// [`Error::InvalidArgument`] for a name that says nothing.
pub fn format_of(path: &Path) -> Result<ConvertTo> {
    let name = path.as_os_str().as_encoded_bytes();
    let name = name.strip_suffix(b".gz").unwrap_or(name);
    if name.ends_with(b".pftrace") || name.ends_with(b".perfetto-trace") {
        Ok(ConvertTo::Perfetto)
    } else if name.ends_with(b".json") {
        Ok(ConvertTo::Json)
    } else {
        Err(Error::invalid(format!(
            "{}: the name says no format; end it in .json, .json.gz, .pftrace or .pftrace.gz",
            path.display()
        )))
    }
}
