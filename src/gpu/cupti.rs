//! CUPTI's functions.
//!
//! Nothing here is called before the driver works and has a device (see `discover`).

use std::ffi::{CStr, c_char, c_int, c_void};

use super::library::{Loaded, functions};

pub(super) type Requested = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
pub(super) type Completed = unsafe extern "C" fn(*mut c_void, u32, *mut u8, usize, usize);
pub(super) type Callback = unsafe extern "C" fn(*mut c_void, c_int, u32, *const c_void);
pub(super) type Subscriber = *mut c_void;

/// CUpti_SubscriberParams of CUDA 13.2; before, the last member was not there.
#[repr(C)]
pub(super) struct SubscriberParams {
    pub(super) size: usize,
    pub(super) name: *const c_char,
    pub(super) old_name: *mut c_char,
    pub(super) old_size: usize,
    pub(super) several: u64,
}

/// The kinds of records, as CUPTI numbers them.
pub(super) mod kind {
    pub(in crate::gpu) const MEMCPY: u32 = 1;
    pub(in crate::gpu) const MEMSET: u32 = 2;
    pub(in crate::gpu) const DRIVER: u32 = 4;
    pub(in crate::gpu) const RUNTIME: u32 = 5;
    pub(in crate::gpu) const DEVICE: u32 = 8;
    pub(in crate::gpu) const CONTEXT: u32 = 9;
    /// CONCURRENT_KERNEL: the other kind of kernel records serialises the work.
    pub(in crate::gpu) const KERNEL: u32 = 10;
    pub(in crate::gpu) const NAME: u32 = 11;
    pub(in crate::gpu) const MARKER: u32 = 12;
    pub(in crate::gpu) const MARKER_DATA: u32 = 13;
    pub(in crate::gpu) const OVERHEAD: u32 = 17;
    /// MEMCPY2
    pub(in crate::gpu) const PEER: u32 = 22;
    pub(in crate::gpu) const STREAM: u32 = 37;
    pub(in crate::gpu) const SYNC: u32 = 38;
    pub(in crate::gpu) const EXTERNAL: u32 = 39;
}

functions! {
    Functions {
        get_version = "cuptiGetVersion": fn(*mut u32);
        register_callbacks = "cuptiActivityRegisterCallbacks": fn(Requested, Completed);
        enable = "cuptiActivityEnable": fn(c_int);
        disable = "cuptiActivityDisable": fn(c_int);
        flush_all = "cuptiActivityFlushAll": fn(u32);
        next_record = "cuptiActivityGetNextRecord": fn(*mut u8, usize, *mut *mut u8);
    } or {
        subscribe_v2 = "cuptiSubscribe_v2": fn(*mut Subscriber, Callback, *mut c_void, *mut SubscriberParams);
        subscribe = "cuptiSubscribe": fn(*mut Subscriber, Callback, *mut c_void);
        unsubscribe = "cuptiUnsubscribe": fn(Subscriber);
        enable_and_dump = "cuptiActivityEnableAndDump": fn(c_int);
        dropped = "cuptiActivityGetNumDroppedRecords": fn(*mut c_void, u32, *mut usize);
        timestamp = "cuptiGetTimestamp": fn(*mut u64);
        thread_id_type = "cuptiSetThreadIdType": fn(c_int);
        push = "cuptiActivityPushExternalCorrelationId": fn(c_int, u64);
        pop = "cuptiActivityPopExternalCorrelationId": fn(c_int, *mut u64);
        callback_name = "cuptiGetCallbackName": fn(c_int, u32, *mut *const c_char);
        result_string = "cuptiGetResultString": fn(c_int, *mut *const c_char);
    }
}

/// A CUPTI that answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cupti {
    pub(super) call: Functions,
    /// Its own number of its interface.
    pub(super) version: i32,
    /// The CUDA release that it belongs to: major, minor.
    pub(super) cuda: Option<(i32, i32)>,
}

