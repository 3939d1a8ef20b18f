//! A rectangular `R`: a diagonal and bumps, with its least-squares `L`, row norms and gradient.
//!
//! `R` has the rows `a_j e_j` (the identity part) and the rows `B_b ≥ 0` (bumps). With `D = diag(1/a_j²)` and
//! `S = I + B D Bᵀ`, Woodbury's formula gives `(RᵀR)⁻¹ = D - D Bᵀ S⁻¹ B D`, so that everything about `L = A (RᵀR)⁻¹ Rᵀ`
//! needs the inverse of an `n × n` matrix only, `n` = number of bumps:
//!
//! * with `q_t = Σ_{j≤t} B_j / a_j²` the bump part of row `t` is `g_t = S⁻¹ q_t`, the identity part
//!   `(1_{j≤t} - B_jᵀ g_t) / a_j`;
//! * `‖L_t‖² = Σ_{j≤t} 1/a_j² - q_tᵀ S⁻¹ q_t`.
//!
//! **Gradient.** For weights `w_t` let `F = Σ w_t ‖L_t‖² = tr((RᵀR)⁻¹ M)` with `M_ij = c_max(i,j)`,
//! `c_i = Σ_{t≥i} w_t`. Then `dF/dR = -2 R P` with `P = (RᵀR)⁻¹ M (RᵀR)⁻¹`. With `K = B D M` (two running sums a row),
//! `V = S⁻¹ K`, `W = S⁻¹ (K D Bᵀ) S⁻¹` and `Y = V - W B`, this is `dF/dB_bj = -2 Y_bj / a_j²` and
//! `dF/da_j = -2 (c_j - Σ_b B_bj (V_bj + Y_bj)) / a_j³`; `V` and `Y` are needed only on the support of `B`.

use crate::mechanism::Matrix;
use crate::mechanism::dense_twin::cholesky;
use crate::number::lanes::dot;
use std::ops::Range;

/// The layout of the entries of `R` in one vector: the diagonal first, then bump after bump.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BumpLayout {
    horizon: usize,
    /// The steps (from 0) every bump may touch.
    spans: Vec<Range<usize>>,
    /// The offset at which the entries of every bump begin.
    offsets: Vec<usize>,
}

impl BumpLayout {
    pub(super) fn new(horizon: usize, spans: Vec<Range<usize>>) -> Self {
        let mut size = horizon;
        let mut offsets = Vec::with_capacity(spans.len());
        for span in &spans {
            offsets.push(size);
            size += span.len();
        }
        Self { horizon, spans, offsets }
    }

    pub(super) fn horizon(&self) -> usize {
        self.horizon
    }

    pub(super) fn spans(&self) -> &[Range<usize>] {
        &self.spans
    }

    /// The index range of the entries of a bump.
    pub(super) fn entries(&self, bump: usize) -> Range<usize> {
        self.offsets[bump]..self.offsets[bump] + self.spans[bump].len()
    }

    /// Column sums of a vector of entries.
    pub(super) fn column_sums(&self, values: &[f64]) -> Vec<f64> {
        let mut sums = values[..self.horizon].to_vec();
        for (bump, span) in self.spans.iter().enumerate() {
            sums[span.clone()].iter_mut().zip(&values[self.entries(bump)]).for_each(|(sum, v)| *sum += v);
        }
        sums
    }
}

/// `to += factor · from`.
fn add(to: &mut [f64], factor: f64, from: &[f64]) {
    to.iter_mut().zip(from).for_each(|(to, from)| *to += factor * from);
}

/// The steps that both share, if any.
fn overlap(a: &Range<usize>, b: &Range<usize>) -> Option<Range<usize>> {
    let common = a.start.max(b.start)..a.end.min(b.end);
    (!common.is_empty()).then_some(common)
}

/// `R` with the factors that its least-squares `L` needs.
#[derive(Debug)]
pub(super) struct Solved {
    layout: BumpLayout,
    /// The entries of `R`.
    r: Vec<f64>,
    /// `1/a_j²`.
    inverse_squares: Vec<f64>,
    /// `B D`, on the spans: entries as in the layout, less the diagonal.
    scaled: Vec<f64>,
    /// The Cholesky factor of `S`.
    factor: Matrix,
}

