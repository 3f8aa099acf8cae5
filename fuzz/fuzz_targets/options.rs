//! The options of the C ABI with any numbers, sizes, flags and texts: each call answers with a status that it documents;
//! what was written is whole, and what a failed call would have replaced is as it was.
#![no_main]

use std::ffi::{c_char, c_void};
use std::fs;
use std::io::Read;
use std::mem::zeroed;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use tptrace::capi::add::tp_trace_add_op;
use tptrace::capi::collect::*;
use tptrace::capi::gpu::*;
use tptrace::capi::journal::*;
use tptrace::capi::merge::*;
use tptrace::capi::record::*;
use tptrace::capi::split::*;
use tptrace::capi::status::*;
use tptrace::capi::trace::*;
use tptrace::capi::types::*;
use tptrace::capi::write::*;

const DOCUMENTS: [&[u8]; 3] = [
    include_bytes!("../seeds/merge/torch"),
    include_bytes!("../seeds/merge/chrome"),
    include_bytes!("../seeds/merge/torn"),
];
/// What stands where a call may write.
const BEFORE: &[u8] = b"what was there before";

/// Memory that the structs point to, of the sizes that they announce and no byte more: the sanitizer sees who reads on.
#[derive(Default)]
struct Memory {
    words: Vec<Box<[u64]>>,
    bytes: Vec<Box<[u8]>>,
    texts: Vec<Box<[tp_str]>>,
    numbers: Vec<Box<[i64]>>,
}

impl Memory {
    fn text(&mut self, bytes: &[u8]) -> tp_str {
        self.bytes.push(bytes.into());
        let kept = &self.bytes[self.bytes.len() - 1];
        tp_str { ptr: kept.as_ptr().cast::<c_char>(), len: kept.len() }
    }

    fn path(&mut self, path: &Path) -> tp_str {
        self.text(path.as_os_str().as_encoded_bytes())
    }

    /// The struct behind a pointer, with another size now and then: shorter, longer with zeros or with something set, or
    /// not a size at all.
    fn sized<T: Copy>(&mut self, u: &mut Unstructured<'_>, value: T) -> Result<*mut T> {
        let known = size_of::<T>();
        let size = match u.int_in_range(0..=23)? {
            0 => u.int_in_range(0..=known)?,
            1 => known + u.int_in_range(0..=128)?,
            2 => *u.choose(&[0, 1, 7, 8, known - 8, known + 8, 1 << 16, (1 << 16) + 1, usize::MAX, 1 << 63])?,
            _ => known,
        };
        // Of a size that cannot be, only the size itself is there.
        let there = if size > 1 << 16 { 8 } else { size.max(8) };
        let mut bytes = vec![0; there];
        // SAFETY: the structs are plain numbers and pointers without padding that matters.
        let given = unsafe { std::slice::from_raw_parts((&raw const value).cast::<u8>(), known) };
        let both = known.min(there);
        bytes[..both].copy_from_slice(&given[..both]);
        if there > known && bool::arbitrary(u)? {
            bytes[u.int_in_range(known..=there - 1)?] = 1;
        }
        bytes[..8].copy_from_slice(&size.to_ne_bytes());
        let aligned: Box<[u64]> =
            bytes.chunks(8).map(|word| word.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))).collect();
        if there % 8 == 0 && !u.ratio(1, 32)? {
            self.words.push(aligned);
            let at = self.words.len() - 1;
            return Ok(self.words[at].as_mut_ptr().cast());
        }
        // Not aligned, as a packed struct has it.
        let mut moved = vec![0];
        moved.extend_from_slice(&bytes);
        self.bytes.push(moved.into_boxed_slice());
        let at = self.bytes.len() - 1;
        Ok(self.bytes[at][1..].as_mut_ptr().cast())
    }
}

/// One of the numbers that mean something, or any.
fn number(u: &mut Unstructured<'_>, most: i32) -> Result<i32> {
    if u.ratio(31, 32)? { u.int_in_range(0..=most) } else { i32::arbitrary(u) }
}

