//! What there is: driver, devices, runtime, CUPTI.

use std::ffi::c_int;

use super::cupti::Cupti;
use super::driver::{self, Driver};
use super::library::functions;
use super::search::{self, CUPTI, GpuLibraries, Mapped, RUNTIME};
use crate::model::gpu::{GpuInfo, GpuLibrary, GpuState};

functions! {
    Runtime {} or {
        version = "cudaRuntimeGetVersion": fn(*mut c_int);
    }
}

/// The parts that work, for a collector.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) driver: Driver,
    pub(super) cupti: Cupti,
}

/// Looks for everything, in the order in which it may be touched: CUPTI 13.2 overflows its stack on any call, even for
/// its version, while the driver does not work.
pub(super) fn discover(libraries: &GpuLibraries) -> (GpuInfo, Option<Parts>) {
    let mut info = GpuInfo::default();
    if cfg!(not(target_os = "linux")) {
        info.state = GpuState::Unsupported;
        info.reason = "tptrace collects GPU work on Linux only".to_owned();
        return (info, None);
    }
    let Some(driver) = driver::start(libraries, &mut info) else { return (info, None) };
    let mapped = Mapped::now();
    let version = info.driver.as_ref().map_or(0, |driver| driver.version);
    let driver_major = version / 1000;
    let major = mapped.runtime_major().unwrap_or(driver_major);
    info.runtime = runtime(libraries, &mapped, major);
    let cupti = find_cupti(libraries, &mapped, major, &mut info);
    if let Some(Cupti { cuda: Some((cupti_major, minor)), .. }) = &cupti
        && version > 0
        && *cupti_major > driver_major
    {
        info.warnings.push(format!(
            "libcupti is of CUDA {cupti_major}.{minor}, and the driver supports CUDA up to {driver_major}.{}: it may \
             refuse to start; install the CUPTI of CUDA {driver_major}",
            version % 1000 / 10
        ));
    }
    (info, cupti.map(|cupti| Parts { driver, cupti }))
}

fn runtime(libraries: &GpuLibraries, mapped: &Mapped, major: i32) -> Option<GpuLibrary> {
    let found = search::find(&RUNTIME, libraries, mapped, major).ok()?;
    let version = Runtime::find(found).ok()?.version?;
    let mut number = 0;
    // SAFETY: the runtime's version may be asked for at any time; the place is ours.
    let known = unsafe { version(&raw mut number) } == 0;
    let path = found.file(b"cudaRuntimeGetVersion\0").unwrap_or_default();
    Some(GpuLibrary { path, version: if known { number } else { 0 } })
}

/// Finds and asks CUPTI. Only once the driver works and has a device.
fn find_cupti(libraries: &GpuLibraries, mapped: &Mapped, major: i32, info: &mut GpuInfo) -> Option<Cupti> {
    let found = match search::find(&CUPTI, libraries, mapped, major) {
        Ok(found) => found,
        Err(error) => {
            info.state = GpuState::NoCupti;
            info.reason = format!(
                "libcupti, which tells what the GPU does, is not to be found: {error}. Install NVIDIA's wheel \
                 (nvidia-cuda-cupti{}), or name the file in TP_LIBCUPTI",
                if major == 11 || major == 12 { format!("-cu{major}") } else { String::new() }
            );
            return None;
        }
    };
    let path = found.file(b"cuptiGetVersion\0").unwrap_or_default();
    info.cupti = Some(GpuLibrary { path: path.clone(), version: 0 });
    match Cupti::new(found) {
        Ok(cupti) => {
            info.cupti = Some(GpuLibrary { path, version: cupti.version });
            info.state = GpuState::Ready;
            Some(cupti)
        }
        Err(error) => {
            info.state = GpuState::CuptiFailed;
            info.reason = format!("{}: {error}", if path.is_empty() { "libcupti" } else { &path });
            None
        }
    }
}
