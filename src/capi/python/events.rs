//! The tuples that TensorPlay's profiler collects, field by field.

use std::ops::Range;

use super::api::Object;
use super::batch::{Gather, Items, Keep, RawText, as_tuple};
use super::value::{self, Answer, bad, bits, float, int, signed, small, truth};
use crate::capi::status::Failure;
use crate::model::store::Store;
use crate::{Dtypes, GpuActivity, GpuKind, Inputs, Int, MemoryEvent, Op, OpKind, Sample, Text};

/// A code that has no name.
const NO_DTYPE: i32 = -1;
/// TensorPlay's mark for "no external id".
const NO_EXTERNAL_ID: u64 = u64::MAX;

/// The event's fields, which must be as many as `names`.
#[inline]
fn fields<'a, const N: usize>(event: Items<'a>) -> Answer<[Object<'a>; N]> {
    let wrong = || bad(format!("it has {} fields, not {N}", event.len()));
    if event.len() != N {
        return wrong();
    }
    let Some(first) = event.get(0) else { return wrong() };
    let mut fields = [first; N];
    for (index, field) in fields.iter_mut().enumerate().skip(1) {
        let Some(object) = event.get(index) else { return wrong() };
        *field = object;
    }
    Ok(fields)
}

struct GatheredOp {
    name: RawText,
    kind: OpKind,
    start_ns: i64,
    end_ns: i64,
    thread_id: u64,
    id: u64,
    inputs: Option<GatheredInputs>,
    call_site: RawText,
    gpu_ms: Option<f64>,
    kernel_count: i64,
    output_bytes: i64,
    stack: Range<usize>,
}

/// Ranges of the arenas of [`Ops`].
struct GatheredInputs {
    dims: Range<usize>,
    ranks: Range<usize>,
    dtypes: GatheredDtypes,
}

enum GatheredDtypes {
    None,
    Codes(Range<usize>),
    Names(Range<usize>),
}

/// Gathers ops.
pub(super) struct Ops {
    first_id: u64,
    keep: Keep,
    ops: Vec<GatheredOp>,
    dims: Vec<i64>,
    ranks: Vec<u32>,
    codes: Vec<i32>,
    texts: Vec<RawText>,
}

impl Ops {
    pub(super) fn new(first_id: u64) -> Self {
        let (ops, dims, ranks, codes) = Default::default();
        Self { first_id, keep: Keep::default(), ops, dims, ranks, codes, texts: Vec::new() }
    }