impl Solved {
    /// The diagonal must be positive; a diagonal above about a hundredth of its column keeps `S` well conditioned.
    /// `O(n² overlap + n³)`.
    pub(super) fn new(layout: &BumpLayout, r: Vec<f64>) -> Self {
        let inverse_squares: Vec<f64> = r[..layout.horizon].iter().map(|a| 1.0 / (a * a)).collect();
        let mut scaled = r[layout.horizon..].to_vec();
        let n = layout.spans.len();
        for (bump, span) in layout.spans.iter().enumerate() {
            let at = layout.entries(bump);
            let entries = &mut scaled[at.start - layout.horizon..at.end - layout.horizon];
            entries.iter_mut().zip(&inverse_squares[span.clone()]).for_each(|(b, d)| *b *= d);
        }
        let layout = layout.clone();
        let mut solved = Self { layout, r, inverse_squares, scaled, factor: Matrix::zeros(n, n) };
        let mut s = Matrix::zeros(n, n);
        let spans = &solved.layout.spans;
        for i in 0..n {
            for j in 0..=i {
                let unit = f64::from(u8::from(i == j));
                let common = overlap(&spans[i], &spans[j]);
                let shared = common.map_or(0.0, |steps| dot(solved.scaled(i, &steps), solved.bump(j, &steps)));
                s.set(i, j, unit + shared);
            }
        }
        solved.factor = cholesky(&s).expect("the identity plus a Gram matrix is positive definite");
        solved
    }

    /// The entries of `R`.
    pub(super) fn entries(&self) -> &[f64] {
        &self.r
    }

    /// Entries of a bump on some steps of its span.
    fn bump(&self, bump: usize, steps: &Range<usize>) -> &[f64] {
        let first = self.layout.offsets[bump] + steps.start - self.layout.spans[bump].start;
        &self.r[first..first + steps.len()]
    }

    /// The same of `B D`.
    fn scaled(&self, bump: usize, steps: &Range<usize>) -> &[f64] {
        let first = self.layout.offsets[bump] + steps.start - self.layout.spans[bump].start - self.layout.horizon;
        &self.scaled[first..first + steps.len()]
    }

    /// `S⁻¹ v`.
    pub(super) fn solve(&self, v: &[f64]) -> Vec<f64> {
        let mut x = v.to_vec();
        for i in 0..x.len() {
            let row = self.factor.row(i);
            x[i] = (x[i] - dot(&row[..i], &x[..i])) / row[i];
        }
        for i in (0..x.len()).rev() {
            x[i] /= self.factor.row(i)[i];
            let (below, last) = x.split_at_mut(i);
            add(below, -last[0], &self.factor.row(i)[..i]);
        }
        x
    }

    /// `B x` for a vector of steps.
    pub(super) fn bump_sums(&self, x: &[f64]) -> Vec<f64> {
        let spans = self.layout.spans.iter().enumerate();
        spans.map(|(bump, span)| dot(self.bump(bump, span), &x[span.clone()])).collect()
    }

    /// `D Bᵀ g`: the shift of every step's estimate if the bumps' multipliers are `g`.
    pub(super) fn spread(&self, g: &[f64]) -> Vec<f64> {
        let mut moved = vec![0.0; self.layout.horizon];
        for ((bump, span), g) in self.layout.spans.iter().enumerate().zip(g) {
            add(&mut moved[span.clone()], *g, self.scaled(bump, span));
        }
        moved
    }

    /// The bump part of row `step` (from 0) of `L`, and its identity part. `O(n² + entries)`.
    pub(super) fn row(&self, step: usize) -> (Vec<f64>, Vec<f64>) {
        let mut prefix = vec![0.0; self.layout.horizon];
        prefix[..=step].copy_from_slice(&self.inverse_squares[..=step]);
        let g = self.solve(&self.bump_sums(&prefix));
        let moved = self.spread(&g);
        // (1_{j≤t}/a_j² - (D Bᵀ g)_j) a_j
        let identity = (0..self.layout.horizon).map(|j| (prefix[j] - moved[j]) * self.r[j]).collect();
        (g, identity)
    }

