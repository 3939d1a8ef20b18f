//! The macro that generates names and their families from the rows.

/// From rows `Variant(parameters) in folder = Family { … };`, generates the enum of names and the dispatch to their
/// folders.
///
/// A folder has `build(horizon, criterion, parameters…)`, and `parse(text)` and `write(f, parameters…)` if there are
/// parameters. A missing function, row or column does not compile: there are no defaults.
macro_rules! registry {
    ($( $(#[$doc:meta])* $variant:ident $( ( $($field:ident : $type:ty),+ ) )? in $($folder:ident)::+ = $row:expr; )+) => {
        /// A mechanism as a user names it; omitted parameters are chosen when it is built for a horizon.
        ///
        /// ```
        /// use evertally::mechanism::{Criterion, MechanismName, NoiseKind, Objective};
        /// let name: MechanismName = "subtract(k=19)".parse()?;
        /// let mechanism = name.build(1000, &Criterion::new(NoiseKind::Gaussian, Objective::Max))?;
        /// assert_eq!(mechanism.column_norms().l2_squared, 3.0);
        /// assert_eq!(mechanism.max_row_norm_squared(), 21.0);
        /// # Ok::<(), evertally::Error>(())
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[non_exhaustive]
        pub enum MechanismName {
            $( $(#[$doc])* $variant $( ( $($type),+ ) )?, )+
        }

        /// The rows, one constant for each name.
        #[allow(non_upper_case_globals)]
        mod rows {
            use super::*;
            $( pub(super) const $variant: &Family = &$row; )+
        }

        /// All rows, in the order of the table.
        const ROWS: &[&Family] = &[$( rows::$variant ),+];

        impl MechanismName {
            /// The family of this name.
            pub const fn family(self) -> &'static Family {
                match self { $( Self::$variant { .. } => rows::$variant, )+ }
            }

            /// The mechanism for a horizon; omitted parameters are searched for the least value of the criterion.
            ///
            /// # Errors
            /// If the horizon or a parameter is out of the mechanism's range.
            pub fn build(self, horizon: u64, criterion: &Criterion) -> Result<Arc<dyn Mechanism>> {
                $crate::mechanism::workload::build(self, horizon, criterion)
            }

            /// The build function of the family.
            pub(in crate::mechanism) fn build_own(
                self,
                horizon: u64,
                criterion: &Criterion,
            ) -> Result<Arc<dyn Mechanism>> {
                match self {
                    $( Self::$variant $( ( $($field),+ ) )? => $($folder)::+::build(horizon, criterion $( $(, $field)+ )?), )+
                }
            }

            /// Writes the parameters, in brackets if there are any.
            fn write_parameters(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$variant $( ( $($field),+ ) )? =>
                        registry!(@write f, [$($folder)::+] $( [$($field),+] )?), )+
                }
            }

            /// The name of a family, by the parameters that follow its stem; `None` if there is no such family.
            fn parse_parameters(parameters: &mut Parameters<'_>) -> Option<Result<Self>> {
                $( if parameters.stem == rows::$variant.stem {
                    return Some(registry!(@parse parameters, $variant, [$($folder)::+] $( [$($field),+] )?));
                } )+
                None
            }
        }
    };
    (@write $f:ident, [$folder:path]) => { Ok(()) };
    (@write $f:ident, [$($folder:ident)::+] [$($field:ident),+]) => { $($folder)::+::write($f $(, $field)+) };
    (@parse $parameters:ident, $variant:ident, [$folder:path]) => { Ok(Self::$variant) };
    (@parse $parameters:ident, $variant:ident, [$($folder:ident)::+] [$($field:ident),+]) => { $($folder)::+::parse($parameters) };
}
pub(super) use registry;
