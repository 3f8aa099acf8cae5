//! One element of the events array: its extent and where the values of its known keys stand.

use super::json::{self, Bad, Scan, What};

/// A range of the buffer; empty if the key is absent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    pub(crate) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }

    pub(crate) fn is_empty(self) -> bool {
        self.start == self.end
    }

    pub(crate) fn get(self, bytes: &[u8]) -> Option<&[u8]> {
        if self.is_empty() { None } else { Some(self.of(bytes)) }
    }
}

/// Where an event and its values stand in the buffer. Of a key that occurs twice, the last counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) ph: Span,
    pub(crate) pid: Span,
    pub(crate) tid: Span,
    pub(crate) ts: Span,
    pub(crate) dur: Span,
    pub(crate) name: Span,
    pub(crate) cat: Span,
    pub(crate) id: Span,
    pub(crate) id2: Span,
    pub(crate) bind_id: Span,
    pub(crate) bp: Span,
    pub(crate) args: Span,
    /// Whether a known key occurs twice.
    pub(crate) twice: bool,
}

impl Event {
    /// The phase, if it is one letter.
    #[inline(always)]
    pub(crate) fn phase(&self, bytes: &[u8]) -> u8 {
        // Numbers may have three bytes too, and 1e5 does not end an async span.
        match bytes[self.ph.start as usize..self.ph.end as usize] {
            [b'"', phase, b'"'] => phase,
            _ => 0,
        }
    }

    #[inline(always)]
    fn slot(&mut self, bytes: &[u8], key: usize, end: usize) -> Option<&mut Span> {
        // `end` is after the closing quote; the names include it, so that the length is compared too.
        let word: [u8; 8] = bytes[key + 1..key + 9].try_into().expect("a slice of 8 bytes");
        let word = u64::from_le_bytes(word);
        const fn name(text: &[u8]) -> u64 {
            let mut word = 0;
            let mut i = text.len();
            while i > 0 {
                i -= 1;
                word = word << 8 | text[i] as u64;
            }
            word
        }
        match end - key {
            4 => match word & 0xff_ffff {
                w if w == const { name(b"ph\"") } => Some(&mut self.ph),
                w if w == const { name(b"ts\"") } => Some(&mut self.ts),
                w if w == const { name(b"id\"") } => Some(&mut self.id),
                w if w == const { name(b"bp\"") } => Some(&mut self.bp),
                _ => None,
            },
            5 => match word & 0xffff_ffff {
                w if w == const { name(b"pid\"") } => Some(&mut self.pid),
                w if w == const { name(b"tid\"") } => Some(&mut self.tid),
                w if w == const { name(b"dur\"") } => Some(&mut self.dur),
                w if w == const { name(b"cat\"") } => Some(&mut self.cat),
                w if w == const { name(b"id2\"") } => Some(&mut self.id2),
                _ => None,
            },
            6 => match word & 0xff_ffff_ffff {
                w if w == const { name(b"name\"") } => Some(&mut self.name),
                w if w == const { name(b"args\"") } => Some(&mut self.args),
                _ => None,
            },
            9 if word == const { name(b"bind_id\"") } => Some(&mut self.bind_id),
            _ => None,
        }
    }

    /// The same for a key that is written with escapes.
    #[cold]
    fn escaped_slot(&mut self, quoted: &[u8]) -> Option<&mut Span> {
        match json::decode(quoted).as_str() {
            "ph" => Some(&mut self.ph),
            "ts" => Some(&mut self.ts),
            "id" => Some(&mut self.id),
            "bp" => Some(&mut self.bp),
            "pid" => Some(&mut self.pid),
            "tid" => Some(&mut self.tid),
            "dur" => Some(&mut self.dur),
            "cat" => Some(&mut self.cat),
            "id2" => Some(&mut self.id2),
            "name" => Some(&mut self.name),
            "args" => Some(&mut self.args),
            "bind_id" => Some(&mut self.bind_id),
            _ => None,
        }
    }

    /// Scans the element that starts at `at`. An element that is no object has only a start and an end.
    #[inline(always)]
    pub(crate) fn scan(bytes: &[u8], at: usize) -> Scan<Event> {
        let mut event = Event { start: at as u32, ..Event::default() };
        if bytes[at] != b'{' {
            event.end = json::value(bytes, at)? as u32;
            return Ok(event);
        }
        let mut at = json::space(bytes, at + 1);
        if bytes[at] == b'}' {
            event.end = at as u32 + 1;
            return Ok(event);
        }
        loop {
            if bytes[at] != b'"' {
                return Err(json::not_a_key(bytes, at));
            }
            let key = at;
            let end = json::string(bytes, at)?;
            let start = json::colon(bytes, end)?;
            at = json::value(bytes, start)?;
            let span = Span { start: start as u32, end: at as u32 };
            match event.slot(bytes, key, end) {
                Some(slot) => {
                    let known = !slot.is_empty();
                    *slot = span;
                    event.twice |= known;
                }
                None => {
                    if end - key > 8
                        && bytes[key..end].contains(&b'\\')
                        && let Some(slot) = event.escaped_slot(&bytes[key..end])
                    {
                        *slot = span;
                    }
                }
            }
            at = json::space(bytes, at);
            match bytes[at] {
                b',' => at = json::space(bytes, at + 1),
                b'}' => {
                    event.end = at as u32 + 1;
                    return Ok(event);
                }
                _ => return Err(json::not_after_value(bytes, at, true)),
            }
        }
    }
}

/// Walks over the elements of a block: white space, elements, commas.
pub(crate) struct Elements {
    at: usize,
    end: usize,
    /// A comma must come before the next element.
    comma: bool,
}

impl Elements {
    /// `comma`: the block follows another one of the same array.
    pub(crate) fn new(end: usize, comma: bool) -> Self {
        Self { at: 0, end, comma }
    }

    /// Where the element starts in which `bad` was met.
    pub(crate) fn start_of(&self, bytes: &[u8], bad: Bad) -> usize {
        let mut at = json::space(bytes, self.at);
        if self.comma && bytes[at] == b',' {
            at = json::space(bytes, at + 1);
        }
        at.min(bad.at())
    }

    /// Goes on after an element that ends at `end`.
    pub(crate) fn go_to(&mut self, end: usize) {
        self.at = end;
        self.comma = true;
    }

    /// The next element of `bytes[..end]`, or `None` after the last one.
    #[inline(always)]
    pub(crate) fn next(&mut self, bytes: &[u8]) -> Scan<Option<Event>> {
        let mut at = json::space(bytes, self.at);
        if self.comma {
            if at >= self.end {
                return Ok(None);
            }
            if bytes[at] != b',' {
                return Err(Bad::new(at, What::Separator));
            }
            let after = json::space(bytes, at + 1);
            if after >= self.end {
                return Err(Bad::new(at, What::TrailingComma));
            }
            at = after;
        } else if at >= self.end {
            return Ok(None);
        }
        let event = Event::scan(bytes, at)?;
        self.at = event.end as usize;
        self.comma = true;
        Ok(Some(event))
    }
}
