//! What belongs to this process and not to a child that is forked from it.
//!
//! A child gets a fresh one: the locks of before may be held there by threads that it does not have.

use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::collector::Known;
use super::pool::Pool;
use super::session::{End, Slot};
use crate::sync::Mutex;

/// The GPU's side of one process.
#[derive(Debug)]
pub(super) struct Process {
    pid: u32,
    /// A process that this one was forked from has called cuInit: CUDA does not work here.
    pub(super) inherited: bool,
    /// This process is about to call cuInit, or has.
    pub(super) touched: AtomicBool,
    /// The buffers that collectors fill.
    pub(super) pool: Pool,
    /// Who collects.
    pub(super) slot: Mutex<Slot>,
    /// How the last collection ends.
    pub(super) end: End,
    /// Those that were used.
    pub(super) collectors: Mutex<Vec<&'static Known>>,
}

static CURRENT: AtomicPtr<Process> = AtomicPtr::new(std::ptr::null_mut());

impl Process {
    /// That of the process which asks.
    pub(super) fn current() -> &'static Process {
        let pid = std::process::id();
        let mut seen = CURRENT.load(Ordering::Acquire);
        loop {
            // SAFETY: what was stored here came from a box and is never freed.
            let known = unsafe { seen.as_ref() };
            if let Some(process) = known.filter(|process| process.pid == pid) {
                return process;
            }
            let inherited = known.is_some_and(|of| of.inherited || of.touched.load(Ordering::Relaxed));
            let fresh = Box::into_raw(Box::new(Process {
                pid,
                inherited,
                touched: AtomicBool::new(false),
                pool: Pool::new(),
                slot: Mutex::new(Slot::Idle),
                end: End::default(),
                collectors: Mutex::new(Vec::new()),
            }));
            match CURRENT.compare_exchange(seen, fresh, Ordering::AcqRel, Ordering::Acquire) {
                // SAFETY: just made, and never freed from now on.
                Ok(_) => return unsafe { &*fresh },
                Err(other) => {
                    // SAFETY: nobody else has seen it.
                    drop(unsafe { Box::from_raw(fresh) });
                    seen = other;
                }
            }
        }
    }
}
