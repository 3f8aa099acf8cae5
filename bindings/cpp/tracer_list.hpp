// tracer_list.hpp: the lists of tracer.hpp, which includes it.
//
// A std::vector would do; <vector> alone makes a small program a tenth slower to compile.
#ifndef TPTRACE_TRACER_LIST_HPP
#define TPTRACE_TRACER_LIST_HPP

#include <cstddef>
#include <initializer_list>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>

#include "tracer.h"
#include "tracer_status.hpp"

namespace tp {
namespace detail {

// Plain values one after the other, all of one type, which only who adds and reads them knows: so this is no template,
// which would be compiled for each of them.
class Bytes {
public:
    Bytes() = default;
    Bytes(const Bytes &other) { append(other.data_, other.size_); }
    Bytes(Bytes &&other) noexcept { swap(other); }
    Bytes &operator=(Bytes other) noexcept { return swap(other), *this; }
    ~Bytes() { ::operator delete(data_); }

    void append(const void *from, std::size_t bytes) {
        if (bytes == 0) return;
        char *const before = data_;
        if (bytes > capacity_ - size_) {
            const std::size_t capacity = 2 * capacity_ + bytes;
            data_ = static_cast<char *>(::operator new(capacity));
            capacity_ = capacity;
            if (size_ != 0) std::char_traits<char>::copy(data_, before, size_);
        }
        std::char_traits<char>::copy(data_ + size_, static_cast<const char *>(from), bytes);
        size_ += bytes;
        if (before != data_) ::operator delete(before);
    }
    void swap(Bytes &other) noexcept {
        char *const data = data_;
        const std::size_t size = size_, capacity = capacity_;
        data_ = other.data_, size_ = other.size_, capacity_ = other.capacity_;
        other.data_ = data, other.size_ = size, other.capacity_ = capacity;
    }

    const void *data() const noexcept { return data_; }
    // In bytes.
    std::size_t size() const noexcept { return size_; }

private:
    char *data_ = nullptr;
    std::size_t size_ = 0, capacity_ = 0;
};

} // namespace detail

// Values that options and results own. Converts from std::vector and the like, and to them.
template <class T>
class List {
public:
    using value_type = T;
    using size_type = std::size_t;
    using iterator = T *;
    using const_iterator = const T *;

    List() = default;
    List(std::initializer_list<T> values) : List() { assign(values.begin(), values.end()); }
    template <class Range, class = std::enable_if_t<!std::is_same_v<Range, List> && !std::is_convertible_v<Range, T>>,
              class = decltype(T(*std::begin(*static_cast<const Range *>(nullptr))))>
    List(const Range &range) : List() {
        assign(std::begin(range), std::end(range));
    }
    List(const List &other) : List() { assign(other.begin(), other.end()); }
    List(List &&other) noexcept { swap(other); }
    List &operator=(List other) noexcept { return swap(other), *this; }
    ~List() {
        clear();
        ::operator delete(data_);
    }

    T *begin() noexcept { return data_; }
    T *end() noexcept { return data_ + size_; }
    const T *begin() const noexcept { return data_; }
    const T *end() const noexcept { return data_ + size_; }
    const T *cbegin() const noexcept { return data_; }
    const T *cend() const noexcept { return data_ + size_; }
    T *data() noexcept { return data_; }
    const T *data() const noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    std::size_t capacity() const noexcept { return capacity_; }
    bool empty() const noexcept { return size_ == 0; }
    T &operator[](std::size_t at) noexcept { return data_[at]; }
    const T &operator[](std::size_t at) const noexcept { return data_[at]; }
    T &front() noexcept { return data_[0]; }
    const T &front() const noexcept { return data_[0]; }
    T &back() noexcept { return data_[size_ - 1]; }
    const T &back() const noexcept { return data_[size_ - 1]; }

    template <class... From>
    T &emplace_back(From &&...from) {
        // Made first: it may be made from a value of this list.
        T made(static_cast<From &&>(from)...);
        if (size_ == capacity_) reserve(2 * capacity_ + 1);
        return *new (data_ + size_++) T(static_cast<T &&>(made));
    }
    void push_back(const T &value) { emplace_back(value); }
    void push_back(T &&value) { emplace_back(static_cast<T &&>(value)); }
    void pop_back() noexcept { data_[--size_].~T(); }
    void clear() noexcept {
        while (size_ != 0) pop_back();
    }
    void resize(std::size_t size) {
        while (size_ > size) pop_back();
        while (size_ < size) emplace_back();
    }
    template <class From, class To>
    void assign(From from, To to) {
        List made;
        for (; from != to; ++from) made.emplace_back(*from);
        swap(made);
    }
    void reserve(std::size_t capacity) {
        static_assert(std::is_nothrow_move_constructible_v<T>, "values move when the list grows");
        if (capacity <= capacity_) return;
        T *const data = static_cast<T *>(::operator new(capacity * sizeof(T)));
        for (std::size_t i = 0; i < size_; i++) {
            new (data + i) T(static_cast<T &&>(data_[i]));
            data_[i].~T();
        }
        ::operator delete(data_);
        data_ = data;
        capacity_ = capacity;
    }
    void swap(List &other) noexcept {
        T *const data = data_;
        const std::size_t size = size_, capacity = capacity_;
        data_ = other.data_, size_ = other.size_, capacity_ = other.capacity_;
        other.data_ = data, other.size_ = size, other.capacity_ = capacity;
    }

    // A std::vector, and whatever else is made from a range.
    template <class Range, class = std::enable_if_t<std::is_same_v<typename Range::value_type, T> &&
                                                    std::is_constructible_v<Range, const T *, const T *>>>
    operator Range() const {
        return Range(begin(), end());
    }

    friend bool operator==(const List &one, const List &other) {
        if (one.size_ != other.size_) return false;
        for (std::size_t i = 0; i < one.size_; i++) {
            if (!(one.data_[i] == other.data_[i])) return false;
        }
        return true;
    }
    friend bool operator!=(const List &one, const List &other) { return !(one == other); }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0, capacity_ = 0;
};

// Texts that a call is given, and that it borrows: a std::vector<std::string> and the like, or {"one", "other"}.
class Texts {
public:
    Texts() = default;
    Texts(std::initializer_list<std::string_view> texts) { add(texts.begin(), texts.end()); }
    template <class Range, class = std::enable_if_t<!std::is_same_v<Range, Texts>>,
              class = decltype(std::string_view(*std::begin(*static_cast<const Range *>(nullptr))))>
    Texts(const Range &range) {
        add(std::begin(range), std::end(range));
    }

    // As the C functions take them; valid as long as this object and the texts are.
    const tp_str *data() const noexcept { return static_cast<const tp_str *>(texts_.data()); }
    std::size_t size() const noexcept { return texts_.size() / sizeof(tp_str); }

private:
    template <class From, class To>
    void add(From from, To to) {
        for (; from != to; ++from) {
            const tp_str text = str(std::string_view(*from));
            texts_.append(&text, sizeof text);
        }
    }

    detail::Bytes texts_;
};

} // namespace tp

#endif // TPTRACE_TRACER_LIST_HPP
