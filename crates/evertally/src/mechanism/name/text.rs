//! Names as text, both ways.

use super::{HatChoice, LevelChoice, MOST_LEVELS, MechanismName, Optimum};
use crate::mechanism::BufferChoice;
use crate::{Error, Result};
use std::fmt;
use std::str::FromStr;

impl fmt::Display for MechanismName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input => f.write_str("input"),
            Self::Output => f.write_str("output"),
            Self::Binary => f.write_str("binary"),
            Self::HonakerOnline => f.write_str("honaker-online"),
            Self::Kary(None) => f.write_str("kary"),
            Self::Kary(Some(k)) => write!(f, "kary(k={k})"),
            Self::Subtract(None) => f.write_str("subtract"),
            Self::Subtract(Some(k)) => write!(f, "subtract(k={k})"),
            Self::Consistent(None, _) => f.write_str("consistent"),
            Self::Consistent(Some(k), LevelChoice::Best) => write!(f, "consistent(k={k})"),
            Self::Consistent(Some(k), LevelChoice::Uniform { root: true }) => {
                write!(f, "consistent(k={k},levels=uniform)")
            }
            Self::Consistent(Some(k), LevelChoice::Uniform { root: false }) => {
                write!(f, "consistent(k={k},levels=uniform,root=false)")
            }
            Self::Consistent(Some(k), LevelChoice::Given(levels)) => write!(f, "consistent(k={k},levels={levels})"),
            Self::PathSum(LevelChoice::Best) => f.write_str("path-sum"),
            Self::PathSum(LevelChoice::Uniform { root: true }) => f.write_str("path-sum(levels=unit)"),
            Self::PathSum(LevelChoice::Uniform { root: false }) => f.write_str("path-sum(levels=unit,root=false)"),
            Self::PathSum(LevelChoice::Given(levels)) => write!(f, "path-sum(levels={})", levels.in_runs()),
            Self::Sqrt => f.write_str("sqrt"),
            Self::NormalizedSqrt => f.write_str("normalized-sqrt"),
            Self::Blt(BufferChoice::Best) => f.write_str("blt"),
            Self::Blt(BufferChoice::Count(count)) => write!(f, "blt(buffers={count})"),
            Self::Blt(BufferChoice::Given(buffers)) => write!(f, "blt({buffers})"),
            Self::NormalizedBlt(choice) => write!(f, "normalized-{}", Self::Blt(*choice)),
            Self::BandedSqrt(bands) => write!(f, "banded-sqrt(bands={bands})"),
            Self::BandedInverseSqrt(bands) => write!(f, "banded-inverse-sqrt(bands={bands})"),
            Self::Dense(optimum) => write!(f, "dense{optimum}"),
            Self::Optimal(None, optimum) => write!(f, "optimal{optimum}"),
            Self::Optimal(Some(states), Optimum { mean: None, digest: None }) => write!(f, "optimal(states={states})"),
            Self::Optimal(Some(states), optimum) => {
                write!(f, "optimal(states={states},{}", optimum.to_string().trim_start_matches('('))
            }
            Self::DensePure(optimum) => write!(f, "dense-pure{optimum}"),
            Self::Hats(HatChoice::Best) => f.write_str("hats"),
            Self::Hats(HatChoice::Spaced(spacings)) => {
                let used = spacings.iter().take_while(|w| **w > 0).map(u32::to_string);
                write!(f, "hats(spacing={})", used.collect::<Vec<_>>().join("/"))
            }
            Self::Hats(HatChoice::Given(levels)) => write!(f, "hats({levels})"),
            Self::Smooth(None) => f.write_str("smooth"),
            Self::Smooth(Some((height, zeros))) => write!(f, "smooth(h={height},zeros={zeros})"),
        }
    }
}

impl fmt::Display for Optimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objective = self.mean.map(|mean| format!("objective={}", if mean { "mean" } else { "max" }));
        let parts: Vec<_> =
            objective.into_iter().chain(self.digest.map(|digest| format!("digest={digest:08x}"))).collect();
        if parts.is_empty() { Ok(()) } else { write!(f, "({})", parts.join(",")) }
    }
}

