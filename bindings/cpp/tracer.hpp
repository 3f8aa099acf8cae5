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

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#define TP_EXCEPTIONS 1
#include <exception>
#else
#define TP_EXCEPTIONS 0
#endif

#include "tracer.h"
#include "tracer_spans.hpp"

namespace tp {

inline tp_str str(std::string_view text) noexcept { return tp_str{text.data(), text.size()}; }

// The time now on the clock that traces use by default, in nanoseconds.
inline std::int64_t now_ns() noexcept { return tp_now_ns(); }

// The library's version, such as "0.1.0".
inline std::string_view version() noexcept { return tp_version(); }

// What a call came to. The message is this thread's, copied when the status is made.
class [[nodiscard]] Status {
public:
    Status() = default;
    explicit Status(tp_status code) : code_(code) {
        if (code_ != TP_STATUS_OK) {
            message_.resize(tp_last_error_message(nullptr, 0));
            tp_last_error_message(&message_[0], message_.size() + 1);
        }
    }

    bool ok() const noexcept { return code_ == TP_STATUS_OK; }
    explicit operator bool() const noexcept { return ok(); }
    // A TP_STATUS_ number.
    tp_status code() const noexcept { return code_; }
    std::string_view name() const noexcept { return tp_status_name(code_); }
    const std::string &message() const noexcept { return message_; }

private:
    tp_status code_ = TP_STATUS_OK;
    std::string message_;
};

#if TP_EXCEPTIONS
// A call that failed.
class Error : public std::runtime_error {
public:
    explicit Error(const Status &status)
        : std::runtime_error(words(status)), code_(status.code()) {}
    // A TP_STATUS_ number.
    tp_status code() const noexcept { return code_; }

private:
    // Where there is no library, nobody else could say so.
    static std::string words(const Status &status) {
        std::string said(status.name());
        if (!status.message().empty()) return said + ": " + status.message();
        if (status.code() != TP_STATUS_UNAVAILABLE) return said;
        return said + ": no libtptrace that has this call was found, or the trace was closed (TPTRACE_LIBRARY names one)";
    }

    tp_status code_;
};
#endif

namespace detail {

inline tp_arg arg(std::string_view key, int kind) noexcept {
    tp_arg made{};
    made.key = str(key);
    made.kind = kind;
    return made;
}

// Free arguments, for every event that has them. `Self` is the event, so that calls chain.
template <class Self>
class Args {
public:
    template <class T>
    Self &arg(std::string_view key, const T &value) {
        tp_arg made = detail::arg(key, TP_ARG_TEXT);
        if constexpr (std::is_same_v<T, bool>) {
            made.kind = TP_ARG_BOOL;
            made.integer = value;
        } else if constexpr (std::is_integral_v<T>) {
            made.kind = std::is_signed_v<T> ? TP_ARG_INT : TP_ARG_UINT;
            made.integer = static_cast<std::int64_t>(value);
        } else if constexpr (std::is_floating_point_v<T>) {
            made.kind = TP_ARG_FLOAT;
            made.number = static_cast<double>(value);
        } else {
            made.text = str(value);
        }
        args_.push_back(made);
        return static_cast<Self &>(*this);
    }

protected:
    std::vector<tp_arg> args_;
};

} // namespace detail

// TensorPlay's numbers of element types.
inline constexpr std::int32_t TP_UINT8 = 0, TP_INT8 = 1, TP_INT16 = 2, TP_INT32 = 3, TP_INT64 = 4, TP_UINT16 = 5,
                              TP_UINT32 = 6, TP_UINT64 = 7, TP_FLOAT32 = 8, TP_FLOAT64 = 9, TP_FLOAT16 = 10,
                              TP_BFLOAT16 = 11, TP_BOOL = 12;

enum class OpKind : std::int32_t {
    op = TP_OP_KIND_OP,
    user_annotation = TP_OP_KIND_USER_ANNOTATION,
    backward = TP_OP_KIND_BACKWARD,
};

// A slice on a CPU thread.
class Op : public detail::Args<Op> {
public:
    Op(std::string_view name, std::int64_t start_ns, std::int64_t end_ns) : op_(TP_INIT(tp_op)) {
        op_.name = str(name);
        op_.start_ns = start_ns;
        op_.end_ns = end_ns;
    }
    Op &kind(OpKind kind) { return op_.kind = static_cast<std::int32_t>(kind), *this; }
    // Any number that names the thread.
    Op &thread(std::uint64_t id) { return op_.thread_id = id, *this; }
    // What GPU activities call this op; by default its position in the trace.
    Op &id(std::uint64_t id) { return op_.id = id, op_.flags |= TP_OP_HAS_ID, *this; }
    // One input: its shape, and its element type as TensorPlay numbers it.
    Op &input(std::initializer_list<std::int64_t> shape, std::int32_t dtype) {
        return input(shape.begin(), shape.size(), dtype);
    }
    Op &input(const std::int64_t *shape, std::size_t rank, std::int32_t dtype) {
        dims_.insert(dims_.end(), shape, shape + rank);
        ranks_.push_back(static_cast<std::uint32_t>(rank));
        dtypes_.push_back(dtype);
        return *this;
    }
    // One input whose element type is given as text. Either all inputs of an op are, or none.
    Op &input(std::initializer_list<std::int64_t> shape, std::string_view dtype) {
        dims_.insert(dims_.end(), shape);
        ranks_.push_back(static_cast<std::uint32_t>(shape.size()));
        dtype_names_.push_back(str(dtype));
        return *this;
    }
    Op &call_site(std::string_view place) { return op_.call_site = str(place), *this; }
    Op &gpu(double milliseconds, std::int64_t kernels) {
        op_.flags |= TP_OP_HAS_GPU_MS;
        op_.gpu_ms = milliseconds;
        op_.kernel_count = kernels;
        return *this;
    }
    Op &output_bytes(std::int64_t bytes) { return op_.output_bytes = bytes, *this; }
    // The next frame of the call stack; the innermost first.
    Op &frame(std::string_view frame) { return stack_.push_back(str(frame)), *this; }

