//! A merge in independent parts, for more ranks than one machine likes.
//!
//! [`survey`] reads what one input says of itself; [`plan`] settles everything from all surveys, and gives a task for each
//! input; [`fragment`] does one task, on any machine that has the input; [`join`] makes the document out of the fragments,
//! by copying. Surveys, tasks and the plan are texts, which can be sent anywhere; they are of one version of this library.

mod fragment;
mod join;
mod text;

use std::path::PathBuf;

use super::head;
use super::options::{Alignment, MergeOptions, Selection};
use super::plan::{Part, Plan};
use super::select::{self, Rules};
use super::survey;
use crate::error::{Error, Result};
use crate::read::Input;
use crate::read::document::Depth;
use crate::read::reader::Stored;

pub use fragment::fragment;
pub use join::join;
use text::{Around, Survey, Task};

/// A merge planned from surveys.
#[derive(Debug, Clone)]
pub struct SplitPlan {
    /// A task for each survey, in their order; `None` where the selection leaves the input out.
    pub tasks: Vec<Option<String>>,
    /// What [`join`] needs.
    pub join: String,
}

/// Reads what an input says of itself. `options` are those of [`plan`].
///
/// # Errors
/// As for [`super::merge`].
pub fn survey(input: Input, options: &MergeOptions) -> Result<String> {
    Rules::new(&options.selection)?;
    let stored = [Stored::new(input)?];
    // A guess could be checked only by the one who reads the events, too late for the plan.
    let surveyed = survey::survey(&stored, Depth::Full, options)?.remove(0);
    let mut found = Survey::of(&surveyed);
    if options.selection.window_ns.is_some() && !surveyed.is_nothing() {
        let alone = MergeOptions {
            alignment: Alignment::Off,
            selection: Selection { ranks: Vec::new(), ..options.selection.clone() },
            ..options.clone()
        };
        found.windowed = true;
        found.earliest = select::earliest(&Plan::new(vec![surveyed], String::new(), &alone)?)?;
    }
    Ok(text::print(&found))
}

/// Settles everything that the parts of the merge have in common.
///
/// # Errors
/// [`Error::InvalidArgument`] for options that exclude one another, for a size budget, which needs all events at once, and
/// for texts that are no surveys of this version.
pub fn plan(surveys: &[impl AsRef<str>], options: &MergeOptions) -> Result<SplitPlan> {
    options.check(surveys.len())?;
    Rules::new(&options.selection)?;
    if options.selection.max_bytes.is_some() {
        return Err(Error::invalid("a size budget looks at all events at once: it excludes a merge in parts"));
    }
    let surveys: Vec<Survey> = surveys.iter().map(|one| text::parse(one.as_ref(), "survey")).collect::<Result<_>>()?;
    let stored: Vec<Stored> =
        surveys.iter().map(|survey| Stored::elsewhere(PathBuf::from(&survey.name), survey.size)).collect();
    let inputs = surveys.iter().zip(&stored).map(|(survey, stored)| survey.surveyed(stored)).collect::<Result<_>>()?;
    let mut plan = Plan::new(inputs, options.trace_name.clone().unwrap_or_default(), options)?;
    let source_of = |part: &Part<'_>| stored.iter().position(|stored| std::ptr::eq(stored, part.input.stored));
    let sources: Vec<usize> = plan.parts.iter().filter_map(source_of).collect();

    let mut origin = None;
    if options.selection.window_ns.is_some() {
        for part in plan.parts.iter().chain(&plan.others) {
            let Some(source) = source_of(part) else { continue };
            let Survey { name, windowed, earliest, .. } = &surveys[source];
            if !windowed {
                return Err(Error::invalid(format!("{name}: it was surveyed without the time window")));
            }
            if part.subs.iter().any(|sub| sub.fate.offset != part.subs[0].fate.offset) {
                return Err(Error::invalid(format!(
                    "{name}: a time window in parts needs one clock in each input, and the ranks of this merged one have \
                     several: merge it at once, or the files that it was made of"
                )));
            }
            let moved = earliest.map(|ns| ns.saturating_add(part.subs[0].fate.offset));
            origin = [origin, moved].into_iter().flatten().min();
        }
        // Where no input has a time, no window opens.
        origin = origin.or(Some(0));
    }
    if options.selection.cuts_events() {
        plan.note = Some(select::note(&options.selection, origin, None));
    }
    let id = uuid::Uuid::new_v4().simple().to_string();
    let mut tasks: Vec<Option<String>> = vec![None; surveys.len()];
    for (index, (part, &source)) in plan.parts.iter().zip(&sources).enumerate() {
        let task = Task::new(&id, index, &surveys[source], part, &plan, origin);
        tasks[source] = Some(text::print(&task));
    }
    let mut before = Vec::new();
    head::start(&plan, &mut before);
    if !options.verbatim {
        (0..plan.parts.len()).for_each(|index| head::about(&plan, index, &mut before));
    }
    head::open(&plan, &mut before);
    let around = Around::new(id, String::from_utf8_lossy(&before).into_owned(), &plan);
    Ok(SplitPlan { tasks, join: text::print(&around) })
}
