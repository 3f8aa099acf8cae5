// The C++ wrapper: both kinds of errors, moves, callbacks that throw.
#include <fstream>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "check.h"
#include "tracer.hpp"

static void moves() {
    tp::Trace first, second(tp::Trace::Closed{});
    CHECK(first.get() != nullptr && second.get() == nullptr);
    CHECK(second.try_set_rank(0, 1).code() == TP_STATUS_UNAVAILABLE);
    second = std::move(first);
    CHECK(second.try_set_rank(0, 1).ok());
    tp::Trace third(std::move(second));
    CHECK(second.get() == nullptr && third.get() != nullptr); // NOLINT: moved-from is documented
    tp::TraceOptions bad;
    bad.clock = 55;
    const tp::Status status = third.open(bad);
    CHECK(!status && status.message().find("clock 55") != std::string::npos && third.get() != nullptr);
    CHECK(third.open().ok());
}

static void events(const char *path) {
    tp::TraceOptions options;
    options.has_base = true;
    options.process_name = "wrapper";
    tp::Trace trace(options);
    const auto id = trace.add(tp::Op("op", 1000, 5000)
                                  .thread(~0ull)
                                  .id(77)
                                  .input({2, 3}, tp::TP_FLOAT32)
                                  .input({}, tp::TP_INT64)
                                  .call_site("here")
                                  .gpu(0.5, 2)
                                  .output_bytes(24)
                                  .frame("inner")
                                  .frame("outer")
                                  .arg("text", "value")
                                  .arg("string", std::string("made"))
                                  .arg("int", -3)
                                  .arg("uint", ~0ull)
                                  .arg("float", 0.5f)
                                  .arg("bool", true));
    CHECK(id == 77);
    trace.add(tp::Op("named", 6000, 7000).kind(tp::OpKind::backward).input({4}, "its type"));
    trace.add(tp::GpuActivity(tp::GpuKind::runtime, "launch", 2000, 3000).os_thread(9).correlation(5).external(77));
    trace.add(tp::GpuActivity(tp::GpuKind::kernel, "kernel", 3000, 4000)
                  .device(1)
                  .stream(7)
                  .correlation(5)
                  .external(77)
                  .grid(1, 2, 3)
                  .block(4, 5, 6)
                  .registers_per_thread(32)
                  .shared_memory(1024)
                  .context(1)
                  .graph(2, 3)
                  .priority(-1)
                  .arg("note", "first"));
    trace.add(tp::GpuActivity(tp::GpuKind::memcpy, "copy", 4000, 4500).stream(8).bytes(64).copy_kind(1));
    trace.add(tp::GpuActivity(tp::GpuKind::memset, "fill", 4500, 4600).stream(8).bytes(64).value(3).callback(0));
    trace.add(tp::MemoryEvent(true, 4096, 64, 1500).cuda(1).thread(9).arg("pool", 2));
    trace.add(tp::Sample(9, 1600).frame("inner").frame("outer").arg("state", "running"));
    trace.add(tp::Counter("bytes", 1700).arg("used", 64).arg("free", 0.5));
    trace.add(tp::Instant("now", 1800).scope(tp::Scope::process).thread(9).arg("why", "test"));
    trace.set_process_name("renamed");
    trace.set_thread_name(9, "nine");
    trace.set_backend("nccl");
    trace.set_metadata("note", "[1, 2]");
    const tp_counts counts = trace.counts();
    CHECK(counts.ops == 2 && counts.gpu_activities == 4 && counts.memory_events == 1);
    CHECK(counts.samples == 1 && counts.counters == 1 && counts.instants == 1 && counts.dropped == 0);

    tp::WriteOptions write;
    write.format = tp::Format::torch;
    write.threads = 2;
    std::ostringstream stream;
    trace.write_to(stream, write);
    CHECK(stream.str().find("\"its type\"") != std::string::npos);
    int calls = 0;
    write.progress = [&](const tp_progress &progress) { return ++calls, progress.done <= progress.total; };
    trace.write(path, write);
    CHECK(calls > 0);
}

