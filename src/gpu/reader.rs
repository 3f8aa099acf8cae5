//! CUPTI's records, one buffer after the other.

use std::collections::HashMap;
use std::sync::Arc;

use super::collector::{Asked, GpuKinds, Reader};
use super::cupti::{Cupti, kind};
use super::intake::Intake;
use super::names::{self, CallNames, DRIVER_DOMAIN, MemoryNames, RUNTIME_DOMAIN};
use super::records::{Api, Context, External, Kernel, Marker, Memcpy, Memset, Overhead, Peer, Sync};
use super::texts::Texts;
use crate::model::event::{GpuActivity, GpuDetails, GpuKind, Instant, Op, OpKind};
use crate::model::store::Store;

/// Records read before other threads get their turn at the store.
const RUN: usize = 1024;
/// CUPTI's answer at the end of a buffer.
const NO_MORE: i32 = 12;
/// The kind of external ids that tptrace pushes: CUSTOM0.
pub(super) const EXTERNAL_KIND: u32 = 3;
/// Ids of ops that were NVTX ranges: no caller's, and exact in JavaScript.
const MARKER_IDS: u64 = 1 << 52;

/// A range of NVTX's whose end is still to come.
#[derive(Debug)]
struct Open {
    time: i64,
    thread: u64,
    name: usize,
}

/// Reads the records of one collection.
#[derive(Debug)]
pub(super) struct CuptiReader {
    cupti: Cupti,
    asked: Asked,
    texts: Texts,
    calls: CallNames,
    memory: MemoryNames,
    /// Bytes of a record by its kind, seen between two records: what follows the last one of a buffer may be a torn one.
    strides: [usize; 128],
    /// Devices by context.
    contexts: HashMap<u32, u32>,
    /// Synchronisations in contexts that nothing is known of yet.
    waiting: Vec<Waiting>,
    open: HashMap<u32, Open>,
    markers: u64,
}

#[derive(Debug)]
struct Waiting {
    what: u32,
    times: (i64, i64),
    correlation: u32,
    context: u32,
    stream: u32,
    event: u32,
}

impl CuptiReader {
    pub(super) fn new(cupti: Cupti, asked: Asked) -> Self {
        Self {
            cupti,
            asked,
            texts: Texts::default(),
            calls: CallNames::default(),
            memory: MemoryNames::default(),
            strides: [0; 128],
            contexts: HashMap::new(),
            waiting: Vec::new(),
            open: HashMap::new(),
            markers: 0,
        }
    }
}

fn kind_of(record: &[u8]) -> u32 {
    record.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

impl Reader for CuptiReader {
    fn read(&mut self, bytes: &[u8], intake: &mut Intake) {
        let shared = Arc::clone(&intake.shared);
        self.texts.forget_addresses();
        let cupti = self.cupti;
        let mut walk = Walk { cupti: &cupti, bytes, next: std::ptr::null_mut() };
        let mut record = walk.next();
        while record.is_ok() {
            let mut store = shared.lock();
            for _ in 0..RUN {
                let Ok(start) = record else { break };
                record = walk.next();
                let rest = &bytes[start..record.unwrap_or(bytes.len())];
                let kind = kind_of(rest);
                let rest = match record {
                    Ok(_) => {
                        if let Some(stride) = self.strides.get_mut(kind as usize) {
                            *stride = rest.len();
                        }
                        rest
                    }
                    Err(_) => self.last(kind, rest, intake),
                };
                self.take(kind, rest, &mut store, intake);
            }
        }
        // An end that is none: a kind that CUPTI itself does not know, or a record outside of the buffer.
        intake.report.torn_buffers += u64::from(record != Err(NO_MORE));
    }

    fn finish(&mut self, intake: &mut Intake) {
        let shared = Arc::clone(&intake.shared);
        let mut store = shared.lock();
        let only = self.contexts.values().next().copied();
        for waiting in std::mem::take(&mut self.waiting) {
            let device = self.contexts.get(&waiting.context).copied().or(only).unwrap_or(0);
            add_sync(&waiting, device, &mut store, intake);
        }
        intake.report.no_times += self.open.len() as u64;
        self.open.clear();
    }
}

/// The offsets of a buffer's records, as CUPTI tells them.
struct Walk<'a> {
    cupti: &'a Cupti,
    bytes: &'a [u8],
    next: *mut u8,
}

