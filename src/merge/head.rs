//! What stands around the merged events.

use super::lanes::{default_sort, sort_index};
use super::plan::{Part, Plan, Sub};
use crate::read::json::quote;

/// The end of the document.
pub(super) const END: &[u8] = b"\n]}\n";

fn pair(out: &mut Vec<u8>, key: &str, value: &[u8]) {
    quote(out, key);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b",\n");
}

/// The first input that says something of a key.
fn first<'p>(plan: &'p Plan<'_>, key: &str) -> Option<&'p [u8]> {
    plan.parts.iter().find_map(|part| part.input.document.get(key))
}

fn list(numbers: impl Iterator<Item = i64>) -> String {
    let texts: Vec<String> = numbers.map(|number| number.to_string()).collect();
    format!("[{}]", texts.join(", "))
}

/// From the brace to the list of ranks.
pub(super) fn start(plan: &Plan<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\n");
    if plan.in_place {
        return kept(plan, out);
    }
    let ranks = list(plan.parts.iter().flat_map(Part::wanted).map(|sub| sub.fate.rank));
    if plan.options.verbatim {
        pair(out, "displayTimeUnit", b"\"ns\"");
        pair(out, "distributedInfo", format!("{{\"merged_ranks\": {ranks}}}").as_bytes());
        let mut name = Vec::new();
        quote(&mut name, &plan.trace_name);
        pair(out, "traceName", &name);
        return;
    }
    for key in ["schemaVersion", "displayTimeUnit", "deviceProperties"] {
        if let Some(value) = first(plan, key) {
            pair(out, key, value);
        }
    }
    let mut name = Vec::new();
    quote(&mut name, &plan.trace_name);
    pair(out, "traceName", &name);
    let world = plan.parts.iter().filter_map(|part| part.input.world_size).max();
    let world = world.map_or(String::new(), |world| format!(", \"world_size\": {world}"));
    let missing = if plan.missing.is_empty() {
        String::new()
    } else {
        format!(", \"missing_ranks\": {}", list(plan.missing.iter().copied()))
    };
    pair(out, "distributedInfo", format!("{{\"merged_ranks\": {ranks}{world}{missing}}}").as_bytes());
    if let Some(base) = plan.aligned.base {
        pair(out, "baseTimeNanoseconds", base.to_string().as_bytes());
    }
    let mut own = format!("{{\"version\": \"{}\", ", env!("CARGO_PKG_VERSION")).into_bytes();
    if let Some(base) = plan.aligned.base {
        let domain = plan.aligned.domain;
        own.extend_from_slice(format!("\"clock\": {{\"domain\": \"{domain}\", \"base_ns\": {base}}}, ").as_bytes());
    }
    own.extend_from_slice(format!("\"merge\": {{\"aligned\": {}, ", plan.aligned.aligned).as_bytes());
    if let Some(uncertainty) = plan.aligned.uncertainty {
        own.extend_from_slice(format!("\"uncertainty_ns\": {uncertainty}, ").as_bytes());
    }
    if let Some(note) = &plan.note {
        own.extend_from_slice(format!("\"selection\": {note}, ").as_bytes());
    }
    own.extend_from_slice(b"\"warnings\": [");
    for (index, warning) in plan.warnings.iter().enumerate() {
        if index > 0 {
            own.extend_from_slice(b", ");
        }
        quote(&mut own, warning);
    }
    own.extend_from_slice(b"]}}");
    pair(out, "tptrace", &own);
    out.extend_from_slice(b"\"ranks\": [");
}

/// What a document that is cut says of itself, and what was selected.
fn kept(plan: &Plan<'_>, out: &mut Vec<u8>) {
    let members = plan.parts.first().map_or(&[][..], |part| &part.input.document.members);
    let mut own = serde_json::Map::new();
    for (index, (key, value)) in members.iter().enumerate() {
        // Of a key that occurs twice, the last value, as parsers have it.
        if members[index + 1..].iter().any(|(other, _)| other == key) {
            continue;
        }
        match serde_json::from_slice(value) {
            Ok(serde_json::Value::Object(value)) if key == "tptrace" => own = value,
            _ => pair(out, key, value),
        }
    }
    let note = plan.note.as_deref().and_then(|note| serde_json::from_str(note).ok());
    if let Some(note) = note {
        let cuts = own.entry("cuts").or_insert_with(|| serde_json::Value::Array(Vec::new()));
        if let Some(cuts) = cuts.as_array_mut() {
            cuts.push(note);
        }
    }
    if !own.is_empty() {
        pair(out, "tptrace", serde_json::Value::Object(own).to_string().as_bytes());
    }
}

