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

static void take(tp_str text, void *texts) {
    char ***next = texts;
    CHECK((**next = malloc(text.len + 1)) != NULL);
    if (text.len > 0) memcpy(**next, text.ptr, text.len);
    (**next)[text.len] = '\0';
    ++*next;
}

/* The same merge in parts, of which one is left out. */
static void in_parts(const tp_str *paths, const char *folder) {
    tp_merge_options options = TP_INIT(tp_merge_options);
    const int64_t ranks[] = {1};
    options.ranks = ranks;
    options.rank_count = 1;
    char *texts[5] = {NULL}, **next = texts;
    CHECK(tp_merge_survey(paths[0], &options, take, &next) == TP_STATUS_OK);
    CHECK(tp_merge_survey(paths[1], &options, take, &next) == TP_STATUS_OK);
    CHECK(next == texts + 2);
    const tp_str surveys[] = {tp_cstr(texts[0]), tp_cstr(texts[1])};
    CHECK(tp_merge_plan(surveys, 2, &options, take, &next) == TP_STATUS_OK);
    CHECK(next == texts + 5 && texts[2][0] == '\0' && texts[3][0] == '{');
    char out[4096], fragment[4096];
    snprintf(out, sizeof out, "%s.parts.gz", folder);
    snprintf(fragment, sizeof fragment, "%s.fragment", folder);
    const tp_str one = tp_cstr(fragment), plan = tp_cstr(texts[4]);
    CHECK(tp_merge_fragment(paths[1], tp_cstr(texts[3]), one, NULL) == TP_STATUS_OK);
    tp_merge_report report = TP_INIT(tp_merge_report);
    CHECK(tp_merge_join(plan, &one, 1, tp_cstr(out), NULL, &report) == TP_STATUS_OK);
    CHECK(report.events > 100 && report.complete_from_ns == UINT64_MAX);

    CHECK_FAILS(tp_merge_survey(paths[0], NULL, NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "give is NULL");
    CHECK_FAILS(tp_merge_survey(paths[2], NULL, take, &next), TP_STATUS_IO, "/no such file");
    CHECK_FAILS(tp_merge_plan(&plan, 1, NULL, take, &next), TP_STATUS_INVALID_ARGUMENT, "it is a plan");
    CHECK_FAILS(tp_merge_fragment(paths[0], tp_cstr(texts[2]), one, NULL), TP_STATUS_INVALID_ARGUMENT, "no task");
    CHECK_FAILS(tp_merge_join(plan, NULL, 0, tp_cstr(out), NULL, NULL), TP_STATUS_INVALID_ARGUMENT, "missing");
    CHECK_FAILS(tp_merge_join(plan, paths, 1, tp_cstr(out), NULL, NULL), TP_STATUS_MALFORMED, "no whole fragment");
    for (int i = 0; i < 5; i++) free(texts[i]);
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

    in_parts(paths, argv[1]);

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
    options.flags = 16;
    CHECK_FAILS(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, NULL), TP_STATUS_INVALID_ARGUMENT, "unknown bits");
    options.flags = TP_MERGE_VERBATIM | TP_MERGE_FSYNC | TP_MERGE_SALVAGE;
    CHECK(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, NULL) == TP_STATUS_OK);
    options.flags = 0;
    CHECK(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, &report) == TP_STATUS_OK);
    const uint64_t all = report.events, bytes = report.bytes;
    const tp_str nothing = TP_STR("^$");
    options.names = &nothing;
    options.name_count = 1;
    options.flags = TP_MERGE_WINDOW;
    options.window_end_ns = 1000;
    CHECK(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, &report) == TP_STATUS_OK);
    CHECK(report.events + report.cut_name + report.cut_window + report.cut_flow == all && report.cut_name > 0);
    options.name_count = 0;
    options.flags = 0;
    CHECK_FAILS(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, NULL), TP_STATUS_INVALID_ARGUMENT, "window");
    options.window_end_ns = 0;
    options.max_bytes = bytes / 2;
    CHECK(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, &report) == TP_STATUS_OK);
    CHECK(report.bytes <= bytes / 2 && report.cut_budget > 0 && report.complete_from_ns < UINT64_MAX);
    options.max_bytes = 0;
    options.exclude_name_count = 1;
    CHECK_FAILS(tp_trace_merge(paths, 2, tp_cstr(argv[1]), &options, NULL), TP_STATUS_INVALID_ARGUMENT, "exclude_names");
    options.exclude_name_count = 0;
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
