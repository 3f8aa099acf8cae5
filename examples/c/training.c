/* A made-up training run of two ranks, with everything in it that a profiler or a framework records: docs/guide-c.md.
 *
 *     cc -pthread training.c -I include -L target/release -ltptrace -Wl,-rpath,$PWD/target/release -o training
 *     ./training run
 *
 * Rank 0 writes its trace in three formats. Rank 1 is killed in its last step; its trace comes from its journal. Both
 * become one. A flight recorder keeps the last of many requests. The folder `run` is made, and may be there.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer.h"

enum { RANKS = 2, STEPS = 4, LAYERS = 2, ROWS = 32, REQUESTS = 40000 };

/* Names are interned once, for the whole process. */
static tp_name load_batch, batch_flow, forward, backward, save, checkpoint, loss, request, key_step, key_rows;

static const char *folder;
static char paths[4][4096];

/* Says what failed, in the library's words. The message is this thread's own. */
static int failed(tp_status status, const char *what) {
    if (status == TP_STATUS_OK) return 0;
    char message[512];
    tp_last_error_message(message, sizeof message);
    fprintf(stderr, "%s: %s: %s\n", what, tp_status_name(status), message);
    return 1;
}

/* For what the program cannot do without. */
static void must(tp_status status, const char *what) {
    if (failed(status, what)) exit(1);
}

static tp_str path_of(int slot, const char *name) {
    snprintf(paths[slot], sizeof paths[slot], "%s/%s", folder, name);
    return tp_cstr(paths[slot]);
}

static tp_name name_of(tp_str text, tp_str category) {
    tp_name name = 0;
    must(tp_name_new(text, category, &name), "tp_name_new");
    return name;
}

static void intern_names(void) {
    load_batch = name_of(TP_STR("load batch"), TP_STR("dataloader"));
    batch_flow = name_of(TP_STR("batch"), TP_STR("dataloader"));
    forward = name_of(TP_STR("forward"), TP_STR("train"));
    backward = name_of(TP_STR("backward"), TP_STR("train"));
    save = name_of(TP_STR("write checkpoint"), TP_STR("io"));
    checkpoint = name_of(TP_STR("checkpoint"), TP_STR("io"));
    loss = name_of(TP_STR("loss"), TP_STR("train"));
    request = name_of(TP_STR("request"), TP_STR("server"));
    key_step = name_of(TP_STR("step"), TP_STR("")); /* keys of arguments are names too */
    key_rows = name_of(TP_STR("rows"), TP_STR(""));
}

static void compute(int rounds) {
    volatile double sum = 0; /* done also where the compiler optimises */
    for (int i = 1; i <= rounds * 1000; i++) sum = sum + 1.0 / i;
}

/* The loader: a thread of its own, one batch ahead of the trainer. */
struct queue {
    tp_trace *trace;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int loaded, taken;
};

static void *load(void *data) {
    struct queue *queue = data;
    pthread_setname_np(pthread_self(), "loader"); /* the lane is called as the system calls the thread */
    for (int step = 0; step < STEPS; step++) {
        tp_span_begin(queue->trace, load_batch);
        tp_span_arg_int(queue->trace, key_step, step);
        compute(100);
        /* The arrow starts at the span that is open here, and ends at the step that takes the batch. */
        tp_record_flow(queue->trace, batch_flow, TP_FLOW_START, (uint64_t)step);
        tp_span_end(queue->trace);
        pthread_mutex_lock(&queue->lock);
        while (queue->loaded > queue->taken) pthread_cond_wait(&queue->changed, &queue->lock);
        queue->loaded++;
        pthread_cond_broadcast(&queue->changed);
        pthread_mutex_unlock(&queue->lock);
    }
    return NULL;
}