/// What one input says of itself, as it says it; of a merged document what each of its ranks says.
pub(super) fn about(plan: &Plan<'_>, index: usize, out: &mut Vec<u8>) {
    let part = &plan.parts[index];
    let mut first = index == 0;
    let mut own = Some(part.input.document.members.as_slice());
    for (sub, origin) in part.subs.iter().zip(&part.input.origins).filter(|(sub, _)| sub.fate.wanted) {
        out.extend_from_slice(if std::mem::take(&mut first) { b"\n" } else { b",\n" });
        out.extend_from_slice(format!("{{\"rank\": {}, \"file\": ", sub.fate.rank).as_bytes());
        quote(out, &origin.file.to_string_lossy());
        let (offset, base) = (origin.moved.saturating_add(sub.fate.offset), sub.fate.block.base);
        out.extend_from_slice(format!(", \"offset_ns\": {offset}, \"pid_base\": {base}, \"metadata\": {{").as_bytes());
        // Where ranks have none of their own, they stand with the first.
        let members = origin.metadata.as_deref().or_else(|| own.take()).unwrap_or_default();
        // Of a key that occurs twice, the last value, as parsers have it.
        let last = |index: usize, key: &str| members[index + 1..].iter().all(|(other, _)| other != key);
        let kept = members.iter().enumerate().filter(|(index, (key, _))| last(*index, key));
        for (index, (_, (key, value))) in kept.enumerate() {
            if index > 0 {
                out.extend_from_slice(b", ");
            }
            quote(out, key);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
        }
        out.extend_from_slice(b"}}");
    }
}

/// The bracket that opens the events.
pub(super) fn open(plan: &Plan<'_>, out: &mut Vec<u8>) {
    if !plan.options.verbatim {
        out.extend_from_slice(b"\n],\n");
    }
    out.extend_from_slice(b"\"traceEvents\": [\n");
}

/// Names and sort indices of processes whose events gave none. `first`: no event was written yet.
pub(super) fn close(plan: &Plan<'_>, mut first: bool, out: &mut Vec<u8>) {
    let parts: &[Part<'_>] = if plan.options.verbatim { &[] } else { &plan.parts };
    for Sub { fate, lanes } in parts.iter().flat_map(|part| &part.subs) {
        for (pid, process) in lanes.processes() {
            let rank = fate.rank;
            let text = process.text.as_deref();
            if !process.named {
                let name = match text {
                    Some("") | None => format!("rank {rank}"),
                    Some(text) => format!("rank {rank}: {text}"),
                };
                event(out, &mut first, "process_name", pid, "name", &|out| quote(out, &name));
            }
            if !process.sorted {
                let old = default_sort(process.gpu, lanes.old_pid(pid), text.is_some());
                let index = sort_index(fate.place, plan.count, old);
                event(out, &mut first, "process_sort_index", pid, "sort_index", &|out| {
                    out.extend_from_slice(index.to_string().as_bytes());
                });
            }
        }
    }
}

/// Bytes that [`close`] may write for a process, at most.
pub(super) fn process_bytes(pid: &[u8]) -> u64 {
    240 + 6 * pid.len() as u64
}

fn event(out: &mut Vec<u8>, first: &mut bool, name: &str, pid: u64, key: &str, value: &dyn Fn(&mut Vec<u8>)) {
    if !std::mem::replace(first, false) {
        out.extend_from_slice(b",\n");
    }
    let start = format!(
        "{{\"ph\": \"M\", \"name\": \"{name}\", \"pid\": {pid}, \"tid\": 0, \"ts\": 0, \"args\": {{\"{key}\": "
    );
    out.extend_from_slice(start.as_bytes());
    value(out);
    out.extend_from_slice(b"}}");
}
