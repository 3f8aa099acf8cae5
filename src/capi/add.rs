//! Adding events.

use std::mem::MaybeUninit;

use super::guard::guard;
use super::input::{args, array, element, sized, sized_ref, text, texts};
use super::status::{Failure, tp_status};
use super::trace::{live, tp_trace};
use super::types::*;
use crate::model::store::Store;
use crate::{
    Counter, Dtypes, GpuActivity, GpuDetails, GpuKind, Inputs, Instant, InstantScope, MemoryEvent, Op, OpKind, Sample,
};

/// CUPTI users' mark for "no external id".
const NO_EXTERNAL_ID: u64 = u64::MAX;

/// Adds `count` elements, each with `add`, which gets the element's address.
///
/// # Safety
/// `trace` as [`live`]; `add` may rely on the address of an element that the caller vouches for.
unsafe fn add_all<T>(
    trace: *mut tp_trace,
    what: &str,
    from: *const T,
    count: usize,
    stride: usize,
    add: impl Fn(&mut Store, *const T) -> Result<(), Failure>,
) -> tp_status {
    guard(|| {
        // SAFETY: the caller vouches for the handle.
        let trace = unsafe { live(trace) }?;
        if count == 0 {
            return Ok(());
        }
        if from.is_null() {
            return Err(Failure::invalid(format!("{what} is NULL, but {count} elements are announced")));
        }
        if count > 1 && stride < size_of::<usize>() {
            return Err(Failure::invalid(format!("stride is {stride}: set it to the size of one element")));
        }
        if count > isize::MAX as usize / stride.max(1) {
            return Err(Failure::invalid(format!("{what} cannot have {count} elements of {stride} bytes")));
        }
        let mut index = 0;
        while index < count {
            // Other threads get their turn between the runs of a long array.
            let mut store = trace.lock();
            let end = count.min(index + 1024);
            while index < end {
                add(&mut store, element(from, index, stride)).map_err(|failure| failure.at(what, index))?;
                index += 1;
            }
        }
        Ok(())
    })
}

#[inline]
unsafe fn one<T>(
    trace: *mut tp_trace,
    from: *const T,
    add: impl FnOnce(&mut Store, *const T) -> Result<(), Failure>,
) -> tp_status {
    // SAFETY: the caller vouches for the handle.
    guard(|| add(&mut unsafe { live(trace) }?.lock(), from))
}

/// Refuses an event and counts it.
#[cold]
fn refuse<T>(store: &mut Store, message: String) -> Result<T, Failure> {
    store.counts.dropped += 1;
    Err(Failure::invalid(message))
}

/// What reading an element's memory gave; a refused one counts as dropped.
#[inline]
fn counted<T>(store: &mut Store, read: Result<T, Failure>) -> Result<T, Failure> {
    store.counts.dropped += u64::from(read.is_err());
    read
}

