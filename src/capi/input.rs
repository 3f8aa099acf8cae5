//! The only readers of callers' memory.

use std::ffi::OsStr;
use std::mem::{MaybeUninit, size_of};
use std::path::Path;
use std::slice;

use super::collect::{tp_gpu_options, tp_gpu_report};
use super::gpu::{tp_gpu_facts, tp_gpu_libraries};
use super::journal::tp_recover_report;
use super::merge::{tp_merge_options, tp_merge_report};
use super::status::{Failure, TP_STATUS_UNSUPPORTED};
use super::types::*;
use crate::Text;
use crate::model::intern::MAX_LEN;

type Answer<T> = Result<T, Failure>;

/// A struct that starts with its size, all of whose members may be zero.
///
/// # Safety
/// The type is `repr(C)`, starts with a `usize`, and all-zero bytes are a value of it.
pub(crate) unsafe trait Sized0: Copy {
    const NAME: &'static str;
    /// The size of its first published version: no caller can have a smaller one.
    const FIRST: usize;
}

macro_rules! sized {
    ($($name:ident = $first:expr),* $(,)?) => {$(
        // SAFETY: repr(C) structs of integers, floats, nullable pointers and texts, with `size` first.
        unsafe impl Sized0 for $name {
            const NAME: &'static str = stringify!($name);
            const FIRST: usize = $first;
        }
        const _: () = assert!(size_of::<$name>() >= $first);
        const _: () = assert!(size_of::<$name>() % 8 == 0);
    )*};
}

sized! {
    tp_trace_options = 40,
    tp_op = 184,
    tp_gpu_activity = 168,
    tp_memory_event = 64,
    tp_sample = 56,
    tp_counter = 48,
    tp_instant = 64,
    tp_write_options = 64,
    tp_counts = 112,
    tp_merge_options = 96,
    tp_merge_report = 72,
    tp_gpu_libraries = 72,
    tp_gpu_facts = 32,
    tp_gpu_options = 64,
    tp_gpu_report = 216,
    tp_recover_report = 40,
}

/// Copies a caller's struct into a zeroed one of this version: older callers leave the new members zero, newer ones
/// must leave zero what this version does not know.
///
/// # Safety
/// `from` is NULL or points to as many readable bytes as its first member says.
#[inline]
pub(crate) unsafe fn sized<T: Sized0>(from: *const T) -> Answer<T> {
    if from.is_null() {
        return Err(Failure::invalid(format!("{} is NULL", T::NAME)));
    }
    // SAFETY: the struct starts with its size; it may be unaligned.
    let size = unsafe { from.cast::<usize>().read_unaligned() };
    if size == size_of::<T>() {
        // SAFETY: the caller vouches for `size` bytes.
        return Ok(unsafe { from.read_unaligned() });
    }
    // SAFETY: as above.
    unsafe { other_size(from, size) }
}

/// As [`sized`], but where nothing stands against it without a copy: the structs of hot calls are large.
///
/// # Safety
/// As [`sized`], and the struct stays unchanged during the call.
#[inline]
pub(crate) unsafe fn sized_ref<T: Sized0>(from: *const T, copy: &mut MaybeUninit<T>) -> Answer<&T> {
    if !from.is_null() && from.is_aligned() {
        // SAFETY: the struct starts with its size.
        let size = unsafe { from.cast::<usize>().read() };
        if size == size_of::<T>() {
            // SAFETY: aligned, and the caller vouches for `size` bytes.
            return Ok(unsafe { &*from });
        }
    }
    // SAFETY: as above.
    Ok(copy.write(unsafe { sized(from) }?))
}

#[cold]
unsafe fn other_size<T: Sized0>(from: *const T, size: usize) -> Answer<T> {
    if size < T::FIRST || size > 1 << 16 {
        return Err(Failure::invalid(format!(
            "{name}.size is {size}: set it to sizeof({name}), which is {} here",
            size_of::<T>(),
            name = T::NAME
        )));
    }
    // SAFETY: the caller vouches for `size` bytes.
    let bytes = unsafe { slice::from_raw_parts(from.cast::<u8>(), size) };
    if bytes.get(size_of::<T>()..).is_some_and(|unknown| unknown.iter().any(|&byte| byte != 0)) {
        return Err(Failure::new(
            TP_STATUS_UNSUPPORTED,
            format!("{}: a member that this version ({}) does not know is set", T::NAME, env!("CARGO_PKG_VERSION")),
        ));
    }
    let mut local = MaybeUninit::<T>::zeroed();
    let known = size.min(size_of::<T>());
    // SAFETY: `known` bytes fit both sides; all-zero bytes are a value of T (Sized0), and so is this prefix.
    unsafe {
        local.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(bytes.as_ptr(), known);
        Ok(local.assume_init())
    }
}

/// Checks the size that a caller set in a struct for results.
///
/// # Safety
/// `out` points to a struct that starts with its size.
pub(crate) unsafe fn check_out<T: Sized0>(out: *mut T) -> Answer<usize> {
    if out.is_null() {
        return Err(Failure::invalid("out is NULL"));
    }
    // SAFETY: the struct starts with its size; it may be unaligned.
    let size = unsafe { out.cast::<usize>().read_unaligned() };
    if size < T::FIRST || size > 1 << 16 {
        return Err(Failure::invalid(format!("{name}.size is {size}: set it to sizeof({name})", name = T::NAME)));
    }
    Ok(size)
}

