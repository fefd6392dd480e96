//! Events and I/Os as Parquet, in the columns of the data contract.
//!
//! Columns are collected for a row group and written one after the other. The encodings are cheap ones: slowly
//! changing columns are stored as packed differences; only process names use a dictionary.

use super::OutputFile;
use super::{ExportReport, Exporter};
use crate::characterise::remaps::Remaps;
use crate::error::{Result, TraceError};
use crate::event::{Action, DeviceId, Event, EventBatch};
use crate::filter::Filter;
use crate::io::{Io, NEVER};
use crate::pair::{BioOrigin, Pairer};
use crate::parquet_file::{InputByDevice, convert_error, write_metadata};
use crate::process::{ProcessTable, UNNAMED};
use crate::source::TraceInfo;
use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;
use std::collections::HashMap;
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

// Events as Parquet.

/// An exporter of events to a Parquet file at `path`.
///
/// `remap_device` and `remap_sector` are the source of a remapped request. `remap_sector` of a split is the start of
/// its second part, of an unplug the number of requests. `remap_target` is the disk, if the device is a partition of
/// it. `payload` is a passthrough command or a message's text.
pub fn parquet_events(path: &Path) -> Result<Box<dyn Exporter>> {
    Ok(Box::new(ParquetFile::<EventColumns>::create(path, &["time_ns", "seq"])?))
}

columns! {
    EventColumns(event: &Event, payload: &[u8]) "events":
    time_ns: Int64Column = "required int64" "(integer(64, false))" => event.time as i64,
    device: Int32Column = "required int32" "(integer(32, false))" => event.device.0 as i32,
    cpu: Int32Column = "required int32" "(integer(16, false))" => i32::from(event.cpu),
    seq: Int32Column = "required int32" "(integer(32, false))" => event.sequence as i32,
    pid: Int32Column = "required int32" "(integer(32, false))" => event.pid as i32,
    action: Int32Column = "required int32" "(integer(8, false))" => i32::from(event.action.0),
    rwbs: Int32Column = "required int32" "(integer(16, false))" => i32::from(event.rwbs.0),
    sector: Int64Column = "required int64" "(integer(64, false))" => event.sector as i64,
    bytes: Int32Column = "required int32" "(integer(32, false))" => event.bytes as i32,
    error: Int32Column = "required int32" "(integer(16, true))" => i32::from(event.error as i16),
    remap_device: OptionalInt32Column = "optional int32" "(integer(32, false))" =>
        (event.action == Action::REMAP).then_some(event.arg_device.0 as i32),
    remap_sector: OptionalInt64Column = "optional int64" "(integer(64, false))" =>
        matches!(event.action, Action::REMAP | Action::SPLIT | Action::UNPLUG | Action::UNPLUG_TIMER)
            .then_some(event.arg_sector as i64),
    process: ProcessNameColumn = "optional binary" "(string)" => event.pid,
    remap_target: OptionalInt32Column = "optional int32" "(integer(32, false))" =>
        (event.action == Action::REMAP && event.target_device != event.device)
            .then_some(event.target_device.0 as i32),
    payload: OptionalBytesColumn = "optional binary" "" => (!payload.is_empty()).then(|| payload.to_vec().into()),
}

impl Exporter for ParquetFile<EventColumns> {
    fn write(&mut self, batch: &EventBatch, _info: &TraceInfo) -> Result<()> {
        let mut names = batch.names.iter().peekable();
        for (index, event) in batch.events.iter().enumerate() {
            while let Some(name) = names.next_if(|name| name.before <= index) {
                self.columns.process.learn(name.pid, &name.name);
            }
            self.columns.push(event, batch.pdu_of(event));
            self.input_of.learn(event);
            self.end_row()?;
        }
        for name in names {
            self.columns.process.learn(name.pid, &name.name);
        }
        Ok(())
    }

    fn finish(self: Box<Self>, info: &TraceInfo) -> Result<ExportReport> {
        self.complete(info)
    }
}

// I/Os as Parquet: pairs events and writes the I/Os.

const PACKED: [&str; 4] = ["t_queue", "t_insert", "t_dispatch", "t_complete"];

