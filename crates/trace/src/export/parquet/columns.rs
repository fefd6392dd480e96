//! Columns gathered until they fill a row group.

use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
use parquet::errors::Result as ParquetResult;
use parquet::file::writer::SerializedColumnWriter;
use std::collections::HashMap;

/// A column's values for one row group.
pub trait Column {
    /// Hands the values to the file's column.
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()>;

    /// Forgets the values, keeps the memory.
    fn clear(&mut self);
}

/// 32-bit numbers (and narrower ones), always there.
#[derive(Default)]
pub struct Words(Vec<i32>);

impl Words {
    #[inline]
    pub fn push(&mut self, value: u32) {
        self.0.push(value as i32);
    }

    #[inline]
    pub fn push_signed(&mut self, value: i16) {
        self.0.push(i32::from(value));
    }
}

impl Column for Words {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        writer.typed::<Int32Type>().write_batch(&self.0, None, None).map(drop)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// 64-bit numbers, always there.
#[derive(Default)]
pub struct Longs(Vec<i64>);

impl Longs {
    #[inline]
    pub fn push(&mut self, value: u64) {
        self.0.push(value as i64);
    }
}

impl Column for Longs {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        writer.typed::<Int64Type>().write_batch(&self.0, None, None).map(drop)
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// 32-bit numbers that may be missing.
#[derive(Default)]
pub struct MaybeWords {
    values: Vec<i32>,
    levels: Vec<i16>,
}

impl MaybeWords {
    #[inline]
    pub fn push(&mut self, value: Option<u32>) {
        self.levels.push(i16::from(value.is_some()));
        if let Some(value) = value {
            self.values.push(value as i32);
        }
    }
}

impl Column for MaybeWords {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        let typed = writer.typed::<Int32Type>();
        typed.write_batch(&self.values, Some(&self.levels), None).map(drop)
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// 64-bit numbers that may be missing.
#[derive(Default)]
pub struct MaybeLongs {
    values: Vec<i64>,
    levels: Vec<i16>,
}

impl MaybeLongs {
    #[inline]
    pub fn push(&mut self, value: Option<u64>) {
        self.levels.push(i16::from(value.is_some()));
        if let Some(value) = value {
            self.values.push(value as i64);
        }
    }
}

impl Column for MaybeLongs {
    fn write(&self, writer: &mut SerializedColumnWriter<'_>) -> ParquetResult<()> {
        let typed = writer.typed::<Int64Type>();
        typed.write_batch(&self.values, Some(&self.levels), None).map(drop)
    }

    fn clear(&mut self) {
        self.values.clear();
        self.levels.clear();
    }
}

/// Bytes that may be missing.
#[derive(Default)]
pub struct MaybeBytes {
    values: Vec<ByteArray>,
    levels: Vec<i16>,
}

impl MaybeBytes {
    /// Adds a row's bytes; none are missing.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.levels.push(i16::from(!bytes.is_empty()));
        if !bytes.is_empty() {
            self.values.push(bytes.to_vec().into());
        }
    }
}

impl Column for MaybeBytes {
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
pub struct Names {
    /// Each distinct name.
    texts: Vec<ByteArray>,
    numbers: HashMap<String, u32>,
    by_pid: HashMap<u32, u32>,
    last: Option<(u32, u32)>,
    /// One plus the name's number, or 0 for none, for each row.
    rows: Vec<u32>,
}

/// Processes whose names are remembered, and names told apart.
const MOST: usize = 1 << 20;

impl Names {
    /// Takes in a process's name; the first stays, as in [`crate::process::ProcessTable`].
    pub fn learn(&mut self, pid: u32, name: &str) {
        if self.by_pid.len() >= MOST {
            return;
        }
        let texts = &mut self.texts;
        self.by_pid.entry(pid).or_insert_with(|| {
            let name: String = name.chars().take(64).collect();
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

impl Column for Names {
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
