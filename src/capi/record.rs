//! Live recording.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::guard::guard;
use super::input::{owned, text};
use super::status::{
    Failure, TP_STATUS_INTERNAL, TP_STATUS_INVALID_ARGUMENT, TP_STATUS_LIMIT, TP_STATUS_OK, tp_status,
};
use super::trace::{recording, tp_trace};
use super::types::*;
use crate::Value;
use crate::record::{Async, Core, Flow, Name, Outcome, category_flag, enable_category};

/// A name with its category, of `tp_name_new`. Valid in every trace, for as long as the process runs. 0 is none.
pub type tp_name = u32;

/// An async span begins.
pub const TP_ASYNC_BEGIN: i32 = 0;
/// Something happens in an async span.
pub const TP_ASYNC_INSTANT: i32 = 1;
/// An async span ends, on any thread.
pub const TP_ASYNC_END: i32 = 2;

/// A flow starts.
pub const TP_FLOW_START: i32 = 0;
/// A flow passes.
pub const TP_FLOW_STEP: i32 = 1;
/// A flow ends.
pub const TP_FLOW_END: i32 = 2;

/// Interns a name, once for each place in a program: it takes a lock. The same name and category have the same number.
///
/// `name`: of a span, a counter, an argument...
/// `category`: the document's `cat`; empty for "user_annotation". "cpu_op" makes spans ops. At most 255 in a process.
/// `out`: written on success.
///
/// Names are never freed. After a million of them, or 64 MiB, all more get one in common. Any thread, but not a signal
/// handler. `TP_STATUS_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_name_new(name: tp_str, category: tp_str, out: *mut tp_name) -> tp_status {
    guard(|| {
        if out.is_null() {
            return Err(Failure::invalid("out is NULL"));
        }
        // SAFETY: the caller vouches for the texts.
        let (name, category) = unsafe { (owned("name", name)?, owned("category", category)?) };
        let name = Name::new(&name, &category)?;
        // SAFETY: not NULL; the caller vouches for the place.
        unsafe { out.write(name.to_bits()) };
        Ok(())
    })
}

