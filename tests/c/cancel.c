/* Threads that are cancelled while they write, wait and end: they end after the call, and the process goes on. */
#include <pthread.h>
#include <unistd.h>

#include "check.h"

static tp_trace *trace;
static tp_name name;
static char **files;

static void *wait_for_the_system(void *unused) {
    (void)unused;
    for (;;) {
        CHECK(tp_span_begin(trace, name) == TP_STATUS_OK);
        CHECK(tp_span_end(trace) == TP_STATUS_OK);
        CHECK(tp_trace_write(trace, tp_cstr(files[1]), NULL) == TP_STATUS_OK);
        tp_trace_options options = TP_INIT(tp_trace_options);
        options.journal = tp_cstr(files[2]);
        tp_trace *other = NULL;
        CHECK(tp_trace_new(&options, &other) == TP_STATUS_OK);
        tp_trace_free(other);
        pthread_testcancel();
    }
    return NULL;
}

static void *end_at_once(void *unused) {
    (void)unused;
    CHECK(tp_span_begin(trace, name) == TP_STATUS_OK);
    return NULL;
}

static void start_and_cancel(void *(*run)(void *), int after_us) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, NULL) == 0);
    if (after_us > 0) usleep((unsigned)after_us);
    pthread_cancel(thread);
    CHECK(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    files = argv;
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    CHECK(tp_name_new(TP_STR("span"), TP_STR(""), &name) == TP_STATUS_OK);
    for (int round = 0; round < 30; round++)
        start_and_cancel(wait_for_the_system, 500 + 50 * round);
    for (int round = 0; round < 1000; round++)
        start_and_cancel(end_at_once, round % 100);
    CHECK(tp_trace_write(trace, tp_cstr(argv[1]), NULL) == TP_STATUS_OK);
    tp_trace_free(trace);
    return 0;
}
