//! Opens traces: finds the files, decompresses them, recognises the format.

use crate::error::{Result, TraceError};
use crate::formats::{FORMATS, Format, open_table};
use crate::input_files::{COMPRESSED, find_file_sets};
use crate::interrupt;
use crate::opened_source::{DamageTolerantReader, OpenedSource, OpeningWarnings};
use crate::sidecar;
use crate::source::{OpenFile, OpenInput, Source};
use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

/// The bytes of a file that recognition gets.
const HEAD: usize = 64 << 10;

/// The beginning of a format that names columns: `columns:time=ts,op=rw,…`.
pub const COLUMNS: &str = "columns:";

/// Opens a trace.
///
/// Each of `paths` is `-` for standard input, a file, a directory of blktrace sets, or the name of a set:
/// `elephant` for `elephant.blktrace.0`, `.1`, …. One file of a set stands for the whole set, as in
/// blkparse. Several paths are read as one trace with a common time zero. `format` overrides recognition; after
/// [`COLUMNS`], it says which column of a table holds what.
pub fn open(paths: &[String], format: Option<&str>) -> Result<Box<dyn Source>> {
    let warnings = OpeningWarnings::default();
    let mut sets = Vec::new();
    for path in paths {
        for set in find_file_sets(path, &warnings)? {
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
            let file = open_file(path, &warnings)?;
            // A CPU without events leaves an empty file.
            if !(file.head.is_empty() && set.is_set) {
                files.push(file);
            }
        }
        if files.iter().all(|f| f.head.is_empty()) {
            empty.get_or_insert(set.display_name.clone());
            warnings.warn(&set.display_name, "empty: no event was recorded");
            continue;
        }
        if let Some(count) = set.files.first().and_then(|file| sidecar::read_dropped_events(file, &set.name)) {
            dropped = Some(dropped.unwrap_or(0).saturating_add(count));
        }
        inputs.push(OpenInput { name: set.name, files });
    }
    if let (true, Some(path)) = (inputs.is_empty(), empty) {
        return Err(warnings.damage().unwrap_or(TraceError::Empty { path }));
    }
    let source = match format.map(|name| (name, name.strip_prefix(COLUMNS))) {
        Some((_, Some(columns))) => open_table(inputs, columns)?,
        Some((name, None)) => format_by_name(name)?.open(inputs)?,
        None => recognise_format(&inputs)?.open(inputs)?,
    };
    Ok(Box::new(OpenedSource::new(source, warnings, dropped)))
}

fn format_by_name(name: &str) -> Result<&'static Format> {
    FORMATS
        .iter()
        .find(|f| f.name == name)
        .ok_or_else(|| TraceError::Request(format!("unknown format {name:?}: expected one of {}", known_formats())))
}

fn known_formats() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

fn recognise_format(inputs: &[OpenInput]) -> Result<&'static Format> {
    let Some(file) = inputs.iter().flat_map(|i| &i.files).next() else {
        return Err(TraceError::Request("no trace given: expected at least one path".into()));
    };
    FORMATS.iter().find(|f| (f.sniff)(&file.head)).ok_or_else(|| TraceError::UnknownFormat {
        path: file.path.clone(),
        content: describe_content(&file.head),
        known: known_formats(),
    })
}

/// Describes the content of a file that no format fits.
fn describe_content(head: &[u8]) -> String {
    let text =
        head.iter().take(512).all(|&b| b == b'\t' || b == b'\n' || b == b'\r' || (32..127).contains(&b) || b >= 128);
    if text {
        let line = String::from_utf8_lossy(head.split(|&b| b == b'\n').next().unwrap_or(head)).trim().to_owned();
        let short: String = line.chars().take(60).collect();
        format!("a text file, but not a trace in a known format (it begins {short:?})")
    } else {
        let bytes: Vec<String> = head.iter().take(8).map(|b| format!("{b:02x}")).collect();
        format!("not a trace in a known format (it begins {})", bytes.join(" "))
    }
}

fn open_file(path: &Path, warnings: &OpeningWarnings) -> Result<OpenFile> {
    let mut shown = path.to_string_lossy().into_owned();
    let raw: Box<dyn Read + Send> = if shown == "-" {
        shown = "standard input".into();
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(|e| TraceError::io(&shown, e))?)
    };
    let (magic, reader) = read_head(raw, 6).map_err(|e| TraceError::io(&shown, e))?;
    let tolerate_damage = |decompressed| DamageTolerantReader::new(decompressed, shown.clone(), warnings.clone());
    let reader: Box<dyn Read + Send> = match magic.as_slice() {
        [0x1f, 0x8b, ..] => {
            Box::new(tolerate_damage(Box::new(flate2::read::MultiGzDecoder::new(reader)) as Box<dyn Read + Send>))
        }
        [0xfd, b'7', b'z', b'X', b'Z', 0] => {
            Box::new(tolerate_damage(Box::new(lzma_rust2::XzReader::new(reader, true))))
        }
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = zstd::Decoder::new(reader).map_err(|e| TraceError::io(&shown, e))?;
            Box::new(tolerate_damage(Box::new(decoder)))
        }
        _ => reader,
    };
    for suffix in COMPRESSED {
        if let Some(plain) = shown.strip_suffix(suffix) {
            shown = plain.to_owned();
        }
    }
    let (head, reader) = read_head(reader, HEAD).map_err(|e| TraceError::io(&shown, e))?;
    Ok(OpenFile { path: shown, head, reader })
}

/// Reads the first bytes, and returns them with a reader that starts before them. If a source ends with an error
/// after some bytes (a cut-off compressed file), returns those bytes first.
fn read_head(mut reader: Box<dyn Read + Send>, wanted: usize) -> io::Result<(Vec<u8>, Box<dyn Read + Send>)> {
    let mut head = vec![0; wanted];
    let mut filled = 0;
    while filled < wanted {
        match reader.read(&mut head[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted && !interrupt::requested() => {}
            Err(e) if filled == 0 || e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(_) => break,
        }
    }
    head.truncate(filled);
    let chained = Cursor::new(head.clone()).chain(reader);
    Ok((head, Box::new(chained)))
}
