/* A library of before all functions but the first: its table is short. */
#include <stddef.h>
#include <stdint.h>

static const char *version(void) { return "0.0.1"; }
static size_t message(char *buffer, size_t capacity) {
    if (capacity > 0) buffer[0] = '\0';
    return 0;
}

const struct table {
    size_t size;
    const char *(*version)(void);
    const char *(*status_name)(int32_t status);
    size_t (*last_error_message)(char *buffer, size_t capacity);
} tp_api_v1 = {sizeof tp_api_v1, version, NULL, message};
