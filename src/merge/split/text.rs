//! What the parts of a split merge tell one another, as JSON.

use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::super::ids::Ids;
use super::super::lanes::Block;
use super::super::options::{MergeOptions, Selection};
use super::super::plan::{Fate, Part, Plan};
use super::super::report::{InputReport, MergeReport};
use super::super::select::CutCounts;
use super::super::survey::Surveyed;
use crate::error::{Error, Result};
use crate::output::Written;
use crate::read::Limits;
use crate::read::document::{Document, Shape};
use crate::read::first::First;
use crate::read::reader::Stored;

/// Texts of other versions are refused.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Bytes of the name of a plan; ours have 32.
const MAX_PLAN: usize = 256;

/// Wraps every text.
#[derive(Serialize, Deserialize)]
struct Envelope<T> {
    tptrace: String,
    kind: String,
    content: T,
}

/// A text that is sent around.
pub(super) trait Kind {
    const KIND: &'static str;

    /// What cannot be, whoever wrote it: the text may come from another program.
    fn check(&self) -> std::result::Result<(), &'static str> {
        Ok(())
    }
}

pub(super) fn print<T: Serialize + Kind>(content: &T) -> String {
    let envelope = Envelope { tptrace: VERSION.to_owned(), kind: T::KIND.to_owned(), content };
    // Maps with text keys and numbers always have a text.
    serde_json::to_string(&envelope).unwrap_or_default()
}

pub(super) fn parse<T: DeserializeOwned + Kind>(text: &str, what: &str) -> Result<T> {
    let wrong = |why: String| Error::invalid(format!("this is no {what} of version {VERSION}: {why}"));
    let envelope: Envelope<serde_json::Value> = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    if envelope.tptrace != VERSION {
        return Err(wrong(format!("it is of version {}", envelope.tptrace)));
    }
    if envelope.kind != T::KIND {
        return Err(wrong(format!("it is a {}", envelope.kind)));
    }
    let content: T = serde_json::from_value(envelope.content).map_err(|error| wrong(error.to_string()))?;
    content.check().map_err(|why| wrong(why.to_owned()))?;
    Ok(content)
}

/// What an input says of itself.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Survey {
    pub(super) name: String,
    pub(super) size: u64,
    shape: u8,
    events_at: u64,
    members: Vec<(String, String)>,
    before: usize,
    gzip: bool,
    broken: Option<String>,
    first_ts: Option<String>,
    first_rank: Option<i64>,
    /// The earliest time was looked for, since there is a time window.
    pub(super) windowed: bool,
    /// The earliest time, if there is any, in nanoseconds of the input's own clock.
    pub(super) earliest: Option<i64>,
}

impl Kind for Survey {
    const KIND: &'static str = "survey";

    fn check(&self) -> std::result::Result<(), &'static str> {
        if !self.gzip && self.events_at > self.size {
            return Err("its events start after its end");
        }
        Ok(())
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Survey {
    pub(super) fn of(surveyed: &Surveyed<'_>) -> Self {
        let document = &surveyed.document;
        Self {
            name: surveyed.stored.name.to_string_lossy().into_owned(),
            size: surveyed.stored.size,
            shape: match document.shape {
                Shape::Object => 0,
                Shape::Array => 1,
                Shape::Bare => 2,
            },
            events_at: document.events_at,
            members: document.members.iter().map(|(key, value)| (key.clone(), lossy(value))).collect(),
            before: document.before,
            gzip: document.gzip,
            broken: document.broken.clone(),
            first_ts: surveyed.first.ts.as_deref().map(lossy),
            first_rank: surveyed.first.rank,
            windowed: false,
            earliest: None,
        }
    }

    pub(super) fn surveyed<'a>(&self, stored: &'a Stored) -> Result<Surveyed<'a>> {
        let document = Document {
            shape: match self.shape {
                0 => Shape::Object,
                1 => Shape::Array,
                _ => Shape::Bare,
            },
            events_at: self.events_at,
            members: self.members.iter().map(|(key, value)| (key.clone(), value.clone().into_bytes())).collect(),
            before: self.before.min(self.members.len()),
            thorough: true,
            gzip: self.gzip,
            broken: self.broken.clone(),
        };
        let first = First { ts: self.first_ts.clone().map(String::into_bytes), rank: self.first_rank };
        Surveyed::of(stored, document, first)
    }
}

