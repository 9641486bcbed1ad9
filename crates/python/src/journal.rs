//! A journal, and what is made of it.

use crate::errors::{error, raised};
use crate::table::Table;
use maracas_core::Instant;
use maracas_core::journal::Reader;
use maracas_session::replay;
use maracas_session::results::to_json;
use maracas_trace::gantt::{Chart, Rows, TextStyle};
use maracas_trace::{Report, TraceError, csv, perfetto};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// A journal's bytes.
#[pyclass(frozen, module = "maracas")]
pub(crate) struct Journal(pub(crate) Vec<u8>);

/// Columns of the lists that hold words.
const WORDS: [&str; 3] = ["task", "mode", "cores"];

impl Journal {
    fn list(&self, write: fn(&[u8], &mut Vec<u8>) -> Result<(), TraceError>) -> PyResult<Table> {
        let mut text = Vec::new();
        write(&self.0, &mut text).map_err(error)?;
        Table::of_csv(&text, &WORDS)
    }
    fn chart(&self, from: u64, to: Option<u64>) -> PyResult<Chart> {
        let (header, _) = Reader::open(&self.0).map_err(error)?;
        let scale = header.system.ticks_per_ns.max(1);
        let at = |ns: u64| Instant::from_ticks(ns.saturating_mul(scale));
        Chart::from_journal(&self.0, at(from), to.map(at)).map_err(error)
    }
}

const fn rows(by_core: bool) -> Rows {
    if by_core { Rows::Cores } else { Rows::Vcpus }
}

#[pymethods]
impl Journal {
    /// Takes the bytes of a journal; refuses what is none.
    #[new]
    fn new(content: Vec<u8>) -> PyResult<Self> {
        Reader::open(&content).map_err(error)?;
        Ok(Self(content))
    }
    /// The bytes, as `maracas replay` reads them.
    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.0)
    }
    /// One row for each job.
    fn jobs(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.list(|journal, out| csv::jobs(journal, out)))
    }
    /// One row for each piece of a job.
    fn pieces(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.list(|journal, out| csv::pieces(journal, out)))
    }
    /// One row for each sample of memory.
    fn samples(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.list(|journal, out| csv::samples(journal, out)))
    }
    /// One row for each VCPU and window of time on uneven cores.
    fn speeds(&self, py: Python<'_>) -> PyResult<Table> {
        py.detach(|| self.list(|journal, out| csv::speeds(journal, out)))
    }
    /// The report, as JSON.
    fn report(&self, py: Python<'_>) -> PyResult<String> {
        let report = py.detach(|| Report::from_journal(&self.0)).map_err(error)?;
        to_json(&report).map(|json| json.to_string()).map_err(raised)
    }
    /// The schedule as an SVG picture; times in nanoseconds.
    fn svg(&self, from: u64, to: Option<u64>, by_core: bool) -> PyResult<String> {
        let mut out = Vec::new();
        self.chart(from, to)?.write_svg(rows(by_core), &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
    /// The schedule as text; times in nanoseconds.
    fn text(&self, from: u64, to: Option<u64>, by_core: bool, width: u16) -> PyResult<String> {
        let mut out = Vec::new();
        let style = TextStyle { rows: rows(by_core), width, ascii: false };
        self.chart(from, to)?.write_text(style, &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }
    /// A trace that Perfetto opens.
    fn perfetto<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        py.detach(|| perfetto::from_journal(&self.0, &mut out)).map_err(error)?;
        Ok(PyBytes::new(py, &out))
    }
    /// What a fresh policy decides on the same events, compared, as JSON.
    fn replay(&self, py: Python<'_>) -> PyResult<String> {
        let done = py.detach(|| replay::replay("journal", &self.0)).map_err(raised)?;
        Ok(done.to_json().to_string())
    }
}
