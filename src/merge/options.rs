//! What a merge is asked to do.

use crate::error::{Error, Result};
use crate::output::WriteOptions;
use crate::read::Limits;

/// Whether timestamps are moved so that the inputs share one clock.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Alignment {
    /// Move them when every input says how and the offsets are plausible; else leave them and warn.
    #[default]
    Auto,
    /// Move them by the time bases that the inputs state, comparable or not. Every input must state one.
    Force,
    /// Leave them.
    Off,
    /// Add this many nanoseconds to every timestamp of each input, in the order of the inputs.
    Offsets(Vec<i64>),
}

/// Which events are merged. The default keeps all.
///
/// Metadata always stay. Slices that are written as a begin and an end stay or go as one, and so do the events of an
/// async or object id; flows stay if all slices that they hang on do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only inputs of these ranks; all if empty.
    pub ranks: Vec<i64>,
    /// From and to, in nanoseconds after the earliest event of the inputs. Slices that reach into it stay whole.
    pub window_ns: Option<(i64, i64)>,
    /// Only events of one of these categories; all if empty.
    pub categories: Vec<String>,
    /// Only slices at least this long, in nanoseconds, and what has no duration.
    pub min_duration_ns: u64,
    /// Only events whose name matches one of these regular expressions somewhere; all if empty.
    pub names: Vec<String>,
    /// No events whose name matches one of these.
    pub exclude_names: Vec<String>,
    /// Bytes of the document before compression: the longest slices that fit stay. What has no duration goes first.
    pub max_bytes: Option<u64>,
}

impl Selection {
    /// The ranks in order, to be searched: there may be many of them, and of the inputs too.
    pub(super) fn sorted_ranks(&self) -> Vec<i64> {
        let mut ranks = self.ranks.clone();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// Whether it leaves out events of an input.
    pub(super) fn cuts_events(&self) -> bool {
        let all = Self { ranks: self.ranks.clone(), ..Self::default() };
        *self != all
    }

    /// How often the inputs are read before they are written, without the first look at them.
    pub(super) fn passes(&self) -> u64 {
        let marking = if self.max_bytes.is_some() { 4 } else { 2 };
        if self.cuts_events() { marking + u64::from(self.window_ns.is_some()) } else { 0 }
    }
}

/// How inputs are merged.
#[derive(Debug, Clone, Default)]
pub struct MergeOptions {
    /// Do exactly what the merger that this replaces does: shift pids by rank x 10,000,000 and nothing else. Excludes
    /// every other alignment than [`Alignment::Auto`], which it ignores.
    pub verbatim: bool,
    /// What happens to timestamps.
    pub alignment: Alignment,
    /// Which events are merged.
    pub selection: Selection,
    /// Keep what can be kept of damaged inputs, and report the rest, instead of failing.
    pub salvage: bool,
    /// `traceName` of the document; by default the target's path.
    pub trace_name: Option<String>,
    /// Memory bounds.
    pub limits: Limits,
    /// Compression, threads and durability.
    pub write: WriteOptions,
}

impl MergeOptions {
    pub(super) fn check(&self, inputs: usize) -> Result<()> {
        if self.verbatim && self.alignment != Alignment::Auto {
            return Err(Error::invalid("a verbatim merge leaves timestamps alone: it excludes alignment"));
        }
        if let Alignment::Offsets(offsets) = &self.alignment
            && offsets.len() != inputs
        {
            return Err(Error::invalid(format!(
                "{} clock offsets were given for {inputs} inputs; give one for each",
                offsets.len()
            )));
        }
        Ok(())
    }
}
