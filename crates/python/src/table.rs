//! Tables for Python: Arrow record batches, handed over by the PyCapsule interface
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use crate::errors::error;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator};
use arrow_schema::{DataType, Field, Schema, ffi::FFI_ArrowSchema};
use maracas_sweep::table::{Column, Kind, Rows, Value};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::sync::Arc;

/// A table with typed columns.
///
/// pandas, Polars, DuckDB, pyarrow and whatever else speaks Arrow's PyCapsule interface read it
/// without a copy: `polars.DataFrame(table)`, `pyarrow.table(table)`.
#[pyclass(frozen, module = "maracas")]
pub(crate) struct Table(RecordBatch);

impl Table {
    /// A table of these rows.
    ///
    /// # Errors
    /// Where they cannot be read.
    pub(crate) fn of(columns: &[Column], rows: Rows<'_>) -> PyResult<Self> {
        let mut cells: Vec<Cells> = columns.iter().map(|column| Cells::new(column.kind)).collect();
        for row in rows {
            let row = row.map_err(error)?;
            cells.iter_mut().zip(row).for_each(|(cells, value)| cells.push(value));
        }
        let field = |column: &Column| {
            let kind = match column.kind {
                Kind::Text => DataType::Utf8,
                Kind::Whole => DataType::Int64,
                Kind::Number => DataType::Float64,
                Kind::Flag => DataType::Boolean,
            };
            Field::new(&column.name, kind, column.optional)
        };
        let fields: Vec<_> = columns.iter().map(field).collect();
        let arrays = cells.into_iter().map(Cells::array);
        let schema = Arc::new(Schema::new(fields));
        RecordBatch::try_new(schema, arrays.collect()).map(Self).map_err(error)
    }

    /// The table that a text of comma-separated values is. Columns of these names are text, those
    /// whose values have a point are numbers, all others whole numbers; empty values are missing.
    pub(crate) fn of_csv(text: &[u8], words: &[&str]) -> PyResult<Self> {
        let mut reader = csv::Reader::from_reader(text);
        let names: Vec<String> =
            reader.headers().map_err(error)?.iter().map(str::to_owned).collect();
        let records = reader.records().collect::<Result<Vec<_>, _>>().map_err(error)?;
        let kind = |place: usize, name: &str| {
            let mut cells = records.iter().filter_map(|record| record.get(place));
            match (words.contains(&name), name.ends_with("_cycles")) {
                (true, _) => Kind::Text,
                (_, true) => Kind::Number,
                _ if cells.any(|cell| cell.contains('.')) => Kind::Number,
                _ => Kind::Whole,
            }
        };
        let column = |(place, name): (usize, &String)| {
            Column::new(name.clone(), kind(place, name)).optional()
        };
        let columns: Vec<_> = names.iter().enumerate().map(column).collect();
        let value = |(column, cell): (&Column, &str)| match column.kind {
            _ if cell.is_empty() => Value::Missing,
            Kind::Number => Value::maybe(cell.parse().ok(), Value::Number),
            // Differences are below zero at times: a whole number keeps its bits.
            Kind::Whole => Value::maybe(cell.parse::<i64>().ok(), |n| Value::Whole(n as u64)),
            Kind::Text | Kind::Flag => Value::Text(cell.to_owned()),
        };
        let row = |record| Ok(columns.iter().zip(record).map(value).collect());
        Self::of(&columns, Box::new(records.iter().map(row)))
    }
}

/// A column that grows in Arrow's own form: a value of it takes no more room than in the table.
enum Cells {
    Text(StringBuilder),
    Whole(Int64Builder),
    Number(Float64Builder),
    Flag(BooleanBuilder),
}

impl Cells {
    fn new(kind: Kind) -> Self {
        match kind {
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::Whole => Self::Whole(Int64Builder::new()),
            Kind::Number => Self::Number(Float64Builder::new()),
            Kind::Flag => Self::Flag(BooleanBuilder::new()),
        }
    }
    /// A value; one that is not of the column's kind is missing.
    fn push(&mut self, value: Value) {
        match (self, value) {
            (Self::Text(cells), Value::Text(text)) => cells.append_value(text),
            (Self::Whole(cells), Value::Whole(number)) => cells.append_value(number as i64),
            (Self::Number(cells), Value::Number(number)) => cells.append_value(number),
            (Self::Flag(cells), Value::Flag(flag)) => cells.append_value(flag),
            (Self::Text(cells), _) => cells.append_null(),
            (Self::Whole(cells), _) => cells.append_null(),
            (Self::Number(cells), _) => cells.append_null(),
            (Self::Flag(cells), _) => cells.append_null(),
        }
    }
    fn array(self) -> ArrayRef {
        match self {
            Self::Text(mut cells) => Arc::new(cells.finish()),
            Self::Whole(mut cells) => Arc::new(cells.finish()),
            Self::Number(mut cells) => Arc::new(cells.finish()),
            Self::Flag(mut cells) => Arc::new(cells.finish()),
        }
    }
}

/// The value of an array at a place, for Python.
fn cell(py: Python<'_>, array: &dyn Array, row: usize) -> PyResult<Py<PyAny>> {
    if array.is_null(row) {
        return Ok(py.None());
    }
    if let Some(array) = array.as_string_opt::<i32>() {
        return array.value(row).into_py_any(py);
    }
    if let Some(array) = array.as_primitive_opt::<Int64Type>() {
        return array.value(row).into_py_any(py);
    }
    if let Some(array) = array.as_primitive_opt::<Float64Type>() {
        return array.value(row).into_py_any(py);
    }
    array.as_boolean().value(row).into_py_any(py)
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }
    fn __len__(&self) -> usize {
        self.0.num_rows()
    }
    /// The values of a column, by its name.
    fn __getitem__(&self, py: Python<'_>, name: &str) -> PyResult<Vec<Py<PyAny>>> {
        let array = self.0.column_by_name(name).ok_or_else(|| {
            let near = maracas_scenario::near_words(
                name,
                self.columns().iter().map(String::as_str).collect::<Vec<_>>(),
            );
            pyo3::exceptions::PyKeyError::new_err(format!("no column \"{name}\"{near}"))
        })?;
        (0..array.len()).map(|row| cell(py, array, row)).collect()
    }
    /// The rows as dictionaries, for where no library of tables is at hand.
    fn to_dicts<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let names = self.columns();
        let row = |row: usize| {
            let dict = PyDict::new(py);
            for (name, array) in names.iter().zip(self.0.columns()) {
                dict.set_item(name, cell(py, array, row)?)?;
            }
            Ok(dict)
        };
        (0..self.0.num_rows()).map(row).collect()
    }
    fn __repr__(&self) -> String {
        format!("<maracas.Table: {} rows of {}>", self.0.num_rows(), self.columns().join(", "))
    }
    /// Arrow's PyCapsule interface: the schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema().as_ref()).map_err(error)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }
    /// Arrow's PyCapsule interface: the table as a stream of one batch, without a copy. No other
    /// schema can be asked for, which the interface allows.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let batches = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}
