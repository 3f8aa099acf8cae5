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

/// What the threads of live recording share. In the runs of its models (`--cfg loom`) the types are loom's, which sees each
/// use of them, tries the orders in which threads may take turns, and answers a load with every value that the memory
/// model allows.
#[cfg(not(loom))]
pub(crate) mod shared {
    pub(crate) use super::{Mutex, MutexGuard, lock};
    pub(crate) use std::cell::UnsafeCell;
    pub(crate) use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};

    /// A static; under loom one that begins anew with each order that is tried.
    macro_rules! global {
        (static $name:ident: $type:ty = $value:expr;) => {
            static $name: $type = $value;
        };
    }
    pub(crate) use global;
}

#[cfg(loom)]
pub(crate) mod shared {
    pub(crate) use loom::lazy_static;
    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    use std::sync::PoisonError;

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    macro_rules! global {
        (static $name:ident: $type:ty = $value:expr;) => {
            $crate::sync::shared::lazy_static! { static ref $name: $type = $value; }
        };
    }
    pub(crate) use global;

    /// Memory that has no type of loom's. It tells loom of each use, which fails if it does not come after all others
    /// in the sense of the memory model.
    #[derive(Debug)]
    pub(crate) struct Watch(loom::cell::UnsafeCell<()>);

    impl Watch {
        pub(crate) fn new() -> Self {
            Self(loom::cell::UnsafeCell::new(()))
        }

        pub(crate) fn read(&self) {
            self.0.with(|_| ());
        }

        pub(crate) fn write(&self) {
            self.0.with_mut(|_| ());
        }
    }

    /// As the standard library's. Whoever asks for the pointer counts as one who writes.
    #[derive(Debug)]
    pub(crate) struct UnsafeCell<T> {
        watch: Watch,
        value: std::cell::UnsafeCell<T>,
    }

    impl<T> UnsafeCell<T> {
        pub(crate) fn new(value: T) -> Self {
            Self { watch: Watch::new(), value: std::cell::UnsafeCell::new(value) }
        }

        pub(crate) fn get(&self) -> *mut T {
            self.watch.write();
            self.value.get()
        }
    }
}

pub(crate) use locks::{Condvar, Mutex, MutexGuard, lock, try_lock, wait, wait_for};

/// Waits no longer than until `deadline`.
pub(crate) fn wait_until<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>, deadline: Instant) -> MutexGuard<'a, T> {
    wait_for(condition, guard, deadline.saturating_duration_since(Instant::now()))
}
