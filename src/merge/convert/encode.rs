//! Events of a document as the fields of Perfetto's, before it is known where they end up.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hasher};

use super::ConvertReport;
use super::spool::Spool;
use super::tracks::Tracks;
use crate::error::Result;
use crate::perfetto::packet::{self, Scope, value};
use crate::perfetto::sequence::Interned;
use crate::read::event::{Event, Span};
use crate::read::json;
use crate::read::names::lane_of;
use crate::read::sorter::Sorter;
use crate::read::time::parse_ns;

/// Bytes of texts that are sent once and called by number; what comes later is sent each time.
const TEXTS: usize = 64 << 20;
/// Longer ones hardly ever repeat.
const LONGEST: usize = 4096;

/// What an encoded event is; the first byte of its item.
pub(super) mod kind {
    pub(in crate::merge::convert) const BEGIN: u8 = 0;
    pub(in crate::merge::convert) const END: u8 = 1;
    pub(in crate::merge::convert) const SLICE: u8 = 2;
    pub(in crate::merge::convert) const INSTANT: u8 = 3;
    pub(in crate::merge::convert) const LEGACY: u8 = 4;
    pub(in crate::merge::convert) const COUNTER: u8 = 5;
    /// The end of a flow.
    pub(in crate::merge::convert) const FLOW: u8 = 6;
}

/// Lanes from here on are no lanes: what needs no order.
pub(super) const NO_LANE: u64 = u64::MAX;

/// Numbers of texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    numbers: HashMap<(u32, Vec<u8>), u64>,
    bytes: usize,
    key: (u32, Vec<u8>),
}

impl Texts {
    /// The number of a text, unless there are too many.
    fn get(&mut self, kind: Interned, text: &[u8]) -> Option<u64> {
        if text.len() > LONGEST {
            return None;
        }
        self.key.0 = kind as u32;
        self.key.1.clear();
        self.key.1.extend_from_slice(text);
        if let Some(&number) = self.numbers.get(&self.key) {
            return Some(number);
        }
        self.bytes += text.len() + 64;
        if self.bytes > TEXTS {
            return None;
        }
        let number = self.numbers.len() as u64 + 1;
        self.numbers.insert(self.key.clone(), number);
        Some(number)
    }

    pub(super) fn by_number(self) -> Vec<Vec<u8>> {
        let mut texts: Vec<_> = self.numbers.into_iter().map(|((_, text), number)| (number, text)).collect();
        texts.sort_unstable_by_key(|&(number, _)| number);
        texts.into_iter().map(|(_, text)| text).collect()
    }
}

#[derive(Debug)]
pub(super) struct Encoder {
    pub(super) tracks: Tracks,
    pub(super) texts: Texts,
    pub(super) spool: Spool,
    /// Lane, time, what decides between events of the same time, place in the spool.
    pub(super) sorter: Sorter<4>,
    pub(super) report: ConvertReport,
    pub(super) last: u64,
    item: Vec<u8>,
    hasher: foldhash::fast::FixedState,
}

impl Encoder {
    pub(super) fn new(sorter: Sorter<4>) -> Result<Self> {
        Ok(Self {
            tracks: Tracks::default(),
            texts: Texts::default(),
            spool: Spool::default(),
            sorter,
            report: ConvertReport { unknown: BTreeMap::new(), ..ConvertReport::default() },
            last: 0,
            item: Vec::new(),
            hasher: foldhash::fast::FixedState::with_seed(0),
        })
    }

    pub(super) fn event(&mut self, bytes: &[u8], event: &Event) -> Result<()> {
        self.report.events += 1;
        if !self.encode(bytes, event)? {
            self.report.unusable += 1;
        }
        Ok(())
    }