/// An exporter of the I/Os that `filter` wants, in the order in which they end.
pub fn parquet_ios(path: &Path, filter: Filter) -> Result<Box<dyn Exporter>> {
    Ok(Box::new(IoExporter {
        out: ParquetFile::create(path, &PACKED)?,
        filter,
        pairers: Vec::new(),
        remaps: Remaps::default(),
        processes: ProcessTable::default(),
        done: Vec::new(),
    }))
}

columns! {
    IoColumns(io: &Io) "ios":
    device: Int32Column = "required int32" "(integer(32, false))" => io.device.0 as i32,
    sector: Int64Column = "required int64" "(integer(64, false))" => io.sector as i64,
    bytes: Int32Column = "required int32" "(integer(32, false))" => io.bytes as i32,
    rwbs: Int32Column = "required int32" "(integer(16, false))" => i32::from(io.rwbs.0),
    process: ProcessNameColumn = "optional binary" "(string)" => io.pid,
    t_queue: OptionalInt64Column = "optional int64" "(integer(64, false))" => known(io.t_queue),
    t_insert: OptionalInt64Column = "optional int64" "(integer(64, false))" => known(io.t_insert),
    t_dispatch: OptionalInt64Column = "optional int64" "(integer(64, false))" => known(io.t_dispatch),
    t_complete: OptionalInt64Column = "optional int64" "(integer(64, false))" => known(io.t_complete),
    error: Int32Column = "required int32" "(integer(16, true))" => i32::from(io.error as i16),
}

fn known(time: u64) -> Option<i64> {
    (time != NEVER).then_some(time as i64)
}

struct DevicePairer {
    device: DeviceId,
    wanted: bool,
    pairer: Pairer,
}

struct IoExporter {
    out: ParquetFile<IoColumns>,
    filter: Filter,
    pairers: Vec<DevicePairer>,
    remaps: Remaps,
    processes: ProcessTable,
    done: Vec<Io>,
}

impl IoExporter {
    fn pairer_index(&mut self, event: &Event, info: &TraceInfo) -> usize {
        let device = event.device;
        match self.pairers.iter().position(|pairer| pairer.device == device) {
            Some(at) => at,
            None => {
                let wanted = self.filter.wants_device(device, event.input, info);
                self.pairers.push(DevicePairer { device, wanted, pairer: Pairer::default() });
                self.pairers.len() - 1
            }
        }
    }

    /// Writes the I/Os of a device that have ended.
    fn write_done(&mut self, at: usize) -> Result<()> {
        let (filter, processes, wanted) = (&self.filter, &self.processes, self.pairers[at].wanted);
        self.done.retain(|io| {
            wanted && filter.wants_io(io) && filter.wants_process(io.pid, processes.name(io.pid).unwrap_or(UNNAMED))
        });
        for io in self.done.drain(..) {
            self.out.columns.push(&io);
            self.out.end_row()?;
        }
        Ok(())
    }
}

impl Exporter for IoExporter {
    fn write(&mut self, batch: &EventBatch, info: &TraceInfo) -> Result<()> {
        batch.events.iter().for_each(|event| self.out.input_of.learn(event));
        for name in &batch.names {
            self.processes.learn(name.pid, &name.name);
            self.out.columns.process.learn(name.pid, &name.name);
        }
        for event in &batch.events {
            let at = self.pairer_index(event, info);
            let source = match event.action {
                Action::REMAP => {
                    self.remaps.remap(event);
                    continue;
                }
                Action::QUEUE => self.remaps.source_of(event),
                _ => DeviceId(0),
            };
            self.pairers[at].pairer.add_event(event, BioOrigin { source, ..BioOrigin::default() }, &mut self.done);
            if !self.done.is_empty() {
                self.write_done(at)?;
            }
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>, info: &TraceInfo) -> Result<ExportReport> {
        for at in 0..self.pairers.len() {
            self.pairers[at].pairer.finish(&mut self.done);
            self.write_done(at)?;
        }
        if self.out.rows == 0 {
            return Err(info.nothing_selected());
        }
        self.out.complete(info)
    }
}

// Columns of a row group that is being filled.

/// A column's values in a row group.
pub trait Column {
    /// Writes the values to the file's column.
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()>;

