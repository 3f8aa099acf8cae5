//! `include/tracer.h` is what cbindgen makes of `src/capi` today, and the C++ headers include little.

use std::path::Path;
use std::process::Command;

#[test]
fn the_committed_header_is_current() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut fresh = Vec::new();
    cbindgen::Builder::new().with_crate(root).with_config(config).generate().expect("bindings").write(&mut fresh);
    let fresh = String::from_utf8(fresh).expect("UTF-8");
    let path = root.join("include/tracer.h");
    if std::env::var_os("TP_BLESS").is_some() {
        std::fs::write(&path, &fresh).expect("include/tracer.h");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == fresh, "include/tracer.h is not current: run `TP_BLESS=1 cargo test --test header`");
}

#[test]
fn the_version_of_the_header_is_the_crate_s() {
    let header = include_str!("../include/tracer.h");
    for (part, number) in [
        ("MAJOR", env!("CARGO_PKG_VERSION_MAJOR")),
        ("MINOR", env!("CARGO_PKG_VERSION_MINOR")),
        ("PATCH", env!("CARGO_PKG_VERSION_PATCH")),
    ] {
        assert!(header.contains(&format!("#define TP_VERSION_{part} {number}\n")), "cbindgen.toml: TP_VERSION_{part}");
    }
    let cmake = include_str!("../bindings/cmake/tptraceConfigVersion.cmake");
    let line = concat!("set(PACKAGE_VERSION \"", env!("CARGO_PKG_VERSION"), "\")\n");
    assert!(cmake.contains(line), "bindings/cmake/tptraceConfigVersion.cmake: PACKAGE_VERSION");
}

/// Every function and every number of the header, one a line.
fn declarations() -> String {
    let header = include_str!("../include/tracer.h");
    let mut lines: Vec<String> =
        functions(header).iter().map(|one| format!("{} {}({})", one.result.trim(), one.name, one.parameters)).collect();
    let numbers = header.lines().filter_map(|line| line.strip_prefix("#define TP_")).filter(|line| {
        let value = line.split(' ').nth(1).unwrap_or_default();
        !line.starts_with("VERSION_") && value.trim_start_matches(['(', '-']).starts_with(|c: char| c.is_ascii_digit())
    });
    lines.extend(numbers.map(|line| format!("TP_{line}")));
    lines.join("\n") + "\n"
}

/// What a version had, every later one has: members at their offsets, symbols, functions, numbers. Structs may grow.
#[test]
fn what_was_released_is_still_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/abi");
    let read =
        |path: &Path| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut versions = 0;
    for entry in std::fs::read_dir(&root).expect("tests/abi") {
        let released = entry.expect("an entry").path();
        if !released.is_dir() {
            continue;
        }
        versions += 1;
        let declared = released.join("declarations.txt");
        if std::env::var_os("TP_BLESS").is_some() && !declared.exists() {
            std::fs::write(&declared, declarations()).expect("written");
        }
        for list in ["layout.txt", "symbols.txt", "declarations.txt"] {
            let now = if list == "declarations.txt" { declarations() } else { read(&root.join(list)) };
            let now: std::collections::HashSet<&str> = now.lines().collect();
            let before = read(&released.join(list));
            for line in before.lines().filter(|line| list != "layout.txt" || line.split(' ').count() == 3) {
                // The package's and the tests' own promise nothing.
                let private = line.starts_with("tp_py_") || line.starts_with("tp_test_");
                assert!(private || now.contains(line), "{line:?} of {} is gone or has changed", released.display());
            }
        }
    }
    assert!(versions > 0);
}

/// A function that the header declares.
struct Function {
    result: String,
    name: String,
    parameters: String,
}

/// Those of this library; cbindgen also prints what the crate imports, unless cbindgen.toml excludes it.
fn functions(header: &str) -> Vec<Function> {
    let mut all = Vec::new();
    let mut lines = header.lines();
    while let Some(line) = lines.next() {
        let starts = line.starts_with(|c: char| c.is_ascii_alphabetic()) && line.contains('(');
        if !starts || line.starts_with("typedef") || line.starts_with("static") || line.starts_with("inline") {
            continue;
        }
        let mut text = line.to_owned();
        while !text.ends_with(';') {
            text.push(' ');
            text.push_str(lines.next().expect("the end of a declaration").trim());
        }
        let (before, after) = text.split_once('(').expect("seen above");
        let name = before.rsplit([' ', '*']).next().expect("a name").to_owned();
        let result = before[..before.len() - name.len()].to_owned();
        assert!(name.starts_with("tp_"), "{name}: exclude it in cbindgen.toml");
        all.push(Function { result, name, parameters: after.trim_end_matches(");").to_owned() });
    }
    assert!(all.len() > 50);
    all
}