    // The C struct; valid until this object changes.
    tp_op raw() const noexcept {
        tp_op op = op_;
        op.input_count = ranks_.size();
        op.ranks = ranks_.data();
        op.dims = dims_.data();
        op.dtypes = dtype_names_.empty() && !dtypes_.empty() ? dtypes_.data() : nullptr;
        op.dtype_names = dtype_names_.empty() ? nullptr : dtype_names_.data();
        op.dtype_count = dtype_names_.empty() ? dtypes_.size() : dtype_names_.size();
        op.stack = stack_.data();
        op.stack_count = stack_.size();
        op.args = args_.data();
        op.arg_count = args_.size();
        return op;
    }

private:
    tp_op op_;
    std::vector<std::uint32_t> ranks_;
    std::vector<std::int64_t> dims_;
    std::vector<std::int32_t> dtypes_;
    std::vector<tp_str> dtype_names_, stack_;
};

enum class GpuKind : std::int32_t {
    kernel = TP_GPU_KIND_KERNEL,
    memcpy = TP_GPU_KIND_MEMCPY,
    memset = TP_GPU_KIND_MEMSET,
    runtime = TP_GPU_KIND_RUNTIME,
    driver = TP_GPU_KIND_DRIVER,
};

// A kernel, copy or fill on a stream, or the CUDA call that caused it.
class GpuActivity : public detail::Args<GpuActivity> {
public:
    GpuActivity(GpuKind kind, std::string_view name, std::int64_t start_ns, std::int64_t end_ns)
        : gpu_(TP_INIT(tp_gpu_activity)) {
        gpu_.kind = static_cast<std::int32_t>(kind);
        gpu_.name = str(name);
        gpu_.start_ns = start_ns;
        gpu_.end_ns = end_ns;
    }
    GpuActivity &device(std::int32_t ordinal) { return gpu_.device = ordinal, *this; }
    GpuActivity &stream(std::uint32_t number) { return gpu_.stream = number, *this; }
    // Joins a call to what it caused.
    GpuActivity &correlation(std::uint64_t id) { return gpu_.correlation_id = id, *this; }
    // The id of the op that caused it.
    GpuActivity &external(std::uint64_t id) {
        return gpu_.external_id = id, gpu_.flags |= TP_GPU_HAS_EXTERNAL_ID, *this;
    }
    // The OS thread of a runtime or driver call.
    GpuActivity &os_thread(std::uint64_t id) { return gpu_.os_thread = id, *this; }
    GpuActivity &callback(std::uint32_t id) { return gpu_.callback_id = id, *this; }
    GpuActivity &bytes(std::uint64_t bytes) { return gpu_.bytes = bytes, *this; }
    // CUPTI's number for the direction of a copy.
    GpuActivity &copy_kind(std::uint32_t kind) { return gpu_.copy_kind = kind, *this; }
    // The value of a fill.
    GpuActivity &value(std::uint32_t value) { return gpu_.value = value, *this; }
    GpuActivity &grid(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
        gpu_.flags |= TP_GPU_HAS_GRID;
        return gpu_.grid_x = x, gpu_.grid_y = y, gpu_.grid_z = z, *this;
    }
    GpuActivity &block(std::uint32_t x, std::uint32_t y, std::uint32_t z) {
        gpu_.flags |= TP_GPU_HAS_BLOCK;
        return gpu_.block_x = x, gpu_.block_y = y, gpu_.block_z = z, *this;
    }
    GpuActivity &registers_per_thread(std::uint32_t number) {
        return gpu_.registers_per_thread = number, gpu_.flags |= TP_GPU_HAS_REGISTERS, *this;
    }
    // Of one block, in bytes.
    GpuActivity &shared_memory(std::uint32_t bytes) {
        return gpu_.shared_memory = bytes, gpu_.flags |= TP_GPU_HAS_SHARED_MEMORY, *this;
    }
    GpuActivity &context(std::uint32_t id) { return gpu_.context = id, gpu_.flags |= TP_GPU_HAS_CONTEXT, *this; }
    GpuActivity &graph(std::uint32_t id, std::uint64_t node) {
        gpu_.flags |= TP_GPU_HAS_GRAPH_ID | TP_GPU_HAS_GRAPH_NODE_ID;
        return gpu_.graph_id = id, gpu_.graph_node_id = node, *this;
    }
    GpuActivity &priority(std::int32_t priority) {
        return gpu_.priority = priority, gpu_.flags |= TP_GPU_HAS_PRIORITY, *this;
    }