    /// Whether the event could be used.
    fn encode(&mut self, bytes: &[u8], event: &Event) -> Result<bool> {
        let phase = event.phase(bytes);
        if phase == b'M' {
            return self.metadata(bytes, event);
        }
        if !matches!(phase, b'X' | b'B' | b'E' | b'i' | b'I' | b'R' | b's' | b't' | b'f' | b'b' | b'n' | b'e' | b'C') {
            if event.ph.is_empty() {
                return Ok(false);
            }
            let letter = unquoted(event.ph.of(bytes)).chars().take(8).collect();
            *self.report.unknown.entry(letter).or_default() += 1;
            return Ok(true);
        }
        let Some(time) = time_of(bytes, event.ts) else { return Ok(false) };
        if phase == b'C' {
            return self.counter(bytes, event, time);
        }
        let lane = self.tracks.lane(event.pid.of(bytes), lane_of(bytes, event))?;
        let mut item = std::mem::take(&mut self.item);
        item.clear();
        item.push(0);
        let done = self.body(bytes, event, phase, time, lane, &mut item);
        self.item = item;
        done
    }

    fn body(
        &mut self,
        bytes: &[u8],
        event: &Event,
        phase: u8,
        time: u64,
        lane: usize,
        item: &mut Vec<u8>,
    ) -> Result<bool> {
        // Starts and ends keep their order, and come before slices of the same time, which other marks come after.
        let (mut order, mut end) = (0, time);
        if phase != b'E' {
            self.name(item, bytes, event);
        }
        match phase {
            b'X' => {
                let Some(duration) = time_of(bytes, event.dur) else { return Ok(false) };
                end = time.saturating_add(duration).min(i64::MAX as u64);
                order = !end;
                item[0] = kind::SLICE;
                item.splice(1..1, end.to_le_bytes());
                if !event.bind_id.is_empty() {
                    self.bind(item, bytes, event);
                }
            }
            b'B' | b'E' => {
                item[0] = if phase == b'B' { kind::BEGIN } else { kind::END };
                let label = [event.name, event.cat].map(|span| match span.of(bytes) {
                    raw if raw.len() > 2 => self.hash(raw),
                    _ => 0,
                });
                item.splice(1..1, label.into_iter().flat_map(u64::to_le_bytes));
                if phase == b'B' && !event.bind_id.is_empty() {
                    self.bind(item, bytes, event);
                }
            }
            b'i' | b'I' | b'R' => {
                order = u64::MAX;
                item[0] = kind::INSTANT;
                let scope = match member(&bytes[event.start as usize..event.end as usize], "s").as_deref() {
                    Some("\"g\"") => Some(Scope::Global),
                    Some("\"p\"") => Some(Scope::Process),
                    _ => None,
                };
                if scope.is_some() {
                    item[0] = kind::LEGACY;
                    packet::legacy(item, b'i', None, false, scope);
                }
            }
            b's' | b't' | b'f' => {
                order = u64::MAX;
                item[0] = kind::FLOW;
                let Some(id) = self.id(event.id.of(bytes)) else { return Ok(false) };
                packet::legacy(item, phase, Some(id), event.bp.of(bytes) == b"\"e\"", None);
            }
            _ => {
                order = u64::MAX;
                item[0] = kind::LEGACY;
                let (raw, local) = if event.id2.is_empty() {
                    (event.id.of(bytes).to_vec(), false)
                } else {
                    let id2 = event.id2.of(bytes);
                    match (member(id2, "local"), member(id2, "global")) {
                        (Some(id), _) => (id.into_bytes(), true),
                        (None, Some(id)) => (id.into_bytes(), false),
                        _ => return Ok(false),
                    }
                };
                let Some(id) = self.id(&raw) else { return Ok(false) };
                packet::legacy_async(item, phase, id, local);
            }
        }
        if let Some(args) = event.args.get(bytes) {
            self.args(item, args);
        }
        self.last = self.last.max(end);
        let at = self.spool.push(item)?;
        self.sorter.push([lane as u64, time, order, at])?;
        Ok(true)
    }

    fn name(&mut self, item: &mut Vec<u8>, bytes: &[u8], event: &Event) {
        let text = |span: Span| span.get(bytes).map(unquoted);
        if let Some(name) = text(event.name) {
            match self.texts.get(Interned::Name, name.as_bytes()) {
                Some(number) => packet::name(item, number),
                None => packet::name_text(item, name.as_bytes()),
            }
        }
        if let Some(category) = text(event.cat) {
            match self.texts.get(Interned::Category, category.as_bytes()) {
                Some(number) => packet::category(item, number),
                None => packet::category_text(item, category.as_bytes()),
            }
        }
    }

