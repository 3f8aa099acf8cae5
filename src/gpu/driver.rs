//! The driver: libcuda.

use std::ffi::{CStr, OsStr, c_char, c_int, c_void};
use std::sync::atomic::Ordering;

use super::library::{self, Loaded, functions};
use super::process::Process;
use super::search::{self, GpuLibraries};
use crate::model::gpu::{GpuDevice, GpuInfo, GpuLibrary, GpuState};

/// CUcontext
pub(super) type Context = *mut c_void;

functions! {
    /// The functions of libcuda that are used here. None but `init` and `version` may be called before `init` succeeded.
    Driver {
        init = "cuInit": fn(u32);
        version = "cuDriverGetVersion": fn(*mut c_int);
        device_count = "cuDeviceGetCount": fn(*mut c_int);
        device = "cuDeviceGet": fn(*mut c_int, c_int);
        name = "cuDeviceGetName": fn(*mut c_char, c_int, c_int);
        total_memory = "cuDeviceTotalMem_v2": fn(*mut usize, c_int);
        attribute = "cuDeviceGetAttribute": fn(*mut c_int, c_int, c_int);
    } or {
        uuid_v2 = "cuDeviceGetUuid_v2": fn(*mut u8, c_int);
        uuid = "cuDeviceGetUuid": fn(*mut u8, c_int);
        error_name = "cuGetErrorName": fn(c_int, *mut *const c_char);
        current_context = "cuCtxGetCurrent": fn(*mut Context);
        set_current_context = "cuCtxSetCurrent": fn(Context);
        synchronize = "cuCtxSynchronize": fn();
        primary_state = "cuDevicePrimaryCtxGetState": fn(c_int, *mut u32, *mut c_int);
        retain_primary = "cuDevicePrimaryCtxRetain": fn(*mut Context, c_int);
        release_primary = "cuDevicePrimaryCtxRelease_v2": fn(c_int);
    }
}

/// The driver's numbers of attributes, under the names that Kineto gives their values. The first is the header's.
const FIGURES: &[(c_int, &str)] = &[
    (75, "computeMajor"),
    (76, "computeMinor"),
    (1, "maxThreadsPerBlock"),
    (39, "maxThreadsPerMultiprocessor"),
    (12, "regsPerBlock"),
    (10, "warpSize"),
    (8, "sharedMemPerBlock"),
    (16, "numSms"),
    (82, "regsPerMultiprocessor"),
    (97, "sharedMemPerBlockOptin"),
    (81, "sharedMemPerMultiprocessor"),
];
const PCI_DOMAIN: c_int = 50;
const PCI_BUS: c_int = 33;
const PCI_DEVICE: c_int = 34;

/// Where libcuda is on Windows' Linux when the loader has not been told.
const ELSEWHERE: &[&str] = &["/usr/lib/wsl/lib/libcuda.so.1"];

fn load(libraries: &GpuLibraries) -> Result<Loaded, String> {
    if let Some(path) = search::given(libraries.libcuda.as_ref(), "TP_LIBCUDA") {
        return library::load(path.as_os_str());
    }
    let error = match library::load(OsStr::new("libcuda.so.1")) {
        Ok(library) => return Ok(library),
        Err(error) => error,
    };
    ELSEWHERE.iter().find_map(|path| library::load(OsStr::new(path)).ok()).ok_or(error)
}

