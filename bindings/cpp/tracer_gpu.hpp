// tracer_gpu.hpp: what there is of GPUs, and how their work is collected. Part of tracer.hpp, which includes it.
#ifndef TPTRACE_TRACER_GPU_HPP
#define TPTRACE_TRACER_GPU_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tracer.h"
#include "tracer_callback.hpp"
#include "tracer_list.hpp"
#include "tracer_spans.hpp"
#include "tracer_status.hpp"

namespace tp {

// Which files of CUDA's to use, and where else to look for them; see tp_gpu_libraries. Empty: look for it.
struct GpuLibraries {
    std::string_view libcuda, libcudart, libcupti;
    List<std::string> search_paths;
};

// How GPU work is collected; see tp_gpu_options.
struct GpuOptions {
    std::uint32_t kinds = 0; // TP_GPU_COLLECT_ bits; 0: all but markers
    bool all_calls = false;  // also calls that are many and say little
    bool wait = true;        // wait for the GPU's work at the end
    std::uint64_t buffer_bytes = 0, cap_bytes = 0; // 0: 4 MiB and 256 MiB
    std::uint32_t stop_timeout_ms = 0;             // 0: 10 s
    GpuLibraries libraries;
    // Told what is odd, at the start, on the calling thread.
    TextCallback warn;
};

namespace detail {

// A tp_gpu_libraries, and the texts that it points to.
class Libraries {
public:
    explicit Libraries(const GpuLibraries &given) : raw_{}, paths_(given.search_paths) {
        raw_.size = sizeof raw_;
        raw_.libcuda = str(given.libcuda);
        raw_.libcudart = str(given.libcudart);
        raw_.libcupti = str(given.libcupti);
        raw_.search_paths = paths_.data();
        raw_.search_path_count = paths_.size();
    }
    Libraries(const Libraries &) = delete;
    Libraries &operator=(const Libraries &) = delete;

    const tp_gpu_libraries *raw() const noexcept { return &raw_; }

private:
    tp_gpu_libraries raw_;
    Texts paths_;
};

inline std::string told(tp_status (*call)(const tp_gpu_libraries *, char *, std::size_t, std::size_t *),
                        const tp_gpu_libraries *libraries) {
    std::string text;
    std::size_t length = 0;
    // What there is may change in between, and with it the length.
    while (call(libraries, &text[0], text.empty() ? 0 : text.size() + 1, &length) == TP_STATUS_OK &&
           length > text.size())
        text.resize(length);
    text.resize(length < text.size() ? length : text.size());
    return text;
}

inline void clear(tp_gpu_report *report) noexcept {
    if (report == nullptr) return;
    *report = {};
    report->size = sizeof *report;
}

inline Status gpu_start(tp_trace *trace, const GpuOptions &given) {
    const Libraries libraries{given.libraries};
    Warn warn{given.warn};
    tp_gpu_options options{};
    options.size = sizeof options;
    options.flags = (given.all_calls ? TP_GPU_ALL_CALLS : 0u) | (given.wait ? 0u : TP_GPU_NO_WAIT);
    options.kinds = given.kinds;
    options.buffer_bytes = given.buffer_bytes;
    options.cap_bytes = given.cap_bytes;
    options.stop_timeout_ms = given.stop_timeout_ms;
    options.libraries = libraries.raw();
    if (given.warn) {
        options.warn = Warn::call;
        options.warn_data = &warn;
    }
    const tp_status code = tp_gpu_start(trace, &options);
    warn.caught.rethrow();
    return Status{code};
}

} // namespace detail

// What there is of GPUs, in numbers; see tp_gpu_info. Starts the driver if there is one.
inline Status try_gpu_info(tp_gpu_facts &facts) {
    facts = {};
    facts.size = sizeof facts;
    return Status{tp_gpu_info(nullptr, &facts)};
}
inline Status try_gpu_info(tp_gpu_facts &facts, const GpuLibraries &given) {
    const detail::Libraries libraries{given};
    facts = {};
    facts.size = sizeof facts;
    return Status{tp_gpu_info(libraries.raw(), &facts)};
}
// The same in lines of text for a person; empty if the arguments cannot be used.
inline std::string gpu_info_text() { return detail::told(tp_gpu_info_text, nullptr); }
inline std::string gpu_info_text(const GpuLibraries &given) {
    return detail::told(tp_gpu_info_text, detail::Libraries{given}.raw());
}
// The same as one JSON object.
inline std::string gpu_info_json() { return detail::told(tp_gpu_info_json, nullptr); }
inline std::string gpu_info_json(const GpuLibraries &given) {
    return detail::told(tp_gpu_info_json, detail::Libraries{given}.raw());
}

// Says that the CUDA calls of this thread come from the op of that id, as long as this object lives. `trace`: a tp::Trace.
class GpuOp {
public:
    template <class Trace>
    GpuOp(const Trace &trace, std::uint64_t id) noexcept : trace_(trace.get()) {
        if (tp_gpu_push_op(trace_, id) != TP_STATUS_OK) trace_ = nullptr;
    }
    ~GpuOp() {
        if (trace_ != nullptr) tp_gpu_pop_op(trace_);
    }
    GpuOp(const GpuOp &) = delete;
    GpuOp &operator=(const GpuOp &) = delete;

private:
    tp_trace *trace_;
};

} // namespace tp

#endif // TPTRACE_TRACER_GPU_HPP
