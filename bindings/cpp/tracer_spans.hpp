// tracer_spans.hpp: spans that are recorded live, for C++17 and later. Part of tracer.hpp, which includes it.
//
// Nothing here throws or needs exceptions or RTTI. What goes wrong shows in the trace's counts.

#ifndef TPTRACE_TRACER_SPANS_HPP
#define TPTRACE_TRACER_SPANS_HPP

#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <type_traits>

#include "tracer.h"

namespace tp {

namespace detail {
inline tp_str span_str(std::string_view text) noexcept { return tp_str{text.data(), text.size()}; }

inline const tp_trace *handle_of(const tp_trace *trace) noexcept { return trace; }
template <class Trace>
auto handle_of(const Trace &trace) noexcept -> decltype(static_cast<const tp_trace *>(trace.get())) {
    return trace.get();
}
} // namespace detail

// The name of a span, a counter or an argument, interned: make it once. Category: the document's `cat`.
class Name {
public:
    Name() = default;
    explicit Name(std::string_view name, std::string_view category = {}) noexcept {
        (void)tp_name_new(detail::span_str(name), detail::span_str(category), &bits_);
    }
    tp_name bits() const noexcept { return bits_; }

private:
    tp_name bits_ = 0; // none: recording calls answer so
};

// A place in the program that opens spans: its name, and whether its category is on, looked at without a call.
class SpanSite {
public:
    explicit SpanSite(std::string_view name, std::string_view category = {}) noexcept
        : name_(name, category), flag_(tp_category_flag(detail::span_str(category))) {}
    Name name() const noexcept { return name_; }
    bool is_on() const noexcept { return *flag_ != 0; }

private:
    Name name_;
    const volatile std::uint8_t *flag_;
};

// An argument of a span. A key that is text is interned for each span; where that counts, make a Name of it once.
class SpanArg {
public:
    template <class Value>
    SpanArg(Name key, const Value &value) noexcept : key_(key) {
        set(value);
    }
    template <class Value>
    SpanArg(std::string_view key, const Value &value) noexcept : SpanArg(Name(key), value) {}

    void give(const tp_trace *trace) const noexcept {
        switch (kind_) {
        case TP_ARG_INT: (void)tp_span_arg_int(trace, key_.bits(), integer_); break;
        case TP_ARG_UINT: (void)tp_span_arg_uint(trace, key_.bits(), static_cast<std::uint64_t>(integer_)); break;
        case TP_ARG_FLOAT: (void)tp_span_arg_float(trace, key_.bits(), number_); break;
        case TP_ARG_BOOL: (void)tp_span_arg_bool(trace, key_.bits(), integer_ != 0 ? 1 : 0); break;
        default: (void)tp_span_arg_text(trace, key_.bits(), detail::span_str(text_)); break;
        }
    }

private:
    template <class Value>
    void set(const Value &value) noexcept {
        if constexpr (std::is_same_v<Value, bool>) {
            kind_ = TP_ARG_BOOL;
            integer_ = value ? 1 : 0;
        } else if constexpr (std::is_integral_v<Value>) {
            kind_ = std::is_signed_v<Value> ? TP_ARG_INT : TP_ARG_UINT;
            integer_ = static_cast<std::int64_t>(value);
        } else if constexpr (std::is_floating_point_v<Value>) {
            kind_ = TP_ARG_FLOAT;
            number_ = static_cast<double>(value);
        } else {
            text_ = value;
        }
    }

    Name key_;
    std::int32_t kind_ = TP_ARG_TEXT;
    std::int64_t integer_ = 0;
    double number_ = 0;
    std::string_view text_;
};

// A span of this thread, until the end of the scope. Of a trace that is NULL or was freed it is nothing; while its category
// is off it costs a look at one byte.
class ScopedSpan {
public:
    template <class Trace>
    ScopedSpan(const Trace &trace, const SpanSite &site) noexcept
        : ScopedSpan(site.is_on() ? detail::handle_of(trace) : nullptr, site.name().bits()) {}
    template <class Trace>
    ScopedSpan(const Trace &trace, const SpanSite &site, std::initializer_list<SpanArg> args) noexcept
        : ScopedSpan(trace, site) {
        give(args);
    }
    template <class Trace>
    ScopedSpan(const Trace &trace, Name name) noexcept : ScopedSpan(detail::handle_of(trace), name.bits()) {}
    template <class Trace>
    ScopedSpan(const Trace &trace, Name name, std::initializer_list<SpanArg> args) noexcept : ScopedSpan(trace, name) {
        give(args);
    }
    ~ScopedSpan() {
        if (trace_ != nullptr) (void)tp_span_end(trace_);
    }
    ScopedSpan(const ScopedSpan &) = delete;
    ScopedSpan &operator=(const ScopedSpan &) = delete;