impl FromStr for MechanismName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let mut parameters = Parameters::split(text)?;
        let name = match parameters.stem {
            "input" => Self::Input,
            "output" => Self::Output,
            "binary" => Self::Binary,
            "honaker-online" => Self::HonakerOnline,
            "kary" => Self::Kary(parameters.number("k")?),
            "subtract" => Self::Subtract(parameters.number("k")?),
            "smooth" => match (parameters.number("h")?, parameters.number("zeros")?) {
                (None, None) => Self::Smooth(None),
                (Some(height), Some(zeros)) => Self::Smooth(Some((height, zeros))),
                _ => {
                    return Err(Error::invalid(format!(
                        "`{text}` should have both parameters `h` and `zeros`, or neither"
                    )));
                }
            },
            "consistent" => Self::Consistent(parameters.number("k")?, parameters.levels("uniform")?),
            "path-sum" => Self::PathSum(parameters.levels("unit")?),
            "sqrt" => Self::Sqrt,
            "normalized-sqrt" => Self::NormalizedSqrt,
            "blt" => Self::Blt(parameters.buffers()?),
            "banded-sqrt" => Self::BandedSqrt(parameters.bands()?),
            "banded-inverse-sqrt" => Self::BandedInverseSqrt(parameters.bands()?),
            "dense" => Self::Dense(parameters.optimum()?),
            "optimal" => Self::Optimal(parameters.number("states")?, parameters.optimum()?),
            "dense-pure" => Self::DensePure(parameters.optimum()?),
            "hats" => Self::Hats(parameters.hats()?),
            "normalized-blt" => Self::NormalizedBlt(parameters.buffers()?),
            _ => {
                return Err(Error::invalid(format!(
                    "unknown mechanism `{text}`; known: input, output, binary, honaker-online, kary(k=5), \
                     subtract(k=19), smooth, smooth(h=6,zeros=3), consistent, consistent(k=12), path-sum, hats, \
                     hats(spacing=12/150), sqrt, normalized-sqrt, banded-sqrt(bands=8), banded-inverse-sqrt(bands=8), blt, \
                     blt(buffers=4), normalized-blt, dense, optimal, optimal(states=8), dense-pure"
                )));
            }
        };
        parameters.none_left()?;
        Ok(name)
    }
}

/// The parts of `stem(key=value,…)`; parameters are taken out one by one.
struct Parameters<'a> {
    text: &'a str,
    stem: &'a str,
    rest: Vec<(&'a str, &'a str)>,
}

impl<'a> Parameters<'a> {
    fn split(text: &'a str) -> Result<Self> {
        let malformed = || Error::invalid(format!("malformed mechanism `{text}`; write it like `smooth(h=6,zeros=3)`"));
        let Some((stem, rest)) = text.trim().split_once('(') else {
            return Ok(Self { text, stem: text.trim(), rest: vec![] });
        };
        let inner = rest.strip_suffix(')').ok_or_else(malformed)?;
        let pair = |part: &'a str| part.split_once('=').map(|(key, value)| (key.trim(), value.trim()));
        let rest = inner.split(',').map(|part| pair(part).ok_or_else(malformed)).collect::<Result<Vec<_>>>()?;
        Ok(Self { text, stem: stem.trim(), rest })
    }

