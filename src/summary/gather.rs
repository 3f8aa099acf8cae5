//! The pass over the events: what each thread notes of them.

use hashbrown::HashMap;

use foldhash::fast::FixedState;

use super::kinds::{self, GPU, MEMORY};
use super::report::EventCounts;
use crate::error::Result;
use crate::read::args;
use crate::read::event::{Event, Span};
use crate::read::names::{LaneKey, Names, OTHER, Shared};
use crate::read::nest::{At, MAX_TIME, Mark, Shards, time_word};
use crate::read::sorter::{Sorted, Sorter};
use crate::read::time::parse_ns;
use crate::sync::Mutex;

/// The names that documents give to processes and lanes, of those that are kept.
const MAX_LABELS: usize = 1 << 17;

/// What a thread has noted.
pub(super) struct Gathered<S, T> {
    pub(super) counts: EventCounts,
    /// Slices, by lane.
    pub(super) slices: S,
    /// GPU work and memory events, by time.
    pub(super) gpu: T,
    pub(super) memory: T,
    /// From the first event to the last end, of each process.
    pub(super) spans: HashMap<u32, (i64, i64), FixedState>,
    /// Names of processes and of lanes.
    pub(super) processes: HashMap<u32, String, FixedState>,
    pub(super) lanes: HashMap<u32, String, FixedState>,
}

/// When all is read.
pub(super) type Done = Gathered<Vec<Sorted<4>>, Sorted<4>>;

/// One thread's notes.
pub(super) struct Gatherer<'s> {
    names: Names<'s>,
    notes: Gathered<Shards, Sorter<4>>,
}

/// A time in nanoseconds, within bounds.
#[inline]
pub(super) fn time(bytes: &[u8], span: Span) -> Option<i64> {
    let limit = i128::from(MAX_TIME);
    Some(parse_ns(span.get(bytes)?)?.clamp(-limit, limit) as i64)
}

impl<'s> Gatherer<'s> {
    /// `bytes`: memory for sorting.
    pub(super) fn new(shared: &'s Mutex<Shared>, shards: usize, bytes: usize) -> Self {
        Self {
            names: Names::new(shared, kinds::flags),
            notes: Gathered {
                counts: EventCounts::default(),
                slices: Shards::new(shards, bytes / 2),
                gpu: Sorter::new(bytes / 4),
                memory: Sorter::new(bytes / 4),
                spans: HashMap::default(),
                processes: HashMap::default(),
                lanes: HashMap::default(),
            },
        }
    }

    pub(super) fn finish(self) -> Result<Done> {
        let Gathered { counts, slices, gpu, memory, spans, processes, lanes } = self.notes;
        let (slices, gpu, memory) = (slices.sorted()?, gpu.sorted()?, memory.sorted()?);
        Ok(Gathered { counts, slices, gpu, memory, spans, processes, lanes })
    }

    /// Notes an event. `base`: where in the document the piece starts.
    pub(super) fn event(&mut self, document: usize, base: u64, bytes: &[u8], event: &Event) -> Result<()> {
        let offset = base + u64::from(event.start);
        let phase = event.phase(bytes);
        self.notes.counts.all += 1;
        match phase {
            b'X' => self.slice(document, offset, bytes, event),
            b'B' | b'E' => {
                let Some(ts) = time(bytes, event.ts) else {
                    self.notes.counts.untimed += 1;
                    return Ok(());
                };
                let (lane, process) = self.names.lane(document, bytes, event);
                let (mark, name) = match phase {
                    b'B' => (Mark::Begin, self.names.name(bytes, event).0),
                    _ => (Mark::End, self.names.end(bytes, event)),
                };
                self.span(process, ts, ts);
                self.notes.slices.push(&At { lane, ts, mark, name, offset })
            }
            b'i' | b'I' | b'R' => {
                self.notes.counts.instants += 1;
                self.instant(document, offset, bytes, event)
            }
            b'C' => {
                self.notes.counts.counters += 1;
                Ok(())
            }
            b's' | b't' | b'f' => {
                self.notes.counts.flow_ends += 1;
                Ok(())
            }
            b'M' => {
                self.notes.counts.metadata += 1;
                self.label(document, bytes, event);
                Ok(())
            }
            _ => {
                self.notes.counts.others += 1;
                Ok(())
            }
        }
    }

    #[inline]
    fn span(&mut self, process: u32, from: i64, to: i64) {
        let span = self.notes.spans.entry(process).or_insert((from, to));
        *span = (span.0.min(from), span.1.max(to));
    }