unsafe fn add_op(store: &mut Store, from: *const tp_op) -> Result<u64, Failure> {
    let mut copy = MaybeUninit::uninit();
    // SAFETY: the caller vouches for the struct.
    let read = unsafe { sized_ref(from, &mut copy) };
    let op = counted(store, read)?;
    let kind = match op.kind {
        TP_OP_KIND_OP => OpKind::Op,
        TP_OP_KIND_USER_ANNOTATION => OpKind::UserAnnotation,
        TP_OP_KIND_BACKWARD => OpKind::Backward,
        other => return refuse(store, format!("kind {other} is not a TP_OP_KIND_ number")),
    };
    if op.flags & !(TP_OP_HAS_ID | TP_OP_HAS_GPU_MS | TP_OP_HAS_INPUTS) != 0 {
        return refuse(store, format!("flags {:#x}: unknown bits", op.flags));
    }
    let read = || -> Result<_, Failure> {
        // SAFETY: the caller vouches for all that the struct points to.
        unsafe {
            let ranks = array("ranks", op.ranks, op.input_count)?;
            let dims: u64 = ranks.iter().map(|&rank| u64::from(rank)).sum();
            let dims = array("dims", op.dims, usize::try_from(dims).unwrap_or(usize::MAX))?;
            let dtype_count = if op.dtype_count == 0 { op.input_count } else { op.dtype_count };
            let (mut codes, mut names) = (None, None);
            if !op.dtype_names.is_null() {
                names = Some(texts("dtype_names", op.dtype_names, dtype_count)?);
            } else if !op.dtypes.is_null() {
                codes = Some(array("dtypes", op.dtypes, dtype_count)?);
            }
            let stack = if op.stack_count == 0 { Vec::new() } else { texts("stack", op.stack, op.stack_count)? };
            let args = if op.arg_count == 0 { Vec::new() } else { args(op.args, op.arg_count)? };
            Ok((ranks, dims, codes, names, stack, args, text("name", op.name)?, text("call_site", op.call_site)?))
        }
    };
    let read = read();
    let (ranks, dims, codes, names, stack, args, name, call_site) = counted(store, read)?;
    let dtypes = match (&names, codes) {
        (Some(names), _) => Dtypes::Names(names),
        (None, Some(codes)) => Dtypes::Codes(codes),
        (None, None) => Dtypes::None,
    };
    let has_inputs = op.input_count > 0 || op.flags & TP_OP_HAS_INPUTS != 0;
    Ok(store.add_op(&Op {
        name,
        kind,
        category: crate::Text::default(),
        start_ns: op.start_ns,
        end_ns: op.end_ns,
        thread_id: op.thread_id,
        id: (op.flags & TP_OP_HAS_ID != 0).then_some(op.id),
        inputs: has_inputs.then_some(Inputs { dims, ranks, dtypes }),
        call_site,
        gpu_ms: (op.flags & TP_OP_HAS_GPU_MS != 0).then_some(op.gpu_ms),
        kernel_count: op.kernel_count,
        output_bytes: op.output_bytes,
        stack: &stack,
        args: &args,
    })?)
}