    fn take(&mut self, key: &str) -> Option<&'a str> {
        let place = self.rest.iter().position(|(name, _)| *name == key)?;
        Some(self.rest.remove(place).1)
    }

    fn number<N: FromStr>(&mut self, key: &str) -> Result<Option<N>> {
        let Some(value) = self.take(key) else { return Ok(None) };
        let refuse = |_| Error::invalid(format!("`{key}` of `{}` should be a whole number, got `{value}`", self.text));
        value.parse().map(Some).map_err(refuse)
    }

    /// `levels` and `root`, where `equal` is the word for equal weights.
    fn levels(&mut self, equal: &str) -> Result<LevelChoice> {
        let root = match self.take("root") {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(other) => return Err(Error::invalid(format!("`root` should be true or false, got `{other}`"))),
        };
        match (self.take("levels"), root) {
            (Some(word), _) if word == equal => Ok(LevelChoice::Uniform { root: root.unwrap_or(true) }),
            (_, Some(_)) => Err(Error::invalid(format!(
                "`root` goes with `levels={equal}`; one weight fewer leaves the root out, too"
            ))),
            (Some(weights), None) => Ok(LevelChoice::Given(weights.parse()?)),
            (None, None) => Ok(LevelChoice::Best),
        }
    }

    fn buffers(&mut self) -> Result<BufferChoice> {
        match (self.number("buffers")?, self.take("decay"), self.take("echo")) {
            (None, None, None) => Ok(BufferChoice::Best),
            (Some(count), None, None) => Ok(BufferChoice::Count(count)),
            (None, Some(decay), Some(echo)) => Ok(BufferChoice::Given(format!("decay={decay},echo={echo}").parse()?)),
            _ => Err(Error::invalid(format!(
                "`{}` should have the parameter `buffers`, both of `decay` and `echo`, or none of them",
                self.text
            ))),
        }
    }

    fn bands(&mut self) -> Result<u64> {
        let bands = self.number("bands")?;
        bands.ok_or_else(|| Error::invalid(format!("`{0}` needs a number of bands: {0}(bands=8)", self.stem)))
    }

    fn optimum(&mut self) -> Result<Optimum> {
        let mean = match self.take("objective") {
            None => None,
            Some("max") => Some(false),
            Some("mean") => Some(true),
            Some(other) => return Err(Error::invalid(format!("`objective` should be max or mean, got `{other}`"))),
        };
        let digest = match self.take("digest") {
            None => None,
            Some(hex) => Some(u32::from_str_radix(hex, 16).map_err(|_| {
                Error::invalid(format!("`digest` of `{}` should be 8 hexadecimal digits, got `{hex}`", self.text))
            })?),
        };
        Ok(Optimum { mean, digest })
    }

    fn hats(&mut self) -> Result<HatChoice> {
        match (self.take("spacing"), self.take("first"), self.take("last")) {
            (None, None, None) => Ok(HatChoice::Best),
            (Some("none"), None, None) => Ok(HatChoice::Given("spacing=none".parse()?)),
            (Some(spacing), None, None) => {
                let wrong = || {
                    Error::invalid(format!(
                        "`spacing` of `{}` should be at most {MOST_LEVELS} growing numbers of steps from 2, like 12/150",
                        self.text
                    ))
                };
                let list: Option<Vec<u32>> =
                    spacing.split('/').map(|w| w.trim().parse().ok().filter(|w| *w > 1)).collect();
                let list = list.filter(|list| list.len() <= MOST_LEVELS).ok_or_else(wrong)?;
                let mut spacings = [0; MOST_LEVELS];
                spacings[..list.len()].copy_from_slice(&list);
                Ok(HatChoice::Spaced(spacings))
            }
            (Some(spacing), Some(first), Some(last)) => {
                Ok(HatChoice::Given(format!("spacing={spacing},first={first},last={last}").parse()?))
            }
            _ => Err(Error::invalid(format!(
                "`{}` should have the parameter `spacing` alone, or with both `first` and `last`",
                self.text
            ))),
        }
    }

    fn none_left(&self) -> Result<()> {
        match self.rest.first() {
            None => Ok(()),
            Some((key, _)) => {
                Err(Error::invalid(format!("`{}` has no parameter `{key}`, in `{}`", self.stem, self.text)))
            }
        }
    }
}

impl TryFrom<String> for MechanismName {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<MechanismName> for String {
    fn from(name: MechanismName) -> Self {
        name.to_string()
    }
}
