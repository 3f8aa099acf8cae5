/* Shared by the C and C++ tests: a check that names its place, and the last message. */
#ifndef TPTRACE_TESTS_CHECK_H
#define TPTRACE_TESTS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tracer.h"

static inline const char *last_message(void) {
    static char message[4096];
    tp_last_error_message(message, sizeof message);
    return message;
}

#define CHECK(condition)                                                                                       \
    do {                                                                                                       \
        if (!(condition)) {                                                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n  last message: %s\n", __FILE__, __LINE__, #condition,         \
                    last_message());                                                                           \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)

/* The call fails with this status, and the message has this part. */
#define CHECK_FAILS(call, status, part)                                                                        \
    do {                                                                                                       \
        tp_status got_ = (call);                                                                               \
        if (got_ != (status) || strstr(last_message(), (part)) == NULL) {                                      \
            fprintf(stderr, "%s:%d: %s answered %d (%s), not %s with \"%s\"\n  last message: %s\n", __FILE__,  \
                    __LINE__, #call, (int)got_, tp_status_name(got_), #status, (part), last_message());        \
            exit(1);                                                                                           \
        }                                                                                                      \
    } while (0)

#endif
