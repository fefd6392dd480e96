//! Events from Parquet, as [`crate::export`] writes them: a round trip through data-frame tools.

use super::names::NewProcessNames;
use super::{FORMATS, Format};
use crate::error::{Result, TraceError};
use crate::event::{Action, DeviceId, Event, EventBatch, Rwbs};
use crate::parquet_file::{InputByDevice, convert_error, read_metadata};
use crate::source::{Capabilities, OpenInput, Source, TraceInfo, single_file};
use parquet::basic::Type;
use parquet::column::reader::get_typed_column_reader;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Parquet with the columns of blklab's events, as trace convert writes it.
pub const FORMAT: Format = Format {
    name: "parquet",
    // Capabilities of a file that does not name its original format.
    capabilities: Capabilities { layers: false, ..Capabilities::BLKTRACE },
    sniff: |head| head.starts_with(MAGIC),
    reader: open,
};

const MAGIC: &[u8] = b"PAR1";
/// The columns by type, in the order in which [`RowGroup`] has them.
const WORDS: [&str; 10] =
    ["device", "cpu", "seq", "pid", "action", "rwbs", "bytes", "error", "remap_device", "remap_target"];
const LONGS: [&str; 3] = ["time_ns", "sector", "remap_sector"];
const TEXTS: [&str; 2] = ["process", "payload"];
/// The columns that a file can lack.
const OPTIONAL: [&str; 5] = ["remap_device", "remap_target", "remap_sector", "process", "payload"];

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
    words: Vec<Option<usize>>,
    longs: Vec<Option<usize>>,
    texts: Vec<Option<usize>>,
}

impl ColumnIndexes {
    fn find(path: &str, reader: &SerializedFileReader<File>) -> Result<ColumnIndexes> {
        let schema = reader.metadata().file_metadata().schema_descr();
        let malformed = |problem: String| TraceError::malformed(path, "Parquet schema", problem);
        let find = |name: &str, kind: Type| {
            let column = schema.columns().iter().position(|c| c.path().parts() == [name]);
            match column.map(|i| (i, schema.column(i))) {
                Some((_, c)) if c.physical_type() != kind || c.max_rep_level() != 0 => {
                    Err(malformed(format!("column {name:?} is {}, expected {kind}", c.physical_type())))
                }
                None if !OPTIONAL.contains(&name) => {
                    let has_ios = schema.columns().iter().any(|c| c.name() == "t_queue");
                    let hint = if has_ios { "; the file holds I/Os, not events" } else { "" };
                    Err(malformed(format!("no column {name:?}{hint}")))
                }
                found => Ok(found.map(|(i, _)| i)),
            }
        };
        let find_all =
            |names: &[&str], kind: Type| names.iter().map(|name| find(name, kind)).collect::<Result<Vec<_>>>();
        Ok(ColumnIndexes {
            longs: find_all(&LONGS, Type::INT64)?,
            words: find_all(&WORDS, Type::INT32)?,
            texts: find_all(&TEXTS, Type::BYTE_ARRAY)?,
        })
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

/// Columns of one type; `None` if the file lacks them.
type Cursors<T> = Vec<Option<ColumnCursor<T>>>;

fn open_columns<T: DataType>(group: &dyn RowGroupReader, columns: &[Option<usize>]) -> ParquetResult<Cursors<T>> {
    let open = |column: usize| {
        let optional = group.metadata().schema_descr().column(column).max_def_level() > 0;
        group.get_column_reader(column).map(|reader| ColumnCursor::new(reader, optional))
    };
    columns.iter().map(|column| column.map(open).transpose()).collect()
}

/// Reads rows of all columns; adds the number of rows of each to `lengths`.
fn read_columns<T: DataType>(columns: &mut Cursors<T>, count: usize, lengths: &mut Vec<usize>) -> ParquetResult<()> {
    for column in columns.iter_mut().flatten() {
        column.read_rows(count)?;
        lengths.push(column.rows.len());
    }
    Ok(())
}

fn value<T: DataType>(columns: &Cursors<T>, column: usize, row: usize) -> Option<&T::T> {
    columns[column].as_ref()?.rows[row].as_ref()
}

struct RowGroup {
    words: Cursors<Int32Type>,
    longs: Cursors<Int64Type>,
    texts: Cursors<ByteArrayType>,
}

impl RowGroup {
    fn open(reader: &SerializedFileReader<File>, number: usize, columns: &ColumnIndexes) -> ParquetResult<RowGroup> {
        let group = reader.get_row_group(number)?;
        Ok(RowGroup {
            words: open_columns(&*group, &columns.words)?,
            longs: open_columns(&*group, &columns.longs)?,
            texts: open_columns(&*group, &columns.texts)?,
        })
    }

    /// Reads the next rows; returns how many there are.
    fn read_rows(&mut self, count: usize) -> ParquetResult<usize> {
        let mut lengths = Vec::new();
        read_columns(&mut self.words, count, &mut lengths)?;
        read_columns(&mut self.longs, count, &mut lengths)?;
        read_columns(&mut self.texts, count, &mut lengths)?;
        let rows = lengths[0];
        if lengths.iter().any(|&length| length != rows) {
            return Err(ParquetError::General("columns of different lengths".into()));
        }
        Ok(rows)
    }

    fn event(&self, row: usize) -> Event {
        let word = |column: usize| value(&self.words, column, row).map_or(0, |&word| word as u32);
        let long = |column: usize| value(&self.longs, column, row).map_or(0, |&long| long as u64);
        let mut event = Event {
            time: long(0),
            sector: long(1),
            arg_sector: long(2),
            device: DeviceId(word(0)),
            cpu: word(1) as u16,
            sequence: word(2),
            pid: word(3),
            action: Action(word(4) as u8),
            rwbs: Rwbs(word(5) as u16),
            bytes: word(6),
            error: word(7) as u16,
            arg_device: DeviceId(word(8)),
            ..Event::default()
        };
        if value(&self.words, 8, row).is_some() {
            event.target_device = value(&self.words, 9, row).map_or(event.device, |&target| DeviceId(target as u32));
        }
        event
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
                let [process, payload] = [0, 1].map(|column| value(&group.texts, column, row));
                event.input = self.input_of.get(event.device);
                if let Some(name) = process {
                    self.processes.learn(event.pid, name.data());
                    self.processes.report(batch);
                }
                self.backwards += u64::from(event.time < self.last_time);
                self.last_time = event.time;
                if let Some(payload) = payload {
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
