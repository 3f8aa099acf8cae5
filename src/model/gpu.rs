//! What is known of the machine's GPUs, as a trace tells of them.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// Whether GPU work can be collected, and if not, what stands against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum GpuState {
    /// There is a driver, a device, and a CUPTI that answers.
    Ready,
    /// libcuda.so.1 is not to be found: no NVIDIA driver.
    #[default]
    NoDriver,
    /// The libcuda.so.1 that was found is the stub of the CUDA toolkit, for linking only.
    StubDriver,
    /// The driver sees no device.
    NoDevice,
    /// The parts of the driver do not fit one another, or not the device.
    DriverMismatch,
    /// This process was forked from one that had used CUDA, which does not work in the child.
    Forked,
    /// The system has not finished to start up its devices.
    NotReady,
    /// The devices are there, but not for this process.
    Refused,
    /// The driver failed in some other way.
    DriverFailed,
    /// The devices work; libcupti, which tells what they do, is not to be found.
    NoCupti,
    /// libcupti was found and does not work.
    CuptiFailed,
    /// Not a platform that tptrace collects GPU work on.
    Unsupported,
}

impl GpuState {
    /// The word for it in documents and messages.
    pub fn name(self) -> &'static str {
        match self {
            GpuState::Ready => "ready",
            GpuState::NoDriver => "no driver",
            GpuState::StubDriver => "stub driver",
            GpuState::NoDevice => "no device",
            GpuState::DriverMismatch => "driver mismatch",
            GpuState::Forked => "forked",
            GpuState::NotReady => "not ready",
            GpuState::Refused => "refused",
            GpuState::DriverFailed => "driver failed",
            GpuState::NoCupti => "no cupti",
            GpuState::CuptiFailed => "cupti failed",
            GpuState::Unsupported => "unsupported platform",
        }
    }
}

/// A library that was found, and what it says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuLibrary {
    /// The file.
    pub path: String,
    /// Its version as it numbers them: 12040 for 12.4 (driver and runtime); CUPTI's own numbers, such as 22 or 130000.
    /// 0 if it does not say.
    pub version: i32,
}

/// One device, as the driver describes it. A figure that the driver does not tell is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuDevice {
    /// Its ordinal in this process.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// As `nvidia-smi` prints it, without the prefix `GPU-`; empty if unknown.
    pub uuid: String,
    /// Domain, bus and device on the PCI bus, as `nvidia-smi` prints them; empty if unknown.
    pub pci: String,
    /// Memory in bytes.
    pub total_memory: u64,
    /// Multiprocessors; 0 if unknown.
    pub multiprocessors: u32,
    /// Threads in a warp; 0 if unknown.
    pub warp_size: u32,
    /// Figures under the names that Kineto gives them.
    pub figures: Vec<(Cow<'static, str>, i64)>,
}

/// What was found of GPUs and their libraries.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct GpuInfo {
    /// Whether GPU work can be collected.
    pub state: GpuState,
    /// Why not, and what to do, in a sentence or two; empty if it can be.
    pub reason: String,
    /// What cuInit answered, if it was called: 0 for success.
    pub driver_code: Option<i32>,
    /// libcuda. Its version is the newest CUDA that the driver supports.
    pub driver: Option<GpuLibrary>,
    /// libcudart, if one is loaded or found.
    pub runtime: Option<GpuLibrary>,
    /// libcupti.
    pub cupti: Option<GpuLibrary>,
    /// The devices that this process may use.
    pub devices: Vec<GpuDevice>,
    /// What is odd and may spoil a collection.
    pub warnings: Vec<String>,
}

impl GpuInfo {
    /// The device of that ordinal.
    pub(crate) fn device(&self, id: i64) -> Option<&GpuDevice> {
        self.devices.iter().find(|device| i64::from(device.id) == id)
    }
}

