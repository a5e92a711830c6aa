//! Follows a child process from system call to system call (ptrace) and writes down what its calls
//! do to one folder.
//!
//! The thread that calls [`follow`] runs all of this file, because the kernel takes requests only
//! from the tracing thread. Invariants:
//!
//! 1. The tracer writes down the beginning of a call before the kernel runs the call, and the end
//!    before the child goes on. So everything that a thread of the child does because a call has
//!    returned is written down after that call's end.
//! 2. A call that could change the folder and is not modelled ends the test. Nothing is skipped in
//!    silence.

use crate::disk::{Event, Naming, Node};
use crate::rings::{Done, Ring, Write};
use crate::watched::Watched;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// `RWF_DSYNC` and `RWF_SYNC`: a write with one of these flags is durable when it returns.
pub const DURABLE_WRITE: u64 = 2 | 4;
/// `RWF_NOWAIT`, which promises nothing.
const NO_WAIT: u64 = 8;

/// Kind of an open descriptor of the child.
#[derive(Debug, Clone)]
enum Descriptor {
    File { number: usize, durable: bool },
    Folder(usize),
    Ring(Ring),
}

/// A system call that a thread has begun and that has not ended.
#[derive(Debug, Clone)]
struct Call {
    number: u64,
    doing: PendingCall,
}

/// Event to be written down at the end of a call.
#[derive(Debug, Clone)]
enum PendingCall {
    Nothing,
    Write {
        file: usize,
        durable: bool,
    },
    Sync(Node),
    Length {
        file: usize,
        length: u64,
    },
    Name {
        folder: usize,
        naming: Naming,
    },
    /// Opens a file or folder inside the watched folder `folder`, or `folder` itself if `name` is
    /// `None`.
    Open {
        folder: usize,
        name: Option<String>,
        flags: u64,
    },
    /// Makes a folder.
    Folder {
        folder: usize,
        name: String,
    },
    Duplicate(Descriptor),
    /// Submits writes to a ring. `entries` are the tokens of the submitted writes to watched files.
    Submit {
        descriptor: u64,
        entries: Vec<u64>,
    },
    NewRing {
        params: u64,
    },
    MapRing {
        descriptor: u64,
        offset: u64,
    },
}

/// The child that is followed.
struct Followed<'a> {
    watched: &'a mut Watched,
    memory: fs::File,
    descriptors: BTreeMap<u64, Descriptor>,
    calls: BTreeMap<i32, Call>,
}

fn permitted<T>(what: &str, outcome: Result<T, Errno>) -> T {
    outcome.unwrap_or_else(|errno| {
        panic!(
            "{what}: {errno}. These tests follow a child process with ptrace, which is not permitted here. \
             Permit it (docker: --cap-add=SYS_PTRACE; kernel.yama.ptrace_scope of at most 1), or set \
             KATYDID_NO_PTRACE=1 to leave them out."
        )
    })
}

/// Follows a child to its end. The caller makes sure that all threads of the child wait for `go`,
/// which is called after the tracer has attached to these threads. Returns the child's exit status.
pub fn follow(watched: &mut Watched, child: std::process::Child, go: impl FnOnce()) -> i32 {
    let process = child.id();
    let leader = Pid::from_raw(process as i32);
    let options = Options::PTRACE_O_TRACESYSGOOD | Options::PTRACE_O_TRACECLONE | Options::PTRACE_O_EXITKILL;
    for thread in fs::read_dir(format!("/proc/{process}/task")).expect("a child that lives") {
        let name = thread.expect("a thread").file_name();
        let thread = Pid::from_raw(name.to_str().and_then(|name| name.parse().ok()).expect("a number"));
        permitted("attaching to the child", ptrace::seize(thread, options));
        permitted("stopping the child", ptrace::interrupt(thread));
    }
    let memory = fs::File::open(format!("/proc/{process}/mem")).expect("the child's memory");
    let mut child = Followed { watched, memory, descriptors: BTreeMap::new(), calls: BTreeMap::new() };
    go();
    loop {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let (thread, signal) = match waitpid(None, Some(flags)).expect("a child to wait for") {
            WaitStatus::PtraceSyscall(thread) => {
                child.at_call(thread);
                (thread, None)
            }
            WaitStatus::PtraceEvent(thread, ..) => (thread, None),
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal)),
            WaitStatus::Exited(thread, code) if thread == leader => {
                child.ended();
                return code;
            }
            WaitStatus::Signaled(thread, signal, _) if thread == leader => {
                panic!("the child died by {signal}")
            }
            _ => continue,
        };
        resume(thread, signal);
    }
}

