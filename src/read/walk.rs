//! The events of a piece, one by one, checked; with salvage the damaged ones too, if they can be mended.

use super::cutter::{Cut, Subject};
use super::document::malformed;
use super::event::{Elements, Event};
use super::json::{self, Bad, PAD};
use super::repair;
use crate::error::Result;

/// How many events a walk met.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Met {
    /// Those that were visited, the repaired ones included.
    pub(crate) visited: u64,
    pub(crate) repaired: u64,
    pub(crate) lost: u64,
}

/// Hands each event to `visit`, with the bytes in which its spans stand. Walking the same piece again visits the same
/// events.
#[inline]
pub(crate) fn walk(
    subject: &impl Subject,
    salvage: bool,
    cut: &mut Cut,
    mut visit: impl FnMut(&[u8], &Event) -> Result<()>,
) -> Result<Met> {
    let path = &subject.stored().name;
    let Cut { ref mut bytes, mut length, offset, comma, open_end } = *cut;
    if open_end {
        length = without_comma(bytes, length);
    }
    let valid = std::str::from_utf8(&bytes[..length]).map_err(|error| Bad::new(error.valid_up_to(), json::What::Utf8));
    if let (Err(bad), false) = (valid, salvage) {
        return Err(malformed(path, offset, bad));
    }
    let mut elements = Elements::new(length, comma);
    let mut met = Met::default();
    let whole = valid.is_ok();
    loop {
        let event = match elements.next(bytes) {
            Ok(None) => return Ok(met),
            Ok(Some(event))
                if whole || std::str::from_utf8(&bytes[event.start as usize..event.end as usize]).is_ok() =>
            {
                visit(bytes, &event)?;
                met.visited += 1;
                continue;
            }
            Ok(Some(event)) => Err(event.start as usize),
            Err(bad) => Ok(bad),
        };
        // Damage, or bytes that are not UTF-8.
        let at = event.map_or_else(|start| start, |bad| elements.start_of(bytes, bad));
        let bad = event.unwrap_or_else(|start| Bad::new(start, json::What::Utf8));
        if !salvage {
            return Err(malformed(path, offset, bad));
        }
        subject.damaged(malformed(path, offset, bad).to_string());
        let end = repair::end_of(bytes, at, length);
        match repair::mend(&bytes[at..end]) {
            Some(mut mended) => {
                let size = mended.len();
                mended.resize(size + PAD, 0);
                match Elements::new(size, false).next(&mended) {
                    Ok(Some(event)) => {
                        visit(&mended, &event)?;
                        met.repaired += 1;
                        met.visited += 1;
                    }
                    _ => met.lost += 1,
                }
            }
            None => met.lost += 1,
        }
        elements.go_to(end);
    }
}

/// The length without white space and one comma at the end, which become zeros.
pub(crate) fn without_comma(bytes: &mut [u8], length: usize) -> usize {
    let mut end = length - bytes[..length].iter().rev().take_while(|byte| byte.is_ascii_whitespace()).count();
    if end > 0 && bytes[end - 1] == b',' {
        end -= 1;
    }
    bytes[end..length].fill(0);
    end
}
