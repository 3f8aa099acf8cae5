//! Everything that is settled before the first byte is written, and the document's head and tail.

use super::flows::{FlowIds, Launches, Links, OpIndex, draws_launches};
use super::json::{self, Times};
use super::lanes::{CPU_PID, GPU_PID_BASE, Lane, Lanes};
use super::overlap::Moves;
use super::{ExportOptions, Format};
use crate::model::clock::{ClockAnchor, ClockDomain};
use crate::model::counts::RecordCounts;
use crate::model::event::Int;
use crate::model::gpu::{GpuDevice, GpuLibrary};
use crate::model::identity::RankWorld;
use crate::model::intern::Id;
use crate::model::record::{GpuRecord, OpRecord};
use crate::model::snapshot::Snapshot;

/// `distributedInfo.backend` where the caller gave none: the reference's.
const BACKEND: &str = "tensorplay.distributed";

/// Where the trace's clock stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockInfo {
    pub(crate) base_ns: i64,
    pub(crate) domain: ClockDomain,
    pub(crate) anchor: ClockAnchor,
}

/// Prints a value.
type Write<'a> = dyn Fn(&mut Vec<u8>) + 'a;

/// A text as it stands inside a string.
fn escaped(snapshot: &Snapshot, id: Id) -> String {
    let mut out = Vec::new();
    json::inside(&mut out, snapshot.texts.get(id));
    String::from_utf8_lossy(&out).into_owned()
}

/// A snapshot with all decisions made.
#[derive(Debug)]
pub(super) struct Document<'a> {
    pub(super) snapshot: &'a Snapshot,
    pub(super) lanes: Lanes,
    pub(super) times: Times,
    pub(super) op_index: OpIndex,
    pub(super) launches: Option<Launches>,
    links: Links,
    /// `None`: the reference's ids, the correlation ids as they are.
    pub(super) flow_ids: Option<FlowIds>,
    pub(super) op_moves: Moves,
    /// The categories of ops that have another one than their kind's, escaped.
    pub(super) categories: Vec<String>,
    pub(super) gpu_moves: Moves,
    options: &'a ExportOptions,
    pub(super) clock: ClockInfo,
    pub(super) process_name: String,
}

impl<'a> Document<'a> {
    pub(super) fn new(snapshot: &'a Snapshot, clock: ClockInfo, options: &'a ExportOptions) -> Self {
        // Perfetto drops events before the base: the base gives way.
        let earliest = if options.as_reference { None } else { snapshot.span.first };
        let clock = ClockInfo { base_ns: earliest.map_or(clock.base_ns, |first| first.min(clock.base_ns)), ..clock };
        let name_threads = options.format != Format::Plain && !options.as_reference;
        let by_thread = name_threads && snapshot.recording.is_some();
        let mut lanes = Lanes::new(snapshot, name_threads, by_thread);
        let (mut op_moves, mut gpu_moves) = (Moves::default(), Moves::default());
        if options.separate_overlaps {
            op_moves = Moves::find(&snapshot.ops, snapshot.op_threads.len());
            let (calls, lane_count) = (&snapshot.gpu, snapshot.gpu_lanes.len());
            gpu_moves = Moves::find_beside(calls, lane_count, &snapshot.ops, &op_moves, &lanes.shared());
            lanes.add_extra(&mut op_moves, &mut gpu_moves);
        }
        Self {
            snapshot,
            lanes,
            times: Times { base: clock.base_ns, as_doubles: options.as_reference },
            op_index: OpIndex::new(snapshot),
            links: Links::new(&snapshot.links),
            launches: draws_launches(options.format).then(|| Launches::new(&snapshot.gpu)),
            flow_ids: (!options.as_reference).then(|| FlowIds::new(&snapshot.gpu)),
            op_moves,
            categories: snapshot.categories.iter().map(|&id| escaped(snapshot, id)).collect(),
            gpu_moves,
            options,
            clock,
            process_name: snapshot.process_name.clone().unwrap_or_else(crate::model::identity::program_name),
        }
    }

