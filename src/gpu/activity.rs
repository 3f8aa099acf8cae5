//! CUPTI's activity interface as a collector.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use super::collector::{Asked, Collector, Ended, GpuKinds, Known, Reader, Wait};
use super::cupti::{Cupti, Subscriber, SubscriberParams, kind};
use super::discover::Parts;
use super::driver::Driver;
use super::process::Process;
use super::reader::{CuptiReader, EXTERNAL_KIND};
use crate::error::{Error, GpuFailure};
use crate::sync::{Mutex, lock};

/// Threads are told by their numbers in the system, not by those of pthreads.
const SYSTEM_THREADS: c_int = 1;
const FORCED: u32 = 1;
/// Forced flushes at the end, as long as buffers are out.
const FLUSHES: u32 = 4;
const BETWEEN_FLUSHES: Duration = Duration::from_millis(5);
/// The first version that bears to get no buffer.
const MAY_REFUSE: i32 = 27;

/// CUPTI, for the life of the process.
#[derive(Debug)]
pub(super) struct CuptiCollector {
    cupti: Cupti,
    driver: Driver,
    claimed: Mutex<Claimed>,
}

/// What has to be undone at the end.
#[derive(Debug, Default)]
struct Claimed {
    /// A subscriber's address.
    subscriber: Option<usize>,
    enabled: Vec<u32>,
}