    // The C struct; valid until this object changes.
    tp_gpu_activity raw() const noexcept {
        tp_gpu_activity gpu = gpu_;
        gpu.args = args_.data();
        gpu.arg_count = args_.size();
        return gpu;
    }

private:
    tp_gpu_activity gpu_;
};

// Memory given out (positive or not, `bytes` is what the event says) or taken back.
class MemoryEvent : public detail::Args<MemoryEvent> {
public:
    MemoryEvent(bool allocated, std::uint64_t address, std::int64_t bytes, std::int64_t time_ns)
        : memory_(TP_INIT(tp_memory_event)) {
        memory_.flags = allocated ? TP_MEMORY_ALLOCATED : 0;
        memory_.address = address;
        memory_.bytes = bytes;
        memory_.time_ns = time_ns;
    }
    MemoryEvent &thread(std::uint64_t id) { return memory_.thread_id = id, *this; }
    // Of a CUDA device, not of the CPU.
    MemoryEvent &cuda(std::int32_t device) {
        return memory_.flags |= TP_MEMORY_CUDA, memory_.device = device, *this;
    }

    tp_memory_event raw() const noexcept {
        tp_memory_event memory = memory_;
        memory.args = args_.data();
        memory.arg_count = args_.size();
        return memory;
    }

private:
    tp_memory_event memory_;
};

// The stack of one thread at one moment.
class Sample : public detail::Args<Sample> {
public:
    Sample(std::uint64_t os_thread, std::int64_t time_ns) : sample_(TP_INIT(tp_sample)) {
        sample_.os_thread = os_thread;
        sample_.time_ns = time_ns;
    }
    // The next frame; the innermost first.
    Sample &frame(std::string_view frame) { return stack_.push_back(str(frame)), *this; }

    tp_sample raw() const noexcept {
        tp_sample sample = sample_;
        sample.stack = stack_.data();
        sample.stack_count = stack_.size();
        sample.args = args_.data();
        sample.arg_count = args_.size();
        return sample;
    }

private:
    tp_sample sample_;
    std::vector<tp_str> stack_;
};

// Values of a counter track at one moment: one `arg` for each of its series, a finite number.
class Counter : public detail::Args<Counter> {
public:
    Counter(std::string_view name, std::int64_t time_ns) : counter_(TP_INIT(tp_counter)) {
        counter_.name = str(name);
        counter_.time_ns = time_ns;
    }

    tp_counter raw() const noexcept {
        tp_counter counter = counter_;
        counter.values = args_.data();
        counter.value_count = args_.size();
        return counter;
    }

private:
    tp_counter counter_;
};

enum class Scope : std::int32_t {
    thread = TP_INSTANT_THREAD,
    process = TP_INSTANT_PROCESS,
    global = TP_INSTANT_GLOBAL,
};

// Something that happened and took no time.
class Instant : public detail::Args<Instant> {
public:
    Instant(std::string_view name, std::int64_t time_ns) : instant_(TP_INIT(tp_instant)) {
        instant_.name = str(name);
        instant_.time_ns = time_ns;
    }
    Instant &thread(std::uint64_t id) { return instant_.thread_id = id, *this; }
    Instant &scope(Scope scope) { return instant_.scope = static_cast<std::int32_t>(scope), *this; }