fn flags(u: &mut Unstructured<'_>, known: u32) -> Result<u32> {
    Ok(u32::arbitrary(u)? & if u.ratio(31, 32)? { known } else { u32::MAX })
}

/// Not set, mostly.
fn reserved(u: &mut Unstructured<'_>) -> Result<u32> {
    if u.ratio(1, 48)? { u32::arbitrary(u) } else { Ok(0) }
}

/// More would be slow, and are as many as the library takes.
fn threads(u: &mut Unstructured<'_>) -> Result<u32> {
    if u.ratio(1, 64)? { u32::arbitrary(u) } else { u.int_in_range(0..=3) }
}

fn time(u: &mut Unstructured<'_>) -> Result<i64> {
    if u.ratio(3, 4)? { Ok(i64::from(i32::arbitrary(u)?)) } else { i64::arbitrary(u) }
}

fn text(u: &mut Unstructured<'_>, memory: &mut Memory) -> Result<tp_str> {
    Ok(match u.int_in_range(0..=15)? {
        0 => tp_str { ptr: null(), len: usize::arbitrary(u)? },
        1 => tp_str { ptr: null(), len: 0 },
        // Refused before a byte is read.
        2 => tp_str { len: usize::MAX - usize::from(u8::arbitrary(u)?), ..memory.text(b"x") },
        3 => memory.text(b"kernel"),
        4 => memory.text(b"(a|b)*[k-n]{1,9}"),
        _ => {
            let bytes = Vec::<u8>::arbitrary(u)?;
            memory.text(&bytes)
        }
    })
}

/// Nothing, mostly.
fn texts(u: &mut Unstructured<'_>, memory: &mut Memory) -> Result<(*const tp_str, usize)> {
    if u.ratio(2, 3)? {
        return Ok((null(), if u.ratio(1, 32)? { usize::arbitrary(u)? } else { 0 }));
    }
    let all = (0..u.int_in_range(0..=2)?).map(|_| text(u, memory)).collect::<Result<Vec<_>>>()?;
    memory.texts.push(all.into_boxed_slice());
    let kept = &memory.texts[memory.texts.len() - 1];
    Ok((kept.as_ptr(), kept.len()))
}

fn numbers(u: &mut Unstructured<'_>, memory: &mut Memory) -> Result<(*const i64, usize)> {
    if u.ratio(2, 3)? {
        return Ok((null(), if u.ratio(1, 32)? { usize::arbitrary(u)? } else { 0 }));
    }
    let all = (0..u.int_in_range(0..=3)?)
        .map(|_| if bool::arbitrary(u)? { u.int_in_range(-1..=3) } else { i64::arbitrary(u) })
        .collect::<Result<Vec<_>>>()?;
    memory.numbers.push(all.into_boxed_slice());
    let kept = &memory.numbers[memory.numbers.len() - 1];
    Ok((kept.as_ptr(), kept.len()))
}

/// A path in the folder, whatever the fuzzer calls it.
fn path(u: &mut Unstructured<'_>, memory: &mut Memory, folder: &Path) -> Result<(tp_str, PathBuf)> {
    let known =
        ["out.json", "out.json.gz", "out.pftrace", "new.json", "new.json.gz", "missing/x.json", "one", "", "%p%%p%"];
    let name = if u.ratio(15, 16)? {
        (*u.choose(&known)?).to_owned()
    } else {
        // Nowhere else, and no name of another input.
        format!("x{}", String::from_utf8_lossy(<&[u8]>::arbitrary(u)?).replace(['/', '%'], "_"))
    };
    let path = folder.join(name);
    Ok((memory.path(&path), path))
}

/// Goes on, or asks to stop at the call after so many.
unsafe extern "C" fn progress(_: *const tp_progress, left: *mut c_void) -> i32 {
    // SAFETY: it is the counter of `run`.
    let left = unsafe { &mut *left.cast::<u32>() };
    *left = left.saturating_sub(1);
    i32::from(*left == 0)
}

