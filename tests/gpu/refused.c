/* Asks the real CUPTI to collect with a driver that is none: it must be refused, and the trace go on. */
#include "check.h"

int main(int argc, char **argv) {
    CHECK(argc == 3);
    tp_gpu_libraries libraries = TP_INIT(tp_gpu_libraries);
    tp_gpu_options options = TP_INIT(tp_gpu_options);
    tp_trace *trace = NULL;
    libraries.libcuda = tp_cstr(argv[1]);
    libraries.libcupti = tp_cstr(argv[2]);
    options.libraries = &libraries;
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    for (int round = 0; round < 2; round++) {
        tp_status status = tp_gpu_start(trace, &options);
        CHECK(status == TP_STATUS_GPU_UNAVAILABLE || status == TP_STATUS_GPU_FAILED);
        puts(last_message());
        tp_op op = TP_INIT(tp_op);
        CHECK(tp_trace_add_op(trace, &op, NULL) == TP_STATUS_OK);
    }
    tp_trace_free(trace);
    return 0;
}
