//! ELEDA's figures.

mod judge;
mod systems;

use crate::reproduce::experiment::{Experiment, Paper, SkippedFigure};

const REAL: Experiment = Experiment { seconds: 45.0, quick_seconds: 15.0, ..Experiment::real(Paper::Eleda) };

/// Of the figures that set systems beside each other: few threads and many.
const TWO_COUNTS: &str = "--rounds 1 --seconds 0.15 --threads 1,32";

const VIRTUAL: Experiment =
    Experiment { seconds: 20.0, quick_seconds: 3.0, ..Experiment::simulated(Paper::Eleda) };

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "8-9",
        title: "Key-value work: throughput over threads, and how soon commits are told",
        ran: "YCSB A with 1 KiB in WiredTiger and Shore-MT: vanilla on SSDs, vanilla in memory, and with ELEDA, up to 36 threads; the distribution \
              of commit latency with 32",
        here: "the same work in the paged engine: consolidated and grouped with clients that block, on this disk and in memory; grasshopper and \
               pipelined with 100 in flight; ours. What two processors cannot show is 8-cores",
        headline: "71 times (WiredTiger) and 6.3 times (Shore-MT) at 32 threads, 10 times at one; commits told in 1.3 ms instead of 0.58",
        command: "lab commit --figure eleda8 --keys 20000 --dir {dir} --csv {csv} --svg {svg}",
        quick: TWO_COUNTS,
        seconds: 35.0,
        quick_seconds: 8.0,
        judge: systems::key_value,
        ..REAL
    },
    Experiment {
        figure: "8-cores",
        title: "Key-value work: the log buffer on 36 cores",
        ran: "what Figure 8 shows beyond the device: vanilla in memory collapses beyond 4 threads, ELEDA grows up to 32",
        here: "inserts of 1,120 bytes with 2 us of other work between two, on a simulated machine of two sockets of 18 cores, with the inserters' \
               real code; WiredTiger had some 16 us, and system calls within its lock, which are not simulated. How far consolidated falls \
               hangs on who gets its latch again, that it falls does not",
        headline: "vanilla peaks at 4 threads and falls; ELEDA reaches 3.9 million/s with 32",
        command: "lab manycore run --machine eleda --sweep threads --work 2000 --record 1120 --threads 1,2,4,8,16,32 \
                  --inserter consolidated,grasshopper,marks --csv {csv} --svg {svg}",
        quick: "--millis 10",
        seconds: 4.0,
        quick_seconds: 1.0,
        judge: systems::key_value_on_cores,
        ..VIRTUAL
    },
    Experiment {
        figure: "10-11",
        title: "OLTP work: throughput over threads, and how soon commits are told",
        ran: "a variant of sysbench's OLTP in WiredTiger and Shore-MT: vanilla on SSDs, vanilla in memory, and with ELEDA, up to 36 threads; the \
              distribution of commit latency with 32",
        here: "oltp_write_only in the paged engine, the systems of 8-9",
        headline: "32 times (WiredTiger) and 12 times (Shore-MT) at 32 threads; commits told in 3.7 ms instead of 1",
        command: "lab commit --figure eleda10 --keys 20000 --dir {dir} --csv {csv} --svg {svg}",
        quick: TWO_COUNTS,
        seconds: 35.0,
        quick_seconds: 8.0,
        judge: systems::oltp,
        ..REAL
    },
    Experiment {
        figure: "12",
        title: "TPC-C over threads",
        ran: "NewOrders and Payments of TPC-C in WiredTiger, 32 warehouses, each thread in one of its own: vanilla on SSDs and in memory, and ELEDA",
        here: "the same transactions in the paged engine, the systems of 8-9; smaller companies. On two processors vanilla in memory has no \
               collapse: 8-cores has it",
        headline: "vanilla in memory grows up to 16 threads and collapses; ELEDA does not",
        command: "lab commit --figure eleda12 --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 1 --seconds 0.15 --threads 2,8 --warehouses 8 --items 500 --customers 30",
        seconds: 60.0,
        quick_seconds: 12.0,
        judge: systems::twelve,
        ..REAL
    },
    Experiment {
        figure: "13",
        title: "Key-value and OLTP work in an engine of many versions",
        ran: "WiredTiger under snapshot isolation: YCSB A and sysbench's OLTP, vanilla on SSDs and in memory, and ELEDA",
        here: "the same in the memory engine, which keeps versions and is serializable, with one stream; ours in the paged engine beside it",
        headline: "vanilla waits for the device, in memory for its lock; ELEDA is ahead until taking snapshots limits it",
        command: "lab commit --figure eleda13 --keys 20000 --dir {dir} --csv {csv} --svg {svg}",
        quick: TWO_COUNTS,
        seconds: 60.0,
        quick_seconds: 15.0,
        judge: systems::thirteen,
        ..REAL
    },
    Experiment {
        figure: "14",
        title: "Throughput and bandwidth over the size of what is committed",
        ran: "key-value inserts of 512 bytes to 5 KiB by 32 threads in WiredTiger: vanilla on an SSD and in memory, and with ELEDA",
        here: "inserts of the same sizes by 32 clients that block and by 4 with 100 in flight, and records in the log alone",
        headline: "throughput falls as bytes grow while bandwidth rises to 6.2 GiB/s of two SSDs; one sync a commit stays low at every size",
        command: "lab commit --figure eleda14 --dir {dir} --csv {csv} --svg {svg}",
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
        command: "lab nvram --figure eleda15 --dir {dir} --csv {csv} --svg {svg}",
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
        command: "lab log-insert --sweep txn --dir {dir} --csv {csv} --svg {svg}",
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
        command: "lab commit --figure eleda18 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 50.0,
        quick_seconds: 6.0,
        judge: judge::eighteen,
        ..REAL
    },
    Experiment {
        figure: "19",
        title: "What hiding the latency gains, and GRASSHOPPER on top of it",
        ran: "WiredTiger with the key-value and the OLTP work: vanilla, with latency hiding, and with GRASSHOPPER too",
        here: "YCSB A with 1 KiB and oltp_write_only in the paged engine: vanilla; 100 commits in flight; the same with grasshopper; ours. GRASSHOPPER's \
               part needs more than two processors: 8-cores has it",
        headline: "with few threads hiding the latency gains nearly all, with more than about four GRASSHOPPER the rest",
        command: "lab commit --figure eleda19 --keys 20000 --dir {dir} --csv {csv} --svg {svg}",
        quick: TWO_COUNTS,
        seconds: 50.0,
        quick_seconds: 12.0,
        judge: systems::nineteen,
        ..REAL
    },
    Experiment {
        figure: "20",
        title: "Crawling and hopping",
        ran: "the share of bytes by which GRASSHOPPER crawls and hops, over threads and hopping distances",
        here: "the same on a simulated machine of two sockets of 18 cores, distances of 16 KiB and 4 MiB",
        headline: "few threads crawl; many hop; a shorter distance hops more",
        command: "lab manycore run --machine eleda --sweep crawl --threads 1,2,4,8,16,32 --csv {csv} --svg {svg}",
        judge: judge::twenty,
        ..VIRTUAL
    },
    Experiment {
        figure: "21",
        title: "GRASSHOPPER beside a bit for each byte",
        ran: "key-value work with GRASSHOPPER and with linear scanning of what is filled",
        here: "inserts by up to 36 threads on a simulated machine of two sockets of 18 cores, records of 120 bytes to 4 KiB",
        headline: "scanning falls behind as threads and bytes grow",
        command: "lab manycore run --machine eleda --sweep bitmap --threads 1,2,4,8,16,36 --csv {csv} --svg {svg}",
        judge: judge::twenty_one,
        ..VIRTUAL
    },
];

pub const NOT_RUN: &[SkippedFigure] = &[
    SkippedFigure {
        paper: Paper::Eleda,
        figures: "Figures 1 to 7, Tables 1 to 3",
        why: "designs, data structures, durability options and a machine: nothing is measured",
    },
    SkippedFigure {
        paper: Paper::Eleda,
        figures: "Figures 8 to 11 in Shore-MT",
        why: "the same in a second store; there is one paged engine here, and 8-9 and 10-11 are of it",
    },
    SkippedFigure {
        paper: Paper::Eleda,
        figures: "Figure 17",
        why: "a profile of WiredTiger's processor time; ours is in the columns `cpu_us_per_commit` and `system_us_per_commit` of the rows",
    },
];