    /// `shapes` and `dtypes`: an iterable of iterables of integers, and one of codes or names.
    fn inputs(&mut self, shapes: Object<'_>, dtypes: Option<Object<'_>>) -> Answer<GatheredInputs> {
        let (dims, ranks) = (self.dims.len(), self.ranks.len());
        each("shapes", "a list of shapes", shapes, |input, shape| {
            let before = self.dims.len();
            let field = || format!("shapes[{input}]");
            let mut dim = |index: usize, number: Object<'_>| {
                if number.is_int() {
                    self.dims.push(signed("a dimension in shapes", number)?);
                } else {
                    self.dims.push(signed(&format!("shapes[{input}][{index}]"), number)?);
                }
                Ok(())
            };
            match Items::of(shape) {
                Some(items) => items.each(&mut dim)?,
                None => {
                    let tuple = as_tuple(&field(), "a shape", shape)?;
                    each("shapes", "a shape", tuple.object(), &mut dim)?;
                }
            }
            let Ok(rank) = u32::try_from(self.dims.len() - before) else { return bad(field() + " is too long") };
            self.ranks.push(rank);
            Ok(())
        })?;
        let dtypes = match dtypes {
            Some(dtypes) if !dtypes.is_none() => self.dtypes(dtypes)?,
            _ => GatheredDtypes::None,
        };
        Ok(GatheredInputs { dims: dims..self.dims.len(), ranks: ranks..self.ranks.len(), dtypes })
    }

    fn dtypes(&mut self, dtypes: Object<'_>) -> Answer<GatheredDtypes> {
        let codes = self.codes.len();
        let mut all_codes = true;
        each("dtypes", "a list of element types", dtypes, |_, dtype| {
            all_codes &= dtype.is_int();
            if all_codes {
                self.codes.push(match int("a dtype", dtype)? {
                    Int::Unsigned(code) => i32::try_from(code).unwrap_or(NO_DTYPE),
                    Int::Negative(_) => NO_DTYPE,
                });
            }
            Ok(())
        })?;
        if all_codes {
            return Ok(GatheredDtypes::Codes(codes..self.codes.len()));
        }
        self.codes.truncate(codes);
        let mut names = Vec::new();
        each("dtypes", "a list of element types", dtypes, |_, dtype| {
            let name = if dtype.is_str() {
                self.keep.nested("a dtype", dtype)?
            } else if dtype.is_int() {
                let code = signed("a dtype", dtype).unwrap_or(-1);
                self.keep.string(crate::dtype_name(code).to_owned())
            } else {
                // An enum, shown as DType.float32.
                let shown = self.keep.shown(dtype)?;
                let name = shown.rsplit('.').next().unwrap_or_default().to_owned();
                self.keep.string(name)
            };
            names.push(name);
            Ok(())
        })?;
        let start = self.texts.len();
        self.texts.extend(names);
        Ok(GatheredDtypes::Names(start..self.texts.len()))
    }

    /// Frames: strings, or whatever shows itself as one.
    fn stack(&mut self, stack: Object<'_>) -> Answer<Range<usize>> {
        let start = self.texts.len();
        if !truth(stack)? {
            return Ok(start..start);
        }
        match Items::of(stack) {
            Some(items) => items.each(|_, frame| {
                let text = if frame.is_str() {
                    self.keep.nested("a frame of the stack", frame)?
                } else {
                    let shown = self.keep.shown(frame)?;
                    self.keep.string(shown)
                };
                self.texts.push(text);
                Ok(())
            })?,
            None => {
                let shown = self.keep.shown(stack)?;
                let text = self.keep.string(shown);
                self.texts.push(text);
            }
        }
        Ok(start..self.texts.len())
    }
}