static void errors() {
    tp::Trace trace;
    try {
        trace.write("/no such folder/x.json");
        CHECK(false); // it did not throw
    } catch (const tp::Error &error) {
        CHECK(error.code() == TP_STATUS_IO);
        CHECK(std::string(error.what()).find("/no such folder/x.json") != std::string::npos);
    }
    try {
        trace.add(tp::Counter("none", 1));
        CHECK(false); // it did not throw
    } catch (const tp::Error &error) {
        CHECK(error.code() == TP_STATUS_INVALID_ARGUMENT);
    }
    tp::Trace moved = std::move(trace);
    try {
        trace.write("nowhere.json");
        CHECK(false); // it did not throw
    } catch (const tp::Error &error) {
        CHECK(error.code() == TP_STATUS_UNAVAILABLE);
        CHECK(std::string(error.what()).size() > std::string("unavailable: ").size());
    }
    trace = std::move(moved);
    // What callbacks throw passes the library by.
    try {
        trace.write_to([](std::string_view) -> bool { throw std::logic_error("from the output"); });
        CHECK(false); // it did not throw
    } catch (const std::logic_error &error) {
        CHECK(std::string(error.what()) == "from the output");
    }
    tp::WriteOptions options;
    options.progress = [](const tp_progress &) -> bool { throw 42; };
    try {
        trace.write_to([](std::string_view) { return true; }, options);
        CHECK(false); // it did not throw
    } catch (int thrown) {
        CHECK(thrown == 42);
    }
    options.progress = [](const tp_progress &) { return false; };
    CHECK(trace.try_write_to([](std::string_view) { return true; }, options).code() == TP_STATUS_CANCELLED);
    CHECK(trace.try_write_to([](std::string_view) { return false; }).code() == TP_STATUS_CALLBACK);
    // A full disk shows at the latest when the stream is flushed, which write_to does.
    std::ofstream full("/dev/full");
    try {
        trace.write_to(full);
        CHECK(false); // it did not throw
    } catch (const std::ios_base::failure &error) {
        CHECK(std::string(error.what()).find("stream") != std::string::npos);
    }
}

static void merging(const std::string &path) {
    const std::string rank = path + ".rank0";
    tp::Trace trace;
    trace.set_rank(0, 2);
    trace.add(tp::Op("op", 1, 2));
    tp::WriteOptions torch;
    torch.format = tp::Format::torch;
    trace.write(rank, torch);
    std::vector<std::string> warnings;
    tp::MergeOptions options;
    options.alignment = TP_ALIGN_OFFSETS;
    options.offsets_ns = {5};
    options.warn = [&](std::string_view text) { warnings.emplace_back(text); };
    options.progress = [](const tp_progress &) { return true; };
    CHECK(tp::merge({rank}, path + ".merged", options).events > 1);
    CHECK(tp::merge({rank, rank}, path + ".merged").events > 2);
    const std::vector<std::string> ranks{rank, rank};
    CHECK(tp::merge(ranks, path + ".merged").events > 2);
    options.window_ns = {1'000'000'000, 2'000'000'000};
    CHECK(tp::merge({rank}, path + ".merged", options).cut_window > 0);
    options.window_ns = {};
    options.names = {"no such name"};
    CHECK(tp::merge({rank}, path + ".merged", options).cut_name > 0);
    options.names = {};
    const tp::MergePlan plan = tp::merge_plan({tp::merge_survey(rank, options)}, options);
    CHECK(plan.tasks.size() == 1);
    tp::merge_fragment(rank, plan.tasks[0], path + ".fragment");
    CHECK(tp::merge_join(plan.join, {path + ".fragment"}, path + ".merged.gz").events > 1);
    std::string survey = "before";
    CHECK(tp::try_merge_survey(path + ".none", survey).code() == TP_STATUS_IO && survey == "before");
    options.offsets_ns = {};
    CHECK(tp::try_merge({rank}, path + ".merged", options).code() == TP_STATUS_INVALID_ARGUMENT);
    options.alignment = TP_ALIGN_AUTO;
    options.warn = [](std::string_view) { throw std::logic_error("from the warning"); };
    try {
        tp::merge({rank, rank}, path + ".merged", options);
        CHECK(false); // it did not throw
    } catch (const std::logic_error &error) {
        CHECK(std::string(error.what()) == "from the warning");
    }
}

static int pointed_at = 0;
static bool point(const tp_progress &) { return ++pointed_at, true; }

