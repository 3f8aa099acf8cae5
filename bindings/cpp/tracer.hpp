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
// Lists and callbacks are tp::List and tp::Callback, which are made of std::vector, std::function and the like, and convert to
// them. A program that uses those includes their headers itself: this one includes none that take long to compile.
// Time: integer nanoseconds, by default of CLOCK_MONOTONIC (std::chrono::steady_clock on Linux); tp::now_ns().
#ifndef TPTRACE_TRACER_HPP
#define TPTRACE_TRACER_HPP

#include "tracer_callback.hpp" // functions of the caller's
#include "tracer_events.hpp"   // tp::Op, tp::GpuActivity, tp::MemoryEvent, tp::Sample, tp::Counter, tp::Instant
#include "tracer_gpu.hpp"      // tp::gpu_info_text, tp::GpuOptions, tp::GpuOp
#include "tracer_list.hpp"     // lists of values and of texts
#include "tracer_merge.hpp"    // tp::merge, and a merge in parts
#include "tracer_spans.hpp"    // TP_SPAN; it works alone too
#include "tracer_status.hpp"   // tp::Status, tp::Error
#include "tracer_trace.hpp"    // tp::Trace
#include "tracer_write.hpp"    // tp::WriteOptions, tp::recover

#endif // TPTRACE_TRACER_HPP
