//! `tptrace view`: who gets the file, and who does not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const UI: &str = "https://ui.perfetto.dev";

struct View {
    child: Child,
    port: u16,
    path: String,
}

impl View {
    fn of(file: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_tptrace"))
            .args(["view", "--no-open", "--port", "0"])
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("its address");
        let served = line.trim().strip_prefix("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:").expect("the page");
        let (port, path) = served.split_at(served.find('/').expect("a path"));
        Self { child, port: port.parse().expect("a port"), path: path.to_owned() }
    }

    /// The answer to what is sent as it is.
    fn send(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("listening");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("set");
        // A server that has refused may be gone before all was sent.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer
    }

    fn ask(&self, method: &str, path: &str, origin: &str) -> String {
        let request = format!("{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nOrigin: {origin}\r\n\r\n", self.port);
        String::from_utf8_lossy(&self.send(request.as_bytes())).into_owned()
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_gets_the_file_once() {
    let folder = tempfile::tempdir().expect("scratch");
    let file = folder.path().join("a trace #1.json");
    let bytes: Vec<u8> = (0..1_000_000u32).flat_map(u32::to_le_bytes).collect();
    std::fs::write(&file, &bytes).expect("written");
    let mut view = View::of(&file);
    assert_eq!(view.path, "/a%20trace%20%231.json");

    let preflight = view.ask("OPTIONS", &view.path, UI);
    assert!(preflight.starts_with("HTTP/1.1 204 "), "{preflight}");
    assert!(preflight.contains("Access-Control-Allow-Private-Network: true\r\n"), "{preflight}");
    let head = view.ask("HEAD", &view.path, UI);
    assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("Content-Length: 4000000\r\n"), "{head}");
    assert!(head.ends_with("\r\n\r\n"), "a body follows");

    let request = format!("GET {} HTTP/1.1\r\nhost: localhost:{}\r\norigin: {UI}\r\n\r\n", view.path, view.port);
    let answer = view.send(request.as_bytes());
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head") + 4;
    let head = String::from_utf8_lossy(&answer[..end]);
    assert!(head.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev\r\n"), "{head}");
    assert!(answer[end..] == bytes, "other bytes than those of the file");
    assert!(view.child.wait().expect("it ends").success());
}

#[test]
fn nobody_else_gets_anything() {
    let folder = tempfile::tempdir().expect("scratch");
    let file = folder.path().join("t.json");
    std::fs::write(&file, "SECRET").expect("written");
    std::fs::write(folder.path().join("other.json"), "SECRET").expect("written");
    let mut view = View::of(&file);
    let port = view.port;
    let status = |answer: &str, expected: &str| {
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected} ")), "expected {expected}: {answer}");
        assert!(!answer.contains("SECRET") && !answer.contains("Access-Control"), "{answer}");
    };
    for origin in ["https://evil.example", "null", "http://ui.perfetto.dev", "https://ui.perfetto.dev.evil.example", ""]
    {
        status(&view.ask("GET", "/t.json", origin), "403");
    }
    for path in
        ["/", "/other.json", "/../t.json", "/t.json/..", "//t.json", "/t.json?x", "/%74.json", "t.json", "/etc/passwd"]
    {
        status(&view.ask("GET", path, UI), "404");
    }
    for method in ["POST", "PUT", "DELETE", "get"] {
        status(&view.ask(method, "/t.json", UI), "405");
    }
    let raw = |request: String| String::from_utf8_lossy(&view.send(request.as_bytes())).into_owned();
    let origin = format!("Origin: {UI}\r\n");
    // No origin, two of them, another host's name, none.
    status(&raw(format!("GET /t.json HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")), "403");
    status(&raw(format!("GET /t.json HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{origin}{origin}\r\n")), "403");
    status(&raw(format!("GET /t.json HTTP/1.1\r\nHost: evil.example:{port}\r\n{origin}\r\n")), "403");
    status(&raw(format!("GET /t.json HTTP/1.1\r\n{origin}\r\n")), "403");
    // What is no request.
    status(&raw(format!("GET /t.json\r\nHost: 127.0.0.1:{port}\r\n{origin}\r\n")), "400");
    status(&raw("\r\n\r\n".into()), "400");
    status(&raw(format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000))), "400");
    assert!(!String::from_utf8_lossy(&view.send(b"\xff\xfe\0\x01\r\n\r\n")).contains("SECRET"));
    let silent = TcpStream::connect(("127.0.0.1", port)).expect("listening");
    drop(silent);
    assert!(view.child.try_wait().expect("asked").is_none(), "it ended");
    assert!(view.ask("GET", "/t.json", UI).ends_with("\r\n\r\nSECRET"));
    assert!(view.child.wait().expect("it ends").success());
}

#[test]
fn what_cannot_be_served_is_said() {
    let folder = tempfile::tempdir().expect("scratch");
    for path in [folder.path().to_path_buf(), folder.path().join("missing.json")] {
        let done =
            Command::new(env!("CARGO_BIN_EXE_tptrace")).args(["view", "--no-open", "--port", "0"]).arg(&path).output();
        let done = done.expect("the command");
        assert!(!done.status.success() && done.stdout.is_empty());
        assert!(String::from_utf8_lossy(&done.stderr).starts_with("tptrace: "));
    }
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let port = taken.local_addr().expect("bound").port().to_string();
    let file = folder.path().join("t.json");
    std::fs::write(&file, "{}").expect("written");
    let done =
        Command::new(env!("CARGO_BIN_EXE_tptrace")).args(["view", "--no-open", "--port", &port]).arg(&file).output();
    let done = done.expect("the command");
    assert!(!done.status.success() && String::from_utf8_lossy(&done.stderr).contains("is in use"));
}
