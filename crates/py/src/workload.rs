//! Workloads at the border, and enumerations by their names.

use drivebay_run::{Offsets, Stable, Stop, Workload};
use pyo3::prelude::*;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer};

use crate::errors::user_error;

/// The variant of that name.
pub(crate) fn named<T: DeserializeOwned>(field: &str, name: &str) -> PyResult<T> {
    let name: StrDeserializer<'_, Error> = name.into_deserializer();
    T::deserialize(name)
        .map_err(|error| user_error(format!("{field}: {error}\nhint: see drivebay._core")))
}

/// A closed loop on a span of a drive: what suites and the library resolve their workloads to.
///
/// `offsets`: "uniform", "permutation", "permutation-repeated", "zipf:THETA" (with "/RANKS" behind it a block stands for
/// so many), "zoned:ACCESS/SIZE:..." (per cent of the
/// accesses and of the span), as fio's `random_distribution`, or "zoned-scattered:ACCESS/SIZE:...", or "open-zones:OPEN/ZONES", or
/// "sprandom:PERCENT" of spare flash, as fio's `sprandom`. `bssplit`: sizes in bytes with their shares in
/// per cent. `fsync`: a flush follows so many writes. `rate_iops`: requests a second at most. `thinktime_us`: the host's pause after `thinktime_blocks` requests.
///
/// It ends with the first of `duration_s` of the drive's time, `bytes` requested, and `until_stable`:
/// a window in seconds, within how many per cent of the mean its data rates lie, and the earliest end. With none of them it ends when each block
/// has come, if the offsets go over the span in passes.
#[pyclass(module = "drivebay._core", frozen, name = "Workload")]
pub(crate) struct PyWorkload(pub(crate) Workload);

#[pymethods]
impl PyWorkload {
    #[new]
    #[pyo3(signature = (
        *,
        pattern: "typing.Literal['random', 'sequential']",
        read_percent: "float",
        block_bytes: "int",
        queue_depth: "int",
        span_start_bytes: "int",
        span_bytes: "int",
        duration_s: "float | None" = None,
        bytes: "int | None" = None,
        until_stable: "tuple[int, float, int] | None" = None,
        block_bytes_max: "int | None" = None,
        offsets: "str" = "uniform",
        streams: "typing.Literal['each', 'shared']" = "each",
        queues: "int" = 1,
        bssplit: "list[tuple[int, int]]" = Vec::new(),
        rate_iops: "float | None" = None,
        rate_process: "typing.Literal['linear', 'poisson']" = "linear",
        trim_percent: "float" = 0.0,
        thinktime_us: "int | None" = None,
        thinktime_blocks: "int" = 1,
        fsync: "int | None" = None,
    ))]
    #[allow(clippy::too_many_arguments, reason = "keywords in Python")]
    fn new(
        pattern: &str,
        read_percent: f64,
        block_bytes: u64,
        queue_depth: u32,
        span_start_bytes: u64,
        span_bytes: u64,
        duration_s: Option<f64>,
        bytes: Option<u64>,
        until_stable: Option<(u64, f64, u64)>,
        block_bytes_max: Option<u64>,
        offsets: &str,
        streams: &str,
        queues: u32,
        bssplit: Vec<(u64, u32)>,
        rate_iops: Option<f64>,
        rate_process: &str,
        trim_percent: f64,
        thinktime_us: Option<u64>,
        thinktime_blocks: u32,
        fsync: Option<u32>,
    ) -> PyResult<PyWorkload> {
        let stable = until_stable.map(|(window_s, within_percent, min_s)| Stable {
            window_s,
            within_percent,
            min_s,
        });
        let offsets = offsets
            .parse::<Offsets>()
            .map_err(|error| user_error(format!("offsets: {error}\nhint: see drivebay._core")))?;
        let pass = || {
            let blocks = offsets.pass_blocks(span_bytes.checked_div(block_bytes)?.max(1))?;
            blocks.checked_mul(block_bytes)
        };
        let bytes = if duration_s.is_none() { bytes.or_else(pass) } else { bytes };
        Ok(PyWorkload(Workload {
            pattern: named("pattern", pattern)?,
            offsets,
            streams: named("streams", streams)?,
            read_percent,
            trim_percent,
            fsync,
            block_bytes,
            block_bytes_max,
            bssplit,
            rate_iops,
            rate_process: named("rate_process", rate_process)?,
            thinktime_us,
            thinktime_blocks,
            queue_depth,
            queues,
            span_start_bytes,
            span_bytes,
            stop: Stop { duration_s, bytes, stable },
        }))
    }
}
