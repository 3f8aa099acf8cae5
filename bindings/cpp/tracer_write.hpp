// tracer_write.hpp: how documents are written. Part of tracer.hpp, which includes it.
#ifndef TPTRACE_TRACER_WRITE_HPP
#define TPTRACE_TRACER_WRITE_HPP

#include <cstdint>
#include <string_view>

#include "tracer.h"
#include "tracer_callback.hpp"
#include "tracer_status.hpp"

namespace tp {

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
    ProgressCallback progress;
};

namespace detail {
inline tp_write_options raw(const WriteOptions &given, Progress &progress) noexcept {
    tp_write_options options{};
    options.size = sizeof options;
    options.format = static_cast<std::int32_t>(given.format);
    options.compression = static_cast<std::int32_t>(given.compression);
    options.level = given.level;
    options.threads = given.threads;
    options.flags = (given.fsync ? TP_WRITE_FSYNC : 0u) | (given.keep_overlaps ? TP_WRITE_KEEP_OVERLAPS : 0u);
    options.trace_name = str(given.trace_name);
    if (given.progress) {
        options.progress = Progress::call;
        options.progress_data = &progress;
    }
    return options;
}
} // namespace detail

// What became of a journal.
struct RecoverReport {
    std::uint64_t events = 0;
    std::uint64_t unfinished = 0;    // spans that end where the journal does
    std::uint64_t journal_bytes = 0; // that were read
    std::uint64_t cut_bytes = 0;     // behind them, damaged or half written
};

// Makes the trace that the journal of a process tells of, and writes it; see tp_recover. What a callback throws comes out
// of this call.
inline Status try_recover(std::string_view journal, std::string_view out_path, const WriteOptions &given = {},
                          RecoverReport *report = nullptr) {
    detail::Progress progress{given.progress};
    const tp_write_options options = detail::raw(given, progress);
    tp_recover_report told{};
    told.size = sizeof told;
    const tp_status code = tp_recover(str(journal), str(out_path), &options, &told);
    progress.caught.rethrow();
    if (report != nullptr && code == TP_STATUS_OK) {
        *report = {told.events, told.unfinished, told.journal_bytes, told.cut_bytes};
    }
    return Status{code};
}

#if TP_EXCEPTIONS
inline RecoverReport recover(std::string_view journal, std::string_view out_path, const WriteOptions &options = {}) {
    RecoverReport report;
    detail::check(try_recover(journal, out_path, options, &report));
    return report;
}
#endif

} // namespace tp

#endif // TPTRACE_TRACER_WRITE_HPP
