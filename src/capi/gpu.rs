//! What there is of GPUs.

use std::ffi::c_char;
use std::path::PathBuf;

use super::guard::guard_waits;
use super::input::{array, check_out, path, sized, write_out};
use super::status::{Failure, tp_status};
use super::trace::{copy_out, live, tp_trace};
use super::types::tp_str;
use crate::gpu::{self, GpuInfo, GpuLibraries, GpuState};

/// GPU work can be collected: there is a driver, a device, and a CUPTI that answers.
pub const TP_GPU_STATE_READY: i32 = 0;
/// No NVIDIA driver: libcuda.so.1 is not to be found.
pub const TP_GPU_STATE_NO_DRIVER: i32 = 1;
/// The libcuda.so.1 that was found is the CUDA toolkit's stub for linking.
pub const TP_GPU_STATE_STUB_DRIVER: i32 = 2;
/// The driver sees no device.
pub const TP_GPU_STATE_NO_DEVICE: i32 = 3;
/// The parts of the driver do not fit one another, or not the device.
pub const TP_GPU_STATE_DRIVER_MISMATCH: i32 = 4;
/// This process was forked from one that had started CUDA, which does not work in the child.
pub const TP_GPU_STATE_FORKED: i32 = 5;
/// The system has not finished to start up its devices.
pub const TP_GPU_STATE_NOT_READY: i32 = 6;
/// The devices are there, but not for this process.
pub const TP_GPU_STATE_REFUSED: i32 = 7;
/// The driver failed in some other way.
pub const TP_GPU_STATE_DRIVER_FAILED: i32 = 8;
/// The devices work; libcupti, which tells what they do, is not to be found.
pub const TP_GPU_STATE_NO_CUPTI: i32 = 9;
/// libcupti was found and does not work.
pub const TP_GPU_STATE_CUPTI_FAILED: i32 = 10;
/// Not a platform that GPU work is collected on.
pub const TP_GPU_STATE_UNSUPPORTED: i32 = 11;

/// Which files of CUDA's to use, and where else to look. Zero-filled with `size` set is the default: what the process
/// has loaded, NVIDIA's wheels beside loaded Python packages, conda, the system's loader, the toolkit. A file that is
/// not named here is taken from TP_LIBCUDA, TP_LIBCUDART or TP_LIBCUPTI in the environment, if set.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_gpu_libraries {
    /// `sizeof(tp_gpu_libraries)`.
    pub size: usize,
    /// The driver's library; empty to look for it.
    pub libcuda: tp_str,
    /// The runtime's library; empty to look for it.
    pub libcudart: tp_str,
    /// CUPTI's library; empty to look for it.
    pub libcupti: tp_str,
    /// Folders that NVIDIA's wheels may be installed in, such as Python's site-packages: `search_path_count` texts.
    pub search_paths: *const tp_str,
    /// Number of folders.
    pub search_path_count: usize,
}

/// What was found of GPUs, in numbers.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_gpu_facts {
    /// `sizeof(tp_gpu_facts)`, set by the caller.
    pub size: usize,
    /// A `TP_GPU_STATE_` number.
    pub state: i32,
    /// What cuInit answered, 0 for success; -1 if it was not called.
    pub driver_code: i32,
    /// Devices that this process may use.
    pub device_count: i32,
    /// The newest CUDA that the driver supports: 12040 for 12.4. 0 for unknown.
    pub driver_version: i32,
    /// The CUDA runtime's version, likewise; 0 if there is none.
    pub runtime_version: i32,
    /// CUPTI's number of its interface, such as 22 or 130000; 0 if there is none.
    pub cupti_version: i32,
}

pub(super) fn state(state: GpuState) -> i32 {
    match state {
        GpuState::Ready => TP_GPU_STATE_READY,
        GpuState::NoDriver => TP_GPU_STATE_NO_DRIVER,
        GpuState::StubDriver => TP_GPU_STATE_STUB_DRIVER,
        GpuState::NoDevice => TP_GPU_STATE_NO_DEVICE,
        GpuState::DriverMismatch => TP_GPU_STATE_DRIVER_MISMATCH,
        GpuState::Forked => TP_GPU_STATE_FORKED,
        GpuState::NotReady => TP_GPU_STATE_NOT_READY,
        GpuState::Refused => TP_GPU_STATE_REFUSED,
        GpuState::DriverFailed => TP_GPU_STATE_DRIVER_FAILED,
        GpuState::NoCupti => TP_GPU_STATE_NO_CUPTI,
        GpuState::CuptiFailed => TP_GPU_STATE_CUPTI_FAILED,
        GpuState::Unsupported => TP_GPU_STATE_UNSUPPORTED,
    }
}

