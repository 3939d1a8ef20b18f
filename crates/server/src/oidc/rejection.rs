//! Why a token is not accepted.

/// Why a token opens nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdentityError {
    /// The token is not valid.
    Rejected(&'static str),
    /// The keys of its issuer are not known now.
    Unavailable,
}
