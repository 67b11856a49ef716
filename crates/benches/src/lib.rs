//! Nothing: the benchmarks are in `benches`. The source distribution contains only packages that
//! `drivebay-py` depends on, and a dependency must have a library.