    tp_instant raw() const noexcept {
        tp_instant instant = instant_;
        instant.args = args_.data();
        instant.arg_count = args_.size();
        return instant;
    }

private:
    tp_instant instant_;
};

enum class Format : std::int32_t { plain = TP_FORMAT_PLAIN, torch = TP_FORMAT_TORCH, perfetto = TP_FORMAT_PERFETTO };
enum class Compression : std::int32_t {
    by_name = TP_COMPRESSION_AUTO,
    none = TP_COMPRESSION_NONE,
    gzip = TP_COMPRESSION_GZIP,
};

// How a document is written.
struct WriteOptions {
    Format format = Format::plain;
    Compression compression = Compression::by_name;
    int level = 0;            // gzip level from 1 to 9; 0: the default
    unsigned threads = 0;     // 0: one per core
    bool fsync = false;       // wait until the file is on the disk
    bool keep_overlaps = false;
    std::string_view trace_name;
    // Told how far the write has come, on the calling thread; false cancels.
    std::function<bool(const tp_progress &)> progress;
};

namespace detail {

// A callback of the caller's behind a C function: what it throws waits here until the library has returned.
template <class Call>
class Shield {
public:
    explicit Shield(const Call &call) noexcept : call_(call) {}

    template <class... T>
    bool operator()(const T &...given) noexcept {
#if TP_EXCEPTIONS
        try {
            return call_(given...);
        } catch (...) {
            thrown_ = std::current_exception();
            return false;
        }
#else
        return call_(given...);
#endif
    }

    void rethrow() const {
#if TP_EXCEPTIONS
        if (thrown_) std::rethrow_exception(thrown_);
#endif
    }

private:
    const Call &call_;
#if TP_EXCEPTIONS
    std::exception_ptr thrown_;
#endif
};

using Progress = Shield<std::function<bool(const tp_progress &)>>;

inline tp_write_options raw(const WriteOptions &given, Progress &progress) noexcept {
    tp_write_options options = TP_INIT(tp_write_options);
    options.format = static_cast<std::int32_t>(given.format);
    options.compression = static_cast<std::int32_t>(given.compression);
    options.level = given.level;
    options.threads = given.threads;
    options.flags = (given.fsync ? TP_WRITE_FSYNC : 0u) | (given.keep_overlaps ? TP_WRITE_KEEP_OVERLAPS : 0u);
    options.trace_name = str(given.trace_name);
    if (given.progress) {
        options.progress = [](const tp_progress *state, void *data) -> std::int32_t {
            return (*static_cast<Progress *>(data))(*state) ? 0 : 1;
        };
        options.progress_data = &progress;
    }
    return options;
}

} // namespace detail

// Which files of CUDA's to use, and where else to look for them; see tp_gpu_libraries. Empty: look for it.
struct GpuLibraries {
    std::string_view libcuda, libcudart, libcupti;
    std::vector<std::string> search_paths;
};

namespace detail {

// A tp_gpu_libraries, and the texts that it points to.
class Libraries {
public:
    explicit Libraries(const GpuLibraries &given) : raw_(TP_INIT(tp_gpu_libraries)) {
        raw_.libcuda = str(given.libcuda);
        raw_.libcudart = str(given.libcudart);
        raw_.libcupti = str(given.libcupti);
        for (const std::string &path : given.search_paths) paths_.push_back(str(path));
        raw_.search_paths = paths_.data();
        raw_.search_path_count = paths_.size();
    }
    Libraries(const Libraries &) = delete;
    Libraries &operator=(const Libraries &) = delete;

