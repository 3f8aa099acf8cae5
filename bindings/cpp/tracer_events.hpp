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

inline void append(Bytes &texts, std::string_view text) {
    const tp_str made = str(text);
    texts.append(&made, sizeof made);
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
        args_.append(&made, sizeof made);
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
    Op(std::string_view name, std::int64_t start_ns, std::int64_t end_ns) : op_{} {
        op_.size = sizeof op_;
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
        dtypes_.append(&dtype, sizeof dtype);
        return add_shape(shape, rank);
    }
    // One input whose element type is given as text. Either all inputs of an op are, or none.
    Op &input(std::initializer_list<std::int64_t> shape, std::string_view dtype) {
        detail::append(dtype_names_, dtype);
        return add_shape(shape.begin(), shape.size());
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
    Op &frame(std::string_view frame) { return detail::append(stack_, frame), *this; }

    // The C struct; valid until this object changes.
    tp_op raw() const noexcept {
        tp_op op = op_;
        op.input_count = ranks_.size() / sizeof *op.ranks;
        op.ranks = static_cast<const std::uint32_t *>(ranks_.data());
        op.dims = static_cast<const std::int64_t *>(dims_.data());
        if (dtype_names_.size() != 0) {
            op.dtype_names = static_cast<const tp_str *>(dtype_names_.data());
            op.dtype_count = dtype_names_.size() / sizeof *op.dtype_names;
        } else {
            op.dtypes = static_cast<const std::int32_t *>(dtypes_.data());
            op.dtype_count = dtypes_.size() / sizeof *op.dtypes;
        }
        op.stack = static_cast<const tp_str *>(stack_.data());
        op.stack_count = stack_.size() / sizeof *op.stack;
        op.args = static_cast<const tp_arg *>(args_.data());
        op.arg_count = args_.size() / sizeof(tp_arg);
        return op;
    }

private:
    Op &add_shape(const std::int64_t *shape, std::size_t rank) {
        const std::uint32_t dims = static_cast<std::uint32_t>(rank);
        ranks_.append(&dims, sizeof dims);
        dims_.append(shape, rank * sizeof *shape);
        return *this;
    }

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
        : gpu_{} {
        gpu_.size = sizeof gpu_;
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
        gpu.args = static_cast<const tp_arg *>(args_.data());
        gpu.arg_count = args_.size() / sizeof(tp_arg);
        return gpu;
    }

private:
    tp_gpu_activity gpu_;
};

// Memory given out (positive or not, `bytes` is what the event says) or taken back.
class MemoryEvent : public detail::Args<MemoryEvent> {
public:
    MemoryEvent(bool allocated, std::uint64_t address, std::int64_t bytes, std::int64_t time_ns)
        : memory_{} {
        memory_.size = sizeof memory_;
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
        memory.args = static_cast<const tp_arg *>(args_.data());
        memory.arg_count = args_.size() / sizeof(tp_arg);
        return memory;
    }

private:
    tp_memory_event memory_;
};

// The stack of one thread at one moment.
class Sample : public detail::Args<Sample> {
public:
    Sample(std::uint64_t os_thread, std::int64_t time_ns) : sample_{} {
        sample_.size = sizeof sample_;
        sample_.os_thread = os_thread;
        sample_.time_ns = time_ns;
    }
    // The next frame; the innermost first.
    Sample &frame(std::string_view frame) { return detail::append(stack_, frame), *this; }

    tp_sample raw() const noexcept {
        tp_sample sample = sample_;
        sample.stack = static_cast<const tp_str *>(stack_.data());
        sample.stack_count = stack_.size() / sizeof(tp_str);
        sample.args = static_cast<const tp_arg *>(args_.data());
        sample.arg_count = args_.size() / sizeof(tp_arg);
        return sample;
    }

private:
    tp_sample sample_;
    detail::Bytes stack_;
};

// Values of a counter track at one moment: one `arg` for each of its series, a finite number.
class Counter : public detail::Args<Counter> {
public:
    Counter(std::string_view name, std::int64_t time_ns) : counter_{} {
        counter_.size = sizeof counter_;
        counter_.name = str(name);
        counter_.time_ns = time_ns;
    }

    tp_counter raw() const noexcept {
        tp_counter counter = counter_;
        counter.values = static_cast<const tp_arg *>(args_.data());
        counter.value_count = args_.size() / sizeof(tp_arg);
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
    Instant(std::string_view name, std::int64_t time_ns) : instant_{} {
        instant_.size = sizeof instant_;
        instant_.name = str(name);
        instant_.time_ns = time_ns;
    }
    Instant &thread(std::uint64_t id) { return instant_.thread_id = id, *this; }
    Instant &scope(Scope scope) { return instant_.scope = static_cast<std::int32_t>(scope), *this; }

    tp_instant raw() const noexcept {
        tp_instant instant = instant_;
        instant.args = static_cast<const tp_arg *>(args_.data());
        instant.arg_count = args_.size() / sizeof(tp_arg);
        return instant;
    }

private:
    tp_instant instant_;
};

} // namespace tp

#endif // TPTRACE_TRACER_EVENTS_HPP
