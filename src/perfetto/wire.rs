//! Protobuf's wire format: as much of it as a writer needs.

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
