//! Events from Parquet, as [`crate::export`] writes them: a round trip through data-frame tools.

use super::names::NewProcessNames;
use super::{FORMATS, Format};
use crate::error::{Result, TraceError};
use crate::event::{Action, DeviceId, Event, EventBatch, ProcessName, Rwbs};
use crate::parquet_file::{InputByDevice, convert_error, read_metadata};
use crate::source::{Capabilities, OpenInput, Source, TraceInfo, single_file};
use parquet::basic::Type;
use parquet::column::reader::get_typed_column_reader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub const FORMAT: Format = Format {
    name: "parquet",
    about: "Parquet with the columns of blklab's events, as trace convert writes it",
    // Capabilities of a file that does not name its original format.
    capabilities: Capabilities { layers: false, ..Capabilities::BLKTRACE },
    sniff: |head| head.starts_with(MAGIC),
    reader: open,
};

const MAGIC: &[u8] = b"PAR1";
/// The columns in the order of [`RowGroup`]'s arrays; other columns are optional.
const WORDS: [&str; 8] = ["device", "cpu", "seq", "pid", "action", "rwbs", "bytes", "error"];
const LONGS: [&str; 2] = ["time_ns", "sector"];

fn open(mut info: TraceInfo, inputs: Vec<OpenInput>) -> Result<Box<dyn Source>> {
    let path = single_file(inputs, &info.format)?.path;
    let file = File::open(&path).map_err(|e| {
        TraceError::Request(format!("{path}: Parquet must be an uncompressed file, not a stream ({e})"))
    })?;
    info.bytes_read = file.metadata().map(|m| m.len()).unwrap_or(0);
    let reader = catch_panics(&path, || SerializedFileReader::new(file))?;
    let pairs = reader.metadata().file_metadata().key_value_metadata();
    let origin = read_metadata(pairs.map_or(&[], Vec::as_slice), &mut info);
    // Files of blklab 0.1.0 have only the name of the format.
    let known = |name: String| FORMATS.iter().find(|f| f.name == name).map(|f| f.capabilities);
    let capabilities = origin.capabilities.or_else(|| origin.format.and_then(known));
    info.capabilities = capabilities.unwrap_or(info.capabilities);
    let columns = ColumnIndexes::find(&path, &reader)?;
    Ok(Box::new(ParquetSource {
        path,
        reader,
        columns,
        input_of: origin.input_of,
        next_group: 0,
        group: None,
        processes: NewProcessNames::default(),
        last_time: 0,
        backwards: 0,
        info,
    }))
}

/// Runs the library on untrusted bytes: turns its panics into errors.
fn catch_panics<T>(path: &str, work: impl FnOnce() -> ParquetResult<T>) -> Result<T> {
    let done = catch_unwind(AssertUnwindSafe(work))
        .unwrap_or_else(|_| Err(ParquetError::General("damaged beyond what can be read".into())));
    convert_error(path, done)
}

/// The indexes of the columns in the file.
struct ColumnIndexes {
    words: [usize; WORDS.len()],
    longs: [usize; LONGS.len()],
    remap_device: Option<usize>,
    remap_sector: Option<usize>,
    process: Option<usize>,
    remap_target: Option<usize>,
    payload: Option<usize>,
}

impl ColumnIndexes {
    fn find(path: &str, reader: &SerializedFileReader<File>) -> Result<ColumnIndexes> {
        let schema = reader.metadata().file_metadata().schema_descr();
        let malformed =
            |problem: String| TraceError::Malformed { path: path.to_owned(), place: "Parquet schema".into(), problem };
        let find = |name: &str, kind: Type| {
            let column = schema.columns().iter().position(|c| c.path().parts() == [name]);
            match column.map(|i| (i, schema.column(i))) {
                Some((_, c)) if c.physical_type() != kind || c.max_rep_level() != 0 => {
                    Err(malformed(format!("column {name:?} is {}, expected {kind}", c.physical_type())))
                }
                found => Ok(found.map(|(i, _)| i)),
            }
        };
        let need = |name: &str, kind: Type| {
            let hint = if schema.columns().iter().any(|c| c.name() == "t_queue") {
                "; the file holds I/Os, not events"
            } else {
                ""
            };
            find(name, kind)?.ok_or_else(|| malformed(format!("no column {name:?}{hint}")))
        };
        let mut columns = ColumnIndexes {
            words: [0; WORDS.len()],
            longs: [0; LONGS.len()],
            remap_device: find("remap_device", Type::INT32)?,
            remap_sector: find("remap_sector", Type::INT64)?,
            process: find("process", Type::BYTE_ARRAY)?,
            remap_target: find("remap_target", Type::INT32)?,
            payload: find("payload", Type::BYTE_ARRAY)?,
        };
        for (name, place) in LONGS.iter().zip(&mut columns.longs) {
            *place = need(name, Type::INT64)?;
        }
        for (name, place) in WORDS.iter().zip(&mut columns.words) {
            *place = need(name, Type::INT32)?;
        }
        Ok(columns)
    }
}

