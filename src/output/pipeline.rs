//! Jobs in parallel, results in order.
//!
//! Every thread takes the next job, makes its bytes and puts them down; the calling thread picks them up in order and
//! hands them to the target. A thread may run ahead of the target by [`AHEAD`] jobs for each thread only.

use std::collections::BTreeMap;
use std::io;

use super::gzip::{Chunk, Deflater, Trailer};
use super::{Job, OnProgress, Progress, Written};
use crate::error::{Error, Result, contained};
use crate::sync::{Condvar, Mutex, MutexGuard, lock, wait};

/// Finished jobs that may wait for their turn, per thread.
const AHEAD: u64 = 3;

/// A buffer that grew beyond this for one huge event is not kept.
const KEEP: usize = 4 << 20;

/// What the threads share.
struct Board<N> {
    state: Mutex<State>,
    changed: Condvar,
    source: Mutex<N>,
    window: u64,
}

#[derive(Default)]
struct State {
    /// The number of the next job to be taken.
    next: u64,
    /// The number of the next chunk to be written.
    turn: u64,
    /// Some thread is asking the source for a job.
    asking: bool,
    /// The source has no more jobs.
    exhausted: bool,
    /// Something failed: finish.
    stop: bool,
    finished: BTreeMap<u64, Result<(Chunk, u64)>>,
    pool: Vec<Vec<u8>>,
}

impl<N> Board<N> {
    fn may_take(&self, state: &State) -> bool {
        !state.asking && !state.exhausted && !state.stop && state.next < state.turn + self.window
    }

    /// Asks the source for a job. The caller has checked [`Board::may_take`] under this lock.
    fn take<J>(&self, mut state: MutexGuard<'_, State>) -> Option<(u64, Job<J>)>
    where
        N: FnMut() -> Result<Option<Job<J>>>,
    {
        state.asking = true;
        drop(state);
        let job = contained(|| lock(&self.source)());
        let mut state = lock(&self.state);
        state.asking = false;
        let number = state.next;
        let taken = match job {
            Ok(Some(job)) => {
                state.next += 1;
                Some((number, job))
            }
            Ok(None) => {
                state.exhausted = true;
                None
            }
            Err(error) => {
                state.exhausted = true;
                state.next += 1;
                state.finished.insert(number, Err(error));
                None
            }
        };
        drop(state);
        self.changed.notify_all();
        taken
    }

    fn put(&self, number: u64, result: Result<(Chunk, u64)>) {
        lock(&self.state).finished.insert(number, result);
        self.changed.notify_all();
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        wait(&self.changed, state)
    }

    fn buffer(&self) -> Vec<u8> {
        lock(&self.state).pool.pop().unwrap_or_default()
    }
}

/// One thread's means of turning jobs into chunks.
struct Bench<W> {
    work: W,
    raw: Vec<u8>,
    deflater: Option<Deflater>,
}

impl<W> Bench<W> {
    fn make<J>(&mut self, job: Job<J>, mut out: Vec<u8>) -> Result<(Chunk, u64)>
    where
        W: FnMut(J, &mut Vec<u8>) -> Result<()>,
    {
        out.clear();
        let chunk = match &mut self.deflater {
            None => {
                contained(|| (self.work)(job.item, &mut out))?;
                Chunk::plain(out)
            }
            Some(deflater) => {
                self.raw.clear();
                contained(|| (self.work)(job.item, &mut self.raw))?;
                let chunk = deflater.chunk(&self.raw, out)?;
                if self.raw.capacity() > KEEP {
                    self.raw = Vec::new();
                }
                chunk
            }
        };
        Ok((chunk, job.units))
    }
}

/// Says whether the target is still to be handed to, and how far it came.
pub(super) struct Delivery<'t, 'p> {
    pub(super) target: &'t mut dyn io::Write,
    pub(super) failed: &'t dyn Fn(io::Error) -> Error,
    pub(super) progress: Option<OnProgress<'p>>,
    pub(super) so_far: Progress,
}

impl Delivery<'_, '_> {
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.target.write_all(bytes).map_err(self.failed)?;
        self.so_far.written += bytes.len() as u64;
        Ok(())
    }