/// Adds one op. Everything it points to is copied during the call.
///
/// `id_out`: gets the op's id, which GPU activities name as their external id; may be NULL.
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT`: an unknown kind or flag, a NULL or impossible array, a text over 1 GiB.
/// The trace is as before, and the op counts as dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_op(trace: *mut tp_trace, op: *const tp_op, id_out: *mut u64) -> tp_status {
    // SAFETY: the caller vouches for handle, struct and place.
    unsafe {
        one(trace, op, |store, op| {
            let id = add_op(store, op)?;
            if !id_out.is_null() {
                id_out.write_unaligned(id);
            }
            Ok(())
        })
    }
}

/// Adds `count` ops that lie `stride` bytes apart; `stride` is `sizeof(tp_op)` for an array.
///
/// Any thread. As `tp_trace_add_op`; the message names the element that failed, and those before it were added.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_ops(
    trace: *mut tp_trace,
    ops: *const tp_op,
    count: usize,
    stride: usize,
) -> tp_status {
    // SAFETY: the caller vouches for handle and array.
    unsafe { add_all(trace, "op", ops, count, stride, |store, op| add_op(store, op).map(|_| ())) }
}

unsafe fn add_gpu(store: &mut Store, from: *const tp_gpu_activity) -> Result<(), Failure> {
    let mut copy = MaybeUninit::uninit();
    // SAFETY: the caller vouches for the struct.
    let read = unsafe { sized_ref(from, &mut copy) };
    let gpu = counted(store, read)?;
    let kind = match gpu.kind {
        TP_GPU_KIND_KERNEL => GpuKind::Kernel,
        TP_GPU_KIND_MEMCPY => GpuKind::Memcpy,
        TP_GPU_KIND_MEMSET => GpuKind::Memset,
        TP_GPU_KIND_RUNTIME => GpuKind::Runtime,
        TP_GPU_KIND_DRIVER => GpuKind::Driver,
        TP_GPU_KIND_OVERHEAD => GpuKind::Overhead,
        TP_GPU_KIND_SYNC => GpuKind::Sync,
        other => return refuse(store, format!("kind {other} is not a TP_GPU_KIND_ number")),
    };
    if gpu.flags >= TP_GPU_HAS_PRIORITY << 1 {
        return refuse(store, format!("flags {:#x}: unknown bits", gpu.flags));
    }
    let has = |flag: u32| gpu.flags & flag != 0;
    // SAFETY: the caller vouches for all that the struct points to.
    let read = unsafe { text("name", gpu.name).and_then(|name| Ok((name, args(gpu.args, gpu.arg_count)?))) };
    let (name, args) = counted(store, read)?;
    Ok(store.add_gpu(&GpuActivity {
        name,
        kind,
        start_ns: gpu.start_ns,
        end_ns: gpu.end_ns,
        device: i64::from(gpu.device),
        stream: i64::from(gpu.stream),
        correlation_id: gpu.correlation_id.into(),
        external_id: (has(TP_GPU_HAS_EXTERNAL_ID) && gpu.external_id != NO_EXTERNAL_ID).then(|| gpu.external_id.into()),
        os_thread: gpu.os_thread,
        callback_id: gpu.callback_id,
        bytes: gpu.bytes.into(),
        copy_kind: i64::from(gpu.copy_kind),
        value: gpu.value,
        details: GpuDetails {
            grid: has(TP_GPU_HAS_GRID).then_some([gpu.grid_x, gpu.grid_y, gpu.grid_z]),
            block: has(TP_GPU_HAS_BLOCK).then_some([gpu.block_x, gpu.block_y, gpu.block_z]),
            registers_per_thread: has(TP_GPU_HAS_REGISTERS).then_some(gpu.registers_per_thread),
            shared_memory: has(TP_GPU_HAS_SHARED_MEMORY).then_some(gpu.shared_memory),
            context: has(TP_GPU_HAS_CONTEXT).then_some(gpu.context),
            graph_id: has(TP_GPU_HAS_GRAPH_ID).then_some(gpu.graph_id),
            graph_node_id: has(TP_GPU_HAS_GRAPH_NODE_ID).then_some(gpu.graph_node_id),
            priority: has(TP_GPU_HAS_PRIORITY).then_some(gpu.priority),
            ..GpuDetails::default()
        },
        args: &args,
    })?)
}

/// Adds one GPU activity. Everything it points to is copied during the call.
///
/// Any thread. Errors as `tp_trace_add_op`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_gpu(trace: *mut tp_trace, activity: *const tp_gpu_activity) -> tp_status {
    // SAFETY: the caller vouches for handle and struct.
    unsafe { one(trace, activity, |store, activity| add_gpu(store, activity)) }
}

/// Adds `count` GPU activities that lie `stride` bytes apart. As `tp_trace_add_ops`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_gpus(
    trace: *mut tp_trace,
    activities: *const tp_gpu_activity,
    count: usize,
    stride: usize,
) -> tp_status {
    // SAFETY: the caller vouches for handle and array.
    unsafe { add_all(trace, "GPU activity", activities, count, stride, |store, one| add_gpu(store, one)) }
}

unsafe fn add_memory(store: &mut Store, from: *const tp_memory_event) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the struct and all that it points to.
    let read = unsafe { sized(from).and_then(|event| Ok((event, args(event.args, event.arg_count)?))) };
    let (event, args) = counted(store, read)?;
    if event.flags & !(TP_MEMORY_CUDA | TP_MEMORY_ALLOCATED) != 0 {
        return refuse(store, format!("flags {:#x}: unknown bits", event.flags));
    }
    Ok(store.add_memory(&MemoryEvent {
        time_ns: event.time_ns,
        address: event.address,
        bytes: event.bytes,
        allocated: event.flags & TP_MEMORY_ALLOCATED != 0,
        cuda_device: (event.flags & TP_MEMORY_CUDA != 0).then_some(i64::from(event.device)),
        thread_id: event.thread_id,
        args: &args,
    })?)
}

/// Adds one memory event. Everything it points to is copied during the call.
///
/// Any thread. Errors as `tp_trace_add_op`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_memory(trace: *mut tp_trace, event: *const tp_memory_event) -> tp_status {
    // SAFETY: the caller vouches for handle and struct.
    unsafe { one(trace, event, |store, event| add_memory(store, event)) }
}

/// Adds `count` memory events that lie `stride` bytes apart. As `tp_trace_add_ops`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_memories(
    trace: *mut tp_trace,
    events: *const tp_memory_event,
    count: usize,
    stride: usize,
) -> tp_status {
    // SAFETY: the caller vouches for handle and array.
    unsafe { add_all(trace, "memory event", events, count, stride, |store, one| add_memory(store, one)) }
}

unsafe fn add_sample(store: &mut Store, from: *const tp_sample) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the struct and all that it points to.
    let read = unsafe {
        sized(from).and_then(|sample| {
            Ok((sample, texts("stack", sample.stack, sample.stack_count)?, args(sample.args, sample.arg_count)?))
        })
    };
    let (sample, stack, args) = counted(store, read)?;
    let (time_ns, os_thread) = (sample.time_ns, sample.os_thread);
    Ok(store.add_sample(&Sample { time_ns, os_thread, stack: &stack, args: &args })?)
}

/// Adds one stack sample. Everything it points to is copied during the call. One without a frame is dropped, counted,
/// and no error.
///
/// Any thread. Errors as `tp_trace_add_op`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_sample(trace: *mut tp_trace, sample: *const tp_sample) -> tp_status {
    // SAFETY: the caller vouches for handle and struct.
    unsafe { one(trace, sample, |store, sample| add_sample(store, sample)) }
}

/// Adds `count` stack samples that lie `stride` bytes apart. As `tp_trace_add_ops`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_samples(
    trace: *mut tp_trace,
    samples: *const tp_sample,
    count: usize,
    stride: usize,
) -> tp_status {
    // SAFETY: the caller vouches for handle and array.
    unsafe { add_all(trace, "sample", samples, count, stride, |store, one| add_sample(store, one)) }
}

unsafe fn add_counter(store: &mut Store, from: *const tp_counter) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the struct and all that it points to.
    let read = unsafe {
        sized(from)
            .and_then(|counter| Ok((counter, text("name", counter.name)?, args(counter.values, counter.value_count)?)))
    };
    let (counter, name, values) = counted(store, read)?;
    Ok(store.add_counter(&Counter { name, time_ns: counter.time_ns, values: &values })?)
}

/// Adds the values of a counter track at one moment. Everything it points to is copied during the call.
///
/// Any thread. Errors as `tp_trace_add_op`, also for a value that is not a finite number, and for no value at all.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_counter(trace: *mut tp_trace, counter: *const tp_counter) -> tp_status {
    // SAFETY: the caller vouches for handle and struct.
    unsafe { one(trace, counter, |store, counter| add_counter(store, counter)) }
}

/// Adds `count` counter values that lie `stride` bytes apart. As `tp_trace_add_ops`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_counters(
    trace: *mut tp_trace,
    counters: *const tp_counter,
    count: usize,
    stride: usize,
) -> tp_status {
    // SAFETY: the caller vouches for handle and array.
    unsafe { add_all(trace, "counter", counters, count, stride, |store, one| add_counter(store, one)) }
}

unsafe fn add_instant(store: &mut Store, from: *const tp_instant) -> Result<(), Failure> {
    // SAFETY: the caller vouches for the struct and all that it points to.
    let read = unsafe {
        sized(from)
            .and_then(|instant| Ok((instant, text("name", instant.name)?, args(instant.args, instant.arg_count)?)))
    };
    let (instant, name, args) = counted(store, read)?;
    let scope = match (instant.scope, instant.flags) {
        (TP_INSTANT_THREAD, 0) => InstantScope::Thread,
        (TP_INSTANT_PROCESS, 0) => InstantScope::Process,
        (TP_INSTANT_GLOBAL, 0) => InstantScope::Global,
        (_, 1..) => return refuse(store, format!("flags {:#x}: must be 0", instant.flags)),
        (other, _) => return refuse(store, format!("scope {other} is not a TP_INSTANT_ number")),
    };
    let (time_ns, thread_id) = (instant.time_ns, instant.thread_id);
    Ok(store.add_instant(&Instant { name, time_ns, thread_id, scope, args: &args })?)
}

/// Adds one instant. Everything it points to is copied during the call.
///
/// Any thread. Errors as `tp_trace_add_op`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_instant(trace: *mut tp_trace, instant: *const tp_instant) -> tp_status {
    // SAFETY: the caller vouches for handle and struct.
    unsafe { one(trace, instant, |store, instant| add_instant(store, instant)) }
}

/// Adds `count` instants that lie `stride` bytes apart. As `tp_trace_add_ops`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_add_instants(
    trace: *mut tp_trace,
    instants: *const tp_instant,
    count: usize,
    stride: usize,
) -> tp_status {
    // SAFETY: the caller vouches for handle and array.
    unsafe { add_all(trace, "instant", instants, count, stride, |store, one| add_instant(store, one)) }
}
