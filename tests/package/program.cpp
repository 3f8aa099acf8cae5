// What a user of the installed package writes. usage: program FILE
// Compiled on the shared library, on the static one, and on the loader's header alone (with -DLOADED).
#ifdef LOADED
#include <tracer_loader.h>
#endif
#include <tracer.hpp>
#include <tracer_spans.hpp>

#include <cstdio>

int main(int argc, char **argv) {
    if (argc != 2) return 2;
#ifdef LOADED
    if (!tp_loader_available()) {
        std::puts("without the library");
        return 0;
    }
#endif
    try {
        tp::Trace trace;
        {
            TP_SPAN(trace, "a span");
            trace.add(tp::Op("an op", tp::now_ns(), tp::now_ns() + 1000).thread(1).arg("made with", "the package"));
        }
        trace.write(argv[1]);
    } catch (const tp::Error &error) {
        std::puts(error.what());
        return 1;
    }
    std::printf("tptrace %s\n", tp_version());
}
