//! Where CUDA's libraries may be, in the order in which they are tried.
//!
//! A library that the process has already comes first: two copies of CUPTI in one process see half of the work each.
//! Then the wheels beside the Python packages in use, conda, the system's loader, and the toolkit.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::library::{self, Loaded};

/// Which files to take, and where else to look. What is not set here is taken from the environment: `TP_LIBCUDA`,
/// `TP_LIBCUDART`, `TP_LIBCUPTI`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct GpuLibraries {
    /// The driver's libcuda.
    pub libcuda: Option<PathBuf>,
    /// The runtime.
    pub libcudart: Option<PathBuf>,
    /// CUPTI.
    pub libcupti: Option<PathBuf>,
    /// Folders that NVIDIA's wheels may be installed in, such as those of Python's `sys.path`.
    pub search_paths: Vec<PathBuf>,
}

/// A family of libraries.
#[derive(Debug, Clone, Copy)]
pub(super) struct Family {
    /// "libcupti"
    pub(super) stem: &'static str,
    /// "TP_LIBCUPTI"
    pub(super) variable: &'static str,
    /// By the major version of CUDA, the newest first.
    sonames: &'static [(i32, &'static str)],
    /// Folders of a wheel below site-packages, for CUDA 11 and 12; from 13 on all is in `nvidia/cu13/lib`.
    wheel: &'static str,
    /// Folders of a toolkit.
    toolkit: &'static [&'static str],
}

pub(super) const CUPTI: Family = Family {
    stem: "libcupti",
    variable: "TP_LIBCUPTI",
    sonames: &[(13, "libcupti.so.13"), (12, "libcupti.so.12"), (11, "libcupti.so.11.8"), (11, "libcupti.so.11.7")],
    wheel: "nvidia/cuda_cupti/lib",
    toolkit: &["extras/CUPTI/lib64", "lib64"],
};

pub(super) const RUNTIME: Family = Family {
    stem: "libcudart",
    variable: "TP_LIBCUDART",
    sonames: &[(13, "libcudart.so.13"), (12, "libcudart.so.12"), (11, "libcudart.so.11.0")],
    wheel: "nvidia/cuda_runtime/lib",
    toolkit: &["lib64"],
};

/// The override, from the caller or the environment.
pub(super) fn given(option: Option<&PathBuf>, variable: &str) -> Option<PathBuf> {
    option.cloned().or_else(|| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from))
}

/// The process's mapped files that matter here, looked up once.
#[derive(Debug)]
pub(super) struct Mapped(Vec<OsString>);

impl Mapped {
    pub(super) fn now() -> Self {
        Self(library::mapped_files())
    }

    /// Mapped files of a family, such as `libcudart.so.12` or `libcudart-9335f6a2.so.11.0`.
    fn of(&self, stem: &str) -> impl Iterator<Item = &OsStr> {
        self.0.iter().map(OsString::as_os_str).filter(move |path| {
            let name = Path::new(path).file_name().unwrap_or_default().to_string_lossy();
            name.strip_prefix(stem).is_some_and(|rest| rest.starts_with(['.', '-']) && rest.contains(".so"))
        })
    }

    /// The major version of the CUDA runtime that the process uses, by its file's name.
    pub(super) fn runtime_major(&self) -> Option<i32> {
        let major = |path: &OsStr| {
            let name = Path::new(path).file_name()?.to_string_lossy();
            name.split_once(".so.")?.1.split('.').next()?.parse().ok()
        };
        self.of(RUNTIME.stem).find_map(major)
    }

    /// Folders with Python packages that something is mapped from.
    fn packages(&self) -> Vec<PathBuf> {
        let mut found: Vec<PathBuf> = Vec::new();
        for file in &self.0 {
            let folder = Path::new(file).ancestors().find(|folder| {
                folder.file_name().is_some_and(|name| name == "site-packages" || name == "dist-packages")
            });
            if let Some(folder) = folder.filter(|folder| found.iter().all(|known| known != folder)) {
                found.push(folder.to_path_buf());
            }
        }
        found
    }
}

