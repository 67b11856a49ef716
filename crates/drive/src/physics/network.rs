//! A time step of the heat network, exact for constant power during the step.
//!
//! `C dT/dt = P - G (T - ambient)`, so over a step `T' = Ts + E (T - Ts)`, with the steady state
//! `Ts = ambient + G^-1 P` and `E = exp(-C^-1 G step)`. E's entries lie between 0 and 1 and its
//! rows sum to at most 1 for any positive resistances and capacities: no choice of them is
//! unstable. Both matrices are computed once, by additions, multiplications and divisions only
//! (Gauss; scaling and squaring of the exponential's series, Moler and Van Loan 2003), which IEEE
//! 754 rounds alike on every platform; no function of a mathematics library is called.

use crate::profile::{NODES_MAX, ThermalSpec};

type Matrix = [[f64; NODES_MAX]; NODES_MAX];

/// The two matrices of a step.
#[derive(Clone, Debug)]
pub struct Network {
    nodes: usize,
    ambient_c: f64,
    /// G^-1: kelvin per watt.
    rise: Matrix,
    /// exp(-rate x step): share of the nodes' distances from their steady state that remains after
    /// one step.
    keep: Matrix,
}

impl Network {
    /// Creates a network with steps of `step_s` seconds.
    pub fn new(heat: &ThermalSpec, step_s: f64) -> Network {
        let nodes = heat.names.len();
        let mut flow = [[0.0; NODES_MAX]; NODES_MAX];
        for (i, row) in flow.iter_mut().enumerate() {
            // Unused nodes have no connection to others and stay at ambient temperature.
            row[i] = if i < nodes { heat.to_air[i] } else { 1.0 };
            for (j, &path) in heat.between[i].iter().enumerate() {
                row[i] += path;
                row[j] -= path;
            }
        }
        let mut rate = flow;
        for (row, capacity) in rate.iter_mut().zip(heat.capacity) {
            for entry in row {
                *entry *= step_s / capacity;
            }
        }
        Network { nodes, ambient_c: heat.ambient_c, rise: inverse(flow), keep: decay(rate) }
    }

    /// Changes the temperature of the air from the next step on.
    pub fn set_ambient_c(&mut self, ambient_c: f64) {
        self.ambient_c = ambient_c;
    }

    /// Computes the temperatures after a step with this power (in watts).
    pub fn step(&self, temperature_c: &mut [f64; NODES_MAX], watt: &[f64; NODES_MAX]) {
        let steady = self.steady_c(watt);
        let mut above = [0.0; NODES_MAX];
        for i in 0..self.nodes {
            above[i] = temperature_c[i] - steady[i];
        }
        for i in 0..self.nodes {
            temperature_c[i] = steady[i] + dot(&self.keep[i], &above);
        }
    }

    /// Steady-state temperatures for this power.
    pub fn steady_c(&self, watt: &[f64; NODES_MAX]) -> [f64; NODES_MAX] {
        std::array::from_fn(|i| self.ambient_c + dot(&self.rise[i], watt))
    }
}

fn dot(a: &[f64; NODES_MAX], b: &[f64; NODES_MAX]) -> f64 {
    (0..NODES_MAX).map(|i| a[i] * b[i]).sum()
}

fn times(a: &Matrix, b: &Matrix) -> Matrix {
    std::array::from_fn(|i| {
        std::array::from_fn(|j| (0..NODES_MAX).map(|k| a[i][k] * b[k][j]).sum())
    })
}

/// exp(-m).
fn decay(m: Matrix) -> Matrix {
    let norm = m.iter().map(|row| row.iter().map(|x| x.abs()).sum()).fold(0.0, f64::max);
    let mut halvings = 0;
    let mut scale = 1.0;
    while norm * scale > 0.5 {
        scale *= 0.5;
        halvings += 1;
    }
    // 14 terms leave 0.5^15 / 15!, under 1e-16.
    let mut sum = identity();
    for term in (1..=14).rev() {
        let mut next = times(&m, &sum);
        for (i, row) in next.iter_mut().enumerate() {
            for (j, entry) in row.iter_mut().enumerate() {
                *entry *= -scale / f64::from(term);
                *entry += f64::from(u8::from(i == j));
            }
        }
        sum = next;
    }
    for _ in 0..halvings {
        sum = times(&sum, &sum);
    }
    sum
}

fn identity() -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| f64::from(u8::from(i == j))))
}

/// Inverse by Gauss elimination without pivoting, which is sound because every row's diagonal
/// outweighs the rest.
fn inverse(mut m: Matrix) -> Matrix {
    let mut result = identity();
    for pivot in 0..NODES_MAX {
        let divisor = m[pivot][pivot];
        for j in 0..NODES_MAX {
            m[pivot][j] /= divisor;
            result[pivot][j] /= divisor;
        }
        for i in (0..NODES_MAX).filter(|&i| i != pivot) {
            let factor = m[i][pivot];
            for j in 0..NODES_MAX {
                m[i][j] -= factor * m[pivot][j];
                result[i][j] -= factor * result[pivot][j];
            }
        }
    }
    result
}
