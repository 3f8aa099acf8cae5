// tracer_status.hpp: what a call came to, as a value and as an exception. Part of tracer.hpp, which includes it.
#ifndef TPTRACE_TRACER_STATUS_HPP
#define TPTRACE_TRACER_STATUS_HPP

#include <cstdint>
#include <string>
#include <string_view>

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS) || defined(_CPPUNWIND)
#define TP_EXCEPTIONS 1
#include <exception>
#include <stdexcept>
#else
#define TP_EXCEPTIONS 0
#endif

#include "tracer.h"

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
    explicit Error(const Status &status) : std::runtime_error(words(status)), code_(status.code()) {}
    // A TP_STATUS_ number.
    tp_status code() const noexcept { return code_; }

private:
    // Where there is no library, nobody else could say so.
    static std::string words(const Status &status) {
        std::string said;
        said += tp_status_name(status.code());
        if (!status.message().empty()) {
            said.append(": ").append(status.message());
        } else if (status.code() == TP_STATUS_UNAVAILABLE) {
            said += ": no libtptrace that has this call was found, or the trace was closed (TPTRACE_LIBRARY names one)";
        }
        return said;
    }

    tp_status code_;
};

namespace detail {
inline void check(const Status &status) {
    if (!status) throw Error(status);
}
} // namespace detail
#endif

} // namespace tp

#endif // TPTRACE_TRACER_STATUS_HPP
