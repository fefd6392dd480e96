//! From what the user typed to a source of events: finds the files, undoes compression, recognises the format.

use crate::error::{Result, TraceError};
use crate::formats::{FORMATS, Format};
use crate::source::{Input, Source};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};

/// How much of a file a format is recognised from.
const HEAD: usize = 64 << 10;
/// What separates a trace's name from the CPU's number.
const PER_CPU: &str = ".blktrace.";
const COMPRESSED: [&str; 3] = [".gz", ".xz", ".zst"];

/// One file, opened and decompressed.
pub struct OpenFile {
    /// Path as shown in messages, without a compression suffix; `standard input` for `-`.
    pub path: String,
    /// The file's first bytes, at most 64 KiB; `reader` gives them again.
    pub head: Vec<u8>,
    /// All bytes, from the first.
    pub reader: Box<dyn Read + Send>,
}

/// A trace's name and its files, opened.
pub struct OpenInput {
    /// As in [`Input::name`]: the name of a per-CPU set, empty for a single file.
    pub name: String,
    /// The files, in the order of their CPUs.
    pub files: Vec<OpenFile>,
}

/// Opens a trace.
///
/// Each of `paths` is `-` for standard input, a file, a directory of blktrace sets, or the name of a set:
/// `elephant` for `elephant.blktrace.0`, `.1`, …. One file of a set stands for the whole set, as in
/// blkparse. Several paths are read as one trace with a common time zero. `format` overrides recognition.
pub fn open(paths: &[String], format: Option<&str>) -> Result<Box<dyn Source>> {
    let mut warnings = Vec::new();
    let mut sets = Vec::new();
    for path in paths {
        for set in find(path, &mut warnings)? {
            if !sets.contains(&set) {
                sets.push(set);
            }
        }
    }
    let mut inputs = Vec::new();
    let mut empty = Vec::new();
    for set in sets {
        let mut files = Vec::new();
        for path in &set.files {
            let file = open_file(path)?;
            if file.head.is_empty() && set.is_set {
                empty.push(file.path); // a CPU that saw no event
            } else {
                files.push(file);
            }
        }
        if files.iter().all(|f| f.head.is_empty()) {
            return Err(TraceError::Empty { path: set.shown });
        }
        inputs.push(OpenInput { name: set.name, files });
    }
    let format = match format {
        Some(name) => by_name(name)?,
        None => recognise(&inputs)?,
    };
    let source = (format.open)(inputs)?;
    Ok(if warnings.is_empty() { source } else { Box::new(Warned::new(source, warnings)) })
}

/// The input records of some opened files, for a source's [`crate::source::TraceInfo`].
pub fn describe(input: &OpenInput) -> Input {
    Input { name: input.name.clone(), files: input.files.iter().map(|f| f.path.clone()).collect() }
}

