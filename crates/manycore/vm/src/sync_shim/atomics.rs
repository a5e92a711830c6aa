//! Atomics of the simulated machine, with the size and alignment of those of `std`.

use super::Ordering;
use crate::vm;
use std::ptr;
use std::sync::atomic;

fn address<T>(of: &T) -> usize {
    ptr::from_ref(of) as usize
}

macro_rules! atomic {
    ($name:ident, $of:ident, $value:ty) => {
        /// The simulated form of the atomic of this name in `std`. Each access costs simulated
        /// time.
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(atomic::$of);

        impl $name {
            /// Makes an atomic with this value.
            pub const fn new(value: $value) -> Self {
                $name(atomic::$of::new(value))
            }

            /// Loads, as in std.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                vm::load(address(self));
                self.0.load(order)
            }

            /// Stores, as in std.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                vm::store(address(self), order == Ordering::SeqCst);
                self.0.store(value, order);
            }

            /// Swaps, as in std.
            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                vm::modify(address(self));
                self.0.swap(value, order)
            }

            /// Compares and exchanges, as in std.
            #[inline]
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                vm::turn();
                let outcome = self.0.compare_exchange(current, new, success, failure);
                vm::modified(address(self), outcome.is_ok());
                outcome
            }

            /// Compares and exchanges, as in std. Never fails spuriously.
            #[inline]
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }
        }
    };
}

macro_rules! modifying {
    ($name:ident, $value:ty, $($operation:ident)+) => {
                impl $name {
            $(
                /// Reads, modifies and writes, as in std.
                #[inline]
                pub fn $operation(&self, value: $value, order: Ordering) -> $value {
                    vm::modify(address(self));
                    self.0.$operation(value, order)
                }
            )+
        }
    };
}

atomic!(AtomicBool, AtomicBool, bool);
atomic!(AtomicU32, AtomicU32, u32);
atomic!(AtomicU64, AtomicU64, u64);
atomic!(AtomicUsize, AtomicUsize, usize);
modifying!(AtomicBool, bool, fetch_and fetch_or fetch_xor);
modifying!(AtomicU32, u32, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
modifying!(AtomicU64, u64, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);
modifying!(AtomicUsize, usize, fetch_add fetch_sub fetch_and fetch_or fetch_xor fetch_max fetch_min);

impl AtomicU32 {
    /// Loads the value at no cost. The simulated operating system looks at the value in this way
    /// before it lets a thread sleep on the word. No other thread runs between the look and the
    /// sleep.
    pub(super) fn peek(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}
