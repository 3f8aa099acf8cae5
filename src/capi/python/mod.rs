//! Lists of Python tuples, walked in place; and in `threads` live recording that tells of new threads.
//!
//! Private to the Python package, which calls these through `ctypes.PyDLL`, so with the GIL held, after
//! [`tp_py_ready`] has answered yes; the header does not show them. One ctypes call for each event would cost more
//! than the export.
//!
//! Events are gathered into a batch first and then added under the trace's lock: odd values may run Python code, which
//! must not happen under it, and the batch keeps its tuples alive meanwhile.

mod api;
mod batch;
#[cfg(feature = "embedded-command")]
pub mod command;
mod events;
mod relay;
pub mod threads;
mod value;

use std::ffi::c_int;

use super::guard::guard;
use super::status::{Failure, TP_STATUS_OK, TP_STATUS_UNSUPPORTED, tp_status};
use super::trace::{live, tp_trace};
use crate::Trace;
use api::{Api, Object, PyObject};
use batch::{Gather, Items};
use value::Trouble;

/// Events gathered before the lock is taken.
const BATCH: usize = 512;

/// From this many events on a second thread adds what the first one has read.
const THREADED: usize = 8 * BATCH;

/// What a call answers when Python has an exception set, which `ctypes.PyDLL` then raises.
const RAISED: tp_status = -1;

/// Whether lists can be walked here: 1 if this is a CPython whose objects are laid out as expected. `none` and `tuple`:
/// the addresses of None and of any tuple, to check that with.
///
/// With the GIL held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_ready(none: *mut PyObject, tuple: *mut PyObject) -> c_int {
    let mut ready = 0;
    guard(|| {
        // SAFETY: the caller vouches for both objects and for the GIL.
        ready = c_int::from(unsafe { api::load(none, tuple) });
        Ok(())
    });
    ready
}

/// Adds each element of `items`, a list or tuple, in batches of what `make` makes.
///
/// # Safety
/// As the exported functions below.
unsafe fn add_all<G: Gather>(trace: *mut tp_trace, items: *mut PyObject, make: impl Fn() -> G) -> tp_status {
    let mut raised = false;
    let status = guard(|| {
        let Some(api) = Api::get() else {
            return Err(Failure::new(TP_STATUS_UNSUPPORTED, "this Python's objects cannot be walked"));
        };
        // SAFETY: the caller vouches for handle and object.
        let (trace, items) = unsafe { (live(trace)?, Object::borrowed(api, items)) };
        let Some(items) = Items::of(items) else {
            return Err(Failure::invalid(format!("{} must be a list or a tuple", G::WHAT)));
        };
        let mut walk = Walk { items, index: 0 };
        let trouble =
            if items.len() < THREADED { alone(trace, &mut walk, make())? } else { relay::add(trace, &mut walk, make)? };
        match trouble {
            None => Ok(()),
            Some(Trouble::Raised) => {
                raised = true;
                Ok(())
            }
            Some(Trouble::Bad(message)) => Err(Failure::invalid(format!("{} {}: {message}", G::WHAT, walk.index))),
        }
    });
    if raised && status == TP_STATUS_OK { RAISED } else { status }
}

/// How far a list has been read.
struct Walk<'a> {
    items: Items<'a>,
    /// The next element; after trouble the one that caused it.
    index: usize,
}

/// How many events ahead tuples are fetched into the cache, and then their fields.
const AHEAD: [usize; 2] = [16, 8];

impl Walk<'_> {
    /// Objects lie all over the memory: waiting for them takes longer than reading them.
    #[inline]
    fn look_ahead(&self) {
        if let Some(event) = self.items.get(self.index + AHEAD[0]) {
            event.fetch(3);
        }
        if let Some(fields) = self.items.get(self.index + AHEAD[1]).filter(|event| event.is_tuple()).and_then(Items::of)
        {
            for at in 2..fields.len().min(8) {
                if let Some(field) = fields.get(at) {
                    field.fetch(1);
                }
            }
        }
    }

    /// Reads events until the batch is full. `Ok(false)`: the list has no more.
    fn fill(&mut self, batch: &mut impl Gather) -> Result<bool, Trouble> {
        while batch.len() < BATCH {
            // Each time anew: what runs Python code may have changed the list.
            let Some(item) = self.items.get(self.index) else { return Ok(false) };
            self.look_ahead();
            batch.take(self.index, item)?;
            self.index += 1;
        }
        Ok(true)
    }
}

/// Reads and adds on this thread.
fn alone(trace: &Trace, walk: &mut Walk<'_>, mut batch: impl Gather) -> Result<Option<Trouble>, Failure> {
    loop {
        let filled = walk.fill(&mut batch);
        batch.add(&mut trace.lock())?;
        batch.clear();
        match filled {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(trouble) => return Ok(Some(trouble)),
        }
    }
}

/// Adds ops from a list of `(name, kind, start_ns, end_ns, thread_id, shapes, dtypes, call_site, gpu_ms, output_bytes,
/// stack, kernel_count, ...)`. An op's id is its place in the list plus `first_id`; tuples of fewer than five fields
/// are skipped. Later fields may be missing, and be None.
///
/// With the GIL held. -1: Python has an exception set. `TP_STATUS_INVALID_ARGUMENT` names event and field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_add_ops(trace: *mut tp_trace, items: *mut PyObject, first_id: u64) -> tp_status {
    // SAFETY: the caller vouches for handle, object and GIL.
    unsafe { add_all(trace, items, || events::Ops::new(first_id)) }
}

/// Adds GPU activities from a list of `(name, kind, start_ns, end_ns, device, stream, correlation_id, external_id,
/// os_thread, callback_id, bytes, copy_kind, value)`. As [`tp_py_add_ops`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_add_gpus(trace: *mut tp_trace, items: *mut PyObject) -> tp_status {
    // SAFETY: the caller vouches for handle, object and GIL.
    unsafe { add_all(trace, items, events::Gpus::default) }
}

/// Adds memory events from a list of `(time_ns, address, bytes, allocated, is_cuda, device, stream, thread_id)`. As
/// [`tp_py_add_ops`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_add_memories(trace: *mut tp_trace, items: *mut PyObject) -> tp_status {
    // SAFETY: the caller vouches for handle, object and GIL.
    unsafe { add_all(trace, items, events::Memories::default) }
}

/// Adds stack samples from a list of `(time_ns, os_thread, stack)`. As [`tp_py_add_ops`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_add_samples(trace: *mut tp_trace, items: *mut PyObject) -> tp_status {
    // SAFETY: the caller vouches for handle, object and GIL.
    unsafe { add_all(trace, items, events::Samples::default) }
}
