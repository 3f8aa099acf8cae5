//! How many bytes an event takes in the merged document, before it is rewritten.

use super::plan::{Part, Plan};
use crate::read::event::Event;
use crate::read::time::shift_ts;

/// The longest number of a rank and what stands around it in a process name, and the longest sort index.
const RANK: u64 = 32;
const NUMBER: u64 = 20;

/// Bytes of the event with all its changes and its separator; seldom a few less.
pub(super) fn of(plan: &Plan<'_>, part: &Part<'_>, bytes: &[u8], event: &Event) -> u64 {
    let separator = 2;
    let own = u64::from(event.end - event.start) + separator;
    if plan.in_place {
        // A slice may lose the flow that it names: the key gets longer.
        return own + if event.bind_id.is_empty() { 0 } else { 8 };
    }
    let Some(pid) = event.pid.get(bytes) else { return own + growth(plan, part, bytes, event) };
    let new = match part.sub(pid).lanes.plain_pid(pid) {
        Some(pid) if !plan.options.verbatim => u64::from(pid.max(1).ilog10()) + 1,
        _ => NUMBER,
    };
    own + new.saturating_sub(pid.len() as u64) + growth(plan, part, bytes, event)
}

/// What all but the pid may add.
fn growth(plan: &Plan<'_>, part: &Part<'_>, bytes: &[u8], event: &Event) -> u64 {
    if plan.options.verbatim {
        return 0;
    }
    let longer = |old: &[u8], fill: &dyn Fn(&mut Vec<u8>)| {
        let mut new = Vec::with_capacity(40);
        fill(&mut new);
        new.len().saturating_sub(old.len()) as u64
    };
    let mut more = 0;
    if let Some(tid) = event.tid.get(bytes)
        && super::ids::small(tid).is_none_or(|tid| tid == 0 || tid > u64::from(u32::MAX / 2))
    {
        more += 10;
    }
    let offset = part.sub(event.pid.of(bytes)).fate.offset;
    if offset != 0
        && let Some(ts) = event.ts.get(bytes)
    {
        more += longer(ts, &|out| {
            shift_ts(ts, offset, out);
        });
    }
    if part.ids.active() {
        for id in [event.id, event.id2, event.bind_id] {
            if let Some(id) = id.get(bytes) {
                more += longer(id, &|out| part.ids.map(id, out));
            }
        }
    }
    if event.phase(bytes) == b'M' {
        more += RANK;
    }
    // A slice may lose the flow that it names: the key gets longer.
    more + if event.bind_id.is_empty() { 0 } else { 8 }
}