/// One column of a row group, read in steps.
struct ColumnCursor<T: DataType> {
    reader: ColumnReaderImpl<T>,
    optional: bool,
    values: Vec<T::T>,
    levels: Vec<i16>,
    rows: Vec<Option<T::T>>,
}

impl<T: DataType> ColumnCursor<T> {
    fn new(reader: ColumnReader, optional: bool) -> ColumnCursor<T> {
        let reader = get_typed_column_reader::<T>(reader);
        ColumnCursor { reader, optional, values: Vec::new(), levels: Vec::new(), rows: Vec::new() }
    }

    /// Reads the next `count` rows, or fewer at the end of the group.
    fn read_rows(&mut self, count: usize) -> ParquetResult<()> {
        self.values.clear();
        self.levels.clear();
        self.rows.clear();
        let levels = self.optional.then_some(&mut self.levels);
        let (rows, _, _) = self.reader.read_records(count, levels, None, &mut self.values)?;
        let mut values = self.values.drain(..);
        if self.optional {
            self.rows.extend(self.levels.iter().map(|&l| if l == 1 { values.next() } else { None }));
        } else {
            self.rows.extend(values.by_ref().map(Some));
        }
        if self.rows.len() != rows {
            return Err(ParquetError::General(format!("{} of {rows} rows have a value", self.rows.len())));
        }
        Ok(())
    }
}

struct RowGroup {
    words: [ColumnCursor<Int32Type>; WORDS.len()],
    longs: [ColumnCursor<Int64Type>; LONGS.len()],
    remap_device: Option<ColumnCursor<Int32Type>>,
    remap_sector: Option<ColumnCursor<Int64Type>>,
    process: Option<ColumnCursor<ByteArrayType>>,
    remap_target: Option<ColumnCursor<Int32Type>>,
    payload: Option<ColumnCursor<ByteArrayType>>,
}

impl RowGroup {
    fn open(reader: &SerializedFileReader<File>, number: usize, columns: &ColumnIndexes) -> ParquetResult<RowGroup> {
        let group = reader.get_row_group(number)?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let optional = |column: usize| schema.column(column).max_def_level() > 0;
        let column = |column: usize| group.get_column_reader(column).map(|r| (r, optional(column)));
        let words = |at: usize| column(at).map(|(r, optional)| ColumnCursor::new(r, optional));
        let longs = |at: usize| column(at).map(|(r, optional)| ColumnCursor::new(r, optional));
        let texts = |at: usize| column(at).map(|(r, optional)| ColumnCursor::new(r, optional));
        let [device, cpu, seq, pid, action, rwbs, bytes, error] = columns.words;
        Ok(RowGroup {
            words: [
                words(device)?,
                words(cpu)?,
                words(seq)?,
                words(pid)?,
                words(action)?,
                words(rwbs)?,
                words(bytes)?,
                words(error)?,
            ],
            longs: [longs(columns.longs[0])?, longs(columns.longs[1])?],
            remap_device: columns.remap_device.map(words).transpose()?,
            remap_sector: columns.remap_sector.map(longs).transpose()?,
            process: columns.process.map(texts).transpose()?,
            remap_target: columns.remap_target.map(words).transpose()?,
            payload: columns.payload.map(texts).transpose()?,
        })
    }

