// tracer_loader.h: tptrace for programs that cannot link it.
//
// Include this instead of tracer.h, or before tracer.hpp. Every tp_ function is then called through a table in a library that
// is looked for when the first of them is called. Without one, or if it is older than a function, calls do nothing, at the
// cost of a look at one variable, and answer TP_STATUS_UNAVAILABLE: the same program runs with the library and without.
//
// The library is the first of these that has the table of this ABI, tp_api_v1:
//   - the file that the environment variable TPTRACE_LIBRARY names; if it is set, no other is looked for
//   - one that the process has loaded already, such as that of the Python package
//   - libtptrace.so.0 beside the executable, or beside the shared library that this is compiled into
//   - libtptrace.so.0 where the system looks
// A program with more rights than its user (set-user-ID) takes the second and the last only. The library is never
// unloaded. tp_loader_available() says whether there is one.
//
// C99 and C++17, gcc and clang; needs dlopen (on glibc before 2.34: -ldl). Any number of files of a program may include it:
// each looks for itself, once, and finds the same library.

#ifndef TPTRACE_TRACER_LOADER_H
#define TPTRACE_TRACER_LOADER_H

#include "tracer.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

#define TP_LOADER_SONAME "libtptrace.so.0"

#ifdef __cplusplus
#define TP_LOADER_AS(type, value) static_cast<type>(value)
#define TP_LOADER_NULL nullptr
extern "C" {
#else
#define TP_LOADER_AS(type, value) ((type)(value))
#define TP_LOADER_NULL NULL
#endif

// The system's readlink and dladdr, which its headers leave out in strict C (-std=c99): so they have names of our own here.
#define TP_LOADER_TEXT2(text) #text
#define TP_LOADER_TEXT(text) TP_LOADER_TEXT2(text)
#define TP_LOADER_SYMBOL(name) __asm__(TP_LOADER_TEXT(__USER_LABEL_PREFIX__) name)
typedef struct tp_loader_place {
    const char *file;
    void *base;
    const char *symbol;
    void *address;
} tp_loader_place;
extern ptrdiff_t tp_loader_readlink(const char *path, char *buffer, size_t capacity) TP_LOADER_SYMBOL("readlink");
extern int tp_loader_dladdr(const void *address, tp_loader_place *out) TP_LOADER_SYMBOL("dladdr");
#ifdef __cplusplus
}
#endif

// NULL: not looked for yet. Its size is 0 if there is no library.
static const tp_api *tp_loader_table = TP_LOADER_NULL;

// What stands for no library.
static inline const tp_api *tp_loader_none(void) {
    static const size_t none[sizeof(tp_api) / sizeof(size_t)] = {0};
    return TP_LOADER_AS(const tp_api *, TP_LOADER_AS(const void *, none));
}

// Whether a file ends before its ELF header says: a part of a library kills who loads it, and it may still be copied.
static inline int tp_loader_is_cut(const char *path) {
    unsigned char head[64];
    uint64_t sections = 0;
    uint16_t size = 0, count = 0;
    int cut = 0;
    FILE *file = strchr(path, '/') ? fopen(path, "rb") : TP_LOADER_NULL;
    if (!file) return 0; // dlopen says what there is to say
    if (fread(head, 1, sizeof head, file) == sizeof head && memcmp(head, "\177ELF\2", 5) == 0) {
        memcpy(&sections, head + 40, sizeof sections);
        memcpy(&size, head + 58, sizeof size);
        memcpy(&count, head + 60, sizeof count);
        sections += TP_LOADER_AS(uint64_t, size) * count;
        cut = fseek(file, 0, SEEK_END) != 0 || TP_LOADER_AS(uint64_t, ftell(file)) < sections;
    }
    (void)fclose(file);
    return cut;
}

// The table of a library, or NULL.
static inline const tp_api *tp_loader_open(const char *path, int flags) {
    void *library = tp_loader_is_cut(path) ? TP_LOADER_NULL : dlopen(path, flags | RTLD_NOW | RTLD_LOCAL);
    return library ? TP_LOADER_AS(const tp_api *, dlsym(library, "tp_api_v1")) : TP_LOADER_NULL;
}

