//! Collecting what the GPU does.

use std::ffi::c_void;
use std::time::Duration;

use super::gpu::{libraries, tp_gpu_libraries};
use super::guard::{guard, guard_waits};
use super::input::{check_out, sized, write_out};
use super::merge::tp_message_fn;
use super::status::{Failure, tp_status};
use super::trace::{live, tp_trace};
use super::types::tp_str;
use crate::gpu::{self, GpuKinds, GpuOptions};

/// Collect kernels.
pub const TP_GPU_COLLECT_KERNEL: u32 = 1;
/// Collect copies, those between devices among them.
pub const TP_GPU_COLLECT_MEMCPY: u32 = 2;
/// Collect fills.
pub const TP_GPU_COLLECT_MEMSET: u32 = 4;
/// Collect calls of the CUDA runtime.
pub const TP_GPU_COLLECT_RUNTIME: u32 = 8;
/// Collect calls of the CUDA driver.
pub const TP_GPU_COLLECT_DRIVER: u32 = 16;
/// Collect what the collecting costs.
pub const TP_GPU_COLLECT_OVERHEAD: u32 = 32;
/// Collect waits for streams, events and contexts.
pub const TP_GPU_COLLECT_SYNC: u32 = 64;
/// Collect which op made a call; see tp_gpu_push_op.
pub const TP_GPU_COLLECT_EXTERNAL: u32 = 128;
/// Collect ranges and marks of NVTX's. For those, NVTX_INJECTION64_PATH has to name the same libcupti when the process
/// starts.
pub const TP_GPU_COLLECT_MARKER: u32 = 256;

/// Also calls that are many and say little, such as cudaGetDevice, and all of the driver's.
pub const TP_GPU_ALL_CALLS: u32 = 1;
/// Do not wait for the GPU's work at the end; what still runs is missing.
pub const TP_GPU_NO_WAIT: u32 = 2;

/// How GPU work is collected. Zero-filled with `size` set is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_gpu_options {
    /// `sizeof(tp_gpu_options)`.
    pub size: usize,
    /// `TP_GPU_ALL_CALLS`, `TP_GPU_NO_WAIT` or 0.
    pub flags: u32,
    /// `TP_GPU_COLLECT_` bits; 0 for all but markers.
    pub kinds: u32,
    /// Bytes of one buffer, at least 4096; 0 for 4 MiB.
    pub buffer_bytes: u64,
    /// Bytes of all buffers, at least two of them; 0 for 256 MiB. Records beyond are lost, and counted.
    pub cap_bytes: u64,
    /// How long tp_gpu_stop may take, in milliseconds; 0 for 10000.
    pub stop_timeout_ms: u32,
    /// Must be 0.
    pub reserved: u32,
    /// Which files to use; may be NULL.
    pub libraries: *const tp_gpu_libraries,
    /// Told what is odd at the start; may be NULL.
    pub warn: tp_message_fn,
    /// Handed to `warn`.
    pub warn_data: *mut c_void,
}

