/* Plays callers that were compiled against a newer header, whose structs are longer. */
#include "check.h"

typedef struct {
    tp_op known;
    int64_t new_member;
    const char *another;
} future_op;

typedef struct {
    tp_counts known;
    uint64_t new_count;
} future_counts;

int main(void) {
    tp_trace *trace = NULL;
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);

    future_op ops[3];
    memset(ops, 0, sizeof ops);
    for (int i = 0; i < 3; i++) {
        ops[i].known.size = sizeof ops[i];
        ops[i].known.name = TP_STR("from the future");
        ops[i].known.start_ns = i;
        ops[i].known.end_ns = i + 1;
    }
    CHECK(tp_trace_add_ops(trace, &ops[0].known, 3, sizeof ops[0]) == TP_STATUS_OK);

    /* What this library does not know must not be ignored in silence. */
    ops[1].new_member = 1;
    CHECK_FAILS(tp_trace_add_ops(trace, &ops[0].known, 3, sizeof ops[0]), TP_STATUS_UNSUPPORTED, "op 1");
    CHECK_FAILS(tp_trace_add_op(trace, &ops[1].known, NULL), TP_STATUS_UNSUPPORTED, "tp_op");

    future_counts counts;
    memset(&counts, 0xff, sizeof counts);
    counts.known.size = sizeof counts;
    CHECK(tp_trace_counts(trace, &counts.known) == TP_STATUS_OK);
    CHECK(counts.known.ops == 4 && counts.new_count == 0 && counts.known.size == sizeof counts);
    tp_trace_free(trace);

    /* A table from an older library is shorter. */
    CHECK(TP_HAS(&tp_api_v1, trace_write_to));
    tp_api older = tp_api_v1;
    older.size = offsetof(tp_api, trace_write);
    CHECK(TP_HAS(&older, trace_add_instants) && !TP_HAS(&older, trace_write));
    const tp_api *absent = NULL;
    CHECK(!TP_HAS(absent, version));
    return 0;
}
