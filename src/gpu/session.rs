//! A collection of GPU work, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::activity::CuptiCollector;
use super::clock::Clock;
use super::collector::{Asked, Collector, Ended, GpuKinds, Wait};
use super::discover::discover;
use super::intake::Intake;
use super::ops;
use super::pool::{Pool, PoolCounts, Sizes};
use super::process::Process;
use super::search::GpuLibraries;
use crate::error::{Error, GpuFailure, Result};
use crate::model::clock::{ClockDomain, realtime_ns};
use crate::model::gpu::GpuReport;
use crate::record::spawn_quiet;
use crate::sync::{Condvar, Mutex, lock, wait_until};
use crate::trace::{Shared, Trace};

/// The smallest buffer; a record has at most some hundred bytes.
const LEAST_BUFFER: usize = 4 << 10;
/// How long a collector that says it is done may still have buffers on their way.
const STRAGGLERS: Duration = Duration::from_millis(250);
/// How long a trace that is freed while it collects waits.
const FREED: Duration = Duration::from_secs(1);
/// What the clocks may move against each other without a word.
const NOTABLE_DRIFT_NS: u64 = 100_000;

/// How GPU work is collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuOptions {
    /// What to collect.
    pub kinds: GpuKinds,
    /// Also calls that are many and say little, such as cudaGetDevice, and all of the driver's.
    pub all_calls: bool,
    /// Wait for the GPU's work at the end, so that none is missing.
    pub wait: bool,
    /// Bytes of one buffer.
    pub buffer_bytes: usize,
    /// Bytes of all buffers: records beyond are lost, and counted.
    pub cap_bytes: usize,
    /// How long ending may take.
    pub stop_timeout: Duration,
    /// Which files to use.
    pub libraries: GpuLibraries,
}

impl Default for GpuOptions {
    fn default() -> Self {
        Self {
            kinds: GpuKinds::default(),
            all_calls: false,
            wait: true,
            buffer_bytes: 4 << 20,
            cap_bytes: 256 << 20,
            stop_timeout: Duration::from_secs(10),
            libraries: GpuLibraries::default(),
        }
    }
}

/// Who collects in this process: CUPTI serves one at a time.
#[derive(Debug)]
pub(super) enum Slot {
    Idle,
    Running(Box<Session>),
    /// The collector had not come back from its end when that was given up: see [`End`].
    Ending,
}

/// The end of a collection, which the collector comes to on a thread of its own.
#[derive(Debug, Default)]
pub(super) struct End {
    /// The thread is at it.
    runs: AtomicBool,
    answer: Mutex<Option<Ended>>,
    answered: Condvar,
}

/// A collection that is going on.
#[derive(Debug)]
pub(super) struct Session {
    shared: Arc<Shared>,
    collector: &'static dyn Collector,
    worker: JoinHandle<Intake>,
    options: GpuOptions,
    warnings: Vec<String>,
}

fn busy(message: &str) -> Error {
    Error::Gpu { failure: GpuFailure::Busy, message: message.to_owned() }
}

