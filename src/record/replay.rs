//! Records become events of the trace.

use std::collections::{BTreeMap, HashMap};

use super::chunk::{Open, Record};
use super::clock::Converter;
use super::core::Core;
use super::journal::Piece;
use super::kind;
use super::names::{Name, Table};
use crate::model::event::{Arg, Counter, Instant, InstantScope, Op, OpKind, OwnedValue, Value};
use crate::model::record::{CounterRecord, InstantRecord, MarkRecord, OpRecord};
use crate::model::snapshot::Snapshot;
use crate::model::store::{Aside, IdOrder, NO_ID, Store};
use crate::trace::Shared;

/// Events that are in a document, and not in the trace: spans that are still open, and with a limit that keeps the most
/// recent, all.
#[derive(Debug, Default)]
struct Recorded {
    ops: Vec<OpRecord>,
    instants: Vec<InstantRecord>,
    counters: Vec<CounterRecord>,
    marks: Vec<MarkRecord>,
    /// Their texts and side data; None: they are the trace's.
    aside: Option<Box<Aside>>,
}

impl Recorded {
    fn extend(&mut self, more: Self) {
        self.ops.extend(more.ops);
        self.instants.extend(more.instants);
        self.counters.extend(more.counters);
        self.marks.extend(more.marks);
    }

    /// What is in a trace, and these. Ops without an id get one behind all of the trace's.
    fn joined(mut self, store: &Store) -> Snapshot {
        let mut snapshot = store.snapshot();
        if self.ops.iter().any(|op| op.id != NO_ID) {
            snapshot.id_order = IdOrder::Any;
        }
        for (id, op) in (store.next_id()..).zip(self.ops.iter_mut().filter(|op| op.id == NO_ID)) {
            op.id = id;
        }
        snapshot.ops.extend(self.ops);
        snapshot.instants.extend(self.instants);
        snapshot.counters.extend(self.counters);
        snapshot.marks.extend(self.marks);
        if let Some(aside) = self.aside {
            aside.join(&mut snapshot);
        }
        snapshot
    }
}

/// How far a reader has come with a lane.
#[derive(Debug, Default)]
pub(super) struct Replay {
    begun: bool,
    /// The spans that are open.
    open: Vec<Span>,
    /// What a record that takes several has said so far.
    pending: Option<Pending>,
    /// When the last span began or ended.
    last_ns: i64,
}

#[derive(Debug)]
struct Span {
    name: Name,
    start_ns: i64,
    id: Option<u64>,
    args: Vec<(Name, OwnedValue)>,
}

#[derive(Debug)]
enum Pending {
    /// A record that has a second one.
    Second(Record),
    /// A text, its whole length, and the bytes so far.
    Text(Name, usize, Vec<u8>),
}

impl Core {
    /// Makes events of what was recorded since the last time, of this trace or, what does not stay, of this document, and
    /// answers what is there now. `offset_ns`: the trace's time less CLOCK_MONOTONIC's.
    pub(crate) fn snapshot(&self, shared: &Shared, offset_ns: i64, now_ns: i64) -> Snapshot {
        let mut recorded = Recorded { aside: Some(Box::default()), ..Recorded::default() };
        let mut names = Names::default();
        let mut reading = self.read();
        let keep = reading.keeps();
        let uncertainty_ns = reading.each(|seen, converter, replay| {
            // The trace's lock for one lane at a time: others may add meanwhile.
            let mut store = shared.lock();
            let before = store.bytes();
            let mut maker = Maker {
                store: &mut store,
                names: &mut names,
                recorded: &mut recorded,
                converter,
                offset_ns,
                thread: seen.thread,
                transient: keep,
            };
            if !seen.name.is_empty() && !maker.store.thread_names.contains_key(&seen.thread) {
                maker.store.thread_names.insert(seen.thread, seen.name.clone());
            }
            if !replay.begun {
                replay.begin(&seen.open, &mut maker);
            }
            seen.visit(|records| records.iter().for_each(|record| replay.record(*record, &mut maker)));
            let stored = maker.store.bytes().saturating_sub(before);
            replay.unfinished(now_ns, &mut maker);
            stored
        });
        // One reader at a time until here: else a span could end in the trace, and be unfinished in this document.
        let mut snapshot = recorded.joined(&shared.look());
        drop(reading);
        snapshot.recording = Some((self.counts(), uncertainty_ns));
        snapshot
    }
}

/// Texts of names, asked for once a document.
#[derive(Default)]
struct Names<'n> {
    known: HashMap<Name, (&'n str, &'n str)>,
    /// Those of another process.
    table: Option<&'n Table>,
}

impl<'n> Names<'n> {
    fn of(&mut self, name: Name) -> (&'n str, &'n str) {
        let table = self.table;
        *self.known.entry(name).or_insert_with(|| table.map_or_else(|| name.texts(), |table| table.texts(name)))
    }
}

