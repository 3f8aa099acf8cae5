//! The C ABI with any values in any struct: a status each time, and strict JSON at the end.
#![no_main]

use std::ffi::{c_char, c_void};
use std::mem::zeroed;
use std::ptr::{null, null_mut};

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use tptrace::capi::add::*;
use tptrace::capi::trace::*;
use tptrace::capi::types::*;
use tptrace::capi::write::*;

/// Memory that the structs point to, kept until the end.
#[derive(Default)]
struct Memory {
    bytes: Vec<Box<[u8]>>,
    args: Vec<Box<[tp_arg]>>,
    texts: Vec<Box<[tp_str]>>,
    dims: Vec<Box<[i64]>>,
    codes: Vec<Box<[i32]>>,
    ranks: Vec<Box<[u32]>>,
}

/// A kept array, its address and its true length; now and then NULL with a length, as bad callers have it.
fn keep<T>(u: &mut Unstructured<'_>, into: &mut Vec<Box<[T]>>, items: Vec<T>) -> Result<(*const T, usize)> {
    if u.ratio(1, 50)? {
        return Ok((null(), usize::arbitrary(u)?));
    }
    into.push(items.into_boxed_slice());
    let kept = &into[into.len() - 1];
    Ok((kept.as_ptr(), kept.len()))
}

fn text(u: &mut Unstructured<'_>, memory: &mut Memory) -> Result<tp_str> {
    let bytes = match u.int_in_range(0..=5)? {
        0 => b"name".to_vec(),
        1 => b"External id".to_vec(),
        2 => "\u{1F600}".as_bytes().to_vec(),
        _ => Vec::arbitrary(u)?,
    };
    let (ptr, len) = keep(u, &mut memory.bytes, bytes)?;
    Ok(tp_str { ptr: ptr.cast::<c_char>(), len })
}

fn time(u: &mut Unstructured<'_>) -> Result<i64> {
    if u.ratio(3, 4)? { Ok(i64::from(u16::arbitrary(u)?)) } else { i64::arbitrary(u) }
}

fn id(u: &mut Unstructured<'_>) -> Result<u64> {
    if u.ratio(3, 4)? { Ok(u64::from(u8::arbitrary(u)? % 16)) } else { u64::arbitrary(u) }
}

fn small(u: &mut Unstructured<'_>) -> Result<i32> {
    if u.ratio(15, 16)? { u.int_in_range(-1..=6) } else { i32::arbitrary(u) }
}

fn size(u: &mut Unstructured<'_>, true_size: usize) -> Result<usize> {
    // Never more than the struct has: what lies behind it is not the caller's to offer.
    if u.ratio(31, 32)? { Ok(true_size) } else { Ok(usize::from(u8::arbitrary(u)?).min(true_size)) }
}

fn args(u: &mut Unstructured<'_>, memory: &mut Memory) -> Result<(*const tp_arg, usize)> {
    let mut items = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        items.push(tp_arg {
            key: text(u, memory)?,
            kind: small(u)?,
            reserved: 0,
            integer: i64::arbitrary(u)?,
            number: f64::arbitrary(u)?,
            text: text(u, memory)?,
        });
    }
    keep(u, &mut memory.args, items)
}

fn texts(u: &mut Unstructured<'_>, memory: &mut Memory) -> Result<(*const tp_str, usize)> {
    let mut items = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        items.push(text(u, memory)?);
    }
    keep(u, &mut memory.texts, items)
}

fn op(u: &mut Unstructured<'_>, memory: &mut Memory) -> Result<tp_op> {
    let ranks: Vec<u32> = (0..u.int_in_range(0..=3)?).map(|_| u.int_in_range(0..=3)).collect::<Result<_>>()?;
    let count = ranks.iter().sum::<u32>() as usize;
    let dims = (0..count).map(|_| i64::arbitrary(u)).collect::<Result<Vec<i64>>>()?;
    let codes = (0..ranks.len()).map(|_| small(u)).collect::<Result<Vec<i32>>>()?;
    let input_count = ranks.len();
    // A rank array that is NULL needs no dims, and so on: the counts of the arrays that are there are true.
    let (ranks, input_count) = (keep(u, &mut memory.ranks, ranks)?.0, input_count);
    let dims = keep(u, &mut memory.dims, dims)?.0;
    let dtypes = keep(u, &mut memory.codes, codes)?.0;
    let (stack, stack_count) = texts(u, memory)?;
    let (args, arg_count) = args(u, memory)?;
    Ok(tp_op {
        size: size(u, size_of::<tp_op>())?,
        flags: u32::arbitrary(u)? & if u.ratio(31, 32)? { 7 } else { u32::MAX },
        kind: small(u)?,
        name: text(u, memory)?,
        start_ns: time(u)?,
        end_ns: time(u)?,
        thread_id: id(u)?,
        id: id(u)?,
        input_count,
        ranks,
        dims,
        dtypes,
        dtype_names: null(),
        dtype_count: 0,
        call_site: text(u, memory)?,
        gpu_ms: f64::arbitrary(u)?,
        kernel_count: i64::arbitrary(u)?,
        output_bytes: i64::arbitrary(u)?,
        stack,
        stack_count,
        args,
        arg_count,
    })
}