unsafe extern "C" fn message(text: tp_str, all: *mut c_void) {
    // SAFETY: the library vouches for the text, and `all` is the list of `run`.
    unsafe {
        let bytes = std::slice::from_raw_parts(text.ptr.cast::<u8>(), text.len);
        (*all.cast::<Vec<String>>()).push(std::str::from_utf8(bytes).expect("UTF-8").to_owned());
    }
}

/// What the callbacks of one call are given.
struct Told {
    left: u32,
    messages: Vec<String>,
}

fn write_options(u: &mut Unstructured<'_>, memory: &mut Memory, told: &mut Told) -> Result<*const tp_write_options> {
    if u.ratio(1, 12)? {
        return Ok(null());
    }
    let options = tp_write_options {
        size: 0,
        flags: flags(u, TP_WRITE_FSYNC | TP_WRITE_KEEP_OVERLAPS | TP_WRITE_AS_REFERENCE)?,
        format: number(u, 2)?,
        compression: number(u, 2)?,
        level: number(u, 9)?,
        threads: threads(u)?,
        reserved: reserved(u)?,
        trace_name: text(u, memory)?,
        progress: bool::arbitrary(u)?.then_some(progress),
        progress_data: (&raw mut told.left).cast(),
    };
    Ok(memory.sized(u, options)?)
}

fn merge_options(u: &mut Unstructured<'_>, memory: &mut Memory, told: &mut Told) -> Result<*const tp_merge_options> {
    if u.ratio(1, 12)? {
        return Ok(null());
    }
    let flags = flags(u, TP_MERGE_VERBATIM | TP_MERGE_SALVAGE | TP_MERGE_FSYNC | TP_MERGE_WINDOW)?;
    let (offsets_ns, offset_count) = numbers(u, memory)?;
    let (ranks, rank_count) = numbers(u, memory)?;
    let (categories, category_count) = texts(u, memory)?;
    let (names, name_count) = texts(u, memory)?;
    let (exclude_names, exclude_name_count) = texts(u, memory)?;
    let window = flags & TP_MERGE_WINDOW != 0 || u.ratio(1, 16)?;
    let options = tp_merge_options {
        size: 0,
        flags,
        alignment: number(u, 3)?,
        offsets_ns,
        offset_count,
        compression: number(u, 2)?,
        level: number(u, 9)?,
        threads: threads(u)?,
        reserved: reserved(u)?,
        trace_name: text(u, memory)?,
        progress: bool::arbitrary(u)?.then_some(progress),
        progress_data: (&raw mut told.left).cast(),
        warn: bool::arbitrary(u)?.then_some(message),
        warn_data: (&raw mut told.messages).cast(),
        ranks,
        rank_count,
        window_start_ns: if window { time(u)? } else { 0 },
        window_end_ns: if window { time(u)? } else { 0 },
        categories,
        category_count,
        names,
        name_count,
        exclude_names,
        exclude_name_count,
        min_duration_ns: if u.ratio(3, 4)? { 0 } else { u64::arbitrary(u)? },
        max_bytes: if u.ratio(3, 4)? { 0 } else { u64::from(u16::arbitrary(u)?) },
    };
    Ok(memory.sized(u, options)?)
}

fn trace_options(u: &mut Unstructured<'_>, memory: &mut Memory, folder: &Path) -> Result<*const tp_trace_options> {
    if u.ratio(1, 12)? {
        return Ok(null());
    }
    let journal = if u.ratio(1, 8)? { path(u, memory, folder)?.0 } else { tp_str { ptr: null(), len: 0 } };
    let options = tp_trace_options {
        size: 0,
        flags: flags(u, TP_TRACE_HAS_BASE)?,
        clock: number(u, 2)?,
        base_ns: i64::arbitrary(u)?,
        process_name: text(u, memory)?,
        record_bytes: if bool::arbitrary(u)? { u64::arbitrary(u)? } else { u64::from(u16::arbitrary(u)?) },
        record_full: number(u, 1)?,
        reserved: reserved(u)? as i32,
        journal,
    };
    Ok(memory.sized(u, options)?)
}