    const tp_gpu_libraries *raw() const noexcept { return &raw_; }

private:
    tp_gpu_libraries raw_;
    std::vector<tp_str> paths_;
};

template <class Call>
std::string told(Call call, const GpuLibraries &given) {
    const Libraries libraries{given};
    std::string text;
    std::size_t length = 0;
    // What there is may change in between, and with it the length.
    while (call(libraries.raw(), &text[0], text.empty() ? 0 : text.size() + 1, &length) == TP_STATUS_OK &&
           length > text.size())
        text.resize(length);
    text.resize(length < text.size() ? length : text.size());
    return text;
}

} // namespace detail

// What there is of GPUs, in numbers; see tp_gpu_info. Starts the driver if there is one.
inline Status try_gpu_info(tp_gpu_facts &facts, const GpuLibraries &given = {}) {
    const detail::Libraries libraries{given};
    facts = TP_INIT(tp_gpu_facts);
    return Status{tp_gpu_info(libraries.raw(), &facts)};
}
// The same in lines of text for a person; empty if the arguments cannot be used.
inline std::string gpu_info_text(const GpuLibraries &given = {}) { return detail::told(tp_gpu_info_text, given); }
// The same as one JSON object.
inline std::string gpu_info_json(const GpuLibraries &given = {}) { return detail::told(tp_gpu_info_json, given); }

// How GPU work is collected; see tp_gpu_options.
struct GpuOptions {
    std::uint32_t kinds = 0; // TP_GPU_COLLECT_ bits; 0: all but markers
    bool all_calls = false;  // also calls that are many and say little
    bool wait = true;        // wait for the GPU's work at the end
    std::uint64_t buffer_bytes = 0, cap_bytes = 0; // 0: 4 MiB and 256 MiB
    std::uint32_t stop_timeout_ms = 0;             // 0: 10 s
    GpuLibraries libraries;
    // Told what is odd, at the start, on the calling thread.
    std::function<void(std::string_view)> warn;
};

// How a trace starts.
struct TraceOptions {
    std::int32_t clock = TP_CLOCK_MONOTONIC;
    bool has_base = false;
    std::int64_t base_ns = 0; // what timestamps count from, if has_base; else the time of the call
    std::string_view process_name;
    std::uint64_t record_bytes = 0; // for what is recorded live; 0 for no limit
    bool keep_recent = false;       // when they are used up the oldest goes (a flight recorder), not the new ones
    // A file, which must not be there yet, to keep a journal in; see tp_trace_options. %p stands for the process.
    std::string_view journal;
};

// What became of a journal.
struct RecoverReport {
    std::uint64_t events = 0;
    std::uint64_t unfinished = 0;    // spans that end where the journal does
    std::uint64_t journal_bytes = 0; // that were read
    std::uint64_t cut_bytes = 0;     // behind them, damaged or half written
};

// Events of one process, kept in memory until they are written. Movable; a moved-from trace answers
// TP_STATUS_UNAVAILABLE.
class Trace {
public:
    // Not there until `open` succeeds: every call answers TP_STATUS_UNAVAILABLE.
    struct Closed {};
    explicit Trace(Closed) noexcept {}

    ~Trace() { tp_trace_free(trace_); }
    Trace(Trace &&other) noexcept : trace_(std::exchange(other.trace_, nullptr)) {}
    Trace &operator=(Trace &&other) noexcept {
        std::swap(trace_, other.trace_);
        return *this;
    }
    Trace(const Trace &) = delete;
    Trace &operator=(const Trace &) = delete;