    /// A flow that a slice itself names.
    fn bind(&mut self, item: &mut Vec<u8>, bytes: &[u8], event: &Event) {
        let whole = &bytes[event.start as usize..event.end as usize];
        let has = |key: &str| member(whole, key).as_deref() == Some("true");
        let direction = match (has("flow_in"), has("flow_out")) {
            (true, true) => 3,
            (false, true) => 2,
            (true, false) => 1,
            (false, false) => return,
        };
        if let Some(id) = self.id(event.bind_id.of(bytes)) {
            packet::legacy_bind(item, id, direction);
        }
    }

    /// An id as a number: text is read as hexadecimal, as Perfetto does; any other text by its hash.
    fn id(&self, raw: &[u8]) -> Option<u64> {
        let text = std::str::from_utf8(raw).ok()?;
        if !text.starts_with('"') {
            return match text.parse::<i64>() {
                Ok(number) => Some(number as u64),
                Err(_) => text.parse().ok().or_else(|| (!text.is_empty() && text != "null").then(|| self.hash(raw))),
            };
        }
        let text = json::decode(raw);
        let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")).unwrap_or(&text);
        u64::from_str_radix(digits, 16).ok().or_else(|| Some(self.hash(raw)))
    }

    fn hash(&self, raw: &[u8]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(raw);
        hasher.finish()
    }

    /// The arguments. An array stays one text of JSON, as an export of this format has it.
    fn args(&mut self, item: &mut Vec<u8>, args: &[u8]) {
        if args.first() != Some(&b'{') {
            if args != b"null" {
                value::named(item, b"args", |out| value::json(out, args));
            }
            return;
        }
        each_member(args, |key, raw| {
            let write = |out: &mut Vec<u8>, texts: &mut Texts| match raw.first() {
                Some(b'"') => {
                    let text = json::decode(raw);
                    match texts.get(Interned::Text, text.as_bytes()) {
                        Some(number) => value::interned(out, number),
                        None => value::text(out, text.as_bytes()),
                    }
                }
                Some(b'[') => {
                    let text = compact(raw);
                    match texts.get(Interned::Text, &text) {
                        Some(number) => value::interned(out, number),
                        None => value::text(out, &text),
                    }
                }
                Some(b'{') => value::json(out, raw),
                Some(b't' | b'f') => value::flag(out, raw == b"true"),
                _ => number(out, raw),
            };
            if raw == b"null" {
                return;
            }
            match self.texts.get(Interned::Key, key.as_bytes()) {
                Some(number) => value::argument(item, number, |out| write(out, &mut self.texts)),
                None => value::named(item, key.as_bytes(), |out| write(out, &mut self.texts)),
            }
        });
    }

    fn counter(&mut self, bytes: &[u8], event: &Event, time: u64) -> Result<bool> {
        let process = self.tracks.process(event.pid.of(bytes))?;
        let mut prefix = event.name.get(bytes).map_or_else(String::new, unquoted);
        if let Some(id) = event.id.get(bytes).filter(|id| id.starts_with(b"\"")) {
            prefix = format!("{prefix} id: {}", json::decode(id));
        }
        let mut values = Vec::new();
        let Some(args) = event.args.get(bytes).filter(|args| args.starts_with(b"{")) else { return Ok(false) };
        each_member(args, |key, raw| {
            let text = unquoted(raw);
            let value = match text.parse::<i64>() {
                Ok(value) => Some(Err(value)),
                Err(_) => text.parse::<f64>().ok().filter(|value| value.is_finite()).map(Ok),
            };
            values.push(value.map(|value| (format!("{prefix} {key}"), value)));
        });
        let usable = values.iter().all(Option::is_some) && !values.is_empty();
        for (name, value) in values.into_iter().flatten() {
            let track = self.tracks.counter(process, name.into_bytes())?;
            self.item.clear();
            self.item.push(kind::COUNTER);
            self.item.extend_from_slice(&track.to_le_bytes());
            match value {
                Ok(value) => packet::counter_double(&mut self.item, value),
                Err(value) => packet::counter_int(&mut self.item, value),
            }
            let at = self.spool.push(&self.item)?;
            self.sorter.push([NO_LANE, time, u64::MAX, at])?;
        }
        self.last = self.last.max(time);
        Ok(usable)
    }

