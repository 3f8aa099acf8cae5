//! The lanes of this thread: one for each trace that it records into.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, compiler_fence};

use super::Outcome;
use super::core::Core;
use super::fork;
use super::lane::Lane;

unsafe extern "C" {
    fn pthread_key_create(key: *mut u32, destructor: Option<unsafe extern "C" fn(*mut c_void)>) -> c_int;
    fn pthread_key_delete(key: u32) -> c_int;
    fn pthread_setspecific(key: u32, value: *const c_void) -> c_int;
}

/// No destructor, so that it can be used to the very end of the thread, and no lazy start, so that it costs one address.
struct Local {
    /// The trace that was used last, and this thread's lane of it.
    trace: Cell<u64>,
    lane: Cell<*mut Lane>,
    /// All lanes, and the process in which they were made.
    first: Cell<*mut Lane>,
    process: Cell<u32>,
    /// A call is under way: what comes now is a signal that interrupted it.
    busy: Cell<bool>,
}

thread_local! {
    static LOCAL: Local = const {
        Local {
            trace: Cell::new(0),
            lane: Cell::new(null_mut()),
            first: Cell::new(null_mut()),
            process: Cell::new(0),
            busy: Cell::new(false),
        }
    };
}

/// Tells when a thread ends: a key of pthread's, 0 as long as there is none. Unlike a destructor of Rust's it takes no
/// memory to set.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Makes the key. Before the first record of a trace.
pub(super) fn prepare() {
    // Without a lock, which another thread might hold when the process forks.
    if KEY.load(Ordering::Acquire) == 0 {
        let mut key = 0;
        // SAFETY: the place is ours; the destructor stays, since this library is never unloaded.
        let made = unsafe { pthread_key_create(&raw mut key, Some(ended)) } == 0;
        if made && KEY.compare_exchange(0, key + 1, Ordering::AcqRel, Ordering::Acquire).is_err() {
            // SAFETY: made above, and nobody knows it: another thread was faster.
            unsafe { pthread_key_delete(key) };
        }
    }
}

/// The first of this thread's lanes. In the child of a fork those of its parent are left alone: their locks and what they
/// guard are as other threads, which are not there, had them at that moment.
fn first(local: &Local) -> *mut Lane {
    let process = fork::generation();
    if local.process.replace(process) != process {
        local.first.set(null_mut());
    }
    local.first.get()
}

/// Calls with this thread's lane of the trace. A signal that interrupts one such call is turned away.
#[inline(always)]
pub(super) fn with_lane(core: &Core, call: impl FnOnce(&Lane) -> Outcome) -> Outcome {
    LOCAL.with(|local| {
        if local.busy.replace(true) {
            core.count_interrupting();
            return Outcome::Dropped;
        }
        compiler_fence(Ordering::SeqCst);
        let lane = if local.trace.get() == core.id { local.lane.get() } else { find(local, core) };
        // SAFETY: lanes of this thread live until it ends or leaves them in `find`.
        let outcome = match unsafe { lane.as_ref() } {
            Some(lane) => call(lane),
            None => {
                core.count_interrupting();
                Outcome::Dropped
            }
        };
        compiler_fence(Ordering::SeqCst);
        local.busy.set(false);
        outcome
    })
}

/// Looks for the lane, or makes it. NULL without memory.
#[cold]
fn find(local: &Local, core: &Core) -> *mut Lane {
    let mut at = first(local);
    let mut before: *mut Lane = null_mut();
    let mut found = null_mut();
    while !at.is_null() {
        // SAFETY: the list is this thread's, and what is in it lives.
        let lane = unsafe { &*at };
        let next = lane.of_thread.get();
        if lane.core.id == core.id {
            found = at;
        } else if lane.core.is_orphan(lane) {
            // The trace is gone: nobody but this thread knows the lane.
            // SAFETY: as above for the one before.
            match unsafe { before.as_ref() } {
                Some(before) => before.of_thread.set(next),
                None => local.first.set(next),
            }
            Core::free_lane(at);
            at = next;
            continue;
        }
        before = at;
        at = next;
    }
    if found.is_null() {
        found = core.add_lane();
        // SAFETY: new, and this thread's.
        if let Some(lane) = unsafe { found.as_ref() } {
            lane.of_thread.set(local.first.get());
            local.first.set(found);
            let key = KEY.load(Ordering::Acquire);
            if key > 0 {
                // SAFETY: the key was made. Any value but NULL has the destructor called.
                unsafe { pthread_setspecific(key - 1, found.cast()) };
            }
        }
    }
    if !found.is_null() {
        local.trace.set(core.id);
        local.lane.set(found);
    }
    found
}

/// The thread ends. It may go on recording in other destructors: then it gets new lanes.
unsafe extern "C" fn ended(_: *mut c_void) {
    let _uncancelled = super::Uncancelled::new();
    let _ = std::panic::catch_unwind(|| {
        LOCAL.with(|local| {
            local.busy.set(true);
            local.trace.set(0);
            local.lane.set(null_mut());
            let mut at = first(local);
            local.first.set(null_mut());
            while !at.is_null() {
                // SAFETY: the list is this thread's, and what is in it lives until it is left.
                let next = unsafe { &*at }.of_thread.get();
                // SAFETY: as above; the clone keeps the trace's side while the lane is left.
                let core = Arc::clone(&unsafe { &*at }.core);
                core.leave(at);
                at = next;
            }
            local.busy.set(false);
        });
    });
}