/// Calls `visit` for each element of a list, a tuple, or anything that can be made one.
fn each(
    field: &str,
    wanted: &str,
    object: Object<'_>,
    visit: impl FnMut(usize, Object<'_>) -> Answer<()>,
) -> Answer<()> {
    match Items::of(object) {
        Some(items) => items.each(visit),
        None => {
            let tuple = as_tuple(field, wanted, object)?;
            match Items::of(tuple.object()) {
                Some(items) => items.each(visit),
                None => value::wrong(field, wanted, object),
            }
        }
    }
}

impl Gather for Ops {
    const WHAT: &'static str = "event";

    fn len(&self) -> usize {
        self.ops.len()
    }

    fn take(&mut self, index: usize, item: Object<'_>) -> Answer<()> {
        let event = self.keep.event(item)?;
        if event.len() < 5 {
            return Ok(());
        }
        let [Some(name), Some(kind), Some(start), Some(end), Some(thread)] = [0, 1, 2, 3, 4].map(|at| event.get(at))
        else {
            return Ok(());
        };
        let later = |at: usize| event.get(at).filter(|object| !object.is_none());
        let name = self.keep.field("name", name)?;
        let kind = match kind.is_str().then(|| value::text("kind", kind)) {
            Some(Ok(Ok(b"u"))) => OpKind::UserAnnotation,
            Some(Ok(Ok(b"b"))) => OpKind::Backward,
            _ => OpKind::Op,
        };
        let inputs = match later(5) {
            Some(shapes) => Some(self.inputs(shapes, later(6))?),
            None => None,
        };
        let call_site = match later(7) {
            Some(site) if site.is_str() || truth(site)? => self.keep.field("call_site", site)?,
            _ => RawText::EMPTY,
        };
        let stack = match later(10) {
            Some(stack) => self.stack(stack)?,
            None => 0..0,
        };
        let op = GatheredOp {
            name,
            kind,
            start_ns: signed("start_ns", start)?,
            end_ns: signed("end_ns", end)?,
            thread_id: bits("thread_id", thread)?,
            id: self.first_id.wrapping_add(index as u64),
            inputs,
            call_site,
            gpu_ms: later(8).map(|ms| float("gpu_ms", ms)).transpose()?,
            kernel_count: later(11).map_or(Ok(0), |count| signed("kernel_count", count))?,
            output_bytes: later(9).map_or(Ok(0), |bytes| signed("output_bytes", bytes))?,
            stack,
        };
        self.ops.push(op);
        Ok(())
    }

    fn add(&mut self, store: &mut Store) -> Result<(), Failure> {
        let mut names: Vec<Text<'_>> = Vec::new();
        let mut stack: Vec<Text<'_>> = Vec::new();
        for op in &self.ops {
            // SAFETY: all texts of the batch are in `keep`, which `clear` clears.
            let texts = |range: &Range<usize>| self.texts[range.clone()].iter().map(|text| unsafe { text.get() });
            stack.clear();
            stack.extend(texts(&op.stack));
            let inputs = match &op.inputs {
                None => None,
                Some(inputs) => {
                    let dtypes = match &inputs.dtypes {
                        GatheredDtypes::None => Dtypes::None,
                        GatheredDtypes::Codes(range) => Dtypes::Codes(&self.codes[range.clone()]),
                        GatheredDtypes::Names(range) => {
                            names.clear();
                            names.extend(texts(range));
                            Dtypes::Names(&names)
                        }
                    };
                    let (dims, ranks) = (&self.dims[inputs.dims.clone()], &self.ranks[inputs.ranks.clone()]);
                    Some(Inputs { dims, ranks, dtypes })
                }
            };
            // SAFETY: as above.
            let (name, call_site) = unsafe { (op.name.get(), op.call_site.get()) };
            store.add_op(&Op {
                name,
                kind: op.kind,
                category: crate::Text::default(),
                start_ns: op.start_ns,
                end_ns: op.end_ns,
                thread_id: op.thread_id,
                id: Some(op.id),
                inputs,
                call_site,
                gpu_ms: op.gpu_ms,
                kernel_count: op.kernel_count,
                output_bytes: op.output_bytes,
                stack: &stack,
                args: &[],
            })?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.ops.clear();
        self.dims.clear();
        self.ranks.clear();
        self.codes.clear();
        self.texts.clear();
        self.keep.clear();
    }
}

/// Gathers GPU activities.
#[derive(Default)]
pub(super) struct Gpus {
    keep: Keep,
    names: Vec<RawText>,
    activities: Vec<GpuActivity<'static>>,
}

impl Gather for Gpus {
    const WHAT: &'static str = "GPU activity";

    fn len(&self) -> usize {
        self.activities.len()
    }

    fn take(&mut self, _: usize, item: Object<'_>) -> Answer<()> {
        let event = self.keep.event(item)?;
        let [
            name,
            kind,
            start,
            end,
            device,
            stream,
            correlation,
            external,
            os_thread,
            callback,
            bytes,
            copy_kind,
            value,
        ] = fields(event)?;
        let name = self.keep.field("name", name)?;
        let kind = match kind.is_str().then(|| value::text("kind", kind)) {
            Some(Ok(Ok(b"m"))) => GpuKind::Memcpy,
            Some(Ok(Ok(b"s"))) => GpuKind::Memset,
            Some(Ok(Ok(b"r"))) => GpuKind::Runtime,
            Some(Ok(Ok(b"d"))) => GpuKind::Driver,
            _ => GpuKind::Kernel,
        };
        let external_id = match external.is_none() {
            true => None,
            false => Some(int("external_id", external)?).filter(|&id| id != Int::Unsigned(NO_EXTERNAL_ID)),
        };
        // A call has no stream, and a kernel no thread: what stands there is not looked at.
        let activity = GpuActivity {
            kind,
            start_ns: signed("start_ns", start)?,
            end_ns: signed("end_ns", end)?,
            device: if kind.is_api() { 0 } else { signed("device", device)? },
            stream: if kind.is_api() { 0 } else { signed("stream", stream)? },
            correlation_id: int("correlation_id", correlation)?,
            external_id,
            os_thread: if kind.is_api() { bits("os_thread", os_thread)? } else { 0 },
            callback_id: small("callback_id", callback)?,
            bytes: if bytes.is_none() { Int::default() } else { int("bytes", bytes)? },
            copy_kind: if kind == GpuKind::Memcpy { signed("copy_kind", copy_kind)? } else { 0 },
            value: small("value", value)?,
            ..GpuActivity::default()
        };
        self.names.push(name);
        self.activities.push(activity);
        Ok(())
    }

    fn add(&mut self, store: &mut Store) -> Result<(), Failure> {
        for (activity, name) in self.activities.iter().zip(&self.names) {
            // SAFETY: all texts of the batch are in `keep`, which `clear` clears.
            let name = unsafe { name.get() };
            store.add_gpu(&GpuActivity { name, ..*activity })?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.activities.clear();
        self.names.clear();
        self.keep.clear();
    }
}

/// Gathers memory events.
#[derive(Default)]
pub(super) struct Memories {
    keep: Keep,
    events: Vec<MemoryEvent<'static>>,
}

impl Gather for Memories {
    const WHAT: &'static str = "memory event";

    fn len(&self) -> usize {
        self.events.len()
    }

    fn take(&mut self, _: usize, item: Object<'_>) -> Answer<()> {
        let event = self.keep.event(item)?;
        let [time, address, bytes, allocated, is_cuda, device, _stream, thread] = fields(event)?;
        let cuda_device = if truth(is_cuda)? { Some(signed("device", device)?) } else { None };
        self.events.push(MemoryEvent {
            time_ns: signed("time_ns", time)?,
            address: if address.is_none() { 0 } else { bits("address", address)? },
            bytes: signed("bytes", bytes)?,
            allocated: truth(allocated)?,
            cuda_device,
            thread_id: bits("thread_id", thread)?,
            args: &[],
        });
        Ok(())
    }

    fn add(&mut self, store: &mut Store) -> Result<(), Failure> {
        for event in &self.events {
            store.add_memory(event)?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.events.clear();
        self.keep.clear();
    }
}

/// Gathers stack samples.
#[derive(Default)]
pub(super) struct Samples {
    keep: Keep,
    texts: Vec<RawText>,
    samples: Vec<(i64, u64, Range<usize>)>,
}

impl Gather for Samples {
    const WHAT: &'static str = "sample";

    fn len(&self) -> usize {
        self.samples.len()
    }

    fn take(&mut self, _: usize, item: Object<'_>) -> Answer<()> {
        let event = self.keep.event(item)?;
        let [time, thread, stack] = fields(event)?;
        let start = self.texts.len();
        if truth(stack)? {
            let Some(items) = Items::of(stack) else { return value::wrong("stack", "a list of frames", stack) };
            items.each(|index, frame| {
                if frame.is_str() {
                    self.texts.push(self.keep.nested("a frame of the stack", frame)?);
                    return Ok(());
                }
                value::wrong(&format!("stack[{index}]"), "a str", frame)
            })?;
        }
        let sample = (signed("time_ns", time)?, bits("os_thread", thread)?, start..self.texts.len());
        self.samples.push(sample);
        Ok(())
    }

    fn add(&mut self, store: &mut Store) -> Result<(), Failure> {
        let mut stack: Vec<Text<'_>> = Vec::new();
        for (time_ns, os_thread, range) in &self.samples {
            stack.clear();
            // SAFETY: all texts of the batch are in `keep`, which `clear` clears.
            stack.extend(self.texts[range.clone()].iter().map(|text| unsafe { text.get() }));
            store.add_sample(&Sample { time_ns: *time_ns, os_thread: *os_thread, stack: &stack, args: &[] })?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.samples.clear();
        self.texts.clear();
        self.keep.clear();
    }
}
