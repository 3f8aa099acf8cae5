//! All functions in one table, for consumers that load the library at run time.

use std::ffi::{c_char, c_void};

use super::add::*;
use super::collect::*;
use super::gpu::*;
use super::journal::*;
use super::merge::*;
use super::record::*;
use super::split::*;
use super::status::{tp_status, tp_status_name};
use super::trace::*;
use super::types::*;
use super::write::*;

/// Every function of the library. Append-only: members keep their place, and a consumer that was built with a newer
/// header checks `size` before it uses a member (`TP_HAS`). Each member is described at the function of its name.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_api {
    /// Size of the table in the library's version.
    pub size: usize,
    /// `tp_version`
    pub version: unsafe extern "C" fn() -> *const c_char,
    /// `tp_status_name`
    pub status_name: unsafe extern "C" fn(status: tp_status) -> *const c_char,
    /// `tp_last_error_message`
    pub last_error_message: unsafe extern "C" fn(buffer: *mut c_char, capacity: usize) -> usize,
    /// `tp_now_ns`
    pub now_ns: unsafe extern "C" fn() -> i64,
    /// `tp_trace_new`
    pub trace_new: unsafe extern "C" fn(options: *const tp_trace_options, out: *mut *mut tp_trace) -> tp_status,
    /// `tp_trace_free`
    pub trace_free: unsafe extern "C" fn(trace: *mut tp_trace),
    /// `tp_trace_set_process_name`
    pub trace_set_process_name: unsafe extern "C" fn(trace: *mut tp_trace, name: tp_str) -> tp_status,
    /// `tp_trace_set_thread_name`
    pub trace_set_thread_name: unsafe extern "C" fn(trace: *mut tp_trace, thread_id: u64, name: tp_str) -> tp_status,
    /// `tp_trace_set_rank`
    pub trace_set_rank: unsafe extern "C" fn(trace: *mut tp_trace, rank: i64, world_size: i64) -> tp_status,
    /// `tp_trace_set_backend`
    pub trace_set_backend: unsafe extern "C" fn(trace: *mut tp_trace, backend: tp_str) -> tp_status,
    /// `tp_trace_set_metadata`
    pub trace_set_metadata: unsafe extern "C" fn(trace: *mut tp_trace, key: tp_str, json: tp_str) -> tp_status,
    /// `tp_trace_counts`
    pub trace_counts: unsafe extern "C" fn(trace: *const tp_trace, out: *mut tp_counts) -> tp_status,
    /// `tp_trace_add_op`
    pub trace_add_op: unsafe extern "C" fn(trace: *mut tp_trace, op: *const tp_op, id_out: *mut u64) -> tp_status,
    /// `tp_trace_add_ops`
    pub trace_add_ops:
        unsafe extern "C" fn(trace: *mut tp_trace, ops: *const tp_op, count: usize, stride: usize) -> tp_status,
    /// `tp_trace_add_gpu`
    pub trace_add_gpu: unsafe extern "C" fn(trace: *mut tp_trace, activity: *const tp_gpu_activity) -> tp_status,
    /// `tp_trace_add_gpus`
    pub trace_add_gpus: unsafe extern "C" fn(
        trace: *mut tp_trace,
        activities: *const tp_gpu_activity,
        count: usize,
        stride: usize,
    ) -> tp_status,
    /// `tp_trace_add_memory`
    pub trace_add_memory: unsafe extern "C" fn(trace: *mut tp_trace, event: *const tp_memory_event) -> tp_status,
    /// `tp_trace_add_memories`
    pub trace_add_memories: unsafe extern "C" fn(
        trace: *mut tp_trace,
        events: *const tp_memory_event,
        count: usize,
        stride: usize,
    ) -> tp_status,
    /// `tp_trace_add_sample`
    pub trace_add_sample: unsafe extern "C" fn(trace: *mut tp_trace, sample: *const tp_sample) -> tp_status,
    /// `tp_trace_add_samples`
    pub trace_add_samples:
        unsafe extern "C" fn(trace: *mut tp_trace, samples: *const tp_sample, count: usize, stride: usize) -> tp_status,
    /// `tp_trace_add_counter`
    pub trace_add_counter: unsafe extern "C" fn(trace: *mut tp_trace, counter: *const tp_counter) -> tp_status,
    /// `tp_trace_add_counters`
    pub trace_add_counters: unsafe extern "C" fn(
        trace: *mut tp_trace,
        counters: *const tp_counter,
        count: usize,
        stride: usize,
    ) -> tp_status,
    /// `tp_trace_add_instant`
    pub trace_add_instant: unsafe extern "C" fn(trace: *mut tp_trace, instant: *const tp_instant) -> tp_status,
    /// `tp_trace_add_instants`
    pub trace_add_instants: unsafe extern "C" fn(
        trace: *mut tp_trace,
        instants: *const tp_instant,
        count: usize,
        stride: usize,
    ) -> tp_status,
    /// `tp_trace_write`
    pub trace_write:
        unsafe extern "C" fn(trace: *const tp_trace, path: tp_str, options: *const tp_write_options) -> tp_status,
    /// `tp_trace_write_to`
    pub trace_write_to: unsafe extern "C" fn(
        trace: *const tp_trace,
        output: tp_output_fn,
        user_data: *mut c_void,
        options: *const tp_write_options,
    ) -> tp_status,
    /// `tp_trace_merge`
    pub trace_merge: unsafe extern "C" fn(
        paths: *const tp_str,
        count: usize,
        out_path: tp_str,
        options: *const tp_merge_options,
        report: *mut tp_merge_report,
    ) -> tp_status,
    /// `tp_merge_survey`
    pub merge_survey: unsafe extern "C" fn(
        path: tp_str,
        options: *const tp_merge_options,
        give: tp_message_fn,
        give_data: *mut c_void,
    ) -> tp_status,
    /// `tp_merge_plan`
    pub merge_plan: unsafe extern "C" fn(
        surveys: *const tp_str,
        count: usize,
        options: *const tp_merge_options,
        give: tp_message_fn,
        give_data: *mut c_void,
    ) -> tp_status,
    /// `tp_merge_fragment`
    pub merge_fragment: unsafe extern "C" fn(
        path: tp_str,
        task: tp_str,
        out_path: tp_str,
        options: *const tp_merge_options,
    ) -> tp_status,
    /// `tp_merge_join`
    pub merge_join: unsafe extern "C" fn(
        plan: tp_str,
        fragments: *const tp_str,
        count: usize,
        out_path: tp_str,
        options: *const tp_merge_options,
        report: *mut tp_merge_report,
    ) -> tp_status,
    /// `tp_gpu_info`
    pub gpu_info: unsafe extern "C" fn(libraries: *const tp_gpu_libraries, out: *mut tp_gpu_facts) -> tp_status,
    /// `tp_gpu_info_text`
    pub gpu_info_text: unsafe extern "C" fn(
        libraries: *const tp_gpu_libraries,
        buffer: *mut c_char,
        capacity: usize,
        length_out: *mut usize,
    ) -> tp_status,
    /// `tp_gpu_info_json`
    pub gpu_info_json: unsafe extern "C" fn(
        libraries: *const tp_gpu_libraries,
        buffer: *mut c_char,
        capacity: usize,
        length_out: *mut usize,
    ) -> tp_status,
    /// `tp_trace_set_gpu_info`
    pub trace_set_gpu_info: unsafe extern "C" fn(trace: *mut tp_trace, libraries: *const tp_gpu_libraries) -> tp_status,
    /// `tp_gpu_start`
    pub gpu_start: unsafe extern "C" fn(trace: *mut tp_trace, options: *const tp_gpu_options) -> tp_status,
    /// `tp_gpu_stop`
    pub gpu_stop: unsafe extern "C" fn(
        trace: *mut tp_trace,
        report: *mut tp_gpu_report,
        warn: tp_message_fn,
        warn_data: *mut c_void,
    ) -> tp_status,
    /// `tp_gpu_push_op`
    pub gpu_push_op: unsafe extern "C" fn(trace: *mut tp_trace, id: u64) -> tp_status,
    /// `tp_gpu_pop_op`
    pub gpu_pop_op: unsafe extern "C" fn(trace: *mut tp_trace) -> tp_status,
    /// `tp_name_new`
    pub name_new: unsafe extern "C" fn(name: tp_str, category: tp_str, out: *mut tp_name) -> tp_status,
    /// `tp_category_enable`
    pub category_enable: unsafe extern "C" fn(category: tp_str, on: i32) -> tp_status,
    /// `tp_category_flag`
    pub category_flag: unsafe extern "C" fn(category: tp_str) -> *const u8,
    /// `tp_span_begin`
    pub span_begin: unsafe extern "C" fn(trace: *const tp_trace, name: tp_name) -> tp_status,
    /// `tp_span_begin_text`
    pub span_begin_text: unsafe extern "C" fn(trace: *const tp_trace, name: tp_str, category: tp_str) -> tp_status,
    /// `tp_span_end`
    pub span_end: unsafe extern "C" fn(trace: *const tp_trace) -> tp_status,
    /// `tp_span_arg_int`
    pub span_arg_int: unsafe extern "C" fn(trace: *const tp_trace, key: tp_name, value: i64) -> tp_status,
    /// `tp_span_arg_uint`
    pub span_arg_uint: unsafe extern "C" fn(trace: *const tp_trace, key: tp_name, value: u64) -> tp_status,
    /// `tp_span_arg_float`
    pub span_arg_float: unsafe extern "C" fn(trace: *const tp_trace, key: tp_name, value: f64) -> tp_status,
    /// `tp_span_arg_bool`
    pub span_arg_bool: unsafe extern "C" fn(trace: *const tp_trace, key: tp_name, value: i32) -> tp_status,
    /// `tp_span_arg_text`
    pub span_arg_text: unsafe extern "C" fn(trace: *const tp_trace, key: tp_name, value: tp_str) -> tp_status,
    /// `tp_span_complete`
    pub span_complete:
        unsafe extern "C" fn(trace: *const tp_trace, name: tp_name, start_ns: i64, end_ns: i64) -> tp_status,
    /// `tp_record_instant`
    pub record_instant: unsafe extern "C" fn(trace: *const tp_trace, name: tp_name) -> tp_status,
    /// `tp_record_counter`
    pub record_counter: unsafe extern "C" fn(trace: *const tp_trace, name: tp_name, value: f64) -> tp_status,
    /// `tp_record_async`
    pub record_async: unsafe extern "C" fn(trace: *const tp_trace, name: tp_name, phase: i32, id: u64) -> tp_status,
    /// `tp_record_flow`
    pub record_flow: unsafe extern "C" fn(trace: *const tp_trace, name: tp_name, phase: i32, id: u64) -> tp_status,
    /// `tp_trace_sync_journal`
    pub trace_sync_journal: unsafe extern "C" fn(trace: *const tp_trace) -> tp_status,
    /// `tp_recover`
    pub recover: unsafe extern "C" fn(
        journal: tp_str,
        out_path: tp_str,
        options: *const tp_write_options,
        report: *mut tp_recover_report,
    ) -> tp_status,
}

