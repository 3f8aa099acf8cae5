// What a C++ programmer writes by hand for exactly this workload: one loop, one buffer, its own integer printing, no
// checks. It prints the same bytes as tptrace for the events of benches/workload.rs, and then its seconds: the events
// lie in memory before the clock starts.
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
#include <vector>

namespace {

constexpr std::int64_t BASE = 1'000'000'000;

struct Op {
    std::string_view name, call_site;
    std::int64_t start, end;
    std::uint64_t thread;
    const std::int64_t *dims;
};

struct Kernel {
    std::string_view name;
    std::int64_t start, end;
    std::uint32_t stream;
    std::uint64_t correlation, op;
};

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

void print(const std::vector<Op> &ops, const std::vector<Kernel> &kernels, const char *path) {
    Out out(path);
    const std::int64_t first = ops[0].start - BASE;
    out << "{\"displayTimeUnit\": \"ns\",\n\"traceEvents\": [\n";
    process(out, first, 0, "CPU", 0);
    out << ",\n";
    process(out, first, 1000000, "GPU 0", 6000000);
    lane(out, first, 4, 7);
    lane(out, first, 5, 20);
    for (const Op &op : ops) {
        out.room();
        out << ",\n{\"name\":\"" << op.name << "\",\"cat\":\"cpu_op\",\"ph\":\"X\",\"ts\":";
        out.time(op.start - BASE) << ",\"dur\":";
        out.time(op.end - op.start) << ",\"pid\":0,\"tid\":" << op.thread << ",\"args\":{\"Input Dims\":[[";
        out << static_cast<std::uint64_t>(op.dims[0]) << "," << static_cast<std::uint64_t>(op.dims[1]) << "],[";
        out << static_cast<std::uint64_t>(op.dims[2]) << "," << static_cast<std::uint64_t>(op.dims[3]);
        out << "]],\"Input type\":[\"float32\",\"float32\"],\"Call site\":\"" << op.call_site << "\"}}";
    }
    for (const Kernel &kernel : kernels) {
        out.room();
        out << ",\n{\"name\":\"" << kernel.name << "\",\"cat\":\"kernel\",\"ph\":\"X\",\"ts\":";
        out.time(kernel.start - BASE) << ",\"dur\":";
        out.time(kernel.end - kernel.start) << ",\"pid\":1000000,\"tid\":" << (kernel.stream == 7 ? "4" : "5");
        out << ",\"args\":{\"correlation\":" << kernel.correlation << ",\"External id\":" << kernel.op << "}}";
    }
    for (const Kernel &kernel : kernels) {
        out.room();
        const Op &op = ops[kernel.op];
        out << ",\n{\"ph\":\"s\",\"id\":" << kernel.correlation << ",\"pid\":0,\"tid\":" << op.thread << ",\"ts\":";
        out.time(op.start - BASE) << ",\"cat\":\"ac2g\",\"name\":\"ac2g\"}";
        out << ",\n{\"ph\":\"f\",\"id\":" << kernel.correlation << ",\"pid\":1000000,\"tid\":";
        out << (kernel.stream == 7 ? "4" : "5") << ",\"ts\":";
        out.time(kernel.start - BASE) << ",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}";
    }
    std::int64_t last = 0;
    for (const Op &op : ops) last = op.end > last ? op.end : last;
    for (const Kernel &kernel : kernels) last = kernel.end > last ? kernel.end : last;
    out << ",\n{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\",\"pid\":\"\",\"tid\":\"\",\"ts\":";
    out.time(last - BASE + 1000) << "}\n]}\n";
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    const auto count = static_cast<std::size_t>(std::strtoull(argv[1], nullptr, 10));
    static const std::int64_t DIMS[] = {32, 1024, 1024, 4096, 7};
    std::vector<std::string> names;
    for (int i = 0; i < 200; i++) names.push_back("aten::operation_" + std::to_string(i));
    for (int i = 0; i < 50; i++)
        names.push_back("void at::native::vectorized_elementwise_kernel<4, functor_" + std::to_string(i) + ">(int, float*)");
    for (int i = 0; i < 100; i++) names.push_back("/home/user/project/model/layers.py:" + std::to_string(10 + i));

    std::vector<Op> ops;
    for (std::size_t i = 0; i < count; i++) {
        const auto n = static_cast<std::int64_t>(i);
        const std::int64_t start = BASE + n * 2'000 + (n * 7'919) % 997;
        ops.push_back({names[(i * 31) % 200], names[250 + (i * 17) % 100], start, start + 500 + (n * 104'729) % 1'400,
                       i % 4, DIMS + i % 2});
    }
    std::vector<Kernel> kernels;
    for (std::size_t i = 0; i < count / 2; i++) {
        const std::int64_t start = ops[2 * i].end + 3'000;
        kernels.push_back({names[200 + (i * 13) % 50], start, start + 300 + (static_cast<std::int64_t>(i) * 7'907) % 900,
                           static_cast<std::uint32_t>(7 + (i % 2) * 13), i + 1, 2 * i});
    }
    const auto start = std::chrono::steady_clock::now();
    print(ops, kernels, argv[2]);
    std::printf("%.6f\n", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
}
