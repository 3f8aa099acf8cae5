//! What stands in the `args` of an event.

use super::event::Event;
use super::json;

/// Calls `visit` with each key, without its quotes, and its value as text, until it answers `false`. The event was
/// checked before.
#[inline]
pub(crate) fn each<'b>(bytes: &'b [u8], event: &Event, mut visit: impl FnMut(&'b [u8], &'b [u8]) -> bool) {
    let start = event.args.start as usize;
    if event.args.is_empty() || bytes[start] != b'{' {
        return;
    }
    let mut at = json::space(bytes, start + 1);
    while bytes[at] == b'"' {
        let Ok(end) = json::string(bytes, at) else { return };
        let Ok(value) = json::colon(bytes, end) else { return };
        let Ok(after) = json::value(bytes, value) else { return };
        if !visit(&bytes[at + 1..end - 1], &bytes[value..after]) {
            return;
        }
        at = json::space(bytes, after);
        if bytes[at] != b',' {
            return;
        }
        at = json::space(bytes, at + 1);
    }
}

/// The value of a key, as text; of a key that occurs twice, the first.
pub(crate) fn get<'b>(bytes: &'b [u8], event: &Event, wanted: &str) -> Option<&'b [u8]> {
    let mut found = None;
    each(bytes, event, |key, value| {
        if key == wanted.as_bytes() {
            found = Some(value);
        }
        found.is_none()
    });
    found
}

/// A value that is text, decoded.
pub(crate) fn text(raw: &[u8]) -> Option<String> {
    (raw.first() == Some(&b'"')).then(|| json::decode(raw))
}
