// What a C++ programmer writes by hand for exactly this workload: one loop over the structs that tptrace is given, one
// buffer, its own integer printing, no store, no escaping, no checks. It prints the same bytes as tptrace for the events
// of benches/workload/mod.rs, and then its seconds: the structs lie in memory before the clock starts.
//
//     writer OPS FILE
#include <fcntl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "../../include/tracer.h"

namespace {

constexpr std::int64_t BASE = 1'000'000'000;

class Out {
public:
    explicit Out(const char *path) : file_(::open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644)) {}
    ~Out() {
        flush();
        ::close(file_);
    }
    // Room for one event.
    void room() {
        if (at_ - buffer_.data() > static_cast<std::ptrdiff_t>(buffer_.size() - 4096)) flush();
    }
    Out &operator<<(std::string_view text) {
        std::memcpy(at_, text.data(), text.size());
        at_ += text.size();
        return *this;
    }
    Out &operator<<(std::uint64_t value) {
        char digits[20];
        char *first = digits + 20;
        while (value >= 100) {
            first -= 2;
            std::memcpy(first, PAIRS + 2 * (value % 100), 2);
            value /= 100;
        }
        if (value >= 10) {
            first -= 2;
            std::memcpy(first, PAIRS + 2 * value, 2);
        } else {
            *--first = static_cast<char>('0' + value);
        }
        return *this << std::string_view(first, static_cast<std::size_t>(digits + 20 - first));
    }
    // Nanoseconds as microseconds.
    Out &time(std::int64_t nanoseconds) {
        const auto value = static_cast<std::uint64_t>(nanoseconds);
        *this << value / 1000;
        const auto rest = value % 1000;
        at_[0] = '.';
        at_[1] = static_cast<char>('0' + rest / 100);
        std::memcpy(at_ + 2, PAIRS + 2 * (rest % 100), 2);
        at_ += 4;
        return *this;
    }

private:
    void flush() {
        for (const char *from = buffer_.data(); from < at_;) {
            const auto written = ::write(file_, from, static_cast<std::size_t>(at_ - from));
            if (written <= 0) std::abort();
            from += written;
        }
        at_ = buffer_.data();
    }

    static constexpr const char *PAIRS =
        "0001020304050607080910111213141516171819202122232425262728293031323334353637383940414243444546474849"
        "5051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    int file_;
    std::vector<char> buffer_ = std::vector<char>(1 << 20);
    char *at_ = buffer_.data();
};

std::string_view view(tp_str text) { return {text.ptr, text.len}; }

const char *dtype(std::int32_t code) { return code == 8 ? "float32" : code == 4 ? "int64" : "undefined"; }

// Numbers of threads and streams in the order of their first use.
class Lanes {
public:
    explicit Lanes(std::uint64_t first) : next_(first) {}
    std::uint64_t operator[](std::uint64_t key) {
        if (key == last_key_) return last_;
        last_key_ = key;
        return last_ = numbers_.try_emplace(key, next_ + numbers_.size()).first->second;
    }

private:
    std::unordered_map<std::uint64_t, std::uint64_t> numbers_;
    std::uint64_t next_, last_key_ = ~0ull, last_ = 0;
};

void process(Out &out, std::int64_t first, std::uint64_t pid, std::string_view label, std::uint64_t sort) {
    out << "{\"ph\":\"M\",\"name\":\"process_name\",\"ts\":";
    out.time(first) << ",\"pid\":" << pid << ",\"tid\":0,\"args\":{\"name\":\"bench\"}},\n";
    out << "{\"ph\":\"M\",\"name\":\"process_labels\",\"ts\":";
    out.time(first) << ",\"pid\":" << pid << ",\"tid\":0,\"args\":{\"labels\":\"" << label << "\"}},\n";
    out << "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"ts\":";
    out.time(first) << ",\"pid\":" << pid << ",\"tid\":0,\"args\":{\"sort_index\":" << sort << "}}";
}

void lane(Out &out, std::int64_t first, std::uint64_t tid, std::uint64_t stream) {
    out << ",\n{\"ph\":\"M\",\"name\":\"thread_name\",\"ts\":";
    out.time(first) << ",\"pid\":1000000,\"tid\":" << tid << ",\"args\":{\"name\":\"stream " << stream << "\"}}";
    out << ",\n{\"ph\":\"M\",\"name\":\"thread_sort_index\",\"ts\":";
    out.time(first) << ",\"pid\":1000000,\"tid\":" << tid << ",\"args\":{\"sort_index\":" << tid << "}}";
}

