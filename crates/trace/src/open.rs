//! Opens traces: finds the files, decompresses them, recognises the format.

use crate::error::{Result, TraceError};
use crate::formats::{FORMATS, Format, open_table};
use crate::input_buffer::must_end;
use crate::input_files::{COMPRESSED, find_file_sets, read_sidecar, split_per_cpu};
use crate::opened_source::{DamageTolerantReader, OpenedSource, OpeningWarnings};
use crate::source::{OpenFile, OpenInput, Source};
use std::fs::File;
use std::io::{self, BufReader, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

const HEAD: usize = 64 << 10; // The bytes of a file that recognition gets
pub const COLUMNS: &str = "columns:"; // The beginning of a format that names columns: `columns:time=ts,op=rw,…`

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
    let mut stack = Vec::new();
    let mut empty = None;
    for set in sets {
        let mut files = Vec::new();
        for path in &set.files {
            let file = open_file(path, &warnings)?;
            if !set.is_set && is_tar(&file.head) {
                inputs.extend(open_archive(path, file, &warnings)?);
                continue;
            }
            // A CPU without events leaves an empty file.
            if !(file.head.is_empty() && set.is_set) {
                files.push(file);
            }
        }
        if files.is_empty() && !set.is_set {
            continue; // an archive
        }
        if files.iter().all(|f| f.head.is_empty()) {
            empty.get_or_insert(set.display_name.clone());
            warnings.warn(&set.display_name, "empty: no event was recorded");
            continue;
        }
        if let Some(file) = set.files.first() {
            let sidecar = read_sidecar(file, &set.name);
            dropped = [dropped, sidecar.dropped].into_iter().flatten().reduce(u64::saturating_add);
            stack = if sidecar.stack.is_empty() { stack } else { sidecar.stack };
        }
        inputs.push(OpenInput { name: set.name, files });
    }
    if let (true, Some(path)) = (inputs.is_empty(), empty) {
        return Err(warnings.damage().unwrap_or(TraceError::empty(&path)));
    }
    let source = match format.map(|name| (name, name.strip_prefix(COLUMNS))) {
        Some((_, Some(columns))) => open_table(inputs, columns)?,
        Some((name, None)) => {
            let unknown = || format!("unknown format {name:?}: expected one of {}", known_formats());
            let format = FORMATS.iter().find(|format| format.name == name);
            format.ok_or_else(|| TraceError::Request(unknown()))?.open(inputs)?
        }
        None => recognise_format(&inputs)?.open(inputs)?,
    };
    Ok(Box::new(OpenedSource::new(source, warnings, dropped, stack)))
}

fn known_formats() -> String {
    FORMATS.iter().map(|f| f.name).collect::<Vec<_>>().join(", ")
}