    // Makes an empty trace; what this object held before is freed.
    Status open(const TraceOptions &given = {}) noexcept {
        tp_trace_options options = TP_INIT(tp_trace_options);
        options.clock = given.clock;
        options.flags = given.has_base ? TP_TRACE_HAS_BASE : 0u;
        options.base_ns = given.base_ns;
        options.process_name = str(given.process_name);
        options.record_bytes = given.record_bytes;
        options.record_full = given.keep_recent ? TP_RECORD_KEEP_RECENT : TP_RECORD_DROP_NEW;
        options.journal = str(given.journal);
        tp_trace *made = nullptr;
        Status status{tp_trace_new(&options, &made)};
        if (status) {
            tp_trace_free(std::exchange(trace_, made));
        }
        return status;
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
    Status try_set_gpu_info(const GpuLibraries &given = {}) {
        const detail::Libraries libraries{given};
        return Status{tp_trace_set_gpu_info(trace_, libraries.raw())};
    }
    // Starts to collect what the GPU does, for all threads, until it is stopped; see tp_gpu_start. What `warn` throws comes
    // out of this call, with the collection running.
    Status try_gpu_start(const GpuOptions &given = {}) {
        const detail::Libraries libraries{given.libraries};
        const std::function<bool(std::string_view)> tell = [&](std::string_view text) { return given.warn(text), true; };
        detail::Shield<std::function<bool(std::string_view)>> warn{tell};
        tp_gpu_options options = TP_INIT(tp_gpu_options);
        options.flags = (given.all_calls ? TP_GPU_ALL_CALLS : 0u) | (given.wait ? 0u : TP_GPU_NO_WAIT);
        options.kinds = given.kinds;
        options.buffer_bytes = given.buffer_bytes;
        options.cap_bytes = given.cap_bytes;
        options.stop_timeout_ms = given.stop_timeout_ms;
        options.libraries = libraries.raw();
        if (given.warn) {
            options.warn = [](tp_str message, void *data) {
                (*static_cast<decltype(warn) *>(data))(std::string_view(message.ptr, message.len));
            };
            options.warn_data = &warn;
        }
        const tp_status code = tp_gpu_start(trace_, &options);
        warn.rethrow();
        return Status{code};
    }
    // Ends the collection; see tp_gpu_stop. `warnings` gets what is odd, in sentences.
    Status try_gpu_stop(tp_gpu_report *report = nullptr, std::vector<std::string> *warnings = nullptr) {
        const auto keep = [](tp_str message, void *data) {
            static_cast<std::vector<std::string> *>(data)->emplace_back(message.ptr, message.len);
        };
        if (report != nullptr) *report = TP_INIT(tp_gpu_report);
        return Status{tp_gpu_stop(trace_, report, warnings != nullptr ? +keep : nullptr, warnings)};
    }
    Status try_counts(tp_counts &counts) const noexcept {
        counts = TP_INIT(tp_counts);
        return Status{tp_trace_counts(trace_, &counts)};
    }

    // Writes a file, replacing it as a whole. What a progress callback throws comes out of this call.
    Status try_write(std::string_view path, const WriteOptions &given = {}) const {
        detail::Progress progress{given.progress};
        const tp_write_options options = detail::raw(given, progress);
        const tp_status code = tp_trace_write(trace_, str(path), &options);
        progress.rethrow();
        return Status{code};
    }
    // Hands the document to `output`, `bool(std::string_view)`, piece by piece on this thread; false ends the write
    // with TP_STATUS_CALLBACK. What it throws comes out of this call.
    template <class Output>
    Status try_write_to(const Output &output, const WriteOptions &given = {}) const {
        detail::Progress progress{given.progress};
        const tp_write_options options = detail::raw(given, progress);
        detail::Shield<Output> shield{output};
        const auto call = [](const std::uint8_t *bytes, std::size_t len, void *data) -> std::int32_t {
            const std::string_view piece(reinterpret_cast<const char *>(bytes), len);
            return (*static_cast<detail::Shield<Output> *>(data))(piece) ? 0 : 1;
        };
        const tp_status code = tp_trace_write_to(trace_, call, &shield, &options);
        shield.rethrow();
        progress.rethrow();
        return Status{code};
    }

#if TP_EXCEPTIONS
    Trace() : Trace(TraceOptions{}) {}
    explicit Trace(const TraceOptions &options) { check(open(options)); }

    // Answers the op's id, which GPU activities name as their external id.
    std::uint64_t add(const Op &op) {
        std::uint64_t id = 0;
        check(try_add(op, &id));
        return id;
    }
    template <class Event>
    void add(const Event &event) {
        check(try_add(event));
    }
    void set_process_name(std::string_view name) { check(try_set_process_name(name)); }
    void set_thread_name(std::uint64_t thread, std::string_view name) { check(try_set_thread_name(thread, name)); }
    void set_rank(std::int64_t rank, std::int64_t world_size) { check(try_set_rank(rank, world_size)); }
    void set_backend(std::string_view name) { check(try_set_backend(name)); }
    void sync_journal() { check(try_sync_journal()); }
    void set_metadata(std::string_view key, std::string_view json) { check(try_set_metadata(key, json)); }
    void set_gpu_info(const GpuLibraries &libraries = {}) { check(try_set_gpu_info(libraries)); }
    void gpu_start(const GpuOptions &options = {}) { check(try_gpu_start(options)); }
    tp_gpu_report gpu_stop(std::vector<std::string> *warnings = nullptr) {
        tp_gpu_report report;
        check(try_gpu_stop(&report, warnings));
        return report;
    }
    tp_counts counts() const {
        tp_counts counts;
        check(try_counts(counts));
        return counts;
    }
    void write(std::string_view path, const WriteOptions &options = {}) const { check(try_write(path, options)); }
    template <class Output, class = std::enable_if_t<std::is_invocable_r_v<bool, const Output &, std::string_view>>>
    void write_to(const Output &output, const WriteOptions &options = {}) const {
        check(try_write_to(output, options));
    }
    // Writes the document to a stream, which must be binary if it is compressed, and flushes it. Throws
    // std::ios_base::failure if the stream fails.
    void write_to(std::ostream &stream, const WriteOptions &options = {}) const {
        const auto put = [&](std::string_view piece) {
            return static_cast<bool>(stream.write(piece.data(), static_cast<std::streamsize>(piece.size())));
        };
        const Status status = try_write_to(put, options);
        if (!stream.flush()) throw std::ios_base::failure("the stream did not take the trace");
        check(status);
    }
#endif

private:
    template <class T>
    Status one(tp_status (*call)(tp_trace *, const T *), const T &raw) noexcept {
        return Status{call(trace_, &raw)};
    }
#if TP_EXCEPTIONS
    static void check(const Status &status) {
        if (!status) throw Error(status);
    }
#endif

    tp_trace *trace_ = nullptr;
};

// Says that the CUDA calls of this thread come from the op of that id, as long as this object lives.
class GpuOp {
public:
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

// How files are merged.
struct MergeOptions {
    bool verbatim = false; // shift pids by rank x 10,000,000 and change nothing else
    bool salvage = false;  // keep what can be kept of damaged files
    bool fsync = false;    // wait until the file is on the disk
    std::int32_t alignment = TP_ALIGN_AUTO;
    std::vector<std::int64_t> offsets_ns; // for TP_ALIGN_OFFSETS: one for each file
    Compression compression = Compression::by_name;
    int level = 0;        // gzip level from 1 to 9; 0: the default
    unsigned threads = 0; // 0: one per core
    std::string_view trace_name;
    // Which events are merged; see tp_merge_options.
    std::vector<std::int64_t> ranks;
    std::optional<std::pair<std::int64_t, std::int64_t>> window_ns; // from, to, after the earliest event
    std::vector<std::string> categories;
    std::uint64_t min_duration_ns = 0;
    std::vector<std::string> names;         // regular expressions
    std::vector<std::string> exclude_names; // the same
    std::uint64_t max_bytes = 0;            // 0: no bound
    // Told how far the merge has come, on the calling thread; false cancels.
    std::function<bool(const tp_progress &)> progress;
    // Told what was odd about the files, on the calling thread.
    std::function<void(std::string_view)> warn;
};

namespace detail {
inline std::vector<tp_str> strs(const std::vector<std::string> &from) {
    std::vector<tp_str> texts;
    for (const std::string &text : from) texts.push_back(str(text));
    return texts;
}

// MergeOptions as the library takes them, with what they point to.
struct MergeCall {
    using Tell = std::function<bool(std::string_view)>;

