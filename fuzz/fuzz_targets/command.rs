//! The command's arguments, one a line: understood or refused in words; a selection cuts a document or says what is wrong
//! with it. Ranks as the environment gives them.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use libfuzzer_sys::fuzz_target;
use tptrace::merge::convert::format_of;
use tptrace::merge::{Input, MergeOptions, Selection, cut};
use tptrace::output::{Target, WriteOptions};
use tptrace::{Error, RankWorld};

const DOCUMENT: &[u8] = include_bytes!("../seeds/merge/merged");

fn select(selection: &Selection) {
    let write = WriteOptions { threads: 1, ..WriteOptions::default() };
    let options = MergeOptions { selection: selection.clone(), write, ..MergeOptions::default() };
    let input = Input::Reader { name: "trace".into(), reader: Box::new(std::io::Cursor::new(DOCUMENT)) };
    let mut out = Vec::new();
    match cut(input, Target::Writer(&mut out), &options, None) {
        Ok(report) => {
            let document: serde_json::Value = serde_json::from_slice(&out).expect("strict JSON");
            assert!(report.kept() as usize <= document["traceEvents"].as_array().expect("events").len());
            assert!(selection.max_bytes.is_none_or(|most| report.written.bytes <= most + 64));
        }
        Err(error) => assert!(matches!(error, Error::InvalidArgument(_)), "{error}"),
    }
}

/// A rank that is made of the digits of its text.
fn environment(text: &str) {
    let Ok(text) = std::ffi::CString::new(text) else { return };
    let text = text.to_str().expect("it was text");
    // SAFETY: this process has no other thread that looks at its environment now.
    unsafe { std::env::set_var("RANK", text) };
    let read = RankWorld::from_env();
    assert_eq!(read.world_size, None);
    let digits = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>();
    match read.rank {
        Some(rank) => {
            let same =
                digits(text).trim_start_matches('0').to_owned() == digits(&rank.to_string()).trim_start_matches('0');
            assert!(same, "{text:?} is read as {rank}");
        }
        None => assert!(text.parse::<i64>().is_err(), "{text:?} is not read"),
    }
}

fuzz_target!(|data: &[u8]| {
    let lines = data.split(|&byte| byte == b'\n').map(|line| OsString::from_vec(line.to_vec()));
    for line in lines.clone() {
        // By its name alone.
        let _ = format_of(line.as_ref());
        if let Some(text) = line.to_str() {
            environment(text);
        }
    }
    match tptrace::command::understood([OsString::from("tptrace")].into_iter().chain(lines)) {
        Ok((said, selection)) => {
            assert!(!said.is_empty());
            if selection != Selection::default() {
                select(&selection);
            }
        }
        Err((said, status)) => assert!(!said.is_empty() && status <= 2, "{status}: {said}"),
    }
});
