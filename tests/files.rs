//! A file is replaced as a whole or not at all, and a failure says which file and why.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;
use std::{fs, io};

use tptrace::output::{Compression, Progress, Target, WriteOptions};
use tptrace::{Error, ExportOptions, Op, Trace};

fn trace(ops: i64) -> Trace {
    let trace = Trace::default();
    for i in 0..ops {
        let name = format!("op {i}");
        trace.add_op(&Op { name: name.as_str().into(), start_ns: i, end_ns: i + 1, ..Op::default() }).expect("added");
    }
    trace
}

/// What stands in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

fn failed(path: &Path) -> Error {
    trace(3).write(path, &ExportOptions::default()).expect_err("it cannot be written")
}

fn is_document(path: &Path) -> bool {
    serde_json::from_slice::<serde_json::Value>(&fs::read(path).expect("the file")).is_ok()
}

#[test]
fn an_old_file_is_replaced_and_keeps_its_mode() {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("t.json");
    fs::write(&path, "old").expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a mode");
    let options = WriteOptions { fsync: true, ..WriteOptions::default() };
    trace(3).write(&path, &ExportOptions { write: options, ..ExportOptions::default() }).expect("written");
    assert!(is_document(&path));
    assert_eq!(fs::metadata(&path).expect("the file").permissions().mode() & 0o777, 0o640);
    assert_eq!(names(folder.path()), ["t.json"]);
}

#[test]
fn links_are_followed() {
    let folder = tempfile::tempdir().expect("scratch");
    let (real, link) = (folder.path().join("real.json"), folder.path().join("link.json"));
    fs::write(&real, "old").expect("a file");
    symlink("real.json", &link).expect("a link");
    trace(3).write(&link, &ExportOptions::default()).expect("written");
    assert!(is_document(&real) && link.symlink_metadata().expect("the link").is_symlink());
    // A link to a file that is not there yet.
    symlink("new.json", folder.path().join("dangling.json")).expect("a link");
    trace(3).write(folder.path().join("dangling.json"), &ExportOptions::default()).expect("written");
    assert!(is_document(&folder.path().join("new.json")));
    // A link to itself.
    symlink("loop.json", folder.path().join("loop.json")).expect("a link");
    assert!(matches!(failed(&folder.path().join("loop.json")), Error::Io { .. }));
}

#[test]
fn names_need_not_be_utf8() {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join(OsStr::from_bytes(b"bad \xff name.json"));
    trace(3).write(&path, &ExportOptions::default()).expect("written");
    assert!(is_document(&path));
    let path = folder.path().join("x".repeat(255));
    trace(3).write(&path, &ExportOptions::default()).expect("a name as long as names may be");
    assert!(is_document(&path));
}

#[test]
fn what_cannot_be_written_is_named_and_left_alone() {
    let folder = tempfile::tempdir().expect("scratch");
    let inside = |name: &str| folder.path().join(name);
    fs::write(inside("file"), "old").expect("a file");
    fs::write(inside("read-only"), "old").expect("a file");
    fs::set_permissions(inside("read-only"), fs::Permissions::from_mode(0o444)).expect("a mode");
    fs::create_dir(inside("folder")).expect("a folder");
    for (name, words) in [
        ("none/t.json", "does not exist"),
        ("file/t.json", "Not a directory"),
        ("folder", "it is a folder"),
        ("read-only", "read-only"),
    ] {
        let message = failed(&inside(name)).to_string();
        assert!(
            message.contains(words) && message.contains(inside(name).to_str().expect("UTF-8")),
            "{name}: {message}"
        );
    }
    let long = failed(&inside(&"x".repeat(256))).to_string();
    assert!(long.contains("os error 36"), "{long}");
    assert!(failed(&inside("new/")).to_string().contains("names a folder"));
    assert!(failed(Path::new("")).to_string().contains("empty"));
    assert_eq!(fs::read(inside("read-only")).expect("the file"), b"old");
    assert_eq!(fs::read(inside("file")).expect("the file"), b"old");
    assert_eq!(names(folder.path()), ["file", "folder", "read-only"]);
    assert!(names(&inside("folder")).is_empty());
}

