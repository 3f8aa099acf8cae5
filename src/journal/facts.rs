//! What stands beside the events of a trace, as a journal keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::export::ClockInfo;
use crate::model::clock::{ClockAnchor, ClockDomain};
use crate::model::counts::RecordCounts;
use crate::model::gpu::{GpuInfo, GpuReport};
use crate::model::identity::{RankWorld, program_name};
use crate::model::snapshot::Snapshot;
use crate::model::store::Store;
use crate::trace::RESERVED_METADATA;

/// What is asked for once: another thread may be changing the environment later.
#[derive(Debug, Clone)]
pub(super) struct Place {
    host_name: String,
    program: String,
    pub(super) rank_world: RankWorld,
}

impl Place {
    pub(super) fn here() -> Self {
        let host_name = hostname::get().unwrap_or_default().to_string_lossy().into_owned();
        Self { host_name, program: program_name(), rank_world: RankWorld::from_env() }
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Facts {
    /// The library that wrote it.
    version: String,
    pid: u32,
    host_name: String,
    process_name: String,
    clock: String,
    base_ns: i64,
    anchor_monotonic_ns: i64,
    anchor_realtime_ns: i64,
    anchor_uncertainty_ns: i64,
    rank: Option<i64>,
    world_size: Option<i64>,
    backend: Option<String>,
    thread_names: BTreeMap<u64, String>,
    metadata: Vec<(String, String)>,
    gpu_info: Option<GpuInfo>,
    gpu_report: Option<GpuReport>,
    dropped: u64,
    repaired_texts: u64,
    record_dropped: u64,
    record_unmatched: u64,
    record_overwritten: u64,
}

impl Facts {
    pub(super) fn of(clock: ClockInfo, place: &Place, snapshot: &Snapshot, recorded: &RecordCounts) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            host_name: place.host_name.clone(),
            process_name: snapshot.process_name.as_ref().unwrap_or(&place.program).clone(),
            clock: clock.domain.name().to_owned(),
            base_ns: clock.base_ns,
            anchor_monotonic_ns: clock.anchor.monotonic_ns,
            anchor_realtime_ns: clock.anchor.realtime_ns,
            anchor_uncertainty_ns: clock.anchor.uncertainty_ns,
            rank: snapshot.rank_world.rank,
            world_size: snapshot.rank_world.world_size,
            backend: snapshot.backend.clone(),
            thread_names: snapshot.thread_names.clone(),
            metadata: snapshot.metadata.clone(),
            gpu_info: snapshot.gpu_info.as_deref().cloned(),
            gpu_report: snapshot.gpu_report.clone(),
            dropped: snapshot.counts.dropped,
            repaired_texts: snapshot.counts.repaired_texts,
            record_dropped: recorded.dropped,
            record_unmatched: recorded.unmatched,
            record_overwritten: recorded.overwritten_chunks,
        }
    }

    pub(super) fn clock(&self) -> ClockInfo {
        let domain = match self.clock.as_str() {
            "monotonic" => ClockDomain::Monotonic,
            "realtime" => ClockDomain::Realtime,
            _ => ClockDomain::Unknown,
        };
        let anchor = ClockAnchor {
            monotonic_ns: self.anchor_monotonic_ns,
            realtime_ns: self.anchor_realtime_ns,
            uncertainty_ns: self.anchor_uncertainty_ns,
        };
        ClockInfo { base_ns: self.base_ns, domain, anchor }
    }

    /// Tells a store all but what belongs to the document alone.
    pub(super) fn restore(&self, store: &mut Store) {
        store.process_name = Some(self.process_name.clone());
        store.backend.clone_from(&self.backend);
        store.rank_world = Some(RankWorld { rank: self.rank, world_size: self.world_size });
        store.thread_names.extend(self.thread_names.clone());
        // Checked again: it goes into the document as it is.
        let valid = |(_, json): &&(String, String)| serde_json::from_str::<serde_json::Value>(json).is_ok();
        let free = |(key, _): &&(String, String)| !RESERVED_METADATA.contains(&key.as_str());
        store.metadata = self.metadata.iter().filter(free).filter(valid).cloned().collect();
        store.gpu_info = self.gpu_info.clone().map(Arc::new);
        store.gpu_report.clone_from(&self.gpu_report);
        store.counts.dropped += self.dropped;
        store.counts.repaired_texts += self.repaired_texts;
    }

    /// The caller has named the thread.
    pub(super) fn names(&self, thread: u64) -> bool {
        self.thread_names.contains_key(&thread)
    }

    pub(super) fn host_name(&self) -> &str {
        &self.host_name
    }

    pub(super) fn recorded(&self) -> RecordCounts {
        RecordCounts {
            dropped: self.record_dropped,
            unmatched: self.record_unmatched,
            overwritten_chunks: self.record_overwritten,
        }
    }
}