    /// Whether the document has what the readers of PyTorch's traces look for; Perfetto's own format has it too.
    #[inline]
    pub(super) fn is_torch(&self) -> bool {
        self.options.format != Format::Plain
    }

    /// The op that caused an activity, told by it or by its link. `hint` is where the last link was found.
    #[inline]
    pub(super) fn external_id(&self, gpu: &GpuRecord, hint: &mut usize) -> Option<Int> {
        if !gpu.is(GpuRecord::LINKED) {
            return gpu.external_id();
        }
        self.links.find(gpu.correlation, hint).map(Int::Unsigned)
    }

    /// Slices in an extra lane.
    pub(super) fn overlaps_moved(&self) -> u64 {
        self.op_moves.moved() + self.gpu_moves.moved()
    }

    /// Slices that overlap still.
    pub(super) fn overlaps_left(&self) -> u64 {
        self.op_moves.left + self.gpu_moves.left
    }

    #[inline]
    pub(super) fn op_lane(&self, index: u32, op: &OpRecord) -> Lane {
        self.op_moves.lane(index).unwrap_or(self.lanes.op[op.thread as usize])
    }

    #[inline]
    pub(super) fn gpu_lane(&self, index: u32, gpu: &GpuRecord) -> Lane {
        self.gpu_moves.lane(index).unwrap_or(self.lanes.gpu[gpu.lane as usize])
    }

    /// From `{` to the last metadata event: all that stands before the events, since readers of metadata stop there.
    pub(super) fn head(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{");
        if self.is_torch() {
            self.torch_head(out);
        }
        out.extend_from_slice(b"\"displayTimeUnit\": ");
        out.extend_from_slice(if self.is_torch() { b"\"ms\"" } else { b"\"ns\"" });
        for (key, value) in &self.snapshot.metadata {
            out.extend_from_slice(b",\n");
            json::string(out, key);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value.as_bytes());
        }
        if self.is_torch() || self.has_losses() {
            out.extend_from_slice(b",\n\"tptrace\": ");
            self.own(out);
        }
        out.extend_from_slice(b",\n\"traceEvents\": [\n");
        self.metadata_events(out);
    }

    /// What a torch document says of itself.
    fn torch_head(&self, out: &mut Vec<u8>) {
        self.torch_members(&mut |key, value| {
            json::string(out, key);
            out.extend_from_slice(b": ");
            value(out);
            out.extend_from_slice(b",\n");
        });
    }

    /// All that is said of the trace as a whole, as JSON.
    pub(super) fn members(&self, visit: &mut dyn FnMut(&str, &[u8])) {
        self.torch_members(&mut |key, value| {
            let mut json = Vec::new();
            value(&mut json);
            visit(key, &json);
        });
        self.snapshot.metadata.iter().for_each(|(key, value)| visit(key, value.as_bytes()));
        let mut own = Vec::new();
        self.own(&mut own);
        visit("tptrace", &own);
    }

