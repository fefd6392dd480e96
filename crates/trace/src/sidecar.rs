//! The record that `blklab trace record` leaves beside a trace: `NAME.blklab.json`, or `blklab.json` in a
//! directory of traces. Of it the number of dropped events is read: the trace itself does not tell it.

use std::fs;
use std::path::{Path, PathBuf};

/// No sidecar is larger.
const MOST_BYTES: u64 = 1 << 20;

/// Where the sidecar of a per-CPU file's set may be.
fn places(file: &Path, name: &str) -> [PathBuf; 2] {
    [file.with_file_name(format!("{name}.blklab.json")), file.with_file_name("blklab.json")]
}

/// How many events were dropped while the set `name` was recorded, of which `file` is one; `None` when
/// nothing says so.
pub fn dropped(file: &Path, name: &str) -> Option<u64> {
    let path = places(file, name).into_iter().find(|path| path.is_file())?;
    if fs::metadata(&path).ok()?.len() > MOST_BYTES {
        return None;
    }
    let document: serde_json::Value = serde_json::from_slice(&fs::read(&path).ok()?).ok()?;
    let devices = document.get("devices")?.as_array()?;
    let of_set = devices.iter().find(|device| device.get("name").and_then(|n| n.as_str()) == Some(name));
    let whole = devices.len() == 1;
    of_set.or(whole.then_some(&document)).and_then(|d| d.get("dropped")).and_then(serde_json::Value::as_u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Directory;

    #[test]
    fn drops_are_read_by_device_or_as_a_whole() {
        let directory = Directory::new();
        let one = r#"{"dropped": 7, "devices": [{"name": "sda", "dropped": 7}]}"#;
        fs::write(directory.file("trace.blklab.json"), one).unwrap();
        assert_eq!(dropped(&directory.path().join("trace.blktrace.0"), "trace"), Some(7));
        let two =
            r#"{"dropped": 9, "devices": [{"name": "sda", "dropped": 7}, {"name": "sdb", "dropped": null}]}"#;
        fs::write(directory.file("blklab.json"), two).unwrap();
        assert_eq!(dropped(&directory.path().join("sda.blktrace.0"), "sda"), Some(7));
        assert_eq!(dropped(&directory.path().join("sdb.blktrace.0"), "sdb"), None);
        fs::write(directory.file("odd.blklab.json"), "not JSON").unwrap();
        assert_eq!(dropped(&directory.path().join("odd.blktrace.0"), "odd"), None);
    }
}
