//! Collecting GPU work, with the fake CUPTI of the tests: from a full buffer to a stored activity.
//!
//!     cargo bench --bench gpu [-- LAUNCHES ROUNDS]
//!
//! A launch makes three records: the op it comes from, the call, the kernel. One thread reads them. Needs a C compiler.

use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use libloading::os::unix::Library;
use tptrace::Trace;
use tptrace::gpu::{self, GpuLibraries, GpuOptions};

/// Compiles a fake library.
fn fake(folder: &Path, source: &str, flags: &[&str]) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = folder.join(source.replace(".c", ".so"));
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let done = Command::new(compiler)
        .args(["-shared", "-fPIC", "-O2", "-pthread"])
        .args(flags)
        .arg(root.join("tests/gpu/fake").join(source))
        .arg("-o")
        .arg(&file)
        .status();
    assert!(done.is_ok_and(|status| status.success()), "{source} does not compile");
    file
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn main() {
    let numbers: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let (launches, rounds) = (numbers.first().copied().unwrap_or(1_000_000), numbers.get(1).copied().unwrap_or(9));
    let folder = tempfile::tempdir().expect("scratch folder");
    let libcupti = fake(folder.path(), "cupti.c", &["-DA=28"]);
    let options = GpuOptions {
        cap_bytes: 2 << 30,
        libraries: GpuLibraries {
            libcuda: Some(fake(folder.path(), "cuda.c", &[])),
            libcudart: Some(fake(folder.path(), "cudart.c", &[])),
            libcupti: Some(libcupti.clone()),
            search_paths: Vec::new(),
        },
        ..GpuOptions::default()
    };
    type Fill = unsafe extern "C" fn(u64, *const *const c_char, u32) -> u64;
    type CallbackNs = unsafe extern "C" fn(c_int, f64) -> u64;
    // SAFETY: our own library and its functions, with their types.
    let (library, fill, callback_ns) = unsafe {
        let library = Library::new(&libcupti).expect("the fake CUPTI");
        let fill = *library.get::<Fill>(b"fake_fill\0").expect("there");
        let callback_ns = *library.get::<CallbackNs>(b"fake_callback_ns\0").expect("there");
        (library, fill, callback_ns)
    };
    // As long as those of a training step.
    let names: Vec<&CStr> = vec![
        c"_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEENS_6detail5ArrayIPcLi3EEEEEviT0_T1_",
        c"ampere_sgemm_128x64_tn",
        c"_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_14func_wrapper_tIfNS0_11sum_functorIfffEclERNS_14TensorIteratorEEUlffE_EEjfLi4EEEEEvT1_",
        c"void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x256_16x3_tn_align4>",
    ];
    let pointers: Vec<*const c_char> = names.iter().map(|name| name.as_ptr()).collect();

    let mut read = Vec::new();
    let mut records = 0;
    for _ in 0..rounds {
        let trace = Trace::default();
        gpu::start(&trace, &options).expect("started");
        // SAFETY: names that live as long as the process's buffers are read.
        records = unsafe { fill(launches, pointers.as_ptr(), pointers.len() as u32) };
        let start = Instant::now();
        let report = gpu::stop(&trace).expect("stopped");
        read.push(start.elapsed());
        assert_eq!(report.kernels + report.runtime_calls + report.links, records, "{report:?}");
        assert_eq!(report.warnings, [""; 0]);
    }
    let time = median(&mut read);
    let rate = records as f64 / time.as_secs_f64() / 1e6;
    println!("reading: {rate:.2} million records a second ({records} records in {time:?}, median of {rounds})");
    // SAFETY: as above.
    let quantile = |which, at| unsafe { callback_ns(which, at) } as f64 / 1000.0;
    for (which, name) in [(0, "asking for a buffer"), (1, "giving it back")] {
        println!("{name}: {:.1} us median, {:.1} us 99th percentile", quantile(which, 0.5), quantile(which, 0.99));
    }

    let trace = Trace::default();
    let each = |count: u32| {
        let start = Instant::now();
        for id in 0..count {
            gpu::push_op(&trace, id.into());
            gpu::pop_op();
        }
        start.elapsed().as_nanos() as f64 / f64::from(count)
    };
    let idle = each(1_000_000);
    gpu::start(&trace, &options).expect("started");
    println!("naming an op: {idle:.1} ns without a collection");
    gpu::stop(&trace).expect("stopped");

    let nowhere = GpuLibraries { libcuda: Some("/nowhere/libcuda.so.1".into()), ..GpuLibraries::default() };
    let mut asked: Vec<Duration> = (0..100)
        .map(|_| {
            let start = Instant::now();
            let info = gpu::info(&nowhere);
            assert!(info.devices.is_empty());
            start.elapsed()
        })
        .collect();
    println!("asking for GPUs without a driver: {:?}", median(&mut asked));
    if gpu::info(&GpuLibraries::default()).driver.is_none() {
        let start = Instant::now();
        gpu::info(&GpuLibraries::default());
        println!("and looking for it everywhere: {:?}", start.elapsed());
    }
    drop(library);
}
