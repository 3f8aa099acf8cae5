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

// std::declval, which is <utility>'s.
template <class T>
std::add_rvalue_reference_t<T> some() noexcept;

// What a function of the caller's throws while the library calls it, until the library has returned.
class Caught {
public:
    Caught() = default;
    Caught(const Caught &) = delete;
    Caught &operator=(const Caught &) = delete;
    ~Caught() {
        if (thrown_ != nullptr) thrown_->end(thrown_, false);
    }

    // What the call answers, or true if nothing; false if it throws.
    template <class Call, class Argument>
    bool call(Call &call, const Argument &argument) noexcept {
#if TP_EXCEPTIONS
        try {
            return answer(call, argument);
        } catch (...) {
            if (thrown_ == nullptr) thrown_ = new Exception;
            return false;
        }
#else
        return answer(call, argument);
#endif
    }

    void rethrow() {
        Thrown *const thrown = thrown_;
        thrown_ = nullptr;
        if (thrown != nullptr) thrown->end(thrown, true);
    }

private:
    // A program whose calls can throw nothing does without the code for it.
    struct Thrown {
        void (*end)(Thrown *self, bool rethrow);
    };
#if TP_EXCEPTIONS
    struct Exception : Thrown {
        Exception() noexcept : Thrown{finish}, what(std::current_exception()) {}
        static void finish(Thrown *self, bool rethrow) {
            const std::exception_ptr what = static_cast<Exception *>(self)->what;
            delete static_cast<Exception *>(self);
            if (rethrow) std::rethrow_exception(what);
        }
        std::exception_ptr what;
    };
#endif

    template <class Call, class Argument>
    static bool answer(Call &call, const Argument &argument) {
        if constexpr (std::is_void_v<decltype(call(argument))>) {
            return call(argument), true;
        } else {
            return static_cast<bool>(call(argument));
        }
    }

    Thrown *thrown_ = nullptr;
};

// A copy of an object of the caller's, and what knows its type.
class Kept {
public:
    Kept() = default;
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

    template <class T>
    void keep(T *object) noexcept {
        object_ = object;
        manage_ = manage<T>;
    }
    void *get() const noexcept { return object_; }

private:
    template <class T>
    static void *manage(void *object, bool copy) {
        if (copy) return new T(*static_cast<T *>(object));
        delete static_cast<T *>(object);
        return nullptr;
    }

    void *object_ = nullptr;
    void *(*manage_)(void *object, bool copy) = nullptr;
};

// Whether a function object may hold no function: a std::function and its like.
template <class Call>
inline constexpr bool holds_a_function = false;
template <template <class> class Function, class Result, class... Argument>
inline constexpr bool holds_a_function<Function<Result(Argument...)>> = true;

} // namespace detail

// A function of the caller's: a lambda, a function pointer or a function object such as a std::function, of which this keeps
// a copy. None if default-made, or made of nullptr or of an empty function; calling none does nothing, and answers true
// where there is an answer. Copies and calls of one object from several threads are as safe as those of the function.
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
        using Given = std::remove_reference_t<Call>;
        if constexpr ((std::is_pointer_v<Own> && !std::is_function_v<Given>) || detail::holds_a_function<Own>) {
            if (!call) return;
        }
        kept_.keep(new Own(static_cast<Call &&>(call)));
        call_ = call_own<Own>;
    }

    explicit operator bool() const noexcept { return kept_.get() != nullptr; }
    Result operator()(Argument argument) const {
        return kept_.get() != nullptr ? call_(kept_.get(), argument, nullptr) : static_cast<Result>(true);
    }
    // The same; what it throws goes to `caught`, and the answer is false. For this library's use; not where there is none.
    Result guarded(Argument argument, detail::Caught &caught) const noexcept {
        return call_(kept_.get(), argument, &caught);
    }

private:
    template <class Own>
    static Result call_own(void *own, Argument argument, detail::Caught *caught) {
        Own &call = *static_cast<Own *>(own);
        return static_cast<Result>(caught != nullptr ? static_cast<Result>(caught->call(call, argument))
                                                     : static_cast<Result>(call(argument)));
    }

    detail::Kept kept_;
    Result (*call_)(void *own, Argument argument, detail::Caught *caught) = nullptr;
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

// A callback as the library takes it: a C function, and what it is given, which is this object.
struct Progress {
    explicit Progress(const ProgressCallback &given) noexcept : callback(given) {}
    static std::int32_t call(const tp_progress *state, void *data) {
        Progress *const self = static_cast<Progress *>(data);
        return self->callback.guarded(*state, self->caught) ? 0 : 1;
    }
    const ProgressCallback &callback;
    Caught caught;
};

struct Warn {
    explicit Warn(const TextCallback &given) noexcept : callback(given) {}
    static void call(tp_str text, void *data) {
        Warn *const self = static_cast<Warn *>(data);
        self->callback.guarded(std::string_view(text.ptr, text.len), self->caught);
    }
    const TextCallback &callback;
    Caught caught;
};

} // namespace detail
} // namespace tp

#endif // TPTRACE_TRACER_CALLBACK_HPP
