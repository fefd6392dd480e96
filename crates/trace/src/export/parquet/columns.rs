//! Columns of a row group that is being filled.

use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
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

/// The columns of a table, in the order of its schema.
pub trait Columns: Default {
    const SCHEMA: &'static str;
    fn all(&mut self) -> Vec<&mut dyn Column>;
}

/// Declares the columns of a table, each with its repetition and physical type, and its logical type.
macro_rules! columns {
    ($name:ident $table:literal: $($column:ident: $type:ty = $physical:literal $logical:literal,)+) => {
        #[derive(Default)]
        struct $name {
            $($column: $type,)+
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

pub(super) use columns;

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
