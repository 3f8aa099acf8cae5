/* A defect inside the library: its host lives on, is told, and can go on using it. */
#include "check.h"

tp_status tp_test_panic(void);

int main(void) {
    tp_trace *trace = NULL;
    CHECK(tp_trace_new(NULL, &trace) == TP_STATUS_OK);
    CHECK_FAILS(tp_test_panic(), TP_STATUS_INTERNAL, "out of bounds");
    tp_op op = TP_INIT(tp_op);
    CHECK(tp_trace_add_op(trace, &op, NULL) == TP_STATUS_OK);
    tp_trace_free(trace);
    return 0;
}
