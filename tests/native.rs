//! The library as C and C++ programs meet it: headers that compile without a warning, programs that link it as a
//! shared and as a static library, and run clean under the sanitizers and valgrind.
//!
//! `CC` and `CXX` name the compilers. Without valgrind on the machine its runs are skipped, which is said.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

const WARNINGS: &[&str] =
    &["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror", "-g", "-D_GNU_SOURCE"];

#[derive(Clone, Copy, Debug)]
enum Language {
    C(&'static str),
    Cpp(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Shared,
    Static,
    Sanitized,
    Valgrind,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo put the shared and the static library for this test run.
fn libraries() -> PathBuf {
    let test = std::env::current_exe().expect("own path");
    let folder = test.parent().expect("its folder").to_path_buf();
    for name in ["libtptrace.so", "libtptrace.a"] {
        assert!(folder.join(name).exists(), "{name} is not in {}", folder.display());
    }
    folder
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn compiler(language: Language) -> Command {
    let (variable, default, standard) = match language {
        Language::C(standard) => ("CC", "cc", standard),
        Language::Cpp(standard) => ("CXX", "c++", standard),
    };
    let mut command = Command::new(std::env::var(variable).unwrap_or_else(|_| default.to_owned()));
    command.arg(format!("-std={standard}")).args(WARNINGS);
    for folder in ["include", "bindings/cpp", "tests/c"] {
        command.arg("-I").arg(root().join(folder));
    }
    command
}

/// Compiles and links `sources`.
fn build(language: Language, mode: Mode, sources: &[&str], flags: &[&str], program: &Path) {
    let mut command = compiler(language);
    command.args(flags);
    if mode == Mode::Sanitized {
        command.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
    command.args(sources.iter().map(|source| root().join(source))).arg("-o").arg(program);
    let folder = libraries();
    if mode == Mode::Static {
        command.arg(folder.join("libtptrace.a")).args(["-ldl", "-lgcc_s"]);
    } else {
        command.arg("-L").arg(&folder).arg("-ltptrace").arg(format!("-Wl,-rpath,{}", folder.display()));
    }
    run(command.args(["-pthread", "-lm"]));
}

fn start(mode: Mode, program: &Path, arguments: &[PathBuf]) -> String {
    let mut command = if mode == Mode::Valgrind {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["--quiet", "--error-exitcode=99", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        valgrind.arg(program);
        valgrind
    } else {
        Command::new(program)
    };
    // Cargo's search path comes before the program's own, and may lead to a library of before.
    command.env_remove("LD_LIBRARY_PATH").env_remove("RANK").env_remove("WORLD_SIZE");
    run(command.args(arguments).env("RUST_BACKTRACE", "0"))
}

fn has_valgrind() -> bool {
    let found = Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        println!("skipped: valgrind is not installed");
    }
    found
}

/// Valgrind runs one thread at a time, which takes a program of many busy ones minutes.
const QUICK: &[Mode] = &[Mode::Shared, Mode::Static, Mode::Sanitized];
const EVERY: &[Mode] = &[Mode::Shared, Mode::Static, Mode::Sanitized, Mode::Valgrind];

/// Builds and runs one program in these ways, and answers the two files that its last run left.
fn each_way(modes: &[Mode], language: Language, source: &str) -> (Vec<u8>, Vec<u8>) {
    let folder = tempfile::tempdir().expect("scratch folder");
    let files = [folder.path().join("one.json.gz"), folder.path().join("two.json")];
    for &mode in modes {
        if mode == Mode::Valgrind && !has_valgrind() {
            continue;
        }
        let program = folder.path().join(format!("{mode:?}"));
        build(language, mode, &[source], &[], &program);
        start(mode, &program, &files);
    }
    let read = |path: &Path| std::fs::read(path).unwrap_or_default();
    let first = read(&files[0]);
    (if first.is_empty() { first } else { inflate(&first) }, read(&files[1]))
}

fn inflate(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(bytes), &mut out).expect("one gzip member");
    out
}

fn parse(document: &[u8]) -> Value {
    serde_json::from_slice(document).expect("strict JSON")
}

fn named<'a>(document: &'a Value, name: &str) -> &'a Value {
    let events = document["traceEvents"].as_array().expect("events");
    events.iter().find(|event| event["name"] == name).unwrap_or_else(|| panic!("no event {name:?}"))
}

#[test]
fn every_field_arrives() {
    let (torch, plain) = each_way(EVERY, Language::C("c11"), "tests/c/every_field.c");
    let torch = parse(&torch);
    let plain = parse(&plain);
    assert_eq!(torch["distributedInfo"], serde_json::json!({"rank": 3, "world_size": 5, "backend": "nccl"}));
    assert_eq!(torch["traceName"], "the trace");
    assert_eq!(torch["baseTimeNanoseconds"], 1_000_000_000);
    assert_eq!(torch["tptrace"]["clock"]["domain"], "realtime");
    for document in [&torch, &plain] {
        assert_eq!(document["note"].to_string(), r#"{"a":[1,2.50,null]}"#);
        assert_eq!(named(document, "process_name")["args"]["name"], "every field");
        let text = document.to_string();
        for value in ["\"lane of 71\"", "9001", "model.py:17", "inner frame", "\"the copy\"", "65537"] {
            assert!(text.contains(value), "{value} is missing");
        }
        let op = named(document, "the op");
        assert_eq!((op["ts"].to_string(), op["dur"].to_string()), ("1.001".into(), "8.002".into()));
        assert_eq!(op["args"]["Input Dims"].to_string(), "[[11,12],[],[13]]");
        assert_eq!(op["args"]["Input type"].to_string(), r#"["float32","int64","undefined"]"#);
        for (key, value) in [
            ("int", "-12"),
            ("uint", "18446744073709551615"),
            ("float", "0.25"),
            ("bool", "true"),
            ("text", "\"value\""),
        ] {
            assert_eq!(op["args"][key].to_string(), value, "{key}");
        }
        let text = op.to_string();
        for value in ["1.125", "23", "4097"] {
            assert!(text.contains(value), "{value} is missing in {text}");
        }
        let annotation = named(document, "the annotation");
        assert_eq!(annotation["args"]["Input type"].to_string(), r#"["first type","second type"]"#);
        assert_eq!(
            named(document, "inner frame")["args"],
            serde_json::json!({"stack": ["inner frame", "outer frame"], "int": -12})
        );
        assert_eq!(named(document, "the instant")["s"], "p");
        assert_eq!(named(document, "the instant")["args"]["text"], "value");
        assert_eq!(
            named(document, "the counter")["args"].to_string(),
            r#"{"float":0.25,"int":-12,"uint":18446744073709551615}"#
        );
    }
    let kernel = named(&torch, "the kernel")["args"].to_string();
    for value in ["41", "42", "43", "44", "45", "46", "47", "48", "49", "50", "-51", "5200000000", "37", "501", "9001"]
    {
        assert!(kernel.contains(value), "{value} is missing in {kernel}");
    }
    let memory =
        torch["traceEvents"].as_array().unwrap().iter().find(|event| event["name"] == "[memory]").expect("memory");
    for value in ["8193", &0x7f00_0000_1000_u64.to_string()] {
        assert!(memory.to_string().contains(value), "{value} is missing in {memory}");
    }
}

#[test]
fn bad_input_is_answered() {
    let (torch, plain) = each_way(EVERY, Language::C("c11"), "tests/c/bad_input.c");
    assert_eq!(parse(&torch)["note"], Value::Null);
    assert!(parse(&plain)["traceEvents"].as_array().is_some_and(|events| events.len() > 150));
}

#[test]
fn merging_works_from_c() {
    let (packed, plain) = each_way(EVERY, Language::C("c11"), "tests/c/merge.c");
    assert_eq!(parse(&packed)["traceName"], "merged");
    assert!(parse(&plain)["traceEvents"].as_array().is_some_and(Vec::is_empty));
}

#[test]
fn live_recording_works_from_c() {
    let (torch, recent) = each_way(EVERY, Language::C("c11"), "tests/c/live.c");
    let torch = parse(&torch);
    let count = |document: &Value, name: &str, ph: &str| {
        let events = document["traceEvents"].as_array().expect("events");
        events.iter().filter(|event| event["name"] == name && event["ph"] == ph).count()
    };
    // Of four threads; one more in which a signal handler recorded, less those that it interrupted; one over a fork.
    assert_eq!(count(&torch, "inner", "X"), 8000);
    assert!((8_001..=28_001).contains(&count(&torch, "outer", "X")));
    assert_eq!((count(&torch, "outer", "s"), count(&torch, "request", "b"), count(&torch, "queue", "C")), (1, 1, 1));
    let made_up = &named(&torch, "made up")["args"];
    assert_eq!((&made_up["float"], &made_up["bool"], &made_up["text"]), (&0.5.into(), &true.into(), &"words".into()));
    assert_eq!(
        (&made_up["key"], &named(&torch, "given")["dur"]),
        (&u64::MAX.into(), &serde_json::from_str("1.000").expect("a number"))
    );
    assert!(count(&parse(&recent), "outer", "X") > 1000);
}

/// Programs that do not link the library find it, or do without, or with one that lacks what they call.
#[test]
fn a_program_that_does_not_link_finds_the_library_or_does_without() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let path = |name: &str| folder.path().join(name);
    let mut old = compiler(Language::C("c11"));
    old.args(
        ["-shared", "-fPIC", "tests/c/old_library.c"]
            .map(|part| if part.ends_with(".c") { root().join(part) } else { part.into() }),
    );
    run(old.arg("-o").arg(path("old.so")));
    let library = libraries().join("libtptrace.so");
    for (name, language, more) in [
        ("c", Language::C("c99"), ""),
        ("cpp", Language::Cpp("c++17"), "-xc++"),
        ("sanitized", Language::C("c11"), "-fsanitize=address,undefined"),
    ] {
        let (first, second) = (path(&format!("{name}.1.o")), path(&format!("{name}.2.o")));
        for (object, define) in [(&first, "-DFIRST_FILE"), (&second, "-DSECOND_FILE")] {
            let mut compile = compiler(language);
            compile.args(if more.is_empty() { vec![] } else { vec![more] });
            run(compile.args(["-c", define]).arg(root().join("tests/c/loader.c")).arg("-o").arg(object));
        }
        let folder_of_program = path(name);
        std::fs::create_dir(&folder_of_program).expect("a folder");
        let program = folder_of_program.join("program");
        let mut link = compiler(language);
        link.args(if name == "sanitized" { vec![more] } else { vec![] });
        run(link.args([&first, &second]).arg("-o").arg(&program).args(["-ldl", "-pthread"]));
        let run_with = |variable: &str, expected: &str| {
            let mut command = Command::new(&program);
            command
                .env_remove("LD_LIBRARY_PATH")
                .env("TPTRACE_LIBRARY", variable)
                .env("ASAN_OPTIONS", "detect_leaks=0");
            run(command.arg(path("trace.json")).arg(expected));
        };
        run_with(&library.display().to_string(), "available");
        let written = std::fs::read(path("trace.json")).expect("written");
        assert_eq!(named(&parse(&written), "from the second file")["ph"], "i");
        run_with("/no/such/library.so", "absent");
        run_with(&path("old.so").display().to_string(), "old");
        run_with("", "absent");
        // The wrapper on the loader.
        if name == "cpp" {
            let wrapper = path("wrapper");
            let mut command = compiler(language);
            command.arg("-include").arg(root().join("bindings/cpp/tracer_loader.h"));
            run(command.arg(root().join("tests/cpp/wrapper.cpp")).arg("-o").arg(&wrapper).args(["-ldl", "-pthread"]));
            run(Command::new(&wrapper).env("TPTRACE_LIBRARY", &library).arg(path("wrapped.json")));
        }
        // Beside the executable.
        std::fs::copy(&library, folder_of_program.join("libtptrace.so.0")).expect("copied");
        run_with("", "available");
    }
}

/// The headers under flags of others: strict standards, without the system's extensions, with warnings that many have on.
#[test]
fn the_headers_are_clean_under_strict_standards() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let (c, cpp) = (folder.path().join("alone.c"), folder.path().join("alone.cpp"));
    let uses = "int main(void) { return tp_loader_available() ? (int)tp_cstr(tp_version()).len * 0 : 3; }\n";
    std::fs::write(&c, format!("#include \"tracer_loader.h\"\n{uses}")).expect("written");
    let uses = "#define BOTH(trace) TP_SPAN(trace, __func__); TP_SPAN_ARGS_IN(trace, \"x\", \"y\", {\"i\", 1}, {\"j\", 2})\n\
                int main() { tp_trace *trace = nullptr; BOTH(trace); return tp_loader_available() ? 0 : 3; }\n";
    std::fs::write(&cpp, format!("#include \"tracer_loader.h\"\n#include \"tracer.hpp\"\n{uses}")).expect("written");
    let library = libraries().join("libtptrace.so");
    let lone = folder.path().join("plugin");
    std::fs::create_dir(&lone).expect("a folder");
    std::fs::copy(&library, lone.join("libtptrace.so.0")).expect("copied");
    for standard in ["c99", "c11", "c17"] {
        let mut command = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".to_owned()));
        command.args(["-Wall", "-Wextra", "-Wpedantic", "-Wdeclaration-after-statement", "-Wconversion", "-Werror"]);
        command.arg(format!("-std={standard}")).arg("-I").arg(root().join("include"));
        command.arg("-I").arg(root().join("bindings/cpp")).arg(&c).arg("-o").arg(lone.join("program"));
        run(command.arg("-ldl"));
        // Beside the executable, which strict C has no call for.
        run(Command::new(lone.join("program")).env_remove("TPTRACE_LIBRARY").env_remove("LD_LIBRARY_PATH"));
    }
    // One that is still being copied: to load it is the end of the process.
    let whole = std::fs::read(&library).expect("read");
    for length in [0, 40, 4096, whole.len() / 2, whole.len() - 1] {
        std::fs::write(lone.join("libtptrace.so.0"), &whole[..length]).expect("written");
        let mut command = Command::new(lone.join("program"));
        let status = command.env_remove("TPTRACE_LIBRARY").env_remove("LD_LIBRARY_PATH").status().expect("runs");
        assert_eq!(status.code(), Some(3), "of {length} bytes");
    }
    let warnings =
        ["-Wold-style-cast", "-Wzero-as-null-pointer-constant", "-Wcast-qual", "-Wundef", "-Wsign-conversion"];
    run(compiler(Language::Cpp("c++17")).args(warnings).arg("-fsyntax-only").arg(&cpp));
}

/// A program with more rights than its user does not load what the user names.
#[test]
fn a_privileged_program_loads_no_library_that_its_user_names() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let (source, program) = (folder.path().join("alone.c"), folder.path().join("program"));
    let text = "#include \"tracer_loader.h\"\nint main(void) { return tp_loader_available() ? 7 : 0; }\n";
    std::fs::write(&source, text).expect("written");
    let build = |auxv: &str| {
        // The kernel's word for it, which takes another user's file to have otherwise.
        let lie = format!("-DTP_TEST_SECURE={auxv}");
        let wrap = folder.path().join("wrap.c");
        let text = "unsigned long __wrap_getauxval(unsigned long what);\n\
                    unsigned long __real_getauxval(unsigned long what);\n\
                    unsigned long __wrap_getauxval(unsigned long what) {\n\
                    return what == 23 ? TP_TEST_SECURE : __real_getauxval(what); }\n";
        std::fs::write(&wrap, text).expect("written");
        run(compiler(Language::C("c11"))
            .args([&source, &wrap])
            .args([&lie, "-Wl,--wrap=getauxval", "-ldl", "-o"])
            .arg(&program));
        let mut command = Command::new(&program);
        command.env("TPTRACE_LIBRARY", libraries().join("libtptrace.so")).env_remove("LD_LIBRARY_PATH");
        command.status().expect("runs").code()
    };
    assert_eq!((build("0"), build("1")), (Some(7), Some(0)));
}

#[test]
fn newer_callers_work() {
    each_way(EVERY, Language::C("c11"), "tests/c/future.c");
}

#[test]
fn gpus_are_asked_for_where_there_are_none() {
    let (_, torch) = each_way(EVERY, Language::C("c11"), "tests/c/gpu.c");
    assert_eq!(parse(&torch)["deviceProperties"], serde_json::json!([]));
}

#[test]
fn a_panic_is_contained() {
    each_way(EVERY, Language::C("c11"), "tests/c/panic.c");
}

#[test]
fn a_fork_is_noticed() {
    // Not sanitized: gcc 12's own allocator can hang in the child of a process with threads.
    each_way(&[Mode::Shared, Mode::Static], Language::C("c11"), "tests/c/fork.c");
}

#[test]
fn cancelled_threads_end_after_the_call() {
    let (document, _) = each_way(&[Mode::Shared, Mode::Static], Language::C("c11"), "tests/c/cancel.c");
    assert!(parse(&document)["traceEvents"].as_array().is_some_and(|events| events.len() > 30));
}

#[test]
fn threads_add_and_write() {
    let (document, _) = each_way(QUICK, Language::C("c11"), "tests/c/threads.c");
    let events = parse(&document)["traceEvents"].as_array().map_or(0, Vec::len);
    assert!(events >= 36_000, "{events} events");
}

#[test]
fn the_cpp_wrapper_works() {
    each_way(EVERY, Language::Cpp("c++17"), "tests/cpp/wrapper.cpp");
}

#[test]
fn the_cpp_wrapper_needs_no_exceptions() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let object = folder.path().join("second.o");
    let flags = ["-fno-exceptions", "-fno-rtti"];
    let source = "tests/cpp/no_exceptions.cpp";
    run(compiler(Language::Cpp("c++17"))
        .args(flags)
        .args(["-DSECOND_FILE", "-c"])
        .arg(root().join(source))
        .arg("-o")
        .arg(&object));
    let program = folder.path().join("program");
    let flags = ["-fno-exceptions", "-fno-rtti", object.to_str().expect("UTF-8")];
    build(Language::Cpp("c++17"), Mode::Shared, &[source], &flags, &program);
    start(Mode::Shared, &program, &[folder.path().join("out.json")]);
}

#[test]
fn the_examples_work_under_every_standard() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let program = folder.path().join("program");
    let out = folder.path().join("out.json");
    let run_example = |language, source| {
        build(language, Mode::Shared, &[source], &[], &program);
        start(Mode::Shared, &program, std::slice::from_ref(&out));
        parse(&std::fs::read(&out).expect("trace"))
    };
    for standard in ["c99", "c11", "c17"] {
        let document = run_example(Language::C(standard), "examples/c/record.c");
        assert_eq!(named(&document, "harmonic")["args"]["Input Dims"].to_string(), "[[64,128]]");
    }
    for standard in ["c++17", "c++20"] {
        let document = run_example(Language::Cpp(standard), "examples/cpp/record.cpp");
        assert_eq!(named(&document, "gelu_kernel")["args"]["stream"], 7);
    }
}