void print(const std::vector<tp_op> &ops, const std::vector<tp_gpu_activity> &kernels, const char *path) {
    Out out(path);
    const std::int64_t first = ops[0].start_ns - BASE;
    out << "{\"displayTimeUnit\": \"ns\",\n\"traceEvents\": [\n";
    process(out, first, 0, "CPU", 0);
    out << ",\n";
    process(out, first, 1000000, "GPU 0", 6000000);
    lane(out, first, 4, 7);
    lane(out, first, 5, 20);
    Lanes threads(0), streams(4);
    std::int64_t last = 0;
    for (const tp_op &op : ops) {
        out.room();
        last = op.end_ns > last ? op.end_ns : last;
        out << ",\n{\"name\":\"" << view(op.name) << "\",\"cat\":\"cpu_op\",\"ph\":\"X\",\"ts\":";
        out.time(op.start_ns - BASE) << ",\"dur\":";
        out.time(op.end_ns - op.start_ns) << ",\"pid\":0,\"tid\":" << threads[op.thread_id];
        out << ",\"args\":{\"Input Dims\":[";
        const std::int64_t *dim = op.dims;
        for (std::size_t input = 0; input < op.input_count; input++) {
            out << (input ? ",[" : "[");
            for (std::uint32_t axis = 0; axis < op.ranks[input]; axis++) {
                if (axis) out << ",";
                out << static_cast<std::uint64_t>(*dim++);
            }
            out << "]";
        }
        out << "],\"Input type\":[";
        for (std::size_t input = 0; input < op.input_count; input++)
            out << (input ? ",\"" : "\"") << dtype(op.dtypes[input]) << "\"";
        out << "],\"Call site\":\"" << view(op.call_site) << "\"}}";
    }
    for (const tp_gpu_activity &kernel : kernels) {
        out.room();
        last = kernel.end_ns > last ? kernel.end_ns : last;
        out << ",\n{\"name\":\"" << view(kernel.name) << "\",\"cat\":\"kernel\",\"ph\":\"X\",\"ts\":";
        out.time(kernel.start_ns - BASE) << ",\"dur\":";
        out.time(kernel.end_ns - kernel.start_ns) << ",\"pid\":1000000,\"tid\":" << streams[kernel.stream];
        out << ",\"args\":{\"correlation\":" << kernel.correlation_id;
        out << ",\"External id\":" << kernel.external_id << "}}";
    }
    for (const tp_gpu_activity &kernel : kernels) {
        out.room();
        const tp_op &op = ops[kernel.external_id];
        out << ",\n{\"ph\":\"s\",\"id\":" << kernel.correlation_id << ",\"pid\":0,\"tid\":" << threads[op.thread_id];
        out << ",\"ts\":";
        out.time(op.start_ns - BASE) << ",\"cat\":\"ac2g\",\"name\":\"ac2g\"}";
        out << ",\n{\"ph\":\"f\",\"id\":" << kernel.correlation_id << ",\"pid\":1000000,\"tid\":";
        out << streams[kernel.stream] << ",\"ts\":";
        out.time(kernel.start_ns - BASE) << ",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}";
    }
    out << ",\n{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\",\"pid\":\"\",\"tid\":\"\",\"ts\":";
    out.time(last - BASE + 1000) << "}\n]}\n";
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const auto count = static_cast<std::size_t>(std::strtoull(argv[1], nullptr, 10));
    static const std::int64_t DIMS[] = {32, 1024, 1024, 4096, 7};
    static const std::uint32_t RANKS[] = {2, 2};
    static const std::int32_t DTYPES[] = {8, 8};
    std::vector<std::string> names;
    for (int i = 0; i < 200; i++) names.push_back("aten::operation_" + std::to_string(i));
    for (int i = 0; i < 50; i++)
        names.push_back("void at::native::vectorized_elementwise_kernel<4, functor_" + std::to_string(i) + ">(int, float*)");
    for (int i = 0; i < 100; i++) names.push_back("/home/user/project/model/layers.py:" + std::to_string(10 + i));
    const auto text = [&](std::size_t i) { return tp_str{names[i].data(), names[i].size()}; };

    std::vector<tp_op> ops;
    for (std::size_t i = 0; i < count; i++) {
        const auto n = static_cast<std::int64_t>(i);
        tp_op op = TP_INIT(tp_op);
        op.name = text((i * 31) % 200);
        op.start_ns = BASE + n * 2'000 + (n * 7'919) % 997;
        op.end_ns = op.start_ns + 500 + (n * 104'729) % 1'400;
        op.thread_id = 140'000'000'000'000 + (i % 4) * 4'096;
        op.input_count = 2;
        op.ranks = RANKS;
        op.dims = DIMS + i % 2;
        op.dtypes = DTYPES;
        op.call_site = text(250 + (i * 17) % 100);
        ops.push_back(op);
    }
    std::vector<tp_gpu_activity> kernels;
    for (std::size_t i = 0; i < count / 2; i++) {
        tp_gpu_activity kernel = TP_INIT(tp_gpu_activity);
        kernel.flags = TP_GPU_HAS_EXTERNAL_ID;
        kernel.name = text(200 + (i * 13) % 50);
        kernel.start_ns = ops[2 * i].end_ns + 3'000;
        kernel.end_ns = kernel.start_ns + 300 + (static_cast<std::int64_t>(i) * 7'907) % 900;
        kernel.stream = static_cast<std::uint32_t>(7 + (i % 2) * 13);
        kernel.correlation_id = i + 1;
        kernel.external_id = 2 * i;
        kernels.push_back(kernel);
    }
    const auto start = std::chrono::steady_clock::now();
    print(ops, kernels, argv[2]);
    std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}