    explicit MergeCall(const MergeOptions &given)
        : progress{given.progress}, tell([&given](std::string_view text) { return given.warn(text), true; }),
          warn{tell}, categories(strs(given.categories)), names(strs(given.names)),
          exclude_names(strs(given.exclude_names)) {
        options.flags = (given.verbatim ? TP_MERGE_VERBATIM : 0u) | (given.salvage ? TP_MERGE_SALVAGE : 0u) |
                        (given.fsync ? TP_MERGE_FSYNC : 0u) | (given.window_ns ? TP_MERGE_WINDOW : 0u);
        options.alignment = given.alignment;
        options.offsets_ns = given.offsets_ns.data();
        options.offset_count = given.offsets_ns.size();
        options.compression = static_cast<std::int32_t>(given.compression);
        options.level = given.level;
        options.threads = given.threads;
        options.trace_name = str(given.trace_name);
        options.ranks = given.ranks.data();
        options.rank_count = given.ranks.size();
        if (given.window_ns) {
            options.window_start_ns = given.window_ns->first;
            options.window_end_ns = given.window_ns->second;
        }
        options.categories = categories.data();
        options.category_count = categories.size();
        options.names = names.data();
        options.name_count = names.size();
        options.exclude_names = exclude_names.data();
        options.exclude_name_count = exclude_names.size();
        options.min_duration_ns = given.min_duration_ns;
        options.max_bytes = given.max_bytes;
        if (given.progress) {
            options.progress = [](const tp_progress *state, void *data) -> std::int32_t {
                return (*static_cast<Progress *>(data))(*state) ? 0 : 1;
            };
            options.progress_data = &progress;
        }
        if (given.warn) {
            options.warn = [](tp_str message, void *data) {
                (*static_cast<Shield<Tell> *>(data))(std::string_view(message.ptr, message.len));
            };
            options.warn_data = &warn;
        }
    }
    MergeCall(const MergeCall &) = delete;
    MergeCall &operator=(const MergeCall &) = delete;

    Status done(tp_status code) {
        progress.rethrow();
        warn.rethrow();
        return Status{code};
    }

    Progress progress;
    const Tell tell;
    Shield<Tell> warn;
    std::vector<tp_str> categories, names, exclude_names;
    tp_merge_options options = TP_INIT(tp_merge_options);
};

// Takes what the library gives, one text after the other.
struct Texts {
    Texts() : push([this](std::string_view text) { return list.emplace_back(text), true; }), shield{push} {}
    Texts(const Texts &) = delete;
    Texts &operator=(const Texts &) = delete;

    static void take(tp_str text, void *data) {
        (*static_cast<Shield<MergeCall::Tell> *>(data))(std::string_view(text.ptr, text.len));
    }