static void take(struct queue *queue) {
    pthread_mutex_lock(&queue->lock);
    while (queue->loaded == queue->taken) pthread_cond_wait(&queue->changed, &queue->lock);
    queue->taken++;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

/* Writes a checkpoint: an async span that began on the trainer's thread ends on this one. */
static void *write_checkpoint(void *data) {
    tp_trace *trace = data;
    pthread_setname_np(pthread_self(), "saver");
    tp_span_begin(trace, save);
    compute(200);
    tp_span_end(trace);
    tp_record_async(trace, checkpoint, TP_ASYNC_END, 1);
    return NULL;
}

/* What a framework's own profiler has after a step: ops and GPU work with given times. */
static void add_layer(tp_trace *trace, int step, int layer, int64_t start, int64_t end, int64_t *stream_free) {
    static const tp_str names[LAYERS] = {{"linear", 6}, {"gelu", 4}}, kernels[LAYERS] = {{"gemm", 4}, {"gelu_kernel", 11}};
    const uint64_t thread = (uint64_t)syscall(SYS_gettid); /* the number that live spans go by */
    const uint64_t correlation = (uint64_t)(step * LAYERS + layer + 1);
    const uint32_t ranks[] = {2, 2};
    const int64_t dims[] = {ROWS, 1024, 1024, 1024}; /* both inputs, one after the other */
    const tp_str dtypes[] = {TP_STR("float"), TP_STR("float")};
    const tp_arg arg = {TP_STR("layer"), TP_ARG_INT, 0, layer, 0, {NULL, 0}};

    tp_op op = TP_INIT(tp_op);
    op.name = names[layer];
    op.start_ns = start;
    op.end_ns = end;
    op.thread_id = thread;
    op.input_count = 2;
    op.ranks = ranks;
    op.dims = dims;
    op.dtype_names = dtypes;
    op.args = &arg;
    op.arg_count = 1;
    uint64_t id;
    must(tp_trace_add_op(trace, &op, &id), "tp_trace_add_op");

    /* The call that launched the kernel, and the kernel on its stream: one correlation id, and the op's id in both. */
    const int64_t third = (end - start) / 3;
    tp_gpu_activity call = TP_INIT(tp_gpu_activity);
    call.kind = TP_GPU_KIND_RUNTIME;
    call.name = TP_STR("cudaLaunchKernel");
    call.start_ns = start + third;
    call.end_ns = start + 2 * third;
    call.os_thread = thread;
    call.correlation_id = correlation;
    call.flags = TP_GPU_HAS_EXTERNAL_ID;
    call.external_id = id;

    tp_gpu_activity kernel = TP_INIT(tp_gpu_activity);
    kernel.kind = TP_GPU_KIND_KERNEL;
    kernel.name = kernels[layer];
    kernel.start_ns = call.end_ns > *stream_free ? call.end_ns : *stream_free;
    kernel.end_ns = *stream_free = kernel.start_ns + third;
    kernel.device = 0;
    kernel.stream = 7;
    kernel.correlation_id = correlation;
    kernel.flags = TP_GPU_HAS_EXTERNAL_ID | TP_GPU_HAS_GRID | TP_GPU_HAS_BLOCK;
    kernel.external_id = id;
    kernel.grid_x = ROWS, kernel.grid_y = kernel.grid_z = 1;
    kernel.block_x = 256, kernel.block_y = kernel.block_z = 1;

    const tp_gpu_activity both[] = {call, kernel};
    must(tp_trace_add_gpus(trace, both, 2, sizeof both[0]), "tp_trace_add_gpus");
}

static void train_step(tp_trace *trace, int step, int killed) {
    int64_t starts[LAYERS], ends[LAYERS];
    static int64_t stream_free;

    tp_span_begin(trace, forward);
    tp_span_arg_int(trace, key_rows, ROWS);
    compute(50);
    if (killed) {
        tp_trace_sync_journal(trace); /* it happens by itself within a second; this example does not wait */
        raise(SIGKILL);
    }
    for (int layer = 0; layer < LAYERS; layer++) {
        starts[layer] = tp_now_ns();
        compute(100);
        ends[layer] = tp_now_ns();
        compute(20);
    }
    tp_span_end(trace);

    tp_span_begin(trace, backward);
    compute(200);
    tp_span_end(trace);
    tp_record_counter(trace, loss, 1.0 / (step + 1));

    for (int layer = 0; layer < LAYERS; layer++)
        add_layer(trace, step, layer, starts[layer], ends[layer], &stream_free);

    /* A counter with two series, at a given time. */
    const tp_arg values[] = {{TP_STR("allocated"), TP_ARG_INT, 0, (step + 1) << 20, 0, {NULL, 0}},
                             {TP_STR("reserved"), TP_ARG_INT, 0, 8 << 20, 0, {NULL, 0}}};
    tp_counter memory = TP_INIT(tp_counter);
    memory.name = TP_STR("memory");
    memory.time_ns = ends[LAYERS - 1];
    memory.values = values;
    memory.value_count = 2;
    must(tp_trace_add_counter(trace, &memory), "tp_trace_add_counter");
}

/* One rank: a process of its own. */
static void train(int rank) {
    char name[32];
    snprintf(name, sizeof name, "rank%d.journal", rank);
    tp_trace_options options = TP_INIT(tp_trace_options);
    options.process_name = TP_STR("trainer");
    options.journal = path_of(0, name);
    tp_trace *trace = NULL;
    must(tp_trace_new(&options, &trace), "tp_trace_new");
    must(tp_trace_set_rank(trace, rank, RANKS), "tp_trace_set_rank");
    must(tp_trace_set_thread_name(trace, (uint64_t)syscall(SYS_gettid), TP_STR("trainer")), "tp_trace_set_thread_name");

    struct queue queue = {trace, PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 0, 0};
    pthread_t loader, saver;
    pthread_create(&loader, NULL, load, &queue);
    for (int step = 0; step < STEPS; step++) {
        /* A name that is made up at run time; HTA and TensorBoard know steps by it. */
        snprintf(name, sizeof name, "ProfilerStep#%d", step);
        tp_span_begin_text(trace, tp_cstr(name), TP_STR(""));
        tp_span_arg_int(trace, key_step, step);
        take(&queue);
        tp_record_flow(trace, batch_flow, TP_FLOW_END, (uint64_t)step);
        train_step(trace, step, rank == 1 && step == STEPS - 1);
        if (step == 1) {
            tp_record_async(trace, checkpoint, TP_ASYNC_BEGIN, 1);
            pthread_create(&saver, NULL, write_checkpoint, trace);
        }
        if (step == 2) pthread_join(saver, NULL);
        tp_span_end(trace);
    }
    pthread_join(loader, NULL);

    tp_counts counts = TP_INIT(tp_counts);
    must(tp_trace_counts(trace, &counts), "tp_trace_counts");
    printf("rank %d: %llu ops, %llu GPU activities, %llu dropped\n", rank, (unsigned long long)counts.ops,
           (unsigned long long)counts.gpu_activities, (unsigned long long)(counts.dropped + counts.record_dropped));

    must(tp_trace_write(trace, path_of(0, "rank0.json.gz"), NULL), "the plain trace"); /* gzip by its name */
    tp_write_options write = TP_INIT(tp_write_options);
    write.format = TP_FORMAT_TORCH;
    must(tp_trace_write(trace, path_of(0, "rank0.pt.trace.json.gz"), &write), "the torch trace");
    write.format = TP_FORMAT_PERFETTO;
    must(tp_trace_write(trace, path_of(0, "rank0.pftrace"), &write), "Perfetto's trace");
    tp_trace_free(trace); /* it was written, so the journal goes too */
}

/* A mebibyte for the last of many requests; written when one of them is too slow. */
static void keep_the_last(void) {
    tp_trace_options options = TP_INIT(tp_trace_options);
    options.record_bytes = 1 << 20;
    options.record_full = TP_RECORD_KEEP_RECENT;
    tp_trace *trace = NULL;
    must(tp_trace_new(&options, &trace), "tp_trace_new");
    /* Volatile, since another thread may switch the category at any time. */
    const volatile uint8_t *server = tp_category_flag(TP_STR("server"));
    for (int number = 0; number < REQUESTS; number++) {
        const int recorded = *server; /* looked at once for both calls: a begin must have its end */
        if (recorded) {
            tp_span_begin(trace, request);
            tp_span_arg_int(trace, key_step, number);
        }
        if (recorded) tp_span_end(trace);
    }
    /* A failure says why and leaves the trace as it was: the program goes on. */
    if (failed(tp_trace_write(trace, path_of(0, "no/such/folder/recent.json.gz"), NULL), "the last requests"))
        must(tp_trace_write(trace, path_of(0, "recent.json.gz"), NULL), "the last requests");
    tp_trace_free(trace);
}

static void warn(tp_str message, void *data) {
    (void)data;
    fprintf(stderr, "merge: %.*s\n", (int)message.len, message.ptr);
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : "run";
    if (mkdir(folder, 0777) != 0 && errno != EEXIST) return perror(folder), 1;
    intern_names();

    /* Each child makes a trace of its own. One that was made before the fork would answer TP_STATUS_FORKED there. */
    int ended[RANKS];
    for (int rank = 0; rank < RANKS; rank++) {
        fflush(stdout);
        const pid_t child = fork();
        if (child < 0) return perror("fork"), 1;
        if (child == 0) {
            train(rank);
            exit(0);
        }
        waitpid(child, &ended[rank], 0);
    }
    if (!WIFEXITED(ended[0]) || WEXITSTATUS(ended[0]) != 0) return 1;

    const tp_str journal = path_of(0, "rank1.journal"), recovered = path_of(1, "rank1.pt.trace.json.gz");
    if (WIFSIGNALED(ended[1])) {
        tp_write_options write = TP_INIT(tp_write_options);
        write.format = TP_FORMAT_TORCH;
        tp_recover_report report = TP_INIT(tp_recover_report);
        must(tp_recover(journal, recovered, &write, &report), "tp_recover");
        printf("rank 1: killed; %llu events recovered, %llu of them unfinished spans\n",
               (unsigned long long)report.events, (unsigned long long)report.unfinished);
        unlink(journal.ptr);
    }

    const tp_str ranks[] = {path_of(2, "rank0.pt.trace.json.gz"), recovered};
    tp_merge_options merge = TP_INIT(tp_merge_options);
    merge.warn = warn;
    tp_merge_report report = TP_INIT(tp_merge_report);
    must(tp_trace_merge(ranks, RANKS, path_of(3, "merged.pt.trace.json.gz"), &merge, &report), "tp_trace_merge");
    printf("merged: %llu events%s\n", (unsigned long long)report.events, report.aligned ? " on one clock" : "");

    keep_the_last();
    return 0;
}