/// Makes events of one thread.
struct Maker<'m, 'n> {
    store: &'m mut Store,
    names: &'m mut Names<'n>,
    recorded: &'m mut Recorded,
    converter: &'m mut Converter,
    offset_ns: i64,
    thread: u64,
    /// Nothing of it stays in the trace.
    transient: bool,
}

impl Maker<'_, '_> {
    fn time(&mut self, ticks: u64) -> i64 {
        self.converter.ns(ticks).saturating_add(self.offset_ns)
    }

    fn slice(&mut self, span: &Span, end_ns: i64, unfinished: bool) {
        let (name, category) = self.names.of(span.name);
        let mut args: Vec<Arg<'_>> = span
            .args
            .iter()
            .map(|(key, value)| Arg { key: self.names.of(*key).0.into(), value: value.value() })
            .collect();
        if unfinished {
            args.push(Arg { key: "unfinished".into(), value: Value::Bool(true) });
        }
        let op = Op {
            name: name.into(),
            kind: match category {
                "cpu_op" => OpKind::Op,
                "backward" => OpKind::Backward,
                _ => OpKind::UserAnnotation,
            },
            category: if matches!(category, "cpu_op" | "backward" | "user_annotation") { "" } else { category }.into(),
            start_ns: span.start_ns,
            end_ns,
            thread_id: self.thread,
            id: span.id,
            args: &args,
            ..Op::default()
        };
        if self.transient || unfinished {
            let Recorded { ops, aside, .. } = self.recorded;
            ops.extend(self.store.transient_op(&op, aside));
        } else {
            // What cannot be stored is counted there.
            let _ = self.store.add_op(&op);
        }
    }

    fn instant(&mut self, name: Name, time_ns: i64) {
        let name = self.names.of(name).0.into();
        let instant = Instant { name, time_ns, thread_id: self.thread, scope: InstantScope::Thread, args: &[] };
        if self.transient {
            let Recorded { instants, aside, .. } = self.recorded;
            instants.extend(self.store.transient_instant(&instant, aside));
        } else {
            let _ = self.store.add_instant(&instant);
        }
    }

    fn counter(&mut self, name: Name, time_ns: i64, value: f64) {
        let (name, _) = self.names.of(name);
        let values = [Arg { key: "value".into(), value: Value::Float(value) }];
        let counter = Counter { name: name.into(), time_ns, values: &values };
        if self.transient {
            let Recorded { counters, aside, .. } = self.recorded;
            counters.extend(self.store.transient_counter(&counter, aside));
        } else {
            let _ = self.store.add_counter(&counter);
        }
    }

    fn mark(&mut self, phase: u8, name: Name, time_ns: i64, id: u64) {
        let (name, category) = self.names.of(name);
        let category = if category.is_empty() { "user_annotation" } else { category };
        let Ok(mark) = self.store.mark(phase, name, category, self.thread, time_ns, id) else { return };
        if self.transient {
            self.recorded.marks.push(mark);
        } else {
            self.store.add_mark(mark);
        }
    }
}

impl Replay {
    /// The spans that were open before the first record that is left.
    fn begin(&mut self, open: &[Open], maker: &mut Maker<'_, '_>) {
        self.begun = true;
        for span in open {
            if let Some(name) = u32::try_from(span.name & !Open::TOLD).ok().and_then(Name::from_bits) {
                self.open.push(Span { name, start_ns: maker.time(span.ticks), id: None, args: Vec::new() });
            }
        }
    }

    /// Goes on after records that are missing, with these spans open. Others that were open ended in between.
    fn resume(&mut self, open: &[Open], maker: &mut Maker<'_, '_>) -> u64 {
        let before = std::mem::take(&mut self.open);
        self.pending = None;
        self.begin(open, maker);
        let mut ended = 0;
        for span in before {
            match self.open.iter_mut().find(|now| (now.name, now.start_ns) == (span.name, span.start_ns)) {
                Some(now) => *now = span,
                None => {
                    maker.slice(&span, self.last_ns.max(span.start_ns), true);
                    ended += 1;
                }
            }
        }
        ended
    }

