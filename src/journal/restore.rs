//! Events from the blocks of a journal, added to a store as a caller adds them: so whatever a block says is checked.

use super::block::Kind;
use super::lanes;
use crate::model::event::{
    Arg, Counter, Dtypes, GpuActivity, GpuKind, Inputs, Instant, InstantScope, Int, MemoryEvent, Op, OpKind, Sample,
    Text, Value,
};
use crate::model::extra::{GpuExtra, OpExtra};
use crate::model::intern::{Id, NONE};
use crate::model::pack::{self, Unpack};
use crate::model::record::GpuRecord;
use crate::model::store::Store;

/// Byte strings by number, one behind the other.
#[derive(Debug)]
struct Arena {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Default for Arena {
    fn default() -> Self {
        // Number 0 stands for nothing.
        Self { bytes: Vec::new(), ends: vec![0] }
    }
}

impl Arena {
    fn extend(&mut self, contents: &[u8]) -> Result<(), String> {
        let (first, texts) = lanes::read_texts(contents)?;
        if first != self.ends.len() {
            return Err("texts of events are missing".into());
        }
        for text in texts {
            self.bytes.extend_from_slice(text);
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    fn get(&self, id: u64) -> &[u8] {
        let end = |index: Option<u64>| index.and_then(|index| self.ends.get(usize::try_from(index).ok()?));
        match (end(id.checked_sub(1)), end(Some(id))) {
            (Some(&start), Some(&end)) => &self.bytes[start..end],
            _ => b"",
        }
    }
}

/// Adds the events of blocks to a store.
#[derive(Debug)]
pub(super) struct Restorer {
    texts: Arena,
    packed: Arena,
    /// Bytes of memory that the events of an honest journal of this length stay far below.
    most: usize,
}

const LONG: &str = "a list says that it is longer than it is";

/// The length of a list, each item of which takes a byte at least.
fn length(from: &mut Unpack<'_>) -> Result<u64, String> {
    let length = from.number();
    if length <= from.0.len() as u64 { Ok(length) } else { Err(LONG.into()) }
}

impl Restorer {
    pub(super) fn new(journal_bytes: u64) -> Self {
        let most = usize::try_from(journal_bytes).unwrap_or(usize::MAX).saturating_mul(64).saturating_add(64 << 20);
        Self { texts: Arena::default(), packed: Arena::default(), most }
    }

    /// Whether the events are still in proportion to the journal.
    pub(super) fn check(&self, store: &Store) -> Result<(), String> {
        if store.bytes() <= self.most { Ok(()) } else { Err("its events take more memory than they can".into()) }
    }

    pub(super) fn block(&mut self, store: &mut Store, kind: Kind, contents: &[u8]) -> Result<(), String> {
        let item: fn(&Self, &mut Store, &mut Unpack<'_>, &mut i64) -> Result<(), String> = match kind {
            Kind::Texts => return self.texts.extend(contents),
            Kind::Packed => return self.packed.extend(contents),
            Kind::Ops => Self::op,
            Kind::Gpu => Self::gpu,
            Kind::Links => Self::link,
            Kind::Memory => Self::memory,
            Kind::Samples => Self::sample,
            Kind::Counters => Self::counter,
            Kind::Instants => Self::instant,
            Kind::Facts | Kind::Names | Kind::Categories | Kind::Anchors | Kind::Lane => return Ok(()),
        };
        let mut from = Unpack(contents);
        let mut base = 0;
        while !from.0.is_empty() {
            item(self, store, &mut from, &mut base)?;
            self.check(store)?;
        }
        Ok(())
    }

    fn text(&self, id: u64) -> Text<'_> {
        Text(self.texts.get(id))
    }

    fn packed(&self, id: impl Into<u64>) -> Unpack<'_> {
        Unpack(self.packed.get(id.into()))
    }

    fn texts_of(&self, packed: Id) -> Result<Vec<Text<'_>>, String> {
        let mut from = self.packed(packed);
        (0..length(&mut from)?).map(|_| Ok(self.text(from.number()))).collect()
    }

