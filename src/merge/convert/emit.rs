//! The document, lane by lane.

use super::ConvertReport;
use super::encode::{Encoder, NO_LANE, kind};
use super::spool::Spool;
use super::tracks::Tracks;
use crate::error::Result;
use crate::perfetto::describe;
use crate::perfetto::packet::{self, Kind, Scope, value};
use crate::perfetto::sequence::Sequence;
use crate::read::document::Document;
use crate::read::names::{Label, SEARCH};
use crate::read::sorter::Sorted;

/// Tracks that one lane gets beside its own.
const MAX_EXTRA: usize = 255;

/// An open slice.
#[derive(Debug)]
struct Open {
    /// None: where another event says so.
    end: Option<u64>,
    /// The first end of this slice and of all around it.
    bound: u64,
    /// Without a duration it stays open for what comes at its very time.
    momentary: bool,
    label: Label,
}

/// The open slices of a track.
#[derive(Debug)]
struct Stack {
    sequence: Sequence,
    open: Vec<Open>,
}

impl Stack {
    fn new(track: u64) -> Self {
        Self { sequence: Sequence::of(track), open: Vec::new() }
    }

    fn bound(&self) -> u64 {
        self.open.last().map_or(u64::MAX, |open| open.bound)
    }

    fn push(&mut self, time: u64, end: Option<u64>, label: Label) {
        let bound = self.bound().min(end.unwrap_or(u64::MAX));
        let momentary = end == Some(time);
        self.open.push(Open { end, bound, momentary, label });
    }

    fn end(&mut self, out: &mut Vec<u8>, time: u64) {
        self.sequence.event(out, time, Kind::End).close(out, &mut self.sequence);
    }
}

pub(super) struct Emitter {
    tracks: Tracks,
    /// By number, from 1.
    texts: Vec<Vec<u8>>,
    started: bool,
    /// For what belongs to no lane.
    shared: Sequence,
    spool: Spool,
    sorted: Sorted<4>,
    lane: u64,
    stacks: Vec<Stack>,
    /// What has ended with the slice around it, and when: its own end may still come at that time.
    displaced: (u64, Vec<Label>),
    item: Vec<u8>,
    /// What is said of the document as a whole.
    about: Option<Vec<u8>>,
    pub(super) report: ConvertReport,
}

impl Emitter {
    pub(super) fn new(encoder: Encoder, document: &Document) -> Result<Self> {
        let Encoder { mut tracks, texts, spool, sorter, report, last, .. } = encoder;
        tracks.number();
        let mut about = Vec::new();
        let mut shared = Sequence::shared();
        let event = shared.event_on(&mut about, last, 0, Kind::Legacy);
        packet::name_text(&mut about, b"Trace metadata");
        packet::legacy(&mut about, b'i', None, false, Some(Scope::Global));
        for (key, json) in &document.members {
            value::named(&mut about, key.as_bytes(), |out| value::json(out, json));
        }
        event.close(&mut about, &mut shared);
        Ok(Self {
            tracks,
            texts: texts.by_number(),
            started: false,
            shared: Sequence::shared(),
            spool,
            sorted: sorter.sorted()?,
            lane: NO_LANE,
            stacks: Vec::new(),
            displaced: (0, Vec::new()),
            item: Vec::new(),
            about: (!document.members.is_empty()).then_some(about),
            report,
        })
    }

