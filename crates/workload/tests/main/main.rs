//! Small runs of the workloads on Katydid. The tests are one program, because each further program
//! is linked separately.

mod sysbench;
mod tatp;
mod tpcb;
mod tpcc;
