//! From what the user typed to a source of events: finds the files, undoes compression, recognises the format.

use crate::error::{Result, TraceError};
use crate::find::{COMPRESSED, find};
use crate::formats::{FORMATS, Format};
use crate::interrupt;
use crate::opening::{Notes, Opened, UntilDamage};
use crate::sidecar;
use crate::source::{OpenFile, OpenInput, Source};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

/// How much of a file a format is recognised from.
const HEAD: usize = 64 << 10;

/// Opens a trace.
///
/// Each of `paths` is `-` for standard input, a file, a directory of blktrace sets, or the name of a set:
/// `elephant` for `elephant.blktrace.0`, `.1`, …. One file of a set stands for the whole set, as in
/// blkparse. Several paths are read as one trace with a common time zero. `format` overrides recognition.
pub fn open(paths: &[String], format: Option<&str>) -> Result<Box<dyn Source>> {
    let notes = Notes::default();
    let mut sets = Vec::new();
    for path in paths {
        for set in find(path, &notes)? {
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
    }
    let mut inputs = Vec::new();
    let mut dropped: Option<u64> = None;
    let mut empty = None;
    for set in sets {
        let mut files = Vec::new();
        for path in &set.files {
            let file = open_file(path, &notes)?;
            // A CPU that saw no event leaves an empty file.
            if !(file.head.is_empty() && set.is_set) {
                files.push(file);
            }
        }
        if files.iter().all(|f| f.head.is_empty()) {
            empty.get_or_insert(set.shown.clone());
            notes.warn(&set.shown, "empty: no event was recorded");
            continue;
        }
        if let Some(count) = set.files.first().and_then(|file| sidecar::dropped(file, &set.name)) {
            dropped = Some(dropped.unwrap_or(0).saturating_add(count));
        }
        inputs.push(OpenInput { name: set.name, files });
    }
    if let (true, Some(path)) = (inputs.is_empty(), empty) {
        return Err(notes.damage().unwrap_or(TraceError::Empty { path }));
    }
    let format = match format {
        Some(name) => by_name(name)?,
        None => recognise(&inputs)?,
    };
    let source = format.open(inputs)?;
    Ok(Box::new(Opened::new(source, notes, dropped)))
}

fn by_name(name: &str) -> Result<&'static Format> {
    FORMATS
        .iter()
        .find(|f| f.name == name)
        .ok_or_else(|| TraceError::Request(format!("format {name:?} is not known; known: {}", known())))
}

fn known() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

fn recognise(inputs: &[OpenInput]) -> Result<&'static Format> {
    let Some(file) = inputs.iter().flat_map(|i| &i.files).next() else {
        return Err(TraceError::Request("no trace given".into()));
    };
    FORMATS.iter().find(|f| (f.sniff)(&file.head)).ok_or_else(|| TraceError::UnknownFormat {
        path: file.path.clone(),
        found: looks_like(&file.head),
        known: known(),
    })
}

/// A few words on what a file is, when no format fits.
fn looks_like(head: &[u8]) -> String {
    let text = head
        .iter()
        .take(512)
        .all(|&b| b == b'\t' || b == b'\n' || b == b'\r' || (32..127).contains(&b) || b >= 128);
    if text {
        let line =
            String::from_utf8_lossy(head.split(|&b| b == b'\n').next().unwrap_or(head)).trim().to_owned();
        let short: String = line.chars().take(60).collect();
        format!("a text file, but no trace in a known format (it begins {short:?})")
    } else {
        let bytes: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
        format!("not a trace in a known format (it begins {})", bytes.join(" "))
    }
}

fn open_file(path: &Path, notes: &Notes) -> Result<OpenFile> {
    let mut shown = path.to_string_lossy().into_owned();
    let raw: Box<dyn Read + Send> = if shown == "-" {
        shown = "standard input".into();
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(|e| TraceError::io(&shown, e))?)
    };
    let (magic, reader) = peek(raw, 6).map_err(|e| TraceError::io(&shown, e))?;
    let whole = |decompressed| UntilDamage::new(decompressed, shown.clone(), notes.clone());
    let reader: Box<dyn Read + Send> = match magic.as_slice() {
        [0x1f, 0x8b, ..] => {
            Box::new(whole(Box::new(flate2::read::MultiGzDecoder::new(reader)) as Box<dyn Read + Send>))
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            Box::new(whole(Box::new(lzma_rust2::XzReader::new(reader, true))))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = zstd::Decoder::new(reader).map_err(|e| TraceError::io(&shown, e))?;
            Box::new(whole(Box::new(decoder)))
        }
        _ => reader,
    };
    for suffix in COMPRESSED {
        if let Some(plain) = shown.strip_suffix(suffix) {
            shown = plain.to_owned();
        }
    }
    let (head, reader) = peek(reader, HEAD).map_err(|e| TraceError::io(&shown, e))?;
    Ok(OpenFile { path: shown, head, reader })
}

/// Reads the first bytes and gives them back together with a reader that starts before them. A source that
/// ends with an error after some bytes (a cut-off compressed file) gives those bytes first.
fn peek(mut reader: Box<dyn Read + Send>, wanted: usize) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut head = vec![0; wanted];
    let mut have = 0;
    while have < wanted {
        match reader.read(&mut head[have..]) {
            Ok(0) => break,
            Ok(n) => have += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted && !interrupt::requested() => {}
            Err(e) if have == 0 || e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(_) => break,
        }
    }
    head.truncate(have);
    let chained = Cursor::new(head.clone()).chain(reader);
    Ok((head, Box::new(chained)))
}
