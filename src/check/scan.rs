//! What is wrong with events one by one, and with the text they stand in.

use super::codes::Code;
use super::notes::Notes;
use crate::error::Result;
use crate::read::args;
use crate::read::cutter::Cut;
use crate::read::event::{Elements, Event, Span};
use crate::read::json::{self, Bad, What};
use crate::read::names::{Name, Names, OTHER, Shared, fingerprint};
use crate::read::nest::{At, MAX_TIME, Mark, Shards, time_word};
use crate::read::repair;
use crate::read::simd;
use crate::read::sorter::{Record, Sorted, Sorter};
use crate::read::time::parse_ns;
use crate::read::walk::without_comma;
use crate::sync::Mutex;

/// Pids and tids from here on do not fit.
const PIDS: u64 = 1 << 32;

/// What a thread has found, and what is left to be looked at in order.
pub(super) struct Scanned<S, T> {
    pub(super) notes: Notes,
    /// Slices and the ends of flows, by lane.
    pub(super) lanes: S,
    /// The ends of flows, by flow.
    pub(super) flows: T,
    /// Events of each document.
    pub(super) events: Vec<u64>,
}

/// When all is read.
pub(super) type Done = Scanned<Vec<Sorted<4>>, Sorted<4>>;

/// One thread's work.
pub(super) struct Scanner<'s> {
    names: Names<'s>,
    /// Whether each document is a PyTorch trace, with which its readers have more demands.
    torch: &'s [bool],
    out: Scanned<Shards, Sorter<4>>,
}

/// What a thread remembers of a name and its category.
const GPU: u8 = 1;
const CPU: u8 = 2;
const LAUNCH: u8 = 4;
const OP: u8 = 8;
const BAD_STEP: u8 = 16;

fn flags(name: &Name) -> u8 {
    let kind = match name.category.as_str() {
        "kernel" | "gpu_memcpy" | "gpu_memset" => GPU,
        "cpu_op" => CPU | OP,
        "user_annotation" | "python_function" => CPU,
        "cuda_runtime" | "cuda_driver" if name.name.contains("LaunchKernel") => CPU | LAUNCH,
        "cuda_runtime" | "cuda_driver" => CPU,
        _ => 0,
    };
    let step = name.name.strip_prefix("ProfilerStep").is_some_and(|rest| {
        let digits = rest.trim_start().strip_prefix('#').map_or("", str::trim_start);
        !digits.starts_with(|c: char| c.is_ascii_digit())
    });
    kind | if step { BAD_STEP } else { 0 }
}

impl<'s> Scanner<'s> {
    /// `bytes`: memory for sorting.
    pub(super) fn new(shared: &'s Mutex<Shared>, torch: &'s [bool], shards: usize, bytes: usize) -> Self {
        Self {
            names: Names::new(shared, flags),
            torch,
            out: Scanned {
                notes: Notes::default(),
                lanes: Shards::new(shards, bytes / 4 * 3),
                flows: Sorter::new(bytes / 4),
                events: vec![0; torch.len()],
            },
        }
    }

    pub(super) fn finish(self) -> Result<Done> {
        let Scanned { notes, lanes, flows, events } = self.out;
        Ok(Scanned { notes, lanes: lanes.sorted()?, flows: flows.sorted()?, events })
    }

