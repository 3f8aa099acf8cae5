/* NULL, nonsense and extremes: each call answers a status with a message that says what was wrong, or stores something
 * sane; nothing crashes, and the trace can still be written. */
#include <float.h>
#include <limits.h>
#include <math.h>

#include "check.h"

static tp_op op_of(const char *name, int64_t start, int64_t end) {
    tp_op op = TP_INIT(tp_op);
    op.name = tp_cstr(name);
    op.start_ns = start;
    op.end_ns = end;
    return op;
}

static int32_t refuse(const uint8_t *bytes, size_t len, void *user_data) {
    (void)bytes, (void)len;
    *(int *)user_data += 1;
    return 42;
}

static int32_t cancel(const tp_progress *progress, void *user_data) {
    (void)progress, (void)user_data;
    return 1;
}

static void null_handles(const char *path) {
    tp_op op = op_of("op", 0, 1);
    tp_gpu_activity gpu = TP_INIT(tp_gpu_activity);
    tp_memory_event memory = TP_INIT(tp_memory_event);
    tp_sample sample = TP_INIT(tp_sample);
    tp_counter counter = TP_INIT(tp_counter);
    tp_instant instant = TP_INIT(tp_instant);
    tp_counts counts = TP_INIT(tp_counts);
    CHECK_FAILS(tp_trace_new(NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "out is NULL");
    CHECK_FAILS(tp_trace_set_process_name(NULL, TP_STR("x")), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_set_thread_name(NULL, 1, TP_STR("x")), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_set_rank(NULL, 0, 1), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_set_backend(NULL, TP_STR("x")), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_set_metadata(NULL, TP_STR("x"), TP_STR("1")), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_counts(NULL, &counts), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_op(NULL, &op, NULL), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_ops(NULL, &op, 1, sizeof op), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_gpu(NULL, &gpu), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_gpus(NULL, &gpu, 1, sizeof gpu), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_memory(NULL, &memory), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_memories(NULL, &memory, 1, sizeof memory), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_sample(NULL, &sample), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_samples(NULL, &sample, 1, sizeof sample), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_counter(NULL, &counter), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_counters(NULL, &counter, 1, sizeof counter), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_instant(NULL, &instant), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_add_instants(NULL, &instant, 1, sizeof instant), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_write(NULL, tp_cstr(path), NULL), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_trace_write_to(NULL, refuse, NULL, NULL), TP_STATUS_UNAVAILABLE, "NULL");
    tp_trace_free(NULL);
}

static void bad_structs(tp_trace *trace) {
    tp_op op = op_of("op", 0, 1);
    CHECK_FAILS(tp_trace_add_op(trace, NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "tp_op is NULL");
    CHECK_FAILS(tp_trace_add_ops(trace, NULL, 2, sizeof op), TP_STATUS_INVALID_ARGUMENT, "NULL");
    CHECK_FAILS(tp_trace_add_ops(trace, &op, 2, 0), TP_STATUS_INVALID_ARGUMENT, "stride");
    CHECK_FAILS(tp_trace_add_ops(trace, &op, SIZE_MAX, sizeof op), TP_STATUS_INVALID_ARGUMENT, "elements");
    CHECK(tp_trace_add_ops(trace, NULL, 0, 0) == TP_STATUS_OK);

    op.size = 0;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "tp_op.size is 0");
    op.size = sizeof op - 1;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "size");
    op.size = SIZE_MAX;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "size");
    op = op_of("op", 0, 1);
    op.kind = 77;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "kind 77");
    op.kind = -1;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "kind -1");
    op = op_of("op", 0, 1);
    op.flags = UINT32_C(1) << 31;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "unknown bits");

    op = op_of(NULL, 0, 1);
    op.name.len = 5;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "name");
    op.name.ptr = "x";
    op.name.len = SIZE_MAX;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "name");
    op.name.len = (size_t)3 << 30;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "name");

    uint32_t ranks[] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    int64_t dim = 1;
    op = op_of("op", 0, 1);
    op.input_count = 3;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "ranks");
    op.ranks = ranks;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "dims");
    op.input_count = SIZE_MAX;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "ranks");
    op = op_of("op", 0, 1);
    op.stack_count = 3;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "stack");
    op = op_of("op", 0, 1);
    op.arg_count = SIZE_MAX / 2;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "args");
    tp_arg arg = {TP_STR("key"), 99, 0, 0, 0, {NULL, 0}};
    op.args = &arg;
    op.arg_count = 1;
    CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_INVALID_ARGUMENT, "kind 99");
    (void)dim;

    tp_gpu_activity gpu = TP_INIT(tp_gpu_activity);
    gpu.kind = 7;
    CHECK_FAILS(tp_trace_add_gpu(trace, &gpu), TP_STATUS_INVALID_ARGUMENT, "kind 7");
    tp_gpu_activity gpus[3] = {TP_INIT(tp_gpu_activity), TP_INIT(tp_gpu_activity), TP_INIT(tp_gpu_activity)};
    gpus[2].kind = -7;
    CHECK_FAILS(tp_trace_add_gpus(trace, gpus, 3, sizeof gpus[0]), TP_STATUS_INVALID_ARGUMENT, "GPU activity 2: kind -7");

    tp_counter counter = TP_INIT(tp_counter);
    CHECK_FAILS(tp_trace_add_counter(trace, &counter), TP_STATUS_INVALID_ARGUMENT, "value");
    tp_arg value = {TP_STR("v"), TP_ARG_FLOAT, 0, 0, NAN, {NULL, 0}};
    counter.values = &value;
    counter.value_count = 1;
    CHECK_FAILS(tp_trace_add_counter(trace, &counter), TP_STATUS_INVALID_ARGUMENT, "finite");
    value.kind = TP_ARG_TEXT;
    value.text = TP_STR("ten");
    CHECK_FAILS(tp_trace_add_counter(trace, &counter), TP_STATUS_INVALID_ARGUMENT, "number");
    tp_instant instant = TP_INIT(tp_instant);
    instant.scope = 3;
    CHECK_FAILS(tp_trace_add_instant(trace, &instant), TP_STATUS_INVALID_ARGUMENT, "scope 3");
    tp_sample sample = TP_INIT(tp_sample);
    CHECK(tp_trace_add_sample(trace, &sample) == TP_STATUS_OK); /* no frame: dropped, counted */

    CHECK_FAILS(tp_trace_set_metadata(trace, TP_STR("k"), TP_STR("{oops")), TP_STATUS_INVALID_ARGUMENT, "not JSON");
    CHECK_FAILS(tp_trace_set_metadata(trace, TP_STR("k"), TP_STR("")), TP_STATUS_INVALID_ARGUMENT, "not JSON");
    CHECK_FAILS(tp_trace_set_metadata(trace, TP_STR("traceEvents"), TP_STR("[]")), TP_STATUS_INVALID_ARGUMENT,
                "traceEvents");
    tp_counts counts = {0};
    CHECK_FAILS(tp_trace_counts(trace, &counts), TP_STATUS_INVALID_ARGUMENT, "size");
    CHECK_FAILS(tp_trace_counts(trace, NULL), TP_STATUS_INVALID_ARGUMENT, "NULL");
}

