//! Which process and lane (`pid`, `tid`) each event is drawn in.
//!
//! The numbers are the reference's: lanes count from 0 in the order of first use, over all processes: the threads of
//! the ops, then the GPU activities' threads and streams, then those of memory events and samples.
//!
//! Not so in the torch format of a trace that was recorded live, whose threads are known by the system's numbers: there
//! a thread has one lane for all that is its own, and the lane has the thread's number.

use std::collections::{HashMap, HashSet};

use super::overlap::Moves;
use crate::model::record::GpuLane;
use crate::model::snapshot::Snapshot;

/// The process of all CPU lanes.
pub(super) const CPU_PID: i64 = 0;
/// The process of device 0; the others follow.
pub(super) const GPU_PID_BASE: i64 = 1_000_000;

/// Numbers of threads are smaller than this; a larger one is an address or the like.
const MAX_THREAD: u32 = 1 << 30;

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Lane {
    pub(super) pid: i64,
    pub(super) tid: u32,
    /// Its place among all lanes: smaller than their number.
    pub(super) number: u32,
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
    /// `name_threads`: also name the lanes of ops, which the reference leaves without a name. `by_thread`: one lane for a
    /// thread, with its number.
    pub(super) fn new(snapshot: &Snapshot, name_threads: bool, by_thread: bool) -> Self {
        let own = |id: u64| u32::try_from(id).ok().filter(|&id| by_thread && id < MAX_THREAD);
        let api = snapshot.gpu_lanes.iter().filter_map(|lane| match lane {
            GpuLane::Api { os_thread } => Some(os_thread),
            _ => None,
        });
        let threads = snapshot.op_threads.iter().chain(&snapshot.memory_threads).chain(&snapshot.sample_threads);
        // Numbers that are threads' own; a number is one lane's, over all processes.
        let mut taken: HashSet<u32> =
            threads.chain(&snapshot.instant_threads).chain(api).filter_map(|&id| own(id)).collect();
        let mut lanes = HashMap::<Key, Lane>::new();
        let mut order: Vec<(Key, Lane)> = Vec::new();
        let mut lane = |mut key: Key| {
            if let (true, Key::Api(id)) = (by_thread, key) {
                key = Key::Thread(id);
            }
            *lanes.entry(key).or_insert_with(|| {
                let number = order.len() as u32;
                let tid = match key {
                    Key::Thread(id) => own(id),
                    _ => None,
                };
                let tid = tid.or_else(|| (number..).find(|tid| !taken.contains(tid))).unwrap_or(number);
                taken.insert(tid);
                let lane = Lane { pid: key.pid(), tid, number };
                order.push((key, lane));
                lane
            })
        };
        let op = snapshot.op_threads.iter().map(|&id| lane(Key::Thread(id))).collect();
        let gpu = snapshot.gpu_lanes.iter().map(|&key| lane(key.into())).collect();
        let memory = snapshot.memory_threads.iter().map(|&id| lane(Key::Thread(id))).collect();
        let sample = snapshot.sample_threads.iter().map(|&id| lane(Key::Api(id))).collect();
        let instant = snapshot.instant_threads.iter().map(|&id| lane(Key::Thread(id))).collect();

        let given = |id: u64| snapshot.thread_names.get(&id).cloned();
        let mut infos: Vec<LaneInfo> = (0..)
            .zip(&order)
            .map(|(sort_index, &(key, lane))| LaneInfo {
                lane,
                name: match key {
                    Key::Thread(id) => given(id).or_else(|| name_threads.then(|| format!("thread {id}"))),
                    Key::Api(id) => Some(given(id).unwrap_or_else(|| format!("thread {id}"))),
                    Key::Stream { stream, .. } => Some(format!("stream {stream}")),
                    Key::Sync { stream: ..0, .. } => Some("context (sync)".to_owned()),
                    Key::Sync { stream, .. } => Some(format!("stream {stream} (sync)")),
                    Key::Overhead => Some("CUPTI overhead".to_owned()),
                },
                sort_index,
            })
            .collect();
        infos.sort_by_key(|info| (info.lane.pid, info.lane.tid));
        let mut gpu_pids: Vec<i64> = order.iter().map(|(_, lane)| lane.pid).filter(|&pid| pid != CPU_PID).collect();
        gpu_pids.sort_unstable();
        gpu_pids.dedup();
        Self { op, gpu, memory, sample, instant, infos, gpu_pids }
    }

    /// Greater than the tid of every lane.
    pub(super) fn end(&self) -> u32 {
        self.infos.iter().map(|info| info.lane.tid + 1).max().unwrap_or(0)
    }

    /// Lanes that ops and calls share: the number of the ops' thread, and that of the GPU activities' lane.
    pub(super) fn shared(&self) -> Vec<(u32, u32)> {
        let threads: HashMap<Lane, u32> = self.op.iter().copied().zip(0..).collect();
        (0..).zip(&self.gpu).filter_map(|(gpu, lane)| Some((*threads.get(lane)?, gpu))).collect()
    }

    /// Makes the extra lanes of overlapping slices: each beside its own lane, by name and by sort index.
    pub(super) fn add_extra(&mut self, ops: &mut Moves, gpu: &mut Moves) {
        let mut next = self.end();
        for (moves, lanes) in [(ops, &self.op), (gpu, &self.gpu)] {
            for (lane, levels) in moves.levels() {
                let base = lanes[lane as usize];
                let (name, sort_index) = (self.infos.iter().find(|info| info.lane == base))
                    .map_or((None, base.tid), |info| (info.name.clone(), info.sort_index));
                let name = name.unwrap_or_else(|| format!("lane {}", base.tid));
                for level in 1..=levels {
                    let extra = Lane { pid: base.pid, tid: next, number: self.infos.len() as u32 };
                    next += 1;
                    moves.set_lane(lane, level, extra);
                    let name = Some(format!("{name} (overlap {level})"));
                    self.infos.push(LaneInfo { lane: extra, name, sort_index });
                }
            }
        }
        self.infos.sort_by_key(|info| (info.lane.pid, info.lane.tid));
    }
}