impl CuptiCollector {
    /// That of these parts: the same for the same library.
    pub(super) fn of(process: &Process, parts: Parts) -> &'static Known {
        let identity = parts.cupti.call.get_version as usize;
        let mut known = lock(&process.collectors);
        if let Some(one) = known.iter().find(|one| one.identity == identity) {
            return one;
        }
        let Parts { driver, cupti } = parts;
        let collector = Box::new(Self { cupti, driver, claimed: Mutex::default() });
        let one = Box::leak(Box::new(Known { identity, collector }));
        known.push(one);
        one
    }

    fn refusal(&self, call: &str, code: c_int) -> Error {
        let (failure, advice) = advice(code);
        Error::Gpu { failure, message: format!("{call} failed with {code} ({}): {advice}", self.cupti.result(code)) }
    }

    /// Becomes the one profiler that CUPTI serves.
    fn subscribe(&self, warnings: &mut Vec<String>) -> Result<Option<usize>, Error> {
        unsafe extern "C" fn nothing(_: *mut c_void, _: c_int, _: u32, _: *const c_void) {}
        let mut subscriber: Subscriber = std::ptr::null_mut();
        if let Some(subscribe) = self.cupti.call.subscribe_v2 {
            let mut old = [0u8; 256];
            let size = if self.cupti.version >= 130_200 { size_of::<SubscriberParams>() } else { 32 };
            let mut params = SubscriberParams {
                size,
                name: c"tptrace".as_ptr(),
                old_name: old.as_mut_ptr().cast::<c_char>(),
                old_size: old.len(),
                several: 0,
            };
            // SAFETY: the driver works; places and params are ours, and the callback stays (this library is never unloaded).
            let code = unsafe { subscribe(&raw mut subscriber, nothing, std::ptr::null_mut(), &raw mut params) };
            match code {
                0 => return Ok(Some(subscriber as usize)),
                39 => {
                    let name = CStr::from_bytes_until_nul(&old).unwrap_or_default().to_string_lossy();
                    return Err(match self.refusal("cuptiSubscribe_v2", code) {
                        Error::Gpu { failure, message } if !name.is_empty() => {
                            Error::Gpu { failure, message: format!("{message} (it is called \"{name}\")") }
                        }
                        error => error,
                    });
                }
                // 1: these params are not those of this version. The older function takes none.
                1 => {}
                _ => return Err(self.refusal("cuptiSubscribe_v2", code)),
            }
        }
        let Some(subscribe) = self.cupti.call.subscribe else {
            warnings.push("libcupti has no cuptiSubscribe: another profiler would go unnoticed".to_owned());
            return Ok(None);
        };
        // SAFETY: as above.
        match unsafe { subscribe(&raw mut subscriber, nothing, std::ptr::null_mut()) } {
            0 => Ok(Some(subscriber as usize)),
            code => Err(self.refusal("cuptiSubscribe", code)),
        }
    }

    fn enable(&self, asked: Asked, claimed: &mut Claimed, warnings: &mut Vec<String>) -> Result<(), Error> {
        let mut first = None;
        for (wanted, number, name) in [
            (GpuKinds::EXTERNAL, kind::EXTERNAL, "EXTERNAL_CORRELATION"),
            (GpuKinds::KERNEL, kind::KERNEL, "CONCURRENT_KERNEL"),
            (GpuKinds::MEMCPY, kind::MEMCPY, "MEMCPY"),
            (GpuKinds::MEMCPY, kind::PEER, "MEMCPY2"),
            (GpuKinds::MEMSET, kind::MEMSET, "MEMSET"),
            (GpuKinds::RUNTIME, kind::RUNTIME, "RUNTIME"),
            (GpuKinds::DRIVER, kind::DRIVER, "DRIVER"),
            (GpuKinds::OVERHEAD, kind::OVERHEAD, "OVERHEAD"),
            (GpuKinds::SYNC, kind::SYNC, "SYNCHRONIZATION"),
            (GpuKinds::MARKER, kind::MARKER, "MARKER"),
        ] {
            if !asked.kinds.has(wanted) {
                continue;
            }
            // SAFETY: the driver works, and the callbacks are registered.
            match unsafe { (self.cupti.call.enable)(number as c_int) } {
                0 => claimed.enabled.push(number),
                code => {
                    let error = self.refusal(&format!("cuptiActivityEnable({name})"), code);
                    // Without kernels the rest is of little use, and one without permission has it for nothing.
                    if number == kind::KERNEL || matches!(error, Error::Gpu { failure: GpuFailure::Permission, .. }) {
                        return Err(error);
                    }
                    warnings.push(error.to_string());
                    first = first.or(Some(error));
                }
            }
        }
        if let Some(error) = first
            && claimed.enabled.is_empty()
        {
            return Err(error);
        }
        if asked.kinds.has(GpuKinds::SYNC) {
            // Which device a context is of. With those that exist already, where CUPTI can.
            let enable = self.cupti.call.enable_and_dump.unwrap_or(self.cupti.call.enable);
            // SAFETY: as above.
            if unsafe { enable(kind::CONTEXT as c_int) } == 0 {
                claimed.enabled.push(kind::CONTEXT);
            }
        }
        Ok(())
    }

    fn flush(&self, flags: u32) -> Option<String> {
        // SAFETY: the driver works; the callbacks take any buffer.
        let code = unsafe { (self.cupti.call.flush_all)(flags) };
        (code != 0).then(|| {
            let name = self.cupti.result(code);
            format!("cuptiActivityFlushAll failed with {code} ({name}): records may be missing")
        })
    }

    /// How many records CUPTI dropped since it was last asked.
    fn dropped(&self) -> u64 {
        let mut count = 0;
        // SAFETY: the driver works; no context, and the place is ours.
        let code = self.cupti.call.dropped.map(|dropped| unsafe { dropped(std::ptr::null_mut(), 0, &raw mut count) });
        if code == Some(0) { count as u64 } else { 0 }
    }

    /// Gives everything back. Answers what failed.
    fn release(&self, claimed: &mut Claimed, flush: bool) -> Vec<String> {
        let mut failures = Vec::new();
        for kind in std::mem::take(&mut claimed.enabled) {
            // SAFETY: the driver works. That it fails for a kind changes nothing.
            unsafe { (self.cupti.call.disable)(kind as c_int) };
        }
        if flush {
            failures.extend(self.flush(0));
            // A call that was under way when its kind was disabled may take a buffer after the flush.
            for _ in 0..FLUSHES {
                failures.extend(self.flush(FORCED));
                if !failures.is_empty() || !Process::current().pool.is_out() {
                    break;
                }
                std::thread::sleep(BETWEEN_FLUSHES);
            }
        }
        if let (Some(subscriber), Some(unsubscribe)) = (claimed.subscriber.take(), self.cupti.call.unsubscribe) {
            // SAFETY: the one that subscribing gave.
            unsafe { unsubscribe(subscriber as Subscriber) };
        }
        failures
    }
}

