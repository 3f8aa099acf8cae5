//! Which events of the inputs stay, decided before the first of them is written.
//!
//! Each pass reads all inputs: for the start of the time window, for the size budget, and then to mark the events that
//! stay, one bit for each. Slices are judged by themselves, flows by the slices that they hang on.

mod budget;
mod flows;
mod mark;
mod pairs;
mod rules;
mod watch;

pub use rules::CutCounts;

pub(super) use mark::Marks;
pub(super) use rules::Rules;
pub(super) use watch::{Watch, each, threads};

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::head;
use super::options::Selection;
use super::plan::{Part, Plan};
use crate::error::{Error, Result};
use crate::read::ranks::Ranks;
use budget::{Floor, Histogram};

/// The events that stay.
#[derive(Debug)]
pub(super) struct Selected {
    /// Of each part.
    pub(super) marks: Vec<Arc<Marks>>,
    /// The durations that the size budget left out are below; of its class some.
    pub(super) floor_ns: Option<u64>,
}

/// Decides; also what the document says of it. `origin`: where the window starts to count, if it is known already.
/// `tell` is told the bytes read so far, and answers whether to go on. `None` if all events stay.
pub(super) fn select(
    plan: &Plan<'_>,
    selection: &Selection,
    origin: Option<i64>,
    mut tell: impl FnMut(u64) -> bool,
) -> Result<Option<(Selected, String)>> {
    let mut rules = Rules::new(selection)?;
    if let (true, false, Some(part)) = (plan.in_place, selection.ranks.is_empty(), plan.parts.first()) {
        let ranks = Ranks::of(&part.input.document, &[], 0, None);
        let rank = part.subs[0].fate.rank;
        if !ranks.many() && selection.sorted_ranks().binary_search(&rank).is_err() {
            let path = part.input.stored.name.display();
            return Err(Error::invalid(format!("{path}: it is of rank {rank} alone, which was not asked for")));
        }
        rules.ranks = ranks.many().then(|| (ranks, selection.sorted_ranks()));
    }
    if !selection.cuts_events() && rules.ranks.is_none() && !plan.parts.iter().any(Part::partly) {
        return Ok(None);
    }
    let (count, watch) = (plan.parts.len(), Watch::default());
    let mut start = origin;
    if let Some((from, to)) = rules.window {
        if start.is_none() {
            let all: Vec<_> = plan.parts.iter().chain(&plan.others).collect();
            let found = each(all.len(), &watch, &mut tell, |index| mark::earliest(plan, all[index], &watch))?;
            start = found.into_iter().flatten().min();
        }
        let origin = start.unwrap_or(0);
        rules.window = Some((origin.saturating_add(from), origin.saturating_add(to)));
    }
    let memory = plan.options.limits.sort_bytes / threads(count);
    if let Some(most) = selection.max_bytes {
        let total = crate::sync::Mutex::new(Histogram::default());
        let marks = each(count, &watch, &mut tell, |index| {
            let mut own = Histogram::default();
            let marks = mark::mark(plan, &plan.parts[index], &rules, memory, Some(&mut own), &watch)?;
            crate::sync::lock(&total).merge(&own);
            Ok(marks)
        })?;
        let total = crate::sync::lock(&total);
        let around = surroundings(plan, &note(selection, start, Some(u64::MAX)));
        let Some(room) = most.checked_sub(total.fixed + around) else {
            return Err(Error::invalid(format!(
                "the metadata alone take {} bytes: there is no room for events in {most}",
                total.fixed + around
            )));
        };
        match total.floor(room) {
            Some(floor) => rules.floor = Some(floor),
            None => return Ok(Some(selected(selection, start, None, marks))),
        }
    }
    let marks =
        each(count, &watch, &mut tell, |index| mark::mark(plan, &plan.parts[index], &rules, memory, None, &watch))?;
    Ok(Some(selected(selection, start, rules.floor, marks)))
}

fn selected(selection: &Selection, start: Option<i64>, floor: Option<Floor>, marks: Vec<Marks>) -> (Selected, String) {
    let floor_ns = floor.map(|floor| floor.duration_ns());
    let marks = marks.into_iter().map(Arc::new).collect();
    (Selected { marks, floor_ns }, note(selection, start, floor_ns))
}

/// The earliest time of an input, in nanoseconds of its own clock.
pub(super) fn earliest(plan: &Plan<'_>) -> Result<Option<i64>> {
    plan.parts.first().map_or(Ok(None), |part| mark::earliest(plan, part, &Watch::default()))
}

/// The selection as the document states it.
pub(super) fn note(selection: &Selection, start: Option<i64>, floor_ns: Option<u64>) -> String {
    let mut said = Map::new();
    let mut say = |key: &str, value: Value| said.insert(key.into(), value);
    if !selection.ranks.is_empty() {
        say("ranks", json!(selection.ranks));
    }
    if let Some((from, to)) = selection.window_ns {
        say("window_ns", json!([from, to]));
        say("window_origin_ns", json!(start));
    }
    for (key, texts) in [
        ("categories", &selection.categories),
        ("names", &selection.names),
        ("exclude_names", &selection.exclude_names),
    ] {
        if !texts.is_empty() {
            say(key, json!(texts));
        }
    }
    if selection.min_duration_ns > 0 {
        say("min_duration_ns", json!(selection.min_duration_ns));
    }
    if let Some(most) = selection.max_bytes {
        say("max_bytes", json!(most));
        say("complete_from_ns", json!(floor_ns));
    }
    Value::Object(said).to_string()
}

/// Bytes of the document that are no events of the inputs; at most a few more.
fn surroundings(plan: &Plan<'_>, note: &str) -> u64 {
    let mut total = note.len() as u64;
    let mut out = Vec::new();
    head::start(plan, &mut out);
    head::open(plan, &mut out);
    total += out.len() as u64;
    for index in 0..plan.parts.len() {
        out.clear();
        if !plan.options.verbatim {
            head::about(plan, index, &mut out);
        }
        total += out.len() as u64;
    }
    total + head::END.len() as u64
}
