//! Selecting from any bytes: what stays and what is left out make up the whole, in its order, and a merge in parts makes
//! the document of a merge at once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tptrace::Error;
use tptrace::merge::{Input, Limits, MergeOptions, MergeReport, Selection, merge, split};
use tptrace::output::{Target, WriteOptions};

fn input(data: &[u8]) -> Input {
    Input::Reader { name: "input".into(), reader: Box::new(std::io::Cursor::new(data.to_vec())) }
}

/// Events of the document and the report.
fn merged(data: &[u8], options: &MergeOptions) -> Result<(Vec<Value>, MergeReport), Error> {
    let mut out = Vec::new();
    let report = merge(vec![input(data), input(data)], Target::Writer(&mut out), options, None)?;
    Ok((events(&out), report))
}

fn events(document: &[u8]) -> Vec<Value> {
    let document: Value = serde_json::from_slice(document).expect("strict JSON");
    document["traceEvents"].as_array().expect("events").clone()
}

/// The same merge in parts.
fn in_parts(data: &[u8], options: &MergeOptions) -> Result<Vec<Value>, Error> {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("input");
    std::fs::write(&path, data).expect("written");
    let survey = split::survey(Input::Path(path.clone()), options)?;
    let plan = split::plan(&[&survey, &survey], options)?;
    let mut fragments = Vec::new();
    for (index, task) in plan.tasks.iter().flatten().enumerate() {
        let fragment = folder.path().join(index.to_string());
        split::fragment(Input::Path(path.clone()), task, &fragment, &options.write, None)?;
        fragments.push(fragment);
    }
    let mut out = Vec::new();
    split::join(&plan.join, &fragments, Target::Writer(&mut out), &options.write, None)?;
    Ok(events(&out))
}

fuzz_target!(|data: &[u8]| {
    let [what, from, length, ends, data @ ..] = data else { return };
    let limits = Limits { event_bytes: 1 << 20, metadata_bytes: 1 << 16, sort_bytes: usize::from(*ends) * 64 };
    let write = WriteOptions { threads: 1, ..WriteOptions::default() };
    let salvage = what & 1 == 1;
    let base = MergeOptions { salvage, limits, write, ..MergeOptions::default() };
    let has = |bit: u8| what & bit != 0;
    let start = i64::from(*from) * 1000;
    let selection = Selection {
        window_ns: has(2).then_some((start, start + 1 + i64::from(*length) * 1000)),
        categories: if has(4) { vec!["a".into(), "kernel".into()] } else { Vec::new() },
        min_duration_ns: if has(8) { u64::from(*length) * 500 } else { 0 },
        names: if has(16) { vec!["[a-f]".into()] } else { Vec::new() },
        exclude_names: if has(32) { vec!["b".into()] } else { Vec::new() },
        max_bytes: has(64).then_some(2000 + 16 * u64::from(*length)),
        ..Selection::default()
    };
    let some = MergeOptions { selection, ..base.clone() };
    let whole = merged(data, &base);
    let (selected, report) = match (whole.as_ref(), merged(data, &some)) {
        (_, Ok(selected)) => selected,
        (_, Err(Error::Malformed { .. } | Error::Limit { .. })) => return,
        (Ok(_), Err(Error::InvalidArgument(what))) if what.contains("metadata alone") => return,
        (Err(_), Err(_)) => return,
        (_, Err(error)) => panic!("{error}"),
    };
    let (all, told) = whole.expect("what can be selected from can be merged");
    assert_eq!(report.kept() + report.cut().total(), told.kept());
    if let Some(most) = some.selection.max_bytes {
        assert!(report.written.bytes <= most + 64, "{} of {most}", report.written.bytes);
    }
    // Processes that are named at the end may be fewer; ids of text and lanes may differ with the events left out.
    let key = |event: &Value| (event["name"].clone(), event["ts"].clone(), event["ph"].clone());
    let mut rest = all.iter().map(key);
    for event in &selected {
        if event["ph"] != "M" && event.is_object() {
            assert!(rest.any(|other| other == key(event)), "{event}");
        }
    }
    if some.selection.max_bytes.is_none() {
        let sorted = |mut list: Vec<String>| {
            list.sort_unstable();
            list
        };
        let text = |list: &[Value]| sorted(list.iter().map(Value::to_string).collect());
        let parts = in_parts(data, &some).expect("what can be merged can be in parts");
        assert_eq!(text(&selected), text(&parts));
    }
});