fn gpu(u: &mut Unstructured<'_>, memory: &mut Memory) -> Result<tp_gpu_activity> {
    let (args, arg_count) = args(u, memory)?;
    // SAFETY: the C structs are valid when zero.
    let mut gpu: tp_gpu_activity = unsafe { zeroed() };
    gpu.size = size(u, size_of::<tp_gpu_activity>())?;
    gpu.flags = u32::arbitrary(u)? & if u.ratio(31, 32)? { 511 } else { u32::MAX };
    gpu.kind = small(u)?;
    gpu.name = text(u, memory)?;
    (gpu.start_ns, gpu.end_ns) = (time(u)?, time(u)?);
    gpu.device = small(u)?;
    gpu.stream = u32::arbitrary(u)?;
    (gpu.correlation_id, gpu.external_id, gpu.os_thread) = (id(u)?, id(u)?, id(u)?);
    (gpu.bytes, gpu.graph_node_id) = (id(u)?, id(u)?);
    (gpu.grid_x, gpu.copy_kind, gpu.priority) = (u32::arbitrary(u)?, u32::arbitrary(u)?, i32::arbitrary(u)?);
    (gpu.args, gpu.arg_count) = (args, arg_count);
    Ok(gpu)
}

fn call(u: &mut Unstructured<'_>, memory: &mut Memory, trace: *mut tp_trace) -> Result<i32> {
    // SAFETY: every pointer is NULL or to memory of at least the size announced, kept in `memory`.
    unsafe {
        Ok(match u.int_in_range(0..=11)? {
            0..=2 => {
                let mut id = 0;
                let out = if bool::arbitrary(u)? { &raw mut id } else { null_mut() };
                tp_trace_add_op(trace, &op(u, memory)?, out)
            }
            3..=5 => tp_trace_add_gpu(trace, &gpu(u, memory)?),
            6 => {
                let ops = [op(u, memory)?, op(u, memory)?];
                tp_trace_add_ops(trace, ops.as_ptr(), 2, size_of::<tp_op>())
            }
            7 => {
                let (args, arg_count) = args(u, memory)?;
                let event = tp_memory_event {
                    size: size(u, size_of::<tp_memory_event>())?,
                    flags: u32::arbitrary(u)? & 7,
                    device: small(u)?,
                    time_ns: time(u)?,
                    address: id(u)?,
                    bytes: i64::arbitrary(u)?,
                    thread_id: id(u)?,
                    args,
                    arg_count,
                };
                tp_trace_add_memory(trace, &event)
            }
            8 => {
                let (stack, stack_count) = texts(u, memory)?;
                let (args, arg_count) = args(u, memory)?;
                let size = size(u, size_of::<tp_sample>())?;
                let (time_ns, os_thread) = (time(u)?, id(u)?);
                let sample = tp_sample { size, time_ns, os_thread, stack, stack_count, args, arg_count };
                tp_trace_add_sample(trace, &sample)
            }
            9 => {
                let (values, value_count) = args(u, memory)?;
                let size = size(u, size_of::<tp_counter>())?;
                let counter = tp_counter { size, name: text(u, memory)?, time_ns: time(u)?, values, value_count };
                tp_trace_add_counter(trace, &counter)
            }
            10 => {
                let (args, arg_count) = args(u, memory)?;
                let instant = tp_instant {
                    size: size(u, size_of::<tp_instant>())?,
                    flags: 0,
                    scope: small(u)?,
                    name: text(u, memory)?,
                    time_ns: time(u)?,
                    thread_id: id(u)?,
                    args,
                    arg_count,
                };
                tp_trace_add_instant(trace, &instant)
            }
            _ => match u.int_in_range(0..=4)? {
                0 => tp_trace_set_process_name(trace, text(u, memory)?),
                1 => tp_trace_set_thread_name(trace, id(u)?, text(u, memory)?),
                2 => tp_trace_set_rank(trace, i64::arbitrary(u)?, i64::arbitrary(u)?),
                3 => tp_trace_set_backend(trace, text(u, memory)?),
                _ => tp_trace_set_metadata(trace, text(u, memory)?, text(u, memory)?),
            },
        })
    }
}

unsafe extern "C" fn collect(bytes: *const u8, len: usize, into: *mut c_void) -> i32 {
    // SAFETY: the library vouches for the bytes, and `into` is the vector given below.
    unsafe { (*into.cast::<Vec<u8>>()).extend_from_slice(std::slice::from_raw_parts(bytes, len)) };
    0
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let mut memory = Memory::default();
    let mut trace = null_mut();
    // SAFETY: as in `call`; the handle is freed once, at the end.
    unsafe {
        let mut options: tp_trace_options = zeroed();
        options.size = size_of::<tp_trace_options>();
        options.flags = u32::from(bool::arbitrary(u)?);
        options.base_ns = time(u)?;
        assert_eq!(tp_trace_new(&options, &mut trace), 0);
    }
    while !u.is_empty() {
        match call(u, &mut memory, trace) {
            // 0, 2 and 9: it worked, bad argument, from the future.
            Ok(status) => assert!(matches!(status, 0 | 2 | 9), "status {status}"),
            Err(_) => break,
        }
    }
    for (format, flags) in [(0, 0), (0, TP_WRITE_AS_REFERENCE), (1, 0), (1, TP_WRITE_KEEP_OVERLAPS)] {
        let mut document = Vec::<u8>::new();
        // SAFETY: as above.
        unsafe {
            let mut options: tp_write_options = zeroed();
            options.size = size_of::<tp_write_options>();
            (options.format, options.flags, options.threads) = (format, flags, 1);
            assert_eq!(tp_trace_write_to(trace, Some(collect), (&raw mut document).cast(), &options), 0);
        }
        serde_json::from_slice::<serde_json::Value>(&document).expect("strict JSON");
    }
    // SAFETY: the last use.
    unsafe { tp_trace_free(trace) };
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
