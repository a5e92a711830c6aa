//! This crate's versions of the C library's functions by which a thread waits, reads the clock or
//! draws random bytes.
//!
//! The linker uses these definitions for the whole program. Each function checks whether the
//! calling thread belongs to a scheduler. If not, it calls the next definition of its name, which
//! is the C library's.
//!
//! Rules, which the SAFETY lines name:
//!
//! 1. Each function has the C library's signature on this machine. The C library's `syscall` is
//!    variadic. On x86-64 and aarch64 Linux a variadic call passes integer arguments in the same
//!    registers as a call with a fixed number of arguments. Arguments that the caller has not given
//!    have arbitrary values, and are passed on.
//! 2. `next` finds the C library's function of the given name, so the result has that function's
//!    signature.
//! 3. Callers pass addresses that are valid for the C library's function.

use crate::scheduler::{Scheduler, Wait, is_inside, wake, within};
use libc::{c_int, c_long, c_uint, clockid_t, ssize_t, timespec};
use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// Returns the C library's function of this name, and caches it in `found` (relaxed, because each
/// thread finds the same address).
fn next(found: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = found.load(Ordering::Relaxed);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name ends with a zero.
    let function = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
    assert!(!function.is_null(), "the C library has no {name:?}");
    found.store(function, Ordering::Relaxed);
    function
}

fn fails(error: c_int) -> c_int {
    // SAFETY: `__errno_location` returns the address of the calling thread's `errno`.
    unsafe { *libc::__errno_location() = error };
    -1
}

fn nanos(time: &timespec) -> u64 {
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

/// Handles a wait for a futex by a thread of a scheduler, and returns the result of the call. For
/// every other call, returns an error with the number of scheduled threads that the call has woken.
///
/// # Safety
/// The addresses are valid for the system call (rule 3).
unsafe fn futex(
    address: *const u32,
    operation: c_int,
    value: u32,
    time: *const timespec,
) -> Result<c_long, usize> {
    let relative = match operation & libc::FUTEX_CMD_MASK {
        libc::FUTEX_WAIT => true,
        libc::FUTEX_WAIT_BITSET => false,
        libc::FUTEX_WAKE | libc::FUTEX_WAKE_BITSET => return Err(wake(address.addr(), value as usize)),
        _ => return Err(0),
    };
    let outcome = within(|scheduler: &Scheduler, own| {
        // SAFETY: rule 3: a futex is an aligned word, which threads access by atomics.
        let word = unsafe { AtomicU32::from_ptr(address.cast_mut()) };
        // SAFETY: rule 3: the pointer is null or points to a time.
        let time = unsafe { time.as_ref() }.map(nanos);
        match relative {
            true => scheduler.waits(own, Some((word, value)), time),
            false => scheduler.waits_until(own, Some((word, value)), time),
        }
    });
    match outcome {
        None => Err(0),
        Some(Wait::Woken) => Ok(0),
        Some(Wait::Changed) => Ok(fails(libc::EAGAIN).into()),
        Some(Wait::TimedOut) => Ok(fails(libc::ETIMEDOUT).into()),
    }
}

type Syscall = unsafe extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long;

/// `syscall`: the scheduler handles calls that wait for a futex or wake it; all other calls go to
/// the C library.
///
/// # Safety
/// The addresses are valid for the C library's function (rule 3).
// SAFETY: rule 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let mut woken = 0;
    let mut c = c;
    if number == libc::SYS_futex && !is_inside() {
        let address = ptr::with_exposed_provenance::<u32>(a as usize);
        let time = ptr::with_exposed_provenance::<timespec>(d as usize);
        // SAFETY: rule 3.
        match unsafe { futex(address, b as c_int, c as u32, time) } {
            Ok(answer) => return answer,
            // The C library's function wakes the rest of the requested number of threads.
            Err(some) => {
                woken = some as c_long;
                c -= woken;
                if woken > 0 && c == 0 {
                    return woken;
                }
            }
        }
    }
    // SAFETY: rule 2.
    let next = unsafe { transmute::<*mut c_void, Syscall>(next(&NEXT, c"syscall")) };
    // SAFETY: rule 3.
    let answer = unsafe { next(number, a, b, c, d, e, f) };
    if answer < 0 { answer } else { answer + woken }
}