fn libraries(u: &mut Unstructured<'_>, memory: &mut Memory, folder: &Path) -> Result<*const tp_gpu_libraries> {
    // A driver that is none is named each time: what the machine has is not started here.
    let file = |u: &mut Unstructured<'_>, memory: &mut Memory| -> Result<tp_str> {
        Ok(memory.path(&folder.join(*u.choose(&["one", "missing", "", "text"])?)))
    };
    // SAFETY: plain numbers and pointers.
    let mut given: tp_gpu_libraries = unsafe { zeroed() };
    (given.libcuda, given.libcudart, given.libcupti) = (file(u, memory)?, file(u, memory)?, file(u, memory)?);
    if bool::arbitrary(u)? {
        let paths = [file(u, memory)?, file(u, memory)?];
        memory.texts.push(Box::new(paths));
        let kept = &memory.texts[memory.texts.len() - 1];
        (given.search_paths, given.search_path_count) = (kept.as_ptr(), kept.len());
    }
    Ok(memory.sized(u, given)?)
}

/// A document, in whatever way it is stored, holds together.
fn whole(file: &Path) {
    let mut bytes = fs::read(file).expect("what was written");
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut inflated = Vec::new();
        flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut inflated).expect("gzip");
        bytes = inflated;
    }
    // A packet of Perfetto's format; JSON starts with a bracket or a brace.
    if bytes.first() != Some(&0x0a) {
        serde_json::from_slice::<serde_json::Value>(&bytes).expect("strict JSON");
    }
}

/// A call that writes to `out`: whole if it worked, and as it was if not.
fn writes(out: &Path, call: impl FnOnce() -> tp_status) -> tp_status {
    let is_file = out.extension().is_some() && out.parent().is_some_and(Path::is_dir);
    if is_file && out.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"out")) {
        fs::write(out, BEFORE).expect("written");
    }
    let before = fs::read(out).ok();
    let status = call();
    match status {
        TP_STATUS_OK => whole(out),
        _ => assert_eq!(fs::read(out).ok(), before, "status {status} left something else"),
    }
    status
}

unsafe extern "C" fn collect(bytes: *const u8, len: usize, into: *mut c_void) -> i32 {
    // SAFETY: the library vouches for the bytes, and `into` is the list of `writing`.
    let into = unsafe { &mut *into.cast::<(Vec<u8>, usize)>() };
    if into.0.len() + len > into.1 {
        return 3;
    }
    // SAFETY: as above.
    into.0.extend_from_slice(unsafe { std::slice::from_raw_parts(bytes, len) });
    0
}

