//! Everything that is settled before the first event is read, and what is learned while they are.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::clock::{self, Aligned};
use super::ids::Ids;
use super::lanes::{self, Block, Lanes};
use super::options::{Alignment, MergeOptions};
use super::order::Order;
use super::origin::Origin;
use super::report::{InputReport, MergeReport};
use super::select::{CutCounts, Selected};
use super::survey::Surveyed;
use crate::error::{Error, Result};
use crate::output::Written;
use crate::read::cutter::Subject;
use crate::read::document::{Document, Shape};
use crate::read::reader::Stored;
use crate::sync::{Mutex, lock};

/// Sentences about damage that are kept for one input.
const MAX_DAMAGE: usize = 8;

/// What a merge makes of one rank of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fate {
    /// As stated, else the position among the inputs.
    pub(super) rank: i64,
    /// Its place among all sorted by rank.
    pub(super) place: usize,
    /// Nanoseconds added to timestamps.
    pub(super) offset: i64,
    pub(super) block: Block,
    /// Where its pids begin in the input.
    pub(super) old: u64,
    /// In the input its processes are named by rank already, and each rank has so many sort indices.
    pub(super) sorts: Option<i64>,
    /// The selection keeps it.
    pub(super) wanted: bool,
}

/// One rank of an input.
#[derive(Debug)]
pub(super) struct Sub {
    pub(super) fate: Fate,
    pub(super) lanes: Lanes,
}

/// One input, and how its events change.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) input: Surveyed<'a>,
    /// Its ranks, by their old pids: one, unless the input is a merged document. In the order of the input's origins.
    pub(super) subs: Vec<Sub>,
    pub(super) ids: Ids,
    tally: Tally,
}

/// What was met while the events of an input were read.
#[derive(Debug, Default)]
struct Tally {
    kept: AtomicU64,
    metadata: AtomicU64,
    repaired: AtomicU64,
    lost: AtomicU64,
    damage: Mutex<Vec<String>>,
    guessed_wrong: AtomicBool,
}

impl<'a> Part<'a> {
    pub(super) fn new(input: Surveyed<'a>, ids: Ids, fates: Vec<Fate>) -> Self {
        let sub = |fate: Fate| Sub { fate, lanes: Lanes::new(fate.block, fate.old, fate.sorts.is_some()) };
        let part = Self { input, subs: fates.into_iter().map(sub).collect(), ids, tally: Tally::default() };
        part.input.document.broken.iter().for_each(|what| part.damaged(what.clone()));
        part
    }

    /// The rank of a process. What has no pid is taken to be of the first.
    #[inline(always)]
    pub(super) fn sub(&self, pid: &[u8]) -> &Sub {
        &self.subs[self.sub_index(pid)]
    }

    /// The place of that rank.
    #[inline(always)]
    pub(super) fn sub_index(&self, pid: &[u8]) -> usize {
        if self.subs.len() == 1 { 0 } else { self.among(pid) }
    }

    fn among(&self, pid: &[u8]) -> usize {
        let pid = super::ids::small(pid).unwrap_or(0);
        self.subs.partition_point(|sub| sub.fate.old <= pid).saturating_sub(1)
    }

    /// Those of its ranks that the selection keeps.
    pub(super) fn wanted(&self) -> impl Iterator<Item = &Sub> {
        self.subs.iter().filter(|sub| sub.fate.wanted)
    }

    /// Whether the selection leaves some of its ranks out.
    pub(super) fn partly(&self) -> bool {
        !self.subs.iter().all(|sub| sub.fate.wanted)
    }

    /// Counts metadata among the events of one block that a selection left.
    pub(super) fn count_metadata(&self, events: u64) {
        self.tally.metadata.fetch_add(events, Ordering::Relaxed);
    }

    /// Counts events of one block.
    pub(super) fn count(&self, kept: u64, repaired: u64, lost: u64) {
        self.tally.kept.fetch_add(kept, Ordering::Relaxed);
        self.tally.repaired.fetch_add(repaired, Ordering::Relaxed);
        self.tally.lost.fetch_add(lost, Ordering::Relaxed);
    }
}

impl Subject for Part<'_> {
    fn stored(&self) -> &Stored {
        self.input.stored
    }

    fn document(&self) -> &Document {
        &self.input.document
    }

    fn damaged(&self, what: String) {
        let mut damage = lock(&self.tally.damage);
        if damage.len() < MAX_DAMAGE && !damage.contains(&what) {
            damage.push(what);
        }
    }

    fn guessed_wrong(&self) {
        self.tally.guessed_wrong.store(true, Ordering::Relaxed);
    }
}

