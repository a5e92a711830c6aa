//! ELEDA's figures.

mod cores;
mod log;
mod ours;
mod systems;

use crate::reproduce::experiment::{Experiment, Paper, SkippedFigure};

const REAL: Experiment = Experiment { seconds: 90.0, quick_seconds: 25.0, ..Experiment::real(Paper::Eleda) };

/// Flags of a quick run of the figures that compare systems: the numbers of threads that the
/// criteria need.
const QUICK: &str = "--rounds 5 --seconds 0.05 --threads 1,2,8,32";

const TWO_PROCESSORS: &str = "2 processors instead of 36 cores, so that nothing scales beyond 2 threads and no lock collapses; two folders on one disk instead of two NVMe SSDs; the \
                              paged engine instead of WiredTiger, one system with ELEDA's parts and without";

const SIMULATED: &str =
    "simulated cores; inserts alone, without an engine and without WiredTiger's system calls within its lock";

const VIRTUAL: Experiment =
    Experiment { seconds: 40.0, quick_seconds: 10.0, ..Experiment::simulated(Paper::Eleda) };

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "8-9",
        title: "Key-value work: throughput over threads, and latency of commits",
        ran: "YCSB A with 1 KiB in WiredTiger and Shore-MT: vanilla on SSDs, vanilla in memory, and with ELEDA, up to 36 threads; the distribution \
              of commit latency with 32",
        here: "the same work in the paged engine: consolidated and grouped with clients that block, on this disk and in memory; grasshopper and \
               pipelined with 100 in flight; ours. What two processors cannot show is 8-cores",
        headline: "71 times (WiredTiger) and 6.3 times (Shore-MT) at 32 threads, 10 times at one; commits acknowledged in 1.3 ms instead of 0.58",
        command: "lab commit --figure eleda8 --keys 20000 --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        quick: QUICK,
        differs: TWO_PROCESSORS,
        criteria: systems::EIGHT,
        ours: ours::key_value,
        ..REAL
    },
    Experiment {
        figure: "8-cores",
        title: "Key-value work: the log buffer on 36 cores",
        ran: "what Figure 8 shows beyond the device: vanilla in memory collapses beyond 4 threads, ELEDA grows up to 32",
        here: "inserts of 1,120 bytes with 10 us of other work between two, which is what WiredTiger in memory took with 4 threads (740 thousand transactions a \
               second, half of them updates), on a simulated machine of two sockets of 18 cores, with the inserters' real code",
        headline: "vanilla in memory peaks at 740 thousand/s with 4 threads and falls to some 29 with 32; ELEDA reaches 3.9 million/s with 32",
        differs: SIMULATED,
        command: "lab manycore run --machine eleda --sweep threads --work 10000 --record 1120 --threads 1,2,4,8,16,32 \
                  --inserter consolidated,grasshopper,marks --ring 128MiB --csv {csv} --svg {svg}",
        quick: "--millis 2 --rounds 5",
        seconds: 20.0,
        quick_seconds: 3.0,
        criteria: cores::EIGHT,
        ours: ours::on_cores,
        ..VIRTUAL
    },
    Experiment {
        figure: "10-11",
        title: "OLTP work: throughput over threads, and latency of commits",
        ran: "a variant of sysbench's OLTP in WiredTiger and Shore-MT: vanilla on SSDs, vanilla in memory, and with ELEDA, up to 36 threads; the \
              distribution of commit latency with 32",
        here: "oltp_write_only in the paged engine, the systems of 8-9",
        headline: "32 times (WiredTiger) and 12 times (Shore-MT) at 32 threads; commits acknowledged in 3.7 ms instead of 1",
        command: "lab commit --figure eleda10 --keys 20000 --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        quick: QUICK,
        differs: TWO_PROCESSORS,
        criteria: systems::TEN,
        ours: ours::oltp,
        ..REAL
    },
    Experiment {
        figure: "12",
        title: "TPC-C over threads",
        ran: "NewOrders and Payments of TPC-C in WiredTiger, 32 warehouses, each thread in one of its own: vanilla on SSDs and in memory, and ELEDA",
        here: "the same transactions in the paged engine, the systems of 8-9; smaller companies. On two processors vanilla in memory has no \
               collapse: 8-cores has it",
        headline: "vanilla in memory grows up to 16 threads and collapses; ELEDA does not",
        command: "lab commit --figure eleda12 --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        differs: TWO_PROCESSORS,
        quick: "--rounds 5 --seconds 0.05 --threads 1,2,8,32 --warehouses 32 --items 500 --customers 30",
        seconds: 110.0,
        criteria: systems::TWELVE,
        ours: ours::twelve,
        ..REAL
    },
    Experiment {
        figure: "13",
        title: "Key-value and OLTP work in an engine of many versions",
        ran: "WiredTiger under snapshot isolation: YCSB A and sysbench's OLTP, vanilla on SSDs and in memory, and ELEDA",
        here: "the same in the memory engine, which keeps versions and is serializable, with one stream; ours in the paged engine beside it",
        headline: "vanilla waits for the device, in memory for its lock; ELEDA is ahead until taking snapshots limits it",
        differs: "2 processors instead of 36 cores; the memory engine, which is serializable, instead of WiredTiger under snapshot isolation",
        command: "lab commit --figure eleda13 --keys 20000 --threads 1,2,8,16,32 --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        quick: "--rounds 5 --seconds 0.05",
        seconds: 180.0,
        quick_seconds: 50.0,
        criteria: systems::THIRTEEN,
        ours: ours::thirteen,
        ..REAL
    },
    Experiment {
        figure: "14",
        title: "Throughput and bandwidth over the size of what is committed",
        ran: "key-value inserts of 512 bytes to 5 KiB by 32 threads in WiredTiger: vanilla on an SSD and in memory, and with ELEDA",
        here: "inserts of the same sizes by 32 clients, the systems of 8-9; ELEDA with a unit of 512 KiB, as in the paper",
        headline: "throughput falls as bytes grow while bandwidth rises to 6.2 of 6.9 GiB/s; the other two remain the same at every size",
        differs: TWO_PROCESSORS,
        command: "lab commit --figure eleda14 --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        criteria: systems::FOURTEEN,
        ours: ours::fourteen,
        ..REAL
    },
    Experiment {
        figure: "15",
        title: "A disk log with callbacks beside a log in NVRAM",
        ran: "key-value and OLTP work in WiredTiger: ELEDA on SSDs, and the log of Fang et al. in shared memory treated as NVRAM",
        here: "updates of single keys and NewOrders and Payments of TPC-C: the log on disk as ELEDA has it, with callbacks, beside the log of Fang et al. in \
               emulated NVRAM (nv_direct) without added latency; our log on disk and our kinds in NVRAM beside them",
        headline: "comparable, sometimes better, without the hardware",
        differs: "2 processors instead of 36 cores, so that the processor time of a write counts; TPC-C instead of sysbench's OLTP",
        command: "lab nvram --figure eleda15 --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        quick: "--rounds 5 --seconds 0.05 --delay 0 --threads 1,2,8,32 --log nv_direct",
        seconds: 150.0,
        criteria: log::FIFTEEN,
        ours: ours::fifteen,
        ..REAL
    },
    Experiment {
        figure: "16",
        title: "Transactions of three records on the log alone",
        ran: "up to 36 threads, each transaction three records of 128 bytes to 4 KiB, commits acknowledged by callback",
        here: "1, 2 and 16 threads, the same records, into a log in memory and in a file: grasshopper with a flusher and a unit of 512 KiB, as in the paper, and \
               other inserters with the same flusher",
        headline: "throughput increases with the threads to 1.34 million transactions a second with 128 bytes, is sustained up to 2 KiB and falls beyond; the full \
                   bandwidth of two SSDs with 4 KiB; more threads widen the latencies",
        differs: "2 processors, and two folders on one disk; one socket, so that one thread is not ahead of two as in the paper",
        command: "lab log-insert --sweep txn --sync pipelined --io-unit 512KiB --inserter grasshopper,hybrid,marks --threads 1,2,16 --ring 32MiB --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        seconds: 100.0,
        criteria: log::SIXTEEN,
        ours: ours::sixteen,
        ..REAL
    },
    Experiment {
        figure: "17",
        title: "Where processor time goes with the key-value work",
        ran: "a profile of WiredTiger with YCSB A: user, system, idle, spinning and sleeping time over threads, vanilla on tmpfs and on SSDs, and ELEDA",
        here: "the runs of 8-9: shares of the processors in programs, in the kernel and idle, and the share of the clients' time in which they wait for the log, mostly asleep",
        headline: "with 32 threads vanilla on SSDs sleeps for 88 % of the time, on tmpfs it spins for 20 %; ELEDA neither spins nor sleeps, and its kernel time is negligible",
        command: "lab commit --figure eleda8 --keys 20000 --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        quick: QUICK,
        differs: "2 processors instead of 36 cores; the paged engine instead of WiredTiger; spinning is not distinguished from useful time, so what the text says of tmpfs is not asked",
        criteria: systems::SEVENTEEN,
        ours: ours::seventeen,
        ..REAL
    },
    Experiment {
        figure: "18",
        title: "The I/O unit: bandwidth against latency",
        ran: "units of 64 KiB and 512 KiB: distribution of commit latency, and bandwidth",
        here: "records of 120 bytes and 4 KiB in the log alone, 32 clients that block and 2 with 1,000 in flight; the two units, and none",
        headline: "64 KiB is ten times sooner, 512 KiB moves twice the bytes: users must choose",
        command: "lab commit --figure eleda18 --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        differs: "two folders on one disk instead of two NVMe SSDs; a unit is also written when it has waited for 1 ms, for which the paper gives no time",
        quick: "--rounds 5 --seconds 0.1",
        criteria: log::EIGHTEEN,
        ours: ours::eighteen,
        ..REAL
    },
    Experiment {
        figure: "19",
        title: "What hiding the latency gains, and GRASSHOPPER on top of it",
        ran: "WiredTiger with the key-value and the OLTP work: vanilla, with latency hiding, and with GRASSHOPPER too",
        here: "YCSB A with 1 KiB and oltp_write_only in the paged engine: vanilla; 100 commits in flight; the same with grasshopper; ours. GRASSHOPPER's \
               part needs more than two processors: 8-cores has it",
        differs: TWO_PROCESSORS,
        headline: "with few threads hiding the latency gains nearly all, with more than about four GRASSHOPPER the rest",
        command: "lab commit --figure eleda19 --keys 20000 --dir {dir} --stripe {dir}/one,{dir}/two --csv {csv} --svg {svg}",
        quick: QUICK,
        seconds: 120.0,
        quick_seconds: 40.0,
        criteria: systems::NINETEEN,
        ours: ours::nineteen,
        ..REAL
    },
    Experiment {
        figure: "20",
        title: "Crawling and hopping",
        ran: "the share of bytes by which GRASSHOPPER crawls and hops, over threads and hopping distances",
        here: "the same on a simulated machine of two sockets of 18 cores, distances of 16 KiB and 4 MiB; threads may be 32 MiB ahead, the size of the paper's \
               log buffer",
        headline: "few threads crawl; more threads and smaller payloads hop",
        differs: "simulated cores that do nothing but insert, instead of WiredTiger with the key-value work",
        command: "lab manycore run --machine eleda --sweep crawl --threads 1,2,4,8,16,32 --ring 128MiB --csv {csv} --svg {svg}",
        criteria: cores::TWENTY,
        ours: ours::twenty,
        ..VIRTUAL
    },
    Experiment {
        figure: "21",
        title: "GRASSHOPPER beside a bit for each byte",
        ran: "key-value work with GRASSHOPPER and with linear scanning of what is filled",
        here: "inserts by up to 36 threads on a simulated machine of two sockets of 18 cores, records of 120 bytes to 4 KiB",
        headline: "scanning hits its maximum, 40 MiB/s, even with 2 threads",
        differs: "simulated cores that do nothing but insert; our scan looks at 64 bits at a time, which is faster than the paper's",
        command: "lab manycore run --machine eleda --sweep bitmap --threads 1,2,4,8,16,36 --ring 128MiB --csv {csv} --svg {svg}",
        criteria: cores::TWENTY_ONE,
        ours: ours::twenty_one,
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
];
