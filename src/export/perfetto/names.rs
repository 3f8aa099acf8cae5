//! The texts that packets refer to: those of the formats themselves, and those of the store in the forms in which they
//! are sent.

use super::super::json;
use crate::model::event::OpKind;
use crate::model::intern::Id;
use crate::model::pack::{self, Unpack};
use crate::model::snapshot::Snapshot;

/// The formats' own argument keys.
const KEYS: [&str; 45] = [
    "External id",
    "Input Dims",
    "Input type",
    "Call site",
    "correlation",
    "device",
    "stream",
    "cbid",
    "bytes",
    "copy kind",
    "rank",
    "Call stack",
    "GPU duration (ms)",
    "Kernels",
    "Output alloc (bytes)",
    "memory bandwidth (GB/s)",
    "value",
    "cuda_sync_kind",
    "grid",
    "block",
    "registers per thread",
    "shared memory",
    "context",
    "graph id",
    "graph node id",
    "priority",
    "cuda result",
    "blocks per SM",
    "warps per SM",
    "channel",
    "channel_type",
    "fromDevice",
    "fromContext",
    "toDevice",
    "toContext",
    "wait_on_cuda_event_id",
    "cluster",
    "Bytes",
    "Allocation Type",
    "Device",
    "Addr",
    "stack",
    "alloc",
    "free",
    "cpu",
];

const CATEGORIES: [&str; 11] = [
    "cpu_op",
    "user_annotation",
    "kernel",
    "gpu_memcpy",
    "gpu_memset",
    "cuda_runtime",
    "cuda_driver",
    "overhead",
    "cuda_sync",
    "python_function",
    "cpu_instant_event",
];

const fn find(list: &[&str], text: &str) -> u32 {
    let mut at = 0;
    while at < list.len() {
        let (one, other) = (list[at].as_bytes(), text.as_bytes());
        let mut same = one.len() == other.len();
        let mut i = 0;
        while same && i < one.len() {
            same = one[i] == other[i];
            i += 1;
        }
        if same {
            return at as u32;
        }
        at += 1;
    }
    panic!("not in the list")
}

/// A text that events call by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Text {
    /// One of [`KEYS`].
    Key(u32),
    /// One of [`CATEGORIES`].
    Category(u32),
    /// A text of the store.
    Stored(Id),
    /// Packed frames, as one text with lines.
    Stack(Id),
    /// Packed frames, as an array.
    Frames(Id),
    /// The shapes of packed inputs.
    Shapes(Id),
    /// The element types of packed inputs.
    Types(Id),
}

/// One of the formats' own keys; also as a value.
pub(super) const fn key(text: &str) -> Text {
    Text::Key(find(&KEYS, text))
}

/// One of the formats' own categories.
pub(super) const fn category(text: &str) -> Text {
    Text::Category(find(&CATEGORIES, text))
}

impl Text {
    /// Different for each text.
    #[inline]
    pub(super) fn number(self) -> u64 {
        let (form, number) = match self {
            Self::Key(number) => (0, number),
            Self::Category(number) => (1, number),
            Self::Stored(id) => (2, id),
            Self::Stack(id) => (3, id),
            Self::Frames(id) => (4, id),
            Self::Shapes(id) => (5, id),
            Self::Types(id) => (6, id),
        };
        form << 32 | u64::from(number)
    }

    /// As it is sent.
    pub(super) fn write(self, snapshot: &Snapshot, mut to: impl FnMut(&[u8])) {
        match self {
            Self::Key(number) => to(KEYS[number as usize].as_bytes()),
            Self::Category(number) => to(CATEGORIES[number as usize].as_bytes()),
            Self::Stored(id) => to(snapshot.texts.bytes(id)),
            Self::Stack(id) => to(&joined(snapshot, id)),
            Self::Frames(id) => to(&listed(snapshot, id)),
            Self::Shapes(id) => to(&inputs(snapshot, id).0),
            Self::Types(id) => to(&inputs(snapshot, id).1),
        }
    }
}

/// Whether inputs come with element types.
pub(super) fn has_dtypes(snapshot: &Snapshot, id: Id) -> bool {
    let mut from = Unpack(snapshot.packed.bytes(id));
    for _ in 0..from.number() {
        for _ in 0..from.number() {
            from.signed();
        }
    }
    from.byte() != pack::DTYPES_NONE
}

/// The shapes of inputs and their element types, as JSON.
fn inputs(snapshot: &Snapshot, id: Id) -> (Vec<u8>, Vec<u8>) {
    let mut from = Unpack(snapshot.packed.bytes(id));
    let mut dims = Vec::new();
    list(&mut dims, from.number(), |dims| list(dims, from.number(), |dims| json::integer(dims, from.signed())));
    let mut types = Vec::new();
    let kind = from.byte();
    if kind != pack::DTYPES_NONE {
        list(&mut types, from.number(), |types| match kind {
            pack::DTYPES_CODES => json::text(types, (crate::dtype_name(i64::from(from.byte())).as_bytes(), true)),
            _ => json::text(types, snapshot.texts.get(from.number() as Id)),
        });
    }
    (dims, types)
}

/// The frames of a sample, as JSON.
fn listed(snapshot: &Snapshot, id: Id) -> Vec<u8> {
    let mut from = Unpack(snapshot.packed.bytes(id));
    let mut text = Vec::new();
    list(&mut text, from.number(), |text| json::text(text, snapshot.texts.get(from.number() as Id)));
    text
}

/// An array as JSON.
pub(super) fn list(out: &mut Vec<u8>, count: u64, mut item: impl FnMut(&mut Vec<u8>)) {
    out.push(b'[');
    for index in 0..count {
        if index > 0 {
            out.push(b',');
        }
        item(out);
    }
    out.push(b']');
}

/// The frames as Kineto joins them.
fn joined(snapshot: &Snapshot, id: Id) -> Vec<u8> {
    let mut from = Unpack(snapshot.packed.bytes(id));
    let mut text = Vec::new();
    for frame in 0..from.number() {
        if frame > 0 {
            text.extend_from_slice(b";\n");
        }
        text.extend_from_slice(snapshot.texts.bytes(from.number() as Id));
    }
    text
}

/// The category of an op without one of its own.
pub(super) fn op_category(kind: OpKind) -> Text {
    match kind {
        OpKind::Op => const { category("cpu_op") },
        OpKind::UserAnnotation | OpKind::Backward => const { category("user_annotation") },
    }
}
