//! What a fork does to traces.
//!
//! Only the forking thread lives on in the child. A lock that another thread held stays locked there, and what that
//! thread was changing stays half changed. So a handle of the C ABI remembers in which process it was made, and its calls
//! answer `TP_STATUS_FORKED` in a child; a thread forgets there what it has recorded for its parent; and the lock of the
//! names, which are the process's, is not held by another thread while a process forks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::names;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static REGISTERED: AtomicBool = AtomicBool::new(false);

#[cfg(unix)]
unsafe extern "C" {
    pub(crate) fn pthread_atfork(
        prepare: Option<unsafe extern "C" fn()>,
        parent: Option<unsafe extern "C" fn()>,
        child: Option<unsafe extern "C" fn()>,
    ) -> i32;
}

unsafe extern "C" fn before() {
    names::hold();
}

unsafe extern "C" fn in_parent() {
    names::release();
}

unsafe extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    names::release();
}

/// Counts the forks that led to this process, since the first trace was made.
#[inline]
pub(crate) fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

/// Starts to count. Not a `Once`: a fork in the middle of one would leave the child waiting.
pub(crate) fn watch() {
    #[cfg(unix)]
    if !REGISTERED.swap(true, Ordering::Relaxed) {
        // SAFETY: the handlers take and leave a lock, and add to an atomic, which is allowed between fork and exec. The
        // library is linked with -z nodelete, so their code stays.
        unsafe { pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    }
}
