//! One thread reads Python objects, with the GIL; another adds what was read, without it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use super::Walk;
use super::batch::Gather;
use super::value::Trouble;
use crate::Trace;
use crate::capi::status::{Failure, TP_STATUS_INTERNAL};

/// Batches on their way: one being read, one being added, one between them.
const BATCHES: usize = 3;

/// A batch that may be added on another thread.
struct Sent<G>(G);

// SAFETY: the other thread only calls `Gather::add`, which reads bytes that the batch keeps alive and touches no
// reference count; references are given up by `clear` and by dropping, both on the reading thread.
unsafe impl<G: Gather> Send for Sent<G> {}

type Added<G> = (Sent<G>, Result<(), Failure>);

fn adder<G: Gather>(trace: &Trace, filled: &Receiver<Sent<G>>, added: &Sender<Added<G>>) {
    for mut batch in filled.iter() {
        // A panic must not drop the batch here.
        let result = catch_unwind(AssertUnwindSafe(|| batch.0.add(&mut trace.lock()))).unwrap_or_else(|_| {
            Err(Failure::new(TP_STATUS_INTERNAL, "internal error (please report it): adding panicked"))
        });
        if let Err(returned) = added.send((batch, result)) {
            // The reader is gone, which it never is before this thread: rather a leak than a count without the GIL.
            std::mem::forget(returned);
        }
    }
}

/// Reads here and adds there. Without another thread, does both here.
pub(super) fn add<G: Gather>(
    trace: &Trace,
    walk: &mut Walk<'_>,
    make: impl Fn() -> G,
) -> Result<Option<Trouble>, Failure> {
    let (to_adder, filled) = channel();
    let (to_reader, added) = channel();
    thread::scope(|scope| {
        let builder = thread::Builder::new().name("tptrace-add".to_owned());
        let Ok(adder) = builder.spawn_scoped(scope, move || adder::<G>(trace, &filled, &to_reader)) else {
            return super::alone(trace, walk, make());
        };
        let mut made = 0;
        let mut on_their_way = 0;
        let mut outcome = Ok(None);
        loop {
            let mut batch = if made < BATCHES {
                made += 1;
                Sent(make())
            } else {
                let Ok((batch, result)) = added.recv() else { break };
                on_their_way -= 1;
                let mut batch: Sent<G> = batch;
                batch.0.clear();
                if result.is_err() {
                    outcome = result.map(|()| None);
                    break;
                }
                batch
            };
            let filled = walk.fill(&mut batch.0);
            if to_adder.send(batch).is_err() {
                break;
            }
            on_their_way += 1;
            match filled {
                Ok(true) => {}
                Ok(false) => break,
                Err(trouble) => {
                    outcome = Ok(Some(trouble));
                    break;
                }
            }
        }
        drop(to_adder);
        for _ in 0..on_their_way {
            // Dropped here, with the GIL.
            let Ok((_batch, result)) = added.recv() else { break };
            if outcome.is_ok() && result.is_err() {
                outcome = result.map(|()| None);
            }
        }
        let _ = adder.join();
        outcome
    })
}
