//! The ends of each flow, in the order of time.

use super::codes::Code;
use super::notes::Notes;
use super::scan::{FINISH, START};
use crate::error::Result;
use crate::read::nest::Merged;

/// A flow so far.
#[derive(Default)]
struct Flow {
    /// The document, and the start that has no end yet.
    open: Option<(usize, u64)>,
    /// The first end without a start.
    alone: Option<(usize, u64)>,
    starts_alone: u64,
    ends_alone: u64,
}

impl Flow {
    fn end(&mut self, notes: &mut Notes) {
        if let Some((document, offset)) = self.open.take() {
            self.starts_alone += 1;
            if self.ends_alone == 0 {
                notes.at(document, Code::FlowNoEnd, offset);
            }
        }
        if let Some((document, offset)) = self.alone {
            // A start that comes later is taken for theirs.
            let code = if self.starts_alone > 0 { Code::FlowBackwards } else { Code::FlowNoStart };
            notes.at(document, code, offset);
            for _ in 1..self.ends_alone {
                notes.at(document, Code::FlowNoStart, offset);
            }
        }
        *self = Flow::default();
    }
}

/// Checks all flows.
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
                if flow.open.is_some() {
                    notes.at(place.0, Code::FlowTwice, place.1);
                }
                flow.open = Some(place);
            }
            kind => {
                if flow.open.is_none() {
                    flow.ends_alone += 1;
                    flow.alone = flow.alone.or(Some(place));
                } else if kind == FINISH {
                    flow.open = None;
                }
            }
        }
    }
    flow.end(notes);
    Ok(())
}
