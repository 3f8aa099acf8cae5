//! What a check says.

use std::fmt::Write;

use serde::Serialize;

use super::codes::Severity;

/// What was found in some documents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckReport {
    /// The documents, in the order in which they were given.
    pub files: Vec<FileReport>,
}

/// What was found in a document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct FileReport {
    /// As it was given.
    pub path: String,
    /// Events that could be read.
    pub events: u64,
    /// What was found, errors first.
    pub findings: Vec<Finding>,
}

/// Something that readers stumble over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// Its name, which stays the same in later versions.
    pub code: &'static str,
    /// Who stumbles over it.
    pub readers: &'static [&'static str],
    /// What it means.
    pub message: String,
    /// How often.
    pub count: u64,
    /// Where it is first met; nothing for what is of the whole document.
    pub places: Vec<Place>,
}

/// A place in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Place {
    /// Bytes of JSON (after decompression) before it.
    pub offset: u64,
    /// Its line, from 1.
    pub line: u64,
}

impl CheckReport {
    /// How many kinds of errors and of warnings there are in all documents.
    pub fn totals(&self) -> (usize, usize) {
        let all = self.files.iter().flat_map(|file| &file.findings);
        let errors = all.clone().filter(|finding| finding.severity == Severity::Error).count();
        (errors, all.count() - errors)
    }

    /// One JSON object, whose keys are the fields of [`CheckReport`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Lines for people. `colour`: with the escapes of a terminal.
    pub fn to_text(&self, colour: bool) -> String {
        let mut out = String::new();
        let paint =
            |text: &str, code: &str| if colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() };
        for file in &self.files {
            let clean = if file.findings.is_empty() { ": nothing found" } else { "" };
            let _ = writeln!(out, "{}: {} events{clean}", plain(&file.path), file.events);
            for finding in &file.findings {
                let severity = match finding.severity {
                    Severity::Error => paint("error", "31"),
                    Severity::Warning => paint("warning", "33"),
                };
                let times = if finding.count > 1 { format!(" ({} times)", finding.count) } else { String::new() };
                let _ = writeln!(out, "  {severity} {}: {}{times}", finding.code, plain(&finding.message));
                let _ = write!(out, "    readers: {}", finding.readers.join(", "));
                let places: Vec<String> =
                    finding.places.iter().map(|place| format!("line {} (byte {})", place.line, place.offset)).collect();
                if !places.is_empty() {
                    let more = if finding.count > places.len() as u64 { ", ..." } else { "" };
                    let _ = write!(out, "; at {}{more}", places.join(", "));
                }
                out.push('\n');
            }
        }
        out
    }
}

/// Without control characters, which could do things to a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
