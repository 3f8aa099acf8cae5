//! Two summaries side by side: what became slower, what is new, what is gone.

use std::collections::HashMap;

use serde::Serialize;

use super::report::{GpuTime, NameKind, Summary};

/// What changed between two traces.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// The span of the longest rank, before and after.
    pub span_ns: [u64; 2],
    /// The mean duration of a step, before and after; `None` if there are none.
    pub step_mean_ns: [Option<f64>; 2],
    /// GPU work of all ranks together, before and after.
    pub gpu: [GpuTime; 2],
    /// Each name of either, the largest change of total time first.
    pub names: Vec<NameDelta>,
}

/// The slices of a name in both traces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NameDelta {
    /// The name.
    pub name: String,
    /// The category.
    pub category: String,
    /// What they are.
    pub kind: NameKind,
    /// How many, before and after.
    pub count: [u64; 2],
    /// The sum of their durations.
    pub total_ns: [u64; 2],
    /// The sum without their children.
    pub self_ns: [u64; 2],
    /// How much more `total_ns` there is after.
    pub delta_ns: i64,
}

/// Compares two summaries.
pub fn compare(old: &Summary, new: &Summary) -> Comparison {
    let mut names: HashMap<(&str, &str), NameDelta> = HashMap::new();
    for (side, summary) in [old, new].into_iter().enumerate() {
        for name in &summary.names {
            let delta = names.entry((&name.category, &name.name)).or_insert_with(|| NameDelta {
                name: name.name.clone(),
                category: name.category.clone(),
                kind: name.kind,
                ..NameDelta::default()
            });
            delta.count[side] += name.count;
            delta.total_ns[side] += name.total_ns;
            delta.self_ns[side] += name.self_ns;
        }
    }
    let mut names: Vec<NameDelta> = names.into_values().collect();
    for name in &mut names {
        name.delta_ns = (i128::from(name.total_ns[1]) - i128::from(name.total_ns[0]))
            .clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
    }
    names.sort_by(|a, b| {
        let size = |name: &NameDelta| std::cmp::Reverse(name.delta_ns.unsigned_abs());
        size(a).cmp(&size(b)).then_with(|| (&a.name, &a.category).cmp(&(&b.name, &b.category)))
    });
    let both = |of: fn(&Summary) -> Option<f64>| [of(old), of(new)];
    Comparison {
        span_ns: [old, new].map(|one| one.ranks.iter().map(|rank| rank.span_ns).max().unwrap_or(0)),
        step_mean_ns: both(|one| {
            let sum: f64 = one.steps.iter().map(|step| step.duration_ns as f64).sum();
            (!one.steps.is_empty()).then(|| sum / one.steps.len() as f64)
        }),
        gpu: [old, new].map(|one| one.ranks.iter().fold(GpuTime::default(), |all, rank| all.plus(&rank.gpu))),
        names,
    }
}

impl GpuTime {
    pub(super) fn plus(&self, other: &GpuTime) -> GpuTime {
        GpuTime {
            activities: self.activities + other.activities,
            busy_ns: self.busy_ns + other.busy_ns,
            idle_ns: self.idle_ns + other.idle_ns,
            compute_ns: self.compute_ns + other.compute_ns,
            communication_ns: self.communication_ns + other.communication_ns,
            memory_ns: self.memory_ns + other.memory_ns,
            overlap_ns: self.overlap_ns + other.overlap_ns,
        }
    }
}
