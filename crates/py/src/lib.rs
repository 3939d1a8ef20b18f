//! The Python package `evertally`: plans, counters, vectors, sketches and tables over the Rust library.
//!
//! Each class has its own file. Exceptions are those of [`error`]. Long work runs without the GIL and can be
//! interrupted, see [`running`]. Mutable objects sit inside a mutex, so that threads take turns.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod arrays;
mod budget;
mod candidate;
mod cluster;
mod conversions;
mod counter;
mod error;
mod guarantee;
mod handover;
mod html;
mod ipc;
mod items;
mod key;
mod lazy;
mod options;
mod own;
mod plan;
mod program;
mod publishing;
mod reading;
mod reads;
mod release;
mod remote;
mod request;
mod running;
mod sketch;
mod steps;
mod sums;
mod table;
mod units;
mod vector;
mod watch;
mod whole;

use pyo3::prelude::*;

/// The compiled half of the package; `evertally` re-exports the public part.
#[pymodule]
mod _evertally {
    #[pymodule_export]
    use super::conversions::{
        delta_of_gaussian, delta_of_zcdp, epsilon_of_gaussian, epsilon_of_sampled, epsilon_of_zcdp, mu_for,
        noise_of_sampled, rho_for, zcdp_of_pure,
    };
    use super::*;
    #[pymodule_export]
    use super::{
        budget::PyBudget, candidate::PyCandidate, cluster::Bounding, cluster::ClusterWork,
        cluster::PyClusterReader as ClusterReading, cluster::Releasing, counter::Counter, guarantee::PyGuarantee,
        handover::ask_for_key, handover::open_key, handover::seal_key, ipc::from_ipc, ipc::to_ipc, key::PySecretKey,
        key::PyTestSeed, lazy::PyLazyVector, lazy::plan_lazy, plan::PyPlan, plan::plan, program::run_program,
        publishing::Publishing, reading::PyReading, release::PyRelease, remote::is_id, remote::is_token,
        remote::media_type, sketch::PyCountSketch, sketch::plan_sketch, sums::release_steps, sums::release_sums,
        table::ArrowTable, table::interval_table, table::plan_table, table::release_table, vector::ahead::wait,
        vector::batches::PyBatches, vector::candidate::PyVectorCandidate, vector::device::_Programs,
        vector::device::normal_tables, vector::evidence::evidence_svg, vector::guarantee::PyVectorGuarantee,
        vector::noise::PyVectorNoise, vector::noise::draw_ahead, vector::plan::PyVectorPlan, vector::plan::plan_vector,
        vector::rows::PyRowNoise, vector::training::PyOmittedOption, vector::training::PyTraining,
        vector::training::TrainingOption, vector::training::plan_training, watch::allow_noise_reuse,
    };

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        super::vector::ahead::wait_before_forks(module)?;
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