/// What a collection of GPU work came to.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_gpu_report {
    /// `sizeof(tp_gpu_report)`, set by the caller.
    pub size: usize,
    /// Collections that ended.
    pub collections: u64,
    /// Kernels stored.
    pub kernels: u64,
    /// Copies stored, those between devices among them.
    pub memcpys: u64,
    /// Fills stored.
    pub memsets: u64,
    /// Calls of the runtime stored.
    pub runtime_calls: u64,
    /// Calls of the driver stored.
    pub driver_calls: u64,
    /// Stretches of overhead stored.
    pub overheads: u64,
    /// Synchronisations stored.
    pub syncs: u64,
    /// Calls that an op is known to have made.
    pub links: u64,
    /// Ranges and marks of NVTX's stored.
    pub markers: u64,
    /// Calls left out, since they say little and are many: asking for the device, the last error, and the like.
    pub filtered: u64,
    /// Records that CUPTI says it dropped.
    pub dropped: u64,
    /// Times that CUPTI asked for a buffer and got none of use, since the cap was reached.
    pub refused_buffers: u64,
    /// Buffers that CUPTI has not given back, with the records in them.
    pub kept_buffers: u64,
    /// Buffers that came after the end of their collection, with the records in them.
    pub late_buffers: u64,
    /// Records without times, left out.
    pub no_times: u64,
    /// Records that end before they start; they got 1 ns.
    pub inverted_times: u64,
    /// Records from outside the time of their collection, left out: their clock is not the one that CUPTI says it is.
    pub out_of_window: u64,
    /// Records of kinds that were not asked for, left out.
    pub unasked: u64,
    /// Records of kinds that are not known here, left out.
    pub unknown: u64,
    /// Kernels without a name; they got one.
    pub unnamed: u64,
    /// Buffers whose last record was cut, or that could not be read to their end.
    pub torn_buffers: u64,
    /// Buffers read.
    pub buffers: u64,
    /// How far the conversion of times may be off, in nanoseconds.
    pub clock_uncertainty_ns: u64,
    /// How much the clocks of the collector and of the trace moved against each other, in nanoseconds.
    pub clock_drift_ns: u64,
    /// Sentences that `warn` was told, or would have been, at start and end.
    pub warnings: u64,
}

/// Tells the caller's function each message.
fn tell(warn: tp_message_fn, data: *mut c_void, messages: &[String]) {
    let Some(warn) = warn else { return };
    for message in messages {
        let text = tp_str { ptr: message.as_ptr().cast(), len: message.len() };
        // SAFETY: the caller's own function, with a text that lives during the call.
        unsafe { warn(text, data) };
    }
}

/// # Safety
/// `from` is NULL or as [`sized`], and what it points to is readable.
unsafe fn options(from: *const tp_gpu_options) -> Result<(GpuOptions, tp_message_fn, *mut c_void), Failure> {
    let mut options = GpuOptions::default();
    if from.is_null() {
        return Ok((options, None, std::ptr::null_mut()));
    }
    // SAFETY: the caller vouches for the struct and what it points to.
    let given = unsafe {
        let given = sized(from)?;
        options.libraries = libraries(given.libraries)?;
        given
    };
    if given.flags & !(TP_GPU_ALL_CALLS | TP_GPU_NO_WAIT) != 0 || given.reserved != 0 {
        return Err(Failure::invalid(format!("flags {:#x}: unknown bits", given.flags)));
    }
    options.all_calls = given.flags & TP_GPU_ALL_CALLS != 0;
    options.wait = given.flags & TP_GPU_NO_WAIT == 0;
    if given.kinds != 0 {
        options.kinds = GpuKinds(given.kinds);
    }
    let bytes = |what: &str, number: u64, otherwise: usize| match number {
        0 => Ok(otherwise),
        number => usize::try_from(number)
            .ok()
            .filter(|&bytes| bytes < isize::MAX as usize / 2)
            .ok_or_else(|| Failure::invalid(format!("{what} is {number}: too large"))),
    };
    options.buffer_bytes = bytes("buffer_bytes", given.buffer_bytes, options.buffer_bytes)?;
    options.cap_bytes = bytes("cap_bytes", given.cap_bytes, options.cap_bytes.max(2 * options.buffer_bytes))?;
    if given.stop_timeout_ms != 0 {
        options.stop_timeout = Duration::from_millis(given.stop_timeout_ms.into());
    }
    Ok((options, given.warn, given.warn_data))
}

