//! What a test does on the fake GPU, and what it finds in the trace.

use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::process::Command;

use libloading::os::unix::Library;
use serde_json::Value;
use tptrace::gpu::{GpuKinds, GpuLibraries, GpuOptions};
use tptrace::{ExportOptions, Format, Trace};

use crate::fakes::{cuda, cudart, cupti};

/// Runs the body of a test in a process of its own: what CUDA's libraries leave there stays there.
macro_rules! apart {
    ($(#[$meta:meta])* fn $name:ident() $body:block) => {
        #[test]
        $(#[$meta])*
        fn $name() {
            let path = concat!(module_path!(), "::", stringify!($name));
            if $crate::workload::is_apart(path) {
                $body
            }
        }
    };
}
pub(crate) use apart;

/// Whether this process was started for the test of that name; else it starts one, which must succeed.
pub(crate) fn is_apart(path: &str) -> bool {
    let name = path.split_once("::").expect("a path").1;
    if std::env::var_os("TP_GPU_TEST").is_some_and(|running| running == name) {
        return true;
    }
    // A hang ends in a signal.
    let output = Command::new("timeout")
        .args(["--signal=ABRT", "120"])
        .arg(std::env::current_exe().expect("own path"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env("TP_GPU_TEST", name)
        .output()
        .expect("started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{name}: {}\n{text}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    false
}

/// The fake CUPTI of this process, and what a program does with the GPU behind it.
pub(crate) struct Gpu {
    pub(crate) libraries: GpuLibraries,
    library: Library,
}

impl Gpu {
    /// With records of interface `version` as the reader's table has them.
    pub(crate) fn new(version: u32) -> Self {
        Self::with(cupti(version))
    }

    pub(crate) fn with(cupti: PathBuf) -> Self {
        // SAFETY: our own library, which does nothing when it is loaded.
        let library = unsafe { Library::new(&cupti) }.expect("the fake CUPTI");
        let libraries = GpuLibraries {
            libcuda: Some(cuda()),
            libcudart: Some(cudart()),
            libcupti: Some(cupti),
            search_paths: Vec::new(),
        };
        Self { libraries, library }
    }

    pub(crate) fn options(&self, kinds: GpuKinds) -> GpuOptions {
        GpuOptions { kinds, libraries: self.libraries.clone(), ..GpuOptions::default() }
    }

    fn function<F: Copy>(&self, name: &str) -> F {
        let name = CString::new(name).expect("a name");
        // SAFETY: callers below name the functions of tests/gpu/fake/cupti.c with their types.
        unsafe { *self.library.get::<F>(name.as_bytes_with_nul()).expect("in the fake") }
    }

    pub(crate) fn set(&self, key: &str, value: i64) {
        let key = CString::new(key).expect("a key");
        // SAFETY: as declared there, likewise below.
        unsafe { self.function::<unsafe extern "C" fn(*const c_char, i64)>("fake_set")(key.as_ptr(), value) }
    }

    pub(crate) fn launch(&self, name: &'static CStr, device: u32, stream: u32) -> u32 {
        self.odd_launch(name, device, stream, 0)
    }

    /// `odd`: 1 no times, 2 an end before the start, 3 no name, 4 a time of another clock.
    pub(crate) fn odd_launch(&self, name: &'static CStr, device: u32, stream: u32, odd: c_int) -> u32 {
        type Launch = unsafe extern "C" fn(*const c_char, u32, u32, c_int) -> u32;
        // SAFETY: as above; the name is static.
        unsafe { self.function::<Launch>("fake_launch")(name.as_ptr(), device, stream, odd) }
    }

    pub(crate) fn launches(&self) -> impl Fn(&'static CStr, u32, u32) -> u32 + use<> {
        type Launch = unsafe extern "C" fn(*const c_char, u32, u32, c_int) -> u32;
        let launch = self.function::<Launch>("fake_launch");
        // SAFETY: as above.
        move |name, device, stream| unsafe { launch(name.as_ptr(), device, stream, 0) }
    }

    pub(crate) fn copy(&self, kind: c_int, bytes: u64, device: u32, stream: u32) -> u32 {
        // SAFETY: as above.
        unsafe {
            self.function::<unsafe extern "C" fn(c_int, u64, u32, u32) -> u32>("fake_memcpy")(
                kind, bytes, device, stream,
            )
        }
    }

    /// Calls a function that takes and answers numbers.
    pub(crate) fn call<const N: usize>(&self, name: &str, numbers: [u32; N]) -> u32 {
        let at = |index: usize| numbers.get(index).copied().unwrap_or(0);
        // SAFETY: functions of up to four 32-bit numbers; more arguments than they take do no harm in the C ABI.
        unsafe { self.function::<unsafe extern "C" fn(u32, u32, u32, u32) -> u32>(name)(at(0), at(1), at(2), at(3)) }
    }

    pub(crate) fn peer(&self, bytes: u64, from: u32, to: u32, stream: u32) -> u32 {
        // SAFETY: as above.
        unsafe {
            self.function::<unsafe extern "C" fn(u64, u32, u32, u32) -> u32>("fake_peer")(bytes, from, to, stream)
        }
    }

    pub(crate) fn fill(&self, value: u32, bytes: u64, device: u32, stream: u32) -> u32 {
        // SAFETY: as above.
        unsafe {
            self.function::<unsafe extern "C" fn(u32, u64, u32, u32) -> u32>("fake_memset")(
                value, bytes, device, stream,
            )
        }
    }

    pub(crate) fn marker(&self, name: &'static CStr, length_ns: u64) {
        // SAFETY: as above.
        unsafe { self.function::<unsafe extern "C" fn(*const c_char, u64)>("fake_marker")(name.as_ptr(), length_ns) }
    }
}

/// A trace's document.
pub(crate) fn document(trace: &Trace, format: Format) -> Value {
    let mut out = Vec::new();
    let options = ExportOptions { format, ..ExportOptions::default() };
    trace.write_to(tptrace::output::Target::Writer(&mut out), &options, None).expect("written");
    serde_json::from_slice(&out).expect("JSON")
}

pub(crate) fn events(document: &Value) -> &[Value] {
    document["traceEvents"].as_array().expect("events")
}

/// The slices of a category.
pub(crate) fn slices<'a>(document: &'a Value, cat: &str) -> Vec<&'a Value> {
    events(document).iter().filter(|event| event["ph"] == "X" && event["cat"] == cat).collect()
}

/// The name of the lane of an event.
pub(crate) fn lane<'a>(document: &'a Value, event: &Value) -> &'a str {
    let is = |one: &&Value| {
        one["ph"] == "M" && one["name"] == "thread_name" && one["pid"] == event["pid"] && one["tid"] == event["tid"]
    };
    events(document).iter().find(is).map_or("", |one| one["args"]["name"].as_str().expect("a name"))
}