    fn args(&self, packed: Id) -> Result<Vec<Arg<'_>>, String> {
        let mut from = self.packed(packed);
        (0..length(&mut from)?)
            .map(|_| {
                let key = self.text(from.number());
                let value = match from.byte() {
                    pack::VALUE_INT => Value::Int(from.signed()),
                    pack::VALUE_UINT => Value::Uint(from.number()),
                    pack::VALUE_FLOAT => Value::Float(from.float()),
                    pack::VALUE_FALSE => Value::Bool(false),
                    pack::VALUE_TRUE => Value::Bool(true),
                    _ => Value::Text(self.text(from.number())),
                };
                Ok(Arg { key, value })
            })
            .collect()
    }

    fn op(&self, store: &mut Store, from: &mut Unpack<'_>, base: &mut i64) -> Result<(), String> {
        let (start_ns, end_ns) = times(from, base);
        let id = from.number();
        let [name, call_site, inputs, extra, category] = std::array::from_fn(|_| from.number());
        let thread_id = from.number();
        let kind = match from.byte() {
            1 => OpKind::UserAnnotation,
            2 => OpKind::Backward,
            _ => OpKind::Op,
        };
        let extra = match extra {
            0 => OpExtra::default(),
            extra => OpExtra::unpack(self.packed(extra).0),
        };
        let (stack, args) = (self.texts_of(extra.stack)?, self.args(extra.args)?);
        let mut op = Op {
            name: self.text(name),
            kind,
            category: self.text(category),
            start_ns,
            end_ns,
            thread_id,
            id: Some(id),
            inputs: None,
            call_site: self.text(call_site),
            gpu_ms: (!extra.gpu_ms.is_nan()).then_some(extra.gpu_ms),
            kernel_count: extra.kernel_count,
            output_bytes: extra.output_bytes,
            stack: &stack,
            args: &args,
        };
        // What the store refuses is counted there, here and below.
        if inputs == u64::from(NONE) {
            let _ = store.add_op(&op);
            return Ok(());
        }
        let mut packed = self.packed(inputs);
        let (mut ranks, mut dims) = (Vec::new(), Vec::new());
        for _ in 0..length(&mut packed)? {
            let rank = length(&mut packed)?;
            ranks.push(rank as u32);
            dims.extend((0..rank).map(|_| packed.signed()));
        }
        let (mut codes, mut names) = (Vec::new(), Vec::new());
        let kind = packed.byte();
        if kind != pack::DTYPES_NONE {
            for _ in 0..length(&mut packed)? {
                match kind {
                    pack::DTYPES_CODES => codes.push(i32::from(packed.byte())),
                    _ => names.push(self.text(packed.number())),
                }
            }
        }
        let dtypes = match kind {
            pack::DTYPES_NONE => Dtypes::None,
            pack::DTYPES_CODES => Dtypes::Codes(&codes),
            _ => Dtypes::Names(&names),
        };
        op.inputs = Some(Inputs { dims: &dims, ranks: &ranks, dtypes });
        let _ = store.add_op(&op);
        Ok(())
    }

    fn gpu(&self, store: &mut Store, from: &mut Unpack<'_>, base: &mut i64) -> Result<(), String> {
        let (start_ns, end_ns) = times(from, base);
        let [correlation, external, name, extra, callback_id] = std::array::from_fn(|_| from.number());
        let (device, stream) = (from.signed(), from.signed());
        let kind = match from.byte() {
            1 => GpuKind::Memcpy,
            2 => GpuKind::Memset,
            3 => GpuKind::Runtime,
            4 => GpuKind::Driver,
            5 => GpuKind::Overhead,
            6 => GpuKind::Sync,
            _ => GpuKind::Kernel,
        };
        let flags = from.byte();
        let int = |bits: u64, negative: u8| {
            if flags & negative != 0 { Int::Negative(bits as i64) } else { Int::Unsigned(bits) }
        };
        let extra = match extra {
            0 => GpuExtra::default(),
            extra => GpuExtra::unpack(self.packed(extra).0),
        };
        let args = self.args(extra.args)?;
        let has_external = flags & GpuRecord::HAS_EXTERNAL != 0;
        let activity = GpuActivity {
            name: self.text(name),
            kind,
            start_ns,
            end_ns,
            device: if kind.is_api() { 0 } else { device },
            stream,
            correlation_id: int(correlation, GpuRecord::NEGATIVE_CORRELATION),
            external_id: has_external.then(|| int(external, GpuRecord::NEGATIVE_EXTERNAL)),
            os_thread: if kind.is_api() { device as u64 } else { 0 },
            callback_id: callback_id as u32,
            bytes: extra.bytes,
            copy_kind: extra.copy_kind,
            value: extra.value,
            details: pack::unpack_details(self.packed(extra.details).0),
            args: &args,
        };
        let linked = flags & GpuRecord::LINKED != 0;
        let _ = if linked { store.add_collected(&activity) } else { store.add_gpu(&activity) };
        Ok(())
    }

    fn link(&self, store: &mut Store, from: &mut Unpack<'_>, _: &mut i64) -> Result<(), String> {
        store.add_link(from.number(), from.number());
        Ok(())
    }

    fn memory(&self, store: &mut Store, from: &mut Unpack<'_>, base: &mut i64) -> Result<(), String> {
        let time_ns = time(from, base);
        let (address, bytes, device) = (from.number(), from.signed(), from.signed());
        let args = self.args(from.number() as Id)?;
        let thread_id = from.number();
        let flags = from.byte();
        let event = MemoryEvent {
            time_ns,
            address,
            bytes,
            allocated: flags & 1 != 0,
            cuda_device: (flags & 2 != 0).then_some(device),
            thread_id,
            args: &args,
        };
        let _ = store.add_memory(&event);
        Ok(())
    }

    fn sample(&self, store: &mut Store, from: &mut Unpack<'_>, base: &mut i64) -> Result<(), String> {
        let time_ns = time(from, base);
        let stack = self.texts_of(from.number() as Id)?;
        let args = self.args(from.number() as Id)?;
        let _ = store.add_sample(&Sample { time_ns, os_thread: from.number(), stack: &stack, args: &args });
        Ok(())
    }

    fn counter(&self, store: &mut Store, from: &mut Unpack<'_>, base: &mut i64) -> Result<(), String> {
        let time_ns = time(from, base);
        let name = self.text(from.number());
        let values = self.args(from.number() as Id)?;
        let _ = store.add_counter(&Counter { name, time_ns, values: &values });
        Ok(())
    }

    fn instant(&self, store: &mut Store, from: &mut Unpack<'_>, base: &mut i64) -> Result<(), String> {
        let time_ns = time(from, base);
        let name = self.text(from.number());
        let args = self.args(from.number() as Id)?;
        let thread_id = from.number();
        let scope = match from.byte() {
            1 => InstantScope::Process,
            2 => InstantScope::Global,
            _ => InstantScope::Thread,
        };
        let _ = store.add_instant(&Instant { name, time_ns, thread_id, scope, args: &args });
        Ok(())
    }
}

fn time(from: &mut Unpack<'_>, base: &mut i64) -> i64 {
    *base = base.wrapping_add(from.signed());
    *base
}

fn times(from: &mut Unpack<'_>, base: &mut i64) -> (i64, i64) {
    let start = time(from, base);
    (start, start.wrapping_add(from.signed()))
}