// The same for a library in the folder of `file`.
static inline const tp_api *tp_loader_beside(const char *file) {
    const char *slash = strrchr(file, '/');
    char path[4096];
    int length = 0;
    if (!slash) return TP_LOADER_NULL;
    length = snprintf(path, sizeof path, "%.*s/" TP_LOADER_SONAME, TP_LOADER_AS(int, slash - file), file);
    return length > 0 && TP_LOADER_AS(size_t, length) < sizeof path ? tp_loader_open(path, 0) : TP_LOADER_NULL;
}

// Whether the process has rights that its user has not (set-user-ID, file capabilities): what the user says, and where the
// user may have linked the program to, is then no place for code.
static inline int tp_loader_is_privileged(void) {
#if defined(__linux__) && defined(AT_SECURE)
    return getauxval(AT_SECURE) != 0;
#else
    return 0;
#endif
}

// Beside the executable, or beside what this is compiled into.
static inline const tp_api *tp_loader_near(void) {
    const tp_api *table = TP_LOADER_NULL;
    char program[4096];
    tp_loader_place place;
    memset(program, 0, sizeof program);
    if (tp_loader_readlink("/proc/self/exe", program, sizeof program - 1) > 0) table = tp_loader_beside(program);
    if (!table && tp_loader_dladdr(&tp_loader_table, &place) != 0 && place.file) table = tp_loader_beside(place.file);
    return table;
}

static inline const tp_api *tp_loader_find(void) {
    const int privileged = tp_loader_is_privileged();
    const char *given = privileged ? TP_LOADER_NULL : getenv("TPTRACE_LIBRARY");
    const tp_api *table = TP_LOADER_NULL;
    if (given && strlen(given) > 0) {
        table = tp_loader_open(given, 0);
    } else {
        table = tp_loader_open(TP_LOADER_SONAME, RTLD_NOLOAD);
        if (!table && !privileged) table = tp_loader_near();
        if (!table) table = tp_loader_open(TP_LOADER_SONAME, 0);
    }
    // Threads that come at the same time find the same.
    if (!table) table = tp_loader_none();
    __atomic_store_n(&tp_loader_table, table, __ATOMIC_RELEASE);
    return table;
}

static inline const tp_api *tp_loader(void) {
    const tp_api *table = __atomic_load_n(&tp_loader_table, __ATOMIC_ACQUIRE);
    return __builtin_expect(!table, 0) ? tp_loader_find() : table;
}

// Whether a library was found.
static inline int tp_loader_available(void) { return tp_loader()->size != 0; }

// The byte of every category where there is no library.
static const uint8_t tp_loader_off = 0;

static inline size_t tp_loader_no_message(char *buffer, size_t capacity) {
    if (buffer && capacity > 0) *buffer = '\0';
    return 0;
}

// Whether the library's table has this member.
#define TP_LOADER_HAS(member) (tp_loader()->size >= offsetof(tp_api, member) + sizeof(tp_loader()->member))

#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif

// <functions>: TP_BLESS=1 cargo test --test header
static inline const char *tp_loader_status_name(tp_status status) {
    if (TP_LOADER_HAS(status_name)) return tp_loader()->status_name(status);
    (void)status;
    return "unavailable";
}
#define tp_status_name tp_loader_status_name
static inline tp_status tp_loader_trace_new(const struct tp_trace_options *options, struct tp_trace **out) {
    if (TP_LOADER_HAS(trace_new)) return tp_loader()->trace_new(options, out);
    (void)options, (void)out;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_new tp_loader_trace_new
static inline void tp_loader_trace_free(struct tp_trace *trace) {
    if (TP_LOADER_HAS(trace_free)) tp_loader()->trace_free(trace);
    (void)trace;
}
#define tp_trace_free tp_loader_trace_free
static inline tp_status tp_loader_trace_set_process_name(struct tp_trace *trace, struct tp_str name) {
    if (TP_LOADER_HAS(trace_set_process_name)) return tp_loader()->trace_set_process_name(trace, name);
    (void)trace, (void)name;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_set_process_name tp_loader_trace_set_process_name
static inline tp_status tp_loader_trace_set_thread_name(struct tp_trace *trace, uint64_t thread_id, struct tp_str name) {
    if (TP_LOADER_HAS(trace_set_thread_name)) return tp_loader()->trace_set_thread_name(trace, thread_id, name);
    (void)trace, (void)thread_id, (void)name;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_set_thread_name tp_loader_trace_set_thread_name
static inline tp_status tp_loader_trace_set_rank(struct tp_trace *trace, int64_t rank, int64_t world_size) {
    if (TP_LOADER_HAS(trace_set_rank)) return tp_loader()->trace_set_rank(trace, rank, world_size);
    (void)trace, (void)rank, (void)world_size;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_set_rank tp_loader_trace_set_rank
static inline tp_status tp_loader_trace_set_backend(struct tp_trace *trace, struct tp_str backend) {
    if (TP_LOADER_HAS(trace_set_backend)) return tp_loader()->trace_set_backend(trace, backend);
    (void)trace, (void)backend;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_set_backend tp_loader_trace_set_backend
static inline tp_status tp_loader_trace_set_metadata(struct tp_trace *trace, struct tp_str key, struct tp_str json) {
    if (TP_LOADER_HAS(trace_set_metadata)) return tp_loader()->trace_set_metadata(trace, key, json);
    (void)trace, (void)key, (void)json;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_set_metadata tp_loader_trace_set_metadata
static inline tp_status tp_loader_trace_counts(const struct tp_trace *trace, struct tp_counts *out) {
    if (TP_LOADER_HAS(trace_counts)) return tp_loader()->trace_counts(trace, out);
    (void)trace, (void)out;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_counts tp_loader_trace_counts
static inline int64_t tp_loader_now_ns(void) {
    if (TP_LOADER_HAS(now_ns)) return tp_loader()->now_ns();
    return 0;
}
#define tp_now_ns tp_loader_now_ns
static inline size_t tp_loader_last_error_message(char *buffer, size_t capacity) {
    if (TP_LOADER_HAS(last_error_message)) return tp_loader()->last_error_message(buffer, capacity);
    return tp_loader_no_message(buffer, capacity);
}
#define tp_last_error_message tp_loader_last_error_message
static inline const char *tp_loader_version(void) {
    if (TP_LOADER_HAS(version)) return tp_loader()->version();
    return "";
}
#define tp_version tp_loader_version
static inline tp_status tp_loader_trace_add_op(struct tp_trace *trace, const struct tp_op *op, uint64_t *id_out) {
    if (TP_LOADER_HAS(trace_add_op)) return tp_loader()->trace_add_op(trace, op, id_out);
    (void)trace, (void)op, (void)id_out;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_op tp_loader_trace_add_op
static inline tp_status tp_loader_trace_add_ops(struct tp_trace *trace, const struct tp_op *ops, size_t count, size_t stride) {
    if (TP_LOADER_HAS(trace_add_ops)) return tp_loader()->trace_add_ops(trace, ops, count, stride);
    (void)trace, (void)ops, (void)count, (void)stride;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_ops tp_loader_trace_add_ops
static inline tp_status tp_loader_trace_add_gpu(struct tp_trace *trace, const struct tp_gpu_activity *activity) {
    if (TP_LOADER_HAS(trace_add_gpu)) return tp_loader()->trace_add_gpu(trace, activity);
    (void)trace, (void)activity;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_gpu tp_loader_trace_add_gpu
static inline tp_status tp_loader_trace_add_gpus(struct tp_trace *trace, const struct tp_gpu_activity *activities, size_t count, size_t stride) {
    if (TP_LOADER_HAS(trace_add_gpus)) return tp_loader()->trace_add_gpus(trace, activities, count, stride);
    (void)trace, (void)activities, (void)count, (void)stride;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_gpus tp_loader_trace_add_gpus
static inline tp_status tp_loader_trace_add_memory(struct tp_trace *trace, const struct tp_memory_event *event) {
    if (TP_LOADER_HAS(trace_add_memory)) return tp_loader()->trace_add_memory(trace, event);
    (void)trace, (void)event;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_memory tp_loader_trace_add_memory
static inline tp_status tp_loader_trace_add_memories(struct tp_trace *trace, const struct tp_memory_event *events, size_t count, size_t stride) {
    if (TP_LOADER_HAS(trace_add_memories)) return tp_loader()->trace_add_memories(trace, events, count, stride);
    (void)trace, (void)events, (void)count, (void)stride;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_memories tp_loader_trace_add_memories
static inline tp_status tp_loader_trace_add_sample(struct tp_trace *trace, const struct tp_sample *sample) {
    if (TP_LOADER_HAS(trace_add_sample)) return tp_loader()->trace_add_sample(trace, sample);
    (void)trace, (void)sample;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_sample tp_loader_trace_add_sample
static inline tp_status tp_loader_trace_add_samples(struct tp_trace *trace, const struct tp_sample *samples, size_t count, size_t stride) {
    if (TP_LOADER_HAS(trace_add_samples)) return tp_loader()->trace_add_samples(trace, samples, count, stride);
    (void)trace, (void)samples, (void)count, (void)stride;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_samples tp_loader_trace_add_samples
static inline tp_status tp_loader_trace_add_counter(struct tp_trace *trace, const struct tp_counter *counter) {
    if (TP_LOADER_HAS(trace_add_counter)) return tp_loader()->trace_add_counter(trace, counter);
    (void)trace, (void)counter;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_counter tp_loader_trace_add_counter
static inline tp_status tp_loader_trace_add_counters(struct tp_trace *trace, const struct tp_counter *counters, size_t count, size_t stride) {
    if (TP_LOADER_HAS(trace_add_counters)) return tp_loader()->trace_add_counters(trace, counters, count, stride);
    (void)trace, (void)counters, (void)count, (void)stride;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_counters tp_loader_trace_add_counters
static inline tp_status tp_loader_trace_add_instant(struct tp_trace *trace, const struct tp_instant *instant) {
    if (TP_LOADER_HAS(trace_add_instant)) return tp_loader()->trace_add_instant(trace, instant);
    (void)trace, (void)instant;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_instant tp_loader_trace_add_instant
static inline tp_status tp_loader_trace_add_instants(struct tp_trace *trace, const struct tp_instant *instants, size_t count, size_t stride) {
    if (TP_LOADER_HAS(trace_add_instants)) return tp_loader()->trace_add_instants(trace, instants, count, stride);
    (void)trace, (void)instants, (void)count, (void)stride;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_add_instants tp_loader_trace_add_instants
static inline tp_status tp_loader_trace_write(const struct tp_trace *trace, struct tp_str path, const struct tp_write_options *options) {
    if (TP_LOADER_HAS(trace_write)) return tp_loader()->trace_write(trace, path, options);
    (void)trace, (void)path, (void)options;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_write tp_loader_trace_write
static inline tp_status tp_loader_trace_write_to(const struct tp_trace *trace, tp_output_fn output, void *user_data, const struct tp_write_options *options) {
    if (TP_LOADER_HAS(trace_write_to)) return tp_loader()->trace_write_to(trace, output, user_data, options);
    (void)trace, (void)output, (void)user_data, (void)options;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_write_to tp_loader_trace_write_to
static inline tp_status tp_loader_trace_merge(const struct tp_str *paths, size_t count, struct tp_str out_path, const struct tp_merge_options *options, struct tp_merge_report *report) {
    if (TP_LOADER_HAS(trace_merge)) return tp_loader()->trace_merge(paths, count, out_path, options, report);
    (void)paths, (void)count, (void)out_path, (void)options, (void)report;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_merge tp_loader_trace_merge
static inline tp_status tp_loader_name_new(struct tp_str name, struct tp_str category, tp_name *out) {
    if (TP_LOADER_HAS(name_new)) return tp_loader()->name_new(name, category, out);
    (void)name, (void)category, (void)out;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_name_new tp_loader_name_new
static inline tp_status tp_loader_category_enable(struct tp_str category, int32_t on) {
    if (TP_LOADER_HAS(category_enable)) return tp_loader()->category_enable(category, on);
    (void)category, (void)on;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_category_enable tp_loader_category_enable
static inline const uint8_t *tp_loader_category_flag(struct tp_str category) {
    if (TP_LOADER_HAS(category_flag)) return tp_loader()->category_flag(category);
    (void)category;
    return &tp_loader_off;
}
#define tp_category_flag tp_loader_category_flag
static inline tp_status tp_loader_span_begin(const struct tp_trace *trace, tp_name name) {
    if (TP_LOADER_HAS(span_begin)) return tp_loader()->span_begin(trace, name);
    (void)trace, (void)name;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_span_begin tp_loader_span_begin
static inline tp_status tp_loader_span_begin_text(const struct tp_trace *trace, struct tp_str name, struct tp_str category) {
    if (TP_LOADER_HAS(span_begin_text)) return tp_loader()->span_begin_text(trace, name, category);
    (void)trace, (void)name, (void)category;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_span_begin_text tp_loader_span_begin_text
static inline tp_status tp_loader_span_end(const struct tp_trace *trace) {
    if (TP_LOADER_HAS(span_end)) return tp_loader()->span_end(trace);
    (void)trace;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_span_end tp_loader_span_end
static inline tp_status tp_loader_span_arg_int(const struct tp_trace *trace, tp_name key, int64_t value) {
    if (TP_LOADER_HAS(span_arg_int)) return tp_loader()->span_arg_int(trace, key, value);
    (void)trace, (void)key, (void)value;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_span_arg_int tp_loader_span_arg_int
static inline tp_status tp_loader_span_arg_uint(const struct tp_trace *trace, tp_name key, uint64_t value) {
    if (TP_LOADER_HAS(span_arg_uint)) return tp_loader()->span_arg_uint(trace, key, value);
    (void)trace, (void)key, (void)value;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_span_arg_uint tp_loader_span_arg_uint
static inline tp_status tp_loader_span_arg_float(const struct tp_trace *trace, tp_name key, double value) {
    if (TP_LOADER_HAS(span_arg_float)) return tp_loader()->span_arg_float(trace, key, value);
    (void)trace, (void)key, (void)value;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_span_arg_float tp_loader_span_arg_float
static inline tp_status tp_loader_span_arg_bool(const struct tp_trace *trace, tp_name key, int32_t value) {
    if (TP_LOADER_HAS(span_arg_bool)) return tp_loader()->span_arg_bool(trace, key, value);
    (void)trace, (void)key, (void)value;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_span_arg_bool tp_loader_span_arg_bool
static inline tp_status tp_loader_span_arg_text(const struct tp_trace *trace, tp_name key, struct tp_str value) {
    if (TP_LOADER_HAS(span_arg_text)) return tp_loader()->span_arg_text(trace, key, value);
    (void)trace, (void)key, (void)value;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_span_arg_text tp_loader_span_arg_text
static inline tp_status tp_loader_span_complete(const struct tp_trace *trace, tp_name name, int64_t start_ns, int64_t end_ns) {
    if (TP_LOADER_HAS(span_complete)) return tp_loader()->span_complete(trace, name, start_ns, end_ns);
    (void)trace, (void)name, (void)start_ns, (void)end_ns;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_span_complete tp_loader_span_complete
static inline tp_status tp_loader_record_instant(const struct tp_trace *trace, tp_name name) {
    if (TP_LOADER_HAS(record_instant)) return tp_loader()->record_instant(trace, name);
    (void)trace, (void)name;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_record_instant tp_loader_record_instant
static inline tp_status tp_loader_record_counter(const struct tp_trace *trace, tp_name name, double value) {
    if (TP_LOADER_HAS(record_counter)) return tp_loader()->record_counter(trace, name, value);
    (void)trace, (void)name, (void)value;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_record_counter tp_loader_record_counter
static inline tp_status tp_loader_record_async(const struct tp_trace *trace, tp_name name, int32_t phase, uint64_t id) {
    if (TP_LOADER_HAS(record_async)) return tp_loader()->record_async(trace, name, phase, id);
    (void)trace, (void)name, (void)phase, (void)id;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_record_async tp_loader_record_async
static inline tp_status tp_loader_record_flow(const struct tp_trace *trace, tp_name name, int32_t phase, uint64_t id) {
    if (TP_LOADER_HAS(record_flow)) return tp_loader()->record_flow(trace, name, phase, id);
    (void)trace, (void)name, (void)phase, (void)id;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_record_flow tp_loader_record_flow
static inline tp_status tp_loader_trace_sync_journal(const struct tp_trace *trace) {
    if (TP_LOADER_HAS(trace_sync_journal)) return tp_loader()->trace_sync_journal(trace);
    (void)trace;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_sync_journal tp_loader_trace_sync_journal
static inline tp_status tp_loader_recover(struct tp_str journal, struct tp_str out_path, const struct tp_write_options *options, struct tp_recover_report *report) {
    if (TP_LOADER_HAS(recover)) return tp_loader()->recover(journal, out_path, options, report);
    (void)journal, (void)out_path, (void)options, (void)report;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_recover tp_loader_recover
static inline tp_status tp_loader_merge_survey(struct tp_str path, const struct tp_merge_options *options, tp_message_fn give, void *give_data) {
    if (TP_LOADER_HAS(merge_survey)) return tp_loader()->merge_survey(path, options, give, give_data);
    (void)path, (void)options, (void)give, (void)give_data;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_merge_survey tp_loader_merge_survey
static inline tp_status tp_loader_merge_plan(const struct tp_str *surveys, size_t count, const struct tp_merge_options *options, tp_message_fn give, void *give_data) {
    if (TP_LOADER_HAS(merge_plan)) return tp_loader()->merge_plan(surveys, count, options, give, give_data);
    (void)surveys, (void)count, (void)options, (void)give, (void)give_data;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_merge_plan tp_loader_merge_plan
static inline tp_status tp_loader_merge_fragment(struct tp_str path, struct tp_str task, struct tp_str out_path, const struct tp_merge_options *options) {
    if (TP_LOADER_HAS(merge_fragment)) return tp_loader()->merge_fragment(path, task, out_path, options);
    (void)path, (void)task, (void)out_path, (void)options;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_merge_fragment tp_loader_merge_fragment
static inline tp_status tp_loader_merge_join(struct tp_str plan, const struct tp_str *fragments, size_t count, struct tp_str out_path, const struct tp_merge_options *options, struct tp_merge_report *report) {
    if (TP_LOADER_HAS(merge_join)) return tp_loader()->merge_join(plan, fragments, count, out_path, options, report);
    (void)plan, (void)fragments, (void)count, (void)out_path, (void)options, (void)report;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_merge_join tp_loader_merge_join
static inline tp_status tp_loader_gpu_info(const struct tp_gpu_libraries *libraries, struct tp_gpu_facts *out) {
    if (TP_LOADER_HAS(gpu_info)) return tp_loader()->gpu_info(libraries, out);
    (void)libraries, (void)out;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_gpu_info tp_loader_gpu_info
static inline tp_status tp_loader_gpu_info_text(const struct tp_gpu_libraries *libraries, char *buffer, size_t capacity, size_t *length_out) {
    if (TP_LOADER_HAS(gpu_info_text)) return tp_loader()->gpu_info_text(libraries, buffer, capacity, length_out);
    (void)libraries, (void)buffer, (void)capacity, (void)length_out;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_gpu_info_text tp_loader_gpu_info_text
static inline tp_status tp_loader_gpu_info_json(const struct tp_gpu_libraries *libraries, char *buffer, size_t capacity, size_t *length_out) {
    if (TP_LOADER_HAS(gpu_info_json)) return tp_loader()->gpu_info_json(libraries, buffer, capacity, length_out);
    (void)libraries, (void)buffer, (void)capacity, (void)length_out;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_gpu_info_json tp_loader_gpu_info_json
static inline tp_status tp_loader_trace_set_gpu_info(struct tp_trace *trace, const struct tp_gpu_libraries *libraries) {
    if (TP_LOADER_HAS(trace_set_gpu_info)) return tp_loader()->trace_set_gpu_info(trace, libraries);
    (void)trace, (void)libraries;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_trace_set_gpu_info tp_loader_trace_set_gpu_info
static inline tp_status tp_loader_gpu_start(struct tp_trace *trace, const struct tp_gpu_options *options) {
    if (TP_LOADER_HAS(gpu_start)) return tp_loader()->gpu_start(trace, options);
    (void)trace, (void)options;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_gpu_start tp_loader_gpu_start
static inline tp_status tp_loader_gpu_stop(struct tp_trace *trace, struct tp_gpu_report *report, tp_message_fn warn, void *warn_data) {
    if (TP_LOADER_HAS(gpu_stop)) return tp_loader()->gpu_stop(trace, report, warn, warn_data);
    (void)trace, (void)report, (void)warn, (void)warn_data;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_gpu_stop tp_loader_gpu_stop
static inline tp_status tp_loader_gpu_push_op(struct tp_trace *trace, uint64_t id) {
    if (TP_LOADER_HAS(gpu_push_op)) return tp_loader()->gpu_push_op(trace, id);
    (void)trace, (void)id;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_gpu_push_op tp_loader_gpu_push_op
static inline tp_status tp_loader_gpu_pop_op(struct tp_trace *trace) {
    if (TP_LOADER_HAS(gpu_pop_op)) return tp_loader()->gpu_pop_op(trace);
    (void)trace;
    return TP_STATUS_UNAVAILABLE;
}
#define tp_gpu_pop_op tp_loader_gpu_pop_op
// </functions>

#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif

#endif // TPTRACE_TRACER_LOADER_H