    /// What a torch document says of itself, each key unless the caller set it.
    fn torch_members(&self, visit: &mut dyn FnMut(&str, &Write<'_>)) {
        let mut pair = |key: &str, value: &dyn Fn(&mut Vec<u8>)| {
            if self.snapshot.metadata.iter().all(|(set, _)| set != key) {
                visit(key, value);
            }
        };
        let flag = |value: bool| move |out: &mut Vec<u8>| out.extend_from_slice(if value { b"true" } else { b"false" });
        pair("schemaVersion", &|out| out.push(b'1'));
        let gpu = self.snapshot.gpu_info.as_deref();
        pair("deviceProperties", &|out| devices(out, gpu.map_or(&[], |gpu| &gpu.devices)));
        let version = |library: &Option<GpuLibrary>| library.as_ref().map_or(0, |one| one.version);
        for (key, version) in [
            ("cupti_version", gpu.map_or(0, |gpu| version(&gpu.cupti))),
            ("cuda_runtime_version", gpu.map_or(0, |gpu| version(&gpu.runtime))),
            ("cuda_driver_version", gpu.map_or(0, |gpu| version(&gpu.driver))),
        ] {
            if version != 0 {
                pair(key, &|out| json::integer(out, version));
            }
        }
        let RankWorld { rank, world_size } = self.snapshot.rank_world;
        if let Some(rank) = rank {
            pair("distributedInfo", &|out| {
                let world_size = world_size.unwrap_or(0);
                // The blank after each colon is what HTA looks for.
                out.extend_from_slice(
                    format!("{{\"rank\": {rank}, \"world_size\": {world_size}, \"backend\": ").as_bytes(),
                );
                json::string(out, self.snapshot.backend.as_deref().unwrap_or(BACKEND));
                out.push(b'}');
            });
        }
        pair("baseTimeNanoseconds", &|out| json::integer(out, self.clock.base_ns));
        pair("with_flops", &flag(false));
        pair("record_shapes", &flag(self.snapshot.has_shapes));
        pair("with_stack", &flag(self.snapshot.has_stacks));
        pair("traceName", &|out| json::string(out, &self.options.trace_name));
        let own_host = || hostname::get().unwrap_or_default().to_string_lossy().into_owned();
        let host = self.snapshot.host_name.clone().unwrap_or_else(own_host);
        pair("host_name", &|out| json::string(out, &host));
        pair("trace_id", &|out| json::string(out, &uuid::Uuid::new_v4().simple().to_string()));
    }

    fn has_losses(&self) -> bool {
        let counts = &self.snapshot.counts;
        let recording = self.snapshot.recording.as_ref();
        let not_recorded = recording.is_some_and(|(counts, _)| *counts != RecordCounts::default());
        let odd = self.snapshot.gpu_report.as_ref().is_some_and(|report| !report.warnings.is_empty());
        !self.options.as_reference
            && (odd
                || not_recorded
                || self.snapshot.recovered.is_some()
                || counts.dropped + counts.clamped + counts.repaired_texts + self.overlaps_left() > 0)
    }

    /// Our own part of the metadata: where the clock stands, and what was lost or changed.
    fn own(&self, out: &mut Vec<u8>) {
        let counts = &self.snapshot.counts;
        let ClockInfo { base_ns, domain, anchor } = self.clock;
        out.extend_from_slice(
            format!(
                "{{\"version\": \"{}\", \"clock\": {{\"domain\": \"{}\", \"base_ns\": {base_ns}, \
                 \"anchor_monotonic_ns\": {}, \"anchor_realtime_ns\": {}, \"uncertainty_ns\": {}}}, \
                 \"dropped\": {}, \"clamped\": {}, \"repaired_texts\": {}, \"overlaps_moved\": {}, \
                 \"overlaps_left\": {}",
                env!("CARGO_PKG_VERSION"),
                domain.name(),
                anchor.monotonic_ns,
                anchor.realtime_ns,
                anchor.uncertainty_ns,
                counts.dropped,
                counts.clamped,
                counts.repaired_texts,
                self.overlaps_moved(),
                self.overlaps_left(),
            )
            .as_bytes(),
        );
        if let Some((counts, uncertainty)) = &self.snapshot.recording {
            out.extend_from_slice(
                format!(
                    ", \"recording\": {{\"dropped\": {}, \"unmatched_ends\": {}, \"overwritten_chunks\": {}, \
                     \"clock_uncertainty_ns\": {uncertainty}}}",
                    counts.dropped, counts.unmatched, counts.overwritten_chunks
                )
                .as_bytes(),
            );
        }
        if let Some(recovered) = &self.snapshot.recovered {
            out.extend_from_slice(
                format!(
                    ", \"recovered\": {{\"journal_bytes\": {}, \"cut_bytes\": {}, \"unfinished\": {}}}",
                    recovered.journal_bytes, recovered.cut_bytes, recovered.unfinished
                )
                .as_bytes(),
            );
        }
        if let Some(report) = &self.snapshot.gpu_report {
            out.extend_from_slice(b", \"gpu\": {");
            for (name, number) in report.numbers() {
                out.extend_from_slice(format!("\"{name}\": {number}, ").as_bytes());
            }
            out.extend_from_slice(b"\"warnings\": [");
            for (index, warning) in report.warnings.iter().enumerate() {
                if index > 0 {
                    out.extend_from_slice(b", ");
                }
                json::string(out, warning);
            }
            out.extend_from_slice(b"]}");
        }
        out.push(b'}');
    }

    fn metadata_events(&self, out: &mut Vec<u8>) {
        let mut events = Metadata { out, document: self, first: true };
        events.process(CPU_PID, "CPU", CPU_PID);
        for &pid in &self.lanes.gpu_pids {
            events.process(pid, &format!("GPU {}", pid - GPU_PID_BASE), pid.saturating_add(5_000_000));
        }
        for info in &self.lanes.infos {
            if let Some(name) = &info.name {
                events.text("thread_name", info.lane, "name", name);
                events.number("thread_sort_index", info.lane, i64::from(info.sort_index));
            }
        }
    }

    /// From the last event to `}`.
    pub(super) fn tail(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(
            b",\n{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\",\"pid\":\"\",\"tid\":\"\",\"ts\":",
        );
        let span = &self.snapshot.span;
        if self.options.as_reference {
            json::float(out, span.float_last.unwrap_or(0.0) + 1.0);
        } else {
            let end = span.last.unwrap_or(self.clock.base_ns);
            self.times.timestamp(out, end.saturating_add(1000));
        }
        out.extend_from_slice(b"}\n]}\n");
    }
}

/// `deviceProperties`, as Kineto writes it.
fn devices(out: &mut Vec<u8>, devices: &[GpuDevice]) {
    out.push(b'[');
    for (index, device) in devices.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"\n{\"id\": " } else { b",\n{\"id\": " as &[u8] });
        json::integer(out, device.id);
        out.extend_from_slice(b", \"name\": ");
        json::string(out, &device.name);
        out.extend_from_slice(b", \"totalGlobalMem\": ");
        json::integer(out, device.total_memory);
        for (key, value) in &device.figures {
            out.extend_from_slice(b", ");
            json::string(out, key);
            out.extend_from_slice(b": ");
            json::integer(out, *value);
        }
        out.push(b'}');
    }
    out.push(b']');
}