/// What is to be done with one rank of an input.
#[derive(Debug, Serialize, Deserialize)]
struct TaskRank {
    rank: i64,
    place: usize,
    offset: i64,
    base: u64,
    block: u64,
    old: u64,
    sorts: Option<i64>,
    wanted: bool,
}

impl TaskRank {
    fn of(Fate { rank, place, offset, block, old, sorts, wanted }: Fate) -> Self {
        Self { rank, place, offset, base: block.base, block: block.size, old, sorts, wanted }
    }

    fn block_can_be(&self, verbatim: bool) -> bool {
        let block = Block { base: self.base, size: self.block };
        verbatim && block == Block::NONE || block.is_possible()
    }

    fn fate(&self) -> Fate {
        let Self { rank, place, offset, base, block, old, sorts, wanted } = *self;
        Fate { rank, place, offset, block: Block { base, size: block }, old, sorts, wanted }
    }
}

/// What is to be done with one input.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) plan: String,
    pub(super) index: usize,
    pub(super) survey: Survey,
    /// Of each of its ranks.
    fates: Vec<TaskRank>,
    /// Ranks of the whole merge.
    pub(super) count: usize,
    position: u64,
    inputs: u64,
    pub(super) origin: Option<i64>,
    verbatim: bool,
    salvage: bool,
    event_bytes: usize,
    metadata_bytes: usize,
    sort_bytes: usize,
    window_ns: Option<(i64, i64)>,
    categories: Vec<String>,
    min_duration_ns: u64,
    names: Vec<String>,
    exclude_names: Vec<String>,
}

impl Kind for Task {
    const KIND: &'static str = "task";

    fn check(&self) -> std::result::Result<(), &'static str> {
        if self.index as u64 >= self.inputs || self.position >= self.inputs {
            return Err("it is of none of the inputs that it counts");
        }
        if self.fates.is_empty() || !self.fates.iter().all(|one| one.place < self.count) {
            return Err("it is of none of the ranks that it counts");
        }
        if !self.fates.is_sorted_by_key(|one| one.old) || !self.fates.iter().all(|one| one.block_can_be(self.verbatim))
        {
            return Err("its block of pids cannot be");
        }
        // It has to fit a field of a gzip header, with the rest that a fragment says of itself.
        if self.plan.len() > MAX_PLAN {
            return Err("the name of its plan is too long");
        }
        self.survey.check()
    }
}

impl Task {
    pub(super) fn new(
        plan_id: &str,
        index: usize,
        survey: &Survey,
        part: &Part<'_>,
        plan: &Plan<'_>,
        origin: Option<i64>,
    ) -> Self {
        let MergeOptions { verbatim, salvage, limits, selection, .. } = plan.options;
        Self {
            plan: plan_id.to_owned(),
            index,
            survey: survey.clone(),
            fates: part.subs.iter().map(|sub| TaskRank::of(sub.fate)).collect(),
            count: plan.count,
            position: part.ids.position,
            inputs: part.ids.count,
            origin,
            verbatim: *verbatim,
            salvage: *salvage,
            event_bytes: limits.event_bytes,
            metadata_bytes: limits.metadata_bytes,
            sort_bytes: limits.sort_bytes,
            window_ns: selection.window_ns,
            categories: selection.categories.clone(),
            min_duration_ns: selection.min_duration_ns,
            names: selection.names.clone(),
            exclude_names: selection.exclude_names.clone(),
        }
    }

    pub(super) fn fates(&self) -> Vec<Fate> {
        self.fates.iter().map(TaskRank::fate).collect()
    }

    pub(super) fn ids(&self) -> Ids {
        Ids { position: self.position, count: self.inputs }
    }

