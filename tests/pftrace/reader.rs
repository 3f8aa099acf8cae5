//! Reads Perfetto's format as its engine does: packets sorted by time, tracks as stacks. Written from the protos, not from
//! the writer.

use std::collections::{BTreeMap, HashMap};

/// A field of a message: its number and its value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Varint(u64),
    Fixed(u64),
    Bytes(Vec<u8>),
}

impl Value {
    pub(crate) fn number(&self) -> u64 {
        match self {
            Value::Varint(number) | Value::Fixed(number) => *number,
            Value::Bytes(_) => panic!("a number is expected: {self:?}"),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Value::Bytes(bytes) => bytes,
            other => panic!("bytes are expected: {other:?}"),
        }
    }

    fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).expect("UTF-8")
    }
}

pub(crate) fn fields(mut bytes: &[u8]) -> Vec<(u32, Value)> {
    fn varint(bytes: &mut &[u8]) -> u64 {
        let mut value = 0;
        for at in 0..10 {
            let byte = bytes[0];
            *bytes = &bytes[1..];
            value |= u64::from(byte & 127) << (7 * at);
            if byte < 128 {
                return value;
            }
        }
        panic!("a varint of more than ten bytes");
    }
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Varint(varint(&mut bytes)),
            1 => {
                let (eight, rest) = bytes.split_at(8);
                bytes = rest;
                Value::Fixed(u64::from_le_bytes(eight.try_into().expect("eight")))
            }
            2 => {
                let (content, rest) = {
                    let length = varint(&mut bytes) as usize;
                    bytes.split_at(length)
                };
                bytes = rest;
                Value::Bytes(content.to_vec())
            }
            wire => panic!("wire type {wire}"),
        };
        all.push(((key >> 3) as u32, value));
    }
    all
}

fn get(message: &[(u32, Value)], field: u32) -> Option<&Value> {
    message.iter().rev().find(|(number, _)| *number == field).map(|(_, value)| value)
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Slice {
    /// Names of process and lane.
    pub(crate) lane: String,
    pub(crate) start: u64,
    pub(crate) end: Option<u64>,
    pub(crate) name: String,
    pub(crate) category: String,
    /// As `key=value`, sorted.
    pub(crate) args: Vec<String>,
    pub(crate) depth: usize,
    pub(crate) flows: Vec<u64>,
}

#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) slices: Vec<Slice>,
    /// Of instants, the same.
    pub(crate) instants: Vec<Slice>,
    pub(crate) counters: Vec<(String, u64, f64)>,
    /// Phases of Chrome's events.
    pub(crate) legacy: Vec<char>,
    pub(crate) legacy_times: Vec<(char, u64)>,
    pub(crate) unmatched_ends: usize,
}

/// What the packets of a sequence build on: all that was said since its state was cleared.
#[derive(Debug, Default)]
struct Sequence {
    texts: HashMap<(u32, u64), String>,
    /// The clock that times are told by, and the track, where packets do not say theirs.
    clock: Option<u64>,
    track: Option<u64>,
    /// The sequence's own clock: what it shows, and the boot clock less that.
    shows: Option<(u64, u64)>,
}

/// An event with its time and its track.
struct Event {
    time: u64,
    track: u64,
    fields: Vec<(u32, Value)>,
    /// Its texts, by kind and number.
    texts: HashMap<(u32, u64), String>,
}

const BOOTTIME: u64 = 6;
const OWN_CLOCK: u64 = 64;

impl Sequence {
    fn clocks(&mut self, snapshot: &[u8]) {
        let clocks: Vec<_> = fields(snapshot).into_iter().filter(|(number, _)| *number == 1).collect();
        let clocks: Vec<_> = clocks.iter().map(|(_, clock)| fields(clock.bytes())).collect();
        let find = |id| clocks.iter().find(|clock| get(clock, 1).map(Value::number) == Some(id));
        let Some(own) = find(OWN_CLOCK) else { return };
        let time = |clock: &Vec<(u32, Value)>| get(clock, 2).expect("a time").number();
        assert_eq!(get(own, 3).map(Value::number), Some(1), "times are told since the last packet");
        let (own, boot) = (time(own), time(find(BOOTTIME).expect("a clock that it goes by")));
        self.shows = Some((own, boot - own));
    }

