//! The workloads on Katydid itself, small. One program, because each further one is linked by
//! itself.

mod sysbench;
mod tatp;
mod tpcb;
mod tpcc;