    /// The next packets, at least `least` bytes of them while there are.
    pub(super) fn block(&mut self, least: usize) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(least + least / 8);
        if !std::mem::replace(&mut self.started, true) {
            self.head(&mut out);
        }
        while out.len() < least {
            let Some([lane, time, _, at]) = self.sorted.next()? else {
                self.close(&mut out, u64::MAX);
                out.extend(self.about.take().unwrap_or_default());
                break;
            };
            if lane != self.lane {
                self.close(&mut out, u64::MAX);
                self.lane = lane;
                self.stacks.clear();
                self.displaced.1.clear();
                let track = self.tracks.lanes.get(lane as usize).map_or(0, |lane| lane.track);
                self.stacks.push(Stack::new(track));
            }
            let mut item = std::mem::take(&mut self.item);
            self.spool.get(at, &mut item)?;
            let flow = item[0] == kind::FLOW;
            let time = if flow {
                // It hangs on the last slice of its lane, also if that has ended and nothing has come since.
                self.stacks.first().map_or(time, |stack| time.min(stack.bound()))
            } else {
                time
            };
            if !flow {
                self.close(&mut out, time);
            }
            self.event(&mut out, time, &item)?;
            self.item = item;
        }
        Ok(out)
    }

    fn head(&self, out: &mut Vec<u8>) {
        describe::start(out, None);
        describe::sorted_by_rank(out);
        for process in &self.tracks.processes {
            let name = process.name.as_deref().unwrap_or_default();
            let labels: Vec<&[u8]> = process.labels.iter().map(String::as_bytes).collect();
            describe::process(out, process.track, process.number, name.as_bytes(), &labels, process.sort);
        }
        for lane in &self.tracks.lanes {
            let name = lane.name.as_ref().map(String::as_bytes);
            let pid = self.tracks.processes[lane.process].number;
            describe::thread(out, lane.track, pid, lane.number, name, lane.sort);
        }
        for (track, process, name) in &self.tracks.counters {
            describe::counter(out, *track, self.tracks.processes[*process].track, name);
        }
    }

    /// Ends the slices that end by `time`, or are in one that does.
    fn close(&mut self, out: &mut Vec<u8>, time: u64) {
        for stack in &mut self.stacks {
            let over =
                |open: &mut Open| open.bound < u64::MAX && (open.bound < time || open.bound == time && !open.momentary);
            while let Some(Open { end, bound, .. }) = stack.open.pop_if(over) {
                self.report.truncated += u64::from(end != Some(bound));
                stack.end(out, bound);
            }
        }
    }

    fn event(&mut self, out: &mut Vec<u8>, time: u64, item: &[u8]) -> Result<()> {
        let (what, mut body) = (item[0], &item[1..]);
        let texts = &self.texts;
        let text_of = |number: u64| texts.get((number - 1) as usize).map_or(&[] as &[u8], Vec::as_slice);
        // Counters have no lane, and a document may have nothing else.
        if what == kind::COUNTER {
            let track = number(&mut body);
            let event = self.shared.event_on(out, time, track, Kind::Counter);
            out.extend_from_slice(body);
            event.close(out, &mut self.shared);
            return Ok(());
        }
        let mut level = 0;
        let kind = match what {
            kind::BEGIN => {
                let label = Label { name: number(&mut body), category: number(&mut body) };
                self.stacks[0].push(time, None, label);
                Kind::Begin
            }
            kind::END => {
                // The slices inside that go on end here too.
                let label = Label { name: number(&mut body), category: number(&mut body) };
                let stack = &mut self.stacks[0];
                if self.displaced.0 != time {
                    self.displaced = (time, Vec::new());
                }
                // What has ended at this time already, with a slice around it, was inside of all that is open.
                if let Some(own) = self.displaced.1.iter().rposition(|&begin| label.ends(begin)) {
                    self.displaced.1.remove(own);
                    self.report.truncated -= 1;
                    return Ok(());
                }
                let begun = stack.open.iter().enumerate().rev().filter(|(_, open)| open.end.is_none());
                let own = begun.take(SEARCH).find(|(_, open)| label.ends(open.label)).map(|(started, _)| started);
                let Some(started) = own else {
                    self.report.unmatched_ends += 1;
                    return Ok(());
                };
                let inside = &stack.open[started + 1..];
                self.report.truncated += inside.len() as u64;
                let begun = inside.iter().filter(|open| open.end.is_none()).map(|open| open.label);
                let room = SEARCH - self.displaced.1.len().min(SEARCH);
                self.displaced.1.splice(0..0, begun.take(room));
                for _ in started + 1..stack.open.len() {
                    stack.end(out, time);
                }
                stack.open.truncate(started);
                Kind::End
            }
            kind::SLICE => {
                let end = number(&mut body);
                level = match self.stacks.iter().position(|stack| end <= stack.bound()) {
                    Some(level) => level,
                    None if self.stacks.len() <= MAX_EXTRA => {
                        let extra = self.tracks.beside(self.lane as usize, self.stacks.len())?;
                        let pid = self.tracks.processes[extra.process].number;
                        let name = extra.name.as_ref().map(String::as_bytes);
                        describe::thread(out, extra.track, pid, extra.number, name, extra.sort);
                        self.stacks.push(Stack::new(extra.track));
                        self.stacks.len() - 1
                    }
                    None => {
                        self.report.overlaps_left += 1;
                        return Ok(());
                    }
                };
                self.report.overlaps_moved += u64::from(level > 0);
                self.stacks[level].push(time, Some(end), Label::default());
                Kind::Begin
            }
            kind::INSTANT => Kind::Instant,
            _ => Kind::Legacy,
        };
        let sequence = &mut self.stacks[level].sequence;
        let event = sequence.event(out, time, kind);
        sequence.copy(out, body, &text_of);
        event.close(out, sequence);
        Ok(())
    }
}

/// Takes a number from the start of an item.
fn number(item: &mut &[u8]) -> u64 {
    let (bytes, rest) = item.split_first_chunk().expect("eight bytes");
    *item = rest;
    u64::from_le_bytes(*bytes)
}
