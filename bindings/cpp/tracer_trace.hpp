// tracer_trace.hpp: the trace, as an object that owns it. Part of tracer.hpp, which includes it.
#ifndef TPTRACE_TRACER_TRACE_HPP
#define TPTRACE_TRACER_TRACE_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tracer.h"
#include "tracer_callback.hpp"
#include "tracer_events.hpp"
#include "tracer_gpu.hpp"
#include "tracer_status.hpp"
#include "tracer_write.hpp"

namespace tp {

// How a trace starts.
struct TraceOptions {
    std::int32_t clock = TP_CLOCK_MONOTONIC;
    bool has_base = false;
    std::int64_t base_ns = 0; // what timestamps count from, if has_base; else the time of the call
    std::string_view process_name;
    std::uint64_t record_bytes = 0; // for what is recorded live; 0 for no limit, else at least 65536
    bool keep_recent = false;       // when they are used up the oldest goes (a flight recorder); only with record_bytes
    // A file, which must not be there yet, to keep a journal in; see tp_trace_options. %p stands for the process.
    std::string_view journal;
};

// Events of one process, kept in memory until they are written. Movable; a moved-from trace answers
// TP_STATUS_UNAVAILABLE.
class Trace {
public:
    // Not there until `open` succeeds: every call answers TP_STATUS_UNAVAILABLE.
    struct Closed {};
    explicit Trace(Closed) noexcept {}

    ~Trace() { tp_trace_free(trace_); }
    Trace(Trace &&other) noexcept : trace_(other.trace_) { other.trace_ = nullptr; }
    Trace &operator=(Trace &&other) noexcept {
        tp_trace *const mine = trace_;
        trace_ = other.trace_;
        other.trace_ = mine;
        return *this;
    }
    Trace(const Trace &) = delete;
    Trace &operator=(const Trace &) = delete;

    // Makes an empty trace; what this object held before is freed.
    Status open() noexcept { return make(nullptr); }
    Status open(const TraceOptions &given) noexcept {
        tp_trace_options options{};
        options.size = sizeof options;
        options.clock = given.clock;
        options.flags = given.has_base ? TP_TRACE_HAS_BASE : 0u;
        options.base_ns = given.base_ns;
        options.process_name = str(given.process_name);
        options.record_bytes = given.record_bytes;
        options.record_full = given.keep_recent ? TP_RECORD_KEEP_RECENT : TP_RECORD_DROP_NEW;
        options.journal = str(given.journal);
        return make(&options);
    }

    // The C handle, still owned by this object.
    tp_trace *get() const noexcept { return trace_; }

    Status try_add(const Op &op, std::uint64_t *id = nullptr) noexcept {
        const tp_op raw = op.raw();
        return Status{tp_trace_add_op(trace_, &raw, id)};
    }
    Status try_add(const GpuActivity &event) noexcept { return one(tp_trace_add_gpu, event.raw()); }
    Status try_add(const MemoryEvent &event) noexcept { return one(tp_trace_add_memory, event.raw()); }
    Status try_add(const Sample &event) noexcept { return one(tp_trace_add_sample, event.raw()); }
    Status try_add(const Counter &event) noexcept { return one(tp_trace_add_counter, event.raw()); }
    Status try_add(const Instant &event) noexcept { return one(tp_trace_add_instant, event.raw()); }

    Status try_set_process_name(std::string_view name) noexcept {
        return Status{tp_trace_set_process_name(trace_, str(name))};
    }
    Status try_set_thread_name(std::uint64_t thread, std::string_view name) noexcept {
        return Status{tp_trace_set_thread_name(trace_, thread, str(name))};
    }
    // A negative number means "unknown".
    Status try_set_rank(std::int64_t rank, std::int64_t world_size) noexcept {
        return Status{tp_trace_set_rank(trace_, rank, world_size)};
    }
    Status try_set_backend(std::string_view name) noexcept { return Status{tp_trace_set_backend(trace_, str(name))}; }
    // Brings the journal up to date, and waits until the disk has it.
    Status try_sync_journal() noexcept { return Status{tp_trace_sync_journal(trace_)}; }
    // A top-level key of the document, and its value as JSON text.
    Status try_set_metadata(std::string_view key, std::string_view json) noexcept {
        return Status{tp_trace_set_metadata(trace_, str(key), str(json))};
    }
    // Keeps what there is of GPUs in the trace: `deviceProperties` and the versions of the torch format.
    Status try_set_gpu_info() { return Status{tp_trace_set_gpu_info(trace_, nullptr)}; }
    Status try_set_gpu_info(const GpuLibraries &given) {
        const detail::Libraries libraries{given};
        return Status{tp_trace_set_gpu_info(trace_, libraries.raw())};
    }
    // Starts to collect what the GPU does, for all threads, until it is stopped; see tp_gpu_start. What `warn` throws comes
    // out of this call, with the collection running.
    Status try_gpu_start() { return Status{tp_gpu_start(trace_, nullptr)}; }
    Status try_gpu_start(const GpuOptions &given) { return detail::gpu_start(trace_, given); }
    // Ends the collection; see tp_gpu_stop. `warnings` gets what is odd, in sentences: a std::vector<std::string>, say.
    template <class Strings>
    Status try_gpu_stop(tp_gpu_report *report, Strings *warnings) {
        if (warnings == nullptr) return try_gpu_stop(report);
        struct Keep {
            void operator()(tp_str text) { to->emplace_back(text.ptr, text.len); }
            static void call(tp_str text, void *data) {
                Keep *const self = static_cast<Keep *>(data);
                self->caught.call(*self, text);
            }
            Strings *to;
            detail::Caught caught;
        } keep{warnings, {}};
        detail::clear(report);
        const tp_status code = tp_gpu_stop(trace_, report, Keep::call, &keep);
        keep.caught.rethrow();
        return Status{code};
    }
    Status try_gpu_stop(tp_gpu_report *report = nullptr, std::nullptr_t = nullptr) {
        detail::clear(report);
        return Status{tp_gpu_stop(trace_, report, nullptr, nullptr)};
    }
    Status try_counts(tp_counts &counts) const noexcept {
        counts = {};
        counts.size = sizeof counts;
        return Status{tp_trace_counts(trace_, &counts)};
    }

