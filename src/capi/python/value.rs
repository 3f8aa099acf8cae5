//! Python values as Rust ones. What is not of the expected type says so in words.

use std::ffi::c_char;
use std::ptr::null_mut;

use super::api::{Object, Owned};
use crate::Int;

/// Why an event could not be read.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The message, without the event's place.
    Bad(String),
    /// Python has an exception set: code of the caller's raised it.
    Raised,
}

pub(super) type Answer<T> = Result<T, Trouble>;

#[cold]
pub(super) fn bad<T>(message: impl Into<String>) -> Answer<T> {
    Err(Trouble::Bad(message.into()))
}

/// "FIELD must be WANTED, not TYPE".
#[cold]
pub(super) fn wrong<T>(field: &str, wanted: &str, object: Object<'_>) -> Answer<T> {
    bad(format!("{field} must be {wanted}, not {}", type_name(object)))
}

fn type_name(object: Object<'_>) -> String {
    let api = object.api;
    let functions = &api.functions;
    // SAFETY: live objects under the GIL; each new reference goes into an Owned.
    unsafe {
        let name = Owned::new(api, (functions.PyObject_Type)(object.pointer())).and_then(|kind| {
            Owned::new(api, (functions.PyObject_GetAttrString)(kind.object().pointer(), c"__name__".as_ptr()))
        });
        let text =
            name.as_ref().and_then(|name| utf8(name.object())).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        (functions.PyErr_Clear)();
        text.unwrap_or_else(|| "an object".to_owned())
    }
}

/// An exception set by an attempt is the caller's if its code raised it; a TypeError of CPython's own conversion says
/// less than our words, so it is cleared.
#[cold]
fn refused<T>(field: &str, wanted: &str, object: Object<'_>) -> Answer<T> {
    // SAFETY: under the GIL.
    unsafe { (object.api.functions.PyErr_Clear)() };
    wrong(field, wanted, object)
}

/// The bytes of a str that has a UTF-8 form; they live as long as it does. Otherwise an exception is set.
#[inline]
fn utf8(object: Object<'_>) -> Option<&[u8]> {
    let mut len = 0;
    // SAFETY: a live str under the GIL; CPython keeps the bytes in it.
    unsafe {
        let bytes = (object.api.functions.PyUnicode_AsUTF8AndSize)(object.pointer(), &mut len);
        (!bytes.is_null()).then(|| std::slice::from_raw_parts(bytes.cast::<u8>(), len as usize))
    }
}

/// A text: in place where it has a UTF-8 form, else repaired into `spare`.
#[inline]
pub(super) fn text<'a>(field: &str, object: Object<'a>) -> Answer<Result<&'a [u8], String>> {
    if !object.is_str() {
        return wrong(field, "a str", object);
    }
    match utf8(object) {
        Some(bytes) => Ok(Ok(bytes)),
        None => surrogates(field, object).map(Err),
    }
}

/// A str with lone surrogates: each becomes U+FFFD, and pairs of them their character.
#[cold]
fn surrogates(field: &str, object: Object<'_>) -> Answer<String> {
    let api = object.api;
    let functions = &api.functions;
    // SAFETY: live objects under the GIL; the bytes are copied before their owner goes.
    unsafe {
        (functions.PyErr_Clear)();
        let encoded =
            (functions.PyUnicode_AsEncodedString)(object.pointer(), c"utf-16-le".as_ptr(), c"surrogatepass".as_ptr());
        let Some(encoded) = Owned::new(api, encoded) else { return refused(field, "text", object) };
        let (mut bytes, mut len): (*mut c_char, isize) = (null_mut(), 0);
        if (functions.PyBytes_AsStringAndSize)(encoded.object().pointer(), &mut bytes, &mut len) != 0 {
            return refused(field, "text", object);
        }
        let bytes = std::slice::from_raw_parts(bytes.cast::<u8>(), len as usize);
        let units = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        Ok(char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect())
    }
}

/// An integer between -2^63 and 2^64 - 1.
#[inline]
pub(super) fn int(field: &str, object: Object<'_>) -> Answer<Int> {
    if !object.is_int() {
        return indexed(field, object);
    }
    let mut overflow = 0;
    // SAFETY: a live int under the GIL.
    let value = unsafe { (object.api.functions.PyLong_AsLongLongAndOverflow)(object.pointer(), &mut overflow) };
    if overflow == 0 { Ok(Int::from(value)) } else { large(field, object) }
}

#[cold]
fn large(field: &str, object: Object<'_>) -> Answer<Int> {
    let functions = &object.api.functions;
    // SAFETY: a live int under the GIL.
    unsafe {
        let value = (functions.PyLong_AsUnsignedLongLong)(object.pointer());
        if value == u64::MAX && !(functions.PyErr_Occurred)().is_null() {
            (functions.PyErr_Clear)();
            return bad(format!("{field} does not fit 64 bits"));
        }
        Ok(Int::Unsigned(value))
    }
}

/// What is no int but can be one: NumPy's integers.
#[cold]
fn indexed(field: &str, object: Object<'_>) -> Answer<Int> {
    let api = object.api;
    // SAFETY: a live object under the GIL; the result is a new reference.
    match unsafe { Owned::new(api, (api.functions.PyNumber_Index)(object.pointer())) } {
        Some(number) if number.object().is_int() => int(field, number.object()),
        Some(_) => wrong(field, "an integer", object),
        None if !api.type_error_is_set() => Err(Trouble::Raised),
        None => refused(field, "an integer", object),
    }
}

/// An integer that fits i64.
#[inline]
pub(super) fn signed(field: &str, object: Object<'_>) -> Answer<i64> {
    match int(field, object)? {
        Int::Negative(value) => Ok(value),
        Int::Unsigned(value) => match i64::try_from(value) {
            Ok(value) => Ok(value),
            Err(_) => bad(format!("{field} is {value}, more than 2^63 - 1")),
        },
    }
}

/// An integer as the 64 bits that name something.
#[inline]
pub(super) fn bits(field: &str, object: Object<'_>) -> Answer<u64> {
    Ok(match int(field, object)? {
        Int::Unsigned(value) => value,
        Int::Negative(value) => value as u64,
    })
}

/// An integer that a u32 field holds; what does not fit is 0, as for a field that the document does not show.
#[inline]
pub(super) fn small(field: &str, object: Object<'_>) -> Answer<u32> {
    if object.is_none() {
        return Ok(0);
    }
    Ok(match int(field, object)? {
        Int::Unsigned(value) => u32::try_from(value).unwrap_or(0),
        Int::Negative(_) => 0,
    })
}

/// A float, or what can be one.
#[inline]
pub(super) fn float(field: &str, object: Object<'_>) -> Answer<f64> {
    let functions = &object.api.functions;
    // SAFETY: a live object under the GIL.
    let value = unsafe { (functions.PyFloat_AsDouble)(object.pointer()) };
    // SAFETY: under the GIL.
    if value == -1.0 && unsafe { !(functions.PyErr_Occurred)().is_null() } {
        let ours = object.api.type_error_is_set();
        return if ours { refused(field, "a number", object) } else { Err(Trouble::Raised) };
    }
    Ok(value)
}

/// Python's truth of a value.
#[inline]
pub(super) fn truth(object: Object<'_>) -> Answer<bool> {
    if object.is_none() {
        return Ok(false);
    }
    // SAFETY: a live object under the GIL.
    match unsafe { (object.api.functions.PyObject_IsTrue)(object.pointer()) } {
        -1 => Err(Trouble::Raised),
        truth => Ok(truth != 0),
    }
}
