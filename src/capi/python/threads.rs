//! Live recording that tells when a thread is new to a trace, so that the package gives it Python's name for it; and
//! whether something was recorded.
//!
//! The first costs one look at a thread-local. A list of threads to look into would have to be Python's, and cost as much
//! as the span.

use std::cell::Cell;
use std::ffi::c_int;

use crate::capi::guard::guard;
use crate::capi::record::*;
use crate::capi::status::{TP_STATUS_OK, tp_status};
use crate::capi::trace::{live, recording, tp_trace};
use crate::record::Core;

/// What stands for `TP_STATUS_OK` at the first record of a thread in a trace.
const FIRST: tp_status = 64;

/// Traces that a thread remembers to have told of: of more than these one is told again, which does no harm.
const REMEMBERED: usize = 4;

struct Told {
    last: Cell<u64>,
    others: [Cell<u64>; REMEMBERED],
    next: Cell<usize>,
}

thread_local! {
    static TOLD: Told = const {
        Told { last: Cell::new(0), others: [const { Cell::new(0) }; REMEMBERED], next: Cell::new(0) }
    };
}

/// The status, or [`FIRST`].
///
/// # Safety
/// `trace` is NULL or came from `tp_trace_new`.
#[inline(always)]
unsafe fn told(trace: *const tp_trace, status: tp_status) -> tp_status {
    // SAFETY: vouched for by the caller.
    let Ok(core) = (unsafe { recording(trace) }) else { return status };
    TOLD.with(|told| if told.last.get() == core.id || status != TP_STATUS_OK { status } else { look(told, core.id) })
}

#[cold]
fn look(told: &Told, id: u64) -> tp_status {
    told.last.set(id);
    if told.others.iter().any(|other| other.get() == id) {
        return TP_STATUS_OK;
    }
    let next = told.next.get();
    told.others[next].set(id);
    told.next.set((next + 1) % REMEMBERED);
    FIRST
}

/// Whether the calling thread is new to the trace: 64 once for each thread, else 0. For what is added without a thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_thread_seen(trace: *const tp_trace) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { told(trace, TP_STATUS_OK) }
}

/// As `tp_span_begin`, but 64 for a thread that is new to the trace; likewise the others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_span_begin(trace: *const tp_trace, name: tp_name) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { told(trace, tp_span_begin(trace, name)) }
}

/// As `tp_span_complete`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_span_complete(
    trace: *const tp_trace,
    name: tp_name,
    start_ns: i64,
    end_ns: i64,
) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { told(trace, tp_span_complete(trace, name, start_ns, end_ns)) }
}

/// As `tp_record_instant`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_record_instant(trace: *const tp_trace, name: tp_name) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { told(trace, tp_record_instant(trace, name)) }
}

/// As `tp_record_counter`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_record_counter(trace: *const tp_trace, name: tp_name, value: f64) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { told(trace, tp_record_counter(trace, name, value)) }
}

/// As `tp_record_async`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_record_async(trace: *const tp_trace, name: tp_name, phase: i32, id: u64) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { told(trace, tp_record_async(trace, name, phase, id)) }
}

/// As `tp_record_flow`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_record_flow(trace: *const tp_trace, name: tp_name, phase: i32, id: u64) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { told(trace, tp_record_flow(trace, name, phase, id)) }
}

/// How far live recording is: another number after every record. 0 for a trace that is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_recorded(trace: *const tp_trace) -> u64 {
    // SAFETY: the caller vouches for the handle.
    unsafe { recording(trace) }.map_or(0, Core::progress)
}

/// Whether nothing that was added to the trace begins at that time or later: 1, or 0, also for a trace that is gone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_py_idle_since(trace: *const tp_trace, time_ns: i64) -> c_int {
    let mut idle = false;
    guard(|| {
        // SAFETY: the caller vouches for the handle.
        idle = unsafe { live(trace)? }.is_idle_since(time_ns);
        Ok(())
    });
    c_int::from(idle)
}
