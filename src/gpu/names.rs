//! Names for what CUPTI tells in numbers.

use std::collections::HashMap;

/// The domain of a callback id, as CUPTI numbers them.
pub(super) const DRIVER_DOMAIN: i32 = 1;
pub(super) const RUNTIME_DOMAIN: i32 = 2;

/// Calls that start work or wait for it, where CUPTI does not tell their names. The numbers never change.
const RUNTIME: &[(u32, &str)] = &[
    (20, "cudaMalloc"),
    (22, "cudaFree"),
    (31, "cudaMemcpy"),
    (32, "cudaMemcpy2D"),
    (41, "cudaMemcpyAsync"),
    (44, "cudaMemcpy2DAsync"),
    (49, "cudaMemset"),
    (51, "cudaMemsetAsync"),
    (131, "cudaStreamSynchronize"),
    (135, "cudaEventRecord"),
    (137, "cudaEventSynchronize"),
    (147, "cudaStreamWaitEvent"),
    (160, "cudaMemcpyPeer"),
    (161, "cudaMemcpyPeerAsync"),
    (165, "cudaDeviceSynchronize"),
    (211, "cudaLaunchKernel"),
    (214, "cudaLaunchKernel_ptsz"),
    (225, "cudaMemcpyAsync_ptsz"),
    (235, "cudaMemsetAsync_ptsz"),
    (269, "cudaLaunchCooperativeKernel"),
    (270, "cudaLaunchCooperativeKernel_ptsz"),
    (311, "cudaGraphLaunch"),
    (312, "cudaGraphLaunch_ptsz"),
    (373, "cudaMallocAsync"),
    (375, "cudaFreeAsync"),
    (430, "cudaLaunchKernelExC"),
    (431, "cudaLaunchKernelExC_ptsz"),
];
const DRIVER: &[(u32, &str)] = &[
    (17, "cuCtxSynchronize"),
    (119, "cuEventRecord"),
    (121, "cuEventSynchronize"),
    (126, "cuStreamSynchronize"),
    (243, "cuMemAlloc_v2"),
    (245, "cuMemFree_v2"),
    (277, "cuMemcpyHtoDAsync_v2"),
    (279, "cuMemcpyDtoHAsync_v2"),
    (281, "cuMemcpyDtoDAsync_v2"),
    (295, "cuStreamWaitEvent"),
    (306, "cuMemcpyAsync"),
    (307, "cuLaunchKernel"),
    (442, "cuLaunchKernel_ptsz"),
    (477, "cuLaunchCooperativeKernel"),
    (478, "cuLaunchCooperativeKernel_ptsz"),
    (514, "cuGraphLaunch"),
    (515, "cuGraphLaunch_ptsz"),
    (549, "cuMemCreate"),
    (550, "cuMemRelease"),
    (551, "cuMemMap"),
    (552, "cuMemUnmap"),
    (652, "cuLaunchKernelEx"),
    (653, "cuLaunchKernelEx_ptsz"),
];

/// Calls of the runtime that are left out unless all are asked for: many, short, and no work of the GPU's. cudaGetLastError,
/// cudaPeekAtLastError, cudaSetDevice, cudaGetDevice, cudaEventCreate, cudaEventCreateWithFlags, cudaEventDestroy.
const DULL_RUNTIME: &[u32] = &[10, 11, 16, 17, 133, 134, 136];
/// Calls of the driver that are kept unless all are asked for: launches, which have no call of the runtime above them
/// where a compiler such as Triton's makes them, and the mapping of memory.
const KEPT_DRIVER: &[u32] = &[307, 442, 477, 478, 514, 515, 549, 550, 551, 552, 652, 653];

/// Whether a call is worth a slice.
#[inline]
pub(super) fn is_kept(domain: i32, callback: u32) -> bool {
    match domain {
        DRIVER_DOMAIN => KEPT_DRIVER.contains(&callback),
        _ => !DULL_RUNTIME.contains(&callback),
    }
}

/// Names of calls, each asked for once.
#[derive(Debug, Default)]
pub(super) struct CallNames(HashMap<(i32, u32), String>);

impl CallNames {
    /// `ask` is CUPTI's own way to tell.
    pub(super) fn get(&mut self, domain: i32, callback: u32, ask: impl FnOnce() -> Option<String>) -> &str {
        self.0.entry((domain, callback)).or_insert_with(|| {
            if let Some(name) = ask() {
                return plain(&name).to_owned();
            }
            let table = if domain == DRIVER_DOMAIN { DRIVER } else { RUNTIME };
            match table.iter().find(|(id, _)| *id == callback) {
                Some((_, name)) => (*name).to_owned(),
                None if domain == DRIVER_DOMAIN => format!("driver call {callback}"),
                None => format!("runtime call {callback}"),
            }
        })
    }
}

/// Without the version that a function was introduced in, as programs and Kineto call it: `cudaLaunchKernel_v7000`.
fn plain(name: &str) -> &str {
    match name.rsplit_once("_v") {
        Some((plain, version)) if version.len() >= 4 && version.bytes().all(|byte| byte.is_ascii_digit()) => plain,
        _ => name,
    }
}

