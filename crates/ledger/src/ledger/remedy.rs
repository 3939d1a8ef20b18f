//! The parameter that a refusal names as its remedy.

use evertally_declare::parameter::Parameter;
use evertally_declare::problem::SentencePart;

/// The parameter to change for another stream.
pub(super) const NAME: SentencePart = SentencePart::Noun(Parameter::Stream, "name");
