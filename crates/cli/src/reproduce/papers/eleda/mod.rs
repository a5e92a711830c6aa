//! ELEDA's figures.

mod judge;

use super::{real, simulated};
use crate::reproduce::experiment::{Experiment, Left, Paper};

const REAL: Experiment = Experiment { seconds: 45.0, quick_seconds: 15.0, ..real(Paper::Eleda) };

const VIRTUAL: Experiment = Experiment { seconds: 20.0, quick_seconds: 3.0, ..simulated(Paper::Eleda) };

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "14",
        title: "Throughput and bandwidth over the size of what is committed",
        ran: "key-value inserts of 512 bytes to 5 KiB by 32 threads in WiredTiger: vanilla on an SSD and in memory, and with ELEDA",
        here: "inserts of the same sizes by 32 clients that block and by 4 with 100 in flight, and records in the log alone",
        headline: "throughput falls as bytes grow while bandwidth rises to 6.2 GiB/s of two SSDs; one sync a commit stays low at every size",
        command: "bench commit --figure eleda14 --dir {dir} --csv {csv} --svg {svg}",
        judge: judge::fourteen,
        ..REAL
    },
    Experiment {
        figure: "15",
        title: "A disk log with callbacks beside a log in NVRAM",
        ran: "key-value and OLTP work in WiredTiger: ELEDA on SSDs, and the log of Fang et al. in shared memory treated as NVRAM",
        here: "updates of single keys and NewOrders and Payments of TPC-C: our disk log, clients that block and that are called back, beside \
               three logs in emulated NVRAM",
        headline: "comparable, sometimes better, without the hardware",
        command: "bench nvram --figure eleda15 --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 1 --seconds 0.15 --threads 2,8",
        seconds: 60.0,
        quick_seconds: 12.0,
        judge: judge::fifteen,
        ..REAL
    },
    Experiment {
        figure: "16",
        title: "Transactions of three records on the log alone",
        ran: "up to 36 threads, each transaction three records of 128 bytes to 4 KiB, commits told by callback",
        here: "2 and 16 threads, the same records, into a log in memory and in a file",
        headline: "1.34 million transactions a second with 128 bytes; the full bandwidth of two SSDs with 4 KiB",
        command: "bench log-insert --sweep txn --dir {dir} --csv {csv} --svg {svg}",
        seconds: 60.0,
        quick_seconds: 20.0,
        judge: judge::sixteen,
        ..REAL
    },
    Experiment {
        figure: "18",
        title: "The I/O unit: bandwidth against latency",
        ran: "units of 64 KiB and 512 KiB: distribution of commit latency, and bandwidth",
        here: "records of 120 bytes and 4 KiB in the log alone, 32 clients that block and 2 with 1,000 in flight; the two units, and none",
        headline: "64 KiB is ten times sooner, 512 KiB moves twice the bytes: users must choose",
        command: "bench commit --figure eleda18 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 50.0,
        quick_seconds: 6.0,
        judge: judge::eighteen,
        ..REAL
    },
    Experiment {
        figure: "20",
        title: "Crawling and hopping",
        ran: "the share of bytes by which GRASSHOPPER crawls and hops, over threads and hopping distances",
        here: "the same on a simulated machine of two sockets of 18 cores, distances of 16 KiB and 4 MiB",
        headline: "few threads crawl; many hop; a shorter distance hops more",
        command: "manycore run --machine eleda --sweep crawl --threads 1,2,4,8,16,32 --csv {csv} --svg {svg}",
        judge: judge::twenty,
        ..VIRTUAL
    },
    Experiment {
        figure: "21",
        title: "GRASSHOPPER beside a bit for each byte",
        ran: "key-value work with GRASSHOPPER and with linear scanning of what is filled",
        here: "inserts by up to 36 threads on a simulated machine of two sockets of 18 cores, records of 120 bytes to 4 KiB",
        headline: "scanning falls behind as threads and bytes grow",
        command: "manycore run --machine eleda --sweep bitmap --threads 1,2,4,8,16,36 --csv {csv} --svg {svg}",
        judge: judge::twenty_one,
        ..VIRTUAL
    },
];

pub const LEFT: &[Left] = &[
    Left {
        paper: Paper::Eleda,
        figures: "Figures 1 to 7, Tables 1 to 3",
        why: "designs, data structures, durability options and a machine: nothing is measured",
    },
    Left {
        paper: Paper::Eleda,
        figures: "Figures 8 to 13",
        why: "WiredTiger and Shore-MT before and after; the same work in stores as their users run them is in `compare/`",
    },
    Left {
        paper: Paper::Eleda,
        figures: "Figure 17",
        why: "a profile of WiredTiger's processor time; ours is in the columns `cpu_us_per_commit` and `system_us_per_commit` of the rows",
    },
];