fn recognise_format(inputs: &[OpenInput]) -> Result<&'static Format> {
    let Some(file) = inputs.iter().flat_map(|i| &i.files).next() else {
        return Err(TraceError::Request("no trace given: expected at least one path".into()));
    };
    FORMATS.iter().find(|f| (f.sniff)(&file.head)).ok_or_else(|| {
        TraceError::Content(format!(
            "{}: {}: expected one of these formats; choose one with --format, or name the columns of a table with --columns: {}",
            file.path,
            describe_content(&file.head),
            known_formats()
        ))
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

/// Opens a file, or standard input if its path is `-`.
fn open_file(path: &Path, warnings: &OpeningWarnings) -> Result<OpenFile> {
    let shown = path.to_string_lossy().into_owned();
    if shown == "-" {
        return decompress("standard input".into(), Box::new(io::stdin()), warnings);
    }
    let file = File::open(path).map_err(|e| TraceError::io(&shown, e))?;
    decompress(shown, Box::new(file), warnings)
}

/// Decompresses a file's bytes, by their magic.
fn decompress(mut shown: String, raw: Box<dyn Read + Send>, warnings: &OpeningWarnings) -> Result<OpenFile> {
    let (magic, reader) = read_head(raw, 6).map_err(|e| TraceError::io(&shown, e))?;
    let decoder: Box<dyn Read + Send> = match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(reader)),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(liblzma::read::XzDecoder::new_multi_decoder(reader)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Box::new(zstd::Decoder::new(reader).map_err(|e| TraceError::io(&shown, e))?),
        [b'B', b'Z', b'h', b'1'..=b'9', ..] => Box::new(bzip2::read::MultiBzDecoder::new(reader)),
        [0x04, 0x22, 0x4d, 0x18, ..] => Box::new(lz4_flex::frame::FrameDecoder::new(reader)),
        _ => return with_head(shown, reader),
    };
    let reader = Box::new(DamageTolerantReader::new(decoder, shown.clone(), warnings.clone()));
    for suffix in COMPRESSED {
        if let Some(plain) = shown.strip_suffix(suffix) {
            shown = plain.to_owned();
        }
    }
    with_head(shown, reader)
}

fn with_head(path: String, reader: Box<dyn Read + Send>) -> Result<OpenFile> {
    let (head, reader) = read_head(reader, HEAD).map_err(|e| TraceError::io(&path, e))?;
    Ok(OpenFile { path, head, reader })
}

/// The recordings in a tar archive: its per-CPU files by name, or all its files if there are none.
fn open_archive(path: &Path, file: OpenFile, warnings: &OpeningWarnings) -> Result<Vec<OpenInput>> {
    let shown = path.to_string_lossy();
    let is_plain = shown != "-" && file.path == shown;
    let mut files = list_files(&shown, is_plain.then_some(path), file.reader)?;
    let per_cpu = |file: &ArchivedFile| matches!(split_per_cpu(&file.name), Some((_, Some(_))));
    let recorded = files.iter().any(per_cpu);
    files.retain(|file| !recorded || per_cpu(file));
    let key = |file: &ArchivedFile| {
        let (name, cpu) = split_per_cpu(&file.name).unwrap_or((&file.name, None));
        (name.to_owned(), cpu)
    };
    files.sort_by_key(key);
    let mut inputs: Vec<OpenInput> = Vec::new();
    for archived in files {
        let name = if recorded { key(&archived).0 } else { String::new() };
        let opened = decompress(format!("{shown}:{}", archived.name), Box::new(archived.part), warnings)?;
        match inputs.last_mut() {
            _ if opened.head.is_empty() => {}
            Some(input) if recorded && input.name == name => input.files.push(opened),
            _ => inputs.push(OpenInput { name, files: vec![opened] }),
        }
    }
    if inputs.is_empty() {
        return Err(TraceError::empty(&shown));
    }
    Ok(inputs)
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
            Err(e) if e.kind() == io::ErrorKind::Interrupted && !must_end() => {}
            Err(e) if filled == 0 || e.kind() == io::ErrorKind::Interrupted => return Err(e),
            Err(_) => break,
        }
    }
    head.truncate(filled);
    let chained = Cursor::new(head.clone()).chain(reader);
    Ok((head, Box::new(chained)))
}

// Traces in tar archives: the files of an archive as the files of a recording.
//
// Nothing is extracted under a name of the archive. The files are parts of the archive itself, or of an unnamed
// temporary copy if that is compressed or comes from a pipe.

/// Where a tar header has its magic, in the first block (POSIX.1-1988 and GNU).
const MAGIC: std::ops::Range<usize> = 257..262;
const MOST_FILES: usize = 100_000; // The largest number of files that are looked at

/// Whether a file's first bytes are those of a tar archive.
fn is_tar(head: &[u8]) -> bool {
    head.get(MAGIC) == Some(b"ustar".as_slice())
}

/// A regular file of an archive.
struct ArchivedFile {
    name: String,   // Its name without directories
    part: FilePart, // Its bytes
}

/// A part of a file, which is read without moving the position of others.
struct FilePart {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for FilePart {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let most = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(out.len());
        let count = self.file.read_at(&mut out[..most], self.at)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// The regular files of the archive that `reader` holds. `plain` is the archive's path if it is a file that is not
/// compressed; otherwise a temporary copy is made.
fn list_files(path: &str, plain: Option<&Path>, mut reader: Box<dyn Read + Send>) -> Result<Vec<ArchivedFile>> {
    let failed = |error| TraceError::io(path, error);
    let file = match plain {
        Some(plain) => File::open(plain).map_err(failed)?,
        None => {
            let mut copy = tempfile::tempfile().map_err(failed)?;
            io::copy(&mut reader, &mut copy).map_err(failed)?;
            copy
        }
    };
    let file = Arc::new(file);
    let whole = FilePart { file: Arc::clone(&file), at: 0, end: u64::MAX };
    let mut archive = tar::Archive::new(BufReader::new(whole));
    let mut files = Vec::new();
    let damaged = |error: io::Error| TraceError::malformed(path, "tar archive", error.to_string());
    for entry in archive.entries().map_err(damaged)?.take(MOST_FILES) {
        let entry = entry.map_err(damaged)?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let name = entry.path().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let at = entry.raw_file_position();
        let part = FilePart { file: Arc::clone(&file), at, end: at.saturating_add(entry.size()) };
        files.extend(name.map(|name| ArchivedFile { name, part }));
    }
    Ok(files)
}
