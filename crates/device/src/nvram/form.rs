//! The way in which a region persists bytes: the requested way, the way in use, and its name in
//! reports.

use super::cache::Instruction;
use std::fmt;
use std::time::Duration;

/// Request for a kind of memory when a region is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Persistence {
    /// Real persistence if the machine has it, otherwise emulation without added latency.
    /// [`NvRegion::form`](super::NvRegion::form) says which of the two is in use.
    #[default]
    Auto,
    /// Real persistence, and an error if the machine has none.
    Real,
    /// Emulation, even if the machine has real persistence.
    Emulated {
        /// Time that is added to each fence, on the processor; 0 to 10 us in the papers'
        /// experiments.
        latency: Duration,
    },
}

/// The memory of an emulated region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Medium {
    /// A file mapped without `MAP_SYNC`, on a file system of this kind.
    File(&'static str),
    /// Memory of this process.
    Memory,
}

/// The way in which a region persists bytes. Print it, by its `Display`, with every figure that was
/// measured on the region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Form {
    /// Persistent memory: persisted bytes survive a crash of the machine.
    Real {
        /// The kind of file system, on DAX.
        file_system: &'static str,
        /// Instruction that writes lines back.
        instruction: Instruction,
    },
    /// Emulation: the instructions of `Real` on other memory.
    Emulated {
        /// The memory that stands for persistent memory.
        medium: Medium,
        /// Instruction that writes lines back; `None` if no such instruction is known for this
        /// processor, and then lines are not written back.
        instruction: Option<Instruction>,
        /// Time that is added to each fence.
        latency: Duration,
    },
    /// A simulation, by [`SimNvram`](super::SimNvram).
    Simulated,
}

impl Form {
    /// Returns true if persisted bytes survive a crash of the machine.
    pub fn is_real(&self) -> bool {
        matches!(self, Form::Real { .. })
    }

    /// Returns the instruction that writes lines back, if there is one.
    pub fn instruction(&self) -> Option<Instruction> {
        match self {
            Form::Real { instruction, .. } => Some(*instruction),
            Form::Emulated { instruction, .. } => *instruction,
            Form::Simulated => None,
        }
    }

    /// Returns the latency added to each fence of the processor.
    pub fn latency(&self) -> Duration {
        match self {
            Form::Emulated { latency, .. } => *latency,
            Form::Real { .. } | Form::Simulated => Duration::ZERO,
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (medium, instruction, latency) = match self {
            Form::Real { file_system, instruction } => {
                return write!(f, "real NVRAM: {file_system} on DAX with MAP_SYNC, {instruction}");
            }
            Form::Simulated => {
                return f.write_str("simulated NVRAM: it crashes from a seed, and takes no time");
            }
            Form::Emulated { medium, instruction, latency } => (medium, instruction, latency),
        };
        match medium {
            Medium::File(kind) => write!(f, "EMULATED NVRAM: a mapped file on {kind}")?,
            Medium::Memory => f.write_str("EMULATED NVRAM: memory of this process")?,
        }
        match instruction {
            Some(instruction) => write!(f, ", {instruction}")?,
            None => f.write_str(", nothing written back (no instruction is known)")?,
        }
        write!(f, ", {latency:?} added to each persist; ")?;
        f.write_str(match medium {
            Medium::File(_) => "survives a killed process, not a crash of the machine",
            Medium::Memory => "survives nothing",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_emulated_is_said_to_be() {
        let latency = Duration::from_nanos(400);
        let form = |medium, instruction| Form::Emulated { medium, instruction, latency };
        let cases = [
            (
                Form::Real { file_system: "xfs", instruction: Instruction::Clwb },
                "real NVRAM: xfs on DAX with MAP_SYNC, clwb + sfence",
            ),
            (
                form(Medium::File("tmpfs"), Some(Instruction::Clflushopt)),
                "EMULATED NVRAM: a mapped file on tmpfs, clflushopt + sfence, 400ns added to each persist; \
                 survives a killed process, not a crash of the machine",
            ),
            (
                form(Medium::Memory, None),
                "EMULATED NVRAM: memory of this process, nothing written back (no instruction is known), \
                 400ns added to each persist; survives nothing",
            ),
            (Form::Simulated, "simulated NVRAM: it crashes from a seed, and takes no time"),
        ];
        for (form, said) in cases {
            assert_eq!(form.to_string(), said);
            assert_eq!(form.is_real(), said.starts_with("real"));
            assert_eq!(form.latency().is_zero(), !said.starts_with("EMULATED"));
        }
    }
}
