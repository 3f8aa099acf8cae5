// A library that has tptrace's headers only, and finds the library when it runs.
#include "tracer_loader.h"

#include "parts.hpp"
#include "tracer.hpp"

void loaded_work(tp_trace *trace, int number) {
    TP_SPAN_ARGS_IN(trace, "loaded", "loaded work", {"number", number});
    TP_SPAN(trace, "loaded detail");
}