// The types of tracer.hpp's own, which stand for those of the standard library that take long to compile.
static void own_types() {
    // Callbacks are made of whatever a std::function is made of, and copied with what they hold.
    tp::ProgressCallback callback;
    CHECK(!callback && callback == nullptr && callback(tp_progress{}));
    callback = point;
    CHECK(callback && callback != nullptr && callback(tp_progress{}) && pointed_at == 1);
    callback = static_cast<bool (*)(const tp_progress &)>(nullptr);
    CHECK(!callback);
    callback = std::function<bool(const tp_progress &)>();
    CHECK(!callback);
    std::function<bool(const tp_progress &)> function = point;
    callback = function;
    CHECK(callback(tp_progress{}) && pointed_at == 2);
    function = callback;
    CHECK(function(tp_progress{}) && pointed_at == 3);
    const auto shared = std::make_shared<int>(0);
    callback = [shared, calls = 0](const tp_progress &) mutable { return *shared = ++calls, calls < 3; };
    CHECK(callback(tp_progress{}) && *shared == 1 && shared.use_count() == 2);
    tp::WriteOptions options;
    options.progress = callback;
    tp::WriteOptions copy = options;
    CHECK(shared.use_count() == 4);
    CHECK(copy.progress(tp_progress{}) && *shared == 2 && !copy.progress(tp_progress{}) && *shared == 3);
    CHECK(options.progress(tp_progress{}) && *shared == 2);
    copy = std::move(options);
    CHECK(copy.progress && !options.progress); // NOLINT: moved-from callbacks are none
    copy.progress = nullptr;
    callback = {};
    CHECK(shared.use_count() == 1);
    tp::TextCallback text = [](std::string_view given) { return given.size(); };
    text("what it answers is not looked at");
    // What is thrown and not asked for is freed; of two the first comes out.
    tp::Trace trace;
    tp::WriteOptions throwing;
    throwing.progress = [](const tp_progress &) -> bool { throw std::string("first"); };
    for (int i = 0; i < 2; i++) {
        try {
            trace.write_to([](std::string_view) -> bool { throw std::string("second"); }, throwing);
            CHECK(false); // it did not throw
        } catch (const std::string &thrown) {
            CHECK(thrown == "first" || thrown == "second");
        }
    }

    // Lists are made of vectors and the like, and vectors of them.
    const std::vector<std::string> paths{"one", "two, a text that is too long to be kept in the string"};
    tp::List<std::string> list = paths;
    const std::vector<std::string> back = list;
    CHECK(back == paths && list.size() == 2);
    for (int i = 0; i < 100; i++) list.push_back(list[static_cast<std::size_t>(i)]);
    CHECK(list.size() == 102 && list.back() == paths[1] && list.front() == "one" && list[99] == paths[1]);
    tp::List<std::string> other = list;
    CHECK(other == list);
    other.pop_back();
    CHECK(other != list && other.size() == 101);
    list = {};
    CHECK(list.empty() && list.begin() == list.end());
    list = {"a", "b"};
    list.resize(3);
    list.emplace_back(2u, 'c');
    std::string all;
    for (const std::string &one : list) all += one + ",";
    CHECK(all == "a,b,,cc,");
    list = std::list<std::string>{"linked"};
    CHECK(list.size() == 1 && list[0] == "linked");
    tp::List<std::int64_t> numbers = std::vector<std::int64_t>{1, 2, 3};
    numbers.assign(numbers.begin() + 1, numbers.end());
    CHECK(numbers.size() == 2 && numbers[0] == 2);

    tp::MergeOptions merge;
    CHECK(!merge.window_ns);
    merge.window_ns = {3, 5};
    CHECK(merge.window_ns && merge.window_ns->first == 3 && (*merge.window_ns).second == 5);
    merge.window_ns = std::nullopt;
    CHECK(!merge.window_ns.has_value());
    merge.window_ns = std::make_pair(std::int64_t{1}, std::int64_t{2});
    CHECK(merge.window_ns->second == 2);
    merge.window_ns = std::optional<std::pair<std::int64_t, std::int64_t>>();
    CHECK(!merge.window_ns);
    merge.window_ns = std::optional<std::pair<std::int64_t, std::int64_t>>({7, 8});
    CHECK(merge.window_ns->first == 7);
    merge.window_ns.reset();
    merge.window_ns = {};
    CHECK(!merge.window_ns);

    // An event keeps what it is given, whoever it is copied from.
    tp::Op op("op", 1, 2);
    op.input({1, 2}, tp::TP_FLOAT32).arg("first", 1);
    tp::Op second = op;
    second.input({3}, tp::TP_INT64).arg("second", 2).frame("frame");
    CHECK(op.raw().input_count == 1 && op.raw().arg_count == 1 && second.raw().input_count == 2);
    op = std::move(second);
    CHECK(op.raw().dims[2] == 3 && op.raw().dtypes[1] == tp::TP_INT64 && op.raw().stack_count == 1);
    trace.add(op);
    CHECK(trace.counts().ops == 1);
}