static void odd_but_sane(tp_trace *trace) {
    int64_t extremes[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    size_t n = sizeof extremes / sizeof extremes[0];
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            tp_op op = op_of("extreme", extremes[i], extremes[j]);
            op.thread_id = (uint64_t)extremes[j];
            op.output_bytes = extremes[i];
            op.kernel_count = extremes[j];
            op.flags = TP_OP_HAS_GPU_MS;
            op.gpu_ms = i % 2 ? NAN : INFINITY;
            CHECK(tp_trace_add_op(trace, &op, NULL) == TP_STATUS_OK);
            tp_gpu_activity gpu = TP_INIT(tp_gpu_activity);
            gpu.flags = TP_GPU_HAS_EXTERNAL_ID;
            gpu.start_ns = extremes[i];
            gpu.end_ns = extremes[j];
            gpu.device = i % 2 ? INT32_MIN : INT32_MAX;
            gpu.stream = UINT32_MAX;
            gpu.correlation_id = (uint64_t)extremes[i];
            gpu.external_id = (uint64_t)extremes[j];
            gpu.bytes = UINT64_MAX;
            gpu.os_thread = UINT64_MAX;
            gpu.kind = (int32_t)(i % 5);
            CHECK(tp_trace_add_gpu(trace, &gpu) == TP_STATUS_OK);
            tp_memory_event memory = TP_INIT(tp_memory_event);
            memory.time_ns = extremes[i];
            memory.bytes = extremes[j];
            memory.address = UINT64_MAX;
            memory.device = INT32_MIN;
            CHECK(tp_trace_add_memory(trace, &memory) == TP_STATUS_OK);
        }
    /* Bytes that are not UTF-8, quotes, controls, NUL. */
    tp_op op = op_of("", 5, 6);
    op.name = TP_STR("bad \xff\xfe \xc3 \xed\xa0\x80 \" \\ \n \x01 \x7f nul:\0end");
    op.call_site = op.name;
    tp_arg args[] = {
        {op.name, TP_ARG_TEXT, 0, 0, 0, op.name},
        {TP_STR("nan"), TP_ARG_FLOAT, 0, 0, NAN, {NULL, 0}},
        {TP_STR("inf"), TP_ARG_FLOAT, 0, 0, -INFINITY, {NULL, 0}},
        {TP_STR("tiny"), TP_ARG_FLOAT, 0, 0, DBL_TRUE_MIN, {NULL, 0}},
        {TP_STR("tiny"), TP_ARG_FLOAT, 0, 0, DBL_MAX, {NULL, 0}},
        {TP_STR("Input Dims"), TP_ARG_INT, 0, 1, 0, {NULL, 0}},
        {{NULL, 0}, TP_ARG_BOOL, 0, 5, 0, {NULL, 0}},
    };
    op.args = args;
    op.arg_count = sizeof args / sizeof args[0];
    CHECK(tp_trace_add_op(trace, &op, NULL) == TP_STATUS_OK);
    /* A megabyte of name. */
    size_t length = 1u << 20;
    char *name = malloc(length);
    CHECK(name != NULL);
    memset(name, '\\', length);
    op = op_of("", 7, 8);
    op.name.ptr = name;
    op.name.len = length;
    CHECK(tp_trace_add_op(trace, &op, NULL) == TP_STATUS_OK);
    free(name);
    CHECK(tp_trace_set_metadata(trace, TP_STR("bad \xff key"), TP_STR("{\"x\": \"\\ud83d\\ude00\"}")) == TP_STATUS_OK);
    CHECK(tp_trace_set_process_name(trace, TP_STR("\xff")) == TP_STATUS_OK);
    CHECK(tp_trace_set_rank(trace, INT64_MAX, INT64_MIN) == TP_STATUS_OK);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    null_handles(argv[1]);

    tp_trace_options options = TP_INIT(tp_trace_options);
    tp_trace *trace = NULL;
    options.clock = 9;
    CHECK_FAILS(tp_trace_new(&options, &trace), TP_STATUS_INVALID_ARGUMENT, "clock 9");
    options.clock = 0;
    options.flags = 6;
    CHECK_FAILS(tp_trace_new(&options, &trace), TP_STATUS_INVALID_ARGUMENT, "unknown bits");
    CHECK(trace == NULL);
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    bad_structs(trace);
    odd_but_sane(trace);

    CHECK_FAILS(tp_trace_write(trace, TP_STR(""), NULL), TP_STATUS_INVALID_ARGUMENT, "empty");
    CHECK_FAILS(tp_trace_write(trace, TP_STR("a\0b"), NULL), TP_STATUS_INVALID_ARGUMENT, "NUL");
    CHECK_FAILS(tp_trace_write(trace, TP_STR("/no such folder/x.json"), NULL), TP_STATUS_IO, "/no such folder/x.json");
    CHECK_FAILS(tp_trace_write(trace, TP_STR("/"), NULL), TP_STATUS_INVALID_ARGUMENT, "folder");
    CHECK_FAILS(tp_trace_write(trace, TP_STR("/dev/full"), NULL), TP_STATUS_IO, "/dev/full");
    tp_write_options write = TP_INIT(tp_write_options);
    write.format = 3;
    CHECK_FAILS(tp_trace_write(trace, tp_cstr(argv[1]), &write), TP_STATUS_INVALID_ARGUMENT, "format 3");
    write.format = 0;
    write.level = 10;
    CHECK_FAILS(tp_trace_write(trace, tp_cstr(argv[1]), &write), TP_STATUS_INVALID_ARGUMENT, "level 10");
    write.level = 0;
    write.compression = -1;
    CHECK_FAILS(tp_trace_write(trace, tp_cstr(argv[1]), &write), TP_STATUS_INVALID_ARGUMENT, "compression -1");
    write.compression = 0;
    write.threads = UINT32_MAX;
    write.progress = cancel;
    CHECK_FAILS(tp_trace_write(trace, tp_cstr(argv[1]), &write), TP_STATUS_CANCELLED, "cancel");
    CHECK_FAILS(tp_trace_write_to(trace, NULL, NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "output is NULL");
    int calls = 0;
    CHECK_FAILS(tp_trace_write_to(trace, refuse, &calls, NULL), TP_STATUS_CALLBACK, "42");
    CHECK(calls == 1);

    /* After all this it writes both formats, on as many threads as it likes. */
    write.progress = NULL;
    write.format = TP_FORMAT_TORCH;
    CHECK(tp_trace_write(trace, tp_cstr(argv[1]), &write) == TP_STATUS_OK);
    CHECK(tp_trace_write(trace, tp_cstr(argv[2]), NULL) == TP_STATUS_OK);

    /* The message is cut to the buffer, and measured whole. */
    char small[5] = "xxxx";
    CHECK(tp_trace_write(trace, TP_STR(""), NULL) != TP_STATUS_OK);
    size_t whole = tp_last_error_message(NULL, 0);
    CHECK(whole > 5 && tp_last_error_message(small, sizeof small) == whole && strlen(small) == 4);
    CHECK(strcmp(tp_status_name(-3), "unknown status") == 0);
    tp_trace_free(trace);
    return 0;
}
