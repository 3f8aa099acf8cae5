/* A made-up training run of two ranks, with everything in it that a profiler or a framework records: docs/guide-cpp.md.
 *
 *     c++ -std=c++17 -pthread training.cpp -I include -I bindings/cpp -L target/release -ltptrace \
 *         -Wl,-rpath,$PWD/target/release -o training
 *     ./training run
 *
 * Rank 0 writes its trace in three formats. Rank 1 is killed in its last step; its trace comes from its journal. Both
 * become one. A flight recorder keeps the last of many requests. The folder `run` is made, and may be there.
 */
#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tracer.hpp"

namespace {

constexpr int ranks = 2, steps = 4, rows = 32, requests = 40000;
constexpr std::uint64_t checkpoint_id = 1;

// The system's number of this thread, which live spans go by.
std::uint64_t this_thread() { return static_cast<std::uint64_t>(syscall(SYS_gettid)); }

void compute(int rounds) {
    volatile double sum = 0; // done also where the compiler optimises
    for (int i = 1; i <= rounds * 1000; i++) sum = sum + 1.0 / i;
}

// Batches for the trainer, made one ahead of it by a thread of its own.
class Loader {
public:
    explicit Loader(const tp::Trace &trace) : trace_(trace), thread_([this] { load(); }) {}
    ~Loader() { thread_.join(); }

    int take() {
        std::unique_lock<std::mutex> lock(mutex_);
        changed_.wait(lock, [this] { return loaded_ > taken_; });
        changed_.notify_all();
        return taken_++;
    }

    // Names are interned once, for the whole process.
    static tp::Name flow() {
        static const tp::Name name("batch", "dataloader");
        return name;
    }

private:
    void load() {
        pthread_setname_np(pthread_self(), "loader"); // the lane is called as the system calls the thread
        for (int step = 0; step < steps; step++) {
            {
                TP_SPAN_ARGS_IN(trace_, "dataloader", "load batch", {"step", step});
                compute(100);
                // The arrow starts at the span that is open here, and ends at the step that takes the batch.
                tp::record_flow(trace_, tp::Flow::start, flow(), static_cast<std::uint64_t>(step));
            }
            std::unique_lock<std::mutex> lock(mutex_);
            changed_.wait(lock, [this] { return loaded_ == taken_; });
            loaded_++;
            changed_.notify_all();
        }
    }

    const tp::Trace &trace_;
    std::mutex mutex_;
    std::condition_variable changed_;
    int loaded_ = 0, taken_ = 0;
    std::thread thread_; // the last member: it uses the others
};

class Trainer {
public:
    Trainer(tp::Trace &trace, bool killed) : trace_(trace), killed_(killed) {}

    void train() {
        Loader loader(trace_);
        std::thread saver;
        for (int step = 0; step < steps; step++) {
            // A name that is made up at run time; HTA and TensorBoard know steps by it.
            const tp::ScopedSpan span(trace_, tp::Name("ProfilerStep#" + std::to_string(step)), {{"step", step}});
            const int batch = loader.take();
            tp::record_flow(trace_, tp::Flow::end, Loader::flow(), static_cast<std::uint64_t>(batch));
            train_step(step);
            if (step == 1) {
                tp::record_async(trace_, tp::Async::begin, checkpoint_, checkpoint_id);
                saver = std::thread([this] { save(); });
            }
            if (step == 2) saver.join();
        }
    }

private:
    // Writes a checkpoint: an async span that began on the trainer's thread ends on this one.
    void save() {
        pthread_setname_np(pthread_self(), "saver");
        {
            TP_SPAN_IN(trace_, "io", "write checkpoint");
            compute(200);
        }
        tp::record_async(trace_, tp::Async::end, checkpoint_, checkpoint_id);
    }

    void train_step(int step) {
        struct Ran {
            const char *name, *kernel;
            std::int64_t start, end;
        } layers[] = {{"linear", "gemm", 0, 0}, {"gelu", "gelu_kernel", 0, 0}};
        {
            TP_SPAN_ARGS_IN(trace_, "train", "forward", {"rows", rows});
            compute(50);
            if (killed_ && step == steps - 1) {
                trace_.sync_journal(); // it happens by itself within a second; this example does not wait
                std::raise(SIGKILL);
            }
            for (Ran &layer : layers) {
                layer.start = tp::now_ns();
                compute(100);
                layer.end = tp::now_ns();
                compute(20);
            }
        }
        {
            TP_SPAN_IN(trace_, "train", "backward");
            compute(200);
        }
        tp::record_counter(trace_, loss_, 1.0 / (step + 1));

        // What a framework's own profiler has after a step: ops and GPU work with given times.
        for (const Ran &layer : layers) add_layer(layer.name, layer.kernel, layer.start, layer.end);
        // A counter with two series, at a given time.
        trace_.add(tp::Counter("memory", layers[1].end).arg("allocated", (step + 1) << 20).arg("reserved", 8 << 20));
    }

