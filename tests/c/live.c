/* Live recording from C: threads, a signal handler, a fork, a trace that is freed under a thread, and misuse. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static tp_trace *trace;
static tp_name outer, inner, tick, key;
static atomic_int ticks, stop;

static tp_name name_of(const char *text, const char *category) {
    tp_name name = 0;
    CHECK(tp_name_new(tp_cstr(text), tp_cstr(category), &name) == TP_STATUS_OK && name != 0);
    return name;
}

static void on_tick(int number) {
    (void)number;
    const tp_status status = tp_record_instant(trace, tick);
    if (status == TP_STATUS_OK) atomic_fetch_add(&ticks, 1);
}

static void *spans(void *unused) {
    (void)unused;
    for (int i = 0; i < 2000; i++) {
        CHECK(tp_span_begin(trace, outer) == TP_STATUS_OK);
        CHECK(tp_span_arg_int(trace, key, i) == TP_STATUS_OK);
        CHECK(tp_span_begin(trace, inner) == TP_STATUS_OK);
        CHECK(tp_span_end(trace) == TP_STATUS_OK);
        CHECK(tp_span_end(trace) == TP_STATUS_OK);
    }
    return NULL;
}

/* Records into a trace that is freed meanwhile, and on after that. */
static void *late(void *given) {
    tp_trace *freed = given;
    while (!atomic_load(&stop)) {
        const tp_status status = tp_span_begin(freed, inner);
        CHECK(status == TP_STATUS_OK || status == TP_STATUS_UNAVAILABLE || status == TP_STATUS_LIMIT);
        (void)tp_span_end(freed);
    }
    CHECK(tp_span_begin(freed, inner) == TP_STATUS_UNAVAILABLE);
    /* Its next trace sweeps up what it has of the old one. */
    CHECK(tp_record_instant(trace, tick) == TP_STATUS_OK);
    atomic_fetch_add(&ticks, 1);
    return NULL;
}

