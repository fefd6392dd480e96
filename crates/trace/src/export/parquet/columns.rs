//! Columns of a row group that is being filled.

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::writer::SerializedColumnWriter;
use std::collections::HashMap;

/// A column's values in a row group.
pub trait Column {
    /// Writes the values to the file's column.
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()>;

    /// Empties the column, keeps the memory.
    fn clear(&mut self);
}

/// Required 32-bit (and narrower) numbers.
#[derive(Default)]
pub struct Int32Column(Vec<i32>);

impl Int32Column {
    #[inline]
    pub fn push(&mut self, value: u32) {
        self.0.push(value as i32);
    }

    #[inline]
    pub fn push_signed(&mut self, value: i16) {
        self.0.push(i32::from(value));
    }
}

impl Column for Int32Column {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        writer.typed::<Int32Type>().write_batch(&self.0, None, None).map(drop)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Required 64-bit numbers.
#[derive(Default)]
pub struct Int64Column(Vec<i64>);

impl Int64Column {
    #[inline]
    pub fn push(&mut self, value: u64) {
        self.0.push(value as i64);
    }
}

impl Column for Int64Column {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        writer.typed::<Int64Type>().write_batch(&self.0, None, None).map(drop)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Optional 32-bit numbers.
#[derive(Default)]
pub struct OptionalInt32Column {
    values: Vec<i32>,
    levels: Vec<i16>,
}

impl OptionalInt32Column {
    #[inline]
    pub fn push(&mut self, value: Option<u32>) {
        self.levels.push(i16::from(value.is_some()));
        if let Some(value) = value {
            self.values.push(value as i32);
        }
    }
}

impl Column for OptionalInt32Column {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        let typed = writer.typed::<Int32Type>();
        typed.write_batch(&self.values, Some(&self.levels), None).map(drop)
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// Optional 64-bit numbers.
#[derive(Default)]
pub struct OptionalInt64Column {
    values: Vec<i64>,
    levels: Vec<i16>,
}

impl OptionalInt64Column {
    #[inline]
    pub fn push(&mut self, value: Option<u64>) {
        self.levels.push(i16::from(value.is_some()));
        if let Some(value) = value {
            self.values.push(value as i64);
        }
    }
}

impl Column for OptionalInt64Column {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        let typed = writer.typed::<Int64Type>();
        typed.write_batch(&self.values, Some(&self.levels), None).map(drop)
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

#[derive(Default)]
pub struct OptionalBytesColumn {
    values: Vec<ByteArray>,
    levels: Vec<i16>,
}

impl OptionalBytesColumn {
    /// Adds a row's bytes; an empty slice is a missing value.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.levels.push(i16::from(!bytes.is_empty()));
        if !bytes.is_empty() {
            self.values.push(bytes.to_vec().into());
        }
    }
}

impl Column for OptionalBytesColumn {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        let typed = writer.typed::<ByteArrayType>();
        typed.write_batch(&self.values, Some(&self.levels), None).map(drop)
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// Process names by process id; written through a dictionary.
#[derive(Default)]
pub struct ProcessNameColumn {
    texts: Vec<ByteArray>, // Each distinct name
    numbers: HashMap<String, u32>,
    by_pid: HashMap<u32, u32>,
    last: Option<(u32, u32)>,
    rows: Vec<u32>, // For each row, the name's number plus one, or 0 without a name
}

/// The largest number of processes with names, and of distinct names.
const MOST: usize = 1 << 20;

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
        self.last = None;
    }

    /// Adds the name of a row's process, if it is known.
    #[inline]
    pub fn push(&mut self, pid: u32) {
        let row = match self.last {
            Some((last, row)) if last == pid => row,
            _ => {
                let row = self.by_pid.get(&pid).copied().unwrap_or(0);
                self.last = Some((pid, row));
                row
            }
        };
        self.rows.push(row);
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
