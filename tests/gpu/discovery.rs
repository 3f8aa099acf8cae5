//! What is found, and what is said when nothing is.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tptrace::gpu::{GpuDevice, GpuInfo, GpuLibrary, GpuState};
use tptrace::{ExportOptions, Format, Trace};

use crate::fakes::{self, cuda, cudart, cupti, run, soname};

/// The command, in an environment without a GPU of its own.
fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tptrace"));
    command.arg("gpu");
    for name in ["TP_LIBCUDA", "TP_LIBCUDART", "TP_LIBCUPTI", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"] {
        command.env_remove(name);
    }
    command.env_remove("CONDA_PREFIX").env_remove("VIRTUAL_ENV");
    command
}

/// Asks for JSON and checks it against the exit status.
fn ask(command: &mut Command) -> Value {
    let output = command.arg("--json").output().expect("the command runs");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let told: Value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("{error}: {text}{}", String::from_utf8_lossy(&output.stderr)));
    assert_eq!(output.status.code(), Some(i32::from(told["ready"] != true)), "{told}");
    assert_eq!(told["ready"] == true, told["state"] == "ready");
    assert_eq!(told["ready"] == true, told["reason"] == "", "{told}");
    told
}

#[test]
fn everything_is_found() {
    let told = ask(command().env("TP_LIBCUDA", cuda()).env("TP_LIBCUDART", cudart()).env("TP_LIBCUPTI", cupti(28)));
    assert_eq!(told["state"], "ready");
    assert_eq!(told["driver"], json!({"path": cuda(), "version": 13050}));
    assert_eq!(told["runtime"], json!({"path": cudart(), "version": 12090}));
    assert_eq!(told["cupti"], json!({"path": cupti(28), "version": 28}));
    assert_eq!(told["warnings"], json!([]));
    let devices = told["devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 2);
    assert_eq!(
        devices[1],
        json!({
            "id": 1, "name": "Fake \"GPU\" 1", "totalGlobalMem": 85_520_809_984_u64, "computeMajor": 9, "computeMinor": 0,
            "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
            "sharedMemPerBlock": 49152, "numSms": 132, "regsPerMultiprocessor": 65536,
            "sharedMemPerBlockOptin": 232_448, "sharedMemPerMultiprocessor": 233_472,
            "uuid": "a1a1a1a1-a1a1-a1a1-a1a1-a1a1a1a1a1a1", "pci": "00000000:18:00.0",
        })
    );
    let text = run(command().arg("--libcuda").arg(cuda()).arg("--libcupti").arg(cupti(28)));
    for part in ["GPU collection: ready", "CUDA 13.5", "device 1: Fake \"GPU\" 1", "compute capability 9.0", "79.6 GiB"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn each_failure_of_the_driver_has_its_state_and_advice() {
    for (code, state, advice) in [
        (3, "forked", "\"spawn\""),
        (34, "stub driver", "LD_LIBRARY_PATH"),
        (46, "refused", "compute mode"),
        (100, "no device", "nvidia-smi"),
        (101, "no device", "CUDA_VISIBLE_DEVICES"),
        (802, "not ready", "nvidia-fabricmanager"),
        (803, "driver mismatch", "restart"),
        (804, "driver mismatch", "forward-compatible"),
        (805, "refused", "MPS"),
        (999, "driver failed", "nvidia-smi"),
    ] {
        // The fake CUPTI crashes if it is as much as asked for its version before the driver works.
        let told = ask(command()
            .env("TP_LIBCUDA", cuda())
            .env("TP_LIBCUPTI", cupti(130_200))
            .env("FAKE_CUPTI_CRASH", "1")
            .env("FAKE_CUDA_INIT", code.to_string()));
        assert_eq!((&told["state"], &told["driver_code"]), (&json!(state), &json!(code)), "{told}");
        let reason = told["reason"].as_str().expect("text");
        assert!(reason.contains(advice) && reason.contains(&code.to_string()), "{reason}");
        let said = reason.split_once("): ").expect("advice").1;
        assert!(
            fakes::GUIDE.contains(&format!("| {said} |")) && fakes::GUIDE.contains(&format!("`{state}`")),
            "{said}"
        );
        assert_eq!((&told["cupti"], &told["runtime"]), (&Value::Null, &Value::Null));
    }
}

#[test]
fn without_a_driver_nothing_else_is_touched() {
    let told = ask(command().env("TP_LIBCUDA", "/nowhere/libcuda.so.1").env("TP_LIBCUPTI", cupti(130_200)));
    assert_eq!(
        (&told["state"], &told["driver"], &told["driver_code"]),
        (&json!("no driver"), &Value::Null, &Value::Null)
    );
    let reason = told["reason"].as_str().expect("text");
    assert!(reason.contains("/nowhere/libcuda.so.1") && reason.contains("driver is installed"), "{reason}");

    let told = ask(command().env("TP_LIBCUDA", cuda()).env("FAKE_CUDA_DEVICES", "0"));
    assert_eq!((&told["state"], &told["driver_code"]), (&json!("no device"), &json!(100)));
    // Some other library by the driver's name.
    let told = ask(command().env("TP_LIBCUDA", cudart()));
    assert_eq!(told["state"], "driver failed");
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("cuInit")), "{told}");
}

#[test]
fn the_gate_opens_once_the_driver_works() {
    let told = ask(command().env("TP_LIBCUDA", cuda()).env("TP_LIBCUPTI", cupti(130_200)).env("FAKE_CUPTI_CRASH", "1"));
    assert_eq!((&told["state"], &told["cupti"]["version"]), (&json!("ready"), &json!(130_200)));
}

#[test]
fn a_cupti_that_does_not_answer_is_told() {
    for (variable, code) in [("FAKE_CUPTI_RC_VERSION", "999"), ("FAKE_CUPTI_INIT", "15")] {
        let told = ask(command().env("TP_LIBCUDA", cuda()).env("TP_LIBCUPTI", cupti(28)).env(variable, code));
        assert_eq!(told["state"], "cupti failed");
        assert!(told["reason"].as_str().is_some_and(|reason| reason.contains(code)), "{told}");
    }
    let told = ask(command().env("TP_LIBCUDA", cuda()).env("TP_LIBCUPTI", cudart()));
    assert_eq!(told["state"], "cupti failed");
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("cuptiGetVersion")), "{told}");
    let told = ask(command().env("TP_LIBCUDA", cuda()).env("TP_LIBCUPTI", "/nowhere/libcupti.so"));
    assert_eq!(told["state"], "no cupti");
    assert!(told["reason"].as_str().is_some_and(|reason| reason.contains("/nowhere/libcupti.so")), "{told}");
}

