//! The second pass: the events of all inputs, cut into blocks at the ends of events.

use super::bounds::{Bounds, Found, STEP};
use super::document::{self, Shape};
use super::json::PAD;
use super::order::Ticket;
use super::plan::{Part, Plan};
use super::reader::Source;
use crate::error::{Error, Result};
use crate::output::Job;

/// Bytes of events in a block.
const BLOCK: usize = 1 << 20;

/// Inputs whose metadata make one piece.
pub(super) const ABOUT: usize = 64;

/// A piece of the merged document.
#[derive(Debug)]
pub(super) enum Piece {
    /// All before what the inputs say, and what the first of them say.
    Head,
    /// What the inputs from this one on say of themselves, [`ABOUT`] of them.
    About(usize),
    /// The bracket that opens the events.
    Open,
    /// Some events.
    Events(Box<Block>),
    /// What the events did not say of their processes, and the end.
    Close(Ticket),
}

/// Some events of one input.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) part: usize,
    /// The bytes, followed by [`PAD`] zeros.
    pub(super) bytes: Vec<u8>,
    pub(super) length: usize,
    /// Where in its document it starts.
    pub(super) offset: u64,
    /// It follows another block, so that it starts with a comma.
    pub(super) comma: bool,
    /// A comma may stand after the last event: the array is one that may lack its bracket.
    pub(super) open_end: bool,
    pub(super) ticket: Ticket,
}

/// Gives the pieces in order.
pub(super) struct Blocks<'p, 'a> {
    plan: &'p Plan<'a>,
    stage: Stage,
    reading: Option<Reading>,
    /// The number of the next ticket.
    ticket: u64,
}

enum Stage {
    Head,
    About(usize),
    Open,
    Part(usize),
    Done,
}

/// An input being read.
struct Reading {
    source: Source,
    buffer: Vec<u8>,
    /// Where in the document the buffer starts.
    offset: u64,
    bounds: Bounds,
    /// Bytes of the buffer that the bounds have seen.
    seen: usize,
    comma: bool,
    /// The events have ended.
    finished: bool,
}

impl<'p, 'a> Blocks<'p, 'a> {
    pub(super) fn new(plan: &'p Plan<'a>) -> Self {
        Self { plan, stage: Stage::Head, reading: None, ticket: 0 }
    }

    fn ticket(&mut self) -> Ticket {
        self.ticket += 1;
        self.plan.order.ticket(self.ticket - 1)
    }

    /// The next piece.
    pub(super) fn next(&mut self) -> Result<Option<Job<Piece>>> {
        let plan = self.plan;
        let job = |item| Ok(Some(Job { item, units: 0 }));
        loop {
            match self.stage {
                Stage::Head => {
                    self.stage = if plan.options.verbatim { Stage::Open } else { Stage::About(ABOUT) };
                    return job(Piece::Head);
                }
                Stage::About(index) => {
                    self.stage = Stage::About(index + ABOUT);
                    if index < plan.parts.len() {
                        return job(Piece::About(index));
                    }
                    self.stage = Stage::Open;
                }
                Stage::Open => {
                    self.stage = Stage::Part(0);
                    return job(Piece::Open);
                }
                Stage::Part(index) => {
                    let Some(part) = plan.parts.get(index) else {
                        self.stage = Stage::Done;
                        let ticket = self.ticket();
                        return job(Piece::Close(ticket));
                    };
                    match self.block(index, part)? {
                        Some(block) => {
                            let units = block.length as u64;
                            return Ok(Some(Job { item: Piece::Events(Box::new(block)), units }));
                        }
                        None => {
                            self.reading = None;
                            self.stage = Stage::Part(index + 1);
                        }
                    }
                }
                Stage::Done => return Ok(None),
            }
        }
    }

    /// The next block of an input.
    fn block(&mut self, index: usize, part: &Part<'a>) -> Result<Option<Block>> {
        let document = &part.input.document;
        if document.shape == Shape::Bare {
            return Ok(None);
        }
        if self.reading.is_none() {
            let mut source = part.input.stored.open()?;
            source.skip_to(document.events_at)?;
            let (buffer, bounds) = (Vec::new(), Bounds::default());
            self.reading = Some(Reading {
                source,
                buffer,
                offset: document.events_at,
                bounds,
                seen: 0,
                comma: false,
                finished: false,
            });
        }
        let Some(reading) = &mut self.reading else { return Ok(None) };
        let cut = reading.cut(self.plan, part)?;
        let Some((bytes, length, offset, open_end)) = cut else { return Ok(None) };
        let comma = std::mem::replace(&mut reading.comma, true);
        let ticket = self.ticket();
        Ok(Some(Block { part: index, bytes, length, offset, comma, open_end, ticket }))
    }
}