/// A trace by its options, what is said of it, and where it goes.
fn trace(u: &mut Unstructured<'_>, memory: &mut Memory, folder: &Path, told: &mut Told) -> Result<()> {
    let options = trace_options(u, memory, folder)?;
    let mut trace = null_mut();
    // SAFETY: every pointer is NULL or to memory of the size announced, kept in `memory`; the handle is freed once.
    unsafe {
        let status = tp_trace_new(options, &mut trace);
        answered(status, &[TP_STATUS_INVALID_ARGUMENT, TP_STATUS_UNSUPPORTED, TP_STATUS_IO]);
        if status != TP_STATUS_OK {
            assert!(trace.is_null());
            return Ok(());
        }
        let result = (|| -> Result<()> {
            let (mut op, mut name) = (zeroed::<tp_op>(), 0);
            (op.size, op.name) = (size_of::<tp_op>(), text(u, memory)?);
            (op.start_ns, op.end_ns) = (time(u)?, time(u)?);
            let bad = [TP_STATUS_INVALID_ARGUMENT];
            answered(tp_trace_add_op(trace, &op, null_mut()), &bad);
            answered(tp_trace_set_process_name(trace, text(u, memory)?), &bad);
            answered(tp_trace_set_backend(trace, text(u, memory)?), &bad);
            answered(tp_trace_set_rank(trace, i64::arbitrary(u)?, i64::arbitrary(u)?), &[]);
            for _ in 0..u.int_in_range(0..=2)? {
                let json = match u.int_in_range(0..=3)? {
                    0 => memory.text(b"[{\"id\": 0, \"name\": \"x\"}, -1.5e-7, \"\\ud83d\\ude00\", null]"),
                    1 => memory
                        .text(&[b"[".repeat(u.int_in_range(0..=300)?), b"]".repeat(u.int_in_range(0..=300)?)].concat()),
                    _ => text(u, memory)?,
                };
                answered(tp_trace_set_metadata(trace, text(u, memory)?, json), &bad);
            }
            answered(tp_name_new(text(u, memory)?, text(u, memory)?, &mut name), &bad);
            answered(tp_category_enable(text(u, memory)?, 1), &bad);
            let full = [TP_STATUS_INVALID_ARGUMENT, TP_STATUS_LIMIT];
            answered(tp_span_begin(trace, if u.ratio(1, 8)? { u32::arbitrary(u)? } else { name }), &full);
            answered(tp_span_arg_text(trace, name, text(u, memory)?), &full);
            answered(tp_record_async(trace, name, number(u, 2)?, u64::arbitrary(u)?), &full);
            answered(tp_record_flow(trace, name, number(u, 2)?, u64::arbitrary(u)?), &full);
            answered(tp_span_end(trace), &full);
            let mut counts: tp_counts = zeroed();
            counts.record_dropped = 7;
            answered(tp_trace_counts(trace, memory.sized(u, counts)?), &bad);
            if u.ratio(1, 8)? {
                answered(
                    tp_trace_set_gpu_info(trace, libraries(u, memory, folder)?),
                    &[TP_STATUS_INVALID_ARGUMENT, TP_STATUS_UNSUPPORTED],
                );
            }
            if u.ratio(1, 8)? {
                gpu(u, memory, folder, told, trace)?;
            }
            let options = write_options(u, memory, told)?;
            if bool::arbitrary(u)? {
                let (to, out) = path(u, memory, folder)?;
                let status = writes(&out, || tp_trace_write(trace, to, options));
                answered(
                    status,
                    &[TP_STATUS_INVALID_ARGUMENT, TP_STATUS_UNSUPPORTED, TP_STATUS_IO, TP_STATUS_CANCELLED],
                );
            } else {
                let mut into =
                    (Vec::<u8>::new(), if bool::arbitrary(u)? { usize::MAX } else { usize::from(u16::arbitrary(u)?) });
                let status = tp_trace_write_to(trace, Some(collect), (&raw mut into).cast(), options);
                answered(
                    status,
                    &[TP_STATUS_INVALID_ARGUMENT, TP_STATUS_UNSUPPORTED, TP_STATUS_CALLBACK, TP_STATUS_CANCELLED],
                );
                if status == TP_STATUS_OK {
                    let file = folder.join("collected");
                    fs::write(&file, &into.0).expect("written");
                    whole(&file);
                }
            }
            Ok(())
        })();
        tp_trace_free(trace);
        result
    }
}

