//! The rows of the registry: one for every family of mechanisms.
//!
//! The rows are a macro, because two modules read them: [`name`](super), which knows names alone, and
//! [`registry`](crate::mechanism::registry), which knows what families can do.

/// Passes the rows to another macro.
macro_rules! mechanism_rows {
    ($then:ident) => {
        $then! {
            /// Noise on every input.
            Input in trivial::input = Family {
                stem: "input",
                other_name: Some("independent"),
                about: "independent noise on every input (`independent` is the same)",
                examples: &["input"],
                open: Some(MechanismName::Input),
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                abilities: Abilities { random_windows: true, ..Abilities::IN_ORDER },
                is_plain_noise: true,
                is_independent: true,
                sampled: SampledUse::Always,
                publishes: Publishes::Workloads,
                readings: trivial::input::readings,
                ..Family::DEFAULT
            };

            /// Noise on every output.
            Output in trivial::output = Family {
                stem: "output",
                about: "noise on every output",
                examples: &["output"],
                open: Some(MechanismName::Output),
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                abilities: Abilities::EVERY_STEP,
                is_plain_noise: true,
                ..Family::DEFAULT
            };

            /// Binary tree, left children only.
            Binary in tree::binary = Family {
                stem: "binary",
                about: "binary tree, left children only",
                examples: &["binary"],
                open: Some(MechanismName::Binary),
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                abilities: Abilities::EVERY_STEP,
                limits: tree::binary::limits,
                ..Family::DEFAULT
            };

            /// Binary tree with estimation from below.
            HonakerOnline in tree::honaker_online = Family {
                stem: "honaker-online",
                about: "binary tree with estimation from below",
                examples: &["honaker-online"],
                open: Some(MechanismName::HonakerOnline),
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                limits: tree::honaker_online::limits,
                ..Family::DEFAULT
            };

            /// k-ary tree, additions only; `None` = best arity from 2 to 64.
            Kary(arity: Option<u64>) in tree::kary = Family {
                stem: "kary",
                about: "k-ary tree, additions only",
                examples: &["kary(k=5)"],
                open: Some(MechanismName::Kary(None)),
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                abilities: Abilities::EVERY_STEP,
                limits: tree::kary::limits,
                ..Family::DEFAULT
            };

            /// k-ary tree with subtraction; `None` = best arity from 3 to 64.
            Subtract(arity: Option<u64>) in tree::subtract = Family {
                stem: "subtract",
                about: "k-ary tree with subtraction",
                examples: &["subtract(k=19)"],
                open: Some(MechanismName::Subtract(None)),
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                abilities: Abilities::EVERY_STEP,
                limits: tree::subtract::limits,
                ..Family::DEFAULT
            };

            /// Smooth binary tree: its shape, or the best.
            Smooth(shape: ShapeChoice) in tree::smooth = Family {
                stem: "smooth",
                about: "binary tree with the same error at all steps",
                examples: &["smooth", "smooth(h=6,zeros=3)", "smooth(shape=balanced)"],
                open: Some(MechanismName::Smooth(ShapeChoice::Best)),
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                abilities: Abilities { exact_accounting: true, ..Abilities::EVERY_STEP },
                listed_open: true,
                limits: tree::smooth::limits,
                ..Family::DEFAULT
            };

            /// Consistent tree: arity, or the best; level weights, or the best.
            Consistent(arity: Option<u64>, levels: LevelChoice) in least_squares::consistent = Family {
                stem: "consistent",
                about: "k-ary tree, every prefix estimated from all blocks",
                examples: &["consistent", "consistent(k=12)"],
                open: Some(MechanismName::Consistent(None, LevelChoice::Best)),
                // Others are far better for Gaussian noise.
                reach: |_| Reach { gaussian: Some(1 << 12), ..Reach::laplace(1 << 14) },
                usual_law: |_| Laplace,
                competes: Competes::ForSums,
                steps: |_| Linear,
                ..Family::DEFAULT
            };

            /// Path sums of a binary tree: level weights, or the best.
            PathSum(levels: LevelChoice) in tree::path_sum = Family {
                stem: "path-sum",
                about: "binary tree, a release sums the path to its leaf",
                examples: &["path-sum", "path-sum(levels=unit)", "path-sum(levels=unit,root=false)"],
                open: Some(MechanismName::PathSum(LevelChoice::Best)),
                reach: tree::path_sum::reach,
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                abilities: Abilities { exact_accounting: true, ..Abilities::EVERY_STEP },
                listed_open: true,
                brief: tree::path_sum::brief,
                ..Family::DEFAULT
            };

            /// Single steps and overlapping hats.
            Hats(choice: HatChoice) in least_squares::hats = Family {
                stem: "hats",
                about: "single steps and overlapping hats, estimated from all",
                examples: &["hats", "hats(spacing=12/150)"],
                open: Some(MechanismName::Hats(HatChoice::Best)),
                reach: |_| Reach::laplace(1 << 22),
                usual_law: |_| Laplace,
                competes: Competes::ForSums,
                steps: |_| Linear,
                brief: least_squares::hats::brief,
                ..Family::DEFAULT
            };

            /// Single steps and nested levels of hats: spacings and shares, or the best.
            NestedHats(levels: Option<NestedLevels>) in least_squares::nested_hats = Family {
                stem: "nested-hats",
                about: "single steps and nested hats, any step read by itself",
                examples: &["nested-hats", "nested-hats(spacing=16,first=400,last=350)"],
                open: Some(MechanismName::NestedHats(None)),
                // Up to there `hats` have less error.
                reach: |_| Reach::laplace(least_squares::nested_hats::MAX_HORIZON).above(1 << 22),
                usual_law: |_| Laplace,
                competes: Competes::ForSums,
                abilities: Abilities::EVERY_STEP,
                brief: least_squares::nested_hats::brief,
                ..Family::DEFAULT
            };

            /// Square root of the prefix-sum matrix.
            Sqrt in toeplitz::sqrt = Family {
                stem: "sqrt",
                about: "square root of the prefix-sum matrix",
                examples: &["sqrt"],
                open: Some(MechanismName::Sqrt),
                reach: |_| Reach::gaussian(1 << 20),
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                steps: |_| Linear,
                limits: toeplitz::sqrt::limits,
                ..Family::DEFAULT
            };

            /// The same with columns of one length.
            NormalizedSqrt in toeplitz::normalized_sqrt = Family {
                stem: "normalized-sqrt",
                about: "square root with columns of one length",
                examples: &["normalized-sqrt"],
                open: Some(MechanismName::NormalizedSqrt),
                reach: |_| Reach::gaussian(1 << 14),
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                steps: |_| Linear,
                limits: toeplitz::sqrt::limits,
                ..Family::DEFAULT
            };

            /// The first diagonals of the square root; the parameter is their number.
            BandedSqrt(bands: u64) in toeplitz::banded_sqrt = Family {
                stem: "banded-sqrt",
                about: "first diagonals of the square root",
                examples: &["banded-sqrt(bands=8)"],
                open: None,
                reach: |_| Reach::gaussian(1 << 14),
                competes: Competes::ForUnits(toeplitz::banded_sqrt::competitors),
                vectors: Vectors::Streamed,
                sampled: SampledUse::Banded(toeplitz::banded_sqrt::BANDED),
                steps: |_| Linear,
                ..Family::DEFAULT
            };

            /// Bands with columns whose lengths change from epoch to epoch: the number of bands; the participation of
            /// units; how sharply sampling separates epochs; the digest of the matrix.
            EpochBands(bands: u64, runs: Participation, sharpness: Sharpness, digest: Option<MatrixDigest>)
                in toeplitz::epoch_bands = Family {
                stem: "epoch-bands",
                about: "best bands, with columns scaled per epoch",
                examples: &["epoch-bands(bands=8)"],
                open: None,
                reach: |_| Reach::gaussian(1 << 12),
                competes: Competes::ForUnits(toeplitz::epoch_bands::competitors),
                vectors: Vectors::Streamed,
                stand_in: toeplitz::epoch_bands::stand_in,
                sampled: SampledUse::Banded(toeplitz::epoch_bands::BANDED),
                for_loop: toeplitz::epoch_bands::for_loop,
                steps: |_| Linear,
                brief: toeplitz::epoch_bands::brief,
                ..Family::DEFAULT
            };

            /// The inverse of the first diagonals of the inverse square root; the parameter is their number.
            BandedInverseSqrt(bands: u64) in toeplitz::banded_inverse_sqrt = Family {
                stem: "banded-inverse-sqrt",
                about: "inverse of the first diagonals of the inverse square root",
                examples: &["banded-inverse-sqrt(bands=8)"],
                open: None,
                reach: |_| Reach::gaussian(1 << 14),
                vectors: Vectors::Streamed,
                steps: |_| Linear,
                ..Family::DEFAULT
            };

            /// The inverse of the first diagonals of a power of the differences; `None` = the best power.
            BandedInverse(bands: u64, exponent: Option<Exponent>) in toeplitz::banded_inverse = Family {
                stem: "banded-inverse",
                about: "inverse of the first diagonals of a power of the differences",
                examples: &["banded-inverse(bands=2)", "banded-inverse(bands=8,exponent=0.75)"],
                open: None,
                reach: |_| Reach::gaussian(1 << 14),
                competes: Competes::ForUnits(toeplitz::banded_inverse::competitors),
                vectors: Vectors::Streamed,
                for_loop: toeplitz::banded_inverse::for_loop,
                steps: |_| Linear,
                brief: toeplitz::banded_inverse::brief,
                ..Family::DEFAULT
            };

            /// Buffered linear Toeplitz matrix.
            Blt(choice: BufferChoice) in toeplitz::blt = Family {
                stem: "blt",
                about: "buffered linear Toeplitz matrix",
                examples: &["blt", "blt(buffers=4)"],
                open: Some(MechanismName::Blt(BufferChoice::Best)),
                reach: |_| Reach::ANY_GAUSSIAN,
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                abilities: Abilities { lazy: true, ..Abilities::IN_ORDER },
                for_loop: toeplitz::blt::for_loop,
                brief: toeplitz::blt::brief,
                ..Family::DEFAULT
            };

            /// The same with columns of one length, or patterns of columns for units with events in several steps.
            NormalizedBlt(choice: BufferChoice, runs: Participation) in toeplitz::normalized_blt = Family {
                stem: "normalized-blt",
                about: "buffered linear Toeplitz matrix with columns of one length",
                examples: &["normalized-blt"],
                open: Some(MechanismName::NormalizedBlt(BufferChoice::Best, Participation::ONCE)),
                reach: |_| Reach::ANY_GAUSSIAN,
                competes: Competes::ForSums,
                vectors: Vectors::Streamed,
                abilities: Abilities { lazy: true, ..Abilities::IN_ORDER },
                sampled: SampledUse::AllocatedOnce,
                for_loop: toeplitz::normalized_blt::for_loop,
                brief: toeplitz::normalized_blt::brief,
                ..Family::DEFAULT
            };

            /// The optimum for Gaussian noise; the participation of units with events in several steps.
            Dense(optimum: Optimum, runs: Participation) in optimum::dense_family = Family {
                stem: "dense",
                about: "the optimal factorization, as a dense matrix",
                examples: &["dense", "dense(run=4,gap=16)"],
                open: Some(MechanismName::Dense(Optimum::OPEN, Participation::ONCE)),
                reach: |_| Reach::gaussian(1 << 11),
                competes: Competes::ForSums,
                vectors: Vectors::ForUnits(optimum::MAX_SEARCHED),
                steps: |_| Linear,
                brief: optimum::dense_family::brief,
                answers: optimum::dense_family::answers,
                ..Family::DEFAULT
            };

            /// A filter close to the optimum for Gaussian noise: its number of states, or a good default.
            Optimal(states: Option<usize>, optimum: Optimum) in optimum::optimal = Family {
                stem: "optimal",
                about: "filter with few states, close to the optimum",
                examples: &["optimal", "optimal(states=8)"],
                open: Some(MechanismName::Optimal(None, Optimum::OPEN)),
                reach: |_| Reach::gaussian(1 << 17),
                competes: Competes::ForSums,
                steps: |_| Linear,
                brief: optimum::optimal::brief,
                ..Family::DEFAULT
            };

            /// The best factorization that a numerical search finds for Laplace noise.
            DensePure(optimum: Optimum) in least_squares::dense_pure = Family {
                stem: "dense-pure",
                about: "the best factorization found by numerical search",
                examples: &["dense-pure"],
                open: Some(MechanismName::DensePure(Optimum::OPEN)),
                reach: |_| Reach::laplace(1 << 6),
                usual_law: |_| Laplace,
                steps: |_| Linear,
                long_search: Some(least_squares::dense_pure::LONG_SEARCH),
                brief: least_squares::dense_pure::brief,
                answers: least_squares::dense_pure::answers,
                ..Family::DEFAULT
            };

            /// Finitely many bands for windows and decays: the participation of units with events in several steps, and
            /// the digest of the bands.
            Banded(runs: Participation, digest: Option<MatrixDigest>) in banded = Family {
                stem: "banded",
                about: "piecewise constant bands, for endless windows and decays",
                examples: &["banded"],
                open: Some(MechanismName::Banded(Participation::ONCE, None)),
                reach: |_| Reach::ANY_GAUSSIAN, // for running sums; see `Criterion::workload`
                brief: banded::brief,
                answers: banded::answers,
                publishes: Publishes::Workloads,
                readings: banded::readings,
                ..Family::DEFAULT
            };

            /// Single steps and endless hats for windows: spacings and shares, or the best.
            RollingHats(levels: Option<RollingLevels>) in least_squares::rolling_hats = Family {
                stem: "rolling-hats",
                about: "single steps and endless overlapping hats, for windows",
                examples: &["rolling-hats", "rolling-hats(spacing=11/110,share=303/370)"],
                open: Some(MechanismName::RollingHats(None)),
                reach: |_| Reach::laplace(MAX_HORIZON),
                usual_law: |_| Laplace, // for running sums; see `Criterion::workload`
                brief: least_squares::rolling_hats::brief,
                publishes: Publishes::Workloads,
                readings: least_squares::rolling_hats::readings,
                ..Family::DEFAULT
            };

            /// Epochs of growing length, for running counts that never end.
            Endless(choice: EndlessChoice) in endless = Family {
                stem: "endless",
                about: "epochs of growing length, for a count that never ends",
                examples: &[
                    "endless",
                    "endless(inside=growing,run=10)",
                    "endless(inside=hats)",
                    "endless(inside=trees)",
                ],
                open: Some(MechanismName::Endless(EndlessChoice::OPEN)),
                reach: endless::reach,
                usual_law: endless::usual_law,
                competes: Competes::WithoutEnd(endless::competitors),
                steps: endless::steps,
                brief: endless::brief,
                ..Family::DEFAULT
            };
        }
    };
}
pub(in crate::mechanism) use mechanism_rows;