/// The table, found by name once the library is loaded: `dlsym(library, "tp_api_v1")`.
#[unsafe(no_mangle)]
pub static tp_api_v1: tp_api = tp_api {
    size: size_of::<tp_api>(),
    version: tp_version,
    status_name: tp_status_name,
    last_error_message: tp_last_error_message,
    now_ns: tp_now_ns,
    trace_new: tp_trace_new,
    trace_free: tp_trace_free,
    trace_set_process_name: tp_trace_set_process_name,
    trace_set_thread_name: tp_trace_set_thread_name,
    trace_set_rank: tp_trace_set_rank,
    trace_set_backend: tp_trace_set_backend,
    trace_set_metadata: tp_trace_set_metadata,
    trace_counts: tp_trace_counts,
    trace_add_op: tp_trace_add_op,
    trace_add_ops: tp_trace_add_ops,
    trace_add_gpu: tp_trace_add_gpu,
    trace_add_gpus: tp_trace_add_gpus,
    trace_add_memory: tp_trace_add_memory,
    trace_add_memories: tp_trace_add_memories,
    trace_add_sample: tp_trace_add_sample,
    trace_add_samples: tp_trace_add_samples,
    trace_add_counter: tp_trace_add_counter,
    trace_add_counters: tp_trace_add_counters,
    trace_add_instant: tp_trace_add_instant,
    trace_add_instants: tp_trace_add_instants,
    trace_write: tp_trace_write,
    trace_write_to: tp_trace_write_to,
    trace_merge: tp_trace_merge,
    merge_survey: tp_merge_survey,
    merge_plan: tp_merge_plan,
    merge_fragment: tp_merge_fragment,
    merge_join: tp_merge_join,
    gpu_info: tp_gpu_info,
    gpu_info_text: tp_gpu_info_text,
    gpu_info_json: tp_gpu_info_json,
    trace_set_gpu_info: tp_trace_set_gpu_info,
    gpu_start: tp_gpu_start,
    gpu_stop: tp_gpu_stop,
    gpu_push_op: tp_gpu_push_op,
    gpu_pop_op: tp_gpu_pop_op,
    name_new: tp_name_new,
    category_enable: tp_category_enable,
    category_flag: tp_category_flag,
    span_begin: tp_span_begin,
    span_begin_text: tp_span_begin_text,
    span_end: tp_span_end,
    span_arg_int: tp_span_arg_int,
    span_arg_uint: tp_span_arg_uint,
    span_arg_float: tp_span_arg_float,
    span_arg_bool: tp_span_arg_bool,
    span_arg_text: tp_span_arg_text,
    span_complete: tp_span_complete,
    record_instant: tp_record_instant,
    record_counter: tp_record_counter,
    record_async: tp_record_async,
    record_flow: tp_record_flow,
    trace_sync_journal: tp_trace_sync_journal,
    recover: tp_recover,
};
