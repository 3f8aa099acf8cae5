//! Many trace documents into one, as a stream: two passes over each input, a bounded piece of it in memory at a time.
//!
//! The first pass (`survey`) reads what stands around the events: rank, clock, metadata. Then everything about pids,
//! ids and clocks is settled (`plan`), and the second pass cuts the events into blocks (`blocks`), which are
//! checked and rewritten in parallel (`rewrite`).
#![forbid(unsafe_code)]

mod blocks;
mod clock;
pub mod convert;
mod head;
mod ids;
mod lanes;
mod options;
mod order;
mod origin;
mod plan;
mod pyint;
mod report;
mod rewrite;
mod select;
mod size;
pub mod split;
mod survey;

pub use crate::read::{Input, Limits};
pub use options::{Alignment, MergeOptions, Selection};
pub use report::{InputReport, MergeReport};
pub use select::CutCounts;

use crate::error::{Error, Result};
use crate::output::{self, OnProgress, Progress, Target, Written};
use crate::read::document::Depth;
use crate::read::reader::Stored;
use blocks::Blocks;
use plan::Plan;
use rewrite::Rewriter;
use survey::Surveyed;

/// Merges documents into one.
///
/// # Errors
/// [`Error::Malformed`] and [`Error::Limit`] name the input and the byte; [`Error::Io`] the file;
/// [`Error::InvalidArgument`] for options that exclude one another; [`Error::Cancelled`]. The target is then as it was.
/// It may be one of the inputs.
pub fn merge(
    inputs: Vec<Input>,
    target: Target<'_>,
    options: &MergeOptions,
    progress: Option<OnProgress<'_>>,
) -> Result<MergeReport> {
    options.check(inputs.len())?;
    let stored = survey::store(inputs)?;
    let name = match (&options.trace_name, &target) {
        (Some(name), _) => name.clone(),
        (None, Target::File(path)) => path.to_string_lossy().into_owned(),
        (None, Target::Writer(_)) => String::new(),
    };
    planned(&stored, target, options, progress, |surveyed| Plan::new(surveyed, name.clone(), options))
}

/// Cuts one document: writes what `options.selection` leaves of it, and changes nothing of that. All metadata stay; they
/// stand before the events, with a note of what was selected. Its ranks are those of its processes, if it is a merged
/// one. Options of clocks and of the name of the trace do not count.
///
/// # Errors
/// As [`merge`].
pub fn cut(
    input: Input,
    target: Target<'_>,
    options: &MergeOptions,
    progress: Option<OnProgress<'_>>,
) -> Result<MergeReport> {
    let options = MergeOptions { verbatim: true, alignment: Alignment::Auto, ..options.clone() };
    let stored = survey::store(vec![input])?;
    planned(&stored, target, &options, progress, |mut surveyed| match surveyed.pop() {
        Some(document) => Plan::in_place(document, String::new(), &options),
        None => Err(Error::Internal("the document was not surveyed".into())),
    })
}

/// Writes by the plan that is made of what the inputs say of themselves.
fn planned<'a>(
    stored: &'a [Stored],
    mut target: Target<'_>,
    options: &MergeOptions,
    mut progress: Option<OnProgress<'_>>,
    plan: impl Fn(Vec<Surveyed<'a>>) -> Result<Plan<'a>>,
) -> Result<MergeReport> {
    // What was handed to a writer cannot be taken back: then nothing is guessed.
    let mut depth = if matches!(target, Target::File(_)) { Depth::Guess } else { Depth::Full };
    loop {
        let mut plan = plan(survey::survey(stored, depth, options)?)?;
        let again = match &mut target {
            Target::File(path) => Target::File(path),
            Target::Writer(writer) => Target::Writer(&mut **writer),
        };
        match once(&mut plan, again, &mut progress) {
            Ok(written) => return Ok(plan.report(written)),
            // The end of an input was not where it seemed to be: look for it in all of the input.
            Err(_) if plan.guessed_wrong() && depth == Depth::Guess => depth = Depth::Full,
            Err(error) => return Err(error),
        }
    }
}

/// Selects and writes.
fn once(plan: &mut Plan<'_>, target: Target<'_>, progress: &mut Option<OnProgress<'_>>) -> Result<Written> {
    let options = plan.options;
    let total = plan.bytes();
    // Each pass reads all bytes once more; the survey is not counted.
    let passes = options.selection.passes();
    let all = total * (1 + passes);
    let mut tell = |told: &Progress| progress.as_mut().is_none_or(|progress| progress(told));
    let selected = select::select(plan, &options.selection, None, |read| {
        tell(&Progress { done: read.min(total * passes), total: all, ..Progress::default() })
    })?;
    (plan.selected, plan.note) = selected.unzip();
    let plan = &*plan;
    let mut watch = |told: &Progress| {
        let (files, events) = plan.done();
        tell(&Progress { done: told.done + total * passes, total: all, files, events, ..*told })
    };
    let mut blocks = Blocks::new(plan);
    output::write(
        target,
        &options.write,
        Some(&mut watch),
        total,
        || blocks.next(),
        || {
            let mut rewriter = Rewriter::new(plan);
            move |job, out: &mut Vec<u8>| rewriter.job(job, out)
        },
    )
}
