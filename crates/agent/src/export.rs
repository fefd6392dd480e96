//! Copies files to a raw block device, from which the host reads data that is too large for the port.

use crate::{failure::reason, glob};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Files begin at multiples of this.
const ALIGNED: u64 = 4096;

/// Where a file is on the device.
#[derive(Serialize)]
pub struct ExportedFile {
    path: String,
    offset: u64,
    bytes: u64,
}

/// The files on the device, and the bytes up to the end of the last one.
#[derive(Serialize)]
pub struct Export {
    files: Vec<ExportedFile>,
    bytes: u64,
}

/// Copies files to a device and syncs it.
pub fn export(paths: &[String], device: &str) -> Result<Export, String> {
    let on_device = |error: io::Error| format!("{device}: {}", reason(&error));
    let mut target = OpenOptions::new().write(true).open(device).map_err(on_device)?;
    let size = target.seek(SeekFrom::End(0)).map_err(on_device)?;
    let mut buffer = vec![0; 1 << 20];
    let mut done = Export { files: Vec::new(), bytes: 0 };
    for path in paths.iter().flat_map(|path| glob::expand(path)) {
        let of_file = |error: io::Error| format!("{path}: {}", reason(&error));
        let mut file = File::open(&path).map_err(of_file)?;
        if !file.metadata().map_err(of_file)?.is_file() {
            return Err(format!("{path}: expected a regular file"));
        }
        let offset = done.bytes.next_multiple_of(ALIGNED);
        target.seek(SeekFrom::Start(offset)).map_err(on_device)?;
        let mut bytes = 0;
        loop {
            let count = file.read(&mut buffer).map_err(of_file)?;
            if count == 0 {
                break;
            }
            bytes += count as u64;
            if offset + bytes > size {
                return Err(format!("{path}: does not fit on {device}, which has {size} bytes"));
            }
            target.write_all(&buffer[..count]).map_err(on_device)?;
        }
        done.bytes = offset + bytes;
        done.files.push(ExportedFile { path, offset, bytes });
    }
    target.sync_all().map_err(on_device)?;
    Ok(done)
}
