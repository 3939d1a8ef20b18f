//! Privacy budgets.

use crate::error::{OrRaise, invalid};
use evertally::privacy::{Budget as Inner, Delta, Epsilon, Rho, conversions};
use pyo3::prelude::*;

/// A privacy budget: a limit on what the whole history of releases may reveal.
///
/// Make one with :meth:`pure`, :meth:`approximate` or :meth:`zcdp`, or pass its numbers to a function directly
/// (``epsilon=1.0``, ``epsilon=1.0, delta=1e-6`` or ``rho=0.5``). Budgets compare by value.
///
/// >>> import evertally as et
/// >>> et.Budget.pure(1.0)
/// Budget.pure(1.0)
/// >>> et.Budget.zcdp(0.5).epsilon_at(1e-6) < 5.3
/// True
#[pyclass(frozen, eq, name = "Budget", module = "evertally")]
#[derive(Clone)]
pub(crate) struct PyBudget {
    pub(crate) inner: Inner,
    allow_weak: bool,
}

impl PartialEq for PyBudget {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl PyBudget {
    /// The budget of a plan, which is weak only if that was allowed.
    pub(crate) fn new(inner: Inner) -> Self {
        let (epsilon, delta, rho) = numbers(&inner);
        Self { inner, allow_weak: Inner::from_numbers(epsilon, delta, rho, false).is_err() }
    }

    fn from_numbers(epsilon: Option<f64>, delta: Option<f64>, rho: Option<f64>, allow_weak: bool) -> PyResult<Self> {
        let inner = Inner::from_numbers(epsilon, delta, rho, allow_weak).or_raise()?;
        Ok(Self { inner, allow_weak })
    }
}

/// ε, δ and ρ, as far as they are stated.
fn numbers(budget: &Inner) -> (Option<f64>, Option<f64>, Option<f64>) {
    match budget {
        Inner::Pure(epsilon) => (Some(epsilon.get()), None, None),
        Inner::Approximate(epsilon, delta) => (Some(epsilon.get()), Some(delta.get()), None),
        Inner::Zcdp(rho) => (None, None, Some(rho.get())),
    }
}

#[pymethods]
impl PyBudget {
    /// Pure ε-differential privacy.
    ///
    /// ``epsilon`` must lie between 1e-12 and 20. A larger one protects next to nothing, and is refused unless
    /// ``allow_weak``.
    ///
    /// >>> import evertally as et
    /// >>> et.Budget.pure(0.5).epsilon
    /// 0.5
    #[staticmethod]
    #[pyo3(signature = (epsilon, *, allow_weak = false))]
    fn pure(epsilon: f64, allow_weak: bool) -> PyResult<Self> {
        Self::from_numbers(Some(epsilon), None, None, allow_weak)
    }

    /// (ε, δ)-differential privacy, for a ``delta`` strictly between 0 and 0.1.
    ///
    /// >>> import evertally as et
    /// >>> et.Budget.approximate(1.0, 1e-6)
    /// Budget.approximate(1.0, 1e-06)
    #[staticmethod]
    #[pyo3(signature = (epsilon, delta, *, allow_weak = false))]
    fn approximate(epsilon: f64, delta: f64, allow_weak: bool) -> PyResult<Self> {
        Self::from_numbers(Some(epsilon), Some(delta), None, allow_weak)
    }

    /// ρ-zero-concentrated differential privacy, for a ``rho`` of at most 10.
    ///
    /// >>> import evertally as et
    /// >>> et.Budget.zcdp(0.5).rho
    /// 0.5
    #[staticmethod]
    #[pyo3(signature = (rho, *, allow_weak = false))]
    fn zcdp(rho: f64, allow_weak: bool) -> PyResult<Self> {
        Self::from_numbers(None, None, Some(rho), allow_weak)
    }

    /// The stated ε, or ``None`` under zCDP.
    #[getter]
    fn epsilon(&self) -> Option<f64> {
        numbers(&self.inner).0
    }

    /// The stated δ, or ``None`` if none is stated.
    #[getter]
    fn delta(&self) -> Option<f64> {
        numbers(&self.inner).1
    }

    /// The stated ρ under zCDP, or ``None``.
    #[getter]
    fn rho(&self) -> Option<f64> {
        numbers(&self.inner).2
    }

