//! Jobs run in parallel; where one needs to know what the earlier ones found, it waits for them.
//!
//! Jobs are handed out in order and each is run by the thread that took it, so the earliest unfinished job never
//! waits, and waiting cannot lock up.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::sync::{Condvar, Mutex, lock, wait};

/// Which jobs have finished.
#[derive(Debug)]
pub(super) struct Order {
    state: Mutex<State>,
    changed: Condvar,
    /// The first job that wrote an event.
    first_event: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// All jobs below have finished.
    finished: u64,
    /// Jobs above that have finished too.
    early: BTreeSet<u64>,
    /// A job was dropped: those that wait for it give up.
    broken: bool,
}

impl Order {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::default()),
            changed: Condvar::new(),
            first_event: AtomicU64::new(u64::MAX),
        })
    }

    /// The place of job `number`.
    pub(super) fn ticket(self: &Arc<Self>, number: u64) -> Ticket {
        Ticket { order: self.clone(), number, finished: false }
    }
}

/// A job's place in the order. Dropped without [`Ticket::finish`], it ends the waiting of all later jobs.
#[derive(Debug)]
pub(super) struct Ticket {
    order: Arc<Order>,
    number: u64,
    finished: bool,
}

impl Ticket {
    /// Waits until all earlier jobs have finished.
    pub(super) fn wait(&self) -> Result<()> {
        let mut state = lock(&self.order.state);
        while state.finished < self.number {
            if state.broken {
                return Err(Error::Internal("an earlier part of the document failed".into()));
            }
            state = wait(&self.order.changed, state);
        }
        Ok(())
    }

    /// Says that this job writes an event; answers whether it is not the document's first one, so that a comma
    /// must stand before it.
    pub(super) fn follows_event(&self) -> Result<bool> {
        let first = &self.order.first_event;
        if first.load(Ordering::Acquire) > self.number {
            self.wait()?;
        }
        Ok(first.fetch_min(self.number, Ordering::AcqRel) < self.number)
    }

    /// Says that later jobs need not wait for this one.
    pub(super) fn finish(mut self) {
        self.finished = true;
        let mut state = lock(&self.order.state);
        state.early.insert(self.number);
        while let Some(next) = state.early.first().copied().filter(|&n| n == state.finished) {
            state.early.remove(&next);
            state.finished += 1;
        }
        drop(state);
        self.order.changed.notify_all();
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if !self.finished {
            lock(&self.order.state).broken = true;
            self.order.changed.notify_all();
        }
    }
}
