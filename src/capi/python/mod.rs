//! Lists of Python tuples, walked in place.
//!
//! Private to the Python package, which calls these through `ctypes.PyDLL`, so with the GIL held, after
//! [`tp_py_ready`] has answered yes; the header does not show them. One ctypes call for each event would cost more
//! than the export.
//!
//! Events are gathered into a batch first and then added under the trace's lock: odd values may run Python code, which
//! must not happen under it, and the batch keeps its tuples alive meanwhile.

mod api;
mod batch;
mod events;
mod value;

use std::ffi::c_int;

use super::guard::guard;
use super::status::{Failure, TP_STATUS_OK, TP_STATUS_UNSUPPORTED, tp_status};
use super::trace::{live, tp_trace};
use api::{Api, Object, PyObject};
use batch::{Gather, Items};
use value::Trouble;

/// Events gathered before the lock is taken.
const BATCH: usize = 512;

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

/// Adds each element of `items`, a list or tuple, in batches.
///
/// # Safety
/// As the exported functions below.
unsafe fn add_all<G: Gather>(trace: *mut tp_trace, items: *mut PyObject, gather: G) -> tp_status {
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
        let mut gather = gather;
        let mut index = 0;
        loop {
            let mut trouble = None;
            while gather.len() < BATCH {
                // Each time anew: what runs Python code may have changed the list.
                let Some(item) = items.get(index) else { break };
                if let Err(found) = gather.take(index, item) {
                    trouble = Some(found);
                    break;
                }
                index += 1;
            }
            let done = gather.len() < BATCH;
            gather.flush(&mut trace.lock())?;
            match trouble {
                None if done => return Ok(()),
                None => {}
                Some(Trouble::Raised) => {
                    raised = true;
                    return Ok(());
                }
                Some(Trouble::Bad(message)) => {
                    return Err(Failure::invalid(format!("{} {index}: {message}", G::WHAT)));
                }
            }
        }
    });
    if raised && status == TP_STATUS_OK { RAISED } else { status }
}

/// Adds ops from a list of `(name, kind, start_ns, end_ns, thread_id, shapes, dtypes, call_site, gpu_ms, output_bytes,
/// stack, kernel_count, ...)`. An op's id is its place in the list plus `first_id`; tuples of fewer than five fields
/// are skipped. Later fields may be missing, and be None.
///
/// With the GIL held. -1: Python has an exception set. `TP_STATUS_INVALID_ARGUMENT` names event and field.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_add_ops(trace: *mut tp_trace, items: *mut PyObject, first_id: u64) -> tp_status {
    // SAFETY: the caller vouches for handle, object and GIL.
    unsafe { add_all(trace, items, events::Ops::new(first_id)) }
}

/// Adds GPU activities from a list of `(name, kind, start_ns, end_ns, device, stream, correlation_id, external_id,
/// os_thread, callback_id, bytes, copy_kind, value)`. As [`tp_py_add_ops`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_add_gpus(trace: *mut tp_trace, items: *mut PyObject) -> tp_status {
    // SAFETY: the caller vouches for handle, object and GIL.
    unsafe { add_all(trace, items, events::Gpus::default()) }
}

/// Adds memory events from a list of `(time_ns, address, bytes, allocated, is_cuda, device, stream, thread_id)`. As
/// [`tp_py_add_ops`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_add_memories(trace: *mut tp_trace, items: *mut PyObject) -> tp_status {
    // SAFETY: the caller vouches for handle, object and GIL.
    unsafe { add_all(trace, items, events::Memories::default()) }
}

/// Adds stack samples from a list of `(time_ns, os_thread, stack)`. As [`tp_py_add_ops`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_add_samples(trace: *mut tp_trace, items: *mut PyObject) -> tp_status {
    // SAFETY: the caller vouches for handle, object and GIL.
    unsafe { add_all(trace, items, events::Samples::default()) }
}
