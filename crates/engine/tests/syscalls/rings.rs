//! Writes that a program submits to a ring of the kernel (io_uring), and writes that are complete.
//! Both are read out of the program's memory, because no call names these writes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;

/// Layouts that the tracer cannot read: entries of other sizes, no array of indices, a thread of
/// the kernel that takes entries unasked.
const UNKNOWN_SETUP: u32 = 1 << 1 | 1 << 10 | 1 << 11 | 1 << 16;
const WRITEV: u8 = 2;
const READ: u8 = 22;
const OFFSET_COMPLETIONS: u64 = 0x800_0000;
const OFFSET_ENTRIES: u64 = 0x1000_0000;

/// A write that was submitted: the call that it counts as, its file, and whether it is durable when
/// complete.
pub type Write = (u64, usize, bool);

/// One ring.
#[derive(Debug, Clone)]
pub struct Ring {
    /// The `io_uring_params` that the kernel returned when it made the ring.
    params: Vec<u8>,
    submissions: u64,
    completions: u64,
    entries: u64,
    /// Number of the first completion that was not read yet.
    read: u32,
    under_way: BTreeMap<u64, Write>,
}

/// An entry that is submitted.
#[derive(Debug, Clone)]
pub struct Submitted {
    pub token: u64,
    pub descriptor: u64,
    pub offset: u64,
    /// Address of the list of its parts, and their number.
    pub vector: u64,
    pub parts: u32,
    pub flags: u32,
}

/// A write that is complete: bytes written, or a negated error.
#[derive(Debug, Clone)]
pub struct Done {
    pub write: Write,
    pub outcome: i32,
}

fn word(memory: &fs::File, address: u64) -> u32 {
    let mut bytes = [0; 4];
    memory.read_exact_at(&mut bytes, address).expect("the child's memory");
    u32::from_le_bytes(bytes)
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

impl Ring {
    pub fn new(params: &[u8]) -> Ring {
        let ring = Ring {
            params: params.to_vec(),
            submissions: 0,
            completions: 0,
            entries: 0,
            read: 0,
            under_way: BTreeMap::new(),
        };
        assert_eq!(ring.param(8) & UNKNOWN_SETUP, 0, "not modelled: a ring of another layout");
        ring
    }

    fn param(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.params[at..at + 4].try_into().expect("four bytes"))
    }

    /// Notes that the program mapped a part of the ring.
    pub fn mapped(&mut self, offset: u64, address: u64) {
        match offset {
            0 => {
                self.submissions = address;
                if self.completions == 0 {
                    self.completions = address;
                }
            }
            OFFSET_COMPLETIONS => self.completions = address,
            OFFSET_ENTRIES => self.entries = address,
            _ => panic!("not modelled: a ring mapped at {offset:#x}"),
        }
    }

    /// Returns the writes that a call is about to give the kernel, if the call submits at most
    /// `count` entries. Reads are left out, because they change nothing.
    pub fn submitted(&self, memory: &fs::File, count: u32) -> Vec<Submitted> {
        let at = |param: usize| self.submissions + u64::from(self.param(param));
        let (head, tail, mask) = (word(memory, at(40)), word(memory, at(44)), word(memory, at(48)));
        let count = count.min(tail.wrapping_sub(head));
        let entry = |nth: u32| {
            let place = at(64) + 4 * u64::from(head.wrapping_add(nth) & mask);
            let mut bytes = [0; 64];
            let address = self.entries + 64 * u64::from(word(memory, place));
            memory.read_exact_at(&mut bytes, address).expect("the child's memory");
            if bytes[0] == READ {
                return None;
            }
            assert!(bytes[0] == WRITEV && bytes[1] == 0, "not modelled: operation {} of a ring", bytes[0]);
            Some(Submitted {
                token: long(&bytes, 32),
                descriptor: long(&bytes, 4) & 0xffff_ffff,
                offset: long(&bytes, 8),
                vector: long(&bytes, 16),
                parts: long(&bytes, 24) as u32,
                flags: (long(&bytes, 24) >> 32) as u32,
            })
        };
        (0..count).filter_map(entry).collect()
    }

    pub fn begin(&mut self, memory: &fs::File, token: u64, write: Write) {
        if self.under_way.is_empty() {
            // The completions so far belong to reads. A read may have the same token as a write.
            self.read = word(memory, self.completions + u64::from(self.param(84)));
        }
        let before = self.under_way.insert(token, write);
        assert!(before.is_none(), "two writes of one name in one ring");
    }

    /// Returns the writes that are not complete.
    pub fn under_way(&self) -> Vec<Write> {
        self.under_way.values().copied().collect()
    }

    /// Removes a write that the kernel did not take.
    pub fn take_back(&mut self, token: u64) -> Option<Write> {
        self.under_way.remove(&token)
    }

    /// Returns the writes that have become complete since the last call.
    pub fn completed(&mut self, memory: &fs::File) -> Vec<Done> {
        let mut done = Vec::new();
        if self.under_way.is_empty() {
            return done;
        }
        let at = |param: usize| self.completions + u64::from(self.param(param));
        let (tail, mask, list) = (word(memory, at(84)), word(memory, at(88)), at(100));
        while self.read != tail {
            let mut bytes = [0; 16];
            memory
                .read_exact_at(&mut bytes, list + 16 * u64::from(self.read & mask))
                .expect("the child's memory");
            self.read = self.read.wrapping_add(1);
            if let Some(write) = self.under_way.remove(&long(&bytes, 0)) {
                done.push(Done { write, outcome: long(&bytes, 8) as i32 });
            }
        }
        done
    }
}