    /// Whether it was made with ``allow_weak``, or is the weak budget of a plan. Comparisons ignore it.
    #[getter]
    fn allow_weak(&self) -> bool {
        self.allow_weak
    }

    /// The same guarantee, or a weaker one implied by it, as ρ: ε²/2 for pure ε.
    ///
    /// Raises :class:`InvalidError` under (ε, δ), from which no ρ follows.
    ///
    /// >>> import evertally as et
    /// >>> et.Budget.pure(1.0).to_zcdp()
    /// Budget.zcdp(0.5)
    fn to_zcdp(&self) -> PyResult<Self> {
        match self.inner {
            Inner::Zcdp(_) => Ok(self.clone()),
            Inner::Pure(epsilon) => {
                let rho = Rho::new_even_if_weak(conversions::zcdp_of_pure(epsilon)).or_raise()?;
                Ok(Self { inner: Inner::Zcdp(rho), allow_weak: self.allow_weak })
            }
            Inner::Approximate(..) => Err(invalid("(ε, δ)-differential privacy implies no ρ of zCDP")),
        }
    }

    /// The smallest ε of (ε, δ)-differential privacy known to follow at this δ, rounded up; infinite under (ε, δ) at a
    /// smaller δ than the stated one.
    ///
    /// >>> import evertally as et
    /// >>> et.Budget.pure(1.0).epsilon_at(1e-9)
    /// 1.0
    /// >>> round(et.Budget.zcdp(0.1).epsilon_at(1e-6), 2)
    /// 2.14
    fn epsilon_at(&self, delta: f64) -> PyResult<f64> {
        let delta = Delta::new(delta).or_raise()?;
        Ok(match self.inner {
            Inner::Zcdp(rho) => conversions::epsilon_of_zcdp(rho, delta),
            Inner::Pure(epsilon) => {
                let rho = Rho::new_even_if_weak(conversions::zcdp_of_pure(epsilon));
                rho.map_or(f64::INFINITY, |rho| conversions::epsilon_of_zcdp(rho, delta)).min(epsilon.get())
            }
            Inner::Approximate(epsilon, stated) if stated <= delta => epsilon.get(),
            Inner::Approximate(..) => f64::INFINITY,
        })
    }

    /// The budget of these numbers, for pickles.
    #[staticmethod]
    fn _of(epsilon: Option<f64>, delta: Option<f64>, rho: Option<f64>, allow_weak: bool) -> PyResult<Self> {
        Self::from_numbers(epsilon, delta, rho, allow_weak)
    }

    #[allow(clippy::type_complexity)]
    fn __reduce__<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, (Option<f64>, Option<f64>, Option<f64>, bool))> {
        let (epsilon, delta, rho) = numbers(&self.inner);
        Ok((py.get_type::<Self>().getattr("_of")?, (epsilon, delta, rho, self.allow_weak)))
    }

    fn __hash__(&self) -> u64 {
        let bits = |number: Option<f64>| number.map_or(1, f64::to_bits);
        bits(self.epsilon()) ^ bits(self.delta()).rotate_left(21) ^ bits(self.rho()).rotate_left(42)
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let number = |x: f64| Ok::<_, PyErr>(pyo3::types::PyFloat::new(py, x).repr()?.to_string());
        let weak = if self.allow_weak { ", allow_weak=True" } else { "" };
        Ok(match self.inner {
            Inner::Pure(epsilon) => format!("Budget.pure({}{weak})", number(epsilon.get())?),
            Inner::Zcdp(rho) => format!("Budget.zcdp({}{weak})", number(rho.get())?),
            Inner::Approximate(epsilon, delta) => {
                format!("Budget.approximate({}, {}{weak})", number(epsilon.get())?, number(delta.get())?)
            }
        })
    }

    fn __str__(&self) -> String {
        self.inner.to_string()
    }
}

/// Numbers of a conversion, each in its widest range.
pub(crate) fn epsilon(value: f64) -> PyResult<Epsilon> {
    Epsilon::new_even_if_weak(value).or_raise()
}

pub(crate) fn rho(value: f64) -> PyResult<Rho> {
    Rho::new_even_if_weak(value).or_raise()
}

pub(crate) fn delta(value: f64) -> PyResult<Delta> {
    Delta::new(value).or_raise()
}
