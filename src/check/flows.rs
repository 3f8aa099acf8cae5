//! The ends of each flow and of each async span, in the order of time.

use super::codes::Code;
use super::notes::Notes;
use super::scan::{BEGIN, END, START};
use crate::error::Result;
use crate::read::nest::Merged;

/// A flow so far. One start may have several ends.
#[derive(Default)]
struct Flow {
    /// The document, and the last start.
    start: Option<(usize, u64)>,
    /// Whether something followed the last start.
    ended: bool,
    /// The first end without a start.
    alone: Option<(usize, u64)>,
    ends_alone: u64,
    /// Async spans of the id that have begun: document and place, and how many more there are than are kept.
    begun: Vec<(usize, u64)>,
    more: u64,
}

/// Spans of one id that may be open at once with their places.
const MAX_OPEN: usize = 1 << 16;

impl Flow {
    fn end(&mut self, notes: &mut Notes) {
        // A start that comes later, and has no end, is taken for that of the ends without one.
        let late = self.start.filter(|_| !self.ended);
        match (late, self.alone) {
            (Some((document, offset)), None) => notes.at(document, Code::FlowNoEnd, offset),
            (Some(_), Some((document, offset))) => notes.at(document, Code::FlowBackwards, offset),
            (None, Some((document, offset))) => {
                (0..self.ends_alone).for_each(|_| notes.at(document, Code::FlowNoStart, offset));
            }
            (None, None) => {}
        }
        self.begun.iter().for_each(|&(document, offset)| notes.at(document, Code::AsyncNoEnd, offset));
        if let Some(&(document, offset)) = self.begun.last() {
            (0..self.more).for_each(|_| notes.at(document, Code::AsyncNoEnd, offset));
        }
        *self = Flow::default();
    }
}

/// Checks all flows and async spans.
pub(super) fn check(mut records: Merged<4>, notes: &mut Notes) -> Result<()> {
    let mut current = None;
    let mut flow = Flow::default();
    while let Some([id, _, kind, rest]) = records.next()? {
        let place = ((rest & 0xff_ffff) as usize, rest >> 24);
        if current != Some(id) {
            flow.end(notes);
            current = Some(id);
        }
        match kind as u8 {
            START => {
                // Even if the first has ended: readers know a flow by its id in the whole document.
                if flow.start.is_some() {
                    notes.at(place.0, Code::FlowTwice, place.1);
                }
                (flow.start, flow.ended) = (Some(place), false);
            }
            BEGIN if flow.begun.len() < MAX_OPEN => flow.begun.push(place),
            BEGIN => flow.more += 1,
            END if flow.more > 0 => flow.more -= 1,
            END => {
                if flow.begun.pop().is_none() {
                    notes.at(place.0, Code::AsyncNoBegin, place.1);
                }
            }
            _ if flow.start.is_some() => flow.ended = true,
            _ => {
                flow.ends_alone += 1;
                flow.alone = flow.alone.or(Some(place));
            }
        }
    }
    flow.end(notes);
    Ok(())
}
