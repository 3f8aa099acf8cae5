/* Sets every member of every struct to a value of its own and writes both formats: the test that runs this looks for
 * each value in the documents, so that C and Rust agree on every offset. */
#include "check.h"

static int32_t progress(const tp_progress *state, void *user_data) {
    CHECK(state->size == sizeof *state);
    CHECK(state->total == 9);
    CHECK(state->done <= state->total);
    *(uint64_t *)user_data = state->done;
    return 0;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(strcmp(tp_version(), "") != 0);

    tp_trace_options options = TP_INIT(tp_trace_options);
    options.flags = TP_TRACE_HAS_BASE;
    options.clock = TP_CLOCK_REALTIME;
    options.base_ns = 1000000000;
    options.process_name = TP_STR("first name");
    tp_trace *trace = NULL;
    CHECK(tp_trace_new(&options, &trace) == TP_STATUS_OK);
    CHECK(tp_trace_set_process_name(trace, TP_STR("every field")) == TP_STATUS_OK);
    CHECK(tp_trace_set_thread_name(trace, 71, TP_STR("lane of 71")) == TP_STATUS_OK);
    CHECK(tp_trace_set_rank(trace, 3, 5) == TP_STATUS_OK);
    CHECK(tp_trace_set_backend(trace, TP_STR("nccl")) == TP_STATUS_OK);
    CHECK(tp_trace_set_metadata(trace, TP_STR("note"), TP_STR("{\"a\": [1, 2.50, null]}")) == TP_STATUS_OK);

    tp_arg args[] = {
        {TP_STR("int"), TP_ARG_INT, 0, -12, 0, {NULL, 0}},
        {TP_STR("uint"), TP_ARG_UINT, 0, -1, 0, {NULL, 0}},
        {TP_STR("float"), TP_ARG_FLOAT, 0, 0, 0.25, {NULL, 0}},
        {TP_STR("bool"), TP_ARG_BOOL, 0, 1, 0, {NULL, 0}},
        {TP_STR("text"), TP_ARG_TEXT, 0, 0, 0, TP_STR("value")},
    };
    uint32_t ranks[] = {2, 0, 1};
    int64_t dims[] = {11, 12, 13};
    int32_t codes[] = {8, 4, 99};
    tp_str names[] = {TP_STR("first type"), TP_STR("second type")};
    tp_str stack[] = {TP_STR("inner frame"), TP_STR("outer frame")};

    tp_op op = TP_INIT(tp_op);
    op.flags = TP_OP_HAS_ID | TP_OP_HAS_GPU_MS;
    op.kind = TP_OP_KIND_BACKWARD;
    op.name = TP_STR("the op");
    op.start_ns = 1000001001;
    op.end_ns = 1000009003;
    op.thread_id = 71;
    op.id = 9001;
    op.input_count = 3;
    op.ranks = ranks;
    op.dims = dims;
    op.dtypes = codes;
    op.call_site = TP_STR("model.py:17");
    op.gpu_ms = 1.125;
    op.kernel_count = 23;
    op.output_bytes = 4097;
    op.stack = stack;
    op.stack_count = 2;
    op.args = args;
    op.arg_count = 5;
    uint64_t id = 0;
    CHECK(tp_trace_add_op(trace, &op, &id) == TP_STATUS_OK);
    CHECK(id == 9001);

    tp_op named = TP_INIT(tp_op);
    named.flags = TP_OP_HAS_INPUTS;
    named.kind = TP_OP_KIND_USER_ANNOTATION;
    named.name = TP_STR("the annotation");
    named.start_ns = 1000020000;
    named.end_ns = 1000021000;
    named.thread_id = 72;
    named.dtype_names = names;
    named.dtype_count = 2;
    CHECK(tp_trace_add_ops(trace, &named, 1, sizeof named) == TP_STATUS_OK);

    tp_gpu_activity launch = TP_INIT(tp_gpu_activity);
    launch.flags = TP_GPU_HAS_EXTERNAL_ID;
    launch.kind = TP_GPU_KIND_RUNTIME;
    launch.name = TP_STR("cudaLaunchKernel");
    launch.start_ns = 1000002000;
    launch.end_ns = 1000003000;
    launch.correlation_id = 501;
    launch.external_id = 9001;
    launch.os_thread = 71;
    launch.callback_id = 211;
    CHECK(tp_trace_add_gpu(trace, &launch) == TP_STATUS_OK);

    tp_gpu_activity kernel = TP_INIT(tp_gpu_activity);
    kernel.flags = TP_GPU_HAS_EXTERNAL_ID | TP_GPU_HAS_GRID | TP_GPU_HAS_BLOCK | TP_GPU_HAS_REGISTERS |
                   TP_GPU_HAS_SHARED_MEMORY | TP_GPU_HAS_CONTEXT | TP_GPU_HAS_GRAPH_ID | TP_GPU_HAS_GRAPH_NODE_ID |
                   TP_GPU_HAS_PRIORITY;
    kernel.kind = TP_GPU_KIND_KERNEL;
    kernel.name = TP_STR("the kernel");
    kernel.start_ns = 1000004000;
    kernel.end_ns = 1000005500;
    kernel.device = 2;
    kernel.stream = 37;
    kernel.correlation_id = 501;
    kernel.external_id = 9001;
    kernel.grid_x = 41;
    kernel.grid_y = 42;
    kernel.grid_z = 43;
    kernel.block_x = 44;
    kernel.block_y = 45;
    kernel.block_z = 46;
    kernel.registers_per_thread = 47;
    kernel.shared_memory = 48;
    kernel.context = 49;
    kernel.graph_id = 50;
    kernel.priority = -51;
    kernel.graph_node_id = 5200000000;
    kernel.args = args;
    kernel.arg_count = 1;
    tp_gpu_activity copy = TP_INIT(tp_gpu_activity);
    copy.kind = TP_GPU_KIND_MEMCPY;
    copy.name = TP_STR("the copy");
    copy.start_ns = 1000006000;
    copy.end_ns = 1000007000;
    copy.device = 2;
    copy.stream = 38;
    copy.bytes = 65537;
    copy.copy_kind = 1;
    copy.value = 7;
    tp_gpu_activity both[] = {kernel, copy};
    CHECK(tp_trace_add_gpus(trace, both, 2, sizeof both[0]) == TP_STATUS_OK);

    tp_memory_event memory = TP_INIT(tp_memory_event);
    memory.flags = TP_MEMORY_CUDA | TP_MEMORY_ALLOCATED;
    memory.device = 2;
    memory.time_ns = 1000008000;
    memory.address = 0x7f0000001000;
    memory.bytes = 8193;
    memory.thread_id = 71;
    memory.args = &args[2];
    memory.arg_count = 1;
    CHECK(tp_trace_add_memory(trace, &memory) == TP_STATUS_OK);

    tp_sample sample = TP_INIT(tp_sample);
    sample.time_ns = 1000008500;
    sample.os_thread = 73;
    sample.stack = stack;
    sample.stack_count = 2;
    sample.args = &args[0];
    sample.arg_count = 1;
    CHECK(tp_trace_add_sample(trace, &sample) == TP_STATUS_OK);

    tp_counter counter = TP_INIT(tp_counter);
    counter.name = TP_STR("the counter");
    counter.time_ns = 1000008600;
    counter.values = args;
    counter.value_count = 3;
    CHECK(tp_trace_add_counter(trace, &counter) == TP_STATUS_OK);

    tp_instant instant = TP_INIT(tp_instant);
    instant.scope = TP_INSTANT_PROCESS;
    instant.name = TP_STR("the instant");
    instant.time_ns = 1000008700;
    instant.thread_id = 74;
    instant.args = &args[4];
    instant.arg_count = 1;
    CHECK(tp_trace_add_instant(trace, &instant) == TP_STATUS_OK);

    tp_counts counts = TP_INIT(tp_counts);
    CHECK(tp_trace_counts(trace, &counts) == TP_STATUS_OK);
    CHECK(counts.ops == 2 && counts.gpu_activities == 3 && counts.memory_events == 1 && counts.samples == 1);
    CHECK(counts.counters == 1 && counts.instants == 1 && counts.dropped == 0 && counts.clamped == 0);
    CHECK(counts.memory > 0);

    uint64_t seen = 0;
    tp_write_options write = TP_INIT(tp_write_options);
    write.flags = TP_WRITE_FSYNC;
    write.format = TP_FORMAT_TORCH;
    write.compression = TP_COMPRESSION_GZIP;
    write.level = 9;
    write.threads = 2;
    write.trace_name = TP_STR("the trace");
    write.progress = progress;
    write.progress_data = &seen;
    CHECK(tp_trace_write(trace, tp_cstr(argv[1]), &write) == TP_STATUS_OK);
    CHECK(seen == 9);
    CHECK(tp_trace_write(trace, tp_cstr(argv[2]), NULL) == TP_STATUS_OK);
    tp_trace_free(trace);
    return 0;
}
