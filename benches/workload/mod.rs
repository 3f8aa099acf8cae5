//! The workload of the export benchmark, made through the C ABI: a million ops with two input shapes, element types and
//! a call site, of 200 names on 4 threads, and half a million kernels on 2 streams.
//!
//! `benches/peers/writer.cpp` and `benches/python_export.py` make the same events.

use std::ffi::c_char;
use std::mem::zeroed;
use std::ptr::null_mut;

use tptrace::capi::add::{tp_trace_add_gpus, tp_trace_add_ops};
use tptrace::capi::trace::{tp_trace_free, tp_trace_new, tp_trace_set_process_name};
use tptrace::capi::types::*;

/// Ops added with one call, as a profiler hands over its buffers.
const BATCH: usize = 1024;
const BASE: i64 = 1_000_000_000;

fn text(bytes: &[u8]) -> tp_str {
    tp_str { ptr: bytes.as_ptr().cast::<c_char>(), len: bytes.len() }
}

/// A handle that frees itself.
pub(super) struct Trace(pub(crate) *mut tptrace::capi::trace::tp_trace);

impl Drop for Trace {
    fn drop(&mut self) {
        // SAFETY: the handle is ours and not used again.
        unsafe { tp_trace_free(self.0) }
    }
}

/// What is in memory before the clock starts: names, shapes, and the structs that point to them.
pub(super) struct Workload {
    ops: Vec<tp_op>,
    gpus: Vec<tp_gpu_activity>,
    _names: Vec<String>,
}

impl Workload {
    pub(super) fn new(ops: usize) -> Self {
        static DIMS: [i64; 5] = [32, 1024, 1024, 4096, 7];
        static RANKS: [u32; 2] = [2, 2];
        static DTYPES: [i32; 2] = [8, 8];
        let names: Vec<String> = (0..200)
            .map(|i| format!("aten::operation_{i}"))
            .chain(
                (0..50).map(|i| format!("void at::native::vectorized_elementwise_kernel<4, functor_{i}>(int, float*)")),
            )
            .chain((0..100).map(|i| format!("/home/user/project/model/layers.py:{}", 10 + i)))
            .collect();
        let ops: Vec<tp_op> = (0..ops)
            .map(|i| {
                let start_ns = BASE + i as i64 * 2_000 + (i as i64 * 7_919) % 997;
                tp_op {
                    size: size_of::<tp_op>(),
                    name: text(names[(i * 31) % 200].as_bytes()),
                    start_ns,
                    end_ns: start_ns + 500 + (i as i64 * 104_729) % 1_400,
                    thread_id: 140_000_000_000_000 + (i % 4) as u64 * 4_096,
                    input_count: 2,
                    ranks: RANKS.as_ptr(),
                    dims: DIMS[i % 2..].as_ptr(),
                    dtypes: DTYPES.as_ptr(),
                    call_site: text(names[250 + (i * 17) % 100].as_bytes()),
                    // SAFETY: the C structs are valid when zero: that is how C callers start.
                    ..unsafe { zeroed() }
                }
            })
            .collect();
        let gpus = (0..ops.len() / 2)
            .map(|i| tp_gpu_activity {
                size: size_of::<tp_gpu_activity>(),
                flags: TP_GPU_HAS_EXTERNAL_ID,
                kind: TP_GPU_KIND_KERNEL,
                name: text(names[200 + (i * 13) % 50].as_bytes()),
                start_ns: ops[2 * i].end_ns + 3_000,
                end_ns: ops[2 * i].end_ns + 3_000 + 300 + (i as i64 * 7_907) % 900,
                stream: 7 + (i % 2) as u32 * 13,
                correlation_id: i as u64 + 1,
                external_id: 2 * i as u64,
                // SAFETY: as above.
                ..unsafe { zeroed() }
            })
            .collect();
        Self { ops, gpus, _names: names }
    }

    /// All events in a new trace.
    pub(super) fn add(&self) -> Trace {
        let mut trace = Trace(null_mut());
        // SAFETY: the structs and all they point to live in `self` or are static.
        unsafe {
            let mut options: tp_trace_options = zeroed();
            options.size = size_of::<tp_trace_options>();
            options.flags = TP_TRACE_HAS_BASE;
            options.base_ns = BASE;
            assert_eq!(tp_trace_new(&options, &mut trace.0), 0);
            assert_eq!(tp_trace_set_process_name(trace.0, text(b"bench")), 0);
            for ops in self.ops.chunks(BATCH) {
                assert_eq!(tp_trace_add_ops(trace.0, ops.as_ptr(), ops.len(), size_of::<tp_op>()), 0);
            }
            for gpus in self.gpus.chunks(BATCH) {
                assert_eq!(tp_trace_add_gpus(trace.0, gpus.as_ptr(), gpus.len(), size_of::<tp_gpu_activity>()), 0);
            }
        }
        trace
    }
}