    // An argument; of spans inside one another it goes to the innermost.
    void arg(const SpanArg &arg) const noexcept {
        if (trace_ != nullptr) arg.give(trace_);
    }

private:
    ScopedSpan(const tp_trace *trace, tp_name name) noexcept : trace_(trace) {
        if (trace_ == nullptr) return;
        const tp_status status = tp_span_begin(trace_, name);
        // A span that was dropped for want of room has an end all the same.
        if (status != TP_STATUS_OK && status != TP_STATUS_LIMIT) trace_ = nullptr;
    }
    void give(std::initializer_list<SpanArg> args) const noexcept {
        if (trace_ == nullptr) return;
        for (const SpanArg &arg : args) arg.give(trace_);
    }

    const tp_trace *trace_;
};

// What is recorded beside spans, now and on this thread. `trace`: a tp::Trace or a tp_trace pointer; of one that is NULL or was
// freed it is nothing.

// Something that happens.
template <class Trace>
void record_instant(const Trace &trace, Name name) noexcept {
    (void)tp_record_instant(detail::handle_of(trace), name.bits());
}

// The value of a counter.
template <class Trace>
void record_counter(const Trace &trace, Name name, double value) noexcept {
    (void)tp_record_counter(detail::handle_of(trace), name.bits(), value);
}

// A part of a flow: an arrow from one span to others, which hangs on the span that is open on this thread. `id` tells flows
// of one name apart.
enum class Flow : std::int32_t { start = TP_FLOW_START, step = TP_FLOW_STEP, end = TP_FLOW_END };
template <class Trace>
void record_flow(const Trace &trace, Flow part, Name name, std::uint64_t id) noexcept {
    (void)tp_record_flow(detail::handle_of(trace), name.bits(), static_cast<std::int32_t>(part), id);
}

// A part of an async span, which may begin on one thread and end on another. `id` tells those of one category apart.
enum class Async : std::int32_t { begin = TP_ASYNC_BEGIN, instant = TP_ASYNC_INSTANT, end = TP_ASYNC_END };
template <class Trace>
void record_async(const Trace &trace, Async part, Name name, std::uint64_t id) noexcept {
    (void)tp_record_async(detail::handle_of(trace), name.bits(), static_cast<std::int32_t>(part), id);
}

} // namespace tp

// Spans may share a line, in a macro of the program's. Clang 22 calls what all compilers have an extension of C's next standard.
#define TP_DETAIL_UNIQUE __COUNTER__
#if defined(__clang__) && defined(__has_warning)
#if __has_warning("-Wc2y-extensions")
#pragma clang diagnostic ignored "-Wc2y-extensions"
#endif
#endif
#define TP_DETAIL_SPAN(...) TP_DETAIL_SPAN2(__VA_ARGS__)
#define TP_DETAIL_SPAN2(unique, trace, category, name)                                                                 \
    static const ::tp::SpanSite tp_site_##unique{name, category};                                                      \
    const ::tp::ScopedSpan tp_span_##unique(trace, tp_site_##unique)
#define TP_DETAIL_SPAN_ARGS(...) TP_DETAIL_SPAN_ARGS2(__VA_ARGS__)
#define TP_DETAIL_SPAN_ARGS2(unique, trace, category, name, ...)                                                       \
    static const ::tp::SpanSite tp_site_##unique{name, category};                                                      \
    const ::tp::ScopedSpan tp_span_##unique(trace, tp_site_##unique, {__VA_ARGS__})

// A span until the end of the scope. `trace`: a tp::Trace or a tp_trace pointer. `name` and `category` are literals, interned
// once for each place: TP_SPAN(trace, "step"), TP_SPAN_IN(trace, "dataloader", "next batch").
#define TP_SPAN(trace, name) TP_SPAN_IN(trace, "", name)
#define TP_SPAN_IN(trace, category, name) TP_DETAIL_SPAN(TP_DETAIL_UNIQUE, trace, category, name)

// The same with arguments: TP_SPAN_ARGS(trace, "step", {"batch", 3}, {"mode", "train"}).
#define TP_SPAN_ARGS(trace, name, ...) TP_SPAN_ARGS_IN(trace, "", name, __VA_ARGS__)
#define TP_SPAN_ARGS_IN(trace, category, name, ...)                                                                    \
    TP_DETAIL_SPAN_ARGS(TP_DETAIL_UNIQUE, trace, category, name, __VA_ARGS__)

#endif // TPTRACE_TRACER_SPANS_HPP