/// Lays a library into a folder under the name that its users ask for.
fn lay(library: &Path, folder: &Path) {
    std::fs::create_dir_all(folder).expect("folder");
    let name = library.file_name().expect("a name");
    std::fs::copy(library, folder.join(name)).expect("copy");
}

#[test]
fn wheels_are_searched_by_the_version_in_use() {
    let site = tempfile::tempdir().expect("folder");
    lay(&cupti(28), &site.path().join("nvidia/cuda_cupti/lib"));
    lay(&cupti(130_500), &site.path().join("nvidia/cu13/lib"));
    lay(&cudart(), &site.path().join("nvidia/cuda_runtime/lib"));
    let of = |version: &str| {
        ask(command().arg("--search").arg(site.path()).env("TP_LIBCUDA", cuda()).env("FAKE_CUDA_VERSION", version))
    };
    let new = of("13000");
    assert_eq!(new["cupti"]["version"], 130_500, "{new}");
    let old = of("12040");
    assert_eq!(old["cupti"]["version"], 28, "{old}");
    assert_eq!(old["runtime"]["version"], 12090);
    assert!(old["cupti"]["path"].as_str().is_some_and(|path| path.starts_with(&*site.path().to_string_lossy())));

    // Only a newer one than the driver supports: it is taken, and said.
    std::fs::remove_dir_all(site.path().join("nvidia/cuda_cupti")).expect("removed");
    let newer = of("12040");
    assert_eq!(newer["cupti"]["version"], 130_500, "{newer}");
    assert!(
        newer["warnings"][0].as_str().is_some_and(|text| text.contains("13.5") && text.contains("12.4")),
        "{newer}"
    );
}