/// Starts to collect GPU work into a trace, and answers what is odd. The trace learns of the machine's GPUs.
///
/// The driver and CUPTI are looked for, loaded and started. Other threads may launch work meanwhile. From any thread; one
/// trace of a process collects at a time.
///
/// # Errors
/// [`Error::Gpu`] with what stands against it, and what to do: the trace goes on with its CPU side.
/// [`Error::InvalidArgument`] for sizes that cannot be, and for a trace whose clock is unknown.
pub fn start(trace: &Trace, options: &GpuOptions) -> Result<Vec<String>> {
    let process = Process::current();
    let mut slot = lock(&process.slot);
    match &*slot {
        Slot::Running(session) if Arc::ptr_eq(&session.shared, trace.shared()) => {
            return Err(busy("GPU work is being collected into this trace already"));
        }
        Slot::Running(_) => return Err(busy("another trace of this process collects GPU work: stop that one first")),
        Slot::Ending if process.end.runs.load(Ordering::Acquire) => {
            return Err(busy("CUPTI has not come back from the end of the collection before"));
        }
        Slot::Idle | Slot::Ending => {}
    }
    if options.kinds.0 == 0 || options.kinds.0 & !GpuKinds::ALL.0 != 0 {
        return Err(Error::invalid(format!("kinds {:#x}: none, or unknown ones", options.kinds.0)));
    }
    if options.buffer_bytes < LEAST_BUFFER || options.cap_bytes < 2 * options.buffer_bytes {
        return Err(Error::invalid(format!(
            "buffers of {} bytes with a cap of {}: a buffer has at least {LEAST_BUFFER} bytes, and two must fit",
            options.buffer_bytes, options.cap_bytes
        )));
    }
    let domain = trace.clock_domain();
    if domain == ClockDomain::Unknown {
        return Err(Error::invalid("the trace's clock is unknown: GPU times cannot be told on it"));
    }
    let (info, parts) = discover(&options.libraries);
    let (state, reason, mut warnings) = (info.state, info.reason.clone(), info.warnings.clone());
    trace.set_gpu_info(info);
    let Some(parts) = parts else {
        return Err(Error::Gpu { failure: GpuFailure::Unavailable, message: format!("{}: {reason}", state.name()) });
    };
    let known = CuptiCollector::of(process, parts);
    let collector = &*known.collector;
    let asked = Asked { kinds: options.kinds, all_calls: options.all_calls };
    let pool = &process.pool;
    pool.open(Sizes { buffer: options.buffer_bytes, cap: options.cap_bytes, may_refuse: collector.may_refuse() });
    let started = Clock::new(domain, || 0).trace_now();
    match collector.start(asked) {
        Ok(more) => warnings.extend(more),
        Err(error) => {
            pool.close();
            return Err(error);
        }
    }
    if collector.now().is_none() {
        warnings
            .push("CUPTI does not tell its clock: taken to be the system's real-time clock, as documented".to_owned());
    }
    let intake = Intake::new(Arc::clone(trace.shared()), Clock::new(domain, || now(collector)), started);
    let worker = spawn_quiet("tptrace-gpu", move || work(collector, asked, intake));
    let worker = worker.map_err(|error| {
        collector.stop(None);
        pool.close();
        Error::Gpu { failure: GpuFailure::Failed, message: format!("no thread to read GPU records: {error}") }
    })?;
    ops::tell(known);
    trace.shared().collecting.store(true, Ordering::Release);
    *lock(&trace.shared().on_drop) = Some(abandon);
    *slot = Slot::Running(Box::new(Session {
        shared: Arc::clone(trace.shared()),
        collector,
        worker,
        options: options.clone(),
        warnings: warnings.clone(),
    }));
    Ok(warnings)
}

/// The collector's time; the clock that it is documented to use if it does not tell.
fn now(collector: &dyn Collector) -> u64 {
    collector.now().unwrap_or_else(|| realtime_ns().unsigned_abs())
}

/// Reads buffers as they come, until the end of the collection.
fn work(collector: &'static dyn Collector, asked: Asked, mut intake: Intake) -> Intake {
    let pool: &'static Pool = &Process::current().pool;
    let mut reader = collector.reader(asked);
    while let Some(full) = pool.next() {
        intake.begin(|| now(collector));
        reader.read(full.bytes(), &mut intake);
        pool.give_back(full.block);
    }
    reader.finish(&mut intake);
    intake.clock.check(|| now(collector));
    intake
}

/// Ends the collection into a trace: waits for the GPU, takes what it did, and answers what it came to. The trace keeps
/// the sum over its collections. From any thread.
///
/// Takes at most the time that the options of its start allow, and little more: a collector that does not come back is
/// left behind, and what it holds is counted.
///
/// # Errors
/// [`Error::InvalidArgument`] if nothing is collected into this trace.
pub fn stop(trace: &Trace) -> Result<GpuReport> {
    end(trace.shared(), None)
        .ok_or_else(|| Error::invalid("no GPU work is being collected into this trace: start it first"))
}

/// The end for a trace that goes.
fn abandon(shared: &Arc<Shared>) {
    end(shared, Some(FREED));
}

fn end(shared: &Arc<Shared>, timeout: Option<Duration>) -> Option<GpuReport> {
    let process = Process::current();
    let mut slot = lock(&process.slot);
    if !matches!(&*slot, Slot::Running(session) if Arc::ptr_eq(&session.shared, shared)) {
        return None;
    }
    let Slot::Running(session) = std::mem::replace(&mut *slot, Slot::Idle) else { return None };
    shared.collecting.store(false, Ordering::Release);
    *lock(&shared.on_drop) = None;
    let allowed = timeout.unwrap_or(session.options.stop_timeout);
    let deadline = Instant::now() + allowed;
    let wait = (session.options.wait && timeout.is_none()).then(|| session.collector.wait_of_caller());
    let ended = stop_within(&process.end, session.collector, wait, deadline);
    let pool = &process.pool;
    pool.settle(if ended.is_some() { deadline.min(Instant::now() + STRAGGLERS) } else { Instant::now() });
    let counts = pool.close();
    let intake = session.worker.join().ok();
    if ended.is_none() {
        *slot = Slot::Ending;
    }
    let mut report = session_report(&session.options, ended, counts, intake, allowed);
    report.warnings.splice(0..0, session.warnings);
    shared.lock().gpu_report.get_or_insert_with(GpuReport::default).add(&report);
    Some(report)
}