    /// `‖L_t‖²` of all steps. `O(n² T)`.
    pub(super) fn row_norms(&self) -> Vec<f64> {
        let steps = self.layout.horizon;
        let mut norms = self.inverse_squares.clone();
        running_sums(&mut norms);
        let mut solved: Vec<Vec<f64>> = Vec::new();
        for (bump, span) in self.layout.spans.iter().enumerate() {
            // Row `bump` of the lower factor's inverse times all q_t at once.
            let mut q = vec![0.0; steps];
            q[span.clone()].copy_from_slice(self.scaled(bump, span));
            running_sums(&mut q);
            let row = self.factor.row(bump);
            solved.iter().zip(row).filter(|(_, f)| **f != 0.0).for_each(|(above, f)| add(&mut q, -f, above));
            q.iter_mut().for_each(|q| *q /= row[bump]);
            norms.iter_mut().zip(&q).for_each(|(norm, q)| *norm -= q * q);
            solved.push(q);
        }
        norms
    }

    /// `F = Σ w_t ‖L_t‖²` and its derivatives by all entries. `O(n³ + n · entries)`.
    pub(super) fn weighted(&self, weights: &[f64], gradient: &mut [f64]) -> f64 {
        let (layout, steps, n) = (&self.layout, self.layout.horizon, self.layout.spans.len());
        let mut c = weights.to_vec();
        c.reverse();
        running_sums(&mut c);
        c.reverse();
        let inverse = self.inverse();
        let k: Vec<Vec<f64>> = (0..n).map(|bump| self.times_m(bump, &c)).collect();
        // H = K D Bᵀ, and W = S⁻¹ H S⁻¹; both symmetric.
        let mut h = Matrix::zeros(n, n);
        for (j, span) in layout.spans.iter().enumerate() {
            (0..n).for_each(|i| h.set(j, i, dot(&k[i][span.clone()], self.scaled(j, span))));
        }
        let half = product_of_symmetric(&inverse, &h);
        let w = product_of_symmetric(&half, &inverse);
        let explained: f64 = (0..n).map(|i| half.row(i)[i]).sum();

        let mut own = c.clone();
        for (b, span) in layout.spans.iter().enumerate() {
            let mut v = vec![0.0; span.len()];
            (0..n).for_each(|i| add(&mut v, inverse.row(b)[i], &k[i][span.clone()]));
            let mut y = v.clone();
            for (i, other) in layout.spans.iter().enumerate() {
                if let Some(common) = overlap(span, other) {
                    let part = &mut y[common.start - span.start..common.end - span.start];
                    add(part, -w.row(b)[i], self.bump(i, &common));
                }
            }
            let at = layout.entries(b);
            for (offset, (v, y)) in v.into_iter().zip(y).enumerate() {
                let (step, entry) = (span.start + offset, at.start + offset);
                own[step] -= self.r[entry] * (v + y);
                gradient[entry] = -2.0 * y * self.inverse_squares[step];
            }
        }
        for j in 0..steps {
            gradient[j] = -2.0 * own[j] * self.inverse_squares[j] / self.r[j];
        }
        dot(&c, &self.inverse_squares) - explained
    }

    /// Row `bump` of `B D M`: entry `j` is `c_j Σ_{i≤j} v_i + Σ_{i>j} c_i v_i` with `v` that row of `B D`.
    fn times_m(&self, bump: usize, c: &[f64]) -> Vec<f64> {
        let span = &self.layout.spans[bump];
        let v = self.scaled(bump, span);
        let mut after = dot(v, &c[span.clone()]);
        let mut row = vec![after; self.layout.horizon];
        let mut before = 0.0;
        for (j, v) in span.clone().zip(v) {
            before += v;
            after -= v * c[j];
            row[j] = c[j] * before + after;
        }
        row[span.end..].iter_mut().zip(&c[span.end..]).for_each(|(row, c)| *row = c * before);
        row
    }

    fn inverse(&self) -> Matrix {
        let n = self.layout.spans.len();
        let mut inverse = Matrix::zeros(n, n);
        for i in 0..n {
            let mut unit = vec![0.0; n];
            unit[i] = 1.0;
            self.solve(&unit).into_iter().enumerate().for_each(|(j, x)| inverse.set(i, j, x));
        }
        inverse
    }
}

/// `X Y` for symmetric `Y`, whose columns are its rows.
fn product_of_symmetric(x: &Matrix, y: &Matrix) -> Matrix {
    let n = x.shape().0;
    let mut product = Matrix::zeros(n, n);
    for i in 0..n {
        (0..n).for_each(|j| product.set(i, j, dot(x.row(i), y.row(j))));
    }
    product
}

fn running_sums(values: &mut [f64]) {
    let mut sum = 0.0;
    for value in values {
        sum += *value;
        *value = sum;
    }
}
