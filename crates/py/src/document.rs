//! Conversion of Python keyword arguments to documents that describe classes of the core.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::errors::user_error;

/// Converts keyword arguments to a document.
pub(crate) fn document(fields: Option<&Bound<'_, PyDict>>) -> PyResult<Value> {
    fields.map_or_else(|| Ok(Value::Object(Default::default())), |fields| value(fields))
}

/// Converts keyword arguments to the class that they describe.
pub(crate) fn described<T: DeserializeOwned>(fields: Option<&Bound<'_, PyDict>>) -> PyResult<T> {
    serde_path_to_error::deserialize(document(fields)?).map_err(|error| {
        user_error(format!("{}: {}\nhint: see drivebay._core", error.path(), error.inner()))
    })
}

/// Converts dictionaries, lists, strings and numbers to a document; numbers keep every bit.
fn value(given: &Bound<'_, PyAny>) -> PyResult<Value> {
    Ok(if given.is_none() {
        Value::Null
    } else if given.is_instance_of::<PyBool>() {
        given.extract::<bool>()?.into()
    } else if given.is_instance_of::<PyInt>() {
        let whole = given.extract::<i64>().map(Value::from);
        let large = whole.or_else(|_| given.extract::<u64>().map(Value::from));
        // Larger numbers are out of range for the core, which rejects them with the name of the
        // field.
        large.or_else(|_| given.extract::<f64>().map(Value::from)).unwrap_or("too large".into())
    } else if given.is_instance_of::<PyFloat>() {
        given.extract::<f64>()?.into()
    } else if given.is_instance_of::<PyString>() {
        given.extract::<String>()?.into()
    } else if let Ok(fields) = given.cast::<PyDict>() {
        let pairs = fields.iter().map(|(name, given)| Ok((name.extract()?, value(&given)?)));
        Value::Object(pairs.collect::<PyResult<_>>()?)
    } else {
        let values = given.try_iter()?.map(|given| value(&given?));
        Value::Array(values.collect::<PyResult<_>>()?)
    })
}
