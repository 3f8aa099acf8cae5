// A library that links tptrace.
#include "parts.hpp"
#include "tracer.hpp"

void linked_work(tp_trace *trace, int number) {
    TP_SPAN_ARGS_IN(trace, "linked", "linked work", {"number", number});
    TP_SPAN(trace, "linked detail");
}