/// `sched_yield`: another thread of the scheduler goes on if one can.
///
/// # Safety
/// The addresses are valid for the C library's function (rule 3).
// SAFETY: rule 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sched_yield() -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    if within(Scheduler::yields) == Some(true) {
        return 0;
    }
    // SAFETY: rule 2.
    let next =
        unsafe { transmute::<*mut c_void, unsafe extern "C" fn() -> c_int>(next(&NEXT, c"sched_yield")) };
    // SAFETY: the function has no arguments.
    unsafe { next() }
}

/// `nanosleep`: a sleep on the threads' clock.
///
/// # Safety
/// The addresses are valid for the C library's function (rule 3).
// SAFETY: rule 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nanosleep(time: *const timespec, left: *mut timespec) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    // SAFETY: rule 3.
    if within(|scheduler, own| scheduler.waits(own, None, unsafe { time.as_ref() }.map(nanos))).is_some() {
        return 0;
    }
    type Function = unsafe extern "C" fn(*const timespec, *mut timespec) -> c_int;
    // SAFETY: rule 2.
    let next = unsafe { transmute::<*mut c_void, Function>(next(&NEXT, c"nanosleep")) };
    // SAFETY: rule 3.
    unsafe { next(time, left) }
}

/// `clock_nanosleep`: a sleep on the threads' clock, whichever clock the caller names.
///
/// # Safety
/// The addresses are valid for the C library's function (rule 3).
// SAFETY: rule 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_nanosleep(
    clock: clockid_t,
    flags: c_int,
    time: *const timespec,
    left: *mut timespec,
) -> c_int {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let slept = within(|scheduler, own| {
        // SAFETY: rule 3.
        let time = unsafe { time.as_ref() }.map(nanos);
        match flags & libc::TIMER_ABSTIME {
            0 => scheduler.waits(own, None, time),
            _ => scheduler.waits_until(own, None, time),
        }
    });
    if slept.is_some() {
        return 0;
    }
    type Function = unsafe extern "C" fn(clockid_t, c_int, *const timespec, *mut timespec) -> c_int;
    // SAFETY: rule 2.
    let next = unsafe { transmute::<*mut c_void, Function>(next(&NEXT, c"clock_nanosleep")) };
    // SAFETY: rule 3.
    unsafe { next(clock, flags, time, left) }
}

/// `clock_gettime`: a reading of the threads' clock, for the monotonic and the real-time clock.
///
/// # Safety
/// The addresses are valid for the C library's function (rule 3).
// SAFETY: rule 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    if matches!(clock, libc::CLOCK_MONOTONIC | libc::CLOCK_REALTIME)
        && let Some(now) = within(|scheduler, _| scheduler.now())
    {
        let now = timespec {
            tv_sec: (now / 1_000_000_000) as libc::time_t,
            tv_nsec: (now % 1_000_000_000) as c_long,
        };
        // SAFETY: rule 3.
        unsafe { time.write(now) };
        return 0;
    }
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    type Function = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;
    // SAFETY: rule 2.
    let next = unsafe { transmute::<*mut c_void, Function>(next(&NEXT, c"clock_gettime")) };
    // SAFETY: rule 3.
    unsafe { next(clock, time) }
}

/// `getrandom`, from which `RandomState` draws its first key: the bytes follow from the seed.
///
/// # Safety
/// The addresses are valid for the C library's function (rule 3).
// SAFETY: rule 1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrandom(bytes: *mut c_void, length: usize, flags: c_uint) -> ssize_t {
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    let drawn = within(|scheduler, _| {
        for at in 0..length {
            // SAFETY: rule 3: `bytes` points to `length` bytes that the caller may write.
            unsafe { bytes.cast::<u8>().add(at).write(scheduler.random()) };
        }
    });
    if drawn.is_some() {
        return length as ssize_t;
    }
    type Function = unsafe extern "C" fn(*mut c_void, usize, c_uint) -> ssize_t;
    // SAFETY: rule 2.
    let next = unsafe { transmute::<*mut c_void, Function>(next(&NEXT, c"getrandom")) };
    // SAFETY: rule 3.
    unsafe { next(bytes, length, flags) }
}