fn resume(thread: Pid, signal: Option<Signal>) {
    match ptrace::syscall(thread, signal) {
        // Another thread may have ended the process meanwhile.
        Ok(()) | Err(Errno::ESRCH) => {}
        Err(errno) => panic!("the child does not go on: {errno}"),
    }
}

impl Followed<'_> {
    /// Handles a stop of a thread, which begins or has ended a call.
    fn at_call(&mut self, thread: Pid) {
        let Ok(at) = ptrace::syscall_info(thread) else { return };
        // A write in a ring may have become durable at any time.
        self.look_at_rings();
        match at.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => {
                // SAFETY: the kernel says that this is the stop before a call, for which it fills
                // this part.
                let entry = unsafe { at.u.entry };
                self.watched.calls += 1;
                let number = self.watched.calls;
                let doing = self.begin(number, entry.nr as i64, entry.args);
                self.calls.insert(thread.as_raw(), Call { number, doing });
            }
            libc::PTRACE_SYSCALL_INFO_EXIT => {
                // SAFETY: the kernel says that this is the stop after a call, for which it fills
                // this part.
                let exit = unsafe { at.u.exit };
                // There is no entry if the call began before the child was followed.
                if let Some(call) = self.calls.remove(&thread.as_raw()) {
                    self.end(call, exit.sval);
                }
            }
            _ => {}
        }
    }

    fn read(&self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.memory.read_exact_at(&mut bytes, address).expect("the child's memory");
        bytes
    }

    fn text(&self, address: u64) -> PathBuf {
        let mut bytes = vec![0; 4096];
        // The text may lie at the end of a mapping, so shorter and shorter reads are tried.
        let count = (1..=8).rev().find_map(|part| {
            let count = self.memory.read_at(&mut bytes[..part * 512], address).ok()?;
            bytes[..count].contains(&0).then_some(count)
        });
        let bytes = &bytes[..count.unwrap_or(512)];
        let end = bytes.iter().position(|byte| *byte == 0).expect("a text that ends");
        PathBuf::from(std::str::from_utf8(&bytes[..end]).expect("a path that is text"))
    }

    /// Returns the bytes of `count` pieces, whose addresses and lengths lie at `address`.
    fn vector(&self, address: u64, count: u64) -> Vec<u8> {
        let list = self.read(address, count as usize * 16);
        let word = |at: usize| u64::from_le_bytes(list[at..at + 8].try_into().expect("eight bytes"));
        (0..count as usize).flat_map(|nth| self.read(word(nth * 16), word(nth * 16 + 8) as usize)).collect()
    }

    fn file(&self, descriptor: u64) -> Option<(usize, bool)> {
        match self.descriptors.get(&u64::from(descriptor as u32)) {
            Some(Descriptor::File { number, durable }) => Some((*number, *durable)),
            _ => None,
        }
    }

    fn place(&self, base: u64, path: u64) -> Option<(usize, Option<String>)> {
        let base = match self.descriptors.get(&u64::from(base as u32)) {
            Some(Descriptor::Folder(number)) => Some(*number),
            _ => None,
        };
        self.watched.place(base, &self.text(path))
    }

    /// Returns the watched folder and the name of a path. Panics if the path is the watched folder
    /// itself.
    fn named(&self, base: u64, path: u64) -> Option<(usize, String)> {
        let (folder, name) = self.place(base, path)?;
        Some((folder, name.expect("not the folder itself")))
    }

    fn write(&mut self, call: u64, descriptor: u64, offset: u64, flags: u64, bytes: Vec<u8>) -> PendingCall {
        let Some((file, durable)) = self.file(descriptor) else { return PendingCall::Nothing };
        assert_eq!(flags & !(DURABLE_WRITE | NO_WAIT), 0, "not modelled: flags {flags:#x} of a write");
        self.watched.events.push(Event::Write { call, file, offset, bytes });
        PendingCall::Write { file, durable: durable || flags & DURABLE_WRITE != 0 }
    }

    /// Writes down the beginning of a call. Returns the event to be written down at its end.
    fn begin(&mut self, call: u64, name: i64, args: [u64; 6]) -> PendingCall {
        const AT_FOLDER_OF_PROCESS: u64 = libc::AT_FDCWD as u32 as u64;
        let [first, second, third, fourth, ..] = args;
        match name {
            libc::SYS_openat => self.open(first, second, third),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.open(AT_FOLDER_OF_PROCESS, first, second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.make_folder(AT_FOLDER_OF_PROCESS, first),
            libc::SYS_mkdirat => self.make_folder(first, second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink => self.remove(AT_FOLDER_OF_PROCESS, first),
            libc::SYS_unlinkat => self.remove(first, second),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.rename((AT_FOLDER_OF_PROCESS, first), (AT_FOLDER_OF_PROCESS, second), 0),
            libc::SYS_renameat => self.rename((first, second), (third, fourth), 0),
            libc::SYS_renameat2 => self.rename((first, second), (third, fourth), args[4]),
            libc::SYS_write if first == 1 => {
                let bytes = self.read(second, third as usize);
                self.watched.say(&bytes);
                PendingCall::Nothing
            }
            libc::SYS_pwrite64 if self.file(first).is_some() => {
                let bytes = self.read(second, third as usize);
                self.write(call, first, fourth, 0, bytes)
            }
            libc::SYS_pwritev | libc::SYS_pwritev2 if self.file(first).is_some() => {
                let flags = if name == libc::SYS_pwritev2 { args[5] } else { 0 };
                let bytes = self.vector(second, third);
                self.write(call, first, fourth, flags, bytes)
            }
            libc::SYS_fsync | libc::SYS_fdatasync => match self.descriptors.get(&first) {
                Some(Descriptor::File { number, .. }) => self.sync(call, Node::File(*number)),
                Some(Descriptor::Folder(number)) => self.sync(call, Node::Folder(*number)),
                _ => PendingCall::Nothing,
            },
            libc::SYS_ftruncate => match self.file(first) {
                Some((file, _)) => PendingCall::Length { file, length: second },
                None => PendingCall::Nothing,
            },
            libc::SYS_close => {
                // Remove the descriptor at the call's beginning, because its number may be reused
                // before the tracer sees the end.
                self.descriptors.remove(&first);
                PendingCall::Nothing
            }
            libc::SYS_fcntl if [libc::F_DUPFD, libc::F_DUPFD_CLOEXEC].contains(&(second as i32)) => {
                self.duplicate(first)
            }
            libc::SYS_dup | libc::SYS_dup3 => self.duplicate(first),
            libc::SYS_io_uring_setup => PendingCall::NewRing { params: second },
            libc::SYS_io_uring_enter => self.submit(first, second as u32),
            libc::SYS_mmap => match self.descriptors.get(&u64::from(args[4] as u32)) {
                Some(Descriptor::Ring(_)) => PendingCall::MapRing { descriptor: args[4], offset: args[5] },
                Some(Descriptor::File { .. }) => panic!("not modelled: a file that is mapped"),
                _ => PendingCall::Nothing,
            },
            libc::SYS_write
            | libc::SYS_writev
            | libc::SYS_fallocate
            | libc::SYS_sendfile
            | libc::SYS_splice
            | libc::SYS_copy_file_range => {
                let names = |descriptor| self.file(descriptor).is_some();
                let target =
                    if name == libc::SYS_copy_file_range || name == libc::SYS_splice { third } else { first };
                assert!(!names(target), "not modelled: call {name} of a file");
                PendingCall::Nothing
            }
            libc::SYS_truncate
            | libc::SYS_creat
            | libc::SYS_openat2
            | libc::SYS_link
            | libc::SYS_linkat
            | libc::SYS_symlink
            | libc::SYS_symlinkat
            | libc::SYS_mknod
            | libc::SYS_mknodat
            | libc::SYS_rmdir
            | libc::SYS_dup2
            | libc::SYS_sync
            | libc::SYS_syncfs
            | libc::SYS_io_uring_register
            | libc::SYS_io_submit
            | libc::SYS_execve => panic!("not modelled: call {name}"),
            _ => PendingCall::Nothing,
        }
    }

    fn sync(&mut self, call: u64, node: Node) -> PendingCall {
        self.watched.events.push(Event::Sync { call });
        PendingCall::Sync(node)
    }

    fn open(&mut self, base: u64, path: u64, flags: u64) -> PendingCall {
        match self.place(base, path) {
            Some((folder, name)) => PendingCall::Open { folder, name, flags },
            None => PendingCall::Nothing,
        }
    }

    fn make_folder(&mut self, base: u64, path: u64) -> PendingCall {
        match self.place(base, path) {
            Some((folder, Some(name))) => PendingCall::Folder { folder, name },
            _ => PendingCall::Nothing,
        }
    }

    fn remove(&mut self, base: u64, path: u64) -> PendingCall {
        match self.named(base, path) {
            Some((folder, name)) => PendingCall::Name { folder, naming: Naming::Remove(name) },
            None => PendingCall::Nothing,
        }
    }

    fn rename(&mut self, from: (u64, u64), to: (u64, u64), flags: u64) -> PendingCall {
        match (self.named(from.0, from.1), self.named(to.0, to.1)) {
            (Some((folder, from)), Some((other, to))) => {
                assert!(
                    folder == other && flags == 0,
                    "not modelled: a rename to another folder, or with flags"
                );
                PendingCall::Name { folder, naming: Naming::Rename(from, to) }
            }
            (None, None) => PendingCall::Nothing,
            _ => panic!("not modelled: a rename into the folder or out of it"),
        }
    }

    fn duplicate(&mut self, descriptor: u64) -> PendingCall {
        self.descriptors
            .get(&descriptor)
            .map_or(PendingCall::Nothing, |known| PendingCall::Duplicate(known.clone()))
    }

    fn submit(&mut self, descriptor: u64, count: u32) -> PendingCall {
        let Some(Descriptor::Ring(ring)) = self.descriptors.get(&descriptor) else {
            return PendingCall::Nothing;
        };
        let submitted = ring.submitted(&self.memory, count);
        let mut entries = Vec::new();
        for entry in submitted {
            self.watched.calls += 1;
            let call = self.watched.calls;
            let bytes = self.vector(entry.vector, u64::from(entry.parts));
            let doing = self.write(call, entry.descriptor, entry.offset, u64::from(entry.flags), bytes);
            let PendingCall::Write { file, durable } = doing else { continue };
            let Some(Descriptor::Ring(ring)) = self.descriptors.get_mut(&descriptor) else { continue };
            ring.begin(&self.memory, entry.token, (call, file, durable));
            entries.push(entry.token);
        }
        PendingCall::Submit { descriptor, entries }
    }

    fn look_at_rings(&mut self) {
        for descriptor in self.descriptors.values_mut() {
            let Descriptor::Ring(ring) = descriptor else { continue };
            for Done { write: (call, file, durable), outcome } in ring.completed(&self.memory) {
                let count = usize::try_from(outcome).unwrap_or(0);
                self.watched.seen.durable_ring_writes += usize::from(durable && count > 0);
                self.watched.events.push(Event::Wrote { call, file, count, durable });
            }
        }
    }

    /// Writes down the end of a call that returned `outcome`.
    fn end(&mut self, call: Call, outcome: i64) {
        let Call { number: call, doing } = call;
        match doing {
            PendingCall::Nothing => {}
            PendingCall::Write { file, durable } => {
                let count = usize::try_from(outcome).unwrap_or(0);
                self.watched.seen.durable_writes += usize::from(durable && count > 0);
                self.watched.events.push(Event::Wrote { call, file, count, durable });
            }
            PendingCall::Sync(node) => {
                assert_eq!(outcome, 0, "a sync failed");
                match node {
                    Node::File(_) => self.watched.seen.file_syncs += 1,
                    Node::Folder(_) => self.watched.seen.folder_syncs += 1,
                }
                self.watched.events.push(Event::Synced { call, node });
            }
            PendingCall::Submit { descriptor, entries } => {
                // The kernel has taken only the first entries. The program submits the others again
                // later.
                let taken = usize::try_from(outcome).unwrap_or(0).min(entries.len());
                for token in &entries[taken..] {
                    let Some(Descriptor::Ring(ring)) = self.descriptors.get_mut(&descriptor) else {
                        continue;
                    };
                    let Some((call, file, durable)) = ring.take_back(*token) else { continue };
                    self.watched.events.push(Event::Wrote { call, file, count: 0, durable });
                }
            }
            _ if outcome < 0 => {}
            PendingCall::Length { file, length } => self.watched.events.push(Event::Length { file, length }),
            PendingCall::Name { folder, naming } => self.watched.name(folder, naming),
            PendingCall::Folder { folder, name } => self.watched.new_folder(folder, &name),
            PendingCall::Duplicate(descriptor) => drop(self.descriptors.insert(outcome as u64, descriptor)),
            PendingCall::NewRing { params } => {
                let ring = Ring::new(&self.read(params, 120));
                self.descriptors.insert(outcome as u64, Descriptor::Ring(ring));
            }
            PendingCall::MapRing { descriptor, offset } => {
                if let Some(Descriptor::Ring(ring)) = self.descriptors.get_mut(&descriptor) {
                    ring.mapped(offset, outcome as u64);
                }
            }
            PendingCall::Open { folder, name, flags } => {
                let opened = self.opened(folder, name, flags);
                self.descriptors.insert(outcome as u64, opened);
            }
        }
    }

    /// Notes the end of the process. The files show whether a call that had not returned has taken
    /// effect wholly, in part, or not at all.
    fn ended(&mut self) {
        let in_rings: Vec<Write> = self
            .descriptors
            .values()
            .filter_map(|descriptor| match descriptor {
                Descriptor::Ring(ring) => Some(ring.under_way()),
                _ => None,
            })
            .flatten()
            .collect();
        for (call, file, _) in in_rings {
            self.watched.unfinished_write(call, file);
        }
        for Call { number: call, doing } in std::mem::take(&mut self.calls).into_values() {
            match doing {
                PendingCall::Write { file, .. } => self.watched.unfinished_write(call, file),
                PendingCall::Length { file, length } => {
                    let real = self.watched.real(file);
                    self.watched.events.extend(
                        real.filter(|bytes| bytes.len() as u64 == length)
                            .map(|_| Event::Length { file, length }),
                    );
                }
                PendingCall::Name { folder, naming } => {
                    let (Naming::Remove(gone) | Naming::Rename(gone, _) | Naming::Create(gone, _)) = &naming;
                    if !self.watched.path(folder).join(gone).exists() {
                        self.watched.name(folder, naming);
                    }
                }
                PendingCall::Open { folder, name: Some(name), flags }
                    if self.watched.is_new(folder, &name) =>
                {
                    self.opened(folder, Some(name), flags);
                }
                PendingCall::Folder { folder, name } if self.watched.is_new(folder, &name) => {
                    self.watched.new_folder(folder, &name);
                }
                _ => {}
            }
        }
        let mut found = BTreeMap::new();
        self.watched.find(0, "", &mut found);
        self.watched.events.push(Event::Ended { found });
    }

    fn opened(&mut self, folder: usize, name: Option<String>, flags: u64) -> Descriptor {
        let flags = flags as i32;
        let Some(name) = name else { return Descriptor::Folder(folder) };
        assert_eq!(flags & libc::O_TRUNC, 0, "not modelled: {name} is opened and emptied");
        self.watched.seen.direct_opens += usize::from(flags & libc::O_DIRECT != 0);
        let durable = flags & libc::O_DSYNC != 0;
        match self.watched.folders[folder].get(&name) {
            Some(Node::Folder(number)) => Descriptor::Folder(*number),
            Some(Node::File(number)) => Descriptor::File { number: *number, durable },
            None => {
                let number = self.watched.files;
                self.watched.files += 1;
                self.watched.name(folder, Naming::Create(name, Node::File(number)));
                Descriptor::File { number, durable }
            }
        }
    }
}
