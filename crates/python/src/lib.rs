//! x
#![forbid(unsafe_code)]
use pyo3::prelude::*;
#[pymodule(gil_used = true)]
mod _maracas {
    use pyo3::prelude::*;
    #[pyfunction]
    fn f() -> u32 {
        3
    }
    #[pyclass(frozen)]
    struct A {
        x: u32,
    }
    #[pymethods]
    impl A {
        #[getter]
        fn x(&self) -> u32 {
            self.x
        }
    }
}
