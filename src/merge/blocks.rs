//! The second pass: the pieces of the merged document, in order.

use std::sync::Arc;

use super::order::Ticket;
use super::plan::{Part, Plan};
use super::select::Marks;
use crate::error::Result;
use crate::output::Job;
use crate::read::cutter::{Cut, Cutter};
use crate::read::document::changed;

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
    /// What the events did not say of their processes, and of a whole document the end.
    Close { ticket: Ticket, whole: bool },
}

/// Some events of one input.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) part: usize,
    pub(super) cut: Cut,
    /// Which of its events stay, and the number of its first one.
    pub(super) marks: Option<(Arc<Marks>, u64)>,
    pub(super) ticket: Ticket,
}

/// Gives the pieces in order.
pub(super) struct Blocks<'p, 'a> {
    plan: &'p Plan<'a>,
    stage: Stage,
    /// Not only the events, but what stands around them.
    whole: bool,
    reading: Option<Cutter>,
    /// The number of the next piece of the input.
    piece: usize,
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

impl<'p, 'a> Blocks<'p, 'a> {
    pub(super) fn new(plan: &'p Plan<'a>) -> Self {
        Self { plan, stage: Stage::Head, whole: true, reading: None, piece: 0, ticket: 0 }
    }

    /// The events alone, without what stands around them.
    pub(super) fn of_fragment(plan: &'p Plan<'a>) -> Self {
        Self { stage: Stage::Part(0), whole: false, ..Self::new(plan) }
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
                        return job(Piece::Close { ticket, whole: self.whole });
                    };
                    match self.block(index, part)? {
                        Some(block) => {
                            let units = block.cut.length as u64;
                            return Ok(Some(Job { item: Piece::Events(Box::new(block)), units }));
                        }
                        None => {
                            self.reading = None;
                            plan.note_read();
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
        if self.reading.is_none() {
            self.reading = Cutter::open(part)?;
            self.piece = 0;
        }
        let Some(cutter) = &mut self.reading else { return Ok(None) };
        let Some(cut) = cutter.next(part, &self.plan.options.limits, self.plan.options.salvage)? else {
            part.count(0, 0, cutter.lost);
            return Ok(None);
        };
        let marks = match &self.plan.selected {
            None => None,
            Some(selected) => {
                let marks = &selected.marks[index];
                let first = marks.first_of(self.piece).ok_or_else(|| changed(&part.input.stored.name))?;
                Some((marks.clone(), first))
            }
        };
        self.piece += 1;
        let ticket = self.ticket();
        Ok(Some(Block { part: index, cut, marks, ticket }))
    }
}
