// tracer_events.hpp: events that build themselves. Part of tracer.hpp, which includes it.
//
// Texts are borrowed until the event has been added to a trace, which copies them.
#ifndef TPTRACE_TRACER_EVENTS_HPP
#define TPTRACE_TRACER_EVENTS_HPP

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "tracer.h"
#include "tracer_list.hpp"
#include "tracer_status.hpp"

namespace tp {

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
        args_.push(made);
        return static_cast<Self &>(*this);
    }

protected:
    Bytes args_;
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
        dims_.append(shape, rank * sizeof *shape);
        ranks_.push(static_cast<std::uint32_t>(rank));
        dtypes_.push(dtype);
        return *this;
    }
    // One input whose element type is given as text. Either all inputs of an op are, or none.
    Op &input(std::initializer_list<std::int64_t> shape, std::string_view dtype) {
        dims_.append(shape.begin(), shape.size() * sizeof(std::int64_t));
        ranks_.push(static_cast<std::uint32_t>(shape.size()));
        dtype_names_.push(str(dtype));
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
    Op &frame(std::string_view frame) { return stack_.push(str(frame)), *this; }

    // The C struct; valid until this object changes.
    tp_op raw() const noexcept {
        tp_op op = op_;
        op.input_count = ranks_.count<std::uint32_t>();
        op.ranks = ranks_.as<std::uint32_t>();
        op.dims = dims_.as<std::int64_t>();
        op.dtypes = dtype_names_.empty() ? dtypes_.as<std::int32_t>() : nullptr;
        op.dtype_names = dtype_names_.as<tp_str>();
        op.dtype_count = dtype_names_.empty() ? dtypes_.count<std::int32_t>() : dtype_names_.count<tp_str>();
        op.stack = stack_.as<tp_str>();
        op.stack_count = stack_.count<tp_str>();
        op.args = args_.as<tp_arg>();
        op.arg_count = args_.count<tp_arg>();
        return op;
    }

private:
    tp_op op_;
    detail::Bytes ranks_, dims_, dtypes_, dtype_names_, stack_;
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
        gpu.args = args_.as<tp_arg>();
        gpu.arg_count = args_.count<tp_arg>();
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
        memory.args = args_.as<tp_arg>();
        memory.arg_count = args_.count<tp_arg>();
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
    Sample &frame(std::string_view frame) { return stack_.push(str(frame)), *this; }

    tp_sample raw() const noexcept {
        tp_sample sample = sample_;
        sample.stack = stack_.as<tp_str>();
        sample.stack_count = stack_.count<tp_str>();
        sample.args = args_.as<tp_arg>();
        sample.arg_count = args_.count<tp_arg>();
        return sample;
    }

private:
    tp_sample sample_;
    detail::Bytes stack_;
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
        counter.values = args_.as<tp_arg>();
        counter.value_count = args_.count<tp_arg>();
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
        instant.args = args_.as<tp_arg>();
        instant.arg_count = args_.count<tp_arg>();
        return instant;
    }

private:
    tp_instant instant_;
};

} // namespace tp

#endif // TPTRACE_TRACER_EVENTS_HPP