/// Starts to collect what the GPU does into a trace: looks for the driver and CUPTI, loads and starts them. Work of all
/// threads is seen. The times are put on the trace's clock, which may not be TP_CLOCK_UNKNOWN.
///
/// On failure the trace goes on with its CPU side, and the message says what to do. Until tp_gpu_stop no other profiler
/// can attach to this process's GPU work; freeing the trace ends the collection, and loses the rest of it.
///
/// `options`: NULL for the defaults; read during the call only.
///
/// Any thread. One trace of a process collects at a time. `TP_STATUS_GPU_UNAVAILABLE` (no driver, device or CUPTI),
/// `TP_STATUS_GPU_BUSY` (another profiler, or another trace), `TP_STATUS_GPU_PERMISSION`, `TP_STATUS_GPU_FAILED`,
/// `TP_STATUS_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_gpu_start(trace: *mut tp_trace, options: *const tp_gpu_options) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for handle and struct.
        let (trace, (options, warn, data)) = unsafe { (live(trace)?, self::options(options)?) };
        let warnings = gpu::start(trace, &options)?;
        tell(warn, data, &warnings);
        Ok(())
    })
}

/// Ends the collection into a trace: waits for the GPU, takes what it did until now, and tells what it came to. The
/// document has the same figures, summed up over the collections, under `tptrace.gpu`.
///
/// Takes at most the time that the options allowed, and little more: what CUPTI has not handed over by then is lost, and
/// told. A new collection may start at once.
///
/// `report`: the caller sets its size; written on success. May be NULL.
/// `warn`: told what is odd, in sentences; may be NULL.
/// `warn_data`: handed to `warn`.
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT` if nothing is collected into this trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_gpu_stop(
    trace: *mut tp_trace,
    report: *mut tp_gpu_report,
    warn: tp_message_fn,
    warn_data: *mut c_void,
) -> tp_status {
    let out = report;
    guard_waits(|| {
        // SAFETY: the caller vouches for the handle, and for the struct if there is one.
        let trace = unsafe {
            if !out.is_null() {
                check_out(out)?;
            }
            live(trace)?
        };
        let report = gpu::stop(trace)?;
        tell(warn, warn_data, &report.warnings);
        if out.is_null() {
            return Ok(());
        }
        let told = tp_gpu_report {
            size: 0,
            collections: report.collections,
            kernels: report.kernels,
            memcpys: report.memcpys,
            memsets: report.memsets,
            runtime_calls: report.runtime_calls,
            driver_calls: report.driver_calls,
            overheads: report.overheads,
            syncs: report.syncs,
            links: report.links,
            markers: report.markers,
            filtered: report.filtered,
            dropped: report.dropped,
            refused_buffers: report.refused_buffers,
            kept_buffers: report.kept_buffers,
            late_buffers: report.late_buffers,
            no_times: report.no_times,
            inverted_times: report.inverted_times,
            out_of_window: report.out_of_window,
            unasked: report.unasked,
            unknown: report.unknown,
            unnamed: report.unnamed,
            torn_buffers: report.torn_buffers,
            buffers: report.buffers,
            clock_uncertainty_ns: report.clock_uncertainty_ns,
            clock_drift_ns: report.clock_drift_ns,
            warnings: report.warnings.len() as u64,
        };
        // SAFETY: checked above.
        unsafe { write_out(out, told) };
        Ok(())
    })
}

/// Says that the CUDA calls of this thread come from the op of that id, until tp_gpu_pop_op: they and what they start are
/// linked to it. Ops may lie within one another; the innermost counts, and up to 64 are told apart. Costs some nanoseconds
/// while no GPU work is collected into this trace.
///
/// Any thread, for itself. `TP_STATUS_UNAVAILABLE`, `TP_STATUS_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_gpu_push_op(trace: *mut tp_trace, id: u64) -> tp_status {
    guard(|| {
        // SAFETY: the caller vouches for the handle.
        gpu::push_op(unsafe { live(trace) }?, id);
        Ok(())
    })
}

/// Ends what the last tp_gpu_push_op of this thread began, also if the collection has ended since. Without one it does
/// nothing.
///
/// Any thread, for itself. `TP_STATUS_UNAVAILABLE`, `TP_STATUS_FORKED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_gpu_pop_op(trace: *mut tp_trace) -> tp_status {
    guard(|| {
        // SAFETY: the caller vouches for the handle.
        unsafe { live(trace) }?;
        gpu::pop_op();
        Ok(())
    })
}
