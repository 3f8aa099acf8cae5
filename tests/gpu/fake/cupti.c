// A libcupti that records what a program pretends to do through the functions fake_*, in records of the layouts of
// records.h, and delivers them through the buffer callbacks. It can misbehave as real ones were seen to: fake_set, or
// FAKE_CUPTI_<KEY> in the environment, sets one of
//   INIT        every function answers this code
//   CRASH       1: crash on any call while the driver is not up, as CUPTI 13.2 does
//   RC_<NAME>   this function answers that code: RC_SUBSCRIBE, RC_REGISTER, RC_ENABLE, RC_ENABLE_<kind>, RC_FLUSH,
//               RC_VERSION, RC_TIMESTAMP, RC_PUSH, RC_NAMES, RC_DROPPED, RC_NEXT
//   CLOCK       what timestamps are: 0 CLOCK_REALTIME, 1 CLOCK_MONOTONIC, 2 CLOCK_MONOTONIC_RAW
//   SKEW        added to the timestamps in records, but not to cuptiGetTimestamp
//   PER_THREAD  1: each thread fills buffers of its own
//   FOREIGN     1: buffers are completed on a thread of CUPTI's
//   KEEP        so many buffers are never given back
//   LATE        milliseconds after which full buffers are given back, by a thread of CUPTI's
//   CUT         bytes that are missing at the end of a buffer
//   DROP        records that CUPTI says it dropped
//   FLUSH_MS    how long a flush takes
#define _GNU_SOURCE
#include "records.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))
// Under another name here: NVIDIA's headers declare these functions too.
#define CUPTI(name, ...)                                                                                               \
    EXPORT int fn_##name(__VA_ARGS__) __asm__("cupti" #name);                                                          \
    int fn_##name(__VA_ARGS__)

enum { MEMCPY = 1, MEMSET, DRIVER = 4, RUNTIME, CONTEXT = 9, KERNEL, MARKER = 12, OVERHEAD = 17, PEER = 22, SYNC = 38,
       EXTERNAL = 39, NEW_KIND = 100, KINDS = 128 };

typedef union {
    uint32_t kind;
    Kernel kernel;
    Memcpy memcpy;
    Memset memset;
    Peer peer;
    Api api;
    External external;
    Overhead overhead;
    Sync sync;
    Marker marker;
    Context context;
} Record;

typedef struct Buffer {
    uint8_t *bytes;
    size_t size, used, most, count;
} Buffer;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*requested)(uint8_t **, size_t *, size_t *);
static void (*completed)(void *, uint32_t, uint8_t *, size_t, size_t);
static uint8_t enabled[KINDS];
static size_t dropped, kept, foreign_threads;
static int subscribed, system_ids;
static uint32_t correlation = 1000;
#define MOST_THREADS 256
static Buffer buffers[MOST_THREADS];
static int thread_count;
static __thread int thread_index = -1;
static __thread uint64_t stack[8][64];
static __thread int depth[8];

static struct {
    char key[32];
    long long value;
} settings[64];
static int setting_count;
static pthread_mutex_t settings_lock = PTHREAD_MUTEX_INITIALIZER;

// Where a setting is kept; its first value is the environment's.
static long long *slot(const char *key) {
    char name[64];
    int i = 0;
    pthread_mutex_lock(&settings_lock);
    while (i < setting_count && strcmp(settings[i].key, key) != 0) i++;
    if (i == setting_count) {
        snprintf(name, sizeof name, "FAKE_CUPTI_%s", key);
        const char *text = getenv(name);
        snprintf(settings[i].key, sizeof settings->key, "%s", key);
        settings[i].value = text != NULL ? atoll(text) : 0;
        setting_count++;
    }
    pthread_mutex_unlock(&settings_lock);
    return &settings[i].value;
}

EXPORT void fake_set(const char *key, long long value) { __atomic_store_n(slot(key), value, __ATOMIC_SEQ_CST); }

static long long setting(const char *key) { return __atomic_load_n(slot(key), __ATOMIC_SEQ_CST); }

