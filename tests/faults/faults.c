// Stands before the system's calls (LD_PRELOAD) and lets those that write files fail, as FAULT says:
//   short        writes take a few bytes only
//   interrupt    every other write is interrupted before it takes any
//   N:NUMBER     with error NUMBER, once N bytes were written
//   sync         fsync fails with EIO
// Standard output and error are left alone.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

static atomic_long written, calls;

static int regular(int fd) {
    struct stat about;
    return fd > 2 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
}

// How many of `count` bytes may be written; -1 with errno for none.
static ssize_t allowed(int fd, size_t count) {
    const char *fault = getenv("FAULT");
    if (!fault || count == 0 || !regular(fd)) return (ssize_t)count;
    if (!strcmp(fault, "short")) return count > 7 ? 1 + (ssize_t)(atomic_fetch_add(&calls, 1) * 7919 % 4096) % (ssize_t)count : 1;
    if (!strcmp(fault, "interrupt")) {
        if (atomic_fetch_add(&calls, 1) % 2 == 0) { errno = EINTR; return -1; }
        return (ssize_t)count;
    }
    char *colon = strchr(fault, ':');
    if (!colon) return (ssize_t)count;
    long room = atol(fault) - atomic_load(&written);
    if (room <= 0) { errno = atoi(colon + 1); return -1; }
    size_t taken = count < (size_t)room ? count : (size_t)room;
    atomic_fetch_add(&written, (long)taken);
    return (ssize_t)taken;
}

ssize_t write(int fd, const void *bytes, size_t count) {
    static ssize_t (*real)(int, const void *, size_t);
    if (!real) real = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    ssize_t some = allowed(fd, count);
    return some < 0 ? some : real(fd, bytes, (size_t)some);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    static ssize_t (*real)(int, const struct iovec *, int);
    if (!real) real = (ssize_t(*)(int, const struct iovec *, int))dlsym(RTLD_NEXT, "writev");
    if (!getenv("FAULT") || count < 1 || !regular(fd)) return real(fd, parts, count);
    return write(fd, parts[0].iov_base, parts[0].iov_len);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    static ssize_t (*real)(int, const void *, size_t, off64_t);
    if (!real) real = (ssize_t(*)(int, const void *, size_t, off64_t))dlsym(RTLD_NEXT, "pwrite64");
    ssize_t some = allowed(fd, count);
    return some < 0 ? some : real(fd, bytes, (size_t)some, at);
}

int fsync(int fd) {
    static int (*real)(int);
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    const char *fault = getenv("FAULT");
    if (fault && !strcmp(fault, "sync")) { errno = EIO; return -1; }
    return real(fd);
}