impl Walk<'_> {
    #[inline]
    fn next(&mut self) -> Result<usize, i32> {
        let base = self.bytes.as_ptr().cast_mut();
        let before = self.next;
        // SAFETY: the driver works; CUPTI reads the buffer, whose records it wrote, and writes the place, which is ours.
        let code = unsafe { (self.cupti.call.next_record)(base, self.bytes.len(), &raw mut self.next) };
        if code != 0 {
            return Err(code);
        }
        let offset = (self.next as usize).wrapping_sub(base as usize);
        let forward = before.is_null() || self.next > before;
        if forward && offset < self.bytes.len() { Ok(offset) } else { Err(i32::MAX) }
    }
}

impl CuptiReader {
    /// The last record of a buffer without what follows it: by its kind's size if that was seen, else as far as every
    /// version has it.
    fn last<'a>(&self, kind: u32, rest: &'a [u8], intake: &mut Intake) -> &'a [u8] {
        let stride = self.strides.get(kind as usize).copied().unwrap_or(0);
        let known = if stride > 0 { stride } else { self.cupti.size_of(kind).unwrap_or(rest.len()) };
        if rest.len() != known {
            intake.report.torn_buffers += 1;
        }
        &rest[..known.min(rest.len())]
    }

    fn take(&mut self, kind: u32, record: &[u8], store: &mut Store, intake: &mut Intake) {
        let needs = match kind {
            kind::KERNEL => GpuKinds::KERNEL,
            kind::MEMCPY | kind::PEER => GpuKinds::MEMCPY,
            kind::MEMSET => GpuKinds::MEMSET,
            kind::RUNTIME => GpuKinds::RUNTIME,
            kind::DRIVER => GpuKinds::DRIVER,
            kind::OVERHEAD => GpuKinds::OVERHEAD,
            kind::SYNC => GpuKinds::SYNC,
            kind::EXTERNAL => GpuKinds::EXTERNAL,
            kind::MARKER => GpuKinds::MARKER,
            kind::CONTEXT => {
                if let Some(context) = Context::of(record) {
                    self.contexts.insert(context.id(), context.device());
                }
                return;
            }
            // Those that some versions send unasked.
            kind::DEVICE | kind::NAME | kind::STREAM | kind::MARKER_DATA => {
                intake.report.unasked += 1;
                return;
            }
            _ => {
                intake.report.unknown += 1;
                return;
            }
        };
        if !self.asked.kinds.has(needs) {
            intake.report.unasked += 1;
            return;
        }
        let read = match kind {
            kind::KERNEL => Kernel::of(record).map(|record| self.kernel(&record, store, intake)),
            kind::RUNTIME => Api::of(record).map(|record| self.call(RUNTIME_DOMAIN, &record, store, intake)),
            kind::DRIVER => Api::of(record).map(|record| self.call(DRIVER_DOMAIN, &record, store, intake)),
            kind::EXTERNAL => External::of(record).map(|record| external(&record, store, intake)),
            kind::MEMCPY => Memcpy::of(record).map(|record| self.copy(&record, store, intake)),
            kind::PEER => Peer::of(record).map(|record| self.peer(&record, store, intake)),
            kind::MEMSET => Memset::of(record).map(|record| self.fill(&record, store, intake)),
            kind::SYNC => Sync::of(record).map(|record| self.sync(&record, store, intake)),
            kind::OVERHEAD => Overhead::of(record).map(|record| overhead(&record, store, intake)),
            _ => Marker::of(record).map(|record| self.marker(&record, store, intake)),
        };
        intake.report.torn_buffers += u64::from(read.is_none());
    }

    fn kernel(&mut self, record: &Kernel<'_>, store: &mut Store, intake: &mut Intake) {
        self.contexts.entry(record.context()).or_insert(record.device());
        let Some((start_ns, end_ns)) = intake.times(record.start(), record.end()) else { return };
        let name = match self.texts.get(record.name()) {
            Some(name) => self.texts.text(name),
            None => {
                intake.report.unnamed += 1;
                "kernel without a name"
            }
        };
        let cluster = [record.clusterX(), record.clusterY(), record.clusterZ()].map(|size| size.unwrap_or(0));
        let details = GpuDetails {
            grid: Some([record.grid_x(), record.grid_y(), record.grid_z()]),
            block: Some([record.block_x(), record.block_y(), record.block_z()]),
            registers_per_thread: Some(record.registers().into()),
            shared_memory: Some(record.static_shared().wrapping_add(record.dynamic_shared())),
            priority: record.priority(),
            cluster: (cluster[0] > 0).then_some(cluster),
            ..placed(record.context(), record.graph(), record.graph_node(), record.channel(), record.channel_type())
        };
        let added = store.add_collected(&GpuActivity {
            name: name.into(),
            kind: GpuKind::Kernel,
            start_ns,
            end_ns,
            device: record.device().into(),
            stream: record.stream().into(),
            correlation_id: u64::from(record.correlation()).into(),
            details,
            ..GpuActivity::default()
        });
        intake.report.kernels += u64::from(added.is_ok());
    }

    fn call(&mut self, domain: i32, record: &Api<'_>, store: &mut Store, intake: &mut Intake) {
        let callback = record.callback();
        if !self.asked.all_calls && !names::is_kept(domain, callback) {
            intake.report.filtered += 1;
            return;
        }
        let Some((start_ns, end_ns)) = intake.times(record.start(), record.end()) else { return };
        let cupti = &self.cupti;
        let name = self.calls.get(domain, callback, || cupti.callback_name(domain, callback));
        let result = record.result();
        let added = store.add_collected(&GpuActivity {
            name: name.into(),
            kind: if domain == DRIVER_DOMAIN { GpuKind::Driver } else { GpuKind::Runtime },
            start_ns,
            end_ns,
            correlation_id: u64::from(record.correlation()).into(),
            os_thread: record.thread().into(),
            callback_id: callback,
            details: GpuDetails { result: (result != 0).then_some(result), ..GpuDetails::default() },
            ..GpuActivity::default()
        });
        let calls =
            if domain == DRIVER_DOMAIN { &mut intake.report.driver_calls } else { &mut intake.report.runtime_calls };
        *calls += u64::from(added.is_ok());
    }

    fn copy(&mut self, record: &Memcpy<'_>, store: &mut Store, intake: &mut Intake) {
        self.contexts.entry(record.context()).or_insert(record.device());
        let Some((start_ns, end_ns)) = intake.times(record.start(), record.end()) else { return };
        let added = store.add_collected(&GpuActivity {
            name: self.memory.copy(record.copy_kind(), record.source(), record.target()).into(),
            kind: GpuKind::Memcpy,
            start_ns,
            end_ns,
            device: record.device().into(),
            stream: record.stream().into(),
            correlation_id: u64::from(record.correlation()).into(),
            bytes: record.bytes().into(),
            copy_kind: record.copy_kind().into(),
            details: placed(
                record.context(),
                record.graph(),
                record.graph_node(),
                record.channel(),
                record.channel_type(),
            ),
            ..GpuActivity::default()
        });
        intake.report.memcpys += u64::from(added.is_ok());
    }

    fn peer(&mut self, record: &Peer<'_>, store: &mut Store, intake: &mut Intake) {
        self.contexts.entry(record.context()).or_insert(record.device());
        let Some((start_ns, end_ns)) = intake.times(record.start(), record.end()) else { return };
        let details = GpuDetails {
            peer: Some([record.origin(), record.origin_context(), record.goal(), record.goal_context()]),
            ..placed(record.context(), record.graph(), record.graph_node(), record.channel(), record.channel_type())
        };
        let added = store.add_collected(&GpuActivity {
            name: self.memory.copy(record.copy_kind(), record.source(), record.target()).into(),
            kind: GpuKind::Memcpy,
            start_ns,
            end_ns,
            device: record.device().into(),
            stream: record.stream().into(),
            correlation_id: u64::from(record.correlation()).into(),
            bytes: record.bytes().into(),
            copy_kind: record.copy_kind().into(),
            details,
            ..GpuActivity::default()
        });
        intake.report.memcpys += u64::from(added.is_ok());
    }

    fn fill(&mut self, record: &Memset<'_>, store: &mut Store, intake: &mut Intake) {
        self.contexts.entry(record.context()).or_insert(record.device());
        let Some((start_ns, end_ns)) = intake.times(record.start(), record.end()) else { return };
        let added = store.add_collected(&GpuActivity {
            name: self.memory.fill(record.memory()).into(),
            kind: GpuKind::Memset,
            start_ns,
            end_ns,
            device: record.device().into(),
            stream: record.stream().into(),
            correlation_id: u64::from(record.correlation()).into(),
            bytes: record.bytes().into(),
            value: record.value(),
            details: placed(
                record.context(),
                record.graph(),
                record.graph_node(),
                record.channel(),
                record.channel_type(),
            ),
            ..GpuActivity::default()
        });
        intake.report.memsets += u64::from(added.is_ok());
    }

    fn sync(&mut self, record: &Sync<'_>, store: &mut Store, intake: &mut Intake) {
        let Some(times) = intake.times(record.start(), record.end()) else { return };
        let sync = Waiting {
            what: record.what(),
            times,
            correlation: record.correlation(),
            context: record.context(),
            stream: record.stream(),
            event: record.event(),
        };
        match self.contexts.get(&sync.context) {
            Some(&device) => add_sync(&sync, device, store, intake),
            None => self.waiting.push(sync),
        }
    }

    fn marker(&mut self, record: &Marker<'_>, store: &mut Store, intake: &mut Intake) {
        const INSTANT: u32 = 1;
        const START: u32 = 1 << 1;
        const END: u32 = 1 << 2;
        /// The marker's object is a thread.
        const THREAD: u32 = 2;
        let Some((time, _)) = intake.times(record.time(), record.time()) else { return };
        let thread = if record.object() == THREAD { u64::from(record.thread()) } else { 0 };
        let flags = record.flags();
        if flags & END != 0 {
            // One without a start began before the collection.
            let Some(open) = self.open.remove(&record.id()) else {
                intake.report.no_times += 1;
                return;
            };
            self.markers += 1;
            let added = store.add_op(&Op {
                name: self.texts.text(open.name).into(),
                kind: OpKind::UserAnnotation,
                start_ns: open.time,
                end_ns: time,
                thread_id: open.thread,
                id: Some(MARKER_IDS + self.markers),
                ..Op::default()
            });
            intake.report.markers += u64::from(added.is_ok());
            return;
        }
        let Some(name) = self.texts.get(record.name()) else {
            intake.report.unnamed += 1;
            return;
        };
        if flags & START != 0 {
            self.open.insert(record.id(), Open { time, thread, name });
        } else if flags & INSTANT != 0 {
            let name = self.texts.text(name).into();
            let added = store.add_instant(&Instant { name, time_ns: time, thread_id: thread, ..Instant::default() });
            intake.report.markers += u64::from(added.is_ok());
        } else {
            intake.report.unknown += 1;
        }
    }
}