// Overflows the stack, as CUPTI 13.2 does.
#pragma GCC diagnostic ignored "-Winfinite-recursion"
__attribute__((noinline)) static int recurse(volatile int *deep) {
    volatile int here = *deep + 1;
    return recurse(&here) + here;
}

// What a call answers before it does anything.
static int refusal(const char *key) {
    if (setting("CRASH") && getenv("FAKE_CUDA_UP") == NULL) {
        volatile int deep = 0;
        return recurse(&deep);
    }
    long long code = setting("INIT");
    return (int)(code != 0 ? code : setting(key));
}
#define GATE(key)                                                                                                      \
    do {                                                                                                               \
        int code = refusal(key);                                                                                       \
        if (code != 0) return code;                                                                                    \
    } while (0)

static uint64_t clock_ns(void) {
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW};
    struct timespec time;
    clock_gettime(clocks[setting("CLOCK") % 3], &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t stamp(void) { return clock_ns() + (uint64_t)setting("SKEW"); }

static size_t size_of(uint32_t kind) {
    switch (kind) {
    case MEMCPY: return sizeof(Memcpy);
    case MEMSET: return sizeof(Memset);
    case DRIVER:
    case RUNTIME: return sizeof(Api);
    case CONTEXT: return sizeof(Context);
    case KERNEL: return sizeof(Kernel);
    case MARKER: return sizeof(Marker);
    case OVERHEAD: return sizeof(Overhead);
    case PEER: return sizeof(Peer);
    case SYNC: return sizeof(Sync);
    case EXTERNAL: return sizeof(External);
    case NEW_KIND: return 64;
    default: return 0;
    }
}

typedef struct {
    Buffer buffer;
    long long after_ms;
} Delivery;

static void *deliver(void *of) {
    Delivery delivery = *(Delivery *)of;
    struct timespec time = {delivery.after_ms / 1000, delivery.after_ms % 1000 * 1000000};
    free(of);
    nanosleep(&time, NULL);
    completed(NULL, 0, delivery.buffer.bytes, delivery.buffer.size, delivery.buffer.used);
    return NULL;
}

// Gives a buffer back; with the lock held, as the real library may.
static void complete(Buffer *buffer) {
    Buffer full = *buffer;
    size_t cut = (size_t)setting("CUT");
    pthread_t thread;
    memset(buffer, 0, sizeof *buffer);
    if (full.bytes == NULL) return;
    if ((long long)kept < setting("KEEP")) {
        kept++;
        return;
    }
    full.used = full.used > cut ? full.used - cut : full.used;
    if (setting("LATE") || setting("FOREIGN")) {
        Delivery *delivery = malloc(sizeof *delivery);
        *delivery = (Delivery){full, setting("LATE")};
        pthread_create(&thread, NULL, deliver, delivery);
        foreign_threads++;
        if (setting("LATE"))
            pthread_detach(thread);
        else
            pthread_join(thread, NULL);
    } else {
        completed(NULL, 0, full.bytes, full.size, full.used);
    }
}

static void put(const Record *record) {
    uint32_t kind = record->kind;
    if (kind < KINDS && !enabled[kind] && !setting("UNASKED")) return;
    size_t size = size_of(kind);
    pthread_mutex_lock(&lock);
    if (setting("PER_THREAD") && thread_index < 0 && thread_count + 1 < MOST_THREADS) thread_index = ++thread_count;
    Buffer *buffer = &buffers[thread_index < 0 ? 0 : thread_index];
    if (buffer->bytes != NULL && (buffer->used + size > buffer->size || (buffer->most && buffer->count == buffer->most)))
        complete(buffer);
    if (buffer->bytes == NULL && requested != NULL) {
        requested(&buffer->bytes, &buffer->size, &buffer->most);
        if (buffer->bytes == NULL && A < 27) {
            fprintf(stderr, "this CUPTI crashes if it gets no buffer\n");
            abort();
        }
        if (((uintptr_t)buffer->bytes & 7) != 0) {
            fprintf(stderr, "the buffer is not aligned\n");
            abort();
        }
        if (buffer->bytes != NULL) memset(buffer->bytes, 0xEE, buffer->size);
    }
    if (buffer->bytes == NULL || buffer->used + size > buffer->size) {
        dropped++;
    } else {
        memcpy(buffer->bytes + buffer->used, record, size);
        buffer->used += size;
        buffer->count++;
    }
    pthread_mutex_unlock(&lock);
}

static Record record(uint32_t kind) {
    Record made;
    memset(&made, 0, sizeof made);
    made.kind = kind;
    return made;
}

static uint32_t thread_id(void) { return system_ids ? (uint32_t)syscall(SYS_gettid) : (uint32_t)pthread_self(); }

// The call of a cause, after the external ids that are open on this thread.
static uint32_t call(uint32_t kind, uint32_t callback, uint64_t start, int answer) {
    uint32_t id = __sync_add_and_fetch(&correlation, 1);
    for (int of = 1; of < 8; of++)
        if (depth[of] > 0) {
            Record external = record(EXTERNAL);
            external.external.externalKind = of;
            external.external.externalId = stack[of][depth[of] - 1];
            external.external.correlationId = id;
            put(&external);
        }
    Record api = record(kind);
    api.api.cbid = callback;
    api.api.start = start;
    api.api.end = start + 1500;
    api.api.processId = (uint32_t)getpid();
    api.api.threadId = thread_id();
    api.api.correlationId = id;
    api.api.returnValue = (uint32_t)answer;
    put(&api);
    return id;
}

// cudaLaunchKernel. `odd`: 1 no times, 2 an end before the start, 3 no name, 4 a time of another clock.
EXPORT uint32_t fake_launch(const char *name, uint32_t device, uint32_t stream, int odd) {
    uint64_t start = stamp();
    uint32_t id = call(RUNTIME, 211, start, 0);
    Record made = record(KERNEL);
    Kernel *kernel = &made.kernel;
    kernel->start = odd == 1 ? 0 : odd == 4 ? 5000 : start + 5000;
    kernel->end = odd == 1 ? 0 : odd == 2 ? start + 4000 : odd == 4 ? 9000 : start + 9000;
    kernel->deviceId = device;
    kernel->contextId = device + 1;
    kernel->streamId = stream;
    kernel->correlationId = id;
    kernel->gridX = 2, kernel->gridY = 3, kernel->gridZ = 4;
    kernel->blockX = 128, kernel->blockY = 2, kernel->blockZ = 1;
    kernel->registersPerThread = 40;
    kernel->staticSharedMemory = 1024, kernel->dynamicSharedMemory = 2048;
    kernel->graphId = 5, kernel->graphNodeId = 99999999999u;
    kernel->channelID = 11, kernel->channelType = 1;
#if A >= 130100
    kernel->priority = -3;
#endif
    kernel->name = odd == 3 ? NULL : name;
    put(&made);
    return id;
}

EXPORT uint32_t fake_memcpy(int kind, uint64_t bytes, uint32_t device, uint32_t stream) {
    uint64_t start = stamp();
    uint32_t id = call(RUNTIME, 41, start, 0);
    Record made = record(MEMCPY);
    made.memcpy.copyKind = kind, made.memcpy.srcKind = 1, made.memcpy.dstKind = 3;
    made.memcpy.bytes = bytes;
    made.memcpy.start = start + 2000, made.memcpy.end = start + 6000;
    made.memcpy.deviceId = device, made.memcpy.contextId = device + 1, made.memcpy.streamId = stream;
    made.memcpy.correlationId = id;
    put(&made);
    return id;
}

EXPORT uint32_t fake_peer(uint64_t bytes, uint32_t from, uint32_t to, uint32_t stream) {
    uint64_t start = stamp();
    uint32_t id = call(RUNTIME, 41, start, 0);
    Record made = record(PEER);
    made.peer.copyKind = 10, made.peer.srcKind = 3, made.peer.dstKind = 3;
    made.peer.bytes = bytes;
    made.peer.start = start + 2000, made.peer.end = start + 6000;
    made.peer.deviceId = from, made.peer.contextId = from + 1, made.peer.streamId = stream;
    made.peer.srcDeviceId = from, made.peer.srcContextId = from + 1;
    made.peer.dstDeviceId = to, made.peer.dstContextId = to + 1;
    made.peer.correlationId = id;
    put(&made);
    return id;
}

EXPORT uint32_t fake_memset(uint32_t value, uint64_t bytes, uint32_t device, uint32_t stream) {
    uint64_t start = stamp();
    uint32_t id = call(RUNTIME, 51, start, 0);
    Record made = record(MEMSET);
    made.memset.value = value, made.memset.bytes = bytes;
    made.memset.start = start + 2000, made.memset.end = start + 3000;
    made.memset.deviceId = device, made.memset.contextId = device + 1, made.memset.streamId = stream;
    made.memset.memoryKind = 3;
    made.memset.correlationId = id;
    put(&made);
    return id;
}

EXPORT uint32_t fake_driver_call(uint32_t callback) { return call(DRIVER, callback, stamp(), 0); }

EXPORT uint32_t fake_runtime_call(uint32_t callback, int answer) { return call(RUNTIME, callback, stamp(), answer); }

// A context's birth.
EXPORT void fake_context(uint32_t device) {
    Record made = record(CONTEXT);
    made.context.contextId = device + 1, made.context.deviceId = device;
    put(&made);
}

// Of type 1 to 4: event, stream waits for event, stream, context.
EXPORT void fake_sync(uint32_t type, uint32_t device, uint32_t stream) {
    uint64_t start = stamp();
    Record made = record(SYNC);
    made.sync.type = type;
    made.sync.start = start, made.sync.end = start + 700;
    made.sync.correlationId = call(RUNTIME, type == 3 ? 131 : 165, start, 0);
    made.sync.contextId = device + 1, made.sync.streamId = stream;
    made.sync.cudaEventId = type == 1 || type == 2 ? 17 : 0xFFFFFFFFu;
    put(&made);
}

EXPORT void fake_overhead(uint32_t kind) {
    Record made = record(OVERHEAD);
    made.overhead.overheadKind = kind;
    made.overhead.objectKind = 2;
    made.overhead.objectId.pt.processId = (uint32_t)getpid();
    made.overhead.objectId.pt.threadId = thread_id();
    made.overhead.start = stamp(), made.overhead.end = made.overhead.start + 300;
    put(&made);
}

// A range of NVTX's, or a mark if `length_ns` is 0.
EXPORT void fake_marker(const char *name, uint64_t length_ns) {
    static uint32_t ids;
    Record made = record(MARKER);
    made.marker.flags = length_ns == 0 ? 1 : 2;
    made.marker.timestamp = stamp();
    made.marker.id = __sync_add_and_fetch(&ids, 1);
    made.marker.objectKind = 2;
    made.marker.objectId.pt.processId = (uint32_t)getpid();
    made.marker.objectId.pt.threadId = thread_id();
    made.marker.name = name;
    put(&made);
    if (length_ns == 0) return;
    made.marker.flags = 4;
    made.marker.timestamp += length_ns;
    made.marker.name = NULL;
    put(&made);
}

// A record of a kind that no reader knows yet.
EXPORT void fake_new_kind(void) {
    Record made = record(NEW_KIND);
    put(&made);
}

// As the real one hands over what it has when the process ends.
__attribute__((destructor)) static void at_exit(void) {
    if (completed == NULL) return;
    for (int i = 0; i <= thread_count; i++) complete(&buffers[i]);
}

// For the benchmark: what so many launches from within an op record, filled at the speed of memory and held until the
// next flush. Answers the number of records.
#define MOST_HELD 4096
static Buffer held[MOST_HELD];
static size_t held_count;
static uint64_t callback_ns[2][MOST_HELD];
static size_t callback_count[2];

static uint64_t monotonic_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static void took(int which, uint64_t start) {
    if (callback_count[which] < MOST_HELD) callback_ns[which][callback_count[which]++] = monotonic_ns() - start;
}

EXPORT uint64_t fake_fill(uint64_t launches, const char *const *names, uint32_t name_count) {
    uint64_t records = 0, now = stamp() - 1000000;
    uint32_t thread = thread_id();
    Buffer *buffer = NULL;
    for (uint64_t i = 0; i < launches; i++) {
        size_t size = sizeof(External) + sizeof(Api) + sizeof(Kernel);
        if (buffer == NULL || buffer->used + size > buffer->size) {
            if (held_count == MOST_HELD) break;
            buffer = &held[held_count++];
            uint64_t start = monotonic_ns();
            requested(&buffer->bytes, &buffer->size, &buffer->most);
            took(0, start);
            if (buffer->bytes == NULL) {
                held_count--;
                break;
            }
        }
        Record external = record(EXTERNAL), api = record(RUNTIME), kernel = record(KERNEL);
        external.external.externalKind = 3, external.external.externalId = i;
        external.external.correlationId = api.api.correlationId = kernel.kernel.correlationId = ++correlation;
        api.api.cbid = 211, api.api.start = now + i, api.api.end = now + i + 1;
        api.api.threadId = thread;
        kernel.kernel.start = now + i, kernel.kernel.end = now + i + 1;
        kernel.kernel.contextId = 1, kernel.kernel.streamId = 7 + i % 4;
        kernel.kernel.gridX = 1 + i % 64, kernel.kernel.gridY = kernel.kernel.gridZ = 1;
        kernel.kernel.blockX = 128, kernel.kernel.blockY = kernel.kernel.blockZ = 1;
        kernel.kernel.registersPerThread = 40;
        kernel.kernel.name = names[i % name_count];
        memcpy(buffer->bytes + buffer->used, &external, sizeof(External));
        memcpy(buffer->bytes + buffer->used + sizeof(External), &api, sizeof(Api));
        memcpy(buffer->bytes + buffer->used + sizeof(External) + sizeof(Api), &kernel, sizeof(Kernel));
        buffer->used += size;
        records += 3;
    }
    return records;
}

// How long the callbacks took, in nanoseconds: `which` 0 for asking, 1 for giving back; `index` from the fastest on.
static int by_size(const void *one, const void *other) {
    uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;
    return (a > b) - (a < b);
}
EXPORT uint64_t fake_callback_ns(int which, double quantile) {
    size_t count = callback_count[which];
    qsort(callback_ns[which], count, sizeof **callback_ns, by_size);
    return count == 0 ? 0 : callback_ns[which][(size_t)((double)(count - 1) * quantile)];
}

EXPORT size_t fake_foreign_threads(void) { return foreign_threads; }
EXPORT int fake_depth(int kind) { return depth[kind]; }
EXPORT int fake_is_subscribed(void) { return subscribed; }
EXPORT int fake_is_enabled(int kind) { return enabled[kind]; }
EXPORT void fake_subscribe(void) { subscribed = 1; }

CUPTI(GetVersion, uint32_t *version) {
    GATE("RC_VERSION");
    // The real one of 12.0 and 12.1 tells the number of 11.8.
    return *version = A == 19 ? 18 : A, 0;
}

CUPTI(GetTimestamp, uint64_t *time) {
    GATE("RC_TIMESTAMP");
    return *time = clock_ns(), 0;
}

CUPTI(GetResultString, int code, const char **text) {
    GATE("RC_TEXT");
    switch (code) {
    case 15: *text = "CUPTI_ERROR_NOT_INITIALIZED"; break;
    case 35: *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES"; break;
    case 39: *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"; break;
    default: *text = "CUPTI_ERROR_UNKNOWN";
    }
    return 0;
}

CUPTI(GetCallbackName, int domain, uint32_t callback, const char **name) {
    GATE("RC_NAMES");
    if (domain == 2 && callback == 211) return *name = "cudaLaunchKernel_v7000", 0;
    if (domain == 2 && callback == 41) return *name = "cudaMemcpyAsync_v3020", 0;
    if (domain == 2 && callback == 9999) return *name = "cudaFromTheFuture_v99000", 0;
    if (domain == 1 && callback == 307) return *name = "cuLaunchKernel", 0;
    return 1;
}

#ifndef NO_SUBSCRIBE
CUPTI(Subscribe, void **subscriber, void *callback, void *data) {
    (void)callback, (void)data;
    GATE("RC_SUBSCRIBE");
    if (subscribed) return 39;
    subscribed = 1;
    return *subscriber = &subscribed, 0;
}

#if A >= 130000
typedef struct {
    size_t size;
    const char *name;
    char *old_name;
    size_t old_size;
} SubscriberParams;

CUPTI(Subscribe_v2, void **subscriber, void *callback, void *data, SubscriberParams *params) {
    if (params->size < 32 || params->old_size < 64) return 1;
    int code = fn_Subscribe(subscriber, callback, data);
    if (code == 39) snprintf(params->old_name, params->old_size, "CUPTI for another tool");
    return code;
}
#endif

CUPTI(Unsubscribe, void *subscriber) {
    GATE("RC_UNSUBSCRIBE");
    if (subscriber != &subscribed) return 1;
    return subscribed = 0;
}
#endif

CUPTI(ActivityRegisterCallbacks, void (*request)(uint8_t **, size_t *, size_t *),
      void (*complete)(void *, uint32_t, uint8_t *, size_t, size_t)) {
    GATE("RC_REGISTER");
    requested = request, completed = complete;
    return 0;
}

CUPTI(ActivityEnable, int kind) {
    char key[32];
    GATE("RC_ENABLE");
    snprintf(key, sizeof key, "RC_ENABLE_%d", kind);
    GATE(key);
    if (kind <= 0 || kind >= KINDS) return 21;
    return enabled[kind] = 1, 0;
}

CUPTI(ActivityDisable, int kind) {
    GATE("RC_DISABLE");
    if (kind <= 0 || kind >= KINDS) return 21;
    return enabled[kind] = 0;
}

CUPTI(ActivityEnableAndDump, int kind) {
    GATE("RC_DUMP");
    enabled[kind] = 1;
    if (kind == CONTEXT)
        for (uint32_t device = 0; device < 2; device++) fake_context(device);
    return 0;
}

CUPTI(ActivityFlushAll, uint32_t flags) {
    long long ms = setting("FLUSH_MS");
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)flags;
    GATE("RC_FLUSH");
    nanosleep(&time, NULL);
    pthread_mutex_lock(&lock);
    for (int i = 0; i <= thread_count; i++) complete(&buffers[i]);
    for (size_t i = 0; i < held_count; i++) {
        uint64_t start = monotonic_ns();
        completed(NULL, 0, held[i].bytes, held[i].size, held[i].used);
        took(1, start);
        memset(&held[i], 0, sizeof held[i]);
    }
    held_count = 0;
    pthread_mutex_unlock(&lock);
    return 0;
}

