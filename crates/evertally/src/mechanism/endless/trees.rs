//! `endless-trees`: the endless mechanism with trees inside, for Laplace noise.

use super::Endless;
use crate::Result;
use crate::mechanism::Inside;
use crate::mechanism::name::parameters::Parameters;
use crate::mechanism::{Criterion, MatrixDigest, Mechanism, MechanismName};
use std::fmt;
use std::sync::Arc;

pub(in crate::mechanism) fn parse(parameters: &mut Parameters<'_>) -> Result<MechanismName> {
    Ok(MechanismName::EndlessTrees(parameters.take("digest").map(str::parse).transpose()?))
}

pub(in crate::mechanism) fn write(f: &mut fmt::Formatter<'_>, digest: Option<MatrixDigest>) -> fmt::Result {
    digest.map_or(Ok(()), |digest| write!(f, "(digest={digest})"))
}

pub(in crate::mechanism) fn build(
    horizon: u64,
    _criterion: &Criterion,
    digest: Option<MatrixDigest>,
) -> Result<Arc<dyn Mechanism>> {
    Ok(Arc::new(match digest {
        Some(digest) => Endless::with_digest(horizon, Inside::Trees, digest)?,
        None => Endless::new(horizon, Inside::Trees)?,
    }))
}

pub(in crate::mechanism) fn brief(name: MechanismName) -> MechanismName {
    match name {
        MechanismName::EndlessTrees(_) => MechanismName::EndlessTrees(None),
        other => other,
    }
}
