//! What was found, as text for people and as JSON for programs.

use std::fmt::Write;

use serde_json::{Map, Value, json};

use crate::model::gpu::{GpuDevice, GpuInfo, GpuLibrary, GpuState};

impl GpuInfo {
    /// A few lines for a person. The last one ends without a line break.
    pub fn to_text(&self) -> String {
        let mut text = format!("GPU collection: {}", self.state.name());
        let mut line = |what: &str, value: &str| {
            let _ = write!(text, "\n{what:<9} {value}");
        };
        if !self.reason.is_empty() {
            line("why:", &self.reason);
        }
        let cuda = |library: &GpuLibrary| match library.version {
            0 => format!("of unknown version, {}", library.path),
            version => format!("CUDA {}.{}, {}", version / 1000, version % 1000 / 10, library.path),
        };
        if let Some(driver) = &self.driver {
            line("driver:", &cuda(driver));
        }
        for device in &self.devices {
            line(&format!("device {}:", device.id), &device.to_text());
        }
        if self.driver.is_some() && !self.devices.is_empty() {
            line("runtime:", &self.runtime.as_ref().map_or_else(|| "no libcudart found".to_owned(), cuda));
        }
        if let Some(cupti) = &self.cupti {
            line("cupti:", &format!("version {}, {}", cupti.version, cupti.path));
        }
        for warning in &self.warnings {
            line("warning:", warning);
        }
        text
    }

    /// The same for programs: one JSON object.
    pub fn to_json(&self) -> String {
        let library = |library: &Option<GpuLibrary>| match library {
            Some(library) => json!({"path": library.path, "version": library.version}),
            None => Value::Null,
        };
        json!({
            "ready": self.state == GpuState::Ready,
            "state": self.state.name(),
            "reason": self.reason,
            "driver_code": self.driver_code,
            "driver": library(&self.driver),
            "runtime": library(&self.runtime),
            "cupti": library(&self.cupti),
            "devices": self.devices.iter().map(GpuDevice::to_json).collect::<Vec<_>>(),
            "warnings": self.warnings,
        })
        .to_string()
    }
}

impl GpuDevice {
    fn to_text(&self) -> String {
        let figure = |name: &str| self.figures.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let mut text = self.name.clone();
        if let (Some(major), Some(minor)) = (figure("computeMajor"), figure("computeMinor")) {
            let _ = write!(text, ", compute capability {major}.{minor}");
        }
        let _ = write!(
            text,
            ", {} multiprocessors, {:.1} GiB",
            self.multiprocessors,
            self.total_memory as f64 / (1u64 << 30) as f64
        );
        if !self.pci.is_empty() {
            let _ = write!(text, ", PCI {}", self.pci);
        }
        text
    }

    fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("id".into(), self.id.into());
        members.insert("name".into(), self.name.as_str().into());
        members.insert("totalGlobalMem".into(), self.total_memory.into());
        members.extend(self.figures.iter().map(|(key, value)| (key.to_string(), (*value).into())));
        members.insert("uuid".into(), self.uuid.as_str().into());
        members.insert("pci".into(), self.pci.as_str().into());
        Value::Object(members)
    }
}
