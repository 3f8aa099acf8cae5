//! Events checked, and changed where the plan says so; all else is copied byte for byte.

use std::collections::BTreeMap;

use super::blocks::{ABOUT, Block, Piece};
use super::head;
use super::lanes::{Process, sort_again, sort_index};
use super::order::Ticket;
use super::plan::{Fate, Part, Plan, Sub};
use super::pyint::python_int;
use crate::error::{Error, Result};
use crate::read::document::member;
use crate::read::event::{Event, Span};
use crate::read::json;
use crate::read::time::shift_ts;
use crate::read::walk::walk;

/// Changes of one event: pid, tid, ts, three ids, one argument.
const MAX_EDITS: usize = 8;

/// Makes the pieces of a document for one thread.
pub(super) struct Rewriter<'p, 'a> {
    plan: &'p Plan<'a>,
    /// The new texts of one event's edits, one after the other.
    texts: Vec<u8>,
    /// What this block says of processes, each after the place of its rank in the input.
    seen: BTreeMap<(usize, u64), Process>,
    last_seen: Option<(u64, bool)>,
}

/// A range of the input and what stands in its place: a range of [`Rewriter::texts`].
#[derive(Clone, Copy, Default)]
struct Edit {
    from: Span,
    text: (u32, u32),
}

/// The edits of one event, in the order of their places.
#[derive(Default)]
struct Edits {
    list: [Edit; MAX_EDITS],
    count: usize,
}

impl Edits {
    fn push(&mut self, from: Span, text: (u32, u32)) {
        let mut at = self.count.min(MAX_EDITS - 1);
        self.count = at + 1;
        while at > 0 && self.list[at - 1].from.start > from.start {
            self.list[at] = self.list[at - 1];
            at -= 1;
        }
        self.list[at] = Edit { from, text };
    }
}

impl<'p, 'a> Rewriter<'p, 'a> {
    pub(super) fn new(plan: &'p Plan<'a>) -> Self {
        Self { plan, texts: Vec::new(), seen: BTreeMap::new(), last_seen: None }
    }

    /// Appends one piece.
    pub(super) fn job(&mut self, piece: Piece, out: &mut Vec<u8>) -> Result<()> {
        match piece {
            Piece::Head => {
                head::start(self.plan, out);
                self.about(0, out);
            }
            Piece::About(index) => self.about(index, out),
            Piece::Open => head::open(self.plan, out),
            Piece::Events(block) => return self.block(*block, out),
            Piece::Close { ticket, whole } => {
                ticket.wait()?;
                let follows = ticket.follows_event()?;
                head::close(self.plan, !follows, out);
                if whole {
                    out.extend_from_slice(head::END);
                }
                ticket.finish();
            }
        }
        Ok(())
    }

    /// What some inputs say of themselves.
    fn about(&self, from: usize, out: &mut Vec<u8>) {
        if !self.plan.options.verbatim {
            (from..self.plan.parts.len().min(from + ABOUT)).for_each(|index| head::about(self.plan, index, out));
        }
    }

    fn block(&mut self, block: Block, out: &mut Vec<u8>) -> Result<()> {
        let plan = self.plan;
        let Block { part, mut cut, marks, ticket } = block;
        let part = &plan.parts[part];
        let salvage = plan.options.salvage;
        let met = match marks {
            None => walk(part, salvage, &mut cut, |bytes, event| self.write(part, bytes, event, &ticket, false, out))?,
            Some((marks, first)) => {
                let (mut ordinal, mut left_out, mut metadata) = (first, 0, 0);
                let mut met = walk(part, salvage, &mut cut, |bytes, event| {
                    let this = ordinal;
                    ordinal += 1;
                    if !marks.kept(this) {
                        left_out += 1;
                        return Ok(());
                    }
                    metadata += u64::from(event.phase(bytes) == b'M');
                    self.write(part, bytes, event, &ticket, marks.is_unbound(this), out)
                })?;
                part.count_metadata(metadata);
                met.visited -= left_out;
                met
            }
        };
        part.count(met.visited, met.repaired, met.lost);
        for ((sub, pid), seen) in std::mem::take(&mut self.seen) {
            part.subs[sub].lanes.learn(pid, &seen);
        }
        self.last_seen = None;
        ticket.finish();
        Ok(())
    }

