//! Passes over all inputs, several at a time, while the calling thread tells how far they have come.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use crate::error::{Error, Result, contained};
use crate::sync::{Condvar, Mutex, lock, wait_for};

/// How often the calling thread looks up.
const TICK: Duration = Duration::from_millis(50);

/// What the threads of a pass have done.
#[derive(Debug, Default)]
pub(in crate::merge) struct Watch {
    bytes: AtomicU64,
    cancelled: AtomicBool,
}

impl Watch {
    /// Notes bytes that were read.
    ///
    /// # Errors
    /// [`Error::Cancelled`] once the caller wants no more.
    pub(super) fn read(&self, bytes: u64) -> Result<()> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if self.cancelled.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Threads that work on so many inputs.
pub(in crate::merge) fn threads(count: usize) -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(8).min(count).max(1)
}

/// Does `work` for each number below `count`, and gives the results in order; the first failure in that order, if any.
/// `tell` is called on the calling thread now and then, with the bytes read, and answers whether to go on.
pub(in crate::merge) fn each<T: Send>(
    count: usize,
    watch: &Watch,
    mut tell: impl FnMut(u64) -> bool,
    work: impl Fn(usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let next = AtomicUsize::new(0);
    let state = Mutex::new((Vec::with_capacity(count), 0usize));
    let changed = Condvar::new();
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let result = contained(|| work(index));
            if result.is_err() {
                // The others still finish theirs: the first failure in the order of the inputs is reported.
                next.store(count, Ordering::Relaxed);
            }
            lock(&state).0.push((index, result));
        }
        lock(&state).1 -= 1;
        changed.notify_all();
    };
    std::thread::scope(|scope| {
        lock(&state).1 = threads(count);
        let mut helpers = Vec::new();
        for _ in 0..threads(count) {
            match std::thread::Builder::new().spawn_scoped(scope, run) {
                Ok(helper) => helpers.push(helper),
                // A system that gives no thread gets the work from the calling one.
                Err(_) => run(),
            }
        }
        // Asked at least once, however soon the work is done; without the lock, which the work needs.
        loop {
            if !tell(watch.bytes.load(Ordering::Relaxed)) {
                watch.cancelled.store(true, Ordering::Relaxed);
            }
            let held = lock(&state);
            if held.1 == 0 {
                break;
            }
            drop(wait_for(&changed, held, TICK));
        }
        for helper in helpers {
            // What panics in a helper is contained where it happens.
            let _ = helper.join();
        }
    });
    if watch.cancelled.load(Ordering::Relaxed) {
        return Err(Error::Cancelled);
    }
    let (mut found, _) = std::mem::take(&mut *lock(&state));
    found.sort_by_key(|&(index, _)| index);
    found.into_iter().map(|(_, result)| result).collect()
}