/// Finds a library of `family` for CUDA `major` or, failing that, another one. `Err` says where it was looked for.
pub(super) fn find(family: &Family, libraries: &GpuLibraries, mapped: &Mapped, major: i32) -> Result<Loaded, String> {
    let option = if family.stem == CUPTI.stem { &libraries.libcupti } else { &libraries.libcudart };
    if let Some(path) = given(option.as_ref(), family.variable) {
        let asked = |error| format!("the file that was asked for cannot be loaded: {error}");
        return library::load(path.as_os_str()).map_err(asked);
    }
    // The wanted version first, then older ones, which a newer driver supports, then what is left.
    let mut sonames: Vec<&(i32, &str)> = family.sonames.iter().collect();
    sonames.sort_by_key(|(of, _)| (*of != major, *of > major));
    let by_name = sonames.iter().find_map(|(_, soname)| library::loaded(OsStr::new(soname)));
    if let Some(library) = by_name.or_else(|| mapped.of(family.stem).find_map(library::loaded)) {
        return Ok(library);
    }
    for (of, soname) in &sonames {
        for place in places(family, libraries, mapped, *of) {
            let file = place.join(soname);
            if (place.as_os_str().is_empty() || file.is_file())
                && let Ok(library) = library::load(file.as_os_str())
            {
                return Ok(library);
            }
        }
    }
    let names: Vec<&str> = family.sonames.iter().map(|(_, soname)| *soname).collect();
    Err(format!(
        "no {} is loaded, in a wheel of NVIDIA's, in conda, on the loader's path or in a CUDA toolkit",
        names.join(" or ")
    ))
}

/// The folders to look in for a library of CUDA `major`; an empty one stands for the system's loader.
fn places(family: &Family, libraries: &GpuLibraries, mapped: &Mapped, major: i32) -> Vec<PathBuf> {
    let folder = |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let mut places = Vec::new();
    let packages = libraries.search_paths.iter().cloned().chain(mapped.packages());
    for packages in packages.chain(folder("VIRTUAL_ENV").iter().flat_map(|prefix| site_packages(prefix))) {
        places.push(packages.join(if major >= 13 { format!("nvidia/cu{major}/lib") } else { family.wheel.to_owned() }));
    }
    places.extend(folder("CONDA_PREFIX").map(|prefix| prefix.join("lib")));
    places.push(PathBuf::new());
    let toolkits = [folder("CUDA_HOME"), folder("CUDA_PATH"), Some(PathBuf::from("/usr/local/cuda"))];
    for toolkit in toolkits.into_iter().flatten() {
        places.extend(family.toolkit.iter().map(|below| toolkit.join(below)));
    }
    places
}

/// The folders of packages in a Python environment: one for each of its Pythons.
fn site_packages(prefix: &Path) -> Vec<PathBuf> {
    let versions = std::fs::read_dir(prefix.join("lib")).into_iter().flatten().flatten();
    let of_python = versions.filter(|entry| entry.file_name().as_bytes().starts_with(b"python3"));
    of_python.map(|entry| entry.path().join("site-packages")).collect()
}

/// Whether a path leads into the toolkit's folder of stubs.
pub(super) fn is_stub(path: &str) -> bool {
    Path::new(OsStr::from_bytes(path.as_bytes())).components().any(|part| part.as_os_str() == "stubs")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(files: &[&str]) -> Mapped {
        Mapped(files.iter().map(OsString::from).collect())
    }

    #[test]
    fn mapped_libraries_are_told_by_their_names() {
        let files = mapped(&[
            "/usr/lib/libc.so.6",
            "/v/lib/python3.12/site-packages/torch/lib/libcudart-9335f6a2.so.11.0",
            "/v/lib/python3.12/site-packages/torch/lib/libtorch.so",
            "/usr/lib/libcuptifoo.so",
            "/opt/libcupti.so.2024.3.2",
        ]);
        assert_eq!(files.of("libcupti").collect::<Vec<_>>(), ["/opt/libcupti.so.2024.3.2"]);
        assert_eq!(files.runtime_major(), Some(11));
        assert_eq!(files.packages(), [PathBuf::from("/v/lib/python3.12/site-packages")]);
        assert_eq!(mapped(&[]).runtime_major(), None);
    }

    #[test]
    fn wheels_come_before_the_system() {
        let libraries = GpuLibraries { search_paths: vec!["/site".into()], ..GpuLibraries::default() };
        let old = places(&CUPTI, &libraries, &mapped(&[]), 12);
        assert_eq!(old[0], PathBuf::from("/site/nvidia/cuda_cupti/lib"));
        assert_eq!(places(&CUPTI, &libraries, &mapped(&[]), 13)[0], PathBuf::from("/site/nvidia/cu13/lib"));
        let system = old.iter().position(|place| place.as_os_str().is_empty()).expect("the loader");
        let toolkit = old.iter().position(|place| place.ends_with("cuda/extras/CUPTI/lib64")).expect("the toolkit");
        assert!(0 < system && system < toolkit);
    }

    #[test]
    fn stubs_are_told_by_their_folder() {
        assert!(is_stub("/usr/local/cuda/lib64/stubs/libcuda.so.1"));
        assert!(!is_stub("/usr/lib/x86_64-linux-gnu/libcuda.so.1"));
        assert!(!is_stub("/opt/mystubs/libcuda.so.1"));
    }
}