    // Writes a file, replacing it as a whole. What a progress callback throws comes out of this call.
    Status try_write(std::string_view path) const noexcept { return Status{tp_trace_write(trace_, str(path), nullptr)}; }
    Status try_write(std::string_view path, const WriteOptions &given) const {
        detail::Progress progress{given.progress};
        const tp_write_options options = detail::raw(given, progress);
        const tp_status code = tp_trace_write(trace_, str(path), &options);
        progress.caught.rethrow();
        return Status{code};
    }
    // Hands the document to `output`, `bool(std::string_view)`, piece by piece on this thread; false ends the write
    // with TP_STATUS_CALLBACK. What it throws comes out of this call.
    template <class Output>
    Status try_write_to(const Output &output, const WriteOptions &given = {}) const {
        detail::Progress progress{given.progress};
        const tp_write_options options = detail::raw(given, progress);
        struct Take {
            static std::int32_t call(const std::uint8_t *bytes, std::size_t len, void *data) {
                Take *const self = static_cast<Take *>(data);
                return self->caught.call(self->output, std::string_view(reinterpret_cast<const char *>(bytes), len)) ? 0 : 1;
            }
            const Output &output;
            detail::Caught caught;
        } take{output, {}};
        const tp_status code = tp_trace_write_to(trace_, Take::call, &take, &options);
        take.caught.rethrow();
        progress.caught.rethrow();
        return Status{code};
    }

#if TP_EXCEPTIONS
    Trace() { detail::check(open()); }
    explicit Trace(const TraceOptions &options) { detail::check(open(options)); }

    // Answers the op's id, which GPU activities name as their external id.
    std::uint64_t add(const Op &op) {
        std::uint64_t id = 0;
        detail::check(try_add(op, &id));
        return id;
    }
    template <class Event>
    void add(const Event &event) {
        detail::check(try_add(event));
    }
    void set_process_name(std::string_view name) { detail::check(try_set_process_name(name)); }
    void set_thread_name(std::uint64_t thread, std::string_view name) { detail::check(try_set_thread_name(thread, name)); }
    void set_rank(std::int64_t rank, std::int64_t world_size) { detail::check(try_set_rank(rank, world_size)); }
    void set_backend(std::string_view name) { detail::check(try_set_backend(name)); }
    void sync_journal() { detail::check(try_sync_journal()); }
    void set_metadata(std::string_view key, std::string_view json) { detail::check(try_set_metadata(key, json)); }
    void set_gpu_info() { detail::check(try_set_gpu_info()); }
    void set_gpu_info(const GpuLibraries &libraries) { detail::check(try_set_gpu_info(libraries)); }
    void gpu_start() { detail::check(try_gpu_start()); }
    void gpu_start(const GpuOptions &options) { detail::check(try_gpu_start(options)); }
    template <class Strings = std::nullptr_t>
    tp_gpu_report gpu_stop(Strings warnings = nullptr) {
        tp_gpu_report report;
        detail::check(try_gpu_stop(&report, warnings));
        return report;
    }
    tp_counts counts() const {
        tp_counts counts;
        detail::check(try_counts(counts));
        return counts;
    }
    void write(std::string_view path) const { detail::check(try_write(path)); }
    void write(std::string_view path, const WriteOptions &options) const { detail::check(try_write(path, options)); }
    template <class Output, class = std::enable_if_t<std::is_invocable_r_v<bool, const Output &, std::string_view>>>
    void write_to(const Output &output, const WriteOptions &options = {}) const {
        detail::check(try_write_to(output, options));
    }
    // Writes the document to a std::ostream, which must be binary if it is compressed, and flushes it. Throws
    // std::ios_base::failure if the stream fails.
    template <class Stream, class Failure = typename Stream::failure>
    void write_to(Stream &stream, const WriteOptions &options = {}) const {
        const auto put = [&](std::string_view piece) {
            return static_cast<bool>(stream.write(piece.data(), static_cast<std::ptrdiff_t>(piece.size())));
        };
        const Status status = try_write_to(put, options);
        if (!stream.flush()) throw Failure("the stream did not take the trace");
        detail::check(status);
    }
#endif

private:
    Status make(const tp_trace_options *options) noexcept {
        tp_trace *made = nullptr;
        Status status{tp_trace_new(options, &made)};
        if (status.ok()) {
            tp_trace_free(trace_);
            trace_ = made;
        }
        return status;
    }
    template <class T>
    Status one(tp_status (*call)(tp_trace *, const T *), const T &raw) noexcept {
        return Status{call(trace_, &raw)};
    }

    tp_trace *trace_ = nullptr;
};

} // namespace tp

#endif // TPTRACE_TRACER_TRACE_HPP