    pub(super) fn options(&self) -> MergeOptions {
        MergeOptions {
            verbatim: self.verbatim,
            salvage: self.salvage,
            limits: Limits {
                event_bytes: self.event_bytes,
                metadata_bytes: self.metadata_bytes,
                sort_bytes: self.sort_bytes,
            },
            selection: Selection {
                window_ns: self.window_ns,
                categories: self.categories.clone(),
                min_duration_ns: self.min_duration_ns,
                names: self.names.clone(),
                exclude_names: self.exclude_names.clone(),
                ..Selection::default()
            },
            ..MergeOptions::default()
        }
    }
}

/// What a fragment says of itself, behind its events.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Fragment {
    pub(super) plan: String,
    pub(super) index: usize,
    /// Bytes of its events.
    pub(super) bytes: u64,
    kept: u64,
    metadata: u64,
    repaired: u64,
    lost: u64,
    /// As in [`CutCounts`], in its order.
    cut: [u64; 7],
    damage: Vec<String>,
}

impl Kind for Fragment {
    const KIND: &'static str = "fragment";
}

impl Fragment {
    pub(super) fn new(task: &Task, bytes: u64, report: &InputReport) -> Self {
        let CutCounts { window, category, name, duration, budget, flow, rank } = report.cut;
        // It has to fit a field of a gzip header.
        let short = |text: &String| text.chars().take(1000).collect();
        Self {
            plan: task.plan.clone(),
            index: task.index,
            bytes,
            kept: report.kept,
            metadata: report.metadata,
            repaired: report.repaired,
            lost: report.lost,
            cut: [window, category, name, duration, budget, flow, rank],
            damage: report.damage.iter().take(8).map(short).collect(),
        }
    }
}

/// One input as the plan knows it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Source {
    pub(super) name: String,
    ranks: Vec<i64>,
    stated: bool,
    offset: i64,
    base: u64,
}

/// What stands around the events, and what the plan found.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Around {
    pub(super) plan: String,
    pub(super) before: String,
    pub(super) sources: Vec<Source>,
    warnings: Vec<String>,
    aligned: bool,
    uncertainty: Option<u64>,
    missing: Vec<i64>,
    duplicates: Vec<i64>,
}

impl Kind for Around {
    const KIND: &'static str = "plan";
}

impl Around {
    pub(super) fn new(id: String, before: String, plan: &Plan<'_>) -> Self {
        let source = |index| {
            let InputReport { path, ranks, rank_stated: stated, offset_ns: offset, pid_base: base, .. } =
                plan.input_report(index);
            Source { name: path.to_string_lossy().into_owned(), ranks, stated, offset, base }
        };
        Self {
            plan: id,
            before,
            sources: (0..plan.parts.len()).map(source).collect(),
            warnings: plan.warnings.clone(),
            aligned: plan.aligned.aligned,
            uncertainty: plan.aligned.uncertainty,
            missing: plan.missing.clone(),
            duplicates: plan.duplicates.clone(),
        }
    }

    /// What the merge did, from what its fragments say.
    pub(super) fn report(self, fragments: Vec<Fragment>, written: Written) -> MergeReport {
        let mut ranks: Vec<i64> = self.sources.iter().flat_map(|source| &source.ranks).copied().collect();
        ranks.sort_unstable();
        ranks.dedup();
        let input = |(source, fragment): (Source, Fragment)| {
            let [window, category, name, duration, budget, flow, rank] = fragment.cut;
            InputReport {
                path: source.name.into(),
                rank: source.ranks.first().copied().unwrap_or(0),
                ranks: source.ranks,
                rank_stated: source.stated,
                offset_ns: source.offset,
                pid_base: source.base,
                cut: CutCounts { window, category, name, duration, budget, flow, rank },
                kept: fragment.kept,
                metadata: fragment.metadata,
                repaired: fragment.repaired,
                lost: fragment.lost,
                damage: fragment.damage,
            }
        };
        MergeReport {
            inputs: self.sources.into_iter().zip(fragments).map(input).collect(),
            warnings: self.warnings,
            aligned: self.aligned,
            uncertainty_ns: self.uncertainty,
            ranks,
            missing_ranks: self.missing,
            duplicate_ranks: self.duplicates,
            complete_from_ns: None,
            written,
        }
        .checked()
    }
}
