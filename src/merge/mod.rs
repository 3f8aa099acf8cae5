//! Many trace documents into one, as a stream: two passes over each input, a bounded piece of it in memory at a time.
//!
//! The first pass (`survey`) reads what stands around the events: rank, clock, metadata. Then everything about pids,
//! ids and clocks is settled (`plan`), and the second pass cuts the events into blocks (`blocks`), which are
//! checked and rewritten in parallel (`rewrite`).
#![forbid(unsafe_code)]

mod blocks;
mod bounds;
mod clock;
mod cutter;
mod document;
mod event;
mod head;
mod ids;
mod json;
mod lanes;
mod options;
mod order;
mod plan;
mod pyint;
mod reader;
mod repair;
mod report;
mod rewrite;
mod simd;
mod survey;
mod walk;

pub use options::{Alignment, Input, Limits, MergeOptions};
pub use report::{InputReport, MergeReport};

use crate::error::{Error, Result};
use crate::output::{self, OnProgress, Target};
use blocks::Blocks;
use document::Depth;
use plan::Plan;
use rewrite::Rewriter;

/// Merges documents into one.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Limit`] name the input and the byte; [`Error::Io`] the file;
/// [`Error::InvalidArgument`] for options that exclude one another; [`Error::Cancelled`]. The target is then as it was.
/// It may be one of the inputs.
pub fn merge(
    inputs: Vec<Input>,
    mut target: Target<'_>,
    options: &MergeOptions,
    mut progress: Option<OnProgress<'_>>,
) -> Result<MergeReport> {
    options.check(inputs.len())?;
    let stored = survey::store(inputs)?;
    // What was handed to a writer cannot be taken back: then nothing is guessed.
    let mut depth = if matches!(target, Target::File(_)) { Depth::Guess } else { Depth::Full };
    loop {
        let name = match (&options.trace_name, &target) {
            (Some(name), _) => name.clone(),
            (None, Target::File(path)) => path.to_string_lossy().into_owned(),
            (None, Target::Writer(_)) => String::new(),
        };
        let surveyed = survey::survey(&stored, depth, options)?;
        let plan = Plan::new(surveyed, name, options)?;
        let again = match &mut target {
            Target::File(path) => Target::File(path),
            Target::Writer(writer) => Target::Writer(&mut **writer),
        };
        let watch = progress.as_mut().map(|progress| &mut **progress as OnProgress<'_>);
        let mut blocks = Blocks::new(&plan);
        let written = output::write(
            again,
            &options.write,
            watch,
            plan.bytes(),
            || blocks.next(),
            || {
                let mut rewriter = Rewriter::new(&plan);
                move |job, out: &mut Vec<u8>| rewriter.job(job, out)
            },
        );
        match written {
            Ok(written) => return Ok(plan.report(written)),
            // The end of an input was not where it seemed to be: look for it in all of the input.
            Err(_) if plan.guessed_wrong() && depth == Depth::Guess => depth = Depth::Full,
            Err(error) => return Err(error),
        }
    }
}

/// An internal error that names the input.
fn changed(path: &std::path::Path) -> Error {
    Error::Malformed {
        path: path.into(),
        offset: 0,
        what: "it changed while it was read; is it still being written?".into(),
    }
}