/// GPU work where there is no driver: what is wrong with the options comes first.
fn gpu(
    u: &mut Unstructured<'_>,
    memory: &mut Memory,
    folder: &Path,
    told: &mut Told,
    trace: *mut tp_trace,
) -> Result<()> {
    let options = tp_gpu_options {
        size: 0,
        flags: flags(u, TP_GPU_ALL_CALLS | TP_GPU_NO_WAIT)?,
        kinds: u32::arbitrary(u)?,
        buffer_bytes: if bool::arbitrary(u)? { 0 } else { u64::arbitrary(u)? },
        cap_bytes: if bool::arbitrary(u)? { 0 } else { u64::arbitrary(u)? },
        stop_timeout_ms: u32::arbitrary(u)?,
        reserved: reserved(u)?,
        libraries: libraries(u, memory, folder)?,
        warn: bool::arbitrary(u)?.then_some(message),
        warn_data: (&raw mut told.messages).cast(),
    };
    let none = [TP_STATUS_INVALID_ARGUMENT, TP_STATUS_UNSUPPORTED, TP_STATUS_GPU_UNAVAILABLE];
    // SAFETY: as in `trace`.
    unsafe {
        // With a size that leaves the libraries out, the machine's own would be looked for.
        let options = memory.sized(u, options)?;
        let size = options.cast::<usize>().read_unaligned();
        if size == size_of::<tp_gpu_options>() {
            let status = tp_gpu_start(trace, options);
            assert_ne!(status, TP_STATUS_OK, "there is no driver in that file");
            answered(status, &none);
        }
        let report: tp_gpu_report = zeroed();
        let status = tp_gpu_stop(trace, memory.sized(u, report)?, None, null_mut());
        assert_eq!(status, TP_STATUS_INVALID_ARGUMENT);
        let facts = memory.sized(u, zeroed::<tp_gpu_facts>())?;
        answered(tp_gpu_info(libraries(u, memory, folder)?, facts), &none);
    }
    Ok(())
}

fn merging(u: &mut Unstructured<'_>, memory: &mut Memory, folder: &Path, told: &mut Told) -> Result<()> {
    let mut inputs = Vec::new();
    for _ in 0..u.int_in_range(0..=3)? {
        let name = if u.ratio(1, 24)? { "missing" } else { *u.choose(&["one", "one", "two", "text"])? };
        inputs.push(memory.path(&folder.join(name)));
    }
    memory.texts.push(inputs.into_boxed_slice());
    let paths: &[tp_str] = &memory.texts[memory.texts.len() - 1];
    let (paths, count) = (paths.as_ptr(), paths.len());
    let options = merge_options(u, memory, told)?;
    let (to, out) = path(u, memory, folder)?;
    // SAFETY: as in `trace`.
    unsafe {
        let report: tp_merge_report = zeroed();
        let report = if bool::arbitrary(u)? { null_mut() } else { memory.sized(u, report)? };
        let bad = [
            TP_STATUS_INVALID_ARGUMENT,
            TP_STATUS_UNSUPPORTED,
            TP_STATUS_IO,
            TP_STATUS_MALFORMED,
            TP_STATUS_LIMIT,
            TP_STATUS_CANCELLED,
        ];
        if u.ratio(2, 3)? {
            answered(writes(&out, || tp_trace_merge(paths, count, to, options, report)), &bad);
            return Ok(());
        }
        let data = |told: &mut Told| (&raw mut told.messages).cast::<c_void>();
        told.messages.clear();
        let give: tp_message_fn = Some(message);
        for path in std::slice::from_raw_parts(paths, count) {
            answered(tp_merge_survey(*path, options, give, data(told)), &bad);
        }
        // `warn` of the options adds to the same list, and then they are no surveys.
        let surveys: Vec<tp_str> = told.messages.drain(..).map(|text| memory.text(text.as_bytes())).collect();
        let status = tp_merge_plan(surveys.as_ptr(), surveys.len(), options, give, data(told));
        answered(status, &bad);
        if status != TP_STATUS_OK {
            return Ok(());
        }
        let texts: Vec<tp_str> = told.messages.drain(..).map(|text| memory.text(text.as_bytes())).collect();
        let Some((&plan, tasks)) = texts.split_last() else { panic!("a plan is given") };
        let mut fragments = Vec::new();
        for (index, &task) in tasks.iter().enumerate().filter(|(_, task)| task.len > 0) {
            let fragment = memory.path(&folder.join(format!("fragment{index}")));
            let path = *paths.add(index.min(count - 1));
            if answered(tp_merge_fragment(path, task, fragment, options), &bad) == TP_STATUS_OK {
                fragments.push(fragment);
            }
        }
        let status = writes(&out, || tp_merge_join(plan, fragments.as_ptr(), fragments.len(), to, options, report));
        answered(status, &bad);
    }
    Ok(())
}