/// Has the collector end on a thread of its own, which is left behind if it is not done in time: a kernel may never end,
/// and a flush waits for it.
fn stop_within(
    end: &'static End,
    collector: &'static dyn Collector,
    wait: Option<Wait>,
    deadline: Instant,
) -> Option<Ended> {
    *lock(&end.answer) = None;
    end.runs.store(true, Ordering::Release);
    let run = move || {
        let ended = collector.stop(wait);
        let mut answer = lock(&end.answer);
        *answer = Some(ended);
        end.runs.store(false, Ordering::Release);
        end.answered.notify_all();
    };
    let thread = spawn_quiet("tptrace-gpu-end", run);
    if thread.is_err() {
        // No thread to be had: then without a bound.
        run();
    }
    let mut answer = lock(&end.answer);
    while answer.is_none() && Instant::now() < deadline {
        answer = wait_until(&end.answered, answer, deadline);
    }
    let ended = answer.take();
    drop(answer);
    if let (true, Ok(thread)) = (ended.is_some(), thread) {
        let _ = thread.join();
    }
    ended
}

/// What a collection came to, with what is odd in sentences.
fn session_report(
    options: &GpuOptions,
    ended: Option<Ended>,
    counts: PoolCounts,
    intake: Option<Intake>,
    allowed: Duration,
) -> GpuReport {
    let mut report = GpuReport::default();
    let read = intake.is_some();
    if let Some(intake) = intake {
        report = intake.report;
        report.clock_uncertainty_ns = intake.clock.uncertainty_ns();
        report.clock_drift_ns = intake.clock.drift_ns();
    }
    report.collections = 1;
    (report.refused_buffers, report.late_buffers, report.kept_buffers) = (counts.refused, counts.late, counts.kept);
    let mut warnings = Vec::new();
    if !read {
        warnings.push("internal error (please report it): reading the records failed; they are missing".to_owned());
    }
    match ended {
        Some(ended) => {
            report.dropped = ended.dropped;
            warnings.extend(ended.warnings);
        }
        None => warnings.push(format!(
            "the GPU and CUPTI did not come to an end within {:.1} s: the work of that time is missing",
            allowed.as_secs_f64()
        )),
    }
    let mut tell = |count: u64, what: &str| {
        if count > 0 {
            warnings.push(format!("{count} {what}"));
        }
    };
    tell(report.dropped, "records were dropped by CUPTI: they did not fit its buffers; allow more with the cap");
    tell(report.refused_buffers, "times CUPTI got no buffer, since the cap was reached: records are missing");
    tell(report.kept_buffers, "buffers were not given back by CUPTI: the records in them are missing");
    tell(report.late_buffers, "buffers came after the end of their collection: the records in them are missing");
    tell(report.torn_buffers, "buffers ended in a cut record, or could not be read to their end");
    tell(report.no_times, "records had no times, and were left out");
    tell(report.inverted_times, "records ended before they started; they got 1 ns");
    tell(
        report.out_of_window,
        "records lay outside of the time of their collection, and were left out: their clock is not the one that CUPTI \
         says it is",
    );
    tell(report.unnamed, "kernels or markers had no name");
    tell(report.unknown, "records were of kinds that tptrace does not know, and were left out");
    if report.clock_drift_ns > NOTABLE_DRIFT_NS {
        warnings.push(format!(
            "the clocks of CUPTI and of the trace moved by {} microseconds against each other: times near that are less \
             exact",
            report.clock_drift_ns / 1000
        ));
    }
    if options.kinds.has(GpuKinds::KERNEL) && report.kernels == 0 {
        let calls = report.runtime_calls + report.driver_calls;
        warnings.push(if calls == 0 {
            "no kernel was seen, and no call: nothing ran on the GPU meanwhile, or CUPTI does not see this process"
                .to_owned()
        } else {
            format!(
                "no kernel was seen, though {calls} calls were: nothing was launched meanwhile, or this CUPTI does not \
                 support the GPU"
            )
        });
    }
    report.warnings = warnings;
    report
}
