//! The document, lane by lane.

use super::ConvertReport;
use super::encode::{Encoder, NO_LANE, Texts, kind};
use super::spool::Spool;
use super::tracks::Tracks;
use crate::error::Result;
use crate::perfetto::packet::{self, Event, Interned, Kind, Scope, value};
use crate::read::document::Document;
use crate::read::sorter::Sorted;

/// Tracks that one lane gets beside its own.
const MAX_EXTRA: usize = 255;

/// The open slices of a track: when each ends, if that is known.
#[derive(Debug, Default)]
struct Stack {
    track: u64,
    open: Vec<Option<u64>>,
}

pub(super) struct Emitter {
    tracks: Tracks,
    texts: Option<Texts>,
    spool: Spool,
    sorted: Sorted<4>,
    lane: u64,
    stacks: Vec<Stack>,
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
        let event = Event::open(&mut about, last, 0, Kind::Legacy);
        packet::name_text(&mut about, b"Trace metadata");
        packet::legacy(&mut about, b'i', None, false, Some(Scope::Global));
        for (key, json) in &document.members {
            value::named(&mut about, key.as_bytes(), |out| value::json(out, json));
        }
        event.close(&mut about);
        Ok(Self {
            tracks,
            texts: Some(texts),
            spool,
            sorted: sorter.sorted()?,
            lane: NO_LANE,
            stacks: Vec::new(),
            item: Vec::new(),
            about: (!document.members.is_empty()).then_some(about),
            report,
        })
    }

    /// The next packets, at least `least` bytes of them while there are.
    pub(super) fn block(&mut self, least: usize) -> Result<Vec<u8>> {
        let mut out = Vec::with_capacity(least + least / 8);
        if let Some(texts) = self.texts.take() {
            self.head(&mut out, texts);
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
                let track = self.tracks.lanes.get(lane as usize).map_or(0, |lane| lane.track);
                self.stacks.push(Stack { track, open: Vec::new() });
            }
            let mut item = std::mem::take(&mut self.item);
            self.spool.get(at, &mut item)?;
            self.close(&mut out, time);
            self.event(&mut out, time, &item)?;
            self.item = item;
        }
        Ok(out)
    }

    fn head(&self, out: &mut Vec<u8>, texts: Texts) {
        packet::start(out, None);
        packet::sorted_by_rank(out);
        for process in &self.tracks.processes {
            let name = process.name.as_deref().unwrap_or_default();
            let labels: Vec<&[u8]> = process.labels.iter().map(String::as_bytes).collect();
            packet::process(out, process.track, process.number, name.as_bytes(), &labels, process.sort);
        }
        for lane in &self.tracks.lanes {
            let name = lane.name.as_ref().map(String::as_bytes);
            let pid = self.tracks.processes[lane.process].number;
            packet::thread(out, lane.track, pid, lane.number, name, lane.sort);
        }
        for (track, process, name) in &self.tracks.counters {
            packet::counter(out, *track, self.tracks.processes[*process].track, name);
        }
        let mut sorted: Vec<(u64, (u32, Vec<u8>))> =
            texts.numbers.into_iter().map(|(key, number)| (number, key)).collect();
        sorted.sort_unstable();
        for group in sorted.chunks(4096) {
            let packet = packet::Texts::open(out);
            for (number, (kind, text)) in group {
                let kinds = [Interned::Category, Interned::Name, Interned::Key, Interned::Text];
                if let Some(kind) = kinds.into_iter().find(|&one| one as u32 == *kind) {
                    packet::Texts::add(out, kind, *number, text);
                }
            }
            packet.close(out);
        }
    }

    /// Ends the slices that end by `time`.
    fn close(&mut self, out: &mut Vec<u8>, time: u64) {
        for stack in &mut self.stacks {
            while let Some(&Some(end)) = stack.open.last()
                && end <= time
            {
                stack.open.pop();
                Event::open(out, end, stack.track, Kind::End).close(out);
            }
        }
    }

    fn event(&mut self, out: &mut Vec<u8>, time: u64, item: &[u8]) -> Result<()> {
        let (what, body) = (item[0], &item[1..]);
        // Counters have no lane, and a document may have nothing else.
        if what == kind::COUNTER {
            let (track, body) = body.split_at(8);
            let track = u64::from_le_bytes(track.try_into().expect("eight bytes"));
            let event = Event::open(out, time, track, Kind::Counter);
            out.extend_from_slice(body);
            event.close(out);
            return Ok(());
        }
        let mut track = self.stacks[0].track;
        let kind = match what {
            kind::BEGIN => {
                self.stacks[0].open.push(None);
                Kind::Begin
            }
            kind::END => {
                // The slices inside that go on end here too.
                let open = &mut self.stacks[0].open;
                let Some(started) = open.iter().rposition(Option::is_none) else {
                    self.report.unmatched_ends += 1;
                    return Ok(());
                };
                self.report.truncated += (open.len() - started - 1) as u64;
                for _ in started + 1..open.len() {
                    Event::open(out, time, track, Kind::End).close(out);
                }
                open.truncate(started);
                Kind::End
            }
            kind::SLICE => {
                let (end, body_) = body.split_at(8);
                let end = u64::from_le_bytes(end.try_into().expect("eight bytes"));
                let fits = |stack: &Stack| stack.open.last().is_none_or(|&open| open.is_none_or(|open| end <= open));
                let level = match self.stacks.iter().position(fits) {
                    Some(level) => level,
                    None if self.stacks.len() <= MAX_EXTRA => {
                        let extra = self.tracks.beside(self.lane as usize, self.stacks.len())?;
                        let pid = self.tracks.processes[extra.process].number;
                        let name = extra.name.as_ref().map(String::as_bytes);
                        packet::thread(out, extra.track, pid, extra.number, name, extra.sort);
                        self.stacks.push(Stack { track: extra.track, open: Vec::new() });
                        self.stacks.len() - 1
                    }
                    None => {
                        self.report.overlaps_left += 1;
                        return Ok(());
                    }
                };
                self.report.overlaps_moved += u64::from(level > 0);
                self.stacks[level].open.push(Some(end));
                track = self.stacks[level].track;
                let event = Event::open(out, time, track, Kind::Begin);
                out.extend_from_slice(body_);
                event.close(out);
                return Ok(());
            }
            kind::INSTANT => Kind::Instant,
            _ => Kind::Legacy,
        };
        let event = Event::open(out, time, track, kind);
        out.extend_from_slice(body);
        event.close(out);
        Ok(())
    }
}
