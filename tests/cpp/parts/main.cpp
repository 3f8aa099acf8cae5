// A program of several libraries, each of which records spans on threads of its own into one trace.
// usage: main FILE
#include <cstdio>
#include <pthread.h>
#include <string>
#include <thread>

#include "parts.hpp"
#include "tracer.hpp"

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    tp::Trace trace;
    pthread_setname_np(pthread_self(), "main");
    {
        TP_SPAN_ARGS(trace, "program", {"parts", 2});
        std::thread linked([&] {
            pthread_setname_np(pthread_self(), "linked");
            TP_SPAN(trace, "thread of linked");
            for (int i = 0; i < 50; i++) linked_work(trace.get(), i);
        });
        std::thread loaded([&] {
            pthread_setname_np(pthread_self(), "loaded");
            TP_SPAN(trace, "thread of loaded");
            for (int i = 0; i < 50; i++) loaded_work(trace.get(), i);
        });
        // Both on one thread too, one within the other.
        {
            TP_SPAN(trace, "both");
            linked_work(trace.get(), 50);
            loaded_work(trace.get(), 50);
        }
        linked.join();
        loaded.join();
    }
    tp::WriteOptions options;
    options.format = tp::Format::torch;
    trace.write(argv[1], options);
    return trace.counts().record_unmatched == 0 && trace.counts().record_dropped == 0 ? 0 : 1;
}