    /// Reads the next rows of every column; returns their number.
    fn read_rows(&mut self, count: usize) -> ParquetResult<usize> {
        let mut lengths = Vec::new();
        for column in &mut self.words {
            column.read_rows(count)?;
            lengths.push(column.rows.len());
        }
        for column in &mut self.longs {
            column.read_rows(count)?;
            lengths.push(column.rows.len());
        }
        fn read_optional<T: DataType>(
            column: &mut Option<ColumnCursor<T>>, count: usize,
        ) -> ParquetResult<Option<usize>> {
            column.as_mut().map(|column| column.read_rows(count).map(|()| column.rows.len())).transpose()
        }
        lengths.extend(read_optional(&mut self.remap_device, count)?);
        lengths.extend(read_optional(&mut self.remap_sector, count)?);
        lengths.extend(read_optional(&mut self.process, count)?);
        lengths.extend(read_optional(&mut self.remap_target, count)?);
        lengths.extend(read_optional(&mut self.payload, count)?);
        let rows = lengths[0];
        if lengths.iter().any(|&length| length != rows) {
            return Err(ParquetError::General("columns of different lengths".into()));
        }
        Ok(rows)
    }

    fn word(&self, column: usize, row: usize) -> u32 {
        self.words[column].rows[row].unwrap_or(0) as u32
    }

    fn event(&self, row: usize) -> Event {
        let mut event = Event {
            time: self.longs[0].rows[row].unwrap_or(0) as u64,
            sector: self.longs[1].rows[row].unwrap_or(0) as u64,
            device: DeviceId(self.word(0, row)),
            cpu: self.word(1, row) as u16,
            sequence: self.word(2, row),
            pid: self.word(3, row),
            action: Action(self.word(4, row) as u8),
            rwbs: Rwbs(self.word(5, row) as u16),
            bytes: self.word(6, row),
            error: self.word(7, row) as u16,
            ..Event::default()
        };
        if let Some(column) = &self.remap_sector {
            event.arg_sector = column.rows[row].unwrap_or(0) as u64;
        }
        if let Some(device) = self.remap_device.as_ref().and_then(|column| column.rows[row]) {
            event.arg_device = DeviceId(device as u32);
            let target = self.remap_target.as_ref().and_then(|column| column.rows[row]);
            event.target_device = target.map_or(event.device, |target| DeviceId(target as u32));
        }
        event
    }

    fn name(&self, row: usize) -> Option<&ByteArray> {
        self.process.as_ref()?.rows[row].as_ref()
    }

    fn payload(&self, row: usize) -> Option<&ByteArray> {
        self.payload.as_ref()?.rows[row].as_ref()
    }
}

struct ParquetSource {
    path: String,
    reader: SerializedFileReader<File>,
    columns: ColumnIndexes,
    input_of: InputByDevice,
    next_group: usize,
    group: Option<RowGroup>,
    processes: NewProcessNames,
    last_time: u64,
    backwards: u64, // Rows that are earlier than the previous row
    info: TraceInfo,
}

impl Source for ParquetSource {
    fn fill(&mut self, batch: &mut EventBatch) -> Result<bool> {
        loop {
            if self.group.is_none() {
                if self.next_group >= self.reader.metadata().num_row_groups() {
                    return Ok(false);
                }
                let (reader, number) = (&self.reader, self.next_group);
                self.next_group += 1;
                self.group = Some(catch_panics(&self.path, || RowGroup::open(reader, number, &self.columns))?);
            }
            let Some(group) = &mut self.group else { return Ok(false) };
            let rows = catch_panics(&self.path, || group.read_rows(EventBatch::TARGET))?;
            for row in 0..rows {
                let mut event = group.event(row);
                event.input = self.input_of.get(event.device);
                if let Some(name) = group.name(row) {
                    self.processes.learn(event.pid, name.data());
                    let before = batch.events.len();
                    let unreported = self.processes.unreported.drain(..);
                    batch.names.extend(unreported.map(|(pid, name)| ProcessName { before, pid, name }));
                }
                self.backwards += u64::from(event.time < self.last_time);
                self.last_time = event.time;
                if let Some(payload) = group.payload(row) {
                    batch.attach(&mut event, payload.data());
                }
                batch.events.push(event);
            }
            self.info.out_of_order = self.info.out_of_order.max(self.backwards);
            if rows > 0 {
                return Ok(true);
            }
            self.group = None;
        }
    }

    fn info(&self) -> &TraceInfo {
        &self.info
    }
}