/// Loads the driver, starts it, and describes its devices in `info`. `None`: `info` says why not.
pub(super) fn start(libraries: &GpuLibraries, info: &mut GpuInfo) -> Option<Driver> {
    let process = Process::current();
    let mut fail = |state, reason: String| {
        (info.state, info.reason) = (state, reason);
    };
    if process.inherited {
        fail(
            GpuState::Forked,
            "this process was forked from one that had started CUDA, which does not work in the child: start it with \
             the \"spawn\" method, or fork before the GPU is used"
                .to_owned(),
        );
        return None;
    }
    let library = match load(libraries) {
        Ok(library) => library,
        Err(error) => {
            fail(
                GpuState::NoDriver,
                format!(
                    "no NVIDIA driver is installed, or it is not visible here (in a container: run it with GPUs): {error}"
                ),
            );
            return None;
        }
    };
    let path = library.file(b"cuInit\0").unwrap_or_default();
    let driver = match Driver::find(library) {
        Ok(driver) => driver,
        Err(symbol) => {
            fail(
                GpuState::DriverFailed,
                format!("{path} has no function {symbol}: it is not NVIDIA's driver, or very old"),
            );
            return None;
        }
    };
    let mut version = 0;
    // SAFETY: may be called before cuInit; the place is ours.
    let known = unsafe { (driver.version)(&raw mut version) } == 0;
    info.driver = Some(GpuLibrary { path: path.clone(), version: if known { version } else { 0 } });
    // Before the call, which may take seconds: a child that is forked meanwhile inherits a driver half started.
    process.touched.store(true, Ordering::Relaxed);
    // SAFETY: the documented first call, with its only valid argument.
    let code = unsafe { (driver.init)(0) };
    info.driver_code = Some(code);
    if code != 0 {
        (info.state, info.reason) = refusal(code, &path, driver.error(code));
        return None;
    }
    let mut count = 0;
    // SAFETY: cuInit succeeded; the place is ours.
    let code = unsafe { (driver.device_count)(&raw mut count) };
    if code != 0 || count < 1 {
        info.state = GpuState::NoDevice;
        info.reason = "the driver works and shows no device: is CUDA_VISIBLE_DEVICES empty?".to_owned();
        return None;
    }
    info.devices = (0..count).filter_map(|ordinal| driver.describe(ordinal)).collect();
    Some(driver)
}

/// What cuInit's failure means, and what to do.
fn refusal(code: c_int, path: &str, name: String) -> (GpuState, String) {
    let (state, advice) = match code {
        3 => (
            GpuState::Forked,
            "CUDA was started before a fork and this is the child: start it with the \"spawn\" method",
        ),
        34 => (
            GpuState::StubDriver,
            "this is the stub that comes with the CUDA toolkit for linking, not the driver: take .../stubs out of \
             LD_LIBRARY_PATH, or install the driver",
        ),
        _ if search::is_stub(path) => (GpuState::StubDriver, "this file is from a folder of stubs, not the driver"),
        46 => (GpuState::Refused, "the device is in use by a process that asked to have it alone (compute mode)"),
        100 => (GpuState::NoDevice, "the driver sees no device: look at nvidia-smi, and at CUDA_VISIBLE_DEVICES"),
        101 => (GpuState::NoDevice, "CUDA_VISIBLE_DEVICES names a device that is not there"),
        802 => (GpuState::NotReady, "the system is not ready: is nvidia-fabricmanager running?"),
        803 => (
            GpuState::DriverMismatch,
            "the libraries of the driver and its kernel module have different versions: restart the machine, or the \
             container with the host's libraries",
        ),
        804 => (
            GpuState::DriverMismatch,
            "the forward-compatible libcuda does not support this device: use the driver's own",
        ),
        805..=807 => (GpuState::Refused, "the CUDA multi-process service (MPS) refused: look at its log"),
        _ => (GpuState::DriverFailed, "look at nvidia-smi and at the kernel's log"),
    };
    (state, format!("cuInit of {path} failed with {code} ({name}): {advice}"))
}

impl Driver {
    /// The driver's name for a result.
    pub(super) fn error(&self, code: c_int) -> String {
        let mut text = std::ptr::null();
        if let Some(error_name) = self.error_name
            // SAFETY: may be called at any time; the place is ours.
            && unsafe { error_name(code, &raw mut text) } == 0
            && !text.is_null()
        {
            // SAFETY: static text of the driver's.
            return unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        }
        "unknown error".to_owned()
    }

