/* A process that forks while its threads add events, record live and make names: the child is told that the trace is its
 * parent's, makes its own, and neither hangs. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static tp_trace *trace;
static atomic_int stop;

static void *add(void *unused) {
    (void)unused;
    tp_op op = TP_INIT(tp_op);
    op.name = TP_STR("busy");
    while (!atomic_load(&stop)) {
        op.start_ns = tp_now_ns();
        op.end_ns = op.start_ns + 1;
        CHECK(tp_trace_add_op(trace, &op, NULL) == TP_STATUS_OK);
    }
    return NULL;
}

/* In little memory: the trace's lock is taken again and again. */
static tp_trace *recorder;

static void *record(void *unused) {
    (void)unused;
    char name[32];
    for (unsigned count = 0; !atomic_load(&stop); count++) {
        snprintf(name, sizeof name, "name %u", count % 100);
        CHECK(tp_span_begin_text(recorder, tp_cstr(name), TP_STR("")) == TP_STATUS_OK);
        CHECK(tp_span_end(recorder) == TP_STATUS_OK);
    }
    return NULL;
}

static void *fork_often(void *unused) {
    (void)unused;
    tp_name name = 0;
    CHECK(tp_name_new(TP_STR("parent"), TP_STR(""), &name) == TP_STATUS_OK);
    for (int round = 0; round < 100; round++) {
        CHECK(tp_span_begin(recorder, name) == TP_STATUS_OK);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(20);
            CHECK(tp_span_end(recorder) == TP_STATUS_FORKED);
            tp_trace *own = NULL;
            CHECK(tp_trace_new(NULL, &own) == TP_STATUS_OK);
            CHECK(tp_name_new(TP_STR("child"), TP_STR(""), &name) == TP_STATUS_OK);
            CHECK(tp_span_begin(own, name) == TP_STATUS_OK);
            CHECK(tp_span_end(own) == TP_STATUS_OK);
            tp_trace_free(own);
            return NULL; /* the end of the thread, and so of the process */
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK(tp_span_end(recorder) == TP_STATUS_OK);
    }
    return NULL;
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    tp_trace_options options = TP_INIT(tp_trace_options);
    options.record_bytes = 1 << 18;
    options.record_full = TP_RECORD_KEEP_RECENT;
    CHECK(tp_trace_new(&options, &recorder) == TP_STATUS_OK);
    pthread_t threads[2], forking;
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, add, NULL) == 0);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(20); /* a hang ends in a signal, which the parent sees */
            tp_op op = TP_INIT(tp_op);
            CHECK_FAILS(tp_trace_add_op(trace, &op, NULL), TP_STATUS_FORKED, "fork");
            CHECK_FAILS(tp_trace_write(trace, tp_cstr(argv[1]), NULL), TP_STATUS_FORKED, "fork");
            tp_trace_free(trace);
            tp_trace *own = NULL;
            CHECK(tp_trace_new(NULL, &own) == TP_STATUS_OK);
            CHECK(tp_trace_add_op(own, &op, NULL) == TP_STATUS_OK);
            CHECK(tp_trace_write(own, tp_cstr(argv[1]), NULL) == TP_STATUS_OK);
            tp_trace_free(own);
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&stop, 0);
    for (int i = 0; i < 2; i++)
        CHECK(pthread_create(&threads[i], NULL, record, NULL) == 0);
    CHECK(pthread_create(&forking, NULL, fork_often, NULL) == 0);
    pthread_join(forking, NULL);
    atomic_store(&stop, 1);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    tp_trace_free(recorder);
    CHECK(tp_trace_write(trace, tp_cstr(argv[1]), NULL) == TP_STATUS_OK);
    tp_trace_free(trace);
    return 0;
}
