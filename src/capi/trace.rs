//! Making, describing and freeing traces.

use std::cell::{Cell, UnsafeCell};
use std::ffi::{CStr, c_char};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use super::guard::{guard, guard_waits};
use super::input::{check_out, owned, path, sized, write_out};
use super::status::{Failure, TP_STATUS_FORKED, TP_STATUS_UNAVAILABLE, last, tp_status};
use super::types::{
    TP_CLOCK_MONOTONIC, TP_CLOCK_REALTIME, TP_CLOCK_UNKNOWN, TP_RECORD_DROP_NEW, TP_RECORD_KEEP_RECENT,
    TP_TRACE_HAS_BASE, tp_counts, tp_str, tp_trace_options,
};
use crate::record::{Core, Full, fork};
use crate::{ClockDomain, RankWorld, Trace, TraceOptions};

/// Events of one process, kept in memory until they are written. Opaque.
///
/// Any thread may use a handle at any time, several at once too, except while it is being freed. NULL is valid in
/// every call and answers `TP_STATUS_UNAVAILABLE`. In a child of a fork the handles of the parent answer
/// `TP_STATUS_FORKED`.
#[derive(Debug)]
pub struct tp_trace {
    /// The process that it belongs to, as [`fork::generation`] counts them, and 1; 0 once it was freed.
    owner: AtomicU64,
    generation: u32,
    /// Live recording: threads that come late find it closed.
    core: Arc<Core>,
    trace: UnsafeCell<Option<Trace>>,
    /// The handle that was freed before this one.
    before: Cell<*mut tp_trace>,
}

/// Handles that were freed. They stay, a hundred bytes each, so that a thread that records into one is answered.
static FREED: AtomicPtr<tp_trace> = AtomicPtr::new(std::ptr::null_mut());

fn owner(generation: u32) -> u64 {
    u64::from(generation) + 1
}

/// Live recording behind a handle. Without a message: for calls that a signal handler may make.
///
/// # Safety
/// `handle` is NULL or came from `tp_trace_new`.
#[inline(always)]
pub(crate) unsafe fn recording<'a>(handle: *const tp_trace) -> Result<&'a Core, tp_status> {
    // SAFETY: the caller vouches for the handle, whose memory is never given back.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return Err(TP_STATUS_UNAVAILABLE) };
    let owned = handle.owner.load(Ordering::Acquire);
    if owned == owner(fork::generation()) {
        return Ok(&handle.core);
    }
    Err(if owned == 0 { TP_STATUS_UNAVAILABLE } else { TP_STATUS_FORKED })
}

/// The trace behind a handle.
///
/// # Safety
/// `handle` is NULL or came from `tp_trace_new` and was not freed.
#[inline]
pub(crate) unsafe fn live<'a>(handle: *const tp_trace) -> Result<&'a Trace, Failure> {
    // SAFETY: the caller vouches for the handle.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return Err(unavailable()) };
    if handle.generation != fork::generation() {
        return Err(forked());
    }
    // SAFETY: taken out by `tp_trace_free` alone, during which the caller makes no other call.
    match unsafe { &*handle.trace.get() } {
        Some(trace) => Ok(trace),
        None => Err(freed()),
    }
}

/// The least for live recording in which the records of a thread fit, beside what a document makes of them.
const LEAST_RECORD_BYTES: u64 = 64 << 10;

#[cold]
fn unavailable() -> Failure {
    Failure::new(TP_STATUS_UNAVAILABLE, "the trace handle is NULL")
}

#[cold]
fn freed() -> Failure {
    Failure::new(TP_STATUS_UNAVAILABLE, "the trace was freed")
}

#[cold]
fn forked() -> Failure {
    Failure::new(
        TP_STATUS_FORKED,
        "the trace was created before a fork and this is the child: create a trace of its own here",
    )
}

