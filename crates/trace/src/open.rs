//! Opens traces: finds the files, decompresses them, recognises the format.

use crate::error::{Result, TraceError};
use crate::event::EventBatch;
use crate::formats::{FORMATS, Format, open_table};
use crate::input_buffer::must_end;
use crate::source::{OpenFile, OpenInput, RecordedLayer, Source, TraceInfo, Warning};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Cursor, Read};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

const HEAD: usize = 64 << 10; // The bytes of a file that recognition gets
const FIFO_WAIT: Duration = Duration::from_secs(10); // How long a FIFO may have no program that writes to it
pub const COLUMNS: &str = "columns:"; // The beginning of a format that names columns: `columns:time=ts,op=rw,…`

/// What differs if a file of a trace was changed: the path, the size and the last change of each; `None` for standard
/// input, and for what cannot be opened.
pub fn stamp(paths: &[String]) -> Option<Vec<(PathBuf, u64, SystemTime)>> {
    let mut files = Vec::new();
    for path in paths {
        let sets = (path != "-").then(|| find_file_sets(path, &OpeningWarnings::default()).ok())??;
        for file in sets.into_iter().flat_map(|set| set.files) {
            let about = fs::metadata(&file).ok()?;
            files.push((file, about.len(), about.modified().ok()?));
        }
    }
    Some(files)
}

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
    let mut sidecar = Sidecar::default();
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
            let of_set = read_sidecar(file, &set.name);
            sidecar.dropped = [sidecar.dropped, of_set.dropped].into_iter().flatten().reduce(u64::saturating_add);
            sidecar.stack = if of_set.stack.is_empty() { sidecar.stack } else { of_set.stack };
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
    Ok(Box::new(OpenedSource::new(source, warnings, sidecar)))
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
    let is_fifo = fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo());
    let opened = if is_fifo { open_fifo(path, FIFO_WAIT) } else { File::open(path) };
    let file = opened.map_err(|e| TraceError::io(&shown, e))?;
    decompress(shown, Box::new(file), warnings)
}

