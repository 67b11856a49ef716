//! Columns: numpy arrays that take over the core's vectors without copying.

use std::convert::Infallible;

use drivebay_units::Histogram;
use numpy::{Element, IntoPyArray, PyArray1};
use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3::{type_hint_identifier, type_hint_subscript};

/// Element type of a column, with the type hint of its array.
pub(crate) trait ColumnElement: Element {
    const HINT: PyStaticExpr;
}

macro_rules! column_elements {
    ($($rust:ty: $numpy:literal),*) => {$(
        impl ColumnElement for $rust {
            const HINT: PyStaticExpr = type_hint_subscript!(
                type_hint_identifier!("numpy.typing", "NDArray"),
                type_hint_identifier!("numpy", $numpy)
            );
        }
    )*};
}

column_elements!(u64: "uint64", i64: "int64", u32: "uint32", u8: "uint8", f64: "float64", bool: "bool_");

/// A one-dimensional numpy array.
pub(crate) struct Column<T: ColumnElement>(Py<PyArray1<T>>);

impl<T: ColumnElement> Column<T> {
    pub(crate) fn new(py: Python<'_>, values: impl IntoIterator<Item = T>) -> Column<T> {
        let values: Vec<T> = values.into_iter().collect();
        Column(values.into_pyarray(py).unbind())
    }
}

impl<'py, T: ColumnElement> IntoPyObject<'py> for &Column<T> {
    type Target = PyArray1<T>;
    type Output = Bound<'py, PyArray1<T>>;
    type Error = Infallible;
    const OUTPUT_TYPE: PyStaticExpr = T::HINT;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(self.0.bind(py).clone())
    }
}

/// A dict of columns by name, in insertion order.
pub(crate) struct Columns(Py<PyDict>);

impl Columns {
    pub(crate) fn new<'a>(
        py: Python<'_>,
        columns: impl IntoIterator<Item = (&'a str, Column<u64>)>,
    ) -> PyResult<Columns> {
        let dict = PyDict::new(py);
        for (name, column) in columns {
            dict.set_item(name, &column)?;
        }
        Ok(Columns(dict.unbind()))
    }
}

impl<'py> IntoPyObject<'py> for &Columns {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = Infallible;
    const OUTPUT_TYPE: PyStaticExpr = type_hint_subscript!(
        type_hint_identifier!("builtins", "dict"),
        type_hint_identifier!("builtins", "str"),
        u64::HINT
    );

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(self.0.bind(py).clone())
    }
}

class! {
    /// Latency counts in bins at most 1/64 wide; arrays of shape (bins,), ascending.
    #[pyclass(module = "drivebay._core", frozen, get_all, name = "Histogram")]
    PyHistogram(py: Python<'_>, histogram: &Histogram) {
        let bins: Vec<_> = histogram.bins().collect();
    }
    /// Lowest latency of each bin, in nanoseconds.
    low_ns: Column<u64> = Column::new(py, bins.iter().map(|bin| bin.low)),
    /// End of each bin, exclusive, in nanoseconds.
    high_ns: Column<u64> = Column::new(py, bins.iter().map(|bin| bin.high)),
    /// Number of latencies in each bin.
    count: Column<u64> = Column::new(py, bins.iter().map(|bin| bin.count)),
}

/// Creates a histogram as a field of another class.
pub(crate) fn counted(py: Python<'_>, histogram: &Histogram) -> PyResult<Py<PyHistogram>> {
    Py::new(py, PyHistogram::new(py, histogram)?)
}
