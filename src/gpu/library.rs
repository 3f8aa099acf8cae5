//! Loading libraries, for ever: what CUDA's libraries leave in the process (threads, exit handlers, callbacks in one
//! another) outlives any handle.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

#[cfg(target_os = "linux")]
const RTLD_NOLOAD: c_int = 4;
#[cfg(target_os = "linux")]
const RTLD_NODELETE: c_int = 0x1000;
#[cfg(not(target_os = "linux"))]
const RTLD_NOLOAD: c_int = 0x10;
#[cfg(not(target_os = "linux"))]
const RTLD_NODELETE: c_int = 0x80;

/// A library that stays: its handle, which is never closed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loaded(*mut c_void);

/// Loads `name`: a path, or a plain name that the system's loader looks for.
pub(super) fn load(name: &OsStr) -> Result<Loaded, String> {
    open(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE)
}

/// The library of that name or path that the process has loaded already.
pub(super) fn loaded(name: &OsStr) -> Option<Loaded> {
    open(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE | RTLD_NOLOAD).ok()
}

fn open(name: &OsStr, flags: c_int) -> Result<Loaded, String> {
    // SAFETY: loading runs the library's initialisers: the caller of this library asked for NVIDIA's own, or named a
    // file to be loaded in their place.
    match unsafe { Library::open(Some(name), flags) } {
        Ok(library) => Ok(Loaded(library.into_raw())),
        Err(error) => Err(reason(&error)),
    }
}

/// What the loader said, without what libloading puts around it.
fn reason(error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => source.to_string(),
        None => error.to_string(),
    }
}

impl Loaded {
    /// The function of that name.
    ///
    /// # Safety
    /// `F` is the type of a pointer to it. `name` ends in NUL.
    pub(super) unsafe fn function<F: Copy>(self, name: &'static [u8]) -> Option<F> {
        // SAFETY: the handle is open, and stays so: it is not dropped here.
        let library = ManuallyDrop::new(unsafe { Library::from_raw(self.0) });
        // SAFETY: the caller vouches for the type; the library is never unloaded, so the pointer stays valid.
        unsafe { library.get::<F>(name) }.ok().map(|symbol| *symbol)
    }

    /// The file that holds the function of that name, as the loader knows it.
    pub(super) fn file(self, name: &'static [u8]) -> Option<String> {
        #[repr(C)]
        struct Info {
            file: *const c_char,
            base: *mut c_void,
            symbol: *const c_char,
            address: *mut c_void,
        }
        unsafe extern "C" {
            fn dladdr(address: *const c_void, info: *mut Info) -> c_int;
        }
        // SAFETY: a function's address is only looked at.
        let address = unsafe { self.function::<*const c_void>(name) }?;
        let mut info = Info {
            file: std::ptr::null(),
            base: std::ptr::null_mut(),
            symbol: std::ptr::null(),
            address: std::ptr::null_mut(),
        };
        // SAFETY: dladdr fills the struct for an address inside a loaded library; `file` stays valid as long as that is
        // loaded.
        unsafe {
            if dladdr(address, &raw mut info) == 0 || info.file.is_null() {
                return None;
            }
            Some(String::from_utf8_lossy(CStr::from_ptr(info.file).to_bytes()).into_owned())
        }
    }
}

/// The files that the process has mapped, each once.
pub(super) fn mapped_files() -> Vec<OsString> {
    let maps = std::fs::read("/proc/self/maps").unwrap_or_default();
    let mut files: Vec<OsString> = Vec::new();
    for line in maps.split(|&byte| byte == b'\n') {
        let Some(at) = line.iter().position(|&byte| byte == b'/') else { continue };
        let path = line[at..].strip_suffix(b" (deleted)").unwrap_or(&line[at..]);
        // The parts of a file follow one another.
        if files.last().is_none_or(|last| last.as_bytes() != path) {
            files.push(OsString::from_vec(path.to_vec()));
        }
    }
    files
}

/// Declares a struct of functions: those that must be there, and those that may be.
macro_rules! functions {
    (
        $(#[$meta:meta])*
        $name:ident {
            $($must:ident = $must_symbol:literal: fn($($must_arg:ty),*);)*
        } or {
            $($may:ident = $may_symbol:literal: fn($($may_arg:ty),*);)*
        }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub(super) struct $name {
            $(pub(super) $must: unsafe extern "C" fn($($must_arg),*) -> std::ffi::c_int,)*
            $(pub(super) $may: Option<unsafe extern "C" fn($($may_arg),*) -> std::ffi::c_int>,)*
        }

        impl $name {
            /// The library's functions, or the name of one that is missing.
            pub(super) fn find(library: $crate::gpu::library::Loaded) -> Result<Self, &'static str> {
                // SAFETY: the signatures are those of NVIDIA's headers of CUDA 11.8 to 13.5.
                unsafe {
                    Ok(Self {
                        $($must: library.function(concat!($must_symbol, "\0").as_bytes()).ok_or($must_symbol)?,)*
                        $($may: library.function(concat!($may_symbol, "\0").as_bytes()),)*
                    })
                }
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
}
pub(super) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_loaded_is_found_without_loading() {
        let name = OsStr::new("libc.so.6");
        let libc = loaded(name).expect("every process has it");
        assert!(libc.file(b"getpid\0").is_some_and(|file| file.contains("libc.so")));
        assert!(libc.file(b"no_such_function\0").is_none());
        assert!(loaded(OsStr::new("libno-such-library.so.1")).is_none());
        let error = load(OsStr::new("libno-such-library.so.1")).expect_err("not there");
        assert!(error.contains("libno-such-library.so.1"), "{error}");
        assert!(mapped_files().iter().any(|file| file.to_string_lossy().contains("libc.so")));
    }
}
