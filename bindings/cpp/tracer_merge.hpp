// tracer_merge.hpp: many trace files to one. Part of tracer.hpp, which includes it.
#ifndef TPTRACE_TRACER_MERGE_HPP
#define TPTRACE_TRACER_MERGE_HPP

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "tracer.h"
#include "tracer_callback.hpp"
#include "tracer_list.hpp"
#include "tracer_status.hpp"
#include "tracer_write.hpp"

// Before a function that is compiled only where it is called: what it is made of costs others nothing.
#define TP_DETAIL_ONCE_USED template <class = void>

namespace tp {

// A time from and a time to, in nanoseconds after the earliest event of the input, or neither. Made of two numbers, of a
// std::pair of them, or of a std::optional of that.
class Window {
public:
    Window() = default;
    Window(std::int64_t from_ns, std::int64_t to_ns) noexcept : set_(true), bounds_{from_ns, to_ns} {}
    template <class From, class = std::enable_if_t<std::is_class_v<From> && !std::is_same_v<From, Window>>>
    Window(const From &from) noexcept : Window(of(from, 0)) {}

    bool has_value() const noexcept { return set_; }
    explicit operator bool() const noexcept { return set_; }
    void reset() noexcept { set_ = false; }
    struct Bounds {
        std::int64_t first, second;
    };
    const Bounds &operator*() const noexcept { return bounds_; }
    const Bounds *operator->() const noexcept { return &bounds_; }

private:
    template <class Pair>
    static auto of(const Pair &pair, int) noexcept -> decltype(Window(pair.first, pair.second)) {
        return Window(pair.first, pair.second);
    }
    template <class Optional>
    static auto of(const Optional &optional, int) noexcept -> decltype(Window(optional->first, optional->second)) {
        return optional ? Window(optional->first, optional->second) : Window();
    }
    // std::nullopt, which only <optional> can name: what else is empty and cannot be made of nothing?
    template <class Nothing>
    static std::enable_if_t<std::is_empty_v<Nothing> && !std::is_default_constructible_v<Nothing>, Window>
    of(const Nothing &, long) noexcept {
        return {};
    }

    bool set_ = false;
    Bounds bounds_{0, 0};
};

// How files are merged.
struct MergeOptions {
    bool verbatim = false; // shift pids by rank x 10,000,000 and change nothing else
    bool salvage = false;  // keep what can be kept of damaged files
    bool fsync = false;    // wait until the file is on the disk
    std::int32_t alignment = TP_ALIGN_AUTO;
    List<std::int64_t> offsets_ns; // for TP_ALIGN_OFFSETS: one for each file
    Compression compression = Compression::by_name;
    int level = 0;        // gzip level from 1 to 9; 0: the default
    unsigned threads = 0; // 0: one per core
    std::string_view trace_name;
    // Which events are merged; see tp_merge_options.
    List<std::int64_t> ranks;
    Window window_ns; // from, to, after the earliest event
    List<std::string> categories;
    std::uint64_t min_duration_ns = 0;
    List<std::string> names;         // regular expressions
    List<std::string> exclude_names; // the same
    std::uint64_t max_bytes = 0;            // 0: no bound
    // Told how far the merge has come, on the calling thread; false cancels.
    ProgressCallback progress;
    // Told what was odd about the files, on the calling thread.
    TextCallback warn;
};

namespace detail {

// MergeOptions as the library takes them, with what they point to.
struct MergeCall {
    template <class Options>
    explicit MergeCall(const Options &given)
        : progress{given.progress}, warn{given.warn}, categories(given.categories), names(given.names),
          exclude_names(given.exclude_names) {
        options.size = sizeof options;
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
            options.progress = Progress::call;
            options.progress_data = &progress;
        }
        if (given.warn) {
            options.warn = Warn::call;
            options.warn_data = &warn;
        }
    }
    MergeCall(const MergeCall &) = delete;
    MergeCall &operator=(const MergeCall &) = delete;

    Status done(tp_status code) {
        progress.caught.rethrow();
        warn.caught.rethrow();
        return Status{code};
    }

