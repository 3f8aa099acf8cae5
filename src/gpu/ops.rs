//! Which op the calls of a thread come from.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use super::collector::{Collector, Known};
use crate::record::fork::pthread_atfork;
use crate::trace::Trace;

/// The collector that was used last; none in a forked child.
static LAST: AtomicPtr<Known> = AtomicPtr::new(std::ptr::null_mut());
static WATCHED: AtomicBool = AtomicBool::new(false);

/// Ops that may be open within one another on a thread and be told to the collector.
const DEEPEST: u32 = 64;

thread_local! {
    /// How many ops are open on this thread, and of each of the innermost ones whether the collector knows it.
    static OPEN: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// From now on ops are told to `known`.
pub(super) fn tell(known: &'static Known) {
    unsafe extern "C" fn in_child() {
        LAST.store(std::ptr::null_mut(), Ordering::Relaxed);
    }
    if !WATCHED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handler only writes an atomic, and this library is never unloaded.
        unsafe { pthread_atfork(None, None, Some(in_child)) };
    }
    LAST.store(std::ptr::from_ref(known).cast_mut(), Ordering::Release);
}

fn collector() -> Option<&'static dyn Collector> {
    // SAFETY: what was stored lives as long as the process.
    unsafe { LAST.load(Ordering::Acquire).as_ref() }.map(|known| &*known.collector)
}

/// Says that the CUDA calls of this thread come from the op of that id, until [`pop_op`]. Ops may lie within one another;
/// the innermost counts. Costs a few nanoseconds while no GPU work is collected into this trace.
#[inline]
pub fn push_op(trace: &Trace, id: u64) {
    push(trace.shared().collecting.load(Ordering::Acquire), id);
}

/// The same where it is known whether GPU work is collected.
#[inline]
pub(crate) fn push(collecting: bool, id: u64) {
    let (depth, known) = OPEN.get();
    let told = depth < DEEPEST && collecting && collector().is_some_and(|collector| collector.push(id));
    let known = if depth < DEEPEST { known << 1 | u64::from(told) } else { known };
    OPEN.set((depth + 1, known));
}

/// Ends what the last [`push_op`] of this thread began; nothing if there was none.
#[inline]
pub fn pop_op() {
    let (depth, known) = OPEN.get();
    let Some(left) = depth.checked_sub(1) else { return };
    if left >= DEEPEST {
        OPEN.set((left, known));
        return;
    }
    OPEN.set((left, known >> 1));
    // Also after the end of a collection: its next one must not find ops of this one.
    if known & 1 != 0
        && let Some(collector) = collector()
    {
        collector.pop();
    }
}
