//! The texts that the parts of a merge send one another, and fragments, changed on their way: an error or a document, and a
//! whole merge if nothing was changed.
#![no_main]

use std::path::{Path, PathBuf};

use arbitrary::{Arbitrary, Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Number, Value};
use tptrace::Error;
use tptrace::merge::{Input, Limits, MergeOptions, Selection, split};
use tptrace::output::{Compression, Target, WriteOptions};

const DOCUMENT: &[u8] = include_bytes!("../seeds/merge/chrome");

fn number(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=7)? {
        0 => u64::MAX.into(),
        1 => i64::MIN.into(),
        2 => i64::MAX.into(),
        3 => (i64::arbitrary(u)?).into(),
        4 => (u64::arbitrary(u)?).into(),
        5 => Number::from_f64(f64::arbitrary(u)?).map_or(Value::Null, Value::Number),
        _ => (u64::from(u16::arbitrary(u)?)).into(),
    })
}

fn value(u: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match u.int_in_range(0..=7)? {
        0 => Value::Null,
        1 => Value::Bool(bool::arbitrary(u)?),
        2 => Value::String(String::arbitrary(u)?),
        // Longer than any that we make.
        3 => Value::String("\u{1F600}x\n".repeat(u.int_in_range(0..=20_000)?)),
        4 => Value::Array((0..u.int_in_range(0..=4)?).map(|_| value(u)).collect::<Result<_>>()?),
        5 => Value::Object(Map::from_iter([(String::arbitrary(u)?, number(u)?)])),
        _ => number(u)?,
    })
}

/// Changes one leaf or one member below `node`.
fn change(u: &mut Unstructured<'_>, node: &mut Value) -> Result<()> {
    let inner = match node {
        Value::Object(members) if !members.is_empty() => {
            let at = u.choose_index(members.len())?;
            if u.ratio(1, 24)? {
                let key = members.keys().nth(at).cloned().unwrap_or_default();
                members.remove(&key);
                return Ok(());
            }
            members.values_mut().nth(at)
        }
        Value::Array(items) if !items.is_empty() => {
            let at = u.choose_index(items.len())?;
            if u.ratio(1, 8)? {
                let twice = items[at].clone();
                items.push(twice);
                return Ok(());
            }
            items.get_mut(at)
        }
        _ => None,
    };
    match inner {
        Some(inner) => change(u, inner),
        None => {
            // Of the same kind more often than not: others do not come far.
            *node = if node.is_number() && u.ratio(7, 8)? { number(u)? } else { value(u)? };
            Ok(())
        }
    }
}

fn changed(u: &mut Unstructured<'_>, text: &str, any: &mut bool) -> Result<String> {
    if u.ratio(1, 2)? {
        return Ok(text.to_owned());
    }
    *any = true;
    if u.ratio(1, 16)? {
        let mut bytes = text.as_bytes().to_vec();
        let at = u.choose_index(bytes.len())?;
        bytes.splice(at..(at + u.int_in_range(0..=3)?).min(bytes.len()), Vec::<u8>::arbitrary(u)?);
        return Ok(String::from_utf8_lossy(&bytes).into_owned());
    }
    let mut envelope: Value = serde_json::from_str(text).expect("our own text");
    for _ in 0..u.int_in_range(1..=3)? {
        let outside = u.ratio(1, 32)?;
        change(u, if outside { &mut envelope } else { &mut envelope["content"] })?;
    }
    Ok(envelope.to_string())
}

/// Damages the file, in its last bytes more often than elsewhere: there a fragment says what it is.
fn damage(u: &mut Unstructured<'_>, file: &Path, any: &mut bool) -> Result<()> {
    if u.ratio(3, 4)? {
        return Ok(());
    }
    *any = true;
    let mut bytes = std::fs::read(file).expect("a fragment");
    let near = if bool::arbitrary(u)? { bytes.len().min(32) } else { bytes.len() };
    let at = bytes.len() - u.int_in_range(1..=near)?;
    if u.ratio(1, 4)? {
        bytes.truncate(at);
    } else {
        bytes[at] = u8::arbitrary(u)?;
    }
    std::fs::write(file, bytes).expect("written");
    Ok(())
}

fn refused(error: &Error) {
    assert!(matches!(error, Error::Malformed { .. } | Error::Limit { .. } | Error::InvalidArgument(_)), "{error}");
}

fn run(u: &mut Unstructured<'_>) -> Result<()> {
    let shm = Path::new("/dev/shm");
    let folder = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() }.expect("scratch");
    let input = folder.path().join("input");
    std::fs::write(&input, DOCUMENT).expect("written");
    let has = u8::arbitrary(u)?;
    let selection = Selection {
        window_ns: (has & 1 != 0).then_some((0, 15_000)),
        names: if has & 2 != 0 { vec!["[a-o]".into()] } else { Vec::new() },
        min_duration_ns: u64::from(has & 4) * 300,
        ..Selection::default()
    };
    let limits = Limits { event_bytes: 1 << 20, metadata_bytes: 1 << 16, ..Limits::default() };
    let write = WriteOptions {
        threads: 1,
        compression: if has & 8 != 0 { Compression::Gzip } else { Compression::None },
        ..WriteOptions::default()
    };
    let options = MergeOptions {
        verbatim: has & 16 != 0,
        salvage: has & 32 != 0,
        selection,
        limits,
        write,
        ..MergeOptions::default()
    };
    let mut any = false;

    let survey = split::survey(Input::Path(input.clone()), &options).expect("a survey");
    let surveys = [changed(u, &survey, &mut any)?, changed(u, &survey, &mut any)?];
    let plan = match split::plan(&surveys, &options) {
        Ok(plan) => plan,
        Err(error) => return Ok(refused(&error)),
    };
    let mut fragments: Vec<PathBuf> = Vec::new();
    for (index, task) in plan.tasks.iter().flatten().enumerate() {
        let task = changed(u, task, &mut any)?;
        let fragment = folder.path().join(index.to_string());
        match split::fragment(Input::Path(input.clone()), &task, &fragment, &options.write, None) {
            Ok(_) => {
                damage(u, &fragment, &mut any)?;
                fragments.push(fragment);
            }
            Err(error) => {
                refused(&error);
                assert!(!fragment.exists());
            }
        }
    }
    let join = changed(u, &plan.join, &mut any)?;
    let mut out = Vec::new();
    match split::join(&join, &fragments, Target::Writer(&mut out), &options.write, None) {
        Ok(_) if any => {}
        Ok(_) if has & 8 != 0 => {
            let document = std::io::read_to_string(flate2::read::GzDecoder::new(&out[..])).expect("gzip");
            serde_json::from_str::<Value>(&document).expect("strict JSON");
        }
        Ok(_) => {
            serde_json::from_slice::<Value>(&out).expect("strict JSON");
        }
        Err(error) => {
            assert!(any, "{error}");
            refused(&error);
        }
    }
    Ok(())
}

fuzz_target!(|data: &[u8]| {
    let _ = run(&mut Unstructured::new(data));
});