    fn time(&mut self, packet: &[(u32, Value)]) -> u64 {
        let stamp = get(packet, 8).expect("a time").number();
        match get(packet, 58).map(Value::number).or(self.clock).unwrap_or(BOOTTIME) {
            BOOTTIME => stamp,
            OWN_CLOCK => {
                let (shows, offset) = self.shows.as_mut().expect("a clock that was told of");
                *shows += stamp;
                *shows + *offset
            }
            other => panic!("clock {other}"),
        }
    }

    fn intern(&mut self, interned: &[u8]) {
        for (kind, entry) in fields(interned) {
            let entry = fields(entry.bytes());
            let iid = get(&entry, 1).expect("an iid").number();
            let text = get(&entry, 2).expect("a text").text();
            assert!(iid > 0, "0 is no number of a text");
            if let Some(before) = self.texts.insert((kind, iid), text.clone()) {
                assert_eq!(before, text, "one number for two texts");
            }
        }
    }

    fn event(&mut self, packet: &[(u32, Value)], event: &[u8]) -> Event {
        let fields = fields(event);
        let track = get(&fields, 11).map(Value::number).or(self.track).unwrap_or(0);
        let mut texts = HashMap::new();
        let mut find = |kind: u32, number: Option<&Value>| {
            if let Some(number) = number.map(Value::number) {
                texts.insert((kind, number), self.texts.get(&(kind, number)).expect("a text sent before").clone());
            }
        };
        find(1, get(&fields, 3));
        find(2, get(&fields, 10));
        for (_, argument) in fields.iter().filter(|(number, _)| *number == 4) {
            let argument = self::fields(argument.bytes());
            find(3, get(&argument, 1));
            find(29, get(&argument, 17));
        }
        Event { time: self.time(packet), track, fields, texts }
    }
}