/// What stands for a function in `tracer_loader.h`.
fn loaded(Function { name, result, parameters }: &Function) -> String {
    let member = name.strip_prefix("tp_").expect("seen above");
    let given: Vec<&str> =
        parameters.split(',').filter(|one| *one != "void").filter_map(|one| one.rsplit([' ', '*']).next()).collect();
    let call = format!("tp_loader()->{member}({})", given.join(", "));
    let (answer, otherwise) = match (name.as_str(), result.trim_end()) {
        ("tp_status_name", _) => ("return ", "return \"unavailable\";"),
        ("tp_last_error_message", _) => ("return ", "return tp_loader_no_message(buffer, capacity);"),
        (_, "tp_status") => ("return ", "return TP_STATUS_UNAVAILABLE;"),
        (_, "void") => ("", ""),
        (_, "const char *") => ("return ", "return \"\";"),
        (_, "const uint8_t *") => ("return ", "return &tp_loader_off;"),
        (_, "int64_t" | "size_t") => ("return ", "return 0;"),
        other => panic!("{other:?}: what stands for it?"),
    };
    let unused: String = match otherwise {
        "return tp_loader_no_message(buffer, capacity);" => String::new(),
        _ => given.iter().map(|one| format!("(void){one}, ")).collect(),
    };
    let unused = if unused.is_empty() { unused } else { format!("    {};\n", unused.trim_end_matches(", ")) };
    let otherwise = if otherwise.is_empty() { otherwise.to_owned() } else { format!("    {otherwise}\n") };
    format!(
        "static inline {result}tp_loader_{member}({parameters}) {{\n    if (TP_LOADER_HAS({member})) {answer}{call};\n\
         {unused}{otherwise}}}\n#define {name} tp_loader_{member}\n"
    )
}

#[test]
fn the_loader_covers_every_function() {
    const START: &str = "// <functions>: TP_BLESS=1 cargo test --test header\n";
    const END: &str = "// </functions>\n";
    let header = include_str!("../include/tracer.h");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("bindings/cpp/tracer_loader.h");
    let committed = std::fs::read_to_string(&path).expect("bindings/cpp/tracer_loader.h");
    let (before, rest) = committed.split_once(START).expect("the start of the functions");
    let (_, after) = rest.split_once(END).expect("the end of the functions");
    let fresh: String = functions(header).iter().map(loaded).collect();
    let fresh = format!("{before}{START}{fresh}{END}{after}");
    if std::env::var_os("TP_BLESS").is_some() {
        std::fs::write(&path, &fresh).expect("written");
    }
    let committed = std::fs::read_to_string(&path).expect("bindings/cpp/tracer_loader.h");
    assert!(committed == fresh, "tracer_loader.h is not current: run `TP_BLESS=1 cargo test --test header`");
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn compiler(standard: &str) -> Command {
    let mut command = Command::new(std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned()));
    command.arg(format!("-std={standard}")).args(["-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    command.arg("-I").arg(root().join("include")).arg("-I").arg(root().join("bindings/cpp"));
    command
}

/// What programs include all over the place must not take long to compile: `benches/cpp_compile.py` measures it, and this
/// sees that no heavy header of the standard library comes back.
#[test]
fn the_cpp_wrapper_includes_no_heavy_headers() {
    let folder = tempfile::tempdir().expect("scratch folder");
    // The files that a program of these lines is made of, by name.
    let files = |standard: &'static str, lines: &str| -> std::collections::BTreeSet<String> {
        let source = folder.path().join("included.cpp");
        std::fs::write(&source, lines).expect("write");
        let rule = run(compiler(standard).arg("-M").arg(&source));
        rule.split_whitespace().filter_map(|word| Some(Path::new(word).file_name()?.to_str()?.to_owned())).collect()
    };
    let heavy: Vec<&str> =
        "functional std_function.h refwrap.h memory shared_ptr.h unique_ptr.h algorithm tuple vector \
        stl_vector.h optional variant any ostream istream iostream sstream ios streambuf locale map \
        unordered_map array iterator mutex thread atomic numeric utility string.h"
            .split_whitespace()
            .collect();
    let (dependencies, ours) = ("#include <string>\n#include <chrono>\n", "#include \"tracer.hpp\"\n");
    for standard in ["c++17", "c++20"] {
        let free = files(standard, dependencies);
        let all = files(standard, &format!("{dependencies}{ours}"));
        assert!(free.contains("chrono") && all.contains("tracer_trace.hpp"), "{all:?}");
        let more: Vec<&String> = all.difference(&free).filter(|name| !name.starts_with("tracer")).collect();
        for name in &more {
            assert!(!heavy.contains(&name.as_str()), "{standard}: tracer.hpp includes <{name}>: {more:?}");
        }
        // How libstdc++ cuts its headers into files is its own, but there are few of these.
        assert!(more.len() <= 12, "{standard}: {more:?}");
    }
    // What is included by name, in whichever library.
    for header in std::fs::read_dir(root().join("bindings/cpp")).expect("the headers") {
        let path = header.expect("a header").path();
        // Each is one that a program may include alone.
        let alone = folder.path().join("alone.cpp");
        std::fs::write(&alone, format!("#include {path:?}\n")).expect("write");
        run(compiler("c++17").arg("-fsyntax-only").arg(&alone));
        if path.extension().is_some_and(|extension| extension == "hpp") {
            let text = std::fs::read_to_string(&path).expect("a header");
            let named = text.lines().filter_map(|line| line.strip_prefix("#include <")?.strip_suffix('>'));
            for name in named {
                let light = "cstddef cstdint exception initializer_list new stdexcept string string_view type_traits";
                assert!(light.split(' ').any(|light| light == name), "{} includes <{name}>", path.display());
            }
        }
    }
}
