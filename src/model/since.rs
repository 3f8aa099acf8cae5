//! Whether a trace goes on after a moment.

use std::collections::HashSet;

use super::event::GpuKind;
use super::snapshot::Snapshot;

impl Snapshot {
    /// Whether nothing that was added begins at that time or later. Work on a GPU counts from where it was called, if that
    /// is known: it may begin much later.
    pub(crate) fn is_idle_since(&self, time: i64) -> bool {
        self.ops.iter().all(|(_, op)| op.start < time)
            && self.memory.iter().all(|(_, event)| event.time < time)
            && self.samples.iter().all(|(_, sample)| sample.time < time)
            && self.counters.iter().all(|(_, counter)| counter.time < time)
            && self.instants.iter().all(|(_, instant)| instant.time < time)
            && self.marks.iter().all(|(_, mark)| mark.time < time)
            && self.gpu_is_idle_since(time)
    }

    fn gpu_is_idle_since(&self, time: i64) -> bool {
        let is_call = |kind| matches!(kind, GpuKind::Runtime | GpuKind::Driver);
        let is_work = |kind| matches!(kind, GpuKind::Kernel | GpuKind::Memcpy | GpuKind::Memset);
        let late = || self.gpu.iter().map(|(_, gpu)| gpu).filter(|gpu| gpu.start >= time);
        if late().next().is_none() {
            return true;
        }
        let mut early_calls = HashSet::new();
        let mut late_calls = HashSet::new();
        for (_, gpu) in self.gpu.iter().filter(|(_, gpu)| is_call(gpu.kind)) {
            let calls = if gpu.start < time { &mut early_calls } else { &mut late_calls };
            calls.insert(gpu.correlation);
        }
        // Calls that wait, such as those that end a collection, are no work.
        self.gpu.iter().filter(|(_, gpu)| is_work(gpu.kind)).all(|(_, gpu)| {
            !late_calls.contains(&gpu.correlation) && (gpu.start < time || early_calls.contains(&gpu.correlation))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::event::{GpuActivity, Instant, Int};
    use crate::model::span::Span;
    use crate::model::store::Store;

    fn add(store: &mut Store, kind: GpuKind, correlation: u64, start_ns: i64) {
        let correlation_id = Int::Unsigned(correlation);
        let gpu = GpuActivity { kind, correlation_id, start_ns, end_ns: start_ns + 10, ..GpuActivity::default() };
        store.add_gpu(&gpu).unwrap();
    }

    #[test]
    fn work_counts_from_its_call_on() {
        let mut store = Store::new(Span::new(0));
        let idle = |store: &Store, time| store.snapshot().is_idle_since(time);
        assert!(idle(&store, 0));
        add(&mut store, GpuKind::Runtime, 1, 100);
        add(&mut store, GpuKind::Kernel, 1, 500);
        // A wait.
        add(&mut store, GpuKind::Runtime, 9, 300);
        assert!(idle(&store, 101) && !idle(&store, 100));
        // Its call is not known.
        add(&mut store, GpuKind::Memcpy, 2, 400);
        assert!(idle(&store, 401) && !idle(&store, 400));
        store.add_instant(&Instant { name: "late".into(), time_ns: 450, ..Instant::default() }).unwrap();
        assert!(idle(&store, 451) && !idle(&store, 450));
    }
}
