/* Merging from C: two traces of this library's own, options, reports, and what goes wrong. */
#include "check.h"

static void write_rank(const char *path, int64_t rank) {
    tp_trace *trace = NULL;
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    CHECK(tp_trace_set_rank(trace, rank, 2) == TP_STATUS_OK);
    for (int i = 0; i < 100; i++) {
        tp_op op = TP_INIT(tp_op);
        op.name = TP_STR("op");
        op.start_ns = tp_now_ns();
        op.end_ns = op.start_ns + 1;
        CHECK(tp_trace_add_op(trace, &op, NULL) == TP_STATUS_OK);
    }
    tp_write_options options = TP_INIT(tp_write_options);
    options.format = TP_FORMAT_TORCH;
    CHECK(tp_trace_write(trace, tp_cstr(path), &options) == TP_STATUS_OK);
    tp_trace_free(trace);
}

static void warn(tp_str message, void *count) {
    CHECK(message.ptr != NULL && message.len > 0);
    ++*(int *)count;
}

static int32_t cancel(const tp_progress *progress, void *unused) {
    (void)progress, (void)unused;
    return 1;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    char first[4096], second[4096];
    snprintf(first, sizeof first, "%s.rank0", argv[1]);
    snprintf(second, sizeof second, "%s.rank1", argv[1]);
    write_rank(first, 0);
    write_rank(second, 1);
    tp_str paths[] = {tp_cstr(first), tp_cstr(second), TP_STR("/no such file")};

    /* The ranks share a clock: nothing to warn of. */
    tp_merge_report report = TP_INIT(tp_merge_report);
    CHECK(tp_trace_merge(paths, 2, tp_cstr(argv[2]), NULL, &report) == TP_STATUS_OK);
    CHECK(report.events > 200 && report.aligned == 1 && report.warnings == 0 && report.lost == 0);
    CHECK(report.bytes > 0 && report.written > 0);

    int warnings = 0;
    tp_merge_options options = TP_INIT(tp_merge_options);
    options.warn = warn;
    options.warn_data = &warnings;
    options.compression = TP_COMPRESSION_GZIP;
    options.level = 6;
    options.trace_name = TP_STR("merged");
    CHECK(tp_trace_merge(paths, 1, tp_cstr(argv[1]), &options, NULL) == TP_STATUS_OK); /* rank 1 is missing */
    paths[1] = paths[0];
    CHECK(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, &report) == TP_STATUS_OK); /* rank 0 twice, 1 missing */
    CHECK(report.warnings == 2);

    int64_t offsets[] = {5, -5};
    options.alignment = TP_ALIGN_OFFSETS;
    options.offsets_ns = offsets;
    options.offset_count = 2;
    CHECK(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, &report) == TP_STATUS_OK);
    CHECK(report.aligned == 1);
    CHECK_FAILS(tp_trace_merge(paths, 1, tp_cstr(argv[1]), &options, NULL), TP_STATUS_INVALID_ARGUMENT, "offsets");
    options.alignment = 4;
    CHECK_FAILS(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, NULL), TP_STATUS_INVALID_ARGUMENT, "alignment 4");
    options.alignment = TP_ALIGN_AUTO;
    options.flags = 8;
    CHECK_FAILS(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, NULL), TP_STATUS_INVALID_ARGUMENT, "unknown bits");
    options.flags = TP_MERGE_VERBATIM | TP_MERGE_FSYNC | TP_MERGE_SALVAGE;
    CHECK(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, NULL) == TP_STATUS_OK);
    options.progress = cancel;
    CHECK_FAILS(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, NULL), TP_STATUS_CANCELLED, "cancel");
    options.size = 8;
    CHECK_FAILS(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, NULL), TP_STATUS_INVALID_ARGUMENT, "size");

    CHECK_FAILS(tp_trace_merge(paths, 3, tp_cstr(argv[2]), NULL, NULL), TP_STATUS_IO, "/no such file");
    CHECK_FAILS(tp_trace_merge(NULL, 3, tp_cstr(argv[2]), NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "paths is NULL");
    CHECK_FAILS(tp_trace_merge(paths, 2, TP_STR(""), NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "empty");
    paths[1] = TP_STR("");
    CHECK_FAILS(tp_trace_merge(paths, 2, tp_cstr(argv[2]), NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "empty");
    report.size = 3;
    CHECK_FAILS(tp_trace_merge(paths, 1, tp_cstr(argv[2]), NULL, &report), TP_STATUS_INVALID_ARGUMENT, "size");
    report.size = sizeof report;
    CHECK(tp_trace_merge(NULL, 0, tp_cstr(argv[2]), NULL, &report) == TP_STATUS_OK && report.events == 0);
    return 0;
}