    void add_layer(std::string_view name, std::string_view kernel, std::int64_t start, std::int64_t end) {
        const std::uint64_t id = trace_.add(tp::Op(name, start, end)
                                                .thread(this_thread())
                                                .input({rows, 1024}, "float")
                                                .input({1024, 1024}, "float")
                                                .arg("layer", name == "linear" ? 0 : 1));
        // The call that launched the kernel, and the kernel on its stream: one correlation id, and the op's id in both.
        const std::int64_t third = (end - start) / 3, launched = start + 2 * third;
        correlation_++;
        trace_.add(tp::GpuActivity(tp::GpuKind::runtime, "cudaLaunchKernel", start + third, launched)
                       .os_thread(this_thread())
                       .correlation(correlation_)
                       .external(id));
        const std::int64_t begins = std::max(launched, stream_free_);
        stream_free_ = begins + third;
        trace_.add(tp::GpuActivity(tp::GpuKind::kernel, kernel, begins, stream_free_)
                       .device(0)
                       .stream(7)
                       .correlation(correlation_)
                       .external(id)
                       .grid(rows, 1, 1)
                       .block(256, 1, 1));
    }

    tp::Trace &trace_;
    const bool killed_;
    const tp::Name checkpoint_{"checkpoint", "io"}, loss_{"loss", "train"};
    std::uint64_t correlation_ = 0;
    std::int64_t stream_free_ = 0;
};

// One rank: a process of its own.
void run_rank(int rank, const std::string &folder) {
    const std::string journal = folder + "/rank" + std::to_string(rank) + ".journal";
    tp::TraceOptions options;
    options.process_name = "trainer";
    options.journal = journal;
    tp::Trace trace(options);
    trace.set_rank(rank, ranks);
    trace.set_thread_name(this_thread(), "trainer");
    Trainer(trace, rank == 1).train();

    const tp_counts counts = trace.counts();
    std::cout << "rank " << rank << ": " << counts.ops << " ops, " << counts.gpu_activities << " GPU activities, "
              << counts.dropped + counts.record_dropped << " dropped\n";

    trace.write(folder + "/rank0.json.gz"); // gzip by its name
    tp::WriteOptions write;
    write.format = tp::Format::torch;
    trace.write(folder + "/rank0.pt.trace.json.gz", write);
    write.format = tp::Format::perfetto;
    trace.write(folder + "/rank0.pftrace", write);
    // The trace was written: the journal goes with it.
}

// A mebibyte for the last of many requests; written when one of them is too slow.
void keep_the_last(const std::string &folder) {
    tp::TraceOptions options;
    options.record_bytes = 1 << 20;
    options.keep_recent = true;
    tp::Trace trace(options);
    const tp::Name key("step");
    for (int number = 0; number < requests; number++) {
        TP_SPAN_ARGS_IN(trace, "server", "request", {key, number});
    }
    // A failure says why and leaves the trace as it was: the program goes on.
    if (const tp::Status status = trace.try_write(folder + "/no/such/folder/recent.json.gz"); !status) {
        std::cerr << "the last requests: " << status.message() << '\n';
        trace.write(folder + "/recent.json.gz");
    }
}

} // namespace

int main(int argc, char **argv) try {
    const std::string folder = argc > 1 ? argv[1] : "run";
    std::filesystem::create_directories(folder);

    // Each child makes a trace of its own. One that was made before the fork would answer TP_STATUS_FORKED there.
    int ended[ranks];
    for (int rank = 0; rank < ranks; rank++) {
        const pid_t child = fork();
        if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
        if (child == 0) {
            run_rank(rank, folder);
            return 0;
        }
        waitpid(child, &ended[rank], 0);
    }
    if (!WIFEXITED(ended[0]) || WEXITSTATUS(ended[0]) != 0) return 1;

    tp::WriteOptions write;
    write.format = tp::Format::torch;
    const std::string journal = folder + "/rank1.journal", recovered = folder + "/rank1.pt.trace.json.gz";
    if (WIFSIGNALED(ended[1])) {
        const tp::RecoverReport report = tp::recover(journal, recovered, write);
        std::cout << "rank 1: killed; " << report.events << " events recovered, " << report.unfinished
                  << " of them unfinished spans\n";
        std::filesystem::remove(journal);
    }

    tp::MergeOptions merge;
    merge.warn = [](std::string_view what) { std::cerr << "merge: " << what << '\n'; };
    const tp_merge_report report =
        tp::merge({folder + "/rank0.pt.trace.json.gz", recovered}, folder + "/merged.pt.trace.json.gz", merge);
    std::cout << "merged: " << report.events << " events" << (report.aligned ? " on one clock" : "") << '\n';

    keep_the_last(folder);
} catch (const std::exception &error) { // tp::Error is one of them: its code() is the TP_STATUS_ number
    std::cerr << error.what() << '\n';
    return 1;
}
