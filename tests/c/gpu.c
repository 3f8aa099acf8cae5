/* Asking for GPUs where there is no driver: named files that are not there make that sure on any machine. With two more
 * arguments, a fake libcuda and a fake libcupti: what a forked child is told. */
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

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    without_a_driver(argv[2]);
    bad_arguments();
    if (argc == 5) forked(argv[3], argv[4]);
    return 0;
}
