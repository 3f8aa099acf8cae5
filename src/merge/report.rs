//! What a merge did.

use std::path::PathBuf;

use super::select::CutCounts;
use crate::output::Written;

/// What became of one input.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InputReport {
    /// The input, or the name of its reader.
    pub path: PathBuf,
    /// Its rank as stated, or its position among the inputs; of a merged document the first.
    pub rank: i64,
    /// All its ranks: more than one if it is a merged document.
    pub ranks: Vec<i64>,
    /// Whether the document states the rank, around its events or in their arguments.
    pub rank_stated: bool,
    /// Nanoseconds added to its timestamps.
    pub offset_ns: i64,
    /// Added to its pids.
    pub pid_base: u64,
    /// Events left out by the selection.
    pub cut: CutCounts,
    /// Events written, with changes or without.
    pub kept: u64,
    /// Metadata among them, which a selection leaves; 0 without one.
    pub metadata: u64,
    /// Damaged events written after repair.
    pub repaired: u64,
    /// Damaged pieces that could not be kept.
    pub lost: u64,
    /// What was damaged, with byte offsets; at most a few sentences.
    pub damage: Vec<String>,
}

/// What a merge did.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MergeReport {
    /// One entry an input, in their order.
    pub inputs: Vec<InputReport>,
    /// Sentences for the user; each names the files that it is about.
    pub warnings: Vec<String>,
    /// Whether timestamps were moved onto one clock (also when every offset is 0).
    pub aligned: bool,
    /// How far timestamps of different inputs may be apart, in nanoseconds, where the inputs say so.
    pub uncertainty_ns: Option<u64>,
    /// Ranks found, sorted.
    pub ranks: Vec<i64>,
    /// Ranks below the stated world size that no input has.
    pub missing_ranks: Vec<i64>,
    /// Ranks that several inputs claim.
    pub duplicate_ranks: Vec<i64>,
    /// With a size budget that was too small for all: slices at least this long are all there, in nanoseconds.
    pub complete_from_ns: Option<u64>,
    /// Bytes written.
    pub written: Written,
}

impl MergeReport {
    /// Events written.
    pub fn kept(&self) -> u64 {
        self.inputs.iter().map(|input| input.kept).sum()
    }

    /// Events left out by the selection.
    pub fn cut(&self) -> CutCounts {
        let mut all = CutCounts::default();
        self.inputs.iter().for_each(|input| all.sum(&input.cut));
        all
    }

    /// Says so if a selection left nothing but metadata.
    pub(super) fn checked(mut self) -> Self {
        let metadata: u64 = self.inputs.iter().map(|input| input.metadata).sum();
        if self.cut().total() > 0 && self.kept() <= metadata {
            self.warnings.push(
                "no event is left, but for metadata; `tptrace summary` says which ranks, names and times there are"
                    .into(),
            );
        }
        self
    }

    /// Damaged events written after repair.
    pub fn repaired(&self) -> u64 {
        self.inputs.iter().map(|input| input.repaired).sum()
    }

    /// Damaged pieces that could not be kept.
    pub fn lost(&self) -> u64 {
        self.inputs.iter().map(|input| input.lost).sum()
    }
}