    std::vector<std::string> list;
    const MergeCall::Tell push;
    Shield<MergeCall::Tell> shield;
};
} // namespace detail

// Merges trace files, one for each rank, into one; see tp_trace_merge. What a callback throws comes out of this call.
// Makes the trace that the journal of a process tells of, and writes it; see tp_recover.
inline Status try_recover(std::string_view journal, std::string_view out_path, const WriteOptions &given = {},
                          RecoverReport *report = nullptr) {
    detail::Progress progress{given.progress};
    const tp_write_options options = detail::raw(given, progress);
    tp_recover_report told = TP_INIT(tp_recover_report);
    const tp_status code = tp_recover(str(journal), str(out_path), &options, &told);
    progress.rethrow();
    if (report != nullptr && code == TP_STATUS_OK) {
        *report = {told.events, told.unfinished, told.journal_bytes, told.cut_bytes};
    }
    return Status{code};
}

inline Status try_merge(const std::vector<std::string> &paths, std::string_view out_path,
                        const MergeOptions &given = {}, tp_merge_report *report = nullptr) {
    detail::MergeCall call(given);
    const std::vector<tp_str> texts = detail::strs(paths);
    if (report != nullptr) *report = TP_INIT(tp_merge_report);
    return call.done(tp_trace_merge(texts.data(), texts.size(), str(out_path), &call.options, report));
}

// A merge in parts, which may run on several machines; see tp_merge_survey. `out` is written on success.
inline Status try_merge_survey(std::string_view path, std::string &out, const MergeOptions &given = {}) {
    detail::MergeCall call(given);
    detail::Texts texts;
    const Status status = call.done(tp_merge_survey(str(path), &call.options, detail::Texts::take, &texts.shield));
    texts.shield.rethrow();
    if (status) out = std::move(texts.list.front());
    return status;
}

struct MergePlan {
    std::vector<std::string> tasks; // one for each survey; empty for a file that is left out
    std::string join;
};

inline Status try_merge_plan(const std::vector<std::string> &surveys, MergePlan &out, const MergeOptions &given = {}) {
    detail::MergeCall call(given);
    const std::vector<tp_str> from = detail::strs(surveys);
    detail::Texts texts;
    const Status status = call.done(
        tp_merge_plan(from.data(), from.size(), &call.options, detail::Texts::take, &texts.shield));
    texts.shield.rethrow();
    if (status) {
        out.join = std::move(texts.list.back());
        texts.list.pop_back();
        out.tasks = std::move(texts.list);
    }
    return status;
}

inline Status try_merge_fragment(std::string_view path, std::string_view task, std::string_view out_path,
                                 const MergeOptions &given = {}) {
    detail::MergeCall call(given);
    return call.done(tp_merge_fragment(str(path), str(task), str(out_path), &call.options));
}

inline Status try_merge_join(std::string_view plan, const std::vector<std::string> &fragments,
                             std::string_view out_path, const MergeOptions &given = {},
                             tp_merge_report *report = nullptr) {
    detail::MergeCall call(given);
    const std::vector<tp_str> texts = detail::strs(fragments);
    if (report != nullptr) *report = TP_INIT(tp_merge_report);
    return call.done(
        tp_merge_join(str(plan), texts.data(), texts.size(), str(out_path), &call.options, report));
}

#if TP_EXCEPTIONS
inline RecoverReport recover(std::string_view journal, std::string_view out_path, const WriteOptions &options = {}) {
    RecoverReport report;
    const Status status = try_recover(journal, out_path, options, &report);
    if (!status) throw Error(status);
    return report;
}

inline tp_merge_report merge(const std::vector<std::string> &paths, std::string_view out_path,
                             const MergeOptions &options = {}) {
    tp_merge_report report;
    const Status status = try_merge(paths, out_path, options, &report);
    if (!status) throw Error(status);
    return report;
}

inline std::string merge_survey(std::string_view path, const MergeOptions &options = {}) {
    std::string survey;
    const Status status = try_merge_survey(path, survey, options);
    if (!status) throw Error(status);
    return survey;
}

inline MergePlan merge_plan(const std::vector<std::string> &surveys, const MergeOptions &options = {}) {
    MergePlan plan;
    const Status status = try_merge_plan(surveys, plan, options);
    if (!status) throw Error(status);
    return plan;
}

inline void merge_fragment(std::string_view path, std::string_view task, std::string_view out_path,
                           const MergeOptions &options = {}) {
    const Status status = try_merge_fragment(path, task, out_path, options);
    if (!status) throw Error(status);
}

inline tp_merge_report merge_join(std::string_view plan, const std::vector<std::string> &fragments,
                                  std::string_view out_path, const MergeOptions &options = {}) {
    tp_merge_report report;
    const Status status = try_merge_join(plan, fragments, out_path, options, &report);
    if (!status) throw Error(status);
    return report;
}
#endif

} // namespace tp

#endif // TPTRACE_TRACER_HPP
