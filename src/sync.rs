//! The locks that the crate uses.
//!
//! The standard library's, whose state is in the lock alone, so that a fork elsewhere cannot leave them broken. Under
//! ThreadSanitizer (`--cfg tptrace_tsan`) they are parking_lot's: the standard library comes compiled without
//! instrumentation, and the sanitizer would not see its slow path synchronise.
#![forbid(unsafe_code)]

use std::time::Instant;

#[cfg(not(tptrace_tsan))]
mod locks {
    pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

    use std::sync::{PoisonError, TryLockError};
    use std::time::Duration;

    /// A panic under a lock is no reason to stop: each change is complete before anything in it can panic.
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` if it is held.
    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        match mutex.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(guard)) => Some(guard.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits no longer than `time`.
    pub(crate) fn wait_for<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, time: Duration) -> MutexGuard<'a, T> {
        condition.wait_timeout(guard, time).unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(tptrace_tsan)]
mod locks {
    pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

    use std::time::Duration;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock()
    }

    pub(crate) fn try_lock<T>(mutex: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
        mutex.try_lock()
    }

    pub(crate) fn wait<'a, T>(condition: &Condvar, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        condition.wait(&mut guard);
        guard
    }

    /// Waits no longer than `time`.
    pub(crate) fn wait_for<'a, T>(
        condition: &Condvar,
        mut guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> MutexGuard<'a, T> {
        condition.wait_for(&mut guard, time);
        guard
    }
}

pub(crate) use locks::{Condvar, Mutex, MutexGuard, lock, try_lock, wait, wait_for};

/// Waits no longer than until `deadline`.
pub(crate) fn wait_until<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, deadline: Instant) -> MutexGuard<'a, T> {
    wait_for(condition, guard, deadline.saturating_duration_since(Instant::now()))
}