/// For formats that are one file: takes it out of `inputs`.
pub fn single_file(inputs: Vec<OpenInput>, format: &str) -> Result<OpenFile> {
    let count: usize = inputs.iter().map(|i| i.files.len()).sum();
    match inputs.into_iter().flat_map(|i| i.files).next() {
        Some(file) if count == 1 => Ok(file),
        _ => Err(TraceError::Request(format!(
            "{count} files given: a trace in the format {format} is one file; convert them one by one"
        ))),
    }
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

#[derive(PartialEq)]
struct Set {
    name: String,
    shown: String,
    files: Vec<PathBuf>,
    is_set: bool,
}

/// What a path given by the user stands for.
fn find(path: &str, warnings: &mut Vec<(String, String)>) -> Result<Vec<Set>> {
    if path == "-" {
        return Ok(vec![Set {
            name: String::new(),
            shown: "standard input".into(),
            files: vec!["-".into()],
            is_set: false,
        }]);
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
        Ok(meta) if meta.is_dir() => find_in_directory(as_path, path, warnings),
        Ok(_) => Ok(vec![Set {
            name: String::new(),
            shown: path.into(),
            files: vec![as_path.into()],
            is_set: false,
        }]),
        Err(e) if e.kind() == io::ErrorKind::NotFound => find_set(as_path, warnings),
        Err(e) => Err(TraceError::io(path, e)),
    }
}

/// `x.blktrace.3.zst` into (`x`, Some(3)); `None` for other names.
fn split_per_cpu(file_name: &str) -> Option<(&str, Option<u32>)> {
    let at = file_name.rfind(PER_CPU)?;
    let mut number = &file_name[at + PER_CPU.len()..];
    for suffix in COMPRESSED {
        number = number.strip_suffix(suffix).unwrap_or(number);
    }
    Some((&file_name[..at], number.parse().ok()))
}

fn list(directory: &Path, shown: &str) -> Result<Vec<(String, u32, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(|e| TraceError::io(shown, e))? {
        let entry = entry.map_err(|e| TraceError::io(shown, e))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some((base, Some(cpu))) = split_per_cpu(&name) {
            found.push((base.to_owned(), cpu, entry.path()));
        }
    }
    Ok(found)
}

fn find_in_directory(
    directory: &Path,
    shown: &str,
    warnings: &mut Vec<(String, String)>,
) -> Result<Vec<Set>> {
    let mut names: Vec<String> = list(directory, shown)?.into_iter().map(|(name, ..)| name).collect();
    names.sort_by(|a, b| natural(a, b));
    names.dedup();
    if names.is_empty() {
        return Err(TraceError::Request(format!(
            "{shown}: no trace in this directory: expected files named NAME.blktrace.0, .1, …"
        )));
    }
    let mut sets = Vec::new();
    for name in names {
        sets.extend(find_set(&directory.join(name), warnings)?);
    }
    Ok(sets)
}

fn find_set(base: &Path, warnings: &mut Vec<(String, String)>) -> Result<Vec<Set>> {
    let shown = base.to_string_lossy().into_owned();
    let missing = || TraceError::NotFound { path: shown.clone() };
    let directory = match base.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let name = base.file_name().map(|n| n.to_string_lossy().into_owned()).ok_or_else(missing)?;
    let mut files = BTreeMap::new();
    if directory.is_dir() {
        for (set, cpu, path) in list(directory, &directory.to_string_lossy())? {
            if set == name {
                let path = if directory == Path::new(".") && base.parent() == Some(Path::new("")) {
                    path.strip_prefix(".").map(Path::to_path_buf).unwrap_or(path)
                } else {
                    path
                };
                // The plain file wins over its compressed copy.
                let better = files
                    .get(&cpu)
                    .is_none_or(|old: &PathBuf| path.as_os_str().len() < old.as_os_str().len());
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
        warnings.push((
            shown.clone(),
            format!("{count} CPU file(s) missing, first {name}{PER_CPU}{first}: what those CPUs recorded is not in these figures"),
        ));
    }
    Ok(vec![Set { name, shown, files: files.into_values().collect(), is_set: true }])
}

/// Compares as `sort -V` does: runs of digits by their value.
fn natural(a: &str, b: &str) -> std::cmp::Ordering {
    fn key(text: &str) -> Vec<(String, u64)> {
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
            let after = &rest[word..];
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            parts.push((rest[..word].to_owned(), after[..digits].parse().unwrap_or(0)));
            rest = &after[digits..];
        }
        parts
    }
    key(a).cmp(&key(b)).then_with(|| a.cmp(b))
}

fn open_file(path: &Path) -> Result<OpenFile> {
    let mut shown = path.to_string_lossy().into_owned();
    let raw: Box<dyn Read + Send> = if shown == "-" {
        shown = "standard input".into();
        Box::new(io::stdin())
    } else {
        Box::new(File::open(path).map_err(|e| TraceError::io(&shown, e))?)
    };
    let (magic, reader) = peek(raw, 6).map_err(|e| TraceError::io(&shown, e))?;
    let reader: Box<dyn Read + Send> = match magic.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(reader)),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Box::new(lzma_rust2::XzReader::new(reader, true)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            Box::new(zstd::Decoder::new(reader).map_err(|e| TraceError::io(&shown, e))?)
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
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) if have == 0 => return Err(e),
            Err(_) => break,
        }
    }
    head.truncate(have);
    let chained = Cursor::new(head.clone()).chain(reader);
    Ok((head, Box::new(chained)))
}

/// A source with warnings of its opening in front of its own.
struct Warned {
    source: Box<dyn Source>,
    info: crate::source::TraceInfo,
    warnings: Vec<(String, String)>,
}

impl Warned {
    fn new(source: Box<dyn Source>, warnings: Vec<(String, String)>) -> Warned {
        let mut warned = Warned { info: source.info().clone(), source, warnings };
        warned.refresh();
        warned
    }

    fn refresh(&mut self) {
        let mut info = self.source.info().clone();
        let own = std::mem::take(&mut info.warnings);
        for (path, message) in &self.warnings {
            info.warn(path, message.clone());
        }
        for warning in own {
            info.warn(&warning.path, warning.message);
        }
        self.info = info;
    }
}

impl Source for Warned {
    fn fill(&mut self, batch: &mut crate::event::EventBatch) -> Result<bool> {
        let more = self.source.fill(batch)?;
        if !more {
            self.refresh();
        }
        Ok(more)
    }

    fn info(&self) -> &crate::source::TraceInfo {
        &self.info
    }
}