    /// Empties the column, keeps the memory.
    fn clear(&mut self);
}

/// The columns of a table, in the order of its schema.
pub trait Columns: Default {
    const SCHEMA: &'static str;
    fn all(&mut self) -> Vec<&mut dyn Column>;
}

/// Declares the columns of a table, each with its repetition and physical type, its logical type and its value.
macro_rules! columns {
    ($name:ident($($row:ident: $of:ty),+) $table:literal:
     $($column:ident: $type:ty = $physical:literal $logical:literal => $value:expr,)+) => {
        #[derive(Default)]
        struct $name {
            $($column: $type,)+
        }

        impl $name {
            fn push(&mut self, $($row: $of),+) {
                $(self.$column.push($value);)+
            }
        }

        impl Columns for $name {
            const SCHEMA: &'static str = concat!(
                "message ", $table, " {", $($physical, " ", stringify!($column), " ", $logical, ";",)+ "}"
            );

            fn all(&mut self) -> Vec<&mut dyn Column> {
                vec![$(&mut self.$column),+]
            }
        }
    };
}

use columns;

/// Values of one type. A column in which values can be missing has a level for each row: 1 with a value, otherwise 0.
pub struct TypedColumn<T: DataType, const OPTIONAL: bool> {
    values: Vec<T::T>,
    levels: Vec<i16>,
}

impl<T: DataType, const OPTIONAL: bool> Default for TypedColumn<T, OPTIONAL> {
    fn default() -> Self {
        Self { values: Vec::new(), levels: Vec::new() }
    }
}

impl<T: DataType, const OPTIONAL: bool> Column for TypedColumn<T, OPTIONAL> {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        let levels = OPTIONAL.then_some(&self.levels[..]);
        writer.typed::<T>().write_batch(&self.values, levels, None).map(drop)
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

impl<T: DataType> TypedColumn<T, false> {
    pub fn push(&mut self, value: T::T) {
        self.values.push(value);
    }
}

impl<T: DataType> TypedColumn<T, true> {
    pub fn push(&mut self, value: Option<T::T>) {
        self.levels.push(i16::from(value.is_some()));
        self.values.extend(value);
    }
}

pub type Int32Column = TypedColumn<Int32Type, false>;
pub type Int64Column = TypedColumn<Int64Type, false>;
pub type OptionalInt32Column = TypedColumn<Int32Type, true>;
pub type OptionalInt64Column = TypedColumn<Int64Type, true>;
pub type OptionalBytesColumn = TypedColumn<ByteArrayType, true>;

/// Process names by process id; written through a dictionary.
#[derive(Default)]
pub struct ProcessNameColumn {
    texts: Vec<ByteArray>, // Each distinct name
    numbers: HashMap<String, u32>,
    by_pid: HashMap<u32, u32>,
    rows: Vec<u32>, // For each row, the name's number plus one, or 0 without a name
}

const MOST: usize = 1 << 20; // The largest number of processes with names, and of distinct names

impl ProcessNameColumn {
    /// Adds a process's name; the first one stays, as in [`crate::process::ProcessTable`].
    pub fn learn(&mut self, pid: u32, name: &[u8]) {
        if self.by_pid.len() >= MOST {
            return;
        }
        let texts = &mut self.texts;
        self.by_pid.entry(pid).or_insert_with(|| {
            let name: String = String::from_utf8_lossy(name).chars().take(64).collect();
            *self.numbers.entry(name).or_insert_with_key(|name| {
                texts.push(name.as_str().into());
                texts.len() as u32
            })
        });
    }

    /// Adds the name of a row's process, if it is known.
    pub fn push(&mut self, pid: u32) {
        self.rows.push(self.by_pid.get(&pid).copied().unwrap_or(0));
    }
}

impl Column for ProcessNameColumn {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        let typed = writer.typed::<ByteArrayType>();
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        for rows in self.rows.chunks(4096) {
            values.clear();
            levels.clear();
            for &row in rows {
                levels.push(i16::from(row != 0));
                if row != 0 {
                    values.push(self.texts[row as usize - 1].clone());
                }
            }
            typed.write_batch(&values, Some(&levels), None)?;
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.rows.clear();
    }
}
