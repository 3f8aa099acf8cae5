/* Records a little loop with the C ABI and writes it as a trace.
 *
 *     cc record.c -I include -L target/release -ltptrace -Wl,-rpath,$PWD/target/release -o record && ./record
 */
#include <stdio.h>
#include <stdlib.h>

#include "tracer.h"

/* Stops with the library's own words. */
static void must(tp_status status, const char *what) {
    if (status != TP_STATUS_OK) {
        char message[512];
        tp_last_error_message(message, sizeof message);
        fprintf(stderr, "%s: %s: %s\n", what, tp_status_name(status), message);
        exit(1);
    }
}

int main(int argc, char **argv) {
    const char *path = argc > 1 ? argv[1] : "record.json.gz";

    tp_trace *trace = NULL;
    must(tp_trace_new(NULL, &trace), "tp_trace_new");
    must(tp_trace_set_thread_name(trace, 1, TP_STR("main")), "tp_trace_set_thread_name");

    double sum = 0;
    for (int step = 0; step < 20; step++) {
        int64_t start = tp_now_ns();
        for (int i = 1; i < 200000; i++)
            sum += 1.0 / i;

        /* An op: a slice on a CPU thread, with the shape of its one input and an argument of our own. */
        uint32_t rank = 2;
        int64_t dims[] = {64, 128};
        int32_t dtype = 8; /* float32 */
        tp_arg step_arg = {TP_STR("step"), TP_ARG_INT, 0, step, 0, {NULL, 0}};
        tp_op op = TP_INIT(tp_op);
        op.name = TP_STR("harmonic");
        op.start_ns = start;
        op.end_ns = tp_now_ns();
        op.thread_id = 1;
        op.input_count = 1;
        op.ranks = &rank;
        op.dims = dims;
        op.dtypes = &dtype;
        op.call_site = TP_STR("record.c:31");
        op.args = &step_arg;
        op.arg_count = 1;
        must(tp_trace_add_op(trace, &op, NULL), "tp_trace_add_op");

        /* A counter: a line above the slices. */
        tp_arg value = {TP_STR("sum"), TP_ARG_FLOAT, 0, 0, sum, {NULL, 0}};
        tp_counter counter = TP_INIT(tp_counter);
        counter.name = TP_STR("sum so far");
        counter.time_ns = op.end_ns;
        counter.values = &value;
        counter.value_count = 1;
        must(tp_trace_add_counter(trace, &counter), "tp_trace_add_counter");
    }

    must(tp_trace_write(trace, tp_cstr(path), NULL), "tp_trace_write");
    tp_trace_free(trace);
    printf("%s: open it at https://ui.perfetto.dev\n", path);
    return 0;
}
