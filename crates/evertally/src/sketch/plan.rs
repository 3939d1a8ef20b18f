//! Plans for sketches.

use super::shape::{HASHES, MEANING, is_bounded_by_group};
use super::{Shape, Table};
use crate::noise::StreamName;
use crate::plan::{Plan, PlanRequest};
use crate::stream::{LazyPlan, LazySampling};
use crate::{Error, Result};

/// A plan for a sketch: its noise covers all cells that an event touches.
///
/// ```
/// use evertally::privacy::{Budget, Epsilon};
/// use evertally::plan::PlanRequest;
/// use evertally::sketch::SketchPlan;
/// use evertally::stream::LazySampling;
/// let request = PlanRequest::count(1 << 20, Budget::Pure(Epsilon::new(1.0)?));
/// let plan = SketchPlan::new(request, "count-sketch(rows=5,width=1000)".parse()?, LazySampling::Float)?;
/// assert_eq!(plan.plan().request().sums_per_event(), 5);
/// # Ok::<(), evertally::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct SketchPlan {
    lazy: LazyPlan,
    shape: Shape,
    hashes: Option<StreamName>,
}

impl SketchPlan {
    /// The plan of a sketch, from the request for one running sum: see [`Shape::request`]. If the request names no
    /// mechanism, the one with the smallest error is chosen among those with light steps that support this sampling.
    ///
    /// # Errors
    /// If the request is out of range, or no mechanism supports this sampling.
    pub fn new(request: PlanRequest, shape: Shape, sampling: LazySampling) -> Result<Self> {
        Self::from_lazy(LazyPlan::best(shape.request(request)?, shape.coordinates(), sampling)?)
    }

    /// The same with a separate hash name. Sketches with the same key, shape and hash name have the same hash
    /// functions, which [`CountSketch::inner_product`](super::CountSketch::inner_product) needs. By default a sketch's
    /// own name is its hash name.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn sharing_hashes(
        request: PlanRequest,
        shape: Shape,
        sampling: LazySampling,
        hash_name: &StreamName,
    ) -> Result<Self> {
        Self::new(request.with_meaning(HASHES, hash_name.to_string()), shape, sampling)
    }

    /// From a plan that was made for a sketch and, for example, read from a file.
    ///
    /// # Errors
    /// If it was not made for a sketch, or does not support this sampling.
    pub fn from_plan(plan: Plan, sampling: LazySampling) -> Result<Self> {
        let shape = shape_of(&plan)?;
        Self::from_lazy(LazyPlan::new(plan, shape.coordinates(), sampling)?)
    }

    fn from_lazy(lazy: LazyPlan) -> Result<Self> {
        let (shape, request) = (shape_of(lazy.plan())?, lazy.plan().request());
        let hashes = request.meaning().get(HASHES).map(|name| name.parse()).transpose()?;
        Ok(Self { lazy, shape, hashes })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        self.lazy.plan()
    }

    /// The plan of the vector of cells.
    pub fn lazy(&self) -> &LazyPlan {
        &self.lazy
    }

    /// Refuses a value that is too large before hash functions change its sign, because the sign is secret.
    pub(super) fn check_size(&self, value: i64) -> Result<()> {
        let (_, most) = self.plan().request().values().bounds();
        if value.unsigned_abs() <= most.unsigned_abs() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "an event of {value} is outside the declared bounds -{most} to {most} (in multiples of the grid)"
        )))
    }

    /// Rows and width, if this is the plan of a count sketch.
    pub(super) fn count_sketch_table(&self) -> Result<Table> {
        match self.shape {
            Shape::CountSketch(table) => Ok(table),
            other => Err(Error::invalid(format!("the plan is for a {other}, not for a count sketch"))),
        }
    }

    /// Kind and size of the sketch.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The hash name, if it is not the sketch's own.
    pub fn hash_name(&self) -> Option<&StreamName> {
        self.hashes.as_ref()
    }
}

/// The shape that a plan was made for, if the plan's noise covers the events of that shape.
fn shape_of(plan: &Plan) -> Result<Shape> {
    let request = plan.request();
    let Some(shape) = request.meaning().get(MEANING) else {
        return Err(Error::invalid("the plan was not made for a sketch; make one from the sketch's shape"));
    };
    let shape: Shape = shape.parse()?;
    let (lower, upper) = request.values().bounds();
    let covered = request.sums_per_event() == shape.sums_per_event()
        && !is_bounded_by_group(request.unit())
        && (!shape.is_signed() || lower.checked_neg() == Some(upper));
    if covered {
        return Ok(shape);
    }
    Err(Error::invalid(format!("the plan's noise does not cover the events of a {shape}; plan it again")))
}
