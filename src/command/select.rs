//! Which events stay: the options that `merge` and `cut` share, and what is said of the others.

use std::ops::RangeInclusive;

use crate::Error;
use crate::merge::{MergeReport, Selection};
use clap::Args;

use super::units;

/// What all `--rank` together may stand for.
const MAX_RANKS: u64 = 1_000_000;

#[derive(Debug, Args)]
pub(super) struct Select {
    /// Only these ranks, as in 0,4-7.
    #[arg(long, value_name = "RANKS", value_delimiter = ',', value_parser = units::ranks, allow_hyphen_values = true)]
    rank: Vec<RangeInclusive<i64>>,
    /// Only what reaches into this time after the earliest event, as in 100ms..1.5s or ..2s.
    #[arg(long, value_name = "FROM..TO", value_parser = units::window, allow_hyphen_values = true)]
    window: Option<(i64, i64)>,
    /// Only events of this category; may be given more than once.
    #[arg(long, value_name = "CATEGORY", value_delimiter = ',')]
    category: Vec<String>,
    /// Only slices at least this long, as in 10us. What has no duration stays.
    #[arg(long, value_name = "TIME", value_parser = units::duration)]
    min_duration: Option<u64>,
    /// Only events whose name matches this regular expression somewhere; may be given more than once.
    #[arg(long, value_name = "PATTERN")]
    name: Vec<String>,
    /// No events whose name matches this; may be given more than once.
    #[arg(long, value_name = "PATTERN")]
    exclude_name: Vec<String>,
    /// Only the longest slices that fit this size before compression, as in 500MB.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    max_size: Option<u64>,
}

impl Select {
    pub(super) fn selection(&self) -> Result<Selection, Error> {
        // Counted before they are listed: a short line can stand for more than fits the memory.
        let count = self.rank.iter().fold(0u64, |sum, range| {
            let ranks = range.end().abs_diff(*range.start()).saturating_add(1);
            sum.saturating_add(ranks)
        });
        if count > MAX_RANKS {
            return Err(Error::invalid(format!("--rank names {count} ranks; at most {MAX_RANKS} can be chosen")));
        }
        Ok(Selection {
            ranks: self.rank.iter().cloned().flatten().collect(),
            window_ns: self.window,
            categories: self.category.clone(),
            min_duration_ns: self.min_duration.unwrap_or(0),
            names: self.name.clone(),
            exclude_names: self.exclude_name.clone(),
            max_bytes: self.max_size,
        })
    }
}

/// Warnings, what was damaged and what was left out, to standard error.
pub(super) fn tell(report: &MergeReport) {
    for warning in &report.warnings {
        super::terminal::say!("tptrace: warning: {warning}");
    }
    for input in &report.inputs {
        for damage in &input.damage {
            super::terminal::say!("tptrace: damaged: {damage}");
        }
        if input.repaired + input.lost > 0 {
            let (path, repaired, lost) = (input.path.display(), input.repaired, input.lost);
            super::terminal::say!("tptrace: {path}: {repaired} events repaired, {lost} damaged pieces left out");
        }
    }
    let cut = report.cut();
    if cut.total() > 0 {
        let reasons = [
            (cut.window, "outside the window"),
            (cut.category, "of other categories"),
            (cut.name, "of other names"),
            (cut.duration, "too short"),
            (cut.budget, "beyond the size"),
            (cut.rank, "of other ranks"),
            (cut.flow, "flow events without both ends"),
        ];
        let said: Vec<String> =
            reasons.iter().filter(|(count, _)| *count > 0).map(|(count, why)| format!("{count} {why}")).collect();
        super::terminal::say!("tptrace: {} events left out: {}", cut.total(), said.join(", "));
    }
    match report.complete_from_ns {
        None => {}
        Some(0) => super::terminal::say!("tptrace: all slices are there"),
        Some(ns) => super::terminal::say!("tptrace: all slices of at least {} us are there", ns as f64 / 1e3),
    }
}