/// What is known of where work ran.
#[inline]
fn placed(context: u32, graph: u32, node: u64, channel: u32, channel_type: u32) -> GpuDetails {
    GpuDetails {
        context: Some(context),
        graph_id: (graph != 0).then_some(graph),
        graph_node_id: (node != 0).then_some(node),
        channel: (channel_type != 0).then_some([channel, channel_type]),
        ..GpuDetails::default()
    }
}

fn external(record: &External<'_>, store: &mut Store, intake: &mut Intake) {
    if record.kind() == EXTERNAL_KIND {
        store.add_link(record.correlation().into(), record.id());
        intake.report.links += 1;
    } else {
        intake.report.unasked += 1;
    }
}

fn overhead(record: &Overhead<'_>, store: &mut Store, intake: &mut Intake) {
    let Some((start_ns, end_ns)) = intake.times(record.start(), record.end()) else { return };
    let name = names::overhead(record.what()).into();
    let kind = GpuKind::Overhead;
    let added = store.add_collected(&GpuActivity { name, kind, start_ns, end_ns, ..GpuActivity::default() });
    intake.report.overheads += u64::from(added.is_ok());
}

fn add_sync(sync: &Waiting, device: u32, store: &mut Store, intake: &mut Intake) {
    // All ones: of no stream, and of no event.
    let some = |number: u32| (number != u32::MAX).then_some(number);
    let added = store.add_collected(&GpuActivity {
        name: names::sync(sync.what).into(),
        kind: GpuKind::Sync,
        start_ns: sync.times.0,
        end_ns: sync.times.1,
        device: device.into(),
        stream: some(sync.stream).map_or(-1, i64::from),
        correlation_id: u64::from(sync.correlation).into(),
        copy_kind: sync.what.into(),
        details: GpuDetails {
            context: Some(sync.context),
            event: some(sync.event).filter(|_| sync.what == 1 || sync.what == 2),
            ..GpuDetails::default()
        },
        ..GpuActivity::default()
    });
    intake.report.syncs += u64::from(added.is_ok());
}
