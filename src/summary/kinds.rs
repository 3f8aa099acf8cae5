//! What names and categories say of an event.

use super::report::NameKind;
use crate::read::names::Name;

/// What the slices of a category are.
pub(super) fn kind(category: &str) -> NameKind {
    match category {
        "cpu_op" | "Operator" => NameKind::Op,
        "kernel" | "gpu_memcpy" | "gpu_memset" | "Kernel" | "Memcpy" | "Memset" => NameKind::Gpu,
        "user_annotation" => NameKind::Annotation,
        _ if category.ends_with("_runtime") || category.ends_with("_driver") || category == "Runtime" => NameKind::Call,
        _ => NameKind::Other,
    }
}

/// What an activity does, as HTA tells it from the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Compute,
    Communication,
    Memory,
    /// Busy, but none of these.
    Other,
}

/// `^nccl.*Kernel`, `^Memcpy|^Memset|^dma`, and what is neither a copy nor a synchronisation.
pub(super) fn work(name: &str) -> Work {
    if name.strip_prefix("nccl").is_some_and(|rest| rest.contains("Kernel")) {
        Work::Communication
    } else if ["Memcpy", "Memset", "dma"].iter().any(|start| name.starts_with(start)) {
        Work::Memory
    } else if name.contains("Memcpy") || name.contains("Sync") {
        Work::Other
    } else {
        Work::Compute
    }
}

/// N of `ProfilerStep#N`.
pub(super) fn step(name: &Name) -> Option<u64> {
    let digits = name.name.strip_prefix("ProfilerStep")?.trim_start().strip_prefix('#')?.trim_start();
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    (name.category != "gpu_user_annotation").then(|| digits[..end].parse().ok())?
}

/// The name of allocations.
pub(super) const MEMORY_NAME: &str = "[memory]";

/// What a thread remembers of a name.
pub(super) const GPU: u8 = 1;
pub(super) const MEMORY: u8 = 2;

pub(super) fn flags(name: &Name) -> u8 {
    if kind(&name.category) == NameKind::Gpu {
        GPU
    } else if name.name == MEMORY_NAME {
        MEMORY
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_told_by_its_name() {
        assert_eq!(work("ncclDevKernel_AllReduce_Sum_f32_RING_LL"), Work::Communication);
        assert_eq!(work("ncclCommInit"), Work::Compute);
        assert_eq!(work("Memcpy HtoD (Pageable -> Device)"), Work::Memory);
        assert_eq!(work("Memset (Device)"), Work::Memory);
        assert_eq!(work("void at::native::MemcpyKernel"), Work::Other);
        assert_eq!(work("Context Sync"), Work::Other);
        assert_eq!(work("sgemm"), Work::Compute);
    }

    #[test]
    fn steps_are_told_by_their_name() {
        let step = |name: &str, category: &str| step(&Name { name: name.into(), category: category.into() });
        assert_eq!(step("ProfilerStep#12", "user_annotation"), Some(12));
        assert_eq!(step("ProfilerStep # 3", "cpu_op"), Some(3));
        assert_eq!(step("ProfilerStep#12", "gpu_user_annotation"), None);
        assert_eq!(step("ProfilerStep#", "user_annotation"), None);
        assert_eq!(step("ProfilerStep", ""), None);
    }
}