pub(crate) fn read(bytes: &[u8]) -> Seen {
    let mut sequences: HashMap<u64, Sequence> = HashMap::new();
    let mut tracks: HashMap<u64, String> = HashMap::new();
    let mut processes: HashMap<u64, String> = HashMap::new();
    let mut events = Vec::new();
    for (number, packet) in fields(bytes) {
        assert_eq!(number, 1, "a trace holds packets only");
        let packet = fields(packet.bytes());
        let id = get(&packet, 10).expect("a packet is of a sequence").number();
        if get(&packet, 13).is_some_and(|flags| flags.number() & 1 == 1) {
            sequences.remove(&id);
        }
        let sequence = sequences.entry(id).or_default();
        if let Some(snapshot) = get(&packet, 6) {
            sequence.clocks(snapshot.bytes());
        }
        if let Some(defaults) = get(&packet, 59) {
            let defaults = fields(defaults.bytes());
            sequence.clock = get(&defaults, 58).map(Value::number);
            sequence.track = get(&defaults, 11).and_then(|event| get(&fields(event.bytes()), 11).map(Value::number));
        }
        if let Some(interned) = get(&packet, 12) {
            sequence.intern(interned.bytes());
        }
        if let Some(descriptor) = get(&packet, 60) {
            let descriptor = fields(descriptor.bytes());
            let uuid = get(&descriptor, 1).expect("a uuid").number();
            if let Some(process) = get(&descriptor, 3) {
                let process = fields(process.bytes());
                let pid = get(&process, 1).expect("a pid").number();
                assert!((1..1 << 31).contains(&pid), "pid {pid}");
                let name = get(&process, 6).map(Value::text).unwrap_or_default();
                processes.insert(pid, name.clone());
                tracks.insert(uuid, name);
            } else if let Some(thread) = get(&descriptor, 4) {
                let thread = fields(thread.bytes());
                let (pid, tid) = (get(&thread, 1).expect("a pid").number(), get(&thread, 2).expect("a tid").number());
                assert!((1..1 << 31).contains(&tid), "tid {tid}");
                let name = get(&thread, 5).map_or_else(|| tid.to_string(), Value::text);
                assert!(tracks.insert(uuid, format!("{}/{name}", processes[&pid])).is_none(), "a track told of twice");
            } else if get(&descriptor, 8).is_some() {
                let parent = get(&descriptor, 5).expect("a parent").number();
                tracks.insert(uuid, format!("{}/{}", tracks[&parent], get(&descriptor, 2).expect("a name").text()));
            }
        }
        if let Some(event) = get(&packet, 11) {
            events.push(sequence.event(&packet, event.bytes()));
        }
    }
    // Stable: of the same time, in the order of the file.
    events.sort_by_key(|event| event.time);
    let mut seen = Seen::default();
    let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for Event { time, track, fields: event, texts } in events {
        let interned = |kind: u32, value: &Value| texts[&(kind, value.number())].clone();
        let name = get(&event, 10).map(|iid| interned(2, iid)).or(get(&event, 23).map(Value::text)).unwrap_or_default();
        let category =
            get(&event, 3).map(|iid| interned(1, iid)).or(get(&event, 22).map(Value::text)).unwrap_or_default();
        let mut args = Vec::new();
        for (_, argument) in event.iter().filter(|(number, _)| *number == 4) {
            let argument = fields(argument.bytes());
            let key = get(&argument, 1).map(|iid| interned(3, iid)).or(get(&argument, 10).map(Value::text));
            let value = argument.iter().find(|(number, _)| !matches!(number, 1 | 10)).expect("a value");
            let shown = match value {
                (2, flag) => format!("{}", flag.number() == 1),
                (3, number) => number.number().to_string(),
                (4, number) => (number.number() as i64).to_string(),
                (5, number) => format!("{:?}", f64::from_bits(number.number())),
                (6 | 9, text) => format!("{:?}", text.text()),
                (17, iid) => format!("{:?}", interned(29, iid)),
                other => panic!("an unknown value: {other:?}"),
            };
            args.push(format!("{}={shown}", key.expect("a key")));
        }
        args.sort();
        let ids = event.iter().filter(|(number, _)| matches!(number, 36 | 42)).map(|(_, id)| id.number()).collect();
        let stack = open.entry(track).or_default();
        let lane = tracks.get(&track).cloned().unwrap_or_default();
        let depth = stack.len();
        let slice = Slice { lane, start: time, end: None, name, category, args, depth, flows: ids };
        match get(&event, 9).map_or(0, Value::number) {
            1 => {
                assert!(tracks.contains_key(&track), "a slice on a track that was not told of");
                stack.push(seen.slices.len());
                seen.slices.push(slice);
            }
            2 => match stack.pop() {
                Some(started) => {
                    let started = &mut seen.slices[started];
                    started.end = Some(time);
                    started.flows.extend(slice.flows);
                }
                None => seen.unmatched_ends += 1,
            },
            3 => seen.instants.push(slice),
            4 => {
                let value = get(&event, 44).map(|double| f64::from_bits(double.number()));
                let value = value.or(get(&event, 30).map(|int| int.number() as i64 as f64)).expect("a value");
                seen.counters.push((slice.lane, time, value));
            }
            0 => {
                let legacy = fields(get(&event, 6).expect("a kind").bytes());
                let phase = char::from(get(&legacy, 2).expect("a phase").number() as u8);
                seen.legacy.push(phase);
                seen.legacy_times.push((phase, time));
            }
            other => panic!("an event of type {other}"),
        }
    }
    seen
}