/// What a failure of CUPTI's means, and what to do.
fn advice(code: c_int) -> (GpuFailure, &'static str) {
    match code {
        2 => (GpuFailure::Unavailable, "this CUPTI does not know this GPU: install that of a newer CUDA"),
        14 => {
            (GpuFailure::Unavailable, "this CUPTI does not fit the driver: install that of the driver's CUDA version")
        }
        15 => (
            GpuFailure::Unavailable,
            "CUPTI could not start: it is newer than the driver, in most cases; install that of the driver's CUDA version",
        ),
        27 => (GpuFailure::Unavailable, "this device does not support it"),
        35 => (
            GpuFailure::Permission,
            "the driver lets administrators alone profile: load it with NVreg_RestrictProfilingToAdminUsers=0, run as \
             root, or give the container --cap-add=SYS_ADMIN",
        ),
        38 => (GpuFailure::Unavailable, "the old profiler interface is not supported on this device"),
        39 => (
            GpuFailure::Busy,
            "another profiler is attached to this process, such as Nsight Systems, Nsight Compute, compute-sanitizer, \
             cuda-gdb or torch.profiler: use one at a time",
        ),
        40 => {
            (GpuFailure::Permission, "the virtual GPU was not given the right to profile: ask the host's administrator")
        }
        33 => (GpuFailure::Unavailable, "profiling is not supported on this virtual GPU"),
        41 => (GpuFailure::Unavailable, "profiling is not supported with confidential computing"),
        42 => (GpuFailure::Unavailable, "profiling is not supported on mining cards"),
        43 => (GpuFailure::Unavailable, "profiling is not supported on this MIG device"),
        44 => (GpuFailure::Unavailable, "profiling is not supported with SLI"),
        45 => (
            GpuFailure::Unavailable,
            "profiling is not enabled for Windows' Linux: see developer settings of the driver",
        ),
        _ => (GpuFailure::Failed, "the trace goes on without GPU work"),
    }
}

impl Collector for CuptiCollector {
    fn start(&self, asked: Asked) -> Result<Vec<String>, Error> {
        let mut claimed = lock(&self.claimed);
        let mut warnings = Vec::new();
        claimed.subscriber = self.subscribe(&mut warnings)?;
        // SAFETY: the driver works; the callbacks stay, since this library is never unloaded.
        let code = unsafe { (self.cupti.call.register_callbacks)(requested, completed) };
        let mut result = if code == 0 { Ok(()) } else { Err(self.refusal("cuptiActivityRegisterCallbacks", code)) };
        if result.is_ok() {
            // SAFETY: the driver works.
            let code = self.cupti.call.thread_id_type.map(|set| unsafe { set(SYSTEM_THREADS) });
            if code != Some(0) {
                warnings
                    .push("CUPTI does not tell the system's numbers of threads: lanes of calls have others".to_owned());
            }
            result = self.enable(asked, &mut claimed, &mut warnings);
        }
        match result {
            Ok(()) => {
                // What it dropped while nobody collected is no loss.
                self.dropped();
                Ok(warnings)
            }
            Err(error) => {
                self.release(&mut claimed, false);
                Err(error)
            }
        }
    }

    fn stop(&self, wait: Option<Wait>) -> Ended {
        let mut claimed = lock(&self.claimed);
        let mut ended = Ended::default();
        if let Some(wait) = wait {
            ended.warnings = self.driver.wait(wait.context);
        }
        ended.warnings.extend(self.release(&mut claimed, true));
        ended.dropped = self.dropped();
        ended
    }

    fn now(&self) -> Option<u64> {
        let mut time = 0;
        // SAFETY: the driver works; the place is ours.
        let code = unsafe { self.cupti.call.timestamp?(&raw mut time) };
        (code == 0 && time != 0).then_some(time)
    }

    fn reader(&self, asked: Asked) -> Box<dyn Reader> {
        Box::new(CuptiReader::new(self.cupti, asked))
    }

    fn push(&self, id: u64) -> bool {
        // SAFETY: the driver works.
        self.cupti.call.push.is_some_and(|push| unsafe { push(EXTERNAL_KIND as c_int, id) } == 0)
    }

    fn pop(&self) {
        if let Some(pop) = self.cupti.call.pop {
            let mut last = 0;
            // SAFETY: the driver works; the place is ours.
            unsafe { pop(EXTERNAL_KIND as c_int, &raw mut last) };
        }
    }

    fn may_refuse(&self) -> bool {
        self.cupti.version >= MAY_REFUSE
    }

    fn wait_of_caller(&self) -> Wait {
        Wait { context: self.driver.context() }
    }
}

/// CUPTI wants a buffer. A panic must not run into CUPTI: it counts as having none.
unsafe extern "C" fn requested(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    let given = catch_unwind(|| Process::current().pool.request()).unwrap_or_default();
    let (start, bytes) = given.unwrap_or((std::ptr::null_mut(), 0));
    // SAFETY: CUPTI's own places.
    unsafe {
        buffer.write(start);
        size.write(bytes);
        // As many records as fit.
        most.write(0);
    }
}

/// CUPTI gives a buffer back.
unsafe extern "C" fn completed(_: *mut c_void, _: u32, buffer: *mut u8, _: usize, valid: usize) {
    if !buffer.is_null() {
        let _ = catch_unwind(AssertUnwindSafe(|| Process::current().pool.complete(buffer, valid)));
    }
}
