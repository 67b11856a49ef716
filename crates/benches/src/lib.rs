//! Nothing: the benchmarks are in `benches`. Only a package with a library can be a dependency, and only a dependency of
//! `drivebay-py` is in the source distribution.
