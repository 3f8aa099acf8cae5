//! Damaged events, for salvage: where they end, and what can be mended.

use super::bounds::{Bounds, STEP};
use super::json::PAD;

/// The end of the element that starts at `at`, found by its brackets alone; at most `length`.
pub(crate) fn end_of(bytes: &[u8], at: usize, length: usize) -> usize {
    let mut window = 4 << 10;
    loop {
        let to = (at + window).min(length);
        let mut piece = bytes[at..to].to_vec();
        let seen = piece.len().next_multiple_of(STEP);
        piece.resize(seen + PAD, 0);
        let end = first_end(&piece, seen);
        if let Some(end) = end.filter(|&end| at + end <= to) {
            return at + end;
        }
        if to == length {
            return length;
        }
        window *= 4;
    }
}

/// Where the first container ends.
fn first_end(bytes: &[u8], to: usize) -> Option<usize> {
    let mut bounds = Bounds::default();
    let mut from = 0;
    while from < to {
        let mut last = None;
        let mut step = bounds.clone();
        let _ = step.scan(bytes, from, from + STEP, &mut last);
        if last.is_some() {
            // Several may end in this step: the first one is looked for byte by byte.
            return (1..=STEP).find_map(|count| {
                let mut part = [0; STEP + PAD];
                part[..count].copy_from_slice(&bytes[from..from + count]);
                let mut last = None;
                let _ = bounds.clone().scan(&part, 0, STEP, &mut last);
                last.map(|end| from + end)
            });
        }
        bounds = step;
        from += STEP;
    }
    None
}

/// The event with what JSON does not allow made into what it does: bytes that are not UTF-8 into U+FFFD, control
/// characters in strings into escapes, NaN and infinities into strings. `None` if that changes nothing.
pub(crate) fn mend(event: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(event);
    let mut out = String::with_capacity(text.len() + 16);
    let mut in_string = false;
    let mut escaped = false;
    let mut rest = text.as_ref();
    while let Some(c) = rest.chars().next() {
        if !in_string
            && let Some(word) = ["-Infinity", "Infinity", "NaN"].into_iter().find(|word| rest.starts_with(word))
        {
            out.push('"');
            out.push_str(word);
            out.push('"');
            rest = &rest[word.len()..];
            continue;
        }
        if in_string && c < ' ' {
            out.push_str(&format!("\\u{:04x}", c as u32));
        } else {
            out.push(c);
        }
        match c {
            _ if escaped => escaped = false,
            '\\' if in_string => escaped = true,
            '"' => in_string = !in_string,
            _ => {}
        }
        rest = &rest[c.len_utf8()..];
    }
    (out.as_bytes() != event).then(|| out.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_does_not_allow_is_mended() {
        let mend = |text: &[u8]| mend(text).map(|bytes| String::from_utf8(bytes).expect("UTF-8"));
        assert_eq!(
            mend(br#"{"a": NaN, "b": -Infinity, "c": "NaN"}"#).as_deref(),
            Some(r#"{"a": "NaN", "b": "-Infinity", "c": "NaN"}"#)
        );
        assert_eq!(mend(b"{\"a\": \"x\ny\"}").as_deref(), Some("{\"a\": \"x\\u000ay\"}"));
        assert_eq!(mend(b"{\"a\": \"\xff\"}").as_deref(), Some("{\"a\": \"\u{fffd}\"}"));
        assert_eq!(mend(br#"{"a": "\" NaN"}"#), None);
    }

    #[test]
    fn ends_are_found_by_brackets() {
        let text = br#"{"a": {"b": "}"}, "c": [1, NaN]}, {"d": 1}"#;
        let mut bytes = text.to_vec();
        bytes.resize(text.len() + PAD, 0);
        assert_eq!(end_of(&bytes, 0, text.len()), 32);
        assert_eq!(end_of(&bytes, 34, text.len()), text.len());
        let long = format!("{{\"a\": \"{}\"}}, {{}}", "x".repeat(100_000));
        let mut bytes = long.clone().into_bytes();
        bytes.resize(long.len() + PAD, 0);
        assert_eq!(end_of(&bytes, 0, long.len()), 100_009);
    }
}