    /// One event, after the comma that it needs. `unbound`: without the flow that it names.
    #[inline]
    fn write(
        &mut self,
        part: &Part<'_>,
        bytes: &[u8],
        event: &Event,
        ticket: &Ticket,
        unbound: bool,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let follows = !out.is_empty() || ticket.follows_event()?;
        out.extend_from_slice(if follows { b",\n" } else { b"" });
        let mut edits = Edits::default();
        self.texts.clear();
        if self.plan.in_place {
            // Nothing changes.
        } else if self.plan.options.verbatim {
            self.verbatim(part, bytes, event, &mut edits);
        } else {
            self.edit(part, bytes, event, ticket, &mut edits)?;
        }
        if unbound {
            self.unbind(bytes, event, &mut edits);
        }
        let mut at = event.start as usize;
        for edit in &edits.list[..edits.count] {
            out.extend_from_slice(&bytes[at..edit.from.start as usize]);
            out.extend_from_slice(&self.texts[edit.text.0 as usize..edit.text.1 as usize]);
            at = edit.from.end as usize;
        }
        out.extend_from_slice(&bytes[at..event.end as usize]);
        Ok(())
    }

    /// Notes an edit whose text `fill` appends.
    fn text(&mut self, edits: &mut Edits, from: Span, fill: impl FnOnce(&mut Vec<u8>)) {
        let start = self.texts.len() as u32;
        fill(&mut self.texts);
        edits.push(from, (start, self.texts.len() as u32));
    }