CUPTI(ActivityGetNextRecord, uint8_t *buffer, size_t valid, uint8_t **next) {
    static long long *code;
    if (code == NULL) code = slot("RC_NEXT");
    // As fast as the real one.
    if (*code != 0) return (int)*code;
    if (buffer == NULL) return 1;
    size_t at = *next != NULL ? (size_t)(*next - buffer) + size_of(*(uint32_t *)(void *)*next) : 0;
    if (at + 8 > valid) return 12;
    size_t size = size_of(*(uint32_t *)(void *)(buffer + at));
    if (size == 0) return A < 22 ? 999 : 21;
    if (at + size > valid) return 12;
    return *next = buffer + at, 0;
}

CUPTI(ActivityGetNumDroppedRecords, void *context, uint32_t stream, size_t *count) {
    (void)context, (void)stream;
    GATE("RC_DROPPED");
    *count = dropped + (size_t)setting("DROP");
    fake_set("DROP", 0);
    dropped = 0;
    return 0;
}

CUPTI(ActivityPushExternalCorrelationId, int kind, uint64_t id) {
    GATE("RC_PUSH");
    if (kind < 1 || kind > 5) return 1;
    if (depth[kind] == 64) return 8;
    return stack[kind][depth[kind]++] = id, 0;
}

CUPTI(ActivityPopExternalCorrelationId, int kind, uint64_t *id) {
    GATE("RC_POP");
    if (kind < 1 || kind > 5) return 1;
    if (depth[kind] == 0) return 18;
    depth[kind]--;
    if (id != NULL) *id = stack[kind][depth[kind]];
    return 0;
}

CUPTI(SetThreadIdType, int type) {
    GATE("RC_THREAD_ID");
    return system_ids = type == 1, 0;
}
