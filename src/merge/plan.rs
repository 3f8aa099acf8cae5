//! Everything that is settled before the first event is read, and what is learned while they are.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::clock::{self, Aligned};
use super::ids::Ids;
use super::lanes::{self, Block, Lanes};
use super::options::{Alignment, MergeOptions};
use super::order::Order;
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

/// What a merge makes of one input.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fate {
    /// As stated, else the position among the inputs.
    pub(super) rank: i64,
    /// Its place among the parts sorted by rank.
    pub(super) place: usize,
    /// Nanoseconds added to timestamps.
    pub(super) offset: i64,
    pub(super) ids: Ids,
    pub(super) block: Block,
}

/// One input, and how its events change.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) input: Surveyed<'a>,
    pub(super) fate: Fate,
    pub(super) lanes: Lanes,
    tally: Tally,
}

/// What was met while the events of an input were read.
#[derive(Debug, Default)]
struct Tally {
    kept: AtomicU64,
    repaired: AtomicU64,
    lost: AtomicU64,
    damage: Mutex<Vec<String>>,
    guessed_wrong: AtomicBool,
}

impl<'a> Part<'a> {
    pub(super) fn new(input: Surveyed<'a>, fate: Fate) -> Self {
        let part = Self { input, fate, lanes: Lanes::new(fate.block), tally: Tally::default() };
        part.input.document.broken.iter().for_each(|what| part.damaged(what.clone()));
        part
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
    /// Parts of the whole merge, of which these may be one.
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

impl<'a> Plan<'a> {
    pub(super) fn new(inputs: Vec<Surveyed<'a>>, trace_name: String, options: &'a MergeOptions) -> Result<Self> {
        let count = inputs.len();
        let ranks: Vec<i64> = (0..).zip(&inputs).map(|(position, input)| input.rank.unwrap_or(position)).collect();
        let asked = options.selection.sorted_ranks();
        let wanted = |rank: i64| asked.is_empty() || asked.binary_search(&rank).is_ok();
        if !inputs.is_empty() && !ranks.iter().any(|&rank| wanted(rank)) {
            return Err(Error::invalid(format!(
                "no input is of a rank that was asked for: they are of {}",
                some(&ranks.iter().map(i64::to_string).collect::<Vec<_>>(), 16)
            )));
        }
        let clocks: Vec<(PathBuf, clock::Clock)> =
            inputs.iter().map(|input| (input.stored.name.clone(), input.clock.clone())).collect();
        // What is left out counts too: the same rank has the same times, pids and ids with the others and without.
        let mut comparable = true;
        let (mut aligned, blocks) = if options.verbatim {
            let none = Aligned { offsets: vec![0; count], domain: "unknown", ..Aligned::default() };
            (none, vec![Block::NONE; count])
        } else {
            let mut aligned = clock::align(&clocks, &options.alignment);
            let by_clock = matches!(options.alignment, Alignment::Auto | Alignment::Force);
            if by_clock && !aligned.as_ref().is_ok_and(|aligned| aligned.aligned) && !ranks.iter().all(|&r| wanted(r)) {
                // Unless its clock stands against that.
                aligned = align_some(&clocks, &options.alignment, |index| wanted(ranks[index]));
                comparable = false;
            }
            (aligned?, lanes::blocks(&ranks)?)
        };
        let chosen: Vec<i64> = ranks.iter().copied().filter(|&rank| wanted(rank)).collect();
        let mut warnings = std::mem::take(&mut aligned.warnings);
        let mut sorted = chosen.clone();
        sorted.sort_unstable();
        let mut duplicates: Vec<i64> =
            sorted.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        duplicates.dedup();
        let names = |rank: i64| -> Vec<String> {
            let claims = ranks.iter().zip(&clocks).filter(|&(&known, _)| known == rank);
            claims.map(|(_, (path, _))| path.display().to_string()).collect()
        };
        for &rank in &duplicates {
            warnings.push(format!("several inputs are of rank {rank}: {}", names(rank).join(", ")));
        }
        let world = inputs.iter().filter_map(|input| input.world_size).max().unwrap_or(0).min(1 << 20);
        let absent = |rank: &i64| sorted.binary_search(rank).is_err() && wanted(*rank);
        let missing: Vec<i64> = match options.selection.ranks.as_slice() {
            [] => (0..world).filter(absent).collect(),
            asked => asked.iter().copied().filter(absent).collect(),
        };
        if options.verbatim {
            warnings.clear();
        } else if !missing.is_empty() && (chosen.len() > 1 || !options.selection.ranks.is_empty()) {
            let names = some(&missing.iter().map(i64::to_string).collect::<Vec<_>>(), 16);
            let of = if options.selection.ranks.is_empty() { format!("{world}") } else { "the selected".into() };
            warnings.push(format!("of {of} ranks these are missing: {names}"));
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by_key(|&position| (ranks[position], position));
        let mut places = vec![0; count];
        order.iter().enumerate().for_each(|(place, &position)| places[position] = place);
        let (parts, others): (Vec<Part<'_>>, Vec<Part<'_>>) = inputs
            .into_iter()
            .zip(ranks.iter().zip(&aligned.offsets).zip(&blocks))
            .enumerate()
            .map(|(position, (input, ((&rank, &offset), &block)))| {
                let ids = Ids { position: position as u64, count: count as u64 };
                Part::new(input, Fate { rank, place: places[position], offset, ids, block })
            })
            .partition(|part| wanted(part.fate.rank));
        Ok(Self {
            parts,
            others: if comparable { others } else { Vec::new() },
            options,
            trace_name,
            aligned,
            warnings,
            missing,
            duplicates,
            order: Order::new(),
            count,
            selected: None,
            note: None,
            in_place: false,
            read: AtomicU64::new(0),
        })
    }

    /// A plan that cuts one document, and changes nothing of what stays. Its ranks are those of its processes.
    pub(super) fn in_place(input: Surveyed<'a>, trace_name: String, options: &'a MergeOptions) -> Self {
        let (ids, block) = (Ids { position: 0, count: 1 }, Block::NONE);
        let fate = Fate { rank: input.rank.unwrap_or(0), place: 0, offset: 0, ids, block };
        Self { trace_name, in_place: true, ..Self::of_part(Part::new(input, fate), 1, options) }
    }

    /// A plan of one part of a merge that was planned elsewhere.
    pub(super) fn of_part(part: Part<'a>, count: usize, options: &'a MergeOptions) -> Self {
        Self {
            parts: vec![part],
            others: Vec::new(),
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
        InputReport {
            path: part.input.stored.name.clone(),
            rank: part.fate.rank,
            rank_stated: part.input.rank.is_some(),
            offset_ns: part.fate.offset,
            pid_base: part.fate.block.base,
            cut: self.selected.as_ref().map_or_else(CutCounts::default, |selected| selected.marks[index].cut),
            kept: part.tally.kept.load(Ordering::Relaxed),
            repaired: part.tally.repaired.load(Ordering::Relaxed),
            lost: part.tally.lost.load(Ordering::Relaxed),
            damage: lock(&part.tally.damage).clone(),
        }
    }

    /// What the merge did.
    pub(super) fn report(&self, written: Written) -> MergeReport {
        let mut ranks: Vec<i64> = self.parts.iter().map(|part| part.fate.rank).collect();
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
    }
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