#[test]
fn cancelling_leaves_the_old_file() {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("t.json.gz");
    fs::write(&path, "old").expect("a file");
    let mut reports = 0;
    let mut cancel = |progress: &Progress| {
        reports += 1;
        progress.done < 20_000
    };
    let result = trace(50_000).write_to(Target::File(&path), &ExportOptions::default(), Some(&mut cancel));
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert!(reports > 1);
    assert_eq!(fs::read(&path).expect("the file"), b"old");
    assert_eq!(names(folder.path()), ["t.json.gz"]);
}

/// Fails after some bytes.
struct Full(usize);

impl io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(io::Error::from_raw_os_error(28)) } else { Ok(taken) }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_writer_that_fails_ends_the_write() {
    for room in [0, 1, 1_000, 2_000_000] {
        for compression in [Compression::None, Compression::Gzip] {
            let write = WriteOptions { compression, threads: 4, ..WriteOptions::default() };
            let options = ExportOptions { write, ..ExportOptions::default() };
            let result = trace(60_000).write_to(Target::Writer(&mut Full(room)), &options, None);
            if compression == Compression::None || room < 2_000_000 {
                let message = result.expect_err("no room").to_string();
                assert!(message.contains("os error 28"), "{message}");
            }
        }
    }
}

#[test]
fn a_full_device_is_reported() {
    let message = failed(Path::new("/dev/full")).to_string();
    assert!(message.contains("/dev/full") && message.contains("os error 28"), "{message}");
    trace(3).write("/dev/null", &ExportOptions::default()).expect("what takes everything");
    assert!(!fs::metadata("/dev/null").expect("the device").is_file());
}

#[test]
fn a_pipe_is_written_in_place() {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut text = String::new();
            fs::File::open(path).expect("the pipe").read_to_string(&mut text).expect("UTF-8");
            serde_json::from_str::<serde_json::Value>(&text).is_ok()
        }
    });
    trace(20_000).write(&path, &ExportOptions::default()).expect("written");
    assert!(reader.join().expect("no panic"));
}

/// This test's own process, started again by the test below, which kills it in the middle of a write.
#[test]
fn write_for_ever_if_told_to() {
    let Some(path) = std::env::var_os("TPTRACE_TEST_WRITE_FOR_EVER") else { return };
    let trace = trace(100_000);
    loop {
        trace.write(&path, &ExportOptions::default()).expect("written");
        println!("written");
    }
}

#[test]
fn a_killed_process_leaves_a_whole_file_and_nothing_else() {
    let folder = tempfile::tempdir().expect("scratch");
    let path = folder.path().join("t.json.gz");
    let mut caught = 0;
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().expect("own path"))
            .args(["write_for_ever_if_told_to", "--exact", "--nocapture"])
            .env("TPTRACE_TEST_WRITE_FOR_EVER", &path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("started");
        while !path.exists() {
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        std::thread::sleep(std::time::Duration::from_millis(7 * round));
        child.kill().expect("killed");
        child.wait().expect("ended");
        whole(&path);
        // A file without a name gets one for the moment before it is renamed: the system has no other way to replace.
        for name in names(folder.path()).into_iter().filter(|name| name != "t.json.gz") {
            assert!(name.starts_with(".tptrace-") && name.ends_with(".tmp"), "round {round}: {name}");
            whole(&folder.path().join(&name));
            fs::remove_file(folder.path().join(name)).expect("removed");
            caught += 1;
        }
    }
    assert!(caught <= 1, "{caught} of 8 were killed in that moment");
}

fn whole(path: &Path) {
    let mut text = String::new();
    let file = fs::File::open(path).expect("the file");
    flate2::read::GzDecoder::new(file).read_to_string(&mut text).expect("whole");
    serde_json::from_str::<serde_json::Value>(&text).expect("a document");
}
