// The newest record of each kind, as NVIDIA's headers declare it (-DNVIDIA_HEADERS), or as the table of tptrace's reader
// does for a CUPTI of interface version A, where the headers cannot be had.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef NVIDIA_HEADERS
#include <cupti.h>
#define A CUPTI_API_VERSION

#if A >= 130400
typedef CUpti_ActivityKernel13 Kernel;
typedef CUpti_ActivityMemcpy7 Memcpy;
typedef CUpti_ActivityMemset5 Memset;
#elif A >= 130300
typedef CUpti_ActivityKernel12 Kernel;
#elif A >= 130100
typedef CUpti_ActivityKernel11 Kernel;
#elif A >= 130000
typedef CUpti_ActivityKernel10 Kernel;
#elif CUDA_VERSION >= 12000
typedef CUpti_ActivityKernel9 Kernel;
#else
typedef CUpti_ActivityKernel8 Kernel;
#endif
#if A < 130400
#if A >= 26
typedef CUpti_ActivityMemcpy6 Memcpy;
#else
typedef CUpti_ActivityMemcpy5 Memcpy;
#endif
typedef CUpti_ActivityMemset4 Memset;
#endif
typedef CUpti_ActivityMemcpyPtoP4 Peer;
typedef CUpti_ActivityAPI Api;
typedef CUpti_ActivityExternalCorrelation External;
typedef CUpti_ActivityMarker2 Marker;
#if A >= 22
typedef CUpti_ActivityOverhead3 Overhead;
#elif A >= 21
typedef CUpti_ActivityOverhead2 Overhead;
#else
typedef CUpti_ActivityOverhead Overhead;
#endif
#if A >= 26
typedef CUpti_ActivitySynchronization2 Sync;
#else
typedef CUpti_ActivitySynchronization Sync;
#endif
#if A >= 130100
typedef CUpti_ActivityContext4 Context;
#elif A >= 23
typedef CUpti_ActivityContext3 Context;
#elif A >= 22
typedef CUpti_ActivityContext2 Context;
#else
typedef CUpti_ActivityContext Context;
#endif

#else // our own

#ifndef A
#define A 28
#endif
#define RECORD struct __attribute__((packed, aligned(8)))

typedef RECORD {
    uint32_t kind;
    uint8_t cacheConfig, sharedMemoryConfig;
    uint16_t registersPerThread;
    uint32_t partitionedRequested, partitionedExecuted;
    uint64_t start, end, completed;
    uint32_t deviceId, contextId, streamId;
    int32_t gridX, gridY, gridZ, blockX, blockY, blockZ, staticSharedMemory, dynamicSharedMemory;
    uint32_t localMemoryPerThread, localMemoryTotal, correlationId;
    int64_t gridId;
    const char *name;
    void *reserved0;
    uint64_t queued, submitted;
    uint8_t launchType, carveoutRequested, carveout, padding;
    uint32_t sharedMemoryExecuted;
    uint64_t graphNodeId;
    uint32_t shmemLimitConfig, graphId;
    void *pAccessPolicyWindow;
    uint32_t channelID, channelType, clusterX, clusterY, clusterZ, clusterSchedulingPolicy;
    uint64_t localMemoryTotal_v2;
#if A >= 20
    uint32_t maxPotentialClusterSize, maxActiveClusters;
#endif
#if A >= 130000
    uint8_t isDeviceLaunched, padding3[7];
#endif
#if A >= 130100
    int32_t priority;
    uint32_t padding4;
#endif
#if A >= 130300
    uint32_t executionModel, padding5;
#endif
#if A >= 130400
    uint32_t sourceGraphId, padding6;
    uint64_t sourceGraphNodeId;
#endif
} Kernel;

typedef RECORD {
    uint32_t kind;
    uint8_t copyKind, srcKind, dstKind, flags;
    uint64_t bytes, start, end;
    uint32_t deviceId, contextId, streamId, correlationId, runtimeCorrelationId, pad;
    void *reserved0;
    uint64_t graphNodeId;
    uint32_t graphId, channelID, channelType;
    uint8_t isDeviceLaunched, pad2[3];
#if A >= 26
    uint64_t copyCount;
#endif
#if A >= 130400
    uint32_t sourceGraphId, pad3;
    uint64_t sourceGraphNodeId;
#endif
} Memcpy;

typedef RECORD {
    uint32_t kind;
    uint8_t copyKind, srcKind, dstKind, flags;
    uint64_t bytes, start, end;
    uint32_t deviceId, contextId, streamId, srcDeviceId, srcContextId, dstDeviceId, dstContextId, correlationId;
    void *reserved0;
    uint64_t graphNodeId;
    uint32_t graphId, channelID, channelType, pad;
} Peer;

typedef RECORD {
    uint32_t kind, value;
    uint64_t bytes, start, end;
    uint32_t deviceId, contextId, streamId, correlationId;
    uint16_t flags, memoryKind;
    uint32_t pad;
    void *reserved0;
    uint64_t graphNodeId;
    uint32_t graphId, channelID, channelType;
    uint8_t isDeviceLaunched, pad2[3];
#if A >= 130400
    uint32_t sourceGraphId, pad3;
    uint64_t sourceGraphNodeId;
#endif
} Memset;

typedef RECORD {
    uint32_t kind, cbid;
    uint64_t start, end;
    uint32_t processId, threadId, correlationId, returnValue;
} Api;

typedef RECORD {
    uint32_t kind, externalKind;
    uint64_t externalId;
    uint32_t correlationId, reserved;
} External;

typedef union {
    struct {
        uint32_t processId, threadId;
    } pt;
    struct {
        uint32_t deviceId, contextId, streamId;
    } dcs;
} Object;

typedef RECORD {
    uint32_t kind, overheadKind, objectKind;
    Object objectId;
    uint64_t start, end;
#if A >= 21
    uint32_t correlationId, reserved0;
#endif
#if A >= 22
    void *overheadData;
#endif
} Overhead;

typedef RECORD {
    uint32_t kind, type;
    uint64_t start, end;
    uint32_t correlationId, contextId, streamId, cudaEventId;
#if A >= 26
    uint64_t cudaEventSyncId;
    uint32_t returnValue, pad;
#endif
} Sync;

typedef RECORD {
    uint32_t kind, flags;
    uint64_t timestamp;
    uint32_t id, objectKind;
    Object objectId;
    uint32_t pad;
    const char *name, *domain;
} Marker;

typedef RECORD {
    uint32_t kind, contextId, deviceId;
    uint16_t computeApiKind, nullStreamId;
#if A >= 22
    uint32_t parentContextId;
    uint8_t isGreenContext, padding;
    uint16_t numMultiprocessors;
#endif
#if A >= 23
    uint32_t cigMode, padding2;
#endif
#if A >= 130100
    uint64_t processId;
#endif
} Context;
#endif
