//! Files put onto a raw block device, from which the host reads what is too much for the port.

use crate::{failure::reason, glob};
use serde::Serialize;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Where each file begins is a multiple of this.
const ALIGNED: u64 = 4096;

/// Where a file is on the device.
#[derive(Serialize)]
pub struct Exported {
    path: String,
    offset: u64,
    bytes: u64,
}

/// What is on the device, and how far it reaches from its beginning.
#[derive(Serialize)]
pub struct Export {
    files: Vec<Exported>,
    bytes: u64,
}

/// Copies files onto a device, which they may not outgrow, and sees that they are on it.
pub fn export(paths: &[String], device: &str) -> Result<Export, String> {
    let on_device = |error: io::Error| format!("{device}: {}", reason(&error));
    let mut onto = OpenOptions::new().write(true).open(device).map_err(on_device)?;
    let size = onto.seek(SeekFrom::End(0)).map_err(on_device)?;
    let mut buffer = vec![0; 1 << 20];
    let mut done = Export { files: Vec::new(), bytes: 0 };
    for path in paths.iter().flat_map(|path| glob::expand(path)) {
        let of_file = |error: io::Error| format!("{path}: {}", reason(&error));
        let mut file = File::open(&path).map_err(of_file)?;
        if !file.metadata().map_err(of_file)?.is_file() {
            return Err(format!("{path}: a plain file was expected"));
        }
        let offset = done.bytes.next_multiple_of(ALIGNED);
        onto.seek(SeekFrom::Start(offset)).map_err(on_device)?;
        let mut bytes = 0;
        loop {
            let some = file.read(&mut buffer).map_err(of_file)?;
            if some == 0 {
                break;
            }
            bytes += some as u64;
            if offset + bytes > size {
                return Err(format!("{path}: does not fit on {device}, which has {size} bytes"));
            }
            onto.write_all(&buffer[..some]).map_err(on_device)?;
        }
        done.bytes = offset + bytes;
        done.files.push(Exported { path, offset, bytes });
    }
    onto.sync_all().map_err(on_device)?;
    Ok(done)
}
