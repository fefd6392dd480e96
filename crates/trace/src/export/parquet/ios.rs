//! I/Os as Parquet.

use super::columns::{Column, Int32Column, Int64Column, OptionalInt64Column, ProcessNameColumn};
use super::{GROUP, ParquetFile};
use crate::error::Result;
use crate::event::EventBatch;
use crate::export::ExportReport;
use crate::io::{Io, NEVER};
use crate::source::TraceInfo;
use std::path::Path;

/// Columns of the I/Os' table.
const SCHEMA: &str = "message ios {
    required int32 device (integer(32, false));
    required int64 sector (integer(64, false));
    required int32 bytes (integer(32, false));
    required int32 rwbs (integer(16, false));
    optional binary process (string);
    optional int64 t_queue (integer(64, false));
    optional int64 t_insert (integer(64, false));
    optional int64 t_dispatch (integer(64, false));
    optional int64 t_complete (integer(64, false));
    required int32 error (integer(16, true));
}";

const PACKED: [&str; 4] = ["t_queue", "t_insert", "t_dispatch", "t_complete"];

/// A Parquet file of I/Os. Dropping it before [`ParquetIos::finish`] leaves nothing behind.
pub struct ParquetIos {
    file: ParquetFile,
    columns: IoColumns,
    rows: usize,
    taken: u64,
}

#[derive(Default)]
struct IoColumns {
    device: Int32Column,
    sector: Int64Column,
    bytes: Int32Column,
    rwbs: Int32Column,
    process: ProcessNameColumn,
    t_queue: OptionalInt64Column,
    t_insert: OptionalInt64Column,
    t_dispatch: OptionalInt64Column,
    t_complete: OptionalInt64Column,
    error: Int32Column,
}

impl IoColumns {
    /// In the schema's order.
    fn all(&mut self) -> [&mut dyn Column; 10] {
        [
            &mut self.device,
            &mut self.sector,
            &mut self.bytes,
            &mut self.rwbs,
            &mut self.process,
            &mut self.t_queue,
            &mut self.t_insert,
            &mut self.t_dispatch,
            &mut self.t_complete,
            &mut self.error,
        ]
    }
}

impl ParquetIos {
    /// Opens the file at `path`.
    pub fn create(path: &Path) -> Result<ParquetIos> {
        Ok(ParquetIos {
            file: ParquetFile::create(path, SCHEMA, &PACKED)?,
            columns: IoColumns::default(),
            rows: 0,
            taken: 0,
        })
    }

    /// Adds the process names and devices of a batch; must be called before its I/Os are written.
    pub fn learn(&mut self, batch: &EventBatch) {
        batch.events.iter().for_each(|event| self.file.input_of.learn(event));
        for name in &batch.names {
            self.columns.process.learn(name.pid, &name.name);
        }
    }

    /// Writes the next I/Os.
    pub fn write(&mut self, ios: &[Io]) -> Result<()> {
        for io in ios {
            let seen = |time: u64| (time != NEVER).then_some(time);
            self.columns.device.push(io.device.0);
            self.columns.sector.push(io.sector);
            self.columns.bytes.push(io.bytes);
            self.columns.rwbs.push(u32::from(io.rwbs.0));
            self.columns.process.push(io.pid);
            self.columns.t_queue.push(seen(io.t_queue));
            self.columns.t_insert.push(seen(io.t_insert));
            self.columns.t_dispatch.push(seen(io.t_dispatch));
            self.columns.t_complete.push(seen(io.t_complete));
            self.columns.error.push_signed(io.error as i16);
            self.rows += 1;
            if self.rows == GROUP {
                self.rows = 0;
                self.file.write_group(&mut self.columns.all())?;
            }
        }
        self.taken += ios.len() as u64;
        Ok(())
    }

    /// Whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.taken == 0
    }

    /// Completes the file. `info` is the source's information at its end.
    pub fn finish(mut self, info: &TraceInfo) -> Result<ExportReport> {
        if self.rows > 0 {
            self.file.write_group(&mut self.columns.all())?;
        }
        let (name, bytes) = self.file.finish(info)?;
        Ok(ExportReport { files: vec![name], bytes, taken: self.taken, written: self.taken })
    }
}
