//! Live recording: spans that are opened and closed while the program runs.
//!
//! Each thread writes records of 16 bytes into chunks of its own, without a lock; only a new chunk takes the trace's. A
//! reader sees what was published and nothing half written, while the thread goes on. When the trace is written, the
//! records become its events (`replay`).
#![allow(unsafe_code)]

mod api;
mod chunk;
mod clock;
mod core;
pub(crate) mod fork;
mod journal;
mod lane;
mod local;
#[cfg(loom)]
mod models;
mod names;
mod quiet;
mod reading;
mod replay;

pub use self::api::Span;
pub(crate) use self::chunk::{Open, Record};
pub(crate) use self::clock::Converter;
pub use self::clock::{now_ticks, ticks_uncertainty_ns};
pub(crate) use self::core::{Core, Limits};
pub use self::core::{Full, thread_id};
pub(crate) use self::journal::{Cursor, Piece, Teller};
pub(crate) use self::names::Table;
pub use self::names::{Name, category_flag, enable_category};
pub(crate) use self::quiet::{Uncancelled, at_exit, spawn_quiet};
pub(crate) use self::replay::Revival;
pub use crate::model::counts::RecordCounts;

use crate::model::event::Value;

/// What became of a call that records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is recorded.
    Recorded,
    /// The category is switched off.
    Off,
    /// There is no room, or spans are open too deep, or the call interrupted another one of the same thread: it is
    /// counted as dropped.
    Dropped,
    /// No span is open on this thread. Counted.
    NotOpen,
}

/// What an async event does with its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Async {
    /// A span begins.
    Begin,
    /// Something happens in it.
    Instant,
    /// It ends, on any thread.
    End,
}

/// Which part of a flow an event is. It hangs on the span that is open on its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Where it starts.
    Start,
    /// A place that it passes.
    Step,
    /// Where it ends.
    End,
}

/// Kinds of records, in the lowest byte of their first word. The name is in its upper half, the time in the second word.
pub(crate) mod kind {
    pub(crate) const BEGIN: u64 = 1;
    pub(crate) const END: u64 = 2;
    pub(crate) const INSTANT: u64 = 3;
    /// Followed by a record with the value.
    pub(crate) const COUNTER: u64 = 4;
    /// Start in the second word, in nanoseconds; followed by a record with the end.
    pub(crate) const COMPLETE: u64 = 5;
    /// Followed by a record with the id.
    pub(crate) const ASYNC: u64 = 6;
    pub(crate) const FLOW: u64 = 7;
    /// Of the span that is open: a key, and the value in the second word.
    pub(crate) const INT: u64 = 8;
    pub(crate) const UINT: u64 = 9;
    pub(crate) const FLOAT: u64 = 10;
    pub(crate) const BOOL: u64 = 11;
    /// The length in the second word; followed by the bytes.
    pub(crate) const TEXT: u64 = 12;
    /// The id of the span that is open, which is an op, in the second word.
    pub(crate) const ID: u64 = 13;
}

/// Bytes of a text argument that are kept.
pub(crate) const MAX_TEXT: usize = 1024;

impl Core {
    /// Opens a span on this thread.
    #[inline]
    pub(crate) fn begin(&self, name: Name) -> Outcome {
        if !name.is_on() {
            return self.skip_begin();
        }
        local::with_lane(self, |lane| lane.begin(self, name))
    }

    /// Closes the span that was opened last on this thread.
    #[inline]
    pub(crate) fn end(&self) -> Outcome {
        local::with_lane(self, |lane| lane.end(self))
    }

    /// A span whose category is off still has an end.
    #[cold]
    fn skip_begin(&self) -> Outcome {
        local::with_lane(self, |lane| lane.skip())
    }

    /// A span with given times, in nanoseconds of the trace's clock.
    pub(crate) fn complete(&self, name: Name, start_ns: i64, end_ns: i64) -> Outcome {
        self.pair(kind::COMPLETE, name, start_ns as u64, end_ns as u64)
    }

    /// Something that happens now.
    pub(crate) fn instant(&self, name: Name) -> Outcome {
        if !name.is_on() {
            return Outcome::Off;
        }
        local::with_lane(self, |lane| lane.push(self, &[[kind::INSTANT | name.word(), clock::now()]]))
    }

    /// A value now.
    pub(crate) fn counter(&self, name: Name, value: f64) -> Outcome {
        self.pair(kind::COUNTER, name, clock::now(), value.to_bits())
    }

    /// A part of an async span now.
    pub(crate) fn asynchronous(&self, what: Async, name: Name, id: u64) -> Outcome {
        self.pair(kind::ASYNC | (what as u64) << 8, name, clock::now(), id)
    }

    /// A part of a flow now.
    pub(crate) fn flow(&self, what: Flow, name: Name, id: u64) -> Outcome {
        self.pair(kind::FLOW | (what as u64) << 8, name, clock::now(), id)
    }

    fn pair(&self, what: u64, name: Name, first: u64, second: u64) -> Outcome {
        if !name.is_on() {
            return Outcome::Off;
        }
        local::with_lane(self, |lane| lane.push(self, &[[what | name.word(), first], [second, 0]]))
    }

    /// An argument of the span that was opened last on this thread.
    pub(crate) fn arg(&self, key: Name, value: Value<'_>) -> Outcome {
        local::with_lane(self, |lane| {
            match lane.is_open() {
                lane::OpenSpan::None => return Outcome::NotOpen,
                lane::OpenSpan::Dropped => return Outcome::Dropped,
                lane::OpenSpan::Recorded => {}
            }
            let (what, word) = match value {
                Value::Int(number) => (kind::INT, number as u64),
                Value::Uint(number) => (kind::UINT, number),
                Value::Float(number) => (kind::FLOAT, number.to_bits()),
                Value::Bool(truth) => (kind::BOOL, u64::from(truth)),
                Value::Text(text) => {
                    let bytes = cut(text.0);
                    let mut records = [[0; 2]; 1 + MAX_TEXT / 16];
                    records[0] = [kind::TEXT | key.word(), bytes.len() as u64];
                    let count = 1 + bytes.len().div_ceil(16);
                    for (record, piece) in records[1..].iter_mut().zip(bytes.chunks(16)) {
                        let mut whole = [0; 16];
                        whole[..piece.len()].copy_from_slice(piece);
                        let (low, high) = whole.split_at(8);
                        *record = [low, high].map(|half| u64::from_le_bytes(half.try_into().expect("8 bytes")));
                    }
                    return lane.push(self, &records[..count]);
                }
            };
            lane.push(self, &[[what | key.word(), word]])
        })
    }
}

/// As much of a text as is kept, whole characters.
fn cut(bytes: &[u8]) -> &[u8] {
    if bytes.len() <= MAX_TEXT {
        return bytes;
    }
    let start = (MAX_TEXT - 3..=MAX_TEXT).rev().find(|&at| bytes[at] & 0xc0 != 0x80);
    &bytes[..start.unwrap_or(MAX_TEXT)]
}
