/* Asking for GPUs where there is no driver: named files that are not there make that sure on any machine. With two more
 * arguments, a fake libcuda and a fake libcupti: what a forked child is told. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static tp_gpu_libraries nowhere(void) {
    tp_gpu_libraries libraries = TP_INIT(tp_gpu_libraries);
    libraries.libcuda = TP_STR("/nowhere/libcuda.so.1");
    return libraries;
}

static void without_a_driver(const char *path) {
    tp_gpu_libraries libraries = nowhere();
    tp_str folders[] = {TP_STR("/nowhere/site-packages"), TP_STR("/elsewhere")};
    libraries.search_paths = folders;
    libraries.search_path_count = 2;
    tp_gpu_facts facts = TP_INIT(tp_gpu_facts);
    CHECK(tp_gpu_info(&libraries, &facts) == TP_STATUS_OK);
    CHECK(facts.size == sizeof facts && facts.state == TP_GPU_STATE_NO_DRIVER && facts.driver_code == -1);
    CHECK(facts.device_count == 0 && facts.driver_version == 0 && facts.runtime_version == 0 && facts.cupti_version == 0);

    char text[4096], cut[8];
    size_t length = 0, again = 0;
    CHECK(tp_gpu_info_text(&libraries, text, sizeof text, &length) == TP_STATUS_OK);
    CHECK(length == strlen(text) && strstr(text, "no driver") != NULL && strstr(text, "/nowhere/libcuda.so.1") != NULL);
    CHECK(tp_gpu_info_text(&libraries, cut, sizeof cut, &again) == TP_STATUS_OK);
    CHECK(again == length && strlen(cut) == 7 && strncmp(cut, text, 7) == 0);
    CHECK(tp_gpu_info_text(&libraries, NULL, 0, &again) == TP_STATUS_OK && again == length);
    CHECK(tp_gpu_info_text(&libraries, text, sizeof text, NULL) == TP_STATUS_OK);
    CHECK(tp_gpu_info_json(&libraries, text, sizeof text, &length) == TP_STATUS_OK);
    CHECK(length == strlen(text) && text[0] == '{' && strstr(text, "\"ready\":false") != NULL);

    tp_trace *trace = NULL;
    tp_write_options options = TP_INIT(tp_write_options);
    options.format = TP_FORMAT_TORCH;
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    CHECK(tp_trace_set_gpu_info(trace, &libraries) == TP_STATUS_OK);
    CHECK(tp_trace_write(trace, tp_cstr(path), &options) == TP_STATUS_OK);
    tp_trace_free(trace);
}

static void bad_arguments(void) {
    tp_gpu_libraries libraries = nowhere();
    tp_gpu_facts facts = TP_INIT(tp_gpu_facts);
    char text[64];
    CHECK_FAILS(tp_gpu_info(&libraries, NULL), TP_STATUS_INVALID_ARGUMENT, "NULL");
    facts.size = 8;
    CHECK_FAILS(tp_gpu_info(&libraries, &facts), TP_STATUS_INVALID_ARGUMENT, "tp_gpu_facts.size");
    CHECK_FAILS(tp_gpu_info_text(&libraries, NULL, 5, NULL), TP_STATUS_INVALID_ARGUMENT, "buffer");
    libraries.libcupti.len = 3;
    CHECK_FAILS(tp_gpu_info_json(&libraries, text, sizeof text, NULL), TP_STATUS_INVALID_ARGUMENT, "libcupti");
    libraries = nowhere();
    libraries.libcuda.len = 0;
    libraries.search_path_count = 1;
    CHECK_FAILS(tp_gpu_info_json(&libraries, text, sizeof text, NULL), TP_STATUS_INVALID_ARGUMENT, "search_paths");
    libraries = nowhere();
    libraries.size = 8;
    CHECK_FAILS(tp_gpu_info_json(&libraries, text, sizeof text, NULL), TP_STATUS_INVALID_ARGUMENT, "tp_gpu_libraries");
    CHECK_FAILS(tp_trace_set_gpu_info(NULL, NULL), TP_STATUS_UNAVAILABLE, "NULL");

    /* A caller of a later version, with a member that is not set, and with one that is. */
    struct {
        tp_gpu_libraries known;
        const void *later;
    } future = {nowhere(), NULL};
    future.known.size = sizeof future;
    facts = TP_INIT(tp_gpu_facts);
    CHECK(tp_gpu_info(&future.known, &facts) == TP_STATUS_OK);
    future.later = text;
    CHECK_FAILS(tp_gpu_info(&future.known, &facts), TP_STATUS_UNSUPPORTED, "tp_gpu_libraries");
}

static void forked(const char *libcuda, const char *libcupti) {
    tp_gpu_libraries libraries = TP_INIT(tp_gpu_libraries);
    tp_gpu_facts facts = TP_INIT(tp_gpu_facts);
    char text[4096];
    libraries.libcuda = tp_cstr(libcuda);
    libraries.libcupti = tp_cstr(libcupti);
    /* A trace alone starts nothing: the child may use CUDA. */
    tp_trace *trace = NULL;
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    for (int round = 0; round < 2; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(tp_gpu_info(&libraries, &facts) == TP_STATUS_OK);
            CHECK(facts.state == (round == 0 ? TP_GPU_STATE_READY : TP_GPU_STATE_FORKED));
            CHECK(tp_gpu_info_text(&libraries, text, sizeof text, NULL) == TP_STATUS_OK);
            CHECK((strstr(text, "spawn") != NULL) == (round == 1));
            _exit(0);
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        CHECK(tp_gpu_info(&libraries, &facts) == TP_STATUS_OK);
        CHECK(facts.state == TP_GPU_STATE_READY && facts.device_count == 2 && facts.driver_code == 0);
        CHECK(facts.driver_version == 13050 && facts.cupti_version == 28);
    }
    tp_trace_free(trace);
}