/// Writes as much of a result as the caller's struct has room for; what it has beyond ours becomes zero. Its size stays.
///
/// # Safety
/// [`check_out`] has approved of `out`.
pub(crate) unsafe fn write_out<T: Sized0>(out: *mut T, told: T) {
    // SAFETY: the caller vouches for as many bytes as the size says, which is at most 64 KiB.
    unsafe {
        let size = out.cast::<usize>().read_unaligned();
        out.cast::<u8>().write_bytes(0, size);
        out.cast::<u8>().copy_from_nonoverlapping((&raw const told).cast(), size.min(size_of::<T>()));
        out.cast::<usize>().write_unaligned(size);
    }
}

/// A caller's array.
///
/// # Safety
/// `from` is NULL or points to `count` readable elements that stay unchanged during the call.
#[inline]
pub(crate) unsafe fn array<'a, T>(what: &str, from: *const T, count: usize) -> Answer<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if from.is_null() {
        return Err(Failure::invalid(format!("{what} is NULL, but {count} elements are announced")));
    }
    if !from.is_aligned() || count > isize::MAX as usize / size_of::<T>() {
        return Err(Failure::invalid(format!("{what} cannot be an array of {count} elements at {from:p}")));
    }
    // SAFETY: not NULL, aligned, of a possible size; the caller vouches for the elements.
    Ok(unsafe { slice::from_raw_parts(from, count) })
}

/// The address of element `index` of an array whose elements are `stride` bytes apart.
#[inline]
pub(crate) fn element<T>(from: *const T, index: usize, stride: usize) -> *const T {
    from.wrapping_byte_add(index.wrapping_mul(stride))
}

/// A caller's text.
///
/// # Safety
/// `text.ptr` is NULL or points to `text.len` readable bytes that stay unchanged during the call.
#[inline]
pub(crate) unsafe fn text<'a>(what: &str, text: tp_str) -> Answer<Text<'a>> {
    if text.len > MAX_LEN {
        // Before a byte is read: such a length is a mistake more often than a text.
        return Err(Failure::invalid(format!("{what} has {} bytes; a text may have 1 GiB", text.len)));
    }
    // SAFETY: the caller vouches for the bytes.
    unsafe { array(what, text.ptr.cast::<u8>(), text.len) }.map(Text)
}

/// A caller's text that must be UTF-8; bad bytes are replaced.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn owned(what: &str, from: tp_str) -> Answer<String> {
    // SAFETY: the caller vouches for the bytes.
    let text = unsafe { self::text(what, from) }?;
    Ok(String::from_utf8_lossy(text.0).into_owned())
}

/// A caller's list of such texts.
///
/// # Safety
/// As [`array`] and [`text`].
pub(crate) unsafe fn owned_texts(what: &str, from: *const tp_str, count: usize) -> Answer<Vec<String>> {
    // SAFETY: the caller vouches for array and texts.
    unsafe { array(what, from, count)?.iter().map(|&one| owned(what, one)).collect() }
}

/// A caller's path, byte for byte.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn path<'a>(what: &str, from: tp_str) -> Answer<&'a Path> {
    // SAFETY: the caller vouches for the bytes.
    let bytes = unsafe { text(what, from) }?.0;
    if bytes.is_empty() {
        return Err(Failure::invalid(format!("{what} is empty")));
    }
    if bytes.contains(&0) {
        return Err(Failure::invalid(format!("{what} contains a NUL byte")));
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Ok(Path::new(OsStr::from_bytes(bytes)))
    }
    #[cfg(not(unix))]
    {
        let text = std::str::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{what} is not UTF-8")))?;
        Ok(Path::new(OsStr::new(text)))
    }
}

/// A caller's list of texts, into `out`.
///
/// # Safety
/// As [`array`] and [`text`].
pub(crate) unsafe fn texts<'a>(what: &str, from: *const tp_str, count: usize) -> Answer<Vec<Text<'a>>> {
    // SAFETY: the caller vouches for array and texts.
    unsafe { array(what, from, count)?.iter().map(|&one| text(what, one)).collect() }
}

/// A caller's free arguments.
///
/// # Safety
/// As [`array`] and [`text`].
pub(crate) unsafe fn args<'a>(from: *const tp_arg, count: usize) -> Answer<Vec<crate::Arg<'a>>> {
    use super::types::{TP_ARG_BOOL, TP_ARG_FLOAT, TP_ARG_INT, TP_ARG_TEXT, TP_ARG_UINT};
    use crate::Value;
    // SAFETY: the caller vouches for array and texts.
    let all = unsafe { array("args", from, count) }?;
    all.iter()
        .map(|arg| {
            // SAFETY: as above.
            let key = unsafe { text("an argument's key", arg.key) }?;
            let value = match arg.kind {
                TP_ARG_INT => Value::Int(arg.integer),
                TP_ARG_UINT => Value::Uint(arg.integer as u64),
                TP_ARG_FLOAT => Value::Float(arg.number),
                TP_ARG_BOOL => Value::Bool(arg.integer != 0),
                // SAFETY: as above.
                TP_ARG_TEXT => Value::Text(unsafe { text("an argument's text", arg.text) }?),
                other => {
                    return Err(Failure::invalid(format!(
                        "argument {:?}: kind {other} is not a TP_ARG_ number",
                        String::from_utf8_lossy(key.0)
                    )));
                }
            };
            Ok(crate::Arg { key, value })
        })
        .collect()
}