static void in_a_signal_handler(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_tick;
    action.sa_flags = SA_RESTART;
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    const struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int i = 0; i < 20000; i++) {
        /* The handler may come in any of these, and in the allocator. */
        (void)tp_span_begin(trace, outer);
        free(malloc(64 + (size_t)i % 1000));
        (void)tp_span_end(trace);
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    outer = name_of("outer", "c");
    inner = name_of("inner", "c");
    tick = name_of("tick", "c");
    key = name_of("key", "");
    CHECK(name_of("outer", "c") == outer && name_of("outer", "other") != outer);

    pthread_t threads[4];
    for (int i = 0; i < 4; i++) CHECK(pthread_create(&threads[i], NULL, spans, NULL) == 0);
    for (int i = 0; i < 4; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    in_a_signal_handler();

    /* Freed under a thread, twice. */
    tp_trace *freed = NULL;
    CHECK(tp_trace_new(NULL, &freed) == TP_STATUS_OK);
    CHECK(pthread_create(&threads[0], NULL, late, freed) == 0);
    usleep(2000);
    tp_trace_free(freed);
    tp_trace_free(freed);
    usleep(1000);
    atomic_store(&stop, 1);
    CHECK(pthread_join(threads[0], NULL) == 0);
    tp_counts counts = TP_INIT(tp_counts);
    CHECK_FAILS(tp_trace_counts(freed, &counts), TP_STATUS_UNAVAILABLE, "was freed");

    /* Each misuse has its answer. */
    CHECK(tp_span_end(trace) == TP_STATUS_INVALID_ARGUMENT);
    CHECK(tp_span_arg_int(trace, key, 1) == TP_STATUS_INVALID_ARGUMENT);
    CHECK(tp_span_begin(trace, 0) == TP_STATUS_INVALID_ARGUMENT);
    CHECK(tp_span_begin(NULL, outer) == TP_STATUS_UNAVAILABLE && tp_span_end(NULL) == TP_STATUS_UNAVAILABLE);
    CHECK(tp_record_async(trace, outer, 3, 1) == TP_STATUS_INVALID_ARGUMENT);
    CHECK(tp_record_flow(trace, outer, -1, 1) == TP_STATUS_INVALID_ARGUMENT);
    CHECK_FAILS(tp_name_new(TP_STR("x"), TP_STR(""), NULL), TP_STATUS_INVALID_ARGUMENT, "out is NULL");

    /* Switched off: looked at without a call. */
    const volatile uint8_t *flag = tp_category_flag(TP_STR("c"));
    CHECK(flag != NULL && *flag != 0);
    CHECK(tp_category_enable(TP_STR("c"), 0) == TP_STATUS_OK && *flag == 0);
    CHECK(tp_span_begin(trace, outer) == TP_STATUS_OK && tp_span_end(trace) == TP_STATUS_OK);
    CHECK(tp_category_enable(TP_STR("c"), 1) == TP_STATUS_OK && *flag != 0);

    /* The others, once. */
    CHECK(tp_span_begin_text(trace, TP_STR("made up"), TP_STR("c")) == TP_STATUS_OK);
    CHECK(tp_span_arg_uint(trace, key, UINT64_MAX) == TP_STATUS_OK);
    CHECK(tp_span_arg_float(trace, name_of("float", ""), 0.5) == TP_STATUS_OK);
    CHECK(tp_span_arg_bool(trace, name_of("bool", ""), 7) == TP_STATUS_OK);
    CHECK(tp_span_arg_text(trace, name_of("text", ""), TP_STR("words")) == TP_STATUS_OK);
    CHECK(tp_record_flow(trace, outer, TP_FLOW_START, 5) == TP_STATUS_OK);
    CHECK(tp_record_counter(trace, name_of("queue", "c"), 3.5) == TP_STATUS_OK);
    CHECK(tp_record_async(trace, name_of("request", "c"), TP_ASYNC_BEGIN, 9) == TP_STATUS_OK);
    CHECK(tp_span_end(trace) == TP_STATUS_OK);
    const int64_t now = tp_now_ns();
    CHECK(tp_span_complete(trace, name_of("given", "c"), now, now + 1000) == TP_STATUS_OK);

    /* A child of a fork has traces of its own. */
    CHECK(tp_span_begin(trace, outer) == TP_STATUS_OK);
#ifdef __SANITIZE_ADDRESS__
    const pid_t child = -1; /* the sanitizer's allocator may hang in the child of a process that had threads */
#else
    const pid_t child = fork();
#endif
    if (child == 0) {
        tp_trace *own = NULL;
        const int fine = tp_span_begin(trace, outer) == TP_STATUS_FORKED && tp_trace_new(NULL, &own) == TP_STATUS_OK &&
                         tp_span_begin(own, outer) == TP_STATUS_OK && tp_span_end(own) == TP_STATUS_OK;
        _exit(fine ? 0 : 1);
    }
    int status = 1;
    CHECK(child == -1 || (waitpid(child, &status, 0) == child && status == 0));
    CHECK(tp_span_end(trace) == TP_STATUS_OK);

    CHECK(tp_trace_counts(trace, &counts) == TP_STATUS_OK);
    CHECK(counts.record_unmatched == 1);
    tp_write_options options = TP_INIT(tp_write_options);
    options.format = TP_FORMAT_TORCH;
    CHECK(tp_trace_write(trace, tp_cstr(argv[1]), &options) == TP_STATUS_OK);

    /* A flight recorder within its memory. */
    tp_trace_options limited = TP_INIT(tp_trace_options);
    limited.record_bytes = 256 << 10;
    limited.record_full = TP_RECORD_KEEP_RECENT;
    tp_trace *recent = NULL;
    CHECK(tp_trace_new(&limited, &recent) == TP_STATUS_OK);
    for (int i = 0; i < 100000; i++) {
        CHECK(tp_span_begin(recent, outer) == TP_STATUS_OK && tp_span_end(recent) == TP_STATUS_OK);
    }
    CHECK(tp_trace_write(recent, tp_cstr(argv[2]), NULL) == TP_STATUS_OK);
    CHECK(tp_trace_counts(recent, &counts) == TP_STATUS_OK && counts.record_overwritten > 0);
    tp_trace_free(recent);
    printf("%d\n", atomic_load(&ticks));
    tp_trace_free(trace);

    /* A journal: kept for a trace that was not written, and recovered. */
    char journal[4096], recovered[4096];
    snprintf(journal, sizeof(journal), "%s.journal", argv[2]);
    snprintf(recovered, sizeof(recovered), "%s.recovered", argv[2]);
    remove(journal);
    tp_trace_options kept = TP_INIT(tp_trace_options);
    kept.journal = tp_cstr(journal);
    tp_trace *journaled = NULL;
    CHECK(tp_trace_new(&kept, &journaled) == TP_STATUS_OK);
    CHECK(tp_span_begin(journaled, outer) == TP_STATUS_OK && tp_span_begin(journaled, outer) == TP_STATUS_OK);
    CHECK(tp_span_end(journaled) == TP_STATUS_OK);
    CHECK(tp_trace_sync_journal(journaled) == TP_STATUS_OK);
    CHECK(tp_trace_counts(journaled, &counts) == TP_STATUS_OK);
    CHECK(counts.journal_bytes > 18 && counts.journal_failures == 0);
    tp_trace *second = NULL;
    CHECK_FAILS(tp_trace_new(&kept, &second), TP_STATUS_INVALID_ARGUMENT, "tptrace recover");
    tp_trace_free(journaled);
    tp_recover_report report = TP_INIT(tp_recover_report);
    CHECK(tp_recover(kept.journal, tp_cstr(recovered), &options, &report) == TP_STATUS_OK);
    CHECK(report.events == 2 && report.unfinished == 1 && report.cut_bytes == 0);
    CHECK(tp_recover(kept.journal, tp_cstr(recovered), NULL, NULL) == TP_STATUS_OK);
    CHECK_FAILS(tp_recover(tp_cstr(recovered), tp_cstr(journal), NULL, NULL), TP_STATUS_MALFORMED, "not a journal");
    CHECK(remove(journal) == 0 && remove(recovered) == 0);
    CHECK(tp_trace_sync_journal(NULL) == TP_STATUS_UNAVAILABLE);
    limited.record_bytes = 1000;
    CHECK_FAILS(tp_trace_new(&limited, &recent), TP_STATUS_INVALID_ARGUMENT, "at least 65536");
    limited.record_bytes = 0;
    CHECK_FAILS(tp_trace_new(&limited, &recent), TP_STATUS_INVALID_ARGUMENT, "give record_bytes");
    limited.record_full = 2;
    CHECK_FAILS(tp_trace_new(&limited, &recent), TP_STATUS_INVALID_ARGUMENT, "record_full 2");
    return 0;
}
