//! Threads of this library inside its host.

use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};

/// As large as the system's `sigset_t` is anywhere.
#[repr(C, align(16))]
struct SignalSet([u8; 128]);

unsafe extern "C" {
    fn sigfillset(set: *mut SignalSet) -> c_int;
    fn pthread_sigmask(how: c_int, set: *const SignalSet, before: *mut SignalSet) -> c_int;
    fn atexit(call: extern "C" fn()) -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

#[cfg(target_os = "linux")]
const SIG_SETMASK: c_int = 2;
#[cfg(not(target_os = "linux"))]
const SIG_SETMASK: c_int = 3;

const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// As long as this is there, `pthread_cancel` does not end this thread: it would in every call of the system's that may
/// wait, through frames of ours that cannot be unwound so, and take the process along. It ends it afterwards.
pub(crate) struct Uncancelled(Option<c_int>);

impl Uncancelled {
    pub(crate) fn new() -> Self {
        let mut before = 0;
        // SAFETY: the place is ours.
        let set = unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Self((set == 0).then_some(before))
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // SAFETY: as it was before. Only to switch it is no place where a thread is ended.
            unsafe { pthread_setcancelstate(before, std::ptr::null_mut()) };
        }
    }
}

/// Starts a thread that no signal of the host's is handed to.
pub(crate) fn spawn_quiet<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let mut all = SignalSet([0; 128]);
    let mut before = SignalSet([0; 128]);
    // SAFETY: the sets are ours and large enough. A thread starts with the mask of the one that makes it.
    let masked = unsafe {
        sigfillset(&raw mut all);
        pthread_sigmask(SIG_SETMASK, &raw const all, &raw mut before) == 0
    };
    let thread = Builder::new().name(name.to_owned()).spawn(run);
    if masked {
        // SAFETY: as it was before.
        unsafe { pthread_sigmask(SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    }
    thread
}

/// Has a function called when the process exits in order; once, however often it is asked for.
pub(crate) fn at_exit(call: extern "C" fn()) {
    static ASKED: AtomicBool = AtomicBool::new(false);
    if !ASKED.swap(true, Ordering::Relaxed) {
        // SAFETY: the library is never unloaded, so the function stays.
        unsafe { atexit(call) };
    }
}
