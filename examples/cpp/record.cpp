/* Records a little training loop, with GPU work as a profiler would report it, and writes it as a PyTorch-style trace.
 *
 *     c++ -std=c++17 record.cpp -I include -I bindings/cpp -L target/release -ltptrace \
 *         -Wl,-rpath,$PWD/target/release -o record && ./record
 */
#include <cmath>
#include <iostream>
#include <string>

#include "tracer.hpp"

int main(int argc, char **argv) try {
    const std::string path = argc > 1 ? argv[1] : "record.pt.trace.json.gz";

    tp::Trace trace;
    trace.set_rank(0, 1);
    trace.set_thread_name(1, "trainer");

    for (int step = 0; step < 4; step++) {
        const std::string step_name = "ProfilerStep#" + std::to_string(step);
        const auto step_start = tp::now_ns();
        for (const char *layer : {"linear", "gelu", "linear", "softmax"}) {
            const auto start = tp::now_ns();
            double sum = 0;
            for (int i = 1; i < 100000; i++) sum += std::sqrt(i);
            const auto end = tp::now_ns();

            // The op, with the id that its kernel names as external id, ...
            const auto id = trace.add(tp::Op(layer, start, end)
                                          .thread(1)
                                          .input({32, 1024}, tp::TP_FLOAT32)
                                          .call_site("record.cpp:24")
                                          .arg("checksum", sum));
            // ... the call that launched the kernel, inside the op, and the kernel, after it on a stream.
            const auto correlation = 100 * static_cast<std::uint64_t>(step + 1) + id;
            const auto third = (end - start) / 3;
            trace.add(tp::GpuActivity(tp::GpuKind::runtime, "cudaLaunchKernel", start + third, start + 2 * third)
                          .os_thread(1)
                          .correlation(correlation)
                          .external(id));
            trace.add(tp::GpuActivity(tp::GpuKind::kernel, std::string(layer) + "_kernel", end, end + third)
                          .device(0)
                          .stream(7)
                          .correlation(correlation)
                          .external(id)
                          .grid(32, 1, 1)
                          .block(256, 1, 1));
        }
        trace.add(tp::Op(step_name, step_start, tp::now_ns()).kind(tp::OpKind::user_annotation).thread(1));
    }

    tp::WriteOptions options;
    options.format = tp::Format::torch;
    trace.write(path, options);
    std::cout << path << ": open it at https://ui.perfetto.dev\n";
} catch (const tp::Error &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