static void gpus(const std::string &path) {
    tp::GpuLibraries libraries;
    libraries.libcuda = "/nowhere/libcuda.so.1";
    libraries.search_paths = {"/nowhere", "/elsewhere"};
    tp_gpu_facts facts;
    CHECK(tp::try_gpu_info(facts, libraries));
    CHECK(facts.state == TP_GPU_STATE_NO_DRIVER && facts.device_count == 0);
    CHECK(tp::gpu_info_text(libraries).find("/nowhere/libcuda.so.1") != std::string::npos);
    const std::string json = tp::gpu_info_json(libraries);
    CHECK(json.front() == '{' && json.back() == '}');
    tp::Trace trace;
    trace.set_gpu_info(libraries);
    trace.write(path + ".gpu", {});
    tp::GpuOptions options;
    options.libraries = libraries;
    options.kinds = TP_GPU_COLLECT_KERNEL;
    options.warn = [](std::string_view) { throw std::logic_error("not called"); };
    CHECK(trace.try_gpu_start(options).code() == TP_STATUS_GPU_UNAVAILABLE);
    std::vector<std::string> warnings;
    CHECK(trace.try_gpu_stop(nullptr, &warnings).code() == TP_STATUS_INVALID_ARGUMENT && warnings.empty());
    { const tp::GpuOp op(trace, 5); }
    libraries.search_paths = {""};
    CHECK(tp::try_gpu_info(facts, libraries).code() == TP_STATUS_INVALID_ARGUMENT);
    CHECK(tp::gpu_info_text(libraries).empty());
}

static void live(const std::string &path) {
    tp::Trace trace;
    const tp::Name batch("batch");
    for (int i = 0; i < 3; i++) {
        TP_SPAN_ARGS_IN(trace, "train", "step", {batch, i}, {"mode", "eval"}, {"lr", 0.5}, {"last", i == 2});
        TP_SPAN(trace.get(), "inside");
        const tp::ScopedSpan named(trace, tp::Name("named"));
        named.arg({"size", 7u});
    }
    CHECK(tp_category_enable(TP_STR("train"), 0) == TP_STATUS_OK);
    {
        TP_SPAN_IN(trace, "train", "off");
    }
    CHECK(tp_category_enable(TP_STR("train"), 1) == TP_STATUS_OK);
    {
        TP_SPAN(static_cast<tp_trace *>(nullptr), "nowhere");
    }
    tp::record_counter(trace, tp::Name("queue"), 2);
    tp::record_instant(trace.get(), tp::Name("mark"));
    tp::record_instant(static_cast<tp_trace *>(nullptr), tp::Name("nowhere"));
    const tp::Name hands("hands over", "train"), waits("waits", "train");
    tp::record_async(trace, tp::Async::begin, waits, 7);
    {
        TP_SPAN(trace, "gives");
        tp::record_flow(trace, tp::Flow::start, hands, 5);
    }
    {
        TP_SPAN(trace, "takes");
        tp::record_flow(trace, tp::Flow::end, hands, 5);
    }
    tp::record_async(trace, tp::Async::instant, waits, 7);
    tp::record_async(trace, tp::Async::end, waits, 7);
    trace.write(path);
    CHECK(trace.counts().ops == 11 && trace.counts().record_unmatched == 0);
    CHECK(trace.counts().counters == 1 && trace.counts().instants == 1);
    std::string document;
    CHECK(trace.try_write_to([&](std::string_view piece) { return document.append(piece), true; }));
    for (const char *event : {R"("hands over","cat":"train","ph":"s","id":"0x5")", R"("hands over","cat":"train","ph":"f","id":"0x5")",
                              R"("waits","cat":"train","ph":"b","id":"0x7")", R"("waits","cat":"train","ph":"n","id":"0x7")",
                              R"("waits","cat":"train","ph":"e","id":"0x7")"}) {
        CHECK(document.find(event) != std::string::npos);
    }
}

static void journals(const std::string &path) {
    std::remove(path.c_str());
    {
        tp::TraceOptions options;
        options.journal = path;
        options.record_bytes = 1 << 20;
        options.keep_recent = true;
        tp::Trace trace(options);
        TP_SPAN(trace, "kept");
        trace.sync_journal();
        CHECK(!tp::Trace(tp::Trace::Closed{}).open(options));
    }
    const tp::RecoverReport report = tp::recover(path, path + ".json");
    CHECK(report.events == 1 && report.cut_bytes == 0);
    CHECK(!tp::try_recover(path + ".json", path + ".out"));
    CHECK(std::remove(path.c_str()) == 0);
    CHECK(std::remove((path + ".json").c_str()) == 0);
}

static void threads() {
    tp::Trace trace;
    std::vector<std::thread> running;
    for (std::uint64_t number = 0; number < 4; number++) {
        running.emplace_back([&trace, number] {
            for (int i = 0; i < 500; i++) {
                const auto now = tp::now_ns();
                trace.add(tp::Op("op", now, now + 10).thread(number).arg("i", i));
            }
        });
    }
    for (auto &one : running) one.join();
    CHECK(trace.counts().ops == 2000);
}

int main(int argc, char **argv) {
    CHECK(argc >= 2);
    CHECK(!tp::version().empty());
    moves();
    events(argv[1]);
    errors();
    merging(argv[1]);
    live(std::string(argv[1]) + ".live");
    gpus(argv[1]);
    own_types();
    journals(std::string(argv[1]) + ".journal");
    threads();
}