/// # Safety
/// `from` is NULL or as [`sized`], and its texts are readable.
pub(super) unsafe fn libraries(from: *const tp_gpu_libraries) -> Result<GpuLibraries, Failure> {
    if from.is_null() {
        return Ok(GpuLibraries::default());
    }
    // SAFETY: the caller vouches for the struct and all that it points to.
    unsafe {
        let given = sized(from)?;
        let file = |what: &str, text: tp_str| -> Result<Option<PathBuf>, Failure> {
            if text.len == 0 { Ok(None) } else { Ok(Some(path(what, text)?.to_path_buf())) }
        };
        let folders = array("search_paths", given.search_paths, given.search_path_count)?;
        Ok(GpuLibraries {
            libcuda: file("libcuda", given.libcuda)?,
            libcudart: file("libcudart", given.libcudart)?,
            libcupti: file("libcupti", given.libcupti)?,
            search_paths: folders
                .iter()
                .map(|&folder| Ok(path("a search path", folder)?.to_path_buf()))
                .collect::<Result<_, Failure>>()?,
        })
    }
}

/// Looks for the driver, its devices, the runtime and CUPTI, and tells in numbers what there is. That there is none is
/// no failure: `state` says so.
///
/// Loads and starts the driver if there is one, which takes up to seconds, and after which CUDA does not work in children
/// that the process forks. Nothing of this happens in any other call but tp_gpu_info_text, tp_gpu_info_json,
/// tp_trace_set_gpu_info and tp_gpu_start. Without a driver the answer takes about a millisecond.
///
/// `libraries`: NULL for the defaults; read during the call only.
/// `out`: the caller sets its size; written on success.
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_gpu_info(libraries: *const tp_gpu_libraries, out: *mut tp_gpu_facts) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for both structs.
        let (size, libraries) = unsafe { (check_out(out)?, self::libraries(libraries)?) };
        let info = gpu::info(&libraries);
        let version = |library: &Option<gpu::GpuLibrary>| library.as_ref().map_or(0, |one| one.version);
        let told = tp_gpu_facts {
            size,
            state: state(info.state),
            driver_code: info.driver_code.unwrap_or(-1),
            device_count: i32::try_from(info.devices.len()).unwrap_or(i32::MAX),
            driver_version: version(&info.driver),
            runtime_version: version(&info.runtime),
            cupti_version: version(&info.cupti),
        };
        // SAFETY: checked above.
        unsafe { write_out(out, told) };
        Ok(())
    })
}

/// Copies what was found, put into words by `say`.
///
/// # Safety
/// As [`tp_gpu_info_text`].
unsafe fn copy(
    libraries: *const tp_gpu_libraries,
    buffer: *mut c_char,
    capacity: usize,
    length_out: *mut usize,
    say: impl FnOnce(&GpuInfo) -> String,
) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for the struct.
        let libraries = unsafe { self::libraries(libraries) }?;
        if buffer.is_null() && capacity > 0 {
            return Err(Failure::invalid("buffer is NULL, but has a capacity"));
        }
        let text = say(&gpu::info(&libraries));
        // SAFETY: the caller vouches for both places.
        unsafe {
            let length = copy_out(&text, buffer, capacity);
            if !length_out.is_null() {
                length_out.write_unaligned(length);
            }
        }
        Ok(())
    })
}

/// As tp_gpu_info, in lines of text for a person: what was found, from which files, and if GPU work cannot be collected,
/// why and what to do.
///
/// `buffer`: gets the text, cut to `capacity` bytes with its terminator. May be NULL if `capacity` is 0.
/// `length_out`: gets the whole text's length without the terminator; may be NULL.
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_gpu_info_text(
    libraries: *const tp_gpu_libraries,
    buffer: *mut c_char,
    capacity: usize,
    length_out: *mut usize,
) -> tp_status {
    // SAFETY: the caller vouches for struct and places.
    unsafe { copy(libraries, buffer, capacity, length_out, GpuInfo::to_text) }
}

/// As tp_gpu_info_text, as one JSON object: `ready`, `state`, `reason`, `driver`, `runtime`, `cupti` (each with `path` and
/// `version`, or null), `devices` (each with the members of Kineto's `deviceProperties`, and `uuid`, `pci`), `warnings`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_gpu_info_json(
    libraries: *const tp_gpu_libraries,
    buffer: *mut c_char,
    capacity: usize,
    length_out: *mut usize,
) -> tp_status {
    // SAFETY: the caller vouches for struct and places.
    unsafe { copy(libraries, buffer, capacity, length_out, GpuInfo::to_json) }
}

/// As tp_gpu_info, and keeps what was found in the trace: `deviceProperties`, `cuda_driver_version`,
/// `cuda_runtime_version` and `cupti_version` of the torch format. tp_gpu_start does so too.
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_set_gpu_info(trace: *mut tp_trace, libraries: *const tp_gpu_libraries) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for handle and struct.
        let (trace, libraries) = unsafe { (live(trace)?, self::libraries(libraries)?) };
        trace.set_gpu_info(gpu::info(&libraries));
        Ok(())
    })
}
