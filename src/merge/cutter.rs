//! The events of one input as a stream of pieces, cut at the ends of events.

use super::bounds::{Bounds, Found, STEP};
use super::document::{self, Shape};
use super::json::PAD;
use super::plan::{Part, Plan};
use super::reader::Source;
use crate::error::{Error, Result};

/// Bytes of events in a piece.
const BLOCK: usize = 1 << 20;

/// Some events of one input.
#[derive(Debug)]
pub(super) struct Cut {
    /// The bytes, followed by [`PAD`] zeros.
    pub(super) bytes: Vec<u8>,
    pub(super) length: usize,
    /// Where in its document it starts.
    pub(super) offset: u64,
    /// It follows another piece, so that it starts with a comma.
    pub(super) comma: bool,
    /// A comma may stand after the last event: the array is one that may lack its bracket.
    pub(super) open_end: bool,
}

/// An input being read. Reading it again gives the same pieces.
pub(super) struct Cutter {
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
    /// Damaged pieces that were passed by.
    pub(super) lost: u64,
}

impl Cutter {
    /// Stands before the first event; `None` if the document has no events.
    pub(super) fn open(part: &Part<'_>) -> Result<Option<Self>> {
        let document = &part.input.document;
        if document.shape == Shape::Bare {
            return Ok(None);
        }
        let mut source = part.input.stored.open()?;
        source.skip_to(document.events_at)?;
        Ok(Some(Self {
            source,
            buffer: Vec::new(),
            offset: document.events_at,
            bounds: Bounds::default(),
            seen: 0,
            comma: false,
            finished: false,
            lost: 0,
        }))
    }

    /// The next piece.
    pub(super) fn next(&mut self, plan: &Plan<'_>, part: &Part<'_>) -> Result<Option<Cut>> {
        let mut cut = self.cut(plan, part)?;
        if let Some(cut) = &mut cut {
            cut.comma = std::mem::replace(&mut self.comma, true);
        }
        Ok(cut)
    }

    /// The bytes up to the end of the last event that is there whole.
    fn cut(&mut self, plan: &Plan<'_>, part: &Part<'_>) -> Result<Option<Cut>> {
        let (path, shape) = (&part.input.stored.name, part.input.document.shape);
        if self.finished {
            return Ok(None);
        }
        loop {
            let got = match self.source.fill(&mut self.buffer, BLOCK) {
                Ok(got) => got,
                Err(error) if plan.options.salvage && !matches!(error, Error::Io { .. }) => {
                    part.damaged(error.to_string());
                    return Ok(self.rest(true));
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
                return Ok(self.rest(false));
            }
            if got == 0 {
                if shape == Shape::Array && self.bounds.between_elements() {
                    return Ok(self.rest(true));
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
                return Ok(self.rest(true));
            }
            if let Some(last) = last {
                let rest = self.buffer.split_off(last);
                let mut bytes = std::mem::replace(&mut self.buffer, rest);
                let offset = self.offset;
                self.offset += last as u64;
                self.seen -= last;
                bytes.resize(last + PAD, 0);
                return Ok(Some(Cut { bytes, length: last, offset, comma: false, open_end: false }));
            }
            if length > plan.options.limits.event_bytes + BLOCK {
                let what = format!("an event of more than {} bytes", plan.options.limits.event_bytes);
                let error = Error::Limit { path: path.clone(), offset: self.offset, what };
                if !plan.options.salvage {
                    return Err(error);
                }
                part.damaged(error.to_string());
                self.lost += 1;
                self.finished = true;
                return Ok(None);
            }
        }
    }

    /// The bytes that are left, as the last piece; nothing if there are none. `open_end`: the array may lack its end,
    /// or the document was cut off inside an event.
    fn rest(&mut self, open_end: bool) -> Option<Cut> {
        self.finished = true;
        let mut bytes = std::mem::take(&mut self.buffer);
        let mut length = bytes.len();
        if open_end && !self.bounds.between_elements() {
            // What the last event had of itself is no event.
            self.lost += 1;
            length = whole(&bytes);
        }
        let blank = bytes[..length].iter().all(u8::is_ascii_whitespace);
        bytes.truncate(length);
        bytes.resize(length + PAD, 0);
        (!blank).then_some(Cut { bytes, length, offset: self.offset, comma: false, open_end })
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

/// The end of the last whole element of a piece that is cut off inside one.
fn whole(bytes: &[u8]) -> usize {
    let mut padded = bytes.to_vec();
    padded.resize(bytes.len().next_multiple_of(STEP) + PAD, 0);
    let mut last = None;
    // Block by block, so that `last` is the last one before the damage.
    let mut bounds = Bounds::default();
    let _ = bounds.scan(&padded, 0, bytes.len().next_multiple_of(STEP), &mut last);
    last.unwrap_or(0)
}
