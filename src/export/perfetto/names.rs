//! Numbers for the texts of a trace. A text's number follows from its id in the store, so that threads agree on it
//! without asking; only what is used is sent.

use super::super::json;
use crate::model::event::OpKind;
use crate::model::intern::{Id, NONE};
use crate::model::pack::{self, Unpack};
use crate::model::snapshot::Snapshot;
use crate::perfetto::packet::{Interned, Texts};

/// Texts whose ids are sent together.
pub(super) const GROUP: usize = 4096;

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

/// Numbers from here on stand for texts of the store.
const STORED: u64 = 64;

const fn find(list: &[&str], text: &str) -> u64 {
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
            return at as u64 + 1;
        }
        at += 1;
    }
    panic!("not in the list")
}

/// The number of one of the formats' keys; as a text, of its values.
pub(super) const fn key(text: &str) -> u64 {
    find(&KEYS, text)
}

/// The number of one of the formats' categories.
pub(super) const fn category(text: &str) -> u64 {
    find(&CATEGORIES, text)
}

/// The number of a text of the store.
#[inline]
pub(super) fn stored(id: Id) -> u64 {
    STORED + u64::from(id)
}

/// Of which texts something is used, by id.
#[derive(Debug)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(count: usize) -> Self {
        Self(vec![0; count.div_ceil(64)])
    }

    /// Whether it is new.
    #[inline]
    fn set(&mut self, id: Id) -> bool {
        let Some(word) = self.0.get_mut(id as usize / 64) else { return false };
        let bit = 1 << (id % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    fn has(&self, id: usize) -> bool {
        self.0.get(id / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }
}

/// The texts that events use, and as what.
#[derive(Debug)]
pub(super) struct Used {
    names: Bits,
    keys: Bits,
    values: Bits,
    categories: Bits,
    /// Packed stacks, samples and inputs that are sent as one text.
    stacks: Bits,
    samples: Bits,
    inputs: Bits,
    /// Packed data that was looked at.
    seen: Bits,
    texts: usize,
    packed: usize,
}

impl Used {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let (texts, packed) = (snapshot.texts.len(), snapshot.packed.len());
        let mut used = Self {
            names: Bits::new(texts),
            keys: Bits::new(texts),
            values: Bits::new(texts),
            categories: Bits::new(texts),
            stacks: Bits::new(packed),
            samples: Bits::new(packed),
            inputs: Bits::new(packed),
            seen: Bits::new(packed),
            texts,
            packed,
        };
        for (_, op) in snapshot.ops.iter() {
            used.names.set(op.name);
            used.values.set(op.call_site);
            used.inputs.set(op.inputs);
            if op.extra != NONE && used.seen.set(op.extra) {
                let extra = snapshot.op_extra(op);
                used.args(snapshot, extra.args);
                used.stacks.set(extra.stack);
            }
        }
        for (_, gpu) in snapshot.gpu.iter() {
            used.names.set(gpu.name);
            if gpu.kind == crate::model::event::GpuKind::Sync {
                used.values.set(gpu.name);
            }
            if gpu.extra != NONE && used.seen.set(gpu.extra) {
                used.args(snapshot, snapshot.gpu_extra(gpu).args);
            }
        }
        snapshot.memory.iter().for_each(|(_, event)| used.args(snapshot, event.args));
        for (_, sample) in snapshot.samples.iter() {
            if used.samples.set(sample.stack) {
                let mut from = Unpack(snapshot.packed.bytes(sample.stack));
                if from.number() > 0 {
                    used.names.set(from.number() as Id);
                }
            }
            used.args(snapshot, sample.args);
        }
        for (_, instant) in snapshot.instants.iter() {
            used.names.set(instant.name);
            used.args(snapshot, instant.args);
        }
        for (_, mark) in snapshot.marks.iter() {
            used.names.set(mark.name);
            used.categories.set(mark.category);
        }
        snapshot.categories.iter().for_each(|&id| _ = used.categories.set(id));
        used
    }

    fn args(&mut self, snapshot: &Snapshot, id: Id) {
        if id == NONE || !self.seen.set(id) {
            return;
        }
        let mut from = Unpack(snapshot.packed.bytes(id));
        for _ in 0..from.number() {
            self.keys.set(from.number() as Id);
            match from.byte() {
                pack::VALUE_INT => _ = from.signed(),
                pack::VALUE_UINT => _ = from.number(),
                pack::VALUE_FLOAT => _ = from.float(),
                pack::VALUE_FALSE | pack::VALUE_TRUE => {}
                _ => _ = self.values.set(from.number() as Id),
            }
        }
    }

    /// The number of packed data as one text: a stack, a sample, or the shapes of inputs.
    pub(super) fn packed(&self, id: Id) -> u64 {
        STORED + self.texts as u64 + u64::from(id)
    }

    /// The number of the element types of inputs as one text.
    pub(super) fn dtypes(&self, id: Id) -> u64 {
        STORED + (self.texts + self.packed) as u64 + u64::from(id)
    }

    /// How many groups of texts there are.
    pub(super) fn groups(&self) -> usize {
        self.texts.max(self.packed).div_ceil(GROUP)
    }

    /// The texts that the formats themselves use.
    pub(super) fn own(&self, out: &mut Vec<u8>) {
        let packet = Texts::open(out);
        for (iid, text) in (1..).zip(KEYS) {
            Texts::add(out, Interned::Key, iid, text.as_bytes());
            Texts::add(out, Interned::Text, iid, text.as_bytes());
        }
        for (iid, text) in (1..).zip(CATEGORIES) {
            Texts::add(out, Interned::Category, iid, text.as_bytes());
        }
        packet.close(out);
    }

    /// The texts of one group.
    pub(super) fn group(&self, out: &mut Vec<u8>, snapshot: &Snapshot, group: usize) {
        let packet = Texts::open(out);
        for id in group * GROUP..(group + 1) * GROUP {
            let text = snapshot.texts.bytes(id as Id);
            for (used, kind) in [
                (&self.names, Interned::Name),
                (&self.keys, Interned::Key),
                (&self.values, Interned::Text),
                (&self.categories, Interned::Category),
            ] {
                if used.has(id) {
                    Texts::add(out, kind, stored(id as Id), text);
                }
            }
            if id == NONE as usize {
                continue;
            }
            if self.stacks.has(id) {
                Texts::add(out, Interned::Text, self.packed(id as Id), &joined(snapshot, id as Id));
            }
            if self.samples.has(id) {
                Texts::add(out, Interned::Text, self.packed(id as Id), &listed(snapshot, id as Id));
            }
            if self.inputs.has(id) {
                let (dims, types) = inputs(snapshot, id as Id);
                Texts::add(out, Interned::Text, self.packed(id as Id), &dims);
                Texts::add(out, Interned::Text, self.dtypes(id as Id), &types);
            }
        }
        packet.close(out);
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
pub(super) fn op_category(kind: OpKind) -> u64 {
    match kind {
        OpKind::Op => const { category("cpu_op") },
        OpKind::UserAnnotation | OpKind::Backward => const { category("user_annotation") },
    }
}
