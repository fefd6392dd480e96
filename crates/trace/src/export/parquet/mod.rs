//! Events and I/Os as Parquet, in the columns of the data contract.
//!
//! Columns are collected for a row group and written one after the other. The encodings are cheap ones: slowly
//! changing columns are stored as packed differences; only process names use a dictionary.

mod columns;
mod events;
mod ios;

pub use events::parquet_events;
pub use ios::parquet_ios;

use super::ExportReport;
use super::output::OutputFile;
use crate::error::{Result, TraceError};
use crate::parquet_file::{InputByDevice, convert_error, write_metadata};
use crate::source::TraceInfo;
use columns::Columns;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::path::Path;
use std::sync::Arc;

const GROUP: u64 = 1 << 20; // Rows of a row group

/// A Parquet file that is being written.
struct ParquetFile<C> {
    columns: C, // The rows of the row group that is not full
    rows: u64,  // Of all row groups
    shown: String,
    writer: SerializedFileWriter<OutputFile>,
    input_of: InputByDevice, // The inputs of all events, also of those without a row
}

impl<C: Columns> ParquetFile<C> {
    /// Columns in `packed` are stored as differences, the others plain.
    fn create(path: &Path, packed: &[&str]) -> Result<Self> {
        if path.as_os_str() == "-" {
            return Err(TraceError::Request("Parquet cannot be written to standard output: give a file name".into()));
        }
        let file = OutputFile::create(path)?;
        let shown = file.shown.clone();
        let schema = convert_error(&shown, parse_message_type(C::SCHEMA))?;
        let mut properties = WriterProperties::builder()
            .set_writer_version(WriterVersion::PARQUET_2_0)
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::PLAIN)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_max_row_group_row_count(None)
            .set_column_dictionary_enabled("process".into(), true)
            .set_created_by(concat!("blklab ", env!("CARGO_PKG_VERSION")).into());
        for &column in packed {
            let column = ColumnPath::from(column);
            properties = properties.set_column_encoding(column.clone(), Encoding::DELTA_BINARY_PACKED);
        }
        // So that readers can skip row groups by time.
        for time in ["time_ns", "t_queue"] {
            properties = properties.set_column_statistics_enabled(time.into(), EnabledStatistics::Chunk);
        }
        let writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties.build()));
        let writer = convert_error(&shown, writer)?;
        Ok(ParquetFile { columns: C::default(), rows: 0, shown, writer, input_of: InputByDevice::default() })
    }

    /// Counts a row that was added to the columns; writes a full row group.
    fn end_row(&mut self) -> Result<()> {
        self.rows += 1;
        if self.rows.is_multiple_of(GROUP) { self.write_group() } else { Ok(()) }
    }

    /// Writes a row group and empties the columns.
    fn write_group(&mut self) -> Result<()> {
        let written = (|| {
            let mut group = self.writer.next_row_group()?;
            for column in self.columns.all() {
                if let Some(mut writer) = group.next_column()? {
                    column.write(&mut writer)?;
                    writer.close()?;
                }
                column.clear();
            }
            group.close().map(drop)
        })();
        convert_error(&self.shown, written)
    }

    /// Writes the last row group and the trace's metadata, and completes the file.
    fn complete(mut self, info: &TraceInfo) -> Result<ExportReport> {
        if !self.rows.is_multiple_of(GROUP) {
            self.write_group()?;
        }
        for pair in write_metadata(info, &self.input_of) {
            self.writer.append_key_value_metadata(pair);
        }
        let (name, bytes) = convert_error(&self.shown, self.writer.into_inner())?.commit()?;
        Ok(ExportReport { files: vec![name], bytes, taken: self.rows, written: self.rows })
    }
}