    pub(super) fn report(&mut self) -> Result<()> {
        let go_on = self.progress.as_mut().is_none_or(|progress| progress(&self.so_far));
        if go_on { Ok(()) } else { Err(Error::Cancelled) }
    }
}

/// Runs all jobs and delivers their bytes. `level`: compress at that gzip level.
pub(super) fn run<J, N, W, M>(
    delivery: &mut Delivery<'_, '_>,
    level: Option<u32>,
    threads: usize,
    next: N,
    worker: M,
) -> Result<Written>
where
    J: Send,
    N: FnMut() -> Result<Option<Job<J>>> + Send,
    W: FnMut(J, &mut Vec<u8>) -> Result<()>,
    M: Fn() -> W + Sync,
{
    let threads = threads.max(1);
    let board = Board {
        state: Mutex::new(State::default()),
        changed: Condvar::new(),
        source: Mutex::new(next),
        window: AHEAD * threads as u64,
    };
    let bench = || Bench { work: worker(), raw: Vec::new(), deflater: level.map(Deflater::new) };
    std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads)
            .map_while(|_| {
                let builder = std::thread::Builder::new().name("tptrace-write".to_owned());
                // A system that gives no more threads gets its document from the calling one.
                builder.spawn_scoped(scope, || help(&board, bench)).ok()
            })
            .collect();
        let result = deliver(&board, bench, delivery, level.is_some());
        lock(&board.state).stop = true;
        board.changed.notify_all();
        for helper in helpers {
            // What panics in a helper is contained where it happens, and comes out of `deliver`.
            let _ = helper.join();
        }
        result
    })
}

/// What the other threads do.
fn help<J, N, W>(board: &Board<N>, bench: impl Fn() -> Bench<W>)
where
    N: FnMut() -> Result<Option<Job<J>>>,
    W: FnMut(J, &mut Vec<u8>) -> Result<()>,
{
    let mut bench = contained(|| Ok(bench())).ok();
    loop {
        let mut state = lock(&board.state);
        while !board.may_take(&state) {
            if state.stop || state.exhausted {
                return;
            }
            state = board.wait(state);
        }
        let Some((number, job)) = board.take(state) else { return };
        let result = match &mut bench {
            Some(bench) => bench.make(job, board.buffer()),
            None => Err(Error::Internal("a worker could not be made".to_owned())),
        };
        board.put(number, result);
    }
}

/// What the calling thread does: deliver what is ready, else help, else wait.
fn deliver<J, N, W>(
    board: &Board<N>,
    bench: impl Fn() -> Bench<W>,
    delivery: &mut Delivery<'_, '_>,
    gzip: bool,
) -> Result<Written>
where
    N: FnMut() -> Result<Option<Job<J>>>,
    W: FnMut(J, &mut Vec<u8>) -> Result<()>,
{
    let mut bench = contained(|| Ok(bench()))?;
    let mut trailer = Trailer::default();
    if gzip {
        delivery.bytes(&super::gzip::HEADER)?;
    }
    loop {
        let mut state = lock(&board.state);
        let turn = state.turn;
        if let Some(result) = state.finished.remove(&turn) {
            drop(state);
            let (chunk, units) = result?;
            delivery.bytes(&chunk.bytes)?;
            delivery.so_far.bytes += chunk.raw_len;
            delivery.so_far.done += units;
            trailer.add(&chunk);
            delivery.report()?;
            let mut state = lock(&board.state);
            state.turn += 1;
            if chunk.bytes.capacity() <= KEEP {
                state.pool.push(chunk.bytes);
            }
            drop(state);
            board.changed.notify_all();
        } else if board.may_take(&state) {
            if let Some((number, job)) = board.take(state) {
                let result = bench.make(job, board.buffer());
                board.put(number, result);
            }
        } else if state.exhausted && state.turn == state.next {
            break;
        } else {
            drop(board.wait(state));
        }
    }
    if gzip {
        delivery.bytes(&trailer.bytes())?;
    }
    Ok(Written { bytes: delivery.so_far.bytes, written: delivery.so_far.written })
}