    /// Checks a piece.
    pub(super) fn piece(&mut self, document: usize, cut: &mut Cut) -> Result<()> {
        let Cut { ref mut bytes, mut length, offset, comma, open_end } = *cut;
        if open_end {
            length = without_comma(bytes, length);
        }
        self.encoding(document, offset, bytes, length);
        let mut elements = Elements::new(length, comma);
        loop {
            match elements.next(bytes) {
                Ok(None) => return Ok(()),
                Ok(Some(event)) => {
                    self.out.events[document] += 1;
                    self.event(document, offset, bytes, &event)?;
                }
                Err(bad) => {
                    self.out.notes.at(document, code(bad), offset + bad.at() as u64);
                    let start = elements.start_of(bytes, bad);
                    let end = repair::end_of(bytes, start, length);
                    // Always further on, whatever the damage.
                    elements.go_to(end.max(start + 1).min(length));
                    if end >= length {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Bytes that are not UTF-8, and escapes of surrogates.
    fn encoding(&mut self, document: usize, offset: u64, padded: &[u8], length: usize) {
        let bytes = &padded[..length];
        let mut from = 0;
        while let Err(error) = std::str::from_utf8(&bytes[from..]) {
            let at = from + error.valid_up_to();
            self.out.notes.at(document, Code::Utf8, offset + at as u64);
            match error.error_len() {
                Some(length) => from = at + length,
                None => break,
            }
        }
        surrogates(padded, length, |code, at| self.out.notes.at(document, code, offset + at as u64));
    }

    fn event(&mut self, document: usize, base: u64, bytes: &[u8], event: &Event) -> Result<()> {
        let offset = base + u64::from(event.start);
        let phase = event.phase(bytes);
        if bytes[event.start as usize] != b'{' {
            self.out.notes.at(document, Code::NotObject, offset);
            return Ok(());
        }
        if !phase.is_ascii_alphabetic() && !matches!(phase, b'(' | b')') || event.ph.of(bytes).first() != Some(&b'"') {
            self.out.notes.at(document, Code::NoPhase, offset);
            return Ok(());
        }
        let (number, flags) =
            if phase == b'E' { (self.names.end(bytes, event), 0) } else { self.names.name(bytes, event) };
        let notes = &mut self.out.notes;
        let mut note = |code| notes.at(document, code, offset);
        if phase != b'E' && event.name.of(bytes).first() != Some(&b'"') {
            note(Code::NoName);
        }
        if flags & BAD_STEP != 0 {
            note(Code::StepName);
        }
        if event.twice {
            note(Code::KeyTwice);
        }
        if !event.args.is_empty() && bytes[event.args.start as usize] != b'{' {
            note(Code::BadArgs);
        }
        if phase == b'M' {
            let name = event.name.of(bytes);
            if (name == b"\"process_name\"" || name == b"\"thread_name\"") && args::get(bytes, event, "name").is_none()
            {
                note(Code::LabelArgs);
            }
            return Ok(());
        }
        let ts = time(bytes, event.ts, Code::NoTs, &mut note);
        if ts.is_some_and(|ts| ts < 0) {
            note(Code::NegativeTs);
        }
        // Instants of the whole trace have no lane, and say so with an empty one.
        if !matches!(phase, b'i' | b'I' | b'R') {
            place(bytes, event, &mut note);
        }
        match phase {
            b'X' => {
                let duration = time(bytes, event.dur, Code::NoDur, &mut note);
                if duration.is_some_and(|duration| duration < 0) {
                    note(Code::NegativeDur);
                }
                if self.torch[document] {
                    torch(bytes, event, flags, &mut note);
                }
                if let (Some(ts), Some(duration @ 0..)) = (ts, duration) {
                    let (lane, _) = self.names.lane(document, bytes, event);
                    self.out.lanes.push(&At { lane, ts, mark: Mark::Slice(duration), name: number, offset })?;
                }
            }
            b'B' | b'E' => {
                if let Some(ts) = ts {
                    let (lane, _) = self.names.lane(document, bytes, event);
                    let mark = if phase == b'B' { Mark::Begin } else { Mark::End };
                    self.out.lanes.push(&At { lane, ts, mark, name: number, offset })?;
                }
            }
            b'C' => {
                let (mut any, mut all) = (false, true);
                args::each(bytes, event, |_, value| {
                    any = true;
                    all &= parse_ns(value).is_some();
                    true
                });
                if !any || !all {
                    note(Code::CounterText);
                }
            }
            b's' | b't' | b'f' => {
                if !is_flow_id(event.id.of(bytes)) {
                    note(Code::FlowId);
                }
                if let Some(ts) = ts {
                    self.flow(document, offset, bytes, event, phase, ts)?;
                }
            }
            b'b' | b'e' | b'n' | b'S' | b'F' => {
                if event.id.is_empty() && event.id2.is_empty() {
                    note(Code::AsyncId);
                } else if let (Some(ts), true) = (ts, phase != b'n') {
                    self.span(document, offset, bytes, event, phase, ts)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An end of an async span. Readers know them by category and id, those of the older kind by the name too.
    fn span(&mut self, document: usize, offset: u64, bytes: &[u8], event: &Event, phase: u8, ts: i64) -> Result<()> {
        let part = |span: Span| span.of(bytes);
        let id2 = part(event.id2);
        let old = matches!(phase, b'S' | b'F');
        let name = if old { part(event.name) } else { b"" };
        // A local id is one of its process.
        let pid = if id2.windows(5).any(|window| window == b"local") { part(event.pid) } else { b"" };
        let kind: &[u8] = if old { b"S" } else { b"b" };
        let id = [kind, &document.to_le_bytes()[..], part(event.cat), name, part(event.id), id2, pid];
        self.out.flows.push(end_of(&id, ts, if matches!(phase, b'b' | b'S') { BEGIN } else { END }, offset, document))
    }

    fn flow(&mut self, document: usize, offset: u64, bytes: &[u8], event: &Event, phase: u8, ts: i64) -> Result<()> {
        let part = |span: Span| span.of(bytes);
        let id = [&document.to_le_bytes()[..], part(event.cat), part(event.name), part(event.id), part(event.id2)];
        let kind = match phase {
            b's' => START,
            b't' => STEP,
            _ => FINISH,
        };
        self.out.flows.push(end_of(&id, ts, kind, offset, document))?;
        // Without "bp" it hangs on the next slice, which need not be around it.
        if phase != b'f' || event.bp.of(bytes) == b"\"e\"" {
            let (lane, _) = self.names.lane(document, bytes, event);
            self.out.lanes.push(&At { lane, ts, mark: Mark::Point(kind), name: OTHER, offset })?;
        }
        Ok(())
    }
}

/// Escapes of surrogates in `padded[..length]`, which is valid JSON; 16 bytes follow.
pub(super) fn surrogates(padded: &[u8], length: usize, mut note: impl FnMut(Code, usize)) {
    let mut at = 0;
    while let Some(found) = simd::backslash(padded, at, length) {
        let unit = |at: usize| {
            let hex = padded[..length].get(at..at + 6).filter(|text| text.starts_with(b"\\u"))?;
            u32::from_str_radix(std::str::from_utf8(&hex[2..]).ok()?, 16).ok()
        };
        at = found
            + match unit(found) {
                Some(0xd800..0xdc00) if unit(found + 6).is_some_and(|low| (0xdc00..0xe000).contains(&low)) => {
                    note(Code::Surrogate, found);
                    12
                }
                Some(0xd800..0xe000) => {
                    note(Code::LoneSurrogate, found);
                    6
                }
                _ => 2,
            };
    }
}

/// The kinds of ends of flows, in the order in which they stand at one time.
pub(super) const START: u8 = 0;
pub(super) const STEP: u8 = 1;
pub(super) const FINISH: u8 = 2;
/// And those of async spans.
pub(super) const BEGIN: u8 = 3;
pub(super) const END: u8 = 4;

/// The record of such an end.
fn end_of(id: &[&[u8]], ts: i64, kind: u8, offset: u64, document: usize) -> Record<4> {
    [fingerprint(id), time_word(ts), u64::from(kind), (offset & ((1 << 40) - 1)) << 24 | document as u64]
}

/// A time or duration, if it can be read.
fn time(bytes: &[u8], span: Span, absent: Code, note: &mut impl FnMut(Code)) -> Option<i64> {
    let Some(raw) = span.get(bytes) else {
        note(absent);
        return None;
    };
    let Some(ns) = parse_ns(raw) else {
        note(Code::BadTime);
        return None;
    };
    if raw[0] == b'"' {
        note(Code::TextTime);
    }
    let limit = i128::from(MAX_TIME);
    let ns = ns.clamp(-limit, limit) as i64;
    if ns.abs() >= COARSE && ns % 1000 != 0 {
        note(Code::TimePrecision);
        // What readers that take numbers for doubles make of it: slices may cross there that do not here.
        return std::str::from_utf8(raw)
            .ok()
            .and_then(|text| text.parse::<f64>().ok())
            .map(|us| (us * 1e3).round() as i64);
    }
    Some(ns)
}

/// Nanoseconds from which on microseconds with three decimals do not fit a double.
const COARSE: i64 = (1 << 43) * 1000;

/// Whether Perfetto takes it for the id of a flow.
fn is_flow_id(raw: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(raw) else { return false };
    match text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
        Some(hex) => {
            let digits = hex.strip_prefix("0x").or_else(|| hex.strip_prefix("0X")).unwrap_or(hex);
            u64::from_str_radix(digits, 16).is_ok()
        }
        None => text.parse::<i64>().is_ok(),
    }
}

/// The process and the lane.
#[inline]
fn place(bytes: &[u8], event: &Event, note: &mut impl FnMut(Code)) {
    let mut pid_zero = false;
    for (span, absent) in [(event.pid, Code::NoPid), (event.tid, Code::NoTid)] {
        match span.get(bytes) {
            None => note(absent),
            Some([b'"', ..]) => note(Code::TextPid),
            Some(raw) => {
                let number = std::str::from_utf8(raw).ok().and_then(|text| text.parse::<u64>().ok());
                match (number, absent) {
                    (Some(0), Code::NoPid) => pid_zero = true,
                    (Some(0), _) if !pid_zero => note(Code::TidZero),
                    (Some(number), _) if number < PIDS => {}
                    _ => note(Code::PidRange),
                }
            }
        }
    }
}

/// What the readers of PyTorch traces look for in a slice.
fn torch(bytes: &[u8], event: &Event, flags: u8, note: &mut impl FnMut(Code)) {
    if event.cat.of(bytes).first() != Some(&b'"') {
        return note(Code::NoCategory);
    }
    if flags & (GPU | CPU) == 0 {
        return;
    }
    let (mut stream, mut device, mut correlation, mut external) = (false, false, false, false);
    args::each(bytes, event, |key, value| {
        match key {
            b"stream" => stream = value.first() != Some(&b'-'),
            b"device" => device = true,
            b"correlation" => correlation = true,
            b"External id" => external = true,
            // Copies from device to device name both.
            b"inDevice" | b"toDevice" => (stream, device) = (true, true),
            _ => {}
        }
        true
    });
    if flags & GPU != 0 {
        if !stream {
            note(Code::NoStream);
        }
        if !device {
            note(Code::NoDevice);
        }
    } else if stream {
        note(Code::CpuStream);
    }
    if flags & (GPU | LAUNCH) != 0 && !correlation {
        note(Code::NoCorrelation);
    }
    if flags & OP != 0 && !external {
        note(Code::NoExternalId);
    }
}

fn code(bad: Bad) -> Code {
    match bad.what() {
        What::NotANumber => Code::Nan,
        What::Control => Code::Control,
        What::TrailingComma => Code::TrailingComma,
        What::Depth => Code::Depth,
        What::Utf8 => Code::Utf8,
        What::End => Code::Truncated,
        _ => Code::BadJson,
    }
}

/// The same for an error of a whole document.
pub(super) fn code_of_text(what: &str) -> Code {
    let all: [(&str, Code); 6] = [
        (json::What::Depth.text(), Code::Depth),
        (json::What::NotANumber.text(), Code::Nan),
        (json::What::Control.text(), Code::Control),
        (json::What::TrailingComma.text(), Code::TrailingComma),
        (json::What::Utf8.text(), Code::Utf8),
        (json::What::End.text(), Code::Truncated),
    ];
    let found = all.into_iter().find(|(text, _)| what.ends_with(text)).map(|(_, code)| code);
    let gzip = ["the gzip data end", "damaged gzip", "not gzip follows"].iter().any(|text| what.contains(text));
    found.unwrap_or(if gzip { Code::Gzip } else { Code::BadJson })
}
