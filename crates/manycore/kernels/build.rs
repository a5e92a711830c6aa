//! Selects the simulated machine's atomics, threads, copies and checksums in the sources of
//! `katydid-kernels`.

fn main() {
    println!("cargo::rustc-cfg=katydid_simulated");
    println!("cargo::rerun-if-changed=build.rs");
}