/// All structs and their members, as the header declares them.
fn members() -> Vec<(String, Vec<String>)> {
    let header = std::fs::read_to_string(root().join("include/tracer.h")).expect("header");
    let mut structs: Vec<(String, Vec<String>)> = Vec::new();
    let mut inside = false;
    let mut pending = String::new();
    for line in header.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("typedef struct ").and_then(|rest| rest.strip_suffix(" {")) {
            structs.push((name.to_owned(), Vec::new()));
            inside = true;
        } else if line.starts_with("} ") {
            inside = false;
        } else if inside && !line.starts_with("//") {
            pending.push_str(line);
            if !pending.ends_with(';') {
                continue;
            }
            let declaration = std::mem::take(&mut pending);
            let name = match declaration.find("(*") {
                Some(at) => &declaration[at + 2..at + declaration[at..].find(')').expect("a pointer to a function")],
                None => declaration.trim_end_matches(';').rsplit([' ', '*']).next().expect("a name"),
            };
            structs.last_mut().expect("a struct").1.push(name.to_owned());
        }
    }
    structs
}

/// Compares with a committed file, or rewrites it if TP_BLESS is set.
fn committed(path: &str, now: &str) {
    let path = root().join(path);
    if std::env::var_os("TP_BLESS").is_some() {
        std::fs::write(&path, now).expect("write");
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(before, now, "{} is not current; if the change is meant, `TP_BLESS=1 cargo test`", path.display());
}

#[test]
fn the_layout_is_the_committed_one() {
    let folder = tempfile::tempdir().expect("scratch folder");
    let structs = members();
    assert!(structs.len() >= 12 && structs.iter().all(|(_, members)| members.len() >= 2), "{structs:?}");
    let mut lines = String::new();
    for (name, members) in &structs {
        lines.push_str(&format!("STRUCT({name});\n"));
        for member in members {
            lines.push_str(&format!("MEMBER({name}, {member});\n"));
        }
    }
    std::fs::write(folder.path().join("members.inc"), lines).expect("write");
    let include = format!("-I{}", folder.path().display());
    let program = folder.path().join("layout");
    build(Language::C("c99"), Mode::Shared, &["tests/c/layout.c"], &[&include], &program);
    committed("tests/abi/layout.txt", &start(Mode::Shared, &program, &[]));
}

#[test]
fn the_exports_are_the_committed_ones() {
    let library = libraries().join("libtptrace.so");
    let names = run(Command::new("nm").args(["-D", "--defined-only", "--format=posix"]).arg(&library));
    let mut names: Vec<&str> = names.lines().filter_map(|line| line.split(' ').next()).collect();
    names.sort_unstable();
    committed("tests/abi/symbols.txt", &(names.join("\n") + "\n"));

    let dynamic = run(Command::new("readelf").args(["-d", "-W"]).arg(&library));
    assert!(dynamic.contains("Library soname: [libtptrace.so.0]"), "{dynamic}");
    assert!(dynamic.contains("NODELETE"), "{dynamic}");
    for line in dynamic.lines().filter(|line| line.contains("(NEEDED)")) {
        let known = ["libgcc_s.so.1", "libc.so.6", "libm.so.6", "ld-linux"];
        assert!(known.iter().any(|name| line.contains(name)), "a library that not every machine has: {line}");
    }
}