/// A merge with all decisions made.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    pub(super) parts: Vec<Part<'a>>,
    /// Inputs that the selection leaves out, and that share a clock with the others.
    pub(super) others: Vec<Part<'a>>,
    pub(super) options: &'a MergeOptions,
    pub(super) trace_name: String,
    pub(super) aligned: Aligned,
    pub(super) warnings: Vec<String>,
    pub(super) missing: Vec<i64>,
    pub(super) duplicates: Vec<i64>,
    pub(super) order: Arc<Order>,
    /// Inputs that are left out share a clock with the others.
    pub(super) comparable: bool,
    /// Ranks of the whole merge, of which these may be some.
    pub(super) count: usize,
    /// Which events stay, if not all.
    pub(super) selected: Option<Selected>,
    /// What the document says of that.
    pub(super) note: Option<String>,
    /// One document is cut: what stays of it stays as it is.
    pub(super) in_place: bool,
    /// Inputs read to their end.
    read: AtomicU64,
}

/// The error for an input of which nothing can be read, if it is all that there is.
fn unreadable(input: &Surveyed<'_>, why: &str) -> Error {
    let path = input.stored.name.clone();
    // The reason names the input too.
    let why = why.strip_prefix(&format!("{}: ", path.display())).unwrap_or(why);
    Error::Malformed { offset: 0, what: format!("nothing of it can be read: {why}"), path }
}

