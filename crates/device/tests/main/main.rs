//! Tests of the device layer through its public interface. The tests are one program, because each
//! program is linked by itself.
//!
//! Miri runs the modules that reduce their work for it. The other modules would take hours under
//! Miri, or need files, which Miri hardly supports.

mod conformance;
mod delayed;
mod nvram;
mod nvram_sim;
mod sim;
mod stripes;

#[cfg(not(miri))]
mod files;
#[cfg(not(miri))]
mod gate;
#[cfg(not(miri))]
mod gate_close;
#[cfg(not(miri))]
mod nvram_directory;
#[cfg(not(miri))]
mod nvram_file;
#[cfg(not(miri))]
mod overlay;
#[cfg(not(miri))]
mod probe;
#[cfg(not(miri))]
mod stripes_headers;
mod stripes_openings;
#[cfg(not(miri))]
mod watch;
