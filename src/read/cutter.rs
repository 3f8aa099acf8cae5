//! The events of one input as a stream of pieces, cut at the ends of events.

use super::bounds::{Bounds, Found, STEP};
use super::document::{self, Document, Member, Shape};
use super::input::Limits;
use super::json::PAD;
use super::reader::{Source, Stored};
use crate::error::{Error, Result};

/// Bytes of events in a piece.
const BLOCK: usize = 1 << 20;

/// A document that is read.
pub(crate) trait Subject {
    /// Its bytes.
    fn stored(&self) -> &Stored;
    /// What stands around its events.
    fn document(&self) -> &Document;
    /// Notes damage that salvage passes by.
    fn damaged(&self, what: String);
    /// Notes that the end of the events is not where it was guessed to be.
    fn guessed_wrong(&self);
}

/// How the events of a document end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// They are closed, and what follows them is as it should be.
    Closed,
    /// They are closed, and what follows them is damaged.
    Tail,
    /// A bare array without its bracket.
    Open,
    /// The document ends inside a string, inside an event, or between two events.
    InString,
    InEvent,
    BetweenEvents,
    /// An event is longer than allowed.
    TooLong,
    /// The bytes cannot be read: damaged gzip.
    Unreadable,
}

/// Some events of one input.
#[derive(Debug)]
pub(crate) struct Cut {
    /// The bytes, followed by [`PAD`] zeros.
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: usize,
    /// Where in its document it starts.
    pub(crate) offset: u64,
    /// It follows another piece, so that it starts with a comma.
    pub(crate) comma: bool,
    /// A comma may stand after the last event: the array is one that may lack its bracket.
    pub(crate) open_end: bool,
}

/// An input being read. Reading it again gives the same pieces.
pub(crate) struct Cutter {
    source: Source,
    buffer: Vec<u8>,
    /// Where in the document the buffer starts.
    offset: u64,
    bounds: Bounds,
    /// Bytes of the buffer that the bounds have seen.
    seen: usize,
    comma: bool,
    /// Memory for the next piece: that of one which nobody needs any more.
    pub(crate) spare: Vec<u8>,
    /// The events have ended.
    finished: bool,
    /// Damaged pieces that were passed by.
    pub(crate) lost: u64,
    /// How the events end, once they have, and the offset there.
    pub(crate) end: Option<(End, u64)>,
    /// What follows the events, if the document's end was not read before.
    pub(crate) tail: Vec<Member>,
}

impl Cutter {
    /// Stands before the first event; `None` if the document has no events.
    pub(crate) fn open(subject: &impl Subject) -> Result<Option<Self>> {
        let document = subject.document();
        if document.shape == Shape::Bare {
            return Ok(None);
        }
        let mut source = subject.stored().open()?;
        source.skip_to(document.events_at)?;
        Ok(Some(Self {
            source,
            buffer: Vec::new(),
            offset: document.events_at,
            bounds: Bounds::default(),
            seen: 0,
            comma: false,
            spare: Vec::new(),
            finished: false,
            lost: 0,
            end: None,
            tail: Vec::new(),
        }))
    }

    /// The next piece.
    pub(crate) fn next(&mut self, subject: &impl Subject, limits: &Limits, salvage: bool) -> Result<Option<Cut>> {
        let mut cut = self.cut(subject, limits, salvage)?;
        if let Some(cut) = &mut cut {
            cut.comma = std::mem::replace(&mut self.comma, true);
        }
        Ok(cut)
    }