fn recovering(u: &mut Unstructured<'_>, memory: &mut Memory, folder: &Path, told: &mut Told) -> Result<()> {
    let journal = memory.path(&folder.join(*u.choose(&["journal", "journal", "journal", "one", "missing", ""])?));
    let options = write_options(u, memory, told)?;
    let (to, out) = path(u, memory, folder)?;
    // SAFETY: as in `trace`.
    unsafe {
        let report: tp_recover_report = zeroed();
        let report = if bool::arbitrary(u)? { null_mut() } else { memory.sized(u, report)? };
        let status = writes(&out, || tp_recover(journal, to, options, report));
        let bad =
            [TP_STATUS_INVALID_ARGUMENT, TP_STATUS_UNSUPPORTED, TP_STATUS_IO, TP_STATUS_MALFORMED, TP_STATUS_CANCELLED];
        answered(status, &bad);
    }
    Ok(())
}

/// A status that the call may answer; and a failure has a message.
fn answered(status: tp_status, allowed: &[tp_status]) -> tp_status {
    let mut said = [0u8; 256];
    // SAFETY: the buffer has that room.
    let length = unsafe { tp_last_error_message(said.as_mut_ptr().cast(), said.len()) };
    let said = String::from_utf8_lossy(&said[..length.min(255)]);
    assert!(status == TP_STATUS_OK || allowed.contains(&status), "status {status}: {said}");
    assert!(status == TP_STATUS_OK || matches!(status, TP_STATUS_LIMIT) || length > 0 || allowed.len() == 2);
    status
}

/// A journal as a killed process leaves it, made once.
fn journal() -> &'static [u8] {
    static MADE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("scratch");
        let trace = tptrace::Trace::default();
        let path = folder.path().join("journal");
        trace.start_journal(path.clone()).expect("a journal");
        for start_ns in 0..3 {
            let op = tptrace::Op { name: "op".into(), start_ns, end_ns: start_ns + 5, ..tptrace::Op::default() };
            trace.add_op(&op).expect("added");
        }
        trace.sync_journal().expect("synced");
        fs::read(path).expect("it is there")
    })
}

fuzz_target!(|data: &[u8]| {
    let journal = journal();
    let shm = Path::new("/dev/shm");
    let folder = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("scratch");
    let inputs = [("one", DOCUMENTS[0]), ("two", DOCUMENTS[1]), ("text", DOCUMENTS[2]), ("journal", journal)];
    for (name, content) in inputs {
        fs::write(folder.path().join(name), content).expect("written");
    }
    let (u, mut memory) = (&mut Unstructured::new(data), Memory::default());
    while !u.is_empty() {
        let mut told = Told { left: u32::from(u8::arbitrary(u).unwrap_or(0)), messages: Vec::new() };
        let done = match u.int_in_range(0..=3) {
            Ok(0 | 1) => trace(u, &mut memory, folder.path(), &mut told),
            Ok(2) => merging(u, &mut memory, folder.path(), &mut told),
            _ => recovering(u, &mut memory, folder.path(), &mut told),
        };
        if done.is_err() {
            break;
        }
    }
    for (name, content) in inputs {
        // Unless a call was told to write there.
        if name != "one" {
            assert_eq!(fs::read(folder.path().join(name)).expect("it is there"), content, "{name}");
        }
    }
    let left = fs::read_dir(folder.path()).expect("the folder");
    for entry in left {
        let name = entry.expect("an entry").file_name();
        assert!(!name.as_encoded_bytes().starts_with(b"."), "{name:?} is left");
    }
});
