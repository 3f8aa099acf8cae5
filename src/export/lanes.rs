//! Which process and lane (`pid`, `tid`) each event is drawn in.
//!
//! The numbers are the reference's: lanes count from 0 in the order of first use, over all processes: the threads of
//! the ops, then the GPU activities' threads and streams, then those of memory events and samples.

use std::collections::HashMap;

use super::overlap::Moves;
use crate::model::record::GpuLane;
use crate::model::snapshot::Snapshot;

/// The process of all CPU lanes.
pub(super) const CPU_PID: i64 = 0;
/// The process of device 0; the others follow.
pub(super) const GPU_PID_BASE: i64 = 1_000_000;

/// What a lane shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Thread(u64),
    Api(u64),
    Stream { device: i64, stream: i64 },
    Sync { device: i64, stream: i64 },
    Overhead,
}

impl From<GpuLane> for Key {
    fn from(lane: GpuLane) -> Self {
        match lane {
            GpuLane::Api { os_thread } => Key::Api(os_thread),
            GpuLane::Stream { device, stream } => Key::Stream { device, stream },
            GpuLane::Sync { device, stream } => Key::Sync { device, stream },
            GpuLane::Overhead => Key::Overhead,
        }
    }
}

impl Key {
    fn pid(self) -> i64 {
        match self {
            Key::Thread(_) | Key::Api(_) | Key::Overhead => CPU_PID,
            Key::Stream { device, .. } | Key::Sync { device, .. } => GPU_PID_BASE.saturating_add(device.max(0)),
        }
    }
}

/// Where an event is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Lane {
    pub(super) pid: i64,
    pub(super) tid: u32,
}

/// The metadata of a lane.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LaneInfo {
    pub(super) lane: Lane,
    pub(super) name: Option<String>,
    pub(super) sort_index: u32,
}

/// All lanes of a document.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    /// By the number that ops store; likewise the others.
    pub(super) op: Vec<Lane>,
    pub(super) gpu: Vec<Lane>,
    pub(super) memory: Vec<Lane>,
    pub(super) sample: Vec<Lane>,
    pub(super) instant: Vec<Lane>,
    /// Lanes with something to say, by process and number.
    pub(super) infos: Vec<LaneInfo>,
    /// The devices' processes, ascending.
    pub(super) gpu_pids: Vec<i64>,
}

impl Lanes {
    /// `name_threads`: also name the lanes of ops, which the reference leaves without a name.
    pub(super) fn new(snapshot: &Snapshot, name_threads: bool) -> Self {
        let mut numbers = HashMap::<Key, u32>::new();
        let mut order = Vec::new();
        let mut lane = |key: Key| {
            let tid = *numbers.entry(key).or_insert_with(|| {
                order.push(key);
                (order.len() - 1) as u32
            });
            Lane { pid: key.pid(), tid }
        };
        let op = snapshot.op_threads.iter().map(|&id| lane(Key::Thread(id))).collect();
        let gpu = snapshot.gpu_lanes.iter().map(|&key| lane(key.into())).collect();
        let memory = snapshot.memory_threads.iter().map(|&id| lane(Key::Thread(id))).collect();
        let sample = snapshot.sample_threads.iter().map(|&id| lane(Key::Api(id))).collect();
        let instant = snapshot.instant_threads.iter().map(|&id| lane(Key::Thread(id))).collect();

        let given = |id: u64| snapshot.thread_names.get(&id).cloned();
        let mut infos: Vec<LaneInfo> = (0..)
            .zip(&order)
            .map(|(tid, &key)| LaneInfo {
                lane: Lane { pid: key.pid(), tid },
                name: match key {
                    Key::Thread(id) => given(id).or_else(|| name_threads.then(|| format!("thread {id}"))),
                    Key::Api(id) => Some(given(id).unwrap_or_else(|| format!("thread {id}"))),
                    Key::Stream { stream, .. } => Some(format!("stream {stream}")),
                    Key::Sync { stream: ..0, .. } => Some("context (sync)".to_owned()),
                    Key::Sync { stream, .. } => Some(format!("stream {stream} (sync)")),
                    Key::Overhead => Some("CUPTI overhead".to_owned()),
                },
                sort_index: tid,
            })
            .collect();
        infos.sort_by_key(|info| (info.lane.pid, info.lane.tid));
        let mut gpu_pids: Vec<i64> = order.iter().map(|key| key.pid()).filter(|&pid| pid != CPU_PID).collect();
        gpu_pids.sort_unstable();
        gpu_pids.dedup();
        Self { op, gpu, memory, sample, instant, infos, gpu_pids }
    }

    /// Makes the extra lanes of overlapping slices: each beside its own lane, by name and by sort index.
    pub(super) fn add_extra(&mut self, ops: &mut Moves, gpu: &mut Moves) {
        let mut next = self.infos.len() as u32;
        for (moves, lanes) in [(ops, &self.op), (gpu, &self.gpu)] {
            for (lane, levels) in moves.levels() {
                let base = lanes[lane as usize];
                let name = self.infos.iter().find(|info| info.lane == base).and_then(|info| info.name.clone());
                let name = name.unwrap_or_else(|| format!("lane {}", base.tid));
                for level in 1..=levels {
                    let extra = Lane { pid: base.pid, tid: next };
                    next += 1;
                    moves.set_lane(lane, level, extra);
                    let name = Some(format!("{name} (overlap {level})"));
                    self.infos.push(LaneInfo { lane: extra, name, sort_index: base.tid });
                }
            }
        }
        self.infos.sort_by_key(|info| (info.lane.pid, info.lane.tid));
    }
}
