//! A study is a group of cases that are measured together: a figure of a paper, or
//! `lab log-commit`.
//!
//! Pure functions.

use super::figures::Figure;
use super::figures::cicada::CicadaFigure;
use super::figures::nvram::NvramFigure;
use super::figures::spec::Spec;

/// A figure, or `log-commit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Study {
    LogCommit,
    Figure(Figure),
    Cicada(CicadaFigure),
    Nvram(NvramFigure),
}

impl Study {
    pub fn name(self) -> &'static str {
        match self {
            Study::LogCommit => "log-commit",
            Study::Figure(figure) => figure.name(),
            Study::Cicada(figure) => figure.spec().name,
            Study::Nvram(figure) => figure.spec().name,
        }
    }

    /// Description of the figure, if the study is one.
    pub fn spec(self) -> Option<Spec> {
        match self {
            Study::LogCommit => None,
            Study::Figure(figure) => Some(figure.spec()),
            Study::Cicada(figure) => Some(figure.spec()),
            Study::Nvram(figure) => Some(figure.spec()),
        }
    }
}