/// What a collection of GPU work came to. Several of one trace add up.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuReport {
    /// Collections that ended.
    pub collections: u64,
    /// Kernels stored.
    pub kernels: u64,
    /// Copies stored, those between devices among them.
    pub memcpys: u64,
    /// Fills stored.
    pub memsets: u64,
    /// Calls of the runtime stored.
    pub runtime_calls: u64,
    /// Calls of the driver stored.
    pub driver_calls: u64,
    /// Stretches of overhead stored.
    pub overheads: u64,
    /// Synchronisations stored.
    pub syncs: u64,
    /// Calls that an op is known to have made.
    pub links: u64,
    /// Ranges and marks of NVTX's stored.
    pub markers: u64,
    /// Calls left out, since they say little and are many: asking for the device, the last error, and the like.
    pub filtered: u64,
    /// Records that CUPTI says it dropped.
    pub dropped: u64,
    /// Times that CUPTI asked for a buffer and got none of use, since the cap was reached.
    pub refused_buffers: u64,
    /// Buffers that CUPTI has not given back, with the records in them.
    pub kept_buffers: u64,
    /// Buffers that came after the end of their collection, with the records in them.
    pub late_buffers: u64,
    /// Records without times, left out.
    pub no_times: u64,
    /// Records that end before they start; they got 1 ns.
    pub inverted_times: u64,
    /// Records from outside the time of their collection, left out: their clock is not the one that CUPTI says it is.
    pub out_of_window: u64,
    /// Records of kinds that were not asked for, left out.
    pub unasked: u64,
    /// Records of kinds that are not known here, left out.
    pub unknown: u64,
    /// Kernels without a name; they got one.
    pub unnamed: u64,
    /// Buffers whose last record was cut, or that could not be read to their end.
    pub torn_buffers: u64,
    /// Buffers read.
    pub buffers: u64,
    /// How far the conversion of times may be off, in nanoseconds.
    pub clock_uncertainty_ns: u64,
    /// How much the clocks of the collector and of the trace moved against each other, in nanoseconds.
    pub clock_drift_ns: u64,
    /// What is odd, in sentences.
    pub warnings: Vec<String>,
}

impl GpuReport {
    /// The numbers, by their names in documents.
    pub fn numbers(&self) -> [(&'static str, u64); 25] {
        [
            ("collections", self.collections),
            ("kernels", self.kernels),
            ("memcpys", self.memcpys),
            ("memsets", self.memsets),
            ("runtime_calls", self.runtime_calls),
            ("driver_calls", self.driver_calls),
            ("overheads", self.overheads),
            ("syncs", self.syncs),
            ("links", self.links),
            ("markers", self.markers),
            ("filtered", self.filtered),
            ("dropped", self.dropped),
            ("refused_buffers", self.refused_buffers),
            ("kept_buffers", self.kept_buffers),
            ("late_buffers", self.late_buffers),
            ("no_times", self.no_times),
            ("inverted_times", self.inverted_times),
            ("out_of_window", self.out_of_window),
            ("unasked", self.unasked),
            ("unknown", self.unknown),
            ("unnamed", self.unnamed),
            ("torn_buffers", self.torn_buffers),
            ("buffers", self.buffers),
            ("clock_uncertainty_ns", self.clock_uncertainty_ns),
            ("clock_drift_ns", self.clock_drift_ns),
        ]
    }

    /// Adds what a later collection came to.
    pub(crate) fn add(&mut self, later: &GpuReport) {
        macro_rules! sum {
            ($($member:ident),*) => {$( self.$member += later.$member; )*};
        }
        sum!(
            collections,
            kernels,
            memcpys,
            memsets,
            runtime_calls,
            driver_calls,
            overheads,
            syncs,
            links,
            markers,
            filtered,
            dropped,
            refused_buffers,
            kept_buffers,
            late_buffers,
            no_times,
            inverted_times,
            out_of_window,
            unasked,
            unknown,
            unnamed,
            torn_buffers,
            buffers
        );
        self.clock_uncertainty_ns = self.clock_uncertainty_ns.max(later.clock_uncertainty_ns);
        self.clock_drift_ns = self.clock_drift_ns.max(later.clock_drift_ns);
        for warning in &later.warnings {
            if !self.warnings.contains(warning) {
                self.warnings.push(warning.clone());
            }
        }
    }
}