impl Cupti {
    /// Asks for the functions and the version.
    pub(super) fn new(library: Loaded) -> Result<Self, String> {
        let call = Functions::find(library)
            .map_err(|symbol| format!("it has no function {symbol}: it is not NVIDIA's CUPTI, or a very old one"))?;
        let mut version = 0;
        // SAFETY: the driver works; the place is ours.
        let code = unsafe { (call.get_version)(&raw mut version) };
        if code != 0 {
            return Err(format!("cuptiGetVersion failed with {code}: it does not work with this driver"));
        }
        let version = i32::try_from(version).unwrap_or(0);
        Ok(Self { call, version, cuda: release(version) })
    }

    /// CUPTI's name for a result.
    pub(super) fn result(&self, code: c_int) -> String {
        let mut text = std::ptr::null();
        if let Some(result_string) = self.call.result_string
            // SAFETY: the driver works; the place is ours.
            && unsafe { result_string(code, &raw mut text) } == 0
            && !text.is_null()
        {
            // SAFETY: static text of CUPTI's.
            return unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        }
        "unknown error".to_owned()
    }
}

impl Cupti {
    /// CUPTI's name of a call.
    pub(super) fn callback_name(&self, domain: c_int, callback: u32) -> Option<String> {
        let mut text = std::ptr::null();
        // SAFETY: the driver works; the place is ours.
        let code = unsafe { self.call.callback_name?(domain, callback, &raw mut text) };
        if code != 0 || text.is_null() {
            return None;
        }
        // SAFETY: static text of CUPTI's.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// Bytes of a record of this version, where its number tells.
    pub(super) fn size_of(&self, kind: u32) -> Option<usize> {
        if !(17..=130_599).contains(&self.version) {
            return None;
        }
        Some(match (kind, self.version) {
            (kind::KERNEL, 17) => 176,
            // 200 in CUDA 11.8, 208 in 12.0 and 12.1.
            (kind::KERNEL, 18) => return None,
            (kind::KERNEL, ..130_000) => 208,
            (kind::KERNEL, ..130_100) => 216,
            (kind::KERNEL, ..130_300) => 224,
            (kind::KERNEL, ..130_400) => 232,
            (kind::KERNEL, _) => 248,
            (kind::MEMCPY, ..26) | (kind::MEMSET, ..130_400) => 88,
            (kind::MEMCPY, ..130_400) | (kind::PEER, _) => 96,
            (kind::MEMCPY, _) => 112,
            (kind::MEMSET, _) => 104,
            (kind::DRIVER | kind::RUNTIME, _) | (kind::OVERHEAD, ..21) | (kind::SYNC, ..26) => 40,
            (kind::EXTERNAL, _) => 24,
            (kind::OVERHEAD, 21) => 48,
            (kind::OVERHEAD | kind::SYNC | kind::MARKER, _) => 56,
            _ => return None,
        })
    }
}

/// The CUDA release of a version of CUPTI's interface. 18 is that of 11.8, and of 12.0 and 12.1 as well.
fn release(version: i32) -> Option<(i32, i32)> {
    match version {
        130_000.. => Some((version / 10_000, version % 10_000 / 100)),
        27..100 => Some((12, 9)),
        25 | 26 => Some((12, 8)),
        20..=24 => Some((12, version - 18)),
        17 | 18 => Some((11, version - 10)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn releases_are_told_from_versions() {
        for (version, cuda) in
            [(17, (11, 7)), (18, (11, 8)), (20, (12, 2)), (24, (12, 6)), (26, (12, 8)), (27, (12, 9)), (28, (12, 9))]
        {
            assert_eq!(release(version), Some(cuda));
        }
        assert_eq!(release(130_001), Some((13, 0)));
        assert_eq!(release(130_201), Some((13, 2)));
        assert_eq!(release(130_500), Some((13, 5)));
        assert_eq!(release(0), None);
    }
}
