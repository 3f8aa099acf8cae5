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
    pub(crate) unmatched_ends: usize,
}

pub(crate) fn read(bytes: &[u8]) -> Seen {
    let mut texts: HashMap<(u32, u64), String> = HashMap::new();
    let mut tracks: HashMap<u64, String> = HashMap::new();
    let mut processes: HashMap<u64, String> = HashMap::new();
    let mut events = Vec::new();
    for (number, packet) in fields(bytes) {
        assert_eq!(number, 1, "a trace holds packets only");
        let packet = fields(packet.bytes());
        assert!(get(&packet, 10).is_some(), "a packet without a sequence");
        if let Some(interned) = get(&packet, 12) {
            for (kind, entry) in fields(interned.bytes()) {
                let entry = fields(entry.bytes());
                let iid = get(&entry, 1).expect("an iid").number();
                let text = get(&entry, 2).expect("a text").text();
                assert!(iid > 0, "0 is no number of a text");
                if let Some(before) = texts.insert((kind, iid), text.clone()) {
                    assert_eq!(before, text, "one number for two texts");
                }
            }
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
            events.push((get(&packet, 8).expect("a time").number(), fields(event.bytes())));
        }
    }
    // Stable: of the same time, in the order of the file.
    events.sort_by_key(|event| event.0);
    let mut seen = Seen::default();
    let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (time, event) in events {
        let track = get(&event, 11).map_or(0, Value::number);
        let interned =
            |kind: u32, value: &Value| texts.get(&(kind, value.number())).expect("a text sent before").clone();
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
        let ids = event.iter().filter(|(number, _)| matches!(number, 47 | 48)).map(|(_, id)| id.number()).collect();
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
                seen.legacy.push(char::from(get(&legacy, 2).expect("a phase").number() as u8));
            }
            other => panic!("an event of type {other}"),
        }
    }
    seen
}