/// Opens a FIFO, which waits for a program that writes to it. Fails if there is none for so long, and after a signal
/// that must end blklab.
fn open_fifo(path: &Path, wait: Duration) -> io::Result<File> {
    let (sender, receiver) = mpsc::channel();
    let fifo = path.to_owned();
    // A receiver that is gone drops the file, so the thread never fails.
    thread::spawn(move || drop(sender.send(File::open(fifo))));
    let started = Instant::now();
    while started.elapsed() < wait && !must_end() {
        if let Ok(opened) = receiver.recv_timeout(Duration::from_millis(50)) {
            return opened;
        }
    }
    // Opened for both directions, a FIFO has a writer: this ends the thread.
    drop(OpenOptions::new().read(true).write(true).open(path));
    let seconds = wait.as_secs_f64();
    Err(io::Error::other(format!("it is a FIFO, and no program has opened it to write for {seconds} s")))
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
const MOST_EXPANSION: u64 = 200; // The largest ratio of an archive to its compressed file: recordings have about 10
const ALWAYS_EXPANDED: u64 = 1 << 30; // Bytes to which each archive may expand

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

/// The bytes to which an archive may expand: no recording is compressed so much.
fn largest_archive(path: &str) -> u64 {
    let size = fs::metadata(path).ok().filter(fs::Metadata::is_file).map_or(u64::MAX, |about| about.len());
    size.saturating_mul(MOST_EXPANSION).max(ALWAYS_EXPANDED)
}

/// Copies an archive that is compressed or comes from a pipe. Fails if it has more than `most` bytes.
fn copy_archive(path: &str, reader: &mut dyn Read, copy: &mut File, most: u64) -> Result<()> {
    let count =
        io::copy(&mut reader.take(most.saturating_add(1)), copy).map_err(|error| TraceError::io(path, error))?;
    if count > most {
        let problem = format!("the archive expands to more than {MOST_EXPANSION} times its size: expected a recording");
        return Err(TraceError::Content(format!("{path}: {problem}")));
    }
    Ok(())
}

/// The regular files of the archive that `reader` holds. `plain` is the archive's path if it is a file that is not
/// compressed; otherwise a temporary copy is made.
fn list_files(path: &str, plain: Option<&Path>, mut reader: Box<dyn Read + Send>) -> Result<Vec<ArchivedFile>> {
    let failed = |error| TraceError::io(path, error);
    let file = match plain {
        Some(plain) => File::open(plain).map_err(failed)?,
        None => {
            let mut copy = tempfile::tempfile().map_err(failed)?;
            copy_archive(path, &mut reader, &mut copy, largest_archive(path))?;
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

// Finds the files of a trace, from a set's name, one of its files, a directory, or a single file; and their sidecar.

pub const COMPRESSED: [&str; 5] = [".gz", ".xz", ".zst", ".bz2", ".lz4"]; // Suffixes of compressed files
const PER_CPU: &str = ".blktrace."; // The separator between a trace's name and the CPU's number
const MOST_SIDECAR_BYTES: u64 = 1 << 20; // The largest size of a sidecar

/// The files of one trace name.
#[derive(Default, PartialEq)]
pub struct FileSet {
    pub name: String,         // blkparse's name for it; empty for a single file
    pub display_name: String, // The name for messages
    pub files: Vec<PathBuf>,  // In the order of their CPUs
    pub is_set: bool,         // Whether these are per-CPU files, of which some can be empty
}

/// The traces that a path given by the user stands for.
pub fn find_file_sets(path: &str, warnings: &OpeningWarnings) -> Result<Vec<FileSet>> {
    let single = |display_name: &str| {
        Ok(vec![FileSet { display_name: display_name.into(), files: vec![path.into()], ..FileSet::default() }])
    };
    if path == "-" {
        return single("standard input");
    }
    let as_path = Path::new(path);
    let file_name = as_path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some((base, cpu)) = split_per_cpu(&file_name)
        && as_path.is_file()
        && cpu.is_some()
    {
        return find_set(&as_path.with_file_name(base), warnings);
    }
    match fs::metadata(as_path) {
        Ok(meta) if meta.is_dir() => find_sets_in_directory(as_path, path, warnings),
        Ok(_) => single(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => find_set(as_path, warnings),
        Err(e) => Err(TraceError::io(path, e)),
    }
}

/// Splits `x.blktrace.3.zst` into (`x`, Some(3)); `None` for other names.
pub fn split_per_cpu(file_name: &str) -> Option<(&str, Option<u32>)> {
    let at = file_name.rfind(PER_CPU)?;
    let mut number = &file_name[at + PER_CPU.len()..];
    for suffix in COMPRESSED {
        number = number.strip_suffix(suffix).unwrap_or(number);
    }
    Some((&file_name[..at], number.parse().ok()))
}

fn list_per_cpu_files(directory: &Path, shown: &str) -> Result<Vec<(String, u32, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| TraceError::io(shown, e))? {
        let entry = entry.map_err(|e| TraceError::io(shown, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((base, Some(cpu))) = split_per_cpu(&name) {
            files.push((base.to_owned(), cpu, entry.path()));
        }
    }
    Ok(files)
}

fn find_sets_in_directory(directory: &Path, shown: &str, warnings: &OpeningWarnings) -> Result<Vec<FileSet>> {
    let mut names: Vec<String> = list_per_cpu_files(directory, shown)?.into_iter().map(|(name, ..)| name).collect();
    names.sort_by(|a, b| compare_naturally(a, b));
    names.dedup();
    if names.is_empty() {
        return Err(TraceError::Request(format!(
            "{shown}: no trace in this directory: expected files NAME.blktrace.0, .1, …"
        )));
    }
    let mut sets = Vec::new();
    for name in names {
        sets.extend(find_set(&directory.join(name), warnings)?);
    }
    Ok(sets)
}

fn find_set(base: &Path, warnings: &OpeningWarnings) -> Result<Vec<FileSet>> {
    let shown = base.to_string_lossy().into_owned();
    let expected = "expected a file, a directory, or files";
    let missing = || TraceError::Request(format!("{shown}: does not exist: {expected} {shown}.blktrace.0, .1, …"));
    let directory = match base.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = base.file_name().map(|n| n.to_string_lossy().into_owned()).ok_or_else(missing)?;
    let mut files = BTreeMap::new();
    if directory.is_dir() {
        for (set, cpu, path) in list_per_cpu_files(directory, &directory.to_string_lossy())? {
            if set == name {
                let path = if directory == Path::new(".") && base.parent() == Some(Path::new("")) {
                    path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path)
                } else {
                    path
                };
                // The plain file is preferred to its compressed copy.
                let better = files.get(&cpu).is_none_or(|old: &PathBuf| path.as_os_str().len() < old.as_os_str().len());
                if better {
                    files.insert(cpu, path);
                }
            }
        }
    }
    let Some(&last) = files.keys().next_back() else {
        return Err(missing());
    };
    let absent: Vec<u32> = (0..=last.min(65_535)).filter(|cpu| !files.contains_key(cpu)).collect();
    if let (Some(first), count) = (absent.first(), absent.len()) {
        warnings.warn(&shown, format!("{count} CPU file(s) missing, first {name}{PER_CPU}{first}: the events of those CPUs are missing in these figures"));
    }
    Ok(vec![FileSet { name, display_name: shown, files: files.into_values().collect(), is_set: true }])
}

/// Compares like `sort -V`: runs of digits by their value.
fn compare_naturally(a: &str, b: &str) -> std::cmp::Ordering {
    fn key(text: &str) -> Vec<(String, u64)> {
        let mut parts = Vec::new();
        let mut remaining = text;
        while !remaining.is_empty() {
            let word = remaining.find(|c: char| c.is_ascii_digit()).unwrap_or(remaining.len());
            let after = &remaining[word..];
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            parts.push((remaining[..word].to_owned(), after[..digits].parse().unwrap_or(0)));
            remaining = &after[digits..];
        }
        parts
    }
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}

/// What `blklab trace record` leaves next to a trace, in the sidecar `NAME.blklab.json`, or `blklab.json` in a directory
/// of traces.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Sidecar {
    dropped: Option<u64>, // Events that the kernel dropped
    devices: Vec<RecordedDevice>,
    stack: Vec<RecordedLayer>, // The recorded devices, and those below them
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RecordedDevice {
    name: String,
    dropped: Option<u64>,
}

/// The sidecar of the set `name`, to which `file` belongs; `dropped` is that of the set. Empty if there is none.
fn read_sidecar(file: &Path, name: &str) -> Sidecar {
    let names = [format!("{name}.blklab.json"), "blklab.json".into()];
    let path = names.map(|name| file.with_file_name(name)).into_iter().find(|path| path.is_file());
    let small = path.filter(|path| fs::metadata(path).is_ok_and(|found| found.len() <= MOST_SIDECAR_BYTES));
    let content = small.and_then(|path| fs::read(path).ok()).unwrap_or_default();
    let mut sidecar: Sidecar = serde_json::from_slice(&content).unwrap_or_default();
    let of_set = sidecar.devices.iter().find(|device| device.name == name).map(|device| device.dropped);
    sidecar.dropped = of_set.unwrap_or_else(|| sidecar.dropped.filter(|_| sidecar.devices.len() == 1));
    sidecar
}

// Warnings about opening and decompressing files, added to the reader's own.

const DAMAGED: &str = "compressed data is damaged"; // The beginning of warnings about damage

/// Warnings about files below a reader; shared with the streams it reads.
#[derive(Clone, Default)]
pub struct OpeningWarnings(Arc<Mutex<Vec<Warning>>>);

impl OpeningWarnings {
    /// Adds a warning.
    pub fn warn(&self, path: &str, message: impl Into<String>) {
        let warning = Warning { path: path.to_owned(), message: message.into() };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(warning);
    }

    /// The first damage as an error, if nothing else is left of a trace.
    pub fn damage(&self) -> Option<TraceError> {
        let warning = self.all().into_iter().find(|warning| warning.message.starts_with(DAMAGED))?;
        Some(TraceError::malformed(&warning.path, "start", warning.message))
    }

    fn all(&self) -> Vec<Warning> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A decompressed stream that ends where its compressed data is damaged or cut off, with a warning.
pub struct DamageTolerantReader<R> {
    reader: R,
    path: String,
    warnings: OpeningWarnings,
    read: u64,
}

impl<R: Read> DamageTolerantReader<R> {
    /// Wraps a decompressor.
    pub fn new(reader: R, path: String, warnings: OpeningWarnings) -> DamageTolerantReader<R> {
        DamageTolerantReader { reader, path, warnings, read: 0 }
    }
}

impl<R: Read> Read for DamageTolerantReader<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.reader.read(out) {
            Ok(count) => {
                self.read += count as u64;
                Ok(count)
            }
            // An error of the decompressor, not of the system.
            Err(e) if e.raw_os_error().is_none() && e.kind() != io::ErrorKind::Interrupted => {
                let message = format!("{DAMAGED} or cut off after {} bytes ({e}); read up to there", self.read);
                self.warnings.warn(&self.path, message);
                Ok(0)
            }
            Err(e) => Err(e),
        }
    }
}

/// A source with the warnings about its files and the record next to them.
pub struct OpenedSource {
    source: Box<dyn Source>,
    warnings: OpeningWarnings,
    sidecar: Sidecar,
    info: TraceInfo,
}

impl OpenedSource {
    /// The sidecar is that of all inputs.
    fn new(source: Box<dyn Source>, warnings: OpeningWarnings, sidecar: Sidecar) -> OpenedSource {
        let mut opened = OpenedSource { info: TraceInfo::default(), source, warnings, sidecar };
        opened.refresh();
        opened
    }

    fn refresh(&mut self) {
        let mut info = self.source.info().clone();
        info.dropped = self.sidecar.dropped.or(info.dropped);
        info.stack.clone_from(&self.sidecar.stack);
        let source_warnings = std::mem::take(&mut info.warnings);
        for warning in self.warnings.all().into_iter().chain(source_warnings) {
            info.warn(&warning.path, warning.message);
        }
        self.info = info;
    }
}

impl Source for OpenedSource {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        let more = self.source.fill(batch)?;
        if more {
            let known = self.source.info();
            self.info.bytes_read = known.bytes_read;
            self.info.start_unix_ns = known.start_unix_ns;
            self.info.device_names.extend_from_slice(&known.device_names[self.info.device_names.len()..]);
        } else {
            self.refresh();
        }
        Ok(more)
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}

#[cfg(test)]
mod tests;
