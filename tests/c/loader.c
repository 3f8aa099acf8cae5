/* A program of two files that does not link the library: with it, without it, and with one that is too old.
   usage: loader FILE available|absent|old */
#include "tracer_loader.h"

#include "check.h"

tp_status second_file(tp_trace *trace);

#ifdef SECOND_FILE
tp_status second_file(tp_trace *trace) {
    tp_instant instant = TP_INIT(tp_instant);
    instant.name = TP_STR("from the second file");
    instant.time_ns = tp_now_ns();
    return tp_trace_add_instant(trace, &instant);
}
#else
int main(int argc, char **argv) {
    CHECK(argc == 3);
    const int available = strcmp(argv[2], "available") == 0, old = strcmp(argv[2], "old") == 0;
    CHECK(tp_loader_available() == (available || old));
    CHECK((tp_version()[0] != '\0') == (available || old));
    tp_trace *trace = NULL;
    const tp_status opened = tp_trace_new(NULL, &trace);
    CHECK(opened == (available ? TP_STATUS_OK : TP_STATUS_UNAVAILABLE));
    CHECK((trace != NULL) == available);
    tp_name name = 0;
    CHECK(tp_name_new(TP_STR("span"), TP_STR(""), &name) == opened);
    CHECK((name != 0) == available);
    for (int i = 0; i < 100; i++) {
        CHECK(tp_span_begin(trace, name) == (available ? TP_STATUS_OK : TP_STATUS_UNAVAILABLE) || !available);
        CHECK((tp_span_end(trace) == TP_STATUS_OK) == available);
    }
    CHECK((*tp_category_flag(TP_STR("x")) != 0) == available);
    CHECK(second_file(trace) == opened);
    CHECK(tp_trace_write(trace, tp_cstr(argv[1]), NULL) == opened);
    char message[64] = "before";
    CHECK(tp_trace_write(trace, TP_STR(""), NULL) != TP_STATUS_OK);
    CHECK((tp_last_error_message(message, sizeof message) > 0) == available);
    CHECK(available || message[0] == '\0');
    tp_trace_free(trace);
    return 0;
}
#endif