    /// What a process or a lane is called.
    fn metadata(&mut self, bytes: &[u8], event: &Event) -> Result<bool> {
        let name = event.name.get(bytes).map(unquoted).unwrap_or_default();
        let Some(args) = event.args.get(bytes) else { return Ok(true) };
        let text = |key: &str| member(args, key).map(|raw| unquoted(raw.as_bytes()));
        let sort = || {
            let number = text("sort_index")?.parse::<f64>().ok()?;
            Some(number.clamp(f64::from(i32::MIN), f64::from(i32::MAX)) as i32)
        };
        let pid = event.pid.of(bytes);
        match name.as_str() {
            "process_name" | "process_labels" | "process_sort_index" => {
                let process = self.tracks.process(pid)?;
                let process = &mut self.tracks.processes[process];
                match name.as_str() {
                    "process_name" => process.name = text("name").or(process.name.take()),
                    "process_labels" => process.labels = text("labels").or(process.labels.take()),
                    _ => process.sort = sort().or(process.sort),
                }
            }
            "thread_name" | "thread_sort_index" => {
                let lane = self.tracks.lane(pid, lane_of(bytes, event))?;
                let lane = &mut self.tracks.lanes[lane];
                match name.as_str() {
                    "thread_name" => lane.name = text("name").or(lane.name.take()),
                    _ => lane.sort = sort().or(lane.sort),
                }
            }
            _ => {}
        }
        Ok(true)
    }
}

/// A time or a duration that Perfetto has: not below 0.
fn time_of(bytes: &[u8], span: Span) -> Option<u64> {
    let ns = parse_ns(span.get(bytes)?)?;
    u64::try_from(ns).ok().filter(|&ns| ns <= i64::MAX as u64)
}

/// Text without its quotes, and anything else as it stands.
fn unquoted(raw: &[u8]) -> String {
    if raw.first() == Some(&b'"') { json::decode(raw) } else { String::from_utf8_lossy(raw).into_owned() }
}

/// JSON without the white space between its words.
fn compact(raw: &[u8]) -> Vec<u8> {
    let (mut text, mut inside, mut escaped) = (Vec::with_capacity(raw.len()), false, false);
    for &byte in raw {
        if inside || !byte.is_ascii_whitespace() {
            text.push(byte);
        }
        if !std::mem::take(&mut escaped) {
            match byte {
                b'"' => inside = !inside,
                b'\\' => escaped = inside,
                _ => {}
            }
        }
    }
    text
}

/// A number as an argument.
fn number(out: &mut Vec<u8>, raw: &[u8]) {
    let text = String::from_utf8_lossy(raw);
    if let Ok(number) = text.parse::<i64>() {
        value::int(out, number);
    } else if let Ok(number) = text.parse::<u64>() {
        value::uint(out, number);
    } else {
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => value::double(out, number),
            _ => value::text(out, raw),
        }
    }
}

/// Every member of an object that was checked.
fn each_member(object: &[u8], mut visit: impl FnMut(&str, &[u8])) {
    let mut padded = object.to_vec();
    padded.resize(object.len() + json::PAD, 0);
    let mut at = json::space(&padded, 1);
    while padded[at] == b'"' {
        let Ok((key, span)) = crate::read::document::member(&padded, at) else { return };
        at = json::space(&padded, span.end);
        visit(&key, &padded[span]);
        if padded[at] == b',' {
            at = json::space(&padded, at + 1);
        }
    }
}

/// The value of a key of an object, as it stands; of a key that occurs twice, the last.
fn member(object: &[u8], wanted: &str) -> Option<String> {
    let mut found = None;
    if object.first() == Some(&b'{') {
        each_member(object, |key, raw| {
            if key == wanted {
                found = Some(String::from_utf8_lossy(raw).into_owned());
            }
        });
    }
    found
}
