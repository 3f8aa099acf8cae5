/* Threads add to one trace while others write it; nothing is lost. */
#include <pthread.h>

#include "check.h"

enum { THREADS = 4, EVENTS = 3000 };

static tp_trace *trace;

static void *add(void *number) {
    uint64_t thread = *(uint64_t *)number;
    char name[32];
    for (int i = 0; i < EVENTS; i++) {
        snprintf(name, sizeof name, "op %d", i % 100);
        tp_op op = TP_INIT(tp_op);
        op.name = tp_cstr(name);
        op.start_ns = i * 10;
        op.end_ns = i * 10 + 5;
        op.thread_id = thread;
        CHECK(tp_trace_add_op(trace, &op, NULL) == TP_STATUS_OK);
        tp_gpu_activity gpus[2] = {TP_INIT(tp_gpu_activity), TP_INIT(tp_gpu_activity)};
        gpus[0].kind = TP_GPU_KIND_RUNTIME;
        gpus[0].os_thread = thread;
        gpus[0].start_ns = gpus[1].start_ns = i * 10;
        gpus[0].end_ns = gpus[1].end_ns = i * 10 + 3;
        gpus[0].correlation_id = gpus[1].correlation_id = thread * EVENTS + (uint64_t)i;
        gpus[1].stream = (uint32_t)thread;
        CHECK(tp_trace_add_gpus(trace, gpus, 2, sizeof gpus[0]) == TP_STATUS_OK);
    }
    return NULL;
}

static int32_t count(const uint8_t *bytes, size_t len, void *total) {
    (void)bytes;
    *(size_t *)total += len;
    return 0;
}

static void *write_often(void *unused) {
    (void)unused;
    for (int i = 0; i < 10; i++) {
        size_t total = 0;
        tp_write_options options = TP_INIT(tp_write_options);
        options.format = i % 2;
        options.compression = TP_COMPRESSION_GZIP;
        CHECK(tp_trace_write_to(trace, count, &total, &options) == TP_STATUS_OK);
        CHECK(total > 0);
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    pthread_t adders[THREADS], writers[2];
    uint64_t numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = (uint64_t)i;
        CHECK(pthread_create(&adders[i], NULL, add, &numbers[i]) == 0);
    }
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&writers[i], NULL, write_often, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(adders[i], NULL) == 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_join(writers[i], NULL) == 0);
    tp_counts counts = TP_INIT(tp_counts);
    CHECK(tp_trace_counts(trace, &counts) == TP_STATUS_OK);
    CHECK(counts.ops == THREADS * EVENTS && counts.gpu_activities == 2 * THREADS * EVENTS);
    CHECK(tp_trace_write(trace, tp_cstr(argv[1]), NULL) == TP_STATUS_OK);
    tp_trace_free(trace);
    return 0;
}
