//! `tptrace view`: one file, to one page, once.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::Error;
use clap::Args;

/// The page, and the one origin that gets the file.
const UI: &str = "https://ui.perfetto.dev";
/// Bytes of a request that are read before it is refused.
const REQUEST: usize = 16 << 10;
/// How long a client may take to send its request, and to take the next bytes of the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Clients that are served at a time; browsers open some connections ahead.
const CLIENTS: usize = 16;

/// Opens a trace in Perfetto's viewer in the browser.
///
/// Serves the file to the page at <https://ui.perfetto.dev>, and to nobody else: on this machine's loopback address only, at one
/// path, until the page has fetched it. The trace stays on this machine; the viewer works on it inside the browser.
///
/// The page itself comes from the network. A browser that opened it before keeps it, and can open it without. Where there is no
/// network at all, open the file by hand in a viewer that is installed, or copy it to a machine that has one.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// A trace file: .json, .json.gz, .pftrace or .pftrace.gz.
    file: PathBuf,
    /// Only say which address to open.
    #[arg(long)]
    no_open: bool,
    /// The port to serve on. The page's security policy allows it 9001 alone; 0 is any free one, for other tools.
    #[arg(long, default_value_t = 9001)]
    port: u16,
}

/// What is served, and where.
struct Served {
    file: File,
    size: u64,
    /// `/NAME`, as in the address.
    path: String,
    port: u16,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Error> {
    let path = &arguments.file;
    let file = File::open(path).map_err(Error::io("open", path))?;
    let data = file.metadata().map_err(Error::io("read the size of", path))?;
    if !data.is_file() {
        return Err(Error::invalid(format!("{} is no file that can be served", path.display())));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, arguments.port)).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => Error::invalid(format!(
            "port {} of 127.0.0.1 is in use, perhaps by another tptrace view or by trace_processor; end that first: \
             the page may fetch from no other port",
            arguments.port
        )),
        _ => Error::invalid(format!("cannot serve on 127.0.0.1:{}: {error}", arguments.port)),
    })?;
    let port = listener.local_addr().map_or(arguments.port, |address| address.port());
    let name = path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes();
    let served = Arc::new(Served { file, size: data.len(), path: format!("/{}", escaped(name)), port });
    let address = format!("{UI}/#!/?url=http://127.0.0.1:{port}{}", served.path);
    super::terminal::print(&format!("{address}\n"))?;
    if arguments.no_open || !open(&address) {
        super::terminal::say!("tptrace: open this address in a browser on this machine; interrupt to end");
    }
    let (done, fetched) = channel();
    std::thread::spawn(move || accept(&listener, &served, &done));
    // The file is there until the page has it, or until this is interrupted.
    fetched.recv().map_err(|_| Error::invalid("the listening socket failed"))?;
    super::terminal::say!("tptrace: the page has the file");
    Ok(())
}

/// A name as it stands in an address.
fn escaped(name: &[u8]) -> String {
    let mut text = String::new();
    for &byte in name {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// Whether some program took the address.
fn open(address: &str) -> bool {
    let quiet = |program: &str| {
        Command::new(program).arg(address).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    };
    ["xdg-open", "open"].iter().any(|program| quiet(program).is_ok_and(|status| status.success()))
}

fn accept(listener: &TcpListener, served: &Arc<Served>, done: &Sender<()>) {
    let clients = Arc::new(AtomicUsize::new(0));
    for stream in listener.incoming() {
        let Ok(stream) = stream else {
            // Out of descriptors, say: not at once again.
            std::thread::sleep(Duration::from_millis(50));
            continue;
        };
        if clients.fetch_add(1, Ordering::AcqRel) >= CLIENTS {
            clients.fetch_sub(1, Ordering::AcqRel);
            continue;
        }
        let (served, done, count) = (Arc::clone(served), done.clone(), Arc::clone(&clients));
        let serve = move || {
            if answer(&stream, &served).unwrap_or(false) {
                // The client reads to the end before this process ends.
                let _ = stream.shutdown(Shutdown::Write);
                let _ = (&stream).read(&mut [0; 64]);
                let _ = done.send(());
            }
            count.fetch_sub(1, Ordering::AcqRel);
        };
        if std::thread::Builder::new().spawn(serve).is_err() {
            clients.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Answers one request; true if that gave the whole file away.
fn answer(mut stream: &TcpStream, served: &Served) -> io::Result<bool> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(request) = request(stream)? else {
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")?;
        return Ok(false);
    };
    let mut lines = request.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, path, version) = (words.next().unwrap_or_default(), words.next(), words.next());
    let (mut hosts, mut origins) = (Vec::new(), Vec::new());
    for line in lines {
        let Some((name, value)) = line.split_once(':') else { continue };
        if name.eq_ignore_ascii_case("host") {
            hosts.push(value.trim());
        } else if name.eq_ignore_ascii_case("origin") {
            origins.push(value.trim());
        }
    }
    let host = [format!("127.0.0.1:{}", served.port), format!("localhost:{}", served.port)];
    let refused = if !version.is_some_and(|version| version.starts_with("HTTP/1.")) || words.next().is_some() {
        Some("400 Bad Request")
    } else if !matches!(hosts[..], [one] if host.iter().any(|host| host == one)) || origins != [UI] {
        // Another page's script, or a name that was made to point here.
        Some("403 Forbidden")
    } else if path != Some(&served.path) {
        Some("404 Not Found")
    } else if !matches!(method, "GET" | "HEAD" | "OPTIONS") {
        Some("405 Method Not Allowed")
    } else {
        None
    };
    if let Some(status) = refused {
        stream.write_all(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").as_bytes())?;
        return Ok(false);
    }
    let allowed = format!(
        "Access-Control-Allow-Origin: {UI}\r\nVary: Origin\r\nCache-Control: no-store\r\nConnection: close\r\n"
    );
    if method == "OPTIONS" {
        // What browsers ask before a page of the network may fetch from this machine.
        stream.write_all(
            format!(
                "HTTP/1.1 204 No Content\r\n{allowed}Access-Control-Allow-Methods: GET, HEAD\r\n\
                 Access-Control-Allow-Headers: *\r\nAccess-Control-Allow-Private-Network: true\r\n\r\n"
            )
            .as_bytes(),
        )?;
        return Ok(false);
    }
    let size = served.size;
    stream.write_all(
        format!(
            "HTTP/1.1 200 OK\r\n{allowed}Content-Type: application/octet-stream\r\nX-Content-Type-Options: nosniff\r\n\
             Content-Length: {size}\r\n\r\n"
        )
        .as_bytes(),
    )?;
    if method == "HEAD" {
        return Ok(false);
    }
    let mut buffer = vec![0; 256 << 10];
    let mut at = 0;
    while at < size {
        let want = buffer.len().min((size - at) as usize);
        let got = served.file.read_at(&mut buffer[..want], at)?;
        if got == 0 {
            // It was cut meanwhile: the client sees that bytes are missing.
            return Ok(false);
        }
        stream.write_all(&buffer[..got])?;
        at += got as u64;
    }
    Ok(true)
}

/// The request up to its empty line; `None` if it is too long, too slow, or no text.
fn request(mut stream: &TcpStream) -> io::Result<Option<String>> {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut buffer = [0; 2048];
    while bytes.len() < REQUEST && Instant::now() < deadline {
        let got = stream.read(&mut buffer)?;
        bytes.extend_from_slice(&buffer[..got]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            bytes.truncate(end);
            return Ok(String::from_utf8(bytes).ok());
        }
        if got == 0 {
            break;
        }
    }
    Ok(None)
}