    fn record(&mut self, record: Record, maker: &mut Maker<'_, '_>) {
        match self.pending.take() {
            Some(Pending::Second(first)) => return Self::pair(first, record, maker),
            Some(Pending::Text(key, length, mut bytes)) => {
                bytes.extend(record.iter().flat_map(|word| word.to_le_bytes()));
                if bytes.len() >= length {
                    bytes.truncate(length);
                    self.arg(key, OwnedValue::Text(bytes));
                } else {
                    self.pending = Some(Pending::Text(key, length, bytes));
                }
                return;
            }
            None => {}
        }
        let [what, word] = record;
        let name = Name::of_word(what);
        match what & 0xff {
            kind::BEGIN => {
                self.last_ns = maker.time(word);
                self.open.push(Span { name, start_ns: self.last_ns, id: None, args: Vec::new() });
            }
            kind::END => {
                self.last_ns = maker.time(word);
                if let Some(span) = self.open.pop() {
                    maker.slice(&span, self.last_ns, false);
                }
            }
            kind::INSTANT => {
                let time = maker.time(word);
                maker.instant(name, time);
            }
            kind::COUNTER | kind::COMPLETE | kind::ASYNC | kind::FLOW => self.pending = Some(Pending::Second(record)),
            kind::INT => self.arg(name, OwnedValue::Int(word as i64)),
            kind::UINT => self.arg(name, OwnedValue::Uint(word)),
            kind::FLOAT => self.arg(name, OwnedValue::Float(f64::from_bits(word))),
            kind::BOOL => self.arg(name, OwnedValue::Bool(word != 0)),
            kind::ID => {
                if let Some(span) = self.open.last_mut() {
                    span.id = Some(word);
                }
            }
            kind::TEXT if word == 0 => self.arg(name, OwnedValue::Text(Vec::new())),
            kind::TEXT => self.pending = Some(Pending::Text(name, word as usize, Vec::new())),
            _ => {}
        }
    }

    fn pair([what, word]: Record, [second, _]: Record, maker: &mut Maker<'_, '_>) {
        let name = Name::of_word(what);
        let part = (what >> 8 & 3) as usize;
        match what & 0xff {
            kind::COMPLETE => {
                let span = Span { name, start_ns: word as i64, id: None, args: Vec::new() };
                maker.slice(&span, second as i64, false);
            }
            kind::COUNTER => {
                let time = maker.time(word);
                maker.counter(name, time, f64::from_bits(second));
            }
            kind::ASYNC => {
                let time = maker.time(word);
                maker.mark([b'b', b'n', b'e', b'e'][part], name, time, second);
            }
            _ => {
                let time = maker.time(word);
                maker.mark([b's', b't', b'f', b'f'][part], name, time, second);
            }
        }
    }

    fn arg(&mut self, key: Name, value: OwnedValue) {
        if let Some(span) = self.open.last_mut() {
            span.args.push((key, value));
        }
    }

    /// Spans that are open show up to now.
    fn unfinished(&self, now_ns: i64, maker: &mut Maker<'_, '_>) {
        for span in &self.open {
            maker.slice(span, now_ns.max(span.start_ns), true);
        }
    }
}

/// Makes events of what a journal tells of live recording.
pub(crate) struct Revival<'n> {
    names: Names<'n>,
    converter: Converter,
    offset_ns: i64,
    lanes: BTreeMap<u64, Revived>,
    /// Spans that lack their own end.
    pub(crate) unfinished: u64,
}

#[derive(Default)]
struct Revived {
    thread: u64,
    replay: Replay,
    recorded: Recorded,
}

impl<'n> Revival<'n> {
    /// `offset_ns`: the trace's time less CLOCK_MONOTONIC's.
    pub(crate) fn new(table: &'n Table, converter: Converter, offset_ns: i64) -> Self {
        let names = Names { table: Some(table), ..Names::default() };
        Self { names, converter, offset_ns, lanes: BTreeMap::new(), unfinished: 0 }
    }

    /// Makes events of a piece; only their texts are put into the store.
    pub(crate) fn piece(&mut self, store: &mut Store, piece: &Piece<'_>) {
        let Revived { thread, replay, recorded } =
            self.lanes.entry(piece.lane).or_insert_with(|| Revived { thread: piece.thread, ..Revived::default() });
        let mut maker = Maker {
            store,
            names: &mut self.names,
            recorded,
            converter: &mut self.converter,
            offset_ns: self.offset_ns,
            thread: *thread,
            transient: true,
        };
        match piece.open {
            Some(open) if !replay.begun => replay.begin(open, &mut maker),
            Some(open) if piece.gap => self.unfinished += replay.resume(open, &mut maker),
            _ => {}
        }
        piece.records.iter().for_each(|record| replay.record(*record, &mut maker));
    }

    /// Ends the spans that are open when the journal ends, and answers the whole trace.
    pub(crate) fn finish(&mut self, store: &mut Store) -> Snapshot {
        let now_ns = self.converter.last_ns().saturating_add(self.offset_ns);
        let mut all = Recorded::default();
        for Revived { thread, replay, mut recorded } in std::mem::take(&mut self.lanes).into_values() {
            let mut maker = Maker {
                store,
                names: &mut self.names,
                recorded: &mut recorded,
                converter: &mut self.converter,
                offset_ns: self.offset_ns,
                thread,
                transient: true,
            };
            replay.unfinished(now_ns, &mut maker);
            self.unfinished += replay.open.len() as u64;
            all.extend(recorded);
        }
        all.joined(store)
    }
}