/// The bytes of a block, their number, where they start, and whether a comma may end them.
type Cut = Option<(Vec<u8>, usize, u64, bool)>;

impl Reading {
    /// The bytes up to the end of the last event that is there whole.
    fn cut(&mut self, plan: &Plan<'_>, part: &Part<'_>) -> Result<Cut> {
        let (path, shape) = (&part.input.stored.name, part.input.document.shape);
        if self.finished {
            return Ok(None);
        }
        loop {
            let got = match self.source.fill(&mut self.buffer, BLOCK) {
                Ok(got) => got,
                Err(error) if plan.options.salvage && !matches!(error, Error::Io { .. }) => {
                    part.damaged(error.to_string());
                    return Ok(self.rest(part, true));
                }
                Err(error) => return Err(error),
            };
            let length = self.buffer.len();
            let unseen = length - self.seen;
            let steps = if got == 0 { unseen.div_ceil(STEP) } else { unseen / STEP };
            let to = self.seen + steps * STEP;
            self.buffer.resize(length.max(to) + PAD, 0);
            let mut last = None;
            let found = self.bounds.scan(&self.buffer, self.seen, to, &mut last);
            self.buffer.truncate(length);
            self.seen = to.min(length);
            if let Found::End(at) = found {
                self.check_end(plan, part, at)?;
                self.buffer.truncate(at);
                return Ok(self.rest(part, false));
            }
            if got == 0 {
                if shape == Shape::Array && self.bounds.between_elements() {
                    return Ok(self.rest(part, true));
                }
                let what = if self.bounds.in_string() {
                    "the document ends inside a string"
                } else if self.bounds.between_elements() {
                    "the document ends before the events array is closed"
                } else {
                    "the document ends inside an event"
                };
                let offset = self.offset + length as u64;
                let error = Error::Malformed { path: path.clone(), offset, what: what.into() };
                if !plan.options.salvage {
                    return Err(error);
                }
                part.damaged(error.to_string());
                return Ok(self.rest(part, true));
            }
            if let Some(last) = last {
                let rest = self.buffer.split_off(last);
                let mut bytes = std::mem::replace(&mut self.buffer, rest);
                let offset = self.offset;
                self.offset += last as u64;
                self.seen -= last;
                bytes.resize(last + PAD, 0);
                return Ok(Some((bytes, last, offset, false)));
            }
            if length > plan.options.limits.event_bytes + BLOCK {
                let what = format!("an event of more than {} bytes", plan.options.limits.event_bytes);
                let error = Error::Limit { path: path.clone(), offset: self.offset, what };
                if !plan.options.salvage {
                    return Err(error);
                }
                part.damaged(error.to_string());
                part.count(0, 0, 1);
                return Ok(None);
            }
        }
    }

    /// The bytes that are left, as the last block; nothing if there are none. `open_end`: the array may lack its end,
    /// or the document was cut off inside an event.
    fn rest(&mut self, part: &Part<'_>, open_end: bool) -> Cut {
        self.finished = true;
        let mut bytes = std::mem::take(&mut self.buffer);
        let mut length = bytes.len();
        if open_end && !self.bounds.between_elements() {
            // What the last event had of itself is no event.
            part.count(0, 0, 1);
            length = whole(&bytes);
        }
        let blank = bytes[..length].iter().all(u8::is_ascii_whitespace);
        bytes.truncate(length);
        bytes.resize(length + PAD, 0);
        (!blank).then_some((bytes, length, self.offset, open_end))
    }

    /// The end of the events must be where the survey saw it, with the same metadata after it.
    fn check_end(&mut self, plan: &Plan<'_>, part: &Part<'_>, at: usize) -> Result<()> {
        let document = &part.input.document;
        if document.broken.is_some() {
            return Ok(());
        }
        let rest = self.buffer[at..].to_vec();
        let (stored, limits) = (part.input.stored, &plan.options.limits);
        let tail = document::tail(&mut self.source, stored, document.shape, self.offset + at as u64, rest, limits);
        let same = match &tail {
            Ok(members) => members.as_slice() == &document.members[document.before..],
            Err(_) => false,
        };
        if same {
            return Ok(());
        }
        plan.note_wrong_guess();
        match tail {
            Err(error) => Err(error),
            Ok(_) => Err(super::changed(&stored.name)),
        }
    }
}

/// The end of the last whole element of a block that is cut off inside one.
fn whole(bytes: &[u8]) -> usize {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(STEP) + PAD, 0);
    let mut last = None;
    // Block by block, so that `last` is the last one before the damage.
    let mut bounds = Bounds::default();
    let _ = bounds.scan(&padded, 0, bytes.len().next_multiple_of(STEP), &mut last);
    last.unwrap_or(0)
}