impl<'a> Plan<'a> {
    pub(super) fn new(inputs: Vec<Surveyed<'a>>, trace_name: String, options: &'a MergeOptions) -> Result<Self> {
        let inputs: Vec<Surveyed<'a>> =
            if options.verbatim { inputs.into_iter().map(Surveyed::into_reference).collect() } else { inputs };
        let count = inputs.len();
        let mut warnings = Vec::new();
        let mut left_out = None;
        let mut readable = Vec::with_capacity(count);
        for (position, input) in inputs.into_iter().enumerate() {
            match input.document.broken.as_ref().filter(|_| input.is_nothing()) {
                // With salvage only: else it was an error before.
                Some(why) => {
                    warnings.push(format!("left out, since nothing of it can be read: {why}"));
                    left_out.get_or_insert_with(|| unreadable(&input, why));
                }
                None => readable.push((position, input)),
            }
        }
        if let Some(error) = left_out.filter(|_| readable.is_empty()) {
            return Err(error);
        }
        let (positions, inputs): (Vec<usize>, Vec<Surveyed<'a>>) = readable.into_iter().unzip();
        // A merged document counts as those that were merged.
        let every: Vec<Known> = positions.iter().zip(&inputs).flat_map(|(&at, input)| Known::of(at, input)).collect();
        let ranks: Vec<i64> = every.iter().map(|one| one.rank).collect();
        let asked = options.selection.sorted_ranks();
        let wanted = |rank: i64| asked.is_empty() || asked.binary_search(&rank).is_ok();
        if !ranks.is_empty() && !ranks.iter().any(|&rank| wanted(rank)) {
            return Err(Error::invalid(format!(
                "no input is of a rank that was asked for: they are of {}",
                some(&ranks.iter().map(i64::to_string).collect::<Vec<_>>(), 16)
            )));
        }
        let clocks: Vec<(PathBuf, clock::Clock)> =
            every.iter().map(|one| (one.label.clone(), one.clock.clone())).collect();
        // An offset by hand is one for all ranks of an input.
        let alignment = match &options.alignment {
            Alignment::Offsets(all) => {
                Alignment::Offsets(every.iter().filter_map(|one| all.get(one.position).copied()).collect())
            }
            other => other.clone(),
        };
        // What is left out counts too: the same rank has the same times, pids and ids with the others and without.
        let mut comparable = true;
        let (mut aligned, blocks) = if options.verbatim {
            let none = Aligned { offsets: vec![0; every.len()], domain: "unknown", ..Aligned::default() };
            (none, vec![Block::NONE; every.len()])
        } else {
            let mut aligned = clock::align(&clocks, &alignment);
            let by_clock = matches!(alignment, Alignment::Auto | Alignment::Force);
            if by_clock && !aligned.as_ref().is_ok_and(|aligned| aligned.aligned) && !ranks.iter().all(|&r| wanted(r)) {
                // Unless its clock stands against that.
                aligned = align_some(&clocks, &alignment, |index| wanted(ranks[index]));
                comparable = false;
            }
            (aligned?, lanes::blocks(&ranks)?)
        };
        let chosen: Vec<i64> = ranks.iter().copied().filter(|&rank| wanted(rank)).collect();
        warnings.append(&mut aligned.warnings);
        warnings.extend(by_place(&every));
        let mut sorted = chosen.clone();
        sorted.sort_unstable();
        let mut duplicates: Vec<i64> =
            sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        duplicates.dedup();
        for &rank in &duplicates {
            let claims = every.iter().filter(|one| one.rank == rank).map(|one| one.label.display().to_string());
            let names = claims.collect::<Vec<_>>().join(", ");
            warnings.push(format!("several inputs are of rank {rank}: {names}"));
        }
        let world = inputs.iter().filter_map(|input| input.world_size).max();
        // Where none says how many there are, it is one more than the highest, if that is no place.
        let highest = || every.iter().filter(|one| one.stated).map(|one| one.rank.saturating_add(1)).max();
        let size = world.or_else(highest).unwrap_or(0).min(1 << 20);
        let absent = |rank: &i64| sorted.binary_search(rank).is_err() && wanted(*rank);
        let missing: Vec<i64> = match options.selection.ranks.as_slice() {
            [] => (0..size).filter(absent).collect(),
            asked => asked.iter().copied().filter(absent).collect(),
        };
        if options.verbatim {
            warnings.clear();
        } else if !missing.is_empty() && (chosen.len() > 1 || !options.selection.ranks.is_empty()) {
            let names = some(&missing.iter().map(i64::to_string).collect::<Vec<_>>(), 16);
            let of = match (options.selection.ranks.is_empty(), world) {
                (false, _) => "of the selected ranks".to_owned(),
                (_, Some(_)) => format!("of {size} ranks"),
                (_, None) => format!("of the ranks up to {}", size - 1),
            };
            warnings.push(format!("{of} these are missing: {names}"));
        }
        let mut order: Vec<usize> = (0..every.len()).collect();
        order.sort_by_key(|&index| (ranks[index], index));
        let mut places = vec![0; every.len()];
        order.iter().enumerate().for_each(|(place, &index)| places[index] = place);
        let mut fates = every.iter().enumerate().map(|(index, one)| Fate {
            rank: one.rank,
            place: places[index],
            offset: aligned.offsets[index],
            block: blocks[index],
            old: one.base,
            sorts: one.sorts,
            wanted: wanted(one.rank),
        });
        let mut parts = Vec::with_capacity(inputs.len());
        for (position, input) in positions.into_iter().zip(inputs) {
            let own = fates.by_ref().take(input.origins.len()).collect();
            parts.push(Part::new(input, Ids { position: position as u64, count: count as u64 }, own));
        }
        drop(fates);
        let (parts, others): (Vec<Part<'_>>, Vec<Part<'_>>) =
            parts.into_iter().partition(|part| part.wanted().next().is_some());
        Ok(Self {
            parts,
            others: if comparable { others } else { Vec::new() },
            comparable,
            options,
            trace_name,
            aligned,
            warnings,
            missing,
            duplicates,
            order: Order::new(),
            count: every.len(),
            selected: None,
            note: None,
            in_place: false,
            read: AtomicU64::new(0),
        })
    }

    /// A plan that cuts one document, and changes nothing of what stays. Its ranks are those of its processes.
    pub(super) fn in_place(input: Surveyed<'a>, trace_name: String, options: &'a MergeOptions) -> Result<Self> {
        if let Some(why) = input.document.broken.as_ref().filter(|_| input.is_nothing()) {
            return Err(unreadable(&input, why));
        }
        let rank = if input.merged { None } else { input.origins[0].rank.or(input.first.rank) };
        let fate = Fate {
            rank: rank.unwrap_or(0),
            place: 0,
            offset: 0,
            block: Block::NONE,
            old: 0,
            sorts: None,
            wanted: true,
        };
        let part = Part::new(input, Ids { position: 0, count: 1 }, vec![fate]);
        Ok(Self { trace_name, in_place: true, ..Self::of_part(part, 1, options) })
    }

    /// A plan of one part of a merge that was planned elsewhere.
    pub(super) fn of_part(part: Part<'a>, count: usize, options: &'a MergeOptions) -> Self {
        Self {
            parts: vec![part],
            others: Vec::new(),
            comparable: true,
            options,
            trace_name: String::new(),
            aligned: Aligned::default(),
            warnings: Vec::new(),
            missing: Vec::new(),
            duplicates: Vec::new(),
            order: Order::new(),
            count,
            selected: None,
            note: None,
            in_place: false,
            read: AtomicU64::new(0),
        }
    }

    /// Bytes of input, if they are those of the documents.
    pub(super) fn bytes(&self) -> u64 {
        let plain = self.parts.iter().all(|part| !part.input.document.gzip && part.input.document.shape != Shape::Bare);
        if plain { self.parts.iter().map(|part| part.input.stored.size).sum() } else { 0 }
    }

    /// Inputs of which events were written, and the events.
    pub(super) fn done(&self) -> (u64, u64) {
        let kept = self.parts.iter().map(|part| part.tally.kept.load(Ordering::Relaxed));
        (self.read.load(Ordering::Relaxed), kept.sum())
    }

    /// Notes that an input was read to its end.
    pub(super) fn note_read(&self) {
        self.read.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the end of an input was guessed wrongly.
    pub(super) fn guessed_wrong(&self) -> bool {
        self.parts.iter().chain(&self.others).any(|part| part.tally.guessed_wrong.load(Ordering::Relaxed))
    }

    /// What became of one input.
    pub(super) fn input_report(&self, index: usize) -> InputReport {
        let part = &self.parts[index];
        let first = part.wanted().next().unwrap_or(&part.subs[0]).fate;
        InputReport {
            path: part.input.stored.name.clone(),
            rank: first.rank,
            ranks: part.wanted().map(|sub| sub.fate.rank).collect(),
            rank_stated: part.input.stated(),
            offset_ns: first.offset,
            pid_base: first.block.base,
            cut: self.selected.as_ref().map_or_else(CutCounts::default, |selected| selected.marks[index].cut),
            kept: part.tally.kept.load(Ordering::Relaxed),
            metadata: part.tally.metadata.load(Ordering::Relaxed),
            repaired: part.tally.repaired.load(Ordering::Relaxed),
            lost: part.tally.lost.load(Ordering::Relaxed),
            damage: lock(&part.tally.damage).clone(),
        }
    }

    /// What the merge did.
    pub(super) fn report(&self, written: Written) -> MergeReport {
        let mut ranks: Vec<i64> = self.parts.iter().flat_map(Part::wanted).map(|sub| sub.fate.rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        MergeReport {
            inputs: (0..self.parts.len()).map(|index| self.input_report(index)).collect(),
            warnings: self.warnings.clone(),
            aligned: self.aligned.aligned,
            uncertainty_ns: self.aligned.uncertainty,
            ranks,
            missing_ranks: self.missing.clone(),
            duplicate_ranks: self.duplicates.clone(),
            complete_from_ns: self.selected.as_ref().and_then(|selected| selected.floor_ns),
            written,
        }
        .checked()
    }
}

/// A rank of any input.
struct Known {
    /// The place of the input among all.
    position: usize,
    rank: i64,
    /// The rank is not that place.
    stated: bool,
    label: PathBuf,
    clock: clock::Clock,
    base: u64,
    sorts: Option<i64>,
}

impl Known {
    fn of(position: usize, input: &Surveyed<'_>) -> Vec<Self> {
        let one = |origin: &Origin| {
            let rank = origin.rank.or(input.first.rank);
            Self {
                position,
                rank: rank.unwrap_or(position as i64),
                stated: rank.is_some(),
                label: origin.label.clone(),
                clock: origin.clock.clone(),
                base: origin.base,
                sorts: origin.sorts,
            }
        };
        input.origins.iter().map(one).collect()
    }
}

/// What is to be said of inputs that state no rank, if there are others.
fn by_place(every: &[Known]) -> Option<String> {
    let silent: Vec<String> = every
        .iter()
        .filter(|one| !one.stated && every.len() > 1)
        .map(|one| format!("{} (rank {})", one.label.display(), one.rank))
        .collect();
    (!silent.is_empty()).then(|| {
        format!(
            "no rank is stated in these, which were taken in the order in which they were given: {}; set RANK where traces \
             are written, or give the files in the order of their ranks",
            some(&silent, 8)
        )
    })
}

/// Aligns some inputs, as if there were no others.
fn align_some(
    clocks: &[(PathBuf, clock::Clock)],
    alignment: &Alignment,
    wanted: impl Fn(usize) -> bool,
) -> Result<Aligned> {
    let chosen: Vec<usize> = (0..clocks.len()).filter(|&index| wanted(index)).collect();
    let some: Vec<_> = chosen.iter().map(|&index| clocks[index].clone()).collect();
    let mut aligned = clock::align(&some, alignment)?;
    let mut offsets = vec![0; clocks.len()];
    chosen.iter().zip(&aligned.offsets).for_each(|(&index, &offset)| offsets[index] = offset);
    aligned.offsets = offsets;
    Ok(aligned)
}

/// The first few of many.
fn some(texts: &[String], most: usize) -> String {
    match texts.len() {
        n if n > most => format!("{} and {} more", texts[..most].join(", "), n - most),
        _ => texts.join(", "),
    }
}