    /// The bytes up to the end of the last event that is there whole.
    fn cut(&mut self, subject: &impl Subject, limits: &Limits, salvage: bool) -> Result<Option<Cut>> {
        let (path, shape) = (&subject.stored().name, subject.document().shape);
        if self.finished {
            return Ok(None);
        }
        loop {
            let got = match self.source.fill(&mut self.buffer, BLOCK) {
                Ok(got) => got,
                Err(error) if salvage && !matches!(error, Error::Io { .. }) => {
                    subject.damaged(error.to_string());
                    let length = self.buffer.len();
                    self.end = Some((End::Unreadable, self.offset + length as u64));
                    // What came before the damage was not looked at yet: the events may even end there.
                    let to = self.seen + (length - self.seen).next_multiple_of(STEP);
                    self.buffer.resize(to + PAD, 0);
                    let found = self.bounds.scan(&self.buffer, self.seen, to, &mut None);
                    let closed = matches!(found, Found::End(at) if at < length);
                    self.buffer.truncate(if let Found::End(at) = found { at.min(length) } else { length });
                    return Ok(self.rest(!closed));
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
                self.end = Some((End::Closed, self.offset + at as u64));
                match self.check_end(subject, limits, at) {
                    Ok(()) => {}
                    // The events are whole: only what follows them is lost.
                    Err(error) if salvage && !subject.document().thorough => {
                        subject.damaged(error.to_string());
                        let at = match error {
                            Error::Malformed { offset, .. } | Error::Limit { offset, .. } => offset,
                            _ => self.offset + at as u64,
                        };
                        self.end = Some((End::Tail, at));
                    }
                    Err(error) => return Err(error),
                }
                self.buffer.truncate(at);
                return Ok(self.rest(false));
            }
            if got == 0 {
                let offset = self.offset + length as u64;
                if shape == Shape::Array && self.bounds.between_elements() {
                    self.end = Some((End::Open, offset));
                    return Ok(self.rest(true));
                }
                let (end, what) = if self.bounds.in_string() {
                    (End::InString, "the document ends inside a string")
                } else if self.bounds.between_elements() {
                    (End::BetweenEvents, "the document ends before the events array is closed")
                } else {
                    (End::InEvent, "the document ends inside an event")
                };
                self.end = Some((end, offset));
                let error = Error::Malformed { path: path.clone(), offset, what: what.into() };
                if !salvage {
                    return Err(error);
                }
                subject.damaged(error.to_string());
                return Ok(self.rest(true));
            }
            if let Some(last) = last {
                let mut next = std::mem::take(&mut self.spare);
                next.clear();
                next.extend_from_slice(&self.buffer[last..]);
                let mut bytes = std::mem::replace(&mut self.buffer, next);
                let offset = self.offset;
                self.offset += last as u64;
                self.seen -= last;
                // Zeros, not what follows in the document: blanks there would be skipped beyond the end.
                bytes.truncate(last);
                bytes.resize(last + PAD, 0);
                return Ok(Some(Cut { bytes, length: last, offset, comma: false, open_end: false }));
            }
            if length > limits.event_bytes.saturating_add(BLOCK) {
                let what = format!("an event of more than {} bytes", limits.event_bytes);
                let error = Error::Limit { path: path.clone(), offset: self.offset, what };
                self.end = Some((End::TooLong, self.offset));
                if !salvage {
                    return Err(error);
                }
                subject.damaged(error.to_string());
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

    /// The end of the events must be where it was seen before, with the same metadata after it.
    fn check_end(&mut self, subject: &impl Subject, limits: &Limits, at: usize) -> Result<()> {
        let document = subject.document();
        if document.broken.is_some() {
            return Ok(());
        }
        let rest = self.buffer[at..].to_vec();
        let stored = subject.stored();
        let tail = document::tail(&mut self.source, stored, document.shape, self.offset + at as u64, rest, limits);
        if !document.thorough {
            self.tail = tail?;
            return Ok(());
        }
        let same = match &tail {
            Ok(members) => members.as_slice() == &document.members[document.before..],
            Err(_) => false,
        };
        if same {
            return Ok(());
        }
        subject.guessed_wrong();
        match tail {
            Err(error) => Err(error),
            Ok(_) => Err(document::changed(&stored.name)),
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