/// Switches the spans, instants, counters, flows and async spans of a category on (not 0) or off, for all traces of the
/// process, at any time. Spans that are open stay as they are. All are on at first.
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT` for the 256th category.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_category_enable(category: tp_str, on: i32) -> tp_status {
    guard(|| {
        // SAFETY: the caller vouches for the text.
        let category = unsafe { owned("category", category) }?;
        Ok(enable_category(&category, on != 0)?)
    })
}

/// The byte that says whether a category is on (not 0), to be looked at before a call. It stays where it is for as long as
/// the process runs; only `tp_category_enable` changes it. Never NULL: for the 256th category a byte that is always 0.
///
/// Any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_category_flag(category: tp_str) -> *const u8 {
    static OFF: u8 = 0;
    let mut flag = &raw const OFF;
    guard(|| {
        // SAFETY: the caller vouches for the text.
        let category = unsafe { owned("category", category) }?;
        flag = category_flag(&category)?.as_ptr().cast_const();
        Ok(())
    });
    flag
}

/// One call that records: its status, and no message, so that a signal handler may make it.
///
/// # Safety
/// `trace` is NULL or came from `tp_trace_new`.
#[inline(always)]
unsafe fn record(trace: *const tp_trace, call: impl FnOnce(&Core) -> Outcome) -> tp_status {
    // SAFETY: vouched for by the caller.
    let core = match unsafe { recording(trace) } {
        Ok(core) => core,
        Err(status) => return status,
    };
    match catch_unwind(AssertUnwindSafe(|| call(core))) {
        Ok(Outcome::Recorded | Outcome::Off) => TP_STATUS_OK,
        Ok(Outcome::Dropped) => TP_STATUS_LIMIT,
        Ok(Outcome::NotOpen) => TP_STATUS_INVALID_ARGUMENT,
        Err(_) => TP_STATUS_INTERNAL,
    }
}

/// The same with a name.
///
/// # Safety
/// As `record`.
#[inline(always)]
unsafe fn named(trace: *const tp_trace, name: tp_name, call: impl FnOnce(&Core, Name) -> Outcome) -> tp_status {
    let Some(name) = Name::from_bits(name) else { return TP_STATUS_INVALID_ARGUMENT };
    // SAFETY: vouched for by the caller.
    unsafe { record(trace, |core| call(core, name)) }
}

/// Opens a span on this thread, until `tp_span_end`. Spans of a thread lie within one another.
///
/// This and the functions below take no lock but for a new chunk of memory now and then, need no allocator, and set no
/// message: a signal handler may call them. One that interrupts a recording call of its own thread is answered
/// `TP_STATUS_LIMIT`, and counted. A trace that was freed answers `TP_STATUS_UNAVAILABLE`, also while it is being freed.
///
/// Any thread. `TP_STATUS_UNAVAILABLE`, `TP_STATUS_FORKED`, `TP_STATUS_INVALID_ARGUMENT` for a name that is none,
/// `TP_STATUS_LIMIT` if there is no room, or 512 spans are open: its end is then left out too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_span_begin(trace: *const tp_trace, name: tp_name) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, name, |core, name| core.begin(name)) }
}

/// Opens a span by a name that is made up at run time: as `tp_name_new` and `tp_span_begin`. Not for a signal handler.
///
/// Any thread. Errors as for both.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_span_begin_text(trace: *const tp_trace, name: tp_str, category: tp_str) -> tp_status {
    let mut number = 0;
    // SAFETY: the caller vouches for handle and texts.
    unsafe {
        match tp_name_new(name, category, &raw mut number) {
            TP_STATUS_OK => tp_span_begin(trace, number),
            failed => failed,
        }
    }
}

/// Closes the span that was opened last on this thread.
///
/// Any thread. As `tp_span_begin`; `TP_STATUS_INVALID_ARGUMENT` if no span is open on this thread, which is counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_span_end(trace: *const tp_trace) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { record(trace, Core::end) }
}

/// Gives the span that was opened last on this thread an argument.
///
/// `key`: a name; its category does not matter.
///
/// Any thread. As `tp_span_end`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_span_arg_int(trace: *const tp_trace, key: tp_name, value: i64) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, key, |core, key| core.arg(key, Value::Int(value))) }
}

/// As `tp_span_arg_int`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_span_arg_uint(trace: *const tp_trace, key: tp_name, value: u64) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, key, |core, key| core.arg(key, Value::Uint(value))) }
}

/// As `tp_span_arg_int`. NaN and infinities are written as text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_span_arg_float(trace: *const tp_trace, key: tp_name, value: f64) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, key, |core, key| core.arg(key, Value::Float(value))) }
}

/// As `tp_span_arg_int`: true if not 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_span_arg_bool(trace: *const tp_trace, key: tp_name, value: i32) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, key, |core, key| core.arg(key, Value::Bool(value != 0))) }
}

/// As `tp_span_arg_int`. The text is copied; of a longer one the first 1024 bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_span_arg_text(trace: *const tp_trace, key: tp_name, value: tp_str) -> tp_status {
    // SAFETY: the caller vouches for handle and text.
    unsafe {
        match text("value", value) {
            Ok(value) => named(trace, key, |core, key| core.arg(key, Value::Text(value))),
            Err(failure) => failure.status,
        }
    }
}

/// A span on this thread with given times, in nanoseconds of the trace's clock.
///
/// Any thread. As `tp_span_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_span_complete(
    trace: *const tp_trace,
    name: tp_name,
    start_ns: i64,
    end_ns: i64,
) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, name, |core, name| core.complete(name, start_ns, end_ns)) }
}

/// Something that happens now on this thread.
///
/// Any thread. As `tp_span_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_record_instant(trace: *const tp_trace, name: tp_name) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, name, |core, name| core.instant(name)) }
}

/// The value of a counter now. NaN and infinities have no JSON: they are dropped when the trace is written, and counted.
///
/// Any thread. As `tp_span_begin`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_record_counter(trace: *const tp_trace, name: tp_name, value: f64) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, name, |core, name| core.counter(name, value)) }
}

/// A part of an async span, which may begin on one thread and end on another.
///
/// `phase`: a `TP_ASYNC_` number.
/// `id`: tells async spans of one category apart.
///
/// Any thread. As `tp_span_begin`; `TP_STATUS_INVALID_ARGUMENT` for another phase.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_record_async(trace: *const tp_trace, name: tp_name, phase: i32, id: u64) -> tp_status {
    let phase = match phase {
        TP_ASYNC_BEGIN => Async::Begin,
        TP_ASYNC_INSTANT => Async::Instant,
        TP_ASYNC_END => Async::End,
        _ => return TP_STATUS_INVALID_ARGUMENT,
    };
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, name, |core, name| core.asynchronous(phase, name, id)) }
}

/// A part of a flow: an arrow from one span to others. It hangs on the span that is open on this thread.
///
/// `phase`: a `TP_FLOW_` number.
/// `id`: tells flows of one name apart.
///
/// Any thread. As `tp_span_begin`; `TP_STATUS_INVALID_ARGUMENT` for another phase.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_record_flow(trace: *const tp_trace, name: tp_name, phase: i32, id: u64) -> tp_status {
    let phase = match phase {
        TP_FLOW_START => Flow::Start,
        TP_FLOW_STEP => Flow::Step,
        TP_FLOW_END => Flow::End,
        _ => return TP_STATUS_INVALID_ARGUMENT,
    };
    // SAFETY: the caller vouches for the handle.
    unsafe { named(trace, name, |core, name| core.flow(phase, name, id)) }
}