/// The direction of a copy.
fn direction(kind: u8) -> &'static str {
    const NAMES: [&str; 11] =
        ["Unknown", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"];
    NAMES.get(usize::from(kind)).copied().unwrap_or("Unknown")
}

/// A kind of memory.
fn memory(kind: u16) -> &'static str {
    const NAMES: [&str; 8] =
        ["Unknown", "Pageable", "Pinned", "Device", "Array", "Managed", "Device Static", "Managed Static"];
    NAMES.get(usize::from(kind)).copied().unwrap_or("Unknown")
}

/// Names of copies and fills, each made once.
#[derive(Debug, Default)]
pub(super) struct MemoryNames {
    copies: HashMap<[u8; 3], String>,
    fills: HashMap<u16, String>,
}

impl MemoryNames {
    /// As Kineto names a copy: `Memcpy HtoD (Pageable -> Device)`.
    pub(super) fn copy(&mut self, kind: u8, from: u8, to: u8) -> &str {
        self.copies
            .entry([kind, from, to])
            .or_insert_with(|| format!("Memcpy {} ({} -> {})", direction(kind), memory(from.into()), memory(to.into())))
    }

    /// As Kineto names a fill: `Memset (Device)`.
    pub(super) fn fill(&mut self, kind: u16) -> &str {
        self.fills.entry(kind).or_insert_with(|| format!("Memset ({})", memory(kind)))
    }
}

/// As Kineto names a stretch of overhead.
pub(super) fn overhead(kind: u32) -> &'static str {
    match (kind & 0xFFFF, kind >> 16) {
        (1, 0) => "Driver Compiler",
        (0, 1) => "Buffer Flush",
        (0, 2) => "Instrumentation",
        (0, 3) => "Resource",
        (0, 4) => "Runtime Triggered Module Loading",
        (0, 5) => "Lazy Function Loading",
        (0, 6) => "Command Buffer Full",
        (0, 7) => "Activity Buffer Request",
        (0, 8) => "UVM Activity Init",
        _ => "Unknown overhead",
    }
}

/// As Kineto names a synchronisation.
pub(super) fn sync(kind: u32) -> &'static str {
    match kind {
        1 => "Event Sync",
        2 => "Stream Wait Event",
        3 => "Stream Sync",
        4 => "Context Sync",
        _ => "Unknown Sync",
    }
}

/// The readable form of a kernel's name.
pub(super) fn demangled(name: &[u8]) -> String {
    if name.starts_with(b"_Z")
        && let Ok(symbol) = cpp_demangle::Symbol::new(name)
        && let Ok(text) = symbol.demangle()
    {
        return text;
    }
    String::from_utf8_lossy(name).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_have_names_whether_or_not_cupti_tells() {
        let mut names = CallNames::default();
        assert_eq!(names.get(RUNTIME_DOMAIN, 211, || Some("cudaLaunchKernel_v7000".into())), "cudaLaunchKernel");
        assert_eq!(names.get(RUNTIME_DOMAIN, 41, || None), "cudaMemcpyAsync");
        assert_eq!(names.get(DRIVER_DOMAIN, 41, || None), "driver call 41");
        assert_eq!(names.get(DRIVER_DOMAIN, 307, || None), "cuLaunchKernel");
        assert_eq!(names.get(RUNTIME_DOMAIN, 9999, || None), "runtime call 9999");
        // Asked once.
        assert_eq!(names.get(RUNTIME_DOMAIN, 9999, || Some("late".into())), "runtime call 9999");
    }

    #[test]
    fn versions_are_cut_off_and_nothing_else() {
        assert_eq!(plain("cudaMemcpyAsync_ptsz_v7000"), "cudaMemcpyAsync_ptsz");
        assert_eq!(plain("cudaFromTheFuture_v130000"), "cudaFromTheFuture");
        assert_eq!(plain("cuMemAlloc_v2"), "cuMemAlloc_v2");
        assert_eq!(plain("cuVersion_vNext"), "cuVersion_vNext");
    }

    #[test]
    fn copies_are_named_as_kineto_does() {
        let mut names = MemoryNames::default();
        assert_eq!(names.copy(1, 1, 3), "Memcpy HtoD (Pageable -> Device)");
        assert_eq!(names.copy(10, 3, 3), "Memcpy PtoP (Device -> Device)");
        assert_eq!(names.copy(99, 99, 2), "Memcpy Unknown (Unknown -> Pinned)");
        assert_eq!(names.fill(3), "Memset (Device)");
        assert_eq!(overhead(0x10000), "Buffer Flush");
        assert_eq!(overhead(0x990000), "Unknown overhead");
    }

    #[test]
    fn kernels_are_demangled() {
        assert_eq!(demangled(b"_Z4gemmIfiEvPT_"), "void gemm<float, int>(float*)");
        assert_eq!(demangled(b"triton_poi_fused_0"), "triton_poi_fused_0");
        assert_eq!(demangled(b"_Znonsense"), "_Znonsense");
        assert_eq!(demangled(b"bad \xff"), "bad \u{fffd}");
    }
}
