/* Stands for NVIDIA's crt/host_defines.h, which is in neither the CUPTI nor the runtime wheels. The layouts of records
 * do not depend on it. */
#pragma once
#define __no_return__ __attribute__((noreturn))
#define __noinline__ __attribute__((noinline))
#define __align__(n) __attribute__((aligned(n)))
#define __thread__ __thread
#define __import__
#define __export__
#define __cdecl
#define __annotate__(a)
#define __location__(a)
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __specialization_static static
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __builtin_align__(a) __align__(a)
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __nv_pure__
#define __grid_constant__
#define __cluster_dims__(...)
#define __block_size__(...)