static tp_gpu_libraries found;
static tp_trace *collected;
static atomic_int stop;

static void *collect(void *unused) {
    tp_gpu_options options = TP_INIT(tp_gpu_options);
    (void)unused;
    options.libraries = &found;
    while (!atomic_load(&stop)) {
        tp_gpu_report report = TP_INIT(tp_gpu_report);
        CHECK(tp_gpu_start(collected, &options) == TP_STATUS_OK);
        CHECK(tp_gpu_push_op(collected, 1) == TP_STATUS_OK && tp_gpu_pop_op(collected) == TP_STATUS_OK);
        CHECK(tp_gpu_stop(collected, &report, NULL, NULL) == TP_STATUS_OK);
        CHECK(report.collections == 1 && report.warnings == 1); /* nothing was seen */
    }
    return NULL;
}

/* Forks while another thread starts, collects and stops: no child hangs, whatever that thread held. */
static void forked_while_collecting(const char *libcuda, const char *libcupti) {
    tp_gpu_options options = TP_INIT(tp_gpu_options);
    found = TP_INIT(tp_gpu_libraries);
    found.libcuda = tp_cstr(libcuda);
    found.libcupti = tp_cstr(libcupti);
    options.libraries = &found;
    CHECK(tp_trace_new(NULL, &collected) == TP_STATUS_OK);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, collect, NULL) == 0);
    for (int round = 0; round < 50; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            alarm(20); /* a hang ends in a signal, which the parent sees */
            CHECK_FAILS(tp_gpu_start(collected, &options), TP_STATUS_FORKED, "fork");
            CHECK_FAILS(tp_gpu_stop(collected, NULL, NULL, NULL), TP_STATUS_FORKED, "fork");
            CHECK_FAILS(tp_gpu_push_op(collected, 1), TP_STATUS_FORKED, "fork");
            CHECK_FAILS(tp_gpu_pop_op(collected), TP_STATUS_FORKED, "fork");
            tp_trace_free(collected);
            tp_trace *own = NULL;
            CHECK(tp_trace_new(NULL, &own) == TP_STATUS_OK);
            CHECK_FAILS(tp_gpu_start(own, &options), TP_STATUS_GPU_UNAVAILABLE, "spawn");
            CHECK(tp_gpu_push_op(own, 1) == TP_STATUS_OK && tp_gpu_pop_op(own) == TP_STATUS_OK);
            tp_trace_free(own);
            exit(0); /* with the exit handlers of the parent's libraries */
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    atomic_store(&stop, 1);
    CHECK(pthread_join(thread, NULL) == 0);
    tp_trace_free(collected);
}

static void no_collection(void) {
    tp_gpu_libraries libraries = nowhere();
    tp_gpu_options options = TP_INIT(tp_gpu_options);
    tp_gpu_report report = TP_INIT(tp_gpu_report);
    tp_trace *trace = NULL;
    options.libraries = &libraries;
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    CHECK_FAILS(tp_gpu_start(trace, &options), TP_STATUS_GPU_UNAVAILABLE, "no driver");
    CHECK_FAILS(tp_gpu_stop(trace, &report, NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "start it first");
    CHECK(tp_gpu_push_op(trace, 5) == TP_STATUS_OK && tp_gpu_pop_op(trace) == TP_STATUS_OK);
    CHECK(tp_gpu_pop_op(trace) == TP_STATUS_OK);
    report.size = 3;
    CHECK_FAILS(tp_gpu_stop(trace, &report, NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "tp_gpu_report.size");
    options.flags = 1u << 9;
    CHECK_FAILS(tp_gpu_start(trace, &options), TP_STATUS_INVALID_ARGUMENT, "flags");
    options = TP_INIT(tp_gpu_options);
    options.libraries = &libraries;
    options.kinds = 1u << 20;
    CHECK_FAILS(tp_gpu_start(trace, &options), TP_STATUS_INVALID_ARGUMENT, "kinds");
    options.kinds = TP_GPU_COLLECT_KERNEL;
    options.buffer_bytes = 12;
    CHECK_FAILS(tp_gpu_start(trace, &options), TP_STATUS_INVALID_ARGUMENT, "buffers of 12 bytes");
    options.buffer_bytes = UINT64_MAX;
    CHECK_FAILS(tp_gpu_start(trace, &options), TP_STATUS_INVALID_ARGUMENT, "buffer_bytes");
    options.buffer_bytes = 1u << 20;
    options.cap_bytes = 1u << 20;
    CHECK_FAILS(tp_gpu_start(trace, &options), TP_STATUS_INVALID_ARGUMENT, "two must fit");
    tp_trace_free(trace);
    CHECK_FAILS(tp_gpu_start(NULL, NULL), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_gpu_stop(NULL, NULL, NULL, NULL), TP_STATUS_UNAVAILABLE, "NULL");
    CHECK_FAILS(tp_gpu_push_op(NULL, 0), TP_STATUS_UNAVAILABLE, "NULL");
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    without_a_driver(argv[2]);
    bad_arguments();
    no_collection();
    if (argc == 5) {
        forked(argv[3], argv[4]);
        forked_while_collecting(argv[3], argv[4]);
    }
    return 0;
}
