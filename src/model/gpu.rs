//! What is known of the machine's GPUs, as a trace tells of them.

/// Whether GPU work can be collected, and if not, what stands against it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuLibrary {
    /// The file.
    pub path: String,
    /// Its version as it numbers them: 12040 for 12.4 (driver and runtime); CUPTI's own numbers, such as 22 or 130000.
    /// 0 if it does not say.
    pub version: i32,
}

/// One device, as the driver describes it. A figure that the driver does not tell is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
    pub figures: Vec<(&'static str, i64)>,
}

/// What was found of GPUs and their libraries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
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
