//! Protobuf's wire format: as much of it as a writer needs, which reads only what it wrote itself.

/// A number in groups of seven bits, the lowest first.
#[inline]
pub(crate) fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;

#[inline]
fn key(out: &mut Vec<u8>, field: u32, wire_type: u64) {
    varint(out, u64::from(field) << 3 | wire_type);
}

/// An unsigned number, a flag or an enum.
#[inline]
pub(crate) fn uint(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, VARINT);
    varint(out, value);
}

/// A signed number: ten bytes if it is negative.
#[inline]
pub(crate) fn int(out: &mut Vec<u8>, field: u32, value: i64) {
    uint(out, field, value as u64);
}

/// Eight bytes, whatever the number.
#[inline]
pub(crate) fn fixed64(out: &mut Vec<u8>, field: u32, value: u64) {
    key(out, field, FIXED64);
    out.extend_from_slice(&value.to_le_bytes());
}

/// A double.
#[inline]
pub(crate) fn double(out: &mut Vec<u8>, field: u32, value: f64) {
    fixed64(out, field, value.to_bits());
}

/// A string, or a finished message.
#[inline]
pub(crate) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    key(out, field, LENGTH);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Opens a message and answers where its content starts, for [`close`].
#[inline]
pub(crate) fn open(out: &mut Vec<u8>, field: u32) -> usize {
    key(out, field, LENGTH);
    out.push(0);
    out.len()
}

/// Closes the message whose content starts at `start`.
#[inline]
pub(crate) fn close(out: &mut Vec<u8>, start: usize) {
    let length = out.len() - start;
    if length < 0x80 {
        out[start - 1] = length as u8;
    } else {
        close_long(out, start, length);
    }
}

/// One byte was left for the length: the content moves to make room for more.
fn close_long(out: &mut Vec<u8>, start: usize, length: usize) {
    let mut prefix = Vec::with_capacity(10);
    varint(&mut prefix, length as u64);
    let more = prefix.len() - 1;
    out.resize(start + length + more, 0);
    out.copy_within(start..start + length, start + more);
    out[start - 1..start + more].copy_from_slice(&prefix);
}

/// A message that `content` fills.
#[inline]
pub(crate) fn message(out: &mut Vec<u8>, field: u32, content: impl FnOnce(&mut Vec<u8>)) {
    let start = open(out, field);
    content(out);
    close(out, start);
}

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'b> {
    Varint(u64),
    Fixed64,
    Bytes(&'b [u8]),
}

/// The fields of a message that was written by this module: their numbers, their values, and all of their bytes.
pub(crate) fn fields(mut message: &[u8]) -> impl Iterator<Item = (u64, Value<'_>, &[u8])> {
    std::iter::from_fn(move || {
        let whole = message;
        let key = take(&mut message)?;
        let value = match key & 7 {
            VARINT => Value::Varint(take(&mut message)?),
            FIXED64 => {
                message = message.get(8..)?;
                Value::Fixed64
            }
            _ => {
                let length = usize::try_from(take(&mut message)?).ok()?;
                let (bytes, rest) = message.split_at_checked(length)?;
                message = rest;
                Value::Bytes(bytes)
            }
        };
        Some((key >> 3, value, &whole[..whole.len() - message.len()]))
    })
}

#[inline]
fn take(from: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (at, &byte) in from.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte < 0x80 {
            *from = &from[at + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_texts() {
        let mut out = Vec::new();
        uint(&mut out, 1, 150);
        int(&mut out, 2, -1);
        bytes(&mut out, 2, b"testing");
        fixed64(&mut out, 47, 1);
        double(&mut out, 5, 1.0);
        // The first and the third are the examples of protobuf's own documentation.
        let mut expected = vec![0x08, 0x96, 0x01, 0x10];
        expected.extend([0xff; 9]);
        expected.extend([0x01, 0x12, 0x07, 0x74, 0x65, 0x73, 0x74, 0x69, 0x6e, 0x67]);
        expected.extend([0xf9, 0x02, 1, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([0x29, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f]);
        assert_eq!(out, expected);
    }

    #[test]
    fn what_was_written_is_read_again() {
        let mut out = Vec::new();
        uint(&mut out, 3, 300);
        double(&mut out, 44, 0.5);
        int(&mut out, 4, -7);
        message(&mut out, 60, |out| bytes(out, 2, &[9; 200]));
        uint(&mut out, 17, u64::MAX);
        let read: Vec<_> = fields(&out).collect();
        let values: Vec<_> = read.iter().map(|&(number, value, _)| (number, value)).collect();
        let mut inner = Vec::new();
        bytes(&mut inner, 2, &[9; 200]);
        let expected = [
            (3, Value::Varint(300)),
            (44, Value::Fixed64),
            (4, Value::Varint(-7_i64 as u64)),
            (60, Value::Bytes(&inner)),
            (17, Value::Varint(u64::MAX)),
        ];
        assert_eq!(values, expected);
        assert_eq!(read.iter().map(|field| field.2).collect::<Vec<_>>().concat(), out);
        // Cut anywhere, the last field is missing.
        for end in 0..out.len() {
            assert!(fields(&out[..end]).count() < 5);
        }
    }

    #[test]
    fn messages_of_any_length() {
        for length in [0, 1, 127, 128, 16_383, 16_384, 3_000_000] {
            let mut out = vec![7];
            message(&mut out, 3, |out| message(out, 1, |out| out.resize(out.len() + length, 9)));
            let mut inner = vec![0x0a];
            varint(&mut inner, length as u64);
            inner.resize(inner.len() + length, 9);
            let mut expected = vec![7, 0x1a];
            varint(&mut expected, inner.len() as u64);
            expected.extend(inner);
            assert!(out == expected, "{length}");
        }
    }
}