/// Writes `ph: M` events.
struct Metadata<'o, 'd> {
    out: &'o mut Vec<u8>,
    document: &'d Document<'d>,
    first: bool,
}

impl Metadata<'_, '_> {
    fn process(&mut self, pid: i64, label: &str, sort_index: i64) {
        let lane = Lane { pid, tid: 0, number: 0 };
        let document = self.document;
        self.text("process_name", lane, "name", &document.process_name);
        self.text("process_labels", lane, "labels", label);
        self.number("process_sort_index", lane, sort_index);
    }

    fn open(&mut self, name: &str, lane: Lane, key: &str) {
        if !std::mem::replace(&mut self.first, false) {
            self.out.extend_from_slice(b",\n");
        }
        let base = self.document.clock.base_ns;
        let first = self.document.snapshot.span.first.unwrap_or(base);
        self.out.extend_from_slice(format!("{{\"ph\":\"M\",\"name\":\"{name}\",\"ts\":").as_bytes());
        self.document.times.timestamp(self.out, first);
        let Lane { pid, tid, .. } = lane;
        self.out.extend_from_slice(format!(",\"pid\":{pid},\"tid\":{tid},\"args\":{{\"{key}\":").as_bytes());
    }

    fn text(&mut self, name: &str, lane: Lane, key: &str, value: &str) {
        self.open(name, lane, key);
        json::string(self.out, value);
        self.out.extend_from_slice(b"}}");
    }

    fn number(&mut self, name: &str, lane: Lane, value: i64) {
        self.open(name, lane, "sort_index");
        json::integer(self.out, value);
        self.out.extend_from_slice(b"}}");
    }
}
