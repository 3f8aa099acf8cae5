// tracer_callback.hpp: functions of the caller's that the library calls. Part of tracer.hpp, which includes it.
//
// A std::function would do; <functional> takes longer to compile than all of tracer.hpp.
#ifndef TPTRACE_TRACER_CALLBACK_HPP
#define TPTRACE_TRACER_CALLBACK_HPP

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include "tracer.h"
#include "tracer_status.hpp"

namespace tp {

namespace detail {

// An object of the caller's of some type, and what copies and frees it.
class Kept {
public:
    Kept() = default;
    template <class T>
    Kept(T *object, int) noexcept : object_(object), manage_(manage<T>) {}
    Kept(const Kept &other)
        : object_(other.object_ != nullptr ? other.manage_(other.object_, true) : nullptr), manage_(other.manage_) {}
    Kept(Kept &&other) noexcept : object_(other.object_), manage_(other.manage_) { other.object_ = nullptr; }
    Kept &operator=(Kept other) noexcept {
        void *const mine = object_;
        void *(*const manager)(void *, bool) = manage_;
        object_ = other.object_;
        manage_ = other.manage_;
        other.object_ = mine;
        other.manage_ = manager;
        return *this;
    }
    ~Kept() {
        if (object_ != nullptr) manage_(object_, false);
    }

    void *get() const noexcept { return object_; }

private:
    template <class T>
    static void *manage(void *object, bool copy) {
        T *const typed = static_cast<T *>(object);
        if (copy) return new T(*typed);
        delete typed;
        return nullptr;
    }

    void *object_ = nullptr;
    void *(*manage_)(void *object, bool copy) = nullptr;
};

// std::declval, which is <utility>'s.
template <class T>
std::add_rvalue_reference_t<T> some() noexcept;

// Whether a function object may hold no function: a std::function and its like.
template <class Call>
inline constexpr bool holds_a_function = false;
template <template <class> class Function, class Result, class... Argument>
inline constexpr bool holds_a_function<Function<Result(Argument...)>> = true;

} // namespace detail

// A function of the caller's: a lambda, a function pointer or a function object such as a std::function, of which this keeps
// a copy. None if default-made, or made of nullptr or of an empty function; calling none does nothing, and answers true
// where there is an answer.
template <class Signature>
class Callback;

template <class Result, class Argument>
class Callback<Result(Argument)> {
public:
    Callback() = default;
    Callback(std::nullptr_t) noexcept {}
    template <class Call, class Own = std::decay_t<Call>, class = std::enable_if_t<!std::is_same_v<Own, Callback>>,
              class = decltype(static_cast<Result>(detail::some<Own &>()(detail::some<Argument>())))>
    Callback(Call &&call) {
        if constexpr (std::is_pointer_v<Own> || detail::holds_a_function<Own>) {
            if (!call) return;
        }
        call_ = call_own<Own>;
        kept_ = detail::Kept(new Own(static_cast<Call &&>(call)), 0);
    }

    explicit operator bool() const noexcept { return kept_.get() != nullptr; }
    Result operator()(Argument argument) const {
        if (kept_.get() == nullptr) return static_cast<Result>(true);
        return call_(kept_.get(), argument);
    }

private:
    template <class Own>
    static Result call_own(void *own, Argument argument) {
        return static_cast<Result>((*static_cast<Own *>(own))(argument));
    }

    detail::Kept kept_;
    Result (*call_)(void *own, Argument argument) = nullptr;
};

template <class Signature>
bool operator==(const Callback<Signature> &callback, std::nullptr_t) noexcept {
    return !callback;
}
template <class Signature>
bool operator!=(const Callback<Signature> &callback, std::nullptr_t) noexcept {
    return static_cast<bool>(callback);
}

// Told how far a call has come, on the calling thread; false cancels it.
using ProgressCallback = Callback<bool(const tp_progress &)>;
// Told in words what is odd, on the calling thread.
using TextCallback = Callback<void(std::string_view)>;

namespace detail {

// A callback of the caller's behind a C function: what it throws waits here until the library has returned.
template <class Call>
class Shield {
public:
    explicit Shield(const Call &call) noexcept : call_(call) {}

    // False if it threw, and what it answered if it answers.
    template <class Argument>
    bool operator()(const Argument &argument) noexcept {
#if TP_EXCEPTIONS
        try {
            return answer(argument);
        } catch (...) {
            thrown_ = std::current_exception();
            return false;
        }
#else
        return answer(argument);
#endif
    }

    void rethrow() const {
#if TP_EXCEPTIONS
        if (thrown_) std::rethrow_exception(thrown_);
#endif
    }

    // As the C functions take it; `data` is the shield.
    static std::int32_t progress(const tp_progress *state, void *data) {
        return (*static_cast<Shield *>(data))(*state) ? 0 : 1;
    }
    static void text(tp_str text, void *data) {
        (*static_cast<Shield *>(data))(std::string_view(text.ptr, text.len));
    }
    static std::int32_t output(const std::uint8_t *bytes, std::size_t len, void *data) {
        const std::string_view piece(reinterpret_cast<const char *>(bytes), len);
        return (*static_cast<Shield *>(data))(piece) ? 0 : 1;
    }

private:
    template <class Argument>
    bool answer(const Argument &argument) {
        if constexpr (std::is_void_v<decltype(call_(argument))>) {
            return call_(argument), true;
        } else {
            return static_cast<bool>(call_(argument));
        }
    }

    const Call &call_;
#if TP_EXCEPTIONS
    std::exception_ptr thrown_;
#endif
};

using ProgressShield = Shield<ProgressCallback>;
using TextShield = Shield<TextCallback>;

} // namespace detail
} // namespace tp

#endif // TPTRACE_TRACER_CALLBACK_HPP
