//! The instructions that write cache lines back, and the fence that follows them: detection and
//! use.
//!
//! Any thread may call this code. Miri has none of these instructions, and its fence is the
//! language's.
//!
//! | instruction | after it the line is | ordered by |
//! |---|---|---|
//! | `clwb` | still in the cache, clean (some processors evict it) | `sfence` |
//! | `clflushopt` | out of the cache | `sfence` |
//! | `clflush` | out of the cache, one line after the other | itself |
//! | `dc cvap` (Armv8.2), else `dc cvac` | still in the cache, clean | `dsb` |
//!
//! Some of these instructions imply others: a processor with `clwb` also has `clflushopt`, one with
//! `clflushopt` also has `clflush`, and one with `dc cvap` also has `dc cvac`.
//!
//! The bytes written back may have been stored by other threads. On x86 a write-back follows all
//! older loads, including those by which this thread learned of these stores. On Arm a `dc`
//! instruction is ordered with accesses to its own line only, so a `dmb` precedes the first `dc` of
//! a call. Without the `dmb` the write-back could come before the load by which the thread learned
//! that the line is filled, and take the line's old content.
//!
//! On Arm `dc cvac` writes to the point of coherency, where every observer of the memory sees the
//! line. A line that has got only to that point need not survive a crash. `dc cvac` is used only on
//! processors that have nothing better, as in Linux itself.

use std::fmt;

/// Bytes of a cache line, the unit in which memory is written back. The length of a region is a
/// multiple of it.
pub const LINE_BYTES: u64 = 64;

/// Instruction that writes a cache line back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Instruction {
    /// x86: the line stays in the cache.
    Clwb,
    /// x86: the line leaves the cache.
    Clflushopt,
    /// x86, every processor: the line leaves the cache, and the instruction waits for others of its
    /// kind.
    Clflush,
    /// Arm: the line reaches the point of persistence.
    DcCvap,
    /// Arm: the line reaches the point of coherency.
    DcCvac,
}

impl Instruction {
    /// Returns the name of the instruction and of its fence.
    pub fn name(self) -> &'static str {
        match self {
            Instruction::Clwb => "clwb + sfence",
            Instruction::Clflushopt => "clflushopt + sfence",
            Instruction::Clflush => "clflush + sfence",
            Instruction::DcCvap => "dc cvap + dsb",
            Instruction::DcCvac => "dc cvac + dsb",
        }
    }

    /// Returns the best instruction that this processor has.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    pub(super) fn detect() -> Option<Instruction> {
        use std::arch::x86_64::{__cpuid, __cpuid_count};
        // Leaf 7, EBX: bit 24 is CLWB, bit 23 CLFLUSHOPT. CLFLUSH is part of x86-64.
        #[allow(unused_unsafe, reason = "newer compilers know that it is safe")]
        // SAFETY: x86-64 always has `cpuid`.
        let bits = unsafe {
            match __cpuid(0).eax {
                0..7 => 0,
                _ => __cpuid_count(7, 0).ebx,
            }
        };
        Some(match (bits >> 24 & 1, bits >> 23 & 1) {
            (1, _) => Instruction::Clwb,
            (_, 1) => Instruction::Clflushopt,
            _ => Instruction::Clflush,
        })
    }

    /// Returns the best instruction that this processor has; `None` if the processor's cache lines
    /// are shorter than [`LINE_BYTES`].
    #[cfg(all(target_arch = "aarch64", target_os = "linux", not(miri)))]
    pub(super) fn detect() -> Option<Instruction> {
        let kinds: u64;
        // SAFETY: Linux lets programs read this register (or reads it for them).
        unsafe {
            std::arch::asm!("mrs {}, ctr_el0", out(reg) kinds, options(nomem, nostack, preserves_flags))
        };
        // The smallest data cache line, as a power of two of 4-byte words.
        let line = 4_u64 << (kinds >> 16 & 0xf);
        if line < LINE_BYTES {
            return None;
        }
        Some(match std::arch::is_aarch64_feature_detected!("dpb") {
            true => Instruction::DcCvap,
            false => Instruction::DcCvac,
        })
    }

    /// Returns `None`, because no instruction is known. macOS does not say whether programs may use
    /// the instructions of aarch64, and has no memory for which they would help.
    #[cfg(any(miri, not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux")))))]
    pub(super) fn detect() -> Option<Instruction> {
        None
    }

    /// Begins to write back the line that `address` lies in.
    ///
    /// # Safety
    /// The address is mapped, and the processor has this instruction: [`Instruction::detect`] has
    /// returned it, or an instruction that implies it (see the head of this file).
    #[inline(always)]
    unsafe fn write_back(self, address: *const u8) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: the caller vouches for address and processor; nothing but a cache is changed.
        // `nomem` is missing so that the compiler keeps earlier stores before the instruction.
        unsafe {
            use std::arch::asm;
            match self {
                Instruction::Clwb => {
                    asm!("clwb [{}]", in(reg) address, options(nostack, preserves_flags));
                }
                Instruction::Clflushopt => {
                    asm!("clflushopt [{}]", in(reg) address, options(nostack, preserves_flags));
                }
                _ => asm!("clflush [{}]", in(reg) address, options(nostack, preserves_flags)),
            }
        }
        #[cfg(all(target_arch = "aarch64", target_os = "linux", not(miri)))]
        // SAFETY: the caller vouches for address and processor; nothing but a cache is changed. `dc
        // cvap` is given by its number, for assemblers that do not know its name.
        unsafe {
            use std::arch::asm;
            match self {
                Instruction::DcCvap => {
                    asm!("sys #3, c7, c12, #1, {}", in(reg) address, options(nostack, preserves_flags));
                }
                _ => asm!("dc cvac, {}", in(reg) address, options(nostack, preserves_flags)),
            }
        }
        #[cfg(any(
            miri,
            not(any(target_arch = "x86_64", all(target_arch = "aarch64", target_os = "linux")))
        ))]
        let _ = (self, address);
    }

    /// Begins to write back every line of the `bytes` bytes from `address` on.
    ///
    /// # Safety
    /// The bytes are mapped, and the processor has this instruction: [`Instruction::detect`] has
    /// returned it, or an instruction that implies it (see the head of this file).
    #[inline(always)]
    pub(super) unsafe fn write_back_all(self, address: *const u8, bytes: usize) {
        after_loads();
        let line = LINE_BYTES as usize;
        let within = address.addr() % line;
        for nth in 0..(within + bytes).div_ceil(line) {
            // The first line is written back by the given address, because the bytes before it need
            // not be mapped.
            let at = (nth * line).saturating_sub(within);
            // SAFETY: `at` does not lie past the end, because line `nth` begins before the end.
            unsafe { self.write_back(address.add(at)) };
        }
    }
}

