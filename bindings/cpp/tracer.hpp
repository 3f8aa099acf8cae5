// tracer.hpp: tptrace for C++17 and later, over tracer.h. Header-only; link libtptrace.
//
//     tp::Trace trace;
//     trace.add(tp::Op("matmul", start_ns, end_ns).thread(1).input({64, 128}, TP_FLOAT32).arg("step", 3));
//     trace.write("trace.json.gz");
//
// Errors: every call that can fail has two forms. `add`, `write`, ... throw tp::Error; `try_add`, `try_write`, ... are
// noexcept and return a tp::Status. Compiled without exceptions (-fno-exceptions) there are only the second ones.
// Ownership: texts are std::string_view and borrowed until the event has been added; the trace keeps copies.
// Threads: any number may use one tp::Trace at once; each builds its own events.
// Time: integer nanoseconds, by default of CLOCK_MONOTONIC (std::chrono::steady_clock on Linux); tp::now_ns().
#ifndef TPTRACE_TRACER_HPP
#define TPTRACE_TRACER_HPP

#include "tracer_callback.hpp"
#include "tracer_events.hpp"
#include "tracer_gpu.hpp"
#include "tracer_list.hpp"
#include "tracer_merge.hpp"
#include "tracer_spans.hpp"
#include "tracer_status.hpp"
#include "tracer_trace.hpp"
#include "tracer_write.hpp"

#endif // TPTRACE_TRACER_HPP