    #[inline]
    fn slice(&mut self, document: usize, offset: u64, bytes: &[u8], event: &Event) -> Result<()> {
        let (name, flags) = self.names.name(bytes, event);
        if flags & MEMORY != 0 {
            // TensorPlay's are slices of a nanosecond.
            self.memory(document, offset, bytes, event)?;
        }
        let duration = time(bytes, event.dur).filter(|&duration| duration >= 0);
        let (Some(ts), Some(duration)) = (time(bytes, event.ts), duration) else {
            self.notes.counts.untimed += 1;
            return Ok(());
        };
        let (lane, process) = self.names.lane(document, bytes, event);
        self.span(process, ts, ts + duration);
        if flags & GPU != 0 {
            let stream = args::get(bytes, event, "stream").unwrap_or(event.tid.of(bytes));
            let stream = self.names.stream(document, event.pid.of(bytes), stream);
            let rest = (offset & ((1 << 40) - 1)) << 24 | u64::from(name);
            self.notes.gpu.push([time_word(ts), !(duration as u64), u64::from(stream), rest])?;
        }
        self.notes.slices.push(&At { lane, ts, mark: Mark::Slice(duration), name, offset })
    }

    fn instant(&mut self, document: usize, offset: u64, bytes: &[u8], event: &Event) -> Result<()> {
        if event.name.of(bytes) == b"\"[memory]\"" {
            return self.memory(document, offset, bytes, event);
        }
        if let Some(ts) = time(bytes, event.ts) {
            let (_, process) = self.names.lane(document, bytes, event);
            self.span(process, ts, ts);
        }
        Ok(())
    }

    /// An allocation, as Kineto writes it (with totals) and as TensorPlay does.
    fn memory(&mut self, document: usize, offset: u64, bytes: &[u8], event: &Event) -> Result<()> {
        self.notes.counts.memory += 1;
        let Some(ts) = time(bytes, event.ts) else {
            self.notes.counts.untimed += 1;
            return Ok(());
        };
        let (mut size, mut free, mut allocated, mut reserved) = (0i64, false, None, None);
        let (mut kind, mut number, mut device) = (None, None, None);
        let int = |raw: &[u8]| std::str::from_utf8(raw).ok().and_then(|text| text.parse::<i64>().ok());
        args::each(bytes, event, |key, value| {
            match key {
                b"Bytes" => size = int(value).unwrap_or(0),
                b"Allocation Type" => free = value == b"\"free\"",
                b"Total Allocated" => allocated = int(value),
                b"Total Reserved" => reserved = int(value),
                b"Device Type" => kind = int(value),
                b"Device Id" => number = int(value),
                b"Device" => device = Some(value),
                _ => {}
            }
            true
        });
        let change = if free { size.saturating_abs().saturating_neg() } else { size };
        let own: String;
        let device = match (device, kind, number) {
            (Some(device), ..) => device,
            (None, Some(0), _) => b"cpu",
            (None, Some(kind), Some(number)) => {
                own = if kind == 1 { format!("cuda:{number}") } else { format!("type {kind}:{number}") };
                own.as_bytes()
            }
            _ => b"unknown",
        };
        let device = self.names.device(document, event.pid.of(bytes), device);
        let word = time_word;
        let rest = (offset & ((1 << 40) - 1)) << 2;
        let stated = u64::from(allocated.is_some());
        let value = allocated.unwrap_or(change);
        let sign = u64::from(change < 0);
        self.notes.memory.push([word(ts), rest | stated, u64::from(device) << 1 | sign, word(value)])?;
        // Reserved bytes are a record of their own, which follows.
        if let Some(reserved) = reserved {
            self.notes.memory.push([word(ts), rest | 2, u64::from(device) << 1, word(reserved)])?;
        }
        let (_, process) = self.names.lane(document, bytes, event);
        self.span(process, ts, ts);
        Ok(())
    }

    /// The name of a process or a lane.
    fn label(&mut self, document: usize, bytes: &[u8], event: &Event) {
        let name = event.name.of(bytes);
        let process_name = name == b"\"process_name\"";
        if !process_name && name != b"\"thread_name\"" {
            return;
        }
        let Some(label) = args::get(bytes, event, "name").and_then(args::text) else { return };
        let (lane, process) = self.names.lane(document, bytes, event);
        let (labels, number) =
            if process_name { (&mut self.notes.processes, process) } else { (&mut self.notes.lanes, lane) };
        if number != OTHER && (labels.len() < MAX_LABELS || labels.contains_key(&number)) {
            labels.insert(number, label);
        }
    }
}

/// The process of a stream or device.
pub(super) fn process(list: &[LaneKey], number: u32) -> u32 {
    list.get(number as usize).map_or(OTHER, |key| key.process)
}
