// Compiled with -fno-exceptions -fno-rtti: the same wrapper, statuses only. Compiled twice, as two files of one program.
#include "check.h"
#include "tracer.hpp"

int add_from_another_file(tp::Trace &trace);

#ifdef SECOND_FILE
int add_from_another_file(tp::Trace &trace) { return trace.try_add(tp::Op("second", 3, 4)).code(); }
#else
int main(int argc, char **argv) {
    CHECK(argc == 2);
    tp::Trace trace(tp::Trace::Closed{});
    CHECK(trace.try_add(tp::Op("op", 1, 2)).code() == TP_STATUS_UNAVAILABLE);
    CHECK(trace.open().ok());
    CHECK(trace.try_add(tp::Op("first", 1, 2)).ok());
    CHECK(add_from_another_file(trace) == TP_STATUS_OK);
    tp_counts counts;
    CHECK(trace.try_counts(counts).ok() && counts.ops == 2);
    CHECK(!trace.try_write("/no such folder/x.json"));
    CHECK(trace.try_write(argv[1]).ok());
    tp::WriteOptions options;
    std::size_t calls = 0, bytes = 0;
    options.progress = [&](const tp_progress &) { return ++calls != 0; };
    CHECK(trace.try_write_to([&](std::string_view piece) { return (bytes += piece.size()) != 0; }, options).ok());
    CHECK(calls != 0 && bytes != 0);
    options.progress = [](const tp_progress &) { return false; };
    CHECK(trace.try_write(argv[1], options).code() == TP_STATUS_CANCELLED);
}
#endif