#[test]
fn environments_and_toolkits_are_searched() {
    let folder = tempfile::tempdir().expect("folder");
    for (variable, below) in [
        ("VIRTUAL_ENV", "lib/python3.12/site-packages/nvidia/cuda_cupti/lib"),
        ("CONDA_PREFIX", "lib"),
        ("CUDA_HOME", "extras/CUPTI/lib64"),
        ("CUDA_PATH", "lib64"),
    ] {
        let place = folder.path().join(variable);
        lay(&cupti(28), &place.join(below));
        let told = ask(command().env("TP_LIBCUDA", cuda()).env(variable, &place));
        assert_eq!(told["cupti"]["path"], json!(place.join(below).join(soname(28))), "{told}");
    }
    lay(&cupti(28), folder.path());
    let told = ask(command().env("TP_LIBCUDA", cuda()).env("LD_LIBRARY_PATH", folder.path()));
    assert_eq!(told["cupti"]["path"], json!(folder.path().join(soname(28))), "{told}");
}

#[test]
fn what_the_process_has_comes_first() {
    let (mine, site) = (tempfile::tempdir().expect("folder"), tempfile::tempdir().expect("folder"));
    // As a toolkit names its file: no loader finds it by that name, and no major version is in it.
    let file = mine.path().join("libcupti.so.2025.3.1");
    std::fs::copy(cupti(28), &file).expect("copy");
    lay(&cupti(130_500), &site.path().join("nvidia/cu13/lib"));
    let told = ask(command().arg("--search").arg(site.path()).env("TP_LIBCUDA", cuda()).env("LD_PRELOAD", &file));
    assert_eq!(told["cupti"], json!({"path": file, "version": 28}));

    // Of two, the one that fits the runtime in use.
    let both = format!("{} {} {}", cupti(130_500).display(), cupti(28).display(), cudart().display());
    let told = ask(command().env("TP_LIBCUDA", cuda()).env("LD_PRELOAD", both));
    assert_eq!(told["cupti"]["version"], 28, "{told}");
    assert_eq!(told["runtime"]["path"], json!(cudart()));
}

#[test]
fn the_stubs_of_the_toolkit_are_told_by_their_folder() {
    let folder = tempfile::tempdir().expect("folder");
    lay(&cuda(), &folder.path().join("stubs"));
    let told = ask(command().env("TP_LIBCUDA", folder.path().join("stubs/libcuda.so.1")).env("FAKE_CUDA_INIT", "100"));
    assert_eq!(told["state"], "stub driver");
}

#[test]
fn a_trace_tells_of_the_devices() {
    let trace = Trace::default();
    let export = |format| {
        let mut out = Vec::new();
        let options = ExportOptions { format, ..ExportOptions::default() };
        trace.write_to(tptrace::output::Target::Writer(&mut out), &options, None).expect("written");
        serde_json::from_slice::<Value>(&out).expect("JSON")
    };
    assert_eq!(export(Format::Torch)["deviceProperties"], json!([]));
    let version = |number| Some(GpuLibrary { path: "/lib".into(), version: number });
    let device = |id| GpuDevice {
        id,
        name: "A \"name\"".into(),
        total_memory: 1 << 40,
        figures: vec![("numSms".into(), 132), ("warpSize".into(), 32)],
        ..GpuDevice::default()
    };
    trace.set_gpu_info(GpuInfo {
        state: GpuState::Ready,
        driver: version(12040),
        cupti: version(28),
        runtime: version(0),
        devices: vec![device(0), device(1)],
        ..GpuInfo::default()
    });
    let torch = export(Format::Torch);
    let properties =
        |id| json!({"id": id, "name": "A \"name\"", "totalGlobalMem": 1_u64 << 40, "numSms": 132, "warpSize": 32});
    assert_eq!(torch["deviceProperties"], json!([properties(0), properties(1)]));
    assert_eq!((&torch["cuda_driver_version"], &torch["cupti_version"]), (&json!(12040), &json!(28)));
    assert_eq!(torch.get("cuda_runtime_version"), None);
    assert_eq!(export(Format::Plain).get("deviceProperties"), None);
    trace.set_metadata("deviceProperties", "[1]").expect("set");
    assert_eq!(export(Format::Torch)["deviceProperties"], json!([1]));
}

#[test]
fn the_fakes_carry_their_names() {
    for version in [18, 28, 130_500] {
        let dynamic = run(Command::new("readelf").args(["-d", "-W"]).arg(fakes::cupti(version)));
        assert!(dynamic.contains(&format!("[{}]", soname(version))), "{dynamic}");
    }
}

#[test]
fn a_forked_child_is_told() {
    let folder = tempfile::tempdir().expect("folder");
    let program = fakes::program("tests/c/gpu.c", folder.path().join("gpu"));
    let files = ["one", "two"].map(|name| folder.path().join(name));
    run(Command::new(program).args(files).arg(cuda()).arg(cupti(28)));
}