    fn number(&mut self, edits: &mut Edits, from: Span, value: u64) {
        self.text(edits, from, |out| out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes()));
    }

    /// As the reference: `int(pid)` plus the rank's base.
    fn verbatim(&mut self, part: &Part<'_>, bytes: &[u8], event: &Event, edits: &mut Edits) {
        let base = i128::from(part.subs[0].fate.rank) * 10_000_000;
        let Some(raw) = event.pid.get(bytes) else { return };
        if let Some(pid) = super::ids::small(raw) {
            let sum = i128::from(pid) + base;
            if let Ok(sum) = u64::try_from(sum) {
                return self.number(edits, event.pid, sum);
            }
        }
        if let Some(int) = python_int(raw) {
            self.text(edits, event.pid, |out| out.extend_from_slice(int.plus(base).as_bytes()));
        }
    }

    fn edit(&mut self, part: &Part<'_>, bytes: &[u8], event: &Event, ticket: &Ticket, edits: &mut Edits) -> Result<()> {
        let phase = event.phase(bytes);
        let old = event.pid.of(bytes);
        let mut index = part.sub_index(old);
        let mut pid = None;
        if !old.is_empty() {
            let lanes = &part.subs[index].lanes;
            pid = match lanes.plain_pid(old) {
                Some(pid) => Some(pid),
                None => match self.of_trace(part, bytes, event, phase, ticket)? {
                    Some((sub, pid)) => {
                        index = sub;
                        Some(pid)
                    }
                    None => lanes.odd_pid(old, ticket)?,
                },
            };
        }
        let Sub { fate, lanes } = &part.subs[index];
        if let Some(pid) = pid {
            self.number(edits, event.pid, pid);
            if let Some(raw) = event.tid.get(bytes)
                && let Some(tid) = lanes.tid(raw, old, pid, ticket)?
            {
                self.number(edits, event.tid, tid);
            }
            self.learn((index, pid), bytes, event, phase);
        }
        if fate.offset != 0
            && let Some(raw) = event.ts.get(bytes)
        {
            self.text(edits, event.ts, |out| {
                shift_ts(raw, fate.offset, out);
            });
        }
        if part.ids.active() {
            if matches!(phase, b's' | b't' | b'f' | b'b' | b'n' | b'e' | b'N' | b'O' | b'D' | b'S' | b'T' | b'F' | b'p')
            {
                for span in [event.id, event.id2] {
                    if let Some(raw) = span.get(bytes) {
                        self.text(edits, span, |out| part.ids.map(raw, out));
                    }
                }
            }
            if let Some(raw) = event.bind_id.get(bytes) {
                self.text(edits, event.bind_id, |out| part.ids.map(raw, out));
            }
        }
        if phase == b'M' {
            self.metadata(fate, bytes, event, edits)?;
        }
        Ok(())
    }

    /// The rank and the process of an instant that is one of the whole trace and names no process, as the end of Kineto's
    /// recording: the first process that was met, so that none is made up for it. `None` if it is something else.
    #[cold]
    fn of_trace(
        &self,
        part: &Part<'_>,
        bytes: &[u8],
        event: &Event,
        phase: u8,
        ticket: &Ticket,
    ) -> Result<Option<(usize, u64)>> {
        if event.pid.of(bytes) != b"\"\"" || !matches!(phase, b'i' | b'I') || !is_global(bytes, event) {
            return Ok(None);
        }
        ticket.wait()?;
        let known = part.subs.iter().map(|sub| sub.lanes.first_process()).enumerate();
        let known = known.filter_map(|(index, pid)| Some((index, pid?)));
        Ok(known.chain(self.seen.keys().copied()).min())
    }

    /// Makes the key `bind_id` another one, since the flow's other end was left out.
    #[cold]
    fn unbind(&mut self, bytes: &[u8], event: &Event, edits: &mut Edits) {
        let mut quotes = (0..event.bind_id.start).rev().filter(|&at| bytes[at as usize] == b'"');
        if let (Some(_), Some(open)) = (quotes.next(), quotes.next()) {
            self.text(edits, Span { start: open + 1, end: open + 1 }, |out| out.extend_from_slice(b"cut_"));
        }
    }

    /// Notes what an event says of its process.
    #[inline]
    fn learn(&mut self, (index, pid): (usize, u64), bytes: &[u8], event: &Event, phase: u8) {
        let gpu = matches!(event.cat.of(bytes), b"\"kernel\"" | b"\"gpu_memcpy\"" | b"\"gpu_memset\"");
        if phase != b'M' && self.last_seen == Some((pid, gpu)) {
            return;
        }
        self.last_seen = Some((pid, gpu));
        let seen = self.seen.entry((index, pid)).or_default();
        seen.gpu |= gpu;
        if phase == b'M' {
            match event.name.of(bytes) {
                b"\"process_name\"" => seen.named = true,
                b"\"process_sort_index\"" => seen.sorted = true,
                _ => {}
            }
        }
    }

    /// Process names get their rank, and sort indices theirs.
    fn metadata(&mut self, fate: &Fate, bytes: &[u8], event: &Event, edits: &mut Edits) -> Result<()> {
        let wanted = match event.name.of(bytes) {
            b"\"process_name\"" => "name",
            b"\"process_sort_index\"" => "sort_index",
            _ => return Ok(()),
        };
        let start = event.args.start as usize;
        if event.args.is_empty() || bytes[start] != b'{' {
            return Ok(());
        }
        let mut at = json::space(bytes, start + 1);
        let mut found = None;
        while let Ok((key, value)) = member(bytes, at) {
            if key == wanted {
                found = Some(value.clone());
            }
            at = json::space(bytes, value.end);
            if bytes[at] != b',' {
                break;
            }
            at = json::space(bytes, at + 1);
        }
        let Some(value) = found else { return Ok(()) };
        let (start, end) = (u32::try_from(value.start), u32::try_from(value.end));
        let (Ok(start), Ok(end)) = (start, end) else {
            return Err(Error::Internal("an event beyond 4 GiB".into()));
        };
        let raw = &bytes[value];
        if wanted == "name" {
            // A merge before this one has named it.
            if raw.first() == Some(&b'"') && fate.sorts.is_none() {
                let from = Span { start: start + 1, end: start + 1 };
                let rank = fate.rank;
                self.text(edits, from, |out| out.extend_from_slice(format!("rank {rank}: ").as_bytes()));
            }
        } else if let Some(old) = python_int(raw).and_then(|int| int.small()) {
            let new = match fate.sorts {
                None => sort_index(fate.place, self.plan.count, old),
                Some(range) => sort_again(fate.place, self.plan.count, old, range),
            };
            self.text(edits, Span { start, end }, |out| out.extend_from_slice(new.to_string().as_bytes()));
        }
        Ok(())
    }
}

/// Whether an instant is one of the whole trace.
fn is_global(bytes: &[u8], event: &Event) -> bool {
    let mut at = json::space(bytes, event.start as usize + 1);
    while let Ok((key, value)) = member(bytes, at) {
        if key == "s" {
            return &bytes[value] == b"\"g\"";
        }
        at = json::space(bytes, value.end);
        if bytes[at] != b',' {
            break;
        }
        at = json::space(bytes, at + 1);
    }
    false
}