impl fmt::Display for Instruction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Orders this thread's earlier loads and stores before the write-backs that follow.
#[inline(always)]
fn after_loads() {
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a barrier changes no memory.
    unsafe {
        std::arch::asm!("dmb sy", options(nostack, preserves_flags))
    }
}

/// Waits until all write-backs of this thread have arrived. Later stores of this thread are done
/// after that.
#[inline(always)]
pub(super) fn fence() {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a fence changes no memory.
    unsafe {
        std::arch::asm!("sfence", options(nostack, preserves_flags))
    }
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    // SAFETY: a barrier changes no memory.
    unsafe {
        std::arch::asm!("dsb sy", options(nostack, preserves_flags))
    }
    #[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aligned::AlignedBuffer;

    #[test]
    fn every_instruction_of_this_processor_leaves_the_bytes_alone() {
        let best = Instruction::detect();
        let known: &[Instruction] = match best {
            Some(Instruction::Clwb) => &[Instruction::Clwb, Instruction::Clflushopt, Instruction::Clflush],
            Some(Instruction::Clflushopt) => &[Instruction::Clflushopt, Instruction::Clflush],
            Some(Instruction::DcCvap) => &[Instruction::DcCvap, Instruction::DcCvac],
            Some(Instruction::Clflush) => &[Instruction::Clflush],
            Some(Instruction::DcCvac) => &[Instruction::DcCvac],
            None => &[],
        };
        println!("best: {best:?}");
        let bytes: Vec<u8> = (0..4096_u32).map(|nth| nth as u8).collect();
        let buffer = AlignedBuffer::copy_of(&bytes);
        for instruction in known {
            for (from, to) in [(0, 0), (0, 1), (63, 65), (1, 4096), (4095, 4096), (64, 64), (65, 65)] {
                // SAFETY: the bytes lie inside the buffer; the processor has the detected
                // instruction, and those that it implies.
                unsafe { instruction.write_back_all(buffer.as_ptr().add(from), to - from) };
                fence();
            }
        }
        assert!(*buffer == bytes[..]);
    }
}
