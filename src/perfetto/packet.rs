//! What an event consists of, with the field numbers of Perfetto's protos.

use super::wire;

pub(super) const TRACE_PACKET: u32 = 1;

/// `TracePacket`
pub(super) mod field {
    pub(in crate::perfetto) const CLOCK_SNAPSHOT: u32 = 6;
    pub(in crate::perfetto) const TIMESTAMP: u32 = 8;
    pub(in crate::perfetto) const SEQUENCE: u32 = 10;
    pub(in crate::perfetto) const TRACK_EVENT: u32 = 11;
    pub(in crate::perfetto) const INTERNED: u32 = 12;
    pub(in crate::perfetto) const SEQUENCE_FLAGS: u32 = 13;
    pub(in crate::perfetto) const TIMESTAMP_CLOCK: u32 = 58;
    pub(in crate::perfetto) const DEFAULTS: u32 = 59;
    pub(in crate::perfetto) const TRACK_DESCRIPTOR: u32 = 60;
    pub(in crate::perfetto) const FIRST_ON_SEQUENCE: u32 = 87;
}

/// The pid of what is called process 0 elsewhere, and the tid of lane 0. To Perfetto, 0 is the idle thread of a kernel: it
/// keeps the name of that, whatever a trace says.
pub(crate) const FOR_0: u32 = 999_999;

/// Appends text as a field. Perfetto hands results to its viewer with NUL between them, so a text cannot contain one.
pub(super) fn text(out: &mut Vec<u8>, field: u32, text: &[u8]) {
    if text.contains(&0) {
        let parts: Vec<&[u8]> = text.split(|&byte| byte == 0).collect();
        wire::bytes(out, field, &parts.join(&b"\\u0000"[..]));
    } else {
        wire::bytes(out, field, text);
    }
}

/// What a `TrackEvent` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A slice starts.
    Begin = 1,
    /// The slice that started last on the track ends.
    End = 2,
    /// Something that takes no time.
    Instant = 3,
    /// A value of a counter.
    Counter = 4,
    /// An event of Chrome's older kinds: [`legacy`] says which.
    Legacy = 0,
}

/// The interned name of the open event.
#[inline]
pub(crate) fn name(out: &mut Vec<u8>, iid: u64) {
    wire::uint(out, 10, iid);
}

/// The name of the open event, as text.
pub(crate) fn name_text(out: &mut Vec<u8>, text: &[u8]) {
    self::text(out, 23, text);
}

/// The interned category of the open event.
#[inline]
pub(crate) fn category(out: &mut Vec<u8>, iid: u64) {
    wire::uint(out, 3, iid);
}

/// The category of the open event, as text.
pub(crate) fn category_text(out: &mut Vec<u8>, text: &[u8]) {
    self::text(out, 22, text);
}

/// The open event belongs to a flow: from the first event of a flow in time, over each other, to the last.
///
/// This is `flow_ids_old`, which Perfetto reads as it does `flow_ids`: its numbers take as many bytes as they need, not
/// always eight.
#[inline]
pub(crate) fn flow(out: &mut Vec<u8>, id: u64) {
    wire::uint(out, 36, id);
}

/// The open event is the last of a flow: `terminating_flow_ids_old`.
#[inline]
pub(crate) fn flow_end(out: &mut Vec<u8>, id: u64) {
    wire::uint(out, 42, id);
}

/// The value of the open counter event.
pub(crate) fn counter_int(out: &mut Vec<u8>, value: i64) {
    wire::int(out, 30, value);
}

/// The value of the open counter event.
pub(crate) fn counter_double(out: &mut Vec<u8>, value: f64) {
    wire::double(out, 44, value);
}

/// How far the line of an instant reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Global = 1,
    Process = 2,
}

/// Makes the open event one of Chrome's kinds, by its letter: parts of flows between slices and of async spans, which
/// have an id, and instants of more than a thread, which have a scope. Of the end of a flow, `enclosing` says that it is
/// bound to the slice around it, not to the next one.
pub(crate) fn legacy(out: &mut Vec<u8>, phase: u8, id: Option<u64>, enclosing: bool, scope: Option<Scope>) {
    wire::message(out, 6, |out| {
        wire::uint(out, 2, u64::from(phase));
        if let Some(id) = id {
            wire::uint(out, 6, id);
        }
        if enclosing {
            wire::uint(out, 12, 1);
        }
        if let Some(scope) = scope {
            wire::uint(out, 14, scope as u64);
        }
    });
}

/// Makes the open event a part of an async span: of the whole trace's ids, or of its process's own.
pub(crate) fn legacy_async(out: &mut Vec<u8>, phase: u8, id: u64, local: bool) {
    wire::message(out, 6, |out| {
        wire::uint(out, 2, u64::from(phase));
        wire::uint(out, if local { 10 } else { 6 }, id);
    });
}

/// The open slice starts, ends or passes a flow, as Chrome's slices say: 1 for the end, 2 for the start, 3 for both.
pub(crate) fn legacy_bind(out: &mut Vec<u8>, id: u64, direction: u64) {
    wire::message(out, 6, |out| {
        wire::uint(out, 8, id);
        wire::uint(out, 13, direction);
    });
}

/// `DebugAnnotation`: an argument, or an element of an array or an object in one.
pub(crate) mod value {
    use super::wire;

    /// An argument of the open event: its interned key, and what `value` writes.
    #[inline]
    pub(crate) fn argument(out: &mut Vec<u8>, key: u64, value: impl FnOnce(&mut Vec<u8>)) {
        wire::message(out, 4, |out| {
            wire::uint(out, 1, key);
            value(out);
        });
    }

    /// As [`argument`], with a key that is not interned.
    pub(crate) fn named(out: &mut Vec<u8>, key: &[u8], value: impl FnOnce(&mut Vec<u8>)) {
        wire::message(out, 4, |out| {
            super::text(out, 10, key);
            value(out);
        });
    }

    #[inline]
    pub(crate) fn int(out: &mut Vec<u8>, value: i64) {
        wire::int(out, 4, value);
    }

    /// Shown as an integer where it is one of 64 bits with a sign.
    #[inline]
    pub(crate) fn uint(out: &mut Vec<u8>, value: u64) {
        match i64::try_from(value) {
            Ok(value) => int(out, value),
            Err(_) => wire::uint(out, 3, value),
        }
    }

    pub(crate) fn double(out: &mut Vec<u8>, value: f64) {
        wire::double(out, 5, value);
    }

    pub(crate) fn flag(out: &mut Vec<u8>, value: bool) {
        wire::uint(out, 2, u64::from(value));
    }

    pub(crate) fn text(out: &mut Vec<u8>, value: &[u8]) {
        super::text(out, 6, value);
    }

    /// Interned text.
    #[inline]
    pub(crate) fn interned(out: &mut Vec<u8>, iid: u64) {
        wire::uint(out, 17, iid);
    }

    /// A value of any shape, as JSON.
    pub(crate) fn json(out: &mut Vec<u8>, value: &[u8]) {
        wire::bytes(out, 9, value);
    }
}