/// Makes an empty trace.
///
/// `options`: NULL for the defaults; read during the call only.
/// `out`: gets the handle, to be freed with `tp_trace_free`; untouched on failure.
///
/// Any thread. Fails with `TP_STATUS_INVALID_ARGUMENT` or `TP_STATUS_UNSUPPORTED` for bad options, also if the file for
/// the journal is there already, and with `TP_STATUS_IO` if it cannot be made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_new(options: *const tp_trace_options, out: *mut *mut tp_trace) -> tp_status {
    guard_waits(|| {
        if out.is_null() {
            return Err(Failure::invalid("out is NULL"));
        }
        let (mut given, mut process_name, mut journal) = (TraceOptions::default(), None, None);
        if !options.is_null() {
            // SAFETY: not NULL; the caller vouches for as many bytes as its size says.
            let options = unsafe { sized(options) }?;
            given.clock = match options.clock {
                TP_CLOCK_MONOTONIC => ClockDomain::Monotonic,
                TP_CLOCK_REALTIME => ClockDomain::Realtime,
                TP_CLOCK_UNKNOWN => ClockDomain::Unknown,
                other => return Err(Failure::invalid(format!("clock {other} is not a TP_CLOCK_ number"))),
            };
            if options.flags & !TP_TRACE_HAS_BASE != 0 {
                return Err(Failure::invalid(format!("flags {:#x}: unknown bits", options.flags)));
            }
            given.record_bytes = usize::try_from(options.record_bytes).unwrap_or(usize::MAX);
            given.record_full = match options.record_full {
                TP_RECORD_DROP_NEW => Full::DropNew,
                TP_RECORD_KEEP_RECENT => Full::KeepRecent,
                other => return Err(Failure::invalid(format!("record_full {other} is not a TP_RECORD_ number"))),
            };
            if (1..LEAST_RECORD_BYTES).contains(&options.record_bytes) {
                return Err(Failure::invalid(format!(
                    "record_bytes is {}, in which no thread's spans fit: give at least {LEAST_RECORD_BYTES}, or more for \
                     each thread more, or 0 for no limit",
                    options.record_bytes
                )));
            }
            if given.record_full == Full::KeepRecent && options.record_bytes == 0 {
                return Err(Failure::invalid(
                    "record_full is TP_RECORD_KEEP_RECENT, but without a limit the oldest never go: give record_bytes too, \
                     such as 64 MiB",
                ));
            }
            if options.reserved != 0 {
                return Err(Failure::invalid("a reserved member is not 0"));
            }
            given.base_ns = (options.flags & TP_TRACE_HAS_BASE != 0).then_some(options.base_ns);
            // SAFETY: the caller vouches for the text.
            let name = unsafe { owned("process_name", options.process_name) }?;
            process_name = (!name.is_empty()).then_some(name);
            if options.journal.len > 0 {
                // SAFETY: as above.
                journal = Some(unsafe { path("journal", options.journal) }?.to_owned());
            }
        }
        let trace = Trace::new(&given);
        process_name.iter().for_each(|name| trace.set_process_name(name));
        if let Some(journal) = journal {
            trace.start_journal(journal)?;
        }
        let generation = fork::generation();
        let handle = Box::new(tp_trace {
            owner: AtomicU64::new(owner(generation)),
            generation,
            core: Arc::clone(trace.core()),
            trace: UnsafeCell::new(Some(trace)),
            before: Cell::new(std::ptr::null_mut()),
        });
        // SAFETY: not NULL; the caller vouches for the place.
        unsafe { out.write(Box::into_raw(handle)) };
        Ok(())
    })
}

/// Frees a trace and everything in it. NULL is allowed and does nothing, and so is a trace that was freed.
///
/// No other call with this handle may be under way, but for those that record live (`tp_span_begin` and so on): these
/// may come at the same time and later, and are answered `TP_STATUS_UNAVAILABLE`, as all later calls are. In a child of a fork the parent's trace is left alone:
/// its memory is the parent's to give back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_free(trace: *mut tp_trace) {
    guard_waits(|| {
        // SAFETY: the caller vouches for the handle and gives it up.
        unsafe {
            let Some(handle) = trace.as_ref() else { return Ok(()) };
            if handle.owner.compare_exchange(owner(fork::generation()), 0, Ordering::AcqRel, Ordering::Relaxed).is_err()
            {
                return Ok(());
            }
            drop((*handle.trace.get()).take());
            let mut last = FREED.load(Ordering::Relaxed);
            loop {
                handle.before.set(last);
                match FREED.compare_exchange_weak(last, trace, Ordering::Release, Ordering::Relaxed) {
                    Ok(_) => break,
                    Err(other) => last = other,
                }
            }
        }
        Ok(())
    });
}

/// Names the process. An empty name brings the program's own back.
///
/// Any thread. `TP_STATUS_UNAVAILABLE`, `TP_STATUS_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_set_process_name(trace: *mut tp_trace, name: tp_str) -> tp_status {
    guard(|| {
        // SAFETY: the caller vouches for handle and text.
        let (trace, name) = unsafe { (live(trace)?, owned("name", name)?) };
        trace.lock().process_name = (!name.is_empty()).then_some(name);
        Ok(())
    })
}

/// Names the lanes of a thread: those of its ops, of its CUDA calls and of its samples.
///
/// Any thread. `TP_STATUS_UNAVAILABLE`, `TP_STATUS_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_set_thread_name(trace: *mut tp_trace, thread_id: u64, name: tp_str) -> tp_status {
    guard(|| {
        // SAFETY: the caller vouches for handle and text.
        let (trace, name) = unsafe { (live(trace)?, owned("name", name)?) };
        trace.set_thread_name(thread_id, &name);
        Ok(())
    })
}

/// Sets the rank of this process and the number of processes; a negative number means "unknown".
///
/// Until this is called they come from the environment when the trace is written: `RANK`, else `TP_RANK`, and
/// `WORLD_SIZE`, else `TP_WORLD_SIZE`.
///
/// Any thread. `TP_STATUS_UNAVAILABLE`, `TP_STATUS_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_set_rank(trace: *mut tp_trace, rank: i64, world_size: i64) -> tp_status {
    guard(|| {
        let known = |number: i64| (number >= 0).then_some(number);
        // SAFETY: the caller vouches for the handle.
        let trace = unsafe { live(trace) }?;
        trace.set_rank(RankWorld { rank: known(rank), world_size: known(world_size) });
        Ok(())
    })
}