    Progress progress;
    Warn warn;
    Texts categories, names, exclude_names;
    tp_merge_options options{};
};

inline void clear(tp_merge_report *report) noexcept {
    if (report == nullptr) return;
    *report = {};
    report->size = sizeof *report;
}

// Takes what the library gives, one text after the other.
struct Taken {
    void operator()(tp_str text) { list.emplace_back(text.ptr, text.len); }
    static void call(tp_str text, void *data) {
        Taken *const self = static_cast<Taken *>(data);
        self->caught.call(*self, text);
    }
    List<std::string> list;
    Caught caught;
};

} // namespace detail

// Merges trace files, one for each rank, into one; see tp_trace_merge. What a callback throws comes out of this call.
TP_DETAIL_ONCE_USED
Status try_merge(const Texts &paths, std::string_view out_path,
                        const MergeOptions &given = {}, tp_merge_report *report = nullptr) {
    detail::MergeCall call(given);
    detail::clear(report);
    return call.done(tp_trace_merge(paths.data(), paths.size(), str(out_path), &call.options, report));
}

// A merge in parts, which may run on several machines; see tp_merge_survey. `out` is written on success.
TP_DETAIL_ONCE_USED
Status try_merge_survey(std::string_view path, std::string &out, const MergeOptions &given = {}) {
    detail::MergeCall call(given);
    detail::Taken taken;
    const Status status = call.done(tp_merge_survey(str(path), &call.options, detail::Taken::call, &taken));
    taken.caught.rethrow();
    if (status) out.swap(taken.list.front());
    return status;
}

struct MergePlan {
    List<std::string> tasks; // one for each survey; empty for a file that is left out
    std::string join;
};

TP_DETAIL_ONCE_USED
Status try_merge_plan(const Texts &surveys, MergePlan &out, const MergeOptions &given = {}) {
    detail::MergeCall call(given);
    detail::Taken taken;
    const Status status = call.done(
        tp_merge_plan(surveys.data(), surveys.size(), &call.options, detail::Taken::call, &taken));
    taken.caught.rethrow();
    if (status) {
        out.join.swap(taken.list.back());
        taken.list.pop_back();
        out.tasks.swap(taken.list);
    }
    return status;
}

TP_DETAIL_ONCE_USED
Status try_merge_fragment(std::string_view path, std::string_view task, std::string_view out_path,
                                 const MergeOptions &given = {}) {
    detail::MergeCall call(given);
    return call.done(tp_merge_fragment(str(path), str(task), str(out_path), &call.options));
}

TP_DETAIL_ONCE_USED
Status try_merge_join(std::string_view plan, const Texts &fragments,
                             std::string_view out_path, const MergeOptions &given = {},
                             tp_merge_report *report = nullptr) {
    detail::MergeCall call(given);
    detail::clear(report);
    return call.done(
        tp_merge_join(str(plan), fragments.data(), fragments.size(), str(out_path), &call.options, report));
}

#if TP_EXCEPTIONS
TP_DETAIL_ONCE_USED
tp_merge_report merge(const Texts &paths, std::string_view out_path,
                             const MergeOptions &options = {}) {
    tp_merge_report report;
    detail::check(try_merge(paths, out_path, options, &report));
    return report;
}

TP_DETAIL_ONCE_USED
std::string merge_survey(std::string_view path, const MergeOptions &options = {}) {
    std::string survey;
    detail::check(try_merge_survey(path, survey, options));
    return survey;
}

TP_DETAIL_ONCE_USED
MergePlan merge_plan(const Texts &surveys, const MergeOptions &options = {}) {
    MergePlan plan;
    detail::check(try_merge_plan(surveys, plan, options));
    return plan;
}

TP_DETAIL_ONCE_USED
void merge_fragment(std::string_view path, std::string_view task, std::string_view out_path,
                           const MergeOptions &options = {}) {
    detail::check(try_merge_fragment(path, task, out_path, options));
}

TP_DETAIL_ONCE_USED
tp_merge_report merge_join(std::string_view plan, const Texts &fragments,
                                  std::string_view out_path, const MergeOptions &options = {}) {
    tp_merge_report report;
    detail::check(try_merge_join(plan, fragments, out_path, options, &report));
    return report;
}
#endif

} // namespace tp

#endif // TPTRACE_TRACER_MERGE_HPP