    fn describe(&self, ordinal: c_int) -> Option<GpuDevice> {
        let mut device = 0;
        // SAFETY: cuInit succeeded; the place is ours. Likewise below.
        if unsafe { (self.device)(&raw mut device, ordinal) } != 0 {
            return None;
        }
        let attribute = |number: c_int| {
            let mut value = 0;
            // SAFETY: as above.
            (unsafe { (self.attribute)(&raw mut value, number, device) } == 0).then_some(i64::from(value))
        };
        let mut name = [0u8; 256];
        // SAFETY: as above, and at most 255 bytes and the terminator are written.
        let named = unsafe { (self.name)(name.as_mut_ptr().cast(), 255, device) } == 0;
        let name = CStr::from_bytes_until_nul(&name).ok().filter(|_| named).unwrap_or_default();
        let mut total_memory = 0;
        // SAFETY: as above.
        if unsafe { (self.total_memory)(&raw mut total_memory, device) } != 0 {
            total_memory = 0;
        }
        let mut uuid = [0u8; 16];
        // SAFETY: as above; both write 16 bytes.
        let has_uuid = self.uuid_v2.or(self.uuid).is_some_and(|call| unsafe { call(uuid.as_mut_ptr(), device) } == 0);
        let number = |figure| attribute(figure).and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
        Some(GpuDevice {
            id: ordinal,
            name: name.to_string_lossy().into_owned(),
            uuid: if has_uuid { uuid::Uuid::from_bytes(uuid).hyphenated().to_string() } else { String::new() },
            pci: match (attribute(PCI_DOMAIN), attribute(PCI_BUS), attribute(PCI_DEVICE)) {
                (Some(domain), Some(bus), Some(device)) => format!("{domain:08X}:{bus:02X}:{device:02X}.0"),
                _ => String::new(),
            },
            total_memory: total_memory as u64,
            multiprocessors: number(16),
            warp_size: number(10),
            figures: FIGURES.iter().filter_map(|&(figure, name)| Some((name.into(), attribute(figure)?))).collect(),
        })
    }

    /// The context that is current on this thread, as a number; 0 for none.
    pub(super) fn context(&self) -> usize {
        let mut context = std::ptr::null_mut();
        // SAFETY: cuInit succeeded; the place is ours.
        let known = self.current_context.is_some_and(|call| unsafe { call(&raw mut context) } == 0);
        if known { context as usize } else { 0 }
    }

    /// Waits for the work of `context` and of every device's primary context. For a thread that has no context of its
    /// own to lose. Answers what failed.
    pub(super) fn wait(&self, context: usize) -> Vec<String> {
        let mut failures = Vec::new();
        let (Some(set), Some(synchronize)) = (self.set_current_context, self.synchronize) else {
            failures.push("the driver has no cuCtxSynchronize: work that is still running may be missing".to_owned());
            return failures;
        };
        let mut wait = |context: Context| {
            // SAFETY: cuInit succeeded, and the context is alive: its user is in a call of this library, or it is a
            // primary one that is held for the moment.
            let code = unsafe { if set(context) == 0 { synchronize() } else { 0 } };
            // 4: the driver is shutting down with the process. 201, 709: the context is gone, and its work with it.
            if !matches!(code, 0 | 4 | 201 | 709) {
                let name = self.error(code);
                failures.push(format!("waiting for the GPU failed with {code} ({name}): work may be missing"));
            }
        };
        if context != 0 {
            wait(context as Context);
        }
        if let (Some(state), Some(retain), Some(release)) =
            (self.primary_state, self.retain_primary, self.release_primary)
        {
            let mut count = 0;
            // SAFETY: cuInit succeeded; the places are ours. What is retained is released.
            unsafe {
                if (self.device_count)(&raw mut count) != 0 {
                    count = 0;
                }
                for device in 0..count {
                    let (mut flags, mut active, mut primary) = (0, 0, std::ptr::null_mut());
                    if state(device, &raw mut flags, &raw mut active) == 0
                        && active != 0
                        && retain(&raw mut primary, device) == 0
                    {
                        wait(primary);
                        release(device);
                    }
                }
            }
        }
        // SAFETY: none is current from here on.
        unsafe { set(std::ptr::null_mut()) };
        failures
    }
}