/// Names the library that the ranks talk through, such as "nccl": `distributedInfo.backend` in the torch format.
///
/// Any thread. `TP_STATUS_UNAVAILABLE`, `TP_STATUS_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_set_backend(trace: *mut tp_trace, backend: tp_str) -> tp_status {
    guard(|| {
        // SAFETY: the caller vouches for handle and text.
        let (trace, backend) = unsafe { (live(trace)?, owned("backend", backend)?) };
        trace.set_backend(&backend);
        Ok(())
    })
}

/// Adds a top-level key of the document: any JSON value. A key set before is replaced, and so is what the torch format
/// says of itself, such as `deviceProperties` (an array of objects).
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT` if `json` is not JSON, or for the keys that only the format writes:
/// `traceEvents`, `displayTimeUnit`, `schemaVersion`, `distributedInfo`, `baseTimeNanoseconds`, `tptrace`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_set_metadata(trace: *mut tp_trace, key: tp_str, json: tp_str) -> tp_status {
    guard(|| {
        // SAFETY: the caller vouches for handle and texts.
        let (trace, key, json) = unsafe { (live(trace)?, owned("key", key)?, owned("json", json)?) };
        Ok(trace.set_metadata(&key, &json)?)
    })
}

/// Tells what was stored, dropped and repaired so far.
///
/// `out`: the caller sets `out->size = sizeof(tp_counts)`; the other members are written on success.
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT` if `out` is NULL or its size cannot be.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_counts(trace: *const tp_trace, out: *mut tp_counts) -> tp_status {
    guard(|| {
        // SAFETY: the caller vouches for the handle.
        let trace = unsafe { live(trace) }?;
        // SAFETY: the caller vouches for the struct.
        let size = unsafe { check_out(out) }?;
        let (counts, recorded, journal) = (trace.counts(), trace.record_counts(), trace.journal_state());
        let told = tp_counts {
            size,
            ops: counts.ops,
            gpu_activities: counts.gpu_activities,
            memory_events: counts.memory_events,
            samples: counts.samples,
            counters: counts.counters,
            instants: counts.instants,
            dropped: counts.dropped,
            clamped: counts.clamped,
            repaired_texts: counts.repaired_texts,
            overlaps_moved: counts.overlaps_moved,
            overlaps_left: counts.overlaps_left,
            flows_dropped: counts.flows_dropped,
            memory: trace.memory() as u64,
            record_dropped: recorded.dropped,
            record_unmatched: recorded.unmatched,
            record_overwritten: recorded.overwritten_chunks,
            journal_bytes: journal.as_ref().map_or(0, |journal| journal.bytes),
            journal_failures: journal.as_ref().map_or(0, |journal| journal.failures),
        };
        // SAFETY: checked above.
        unsafe { write_out(out, told) };
        Ok(())
    })
}

/// The time now on the clock that traces use by default: nanoseconds of CLOCK_MONOTONIC. Any thread; never fails.
#[unsafe(no_mangle)]
pub extern "C" fn tp_now_ns() -> i64 {
    crate::monotonic_ns()
}

/// Copies the message of this thread's last failed call into `buffer`, cut to `capacity` bytes with its terminator, and
/// answers the whole message's length without the terminator, as snprintf does. "" if no call of this thread failed.
///
/// A call that succeeds leaves the message alone. `buffer` may be NULL if `capacity` is 0. Any thread; never fails.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_last_error_message(buffer: *mut c_char, capacity: usize) -> usize {
    // SAFETY: the caller vouches for the buffer.
    unsafe { copy_out(&last(), buffer, capacity) }
}

/// Copies a text as snprintf does, and answers its whole length.
///
/// # Safety
/// `buffer` is NULL or has room for `capacity` bytes.
pub(super) unsafe fn copy_out(text: &str, buffer: *mut c_char, capacity: usize) -> usize {
    if !buffer.is_null() && capacity > 0 {
        let mut fits = text.len().min(capacity - 1);
        while !text.is_char_boundary(fits) {
            fits -= 1;
        }
        // SAFETY: the caller vouches for `capacity` bytes, and `fits` plus the terminator are at most that.
        unsafe {
            buffer.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), fits);
            buffer.add(fits).write(0);
        }
    }
    text.len()
}

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"",
};

/// The library's version, such as "0.1.0". Static text. Any thread; never fails.
#[unsafe(no_mangle)]
pub extern "C" fn tp_version() -> *const c_char {
    VERSION.as_ptr()
}

/// Panics inside the library and answers `TP_STATUS_INTERNAL`: shows that a defect in it does not bring its host down.
/// For tests.
#[unsafe(no_mangle)]
pub extern "C" fn tp_test_panic() -> tp_status {
    guard(|| {
        let nothing: &[u8] = &[];
        // An index out of range is how a defect would show.
        Err(Failure::invalid(format!("not reached: {}", nothing[std::hint::black_box(0)])))
    })
}
