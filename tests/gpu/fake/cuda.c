// A libcuda.so.1 without a device: as much of the driver as tptrace calls. The environment says how it behaves:
// FAKE_CUDA_INIT (what cuInit answers), FAKE_CUDA_DEVICES (how many), FAKE_CUDA_VERSION, FAKE_CUDA_SYNC_MS (how long a
// synchronisation takes). Once cuInit has succeeded, FAKE_CUDA_UP is set: the fake CUPTI looks for it.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int up;
static void *context;

static int number(const char *name, int otherwise) {
    const char *text = getenv(name);
    return text != NULL ? atoi(text) : otherwise;
}

static int devices(void) { return number("FAKE_CUDA_DEVICES", 2); }

// What the real driver answers before cuInit.
#define NEEDS_INIT if (!up) return 3
#define NEEDS_DEVICE if (device < 0 || device >= devices()) return 101

int cuInit(unsigned flags) {
    int answer = number("FAKE_CUDA_INIT", 0);
    if (flags != 0) return 1;
    if (answer != 0) return answer;
    if (devices() == 0) return 100;
    up = 1;
    return setenv("FAKE_CUDA_UP", "1", 1);
}

int cuDriverGetVersion(int *version) { return *version = number("FAKE_CUDA_VERSION", 13050), 0; }

int cuDeviceGetCount(int *count) {
    NEEDS_INIT;
    return *count = devices(), 0;
}

int cuDeviceGet(int *device, int ordinal) {
    NEEDS_INIT;
    if (ordinal < 0 || ordinal >= devices()) return 101;
    return *device = ordinal, 0;
}

int cuDeviceGetName(char *name, int room, int device) {
    NEEDS_INIT;
    NEEDS_DEVICE;
    return snprintf(name, (size_t)room, "Fake \"GPU\" %d", device), 0;
}

int cuDeviceTotalMem_v2(size_t *bytes, int device) {
    NEEDS_INIT;
    NEEDS_DEVICE;
    return *bytes = 85520809984u, 0;
}

int cuDeviceGetAttribute(int *value, int attribute, int device) {
    static const struct {
        int attribute, value;
    } known[] = {{1, 1024}, {8, 49152},  {10, 32}, {12, 65536},  {16, 132},    {39, 2048}, {75, 9},
                 {76, 0},   {81, 233472}, {82, 65536}, {97, 232448}, {33, 0x18}, {34, 0},   {50, 0}};
    NEEDS_INIT;
    NEEDS_DEVICE;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].attribute == attribute) return *value = known[i].value, 0;
    return 1;
}

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    NEEDS_INIT;
    NEEDS_DEVICE;
    return memset(uuid, 0xA0 + device, 16), 0;
}

int cuGetErrorName(int error, const char **name) {
    switch (error) {
    case 3: *name = "CUDA_ERROR_NOT_INITIALIZED"; return 0;
    case 34: *name = "CUDA_ERROR_STUB_LIBRARY"; return 0;
    case 100: *name = "CUDA_ERROR_NO_DEVICE"; return 0;
    case 803: *name = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"; return 0;
    default: return 1;
    }
}

int cuCtxGetCurrent(void **current) {
    NEEDS_INIT;
    return *current = context, 0;
}

int cuCtxSetCurrent(void *current) {
    NEEDS_INIT;
    return context = current, 0;
}

int cuCtxSynchronize(void) {
    int ms = number("FAKE_CUDA_SYNC_MS", 0);
    struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    NEEDS_INIT;
    if (context == NULL) return 201;
    nanosleep(&time, NULL);
    return 0;
}

int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
    NEEDS_INIT;
    NEEDS_DEVICE;
    return *flags = 0, *active = device == 0, 0;
}

int cuDevicePrimaryCtxRetain(void **made, int device) {
    NEEDS_INIT;
    NEEDS_DEVICE;
    return *made = &context, 0;
}

int cuDevicePrimaryCtxRelease_v2(int device) {
    NEEDS_INIT;
    NEEDS_DEVICE;
    return 0;
}
