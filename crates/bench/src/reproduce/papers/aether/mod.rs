//! Aether's figures.

mod buffer;
mod distributed;
mod ours;
mod store;

use crate::reproduce::experiment::{Experiment, Paper, SkippedFigure, Threads};

const REAL: Experiment =
    Experiment { seconds: 100.0, quick_seconds: 30.0, ..Experiment::real(Paper::Aether) };

const VIRTUAL: Experiment =
    Experiment { seconds: 50.0, quick_seconds: 10.0, ..Experiment::simulated(Paper::Aether) };

const SIMULATED: &str = "simulated contexts instead of real ones; only the cost of an insert was fitted";

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "2",
        title: "Where processor time goes as log bottlenecks are removed",
        ran: "TPC-B in Shore-MT with 60 clients on 64 contexts: processor time of transactions and of the log, useful and contended, and idle; then with early \
              release, and with flush pipelining on top",
        here: "TPC-B with 10 branches and a skew of 0.85 in the paged engine, 1, 8 and 60 clients, the systems of Figure 9: shares of the processors in programs, in the kernel \
               and idle, and the share of the clients' time in which they wait for the log",
        headline: "the baseline is idle 75 % of the time, with early release 20 %; with flush pipelining the hardware is used fully",
        differs: "2 processors instead of 64 contexts, so that the log buffer is hardly contended; stacked bars of all processor time, with the waits for the log in a chart of their own; useful time is not distinguished from spinning",
        command: "lab commit --figure aether2 --branches 10 --dir {dir} --csv {csv} --svg {svg}",
        quick_seconds: 20.0,
        criteria: store::TWO,
        ours: ours::two,
        ..REAL
    },
    Experiment {
        figure: "3",
        title: "What early lock release gains over skew and device latency",
        ran: "TPC-B in Shore-MT with 60 clients, log devices of 0 to 10 ms, zipfian skews of 0 to 5; speed-up of early lock release",
        here: "TPC-B in the paged engine with 128 clients that block, delays of 0, 100 us, 1 ms and 10 ms added to each durable write, skews of 0 to 5",
        headline: "no gain without contention; up to 35 times at 10 ms with a skew around 1; 2 times at 100 us; less with very high skew",
        differs: "2 processors instead of 64 contexts; 1,000 branches instead of ten with 100 tellers, so that there is a case without contention",
        command: "lab commit --figure aether3 --skew 0,0.85,1.25,2,5 --dir {dir} --csv {csv} --svg {svg}",
        quick_seconds: 60.0,
        seconds: 160.0,
        criteria: store::THREE,
        ours: ours::three,
        ..REAL
    },
    Experiment {
        figure: "4",
        title: "Context switches and processor use, without and with flush pipelining",
        ran: "TPC-B over client threads; context switches a second, and total and system processor use",
        here: "TPC-B over 1 to 64 clients, blocking in each commit or with 100 commits in flight",
        headline: "without pipelining switches grow with the clients and 12 of 64 processors idle; with it switches and system time stay nearly constant and \
                   all processors are used",
        differs: "2 processors instead of 64 contexts, which 64 clients use up in either way; the baseline is group commit by a flusher, as in the paper",
        command: "lab commit --figure aether4 --dir {dir} --csv {csv} --svg {svg}",
        criteria: store::FOUR,
        ours: ours::four,
        ..REAL
    },
    Experiment {
        figure: "5",
        title: "Flush pipelining beside asynchronous commit",
        ran: "TPC-B over client threads: baseline, asynchronous commit, flush pipelining",
        here: "TPC-B over 1 to 64 clients: group commit by a flusher with clients that block, the same with 100 in flight, and the unsafe commit `written`",
        headline: "flush pipelining matches asynchronous commit, up to 22 % above the baseline",
        differs: "2 processors instead of 64 contexts; a client here has 100 transactions in flight, so that few clients gain too",
        command: "lab commit --figure aether5 --dir {dir} --csv {csv} --svg {svg}",
        criteria: store::FIVE,
        ours: ours::five,
        ..REAL
    },
    Experiment {
        figure: "7",
        title: "The share of time lost to one log as threads grow",
        ran: "TATP UpdateLocation in Shore-MT with early release and flush pipelining; a breakdown of time over load",
        here: "transactions of 50 us, as in Figure 9, and one record of 120 bytes on 64 simulated contexts, with the log's real code; what one log behind a \
               lock loses against a log for each thread, timestamps from one counter in both",
        headline: "the log buffer takes more than 35 % of the time at full load, more than with less load",
        differs: "a loss of throughput instead of a profile; all else in a transaction is arithmetic",
        threads: Threads::Virtual,
        command: "lab manycore txn --machine aether --record 120 --work 50000 --csv {csv} --svg {svg}/txn.svg",
        full: "--millis 20 --rounds 5",
        quick: "--millis 4 --rounds 5",
        seconds: 20.0,
        quick_seconds: 4.0,
        criteria: buffer::SEVEN,
        ours: ours::seven,
        ..REAL
    },
    Experiment {
        figure: "8-left",
        title: "Designs of the log buffer over threads",
        ran: "threads that insert records of 120 bytes into the log buffer, 1 to 64 hardware contexts",
        here: "the same on a simulated machine of 64 contexts, with the inserters' real code",
        headline: "the baseline saturates at about 140 MB/s and falls slowly; consolidation starts lower and scales; decoupling starts better and ends worse; the \
                   hybrid scales nearly linearly",
        differs: SIMULATED,
        command: "lab manycore run --machine aether --sweep threads --csv {csv} --svg {svg}",
        criteria: buffer::EIGHT_LEFT,
        ours: ours::eight_left,
        ..VIRTUAL
    },
    Experiment {
        figure: "8-right",
        title: "Designs of the log buffer over sizes of records",
        ran: "64 threads, records of 48 bytes to 12 kB; once more into storage that stays in the cache",
        here: "the same on a simulated machine of 64 contexts",
        headline: "consolidation is ahead of decoupling up to 1 KiB and behind beyond; the hybrid is ahead of both over the whole range; 21 GB/s with storage in \
                   the cache",
        differs: "simulated contexts; caches have no size there, so that storage in the cache is a ring of 64 KiB",
        command: "lab manycore run --machine aether --sweep size,size-cached --csv {csv} --svg {svg}",
        seconds: 60.0,
        quick_seconds: 6.0,
        criteria: buffer::EIGHT_RIGHT,
        ours: ours::eight_right,
        ..VIRTUAL
    },
    Experiment {
        figure: "9",
        title: "What each part of Aether adds",
        ran: "TATP UpdateLocation in Shore-MT over client threads: the baseline, then flush pipelining and the scalable log buffer on top",
        here: "updates of single keys over 1 to 64 clients in the paged engine: a flusher that groups, one mutex around the log buffer and clients \
               that block; then early release, 100 commits in flight and the hybrid log buffer, one by one. What the buffer adds on 64 \
               contexts is 9-cores; where threads outnumber processors the hybrid waits for those that are preempted",
        headline: "flush pipelining is the largest step, 68 %; the log buffer adds 7 %",
        differs: "2 processors instead of 64 contexts: threads of the hybrid wait for others that are preempted; an update of a key instead of TATP in Shore-MT",
        command: "lab commit --figure aether9 --keys 20000 --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 5 --seconds 0.05 --threads 1,64",
        quick_seconds: 20.0,
        criteria: store::NINE,
        ours: ours::nine,
        ..REAL
    },
    Experiment {
        figure: "9-cores",
        title: "What the scalable log buffer adds on many contexts",
        ran: "the last step of Figure 9: the hybrid log buffer in place of one lock, 64 hardware contexts",
        here: "one record of 120 bytes every 50 us from each of up to 64 simulated contexts, with the inserters' real code: at 64 about the 1.2 \
               million inserts a second that Shore-MT reached",
        headline: "7 % more at most clients, and a bottleneck that grows",
        differs: SIMULATED,
        command: "lab manycore run --machine aether --sweep threads --work 50000 --record 120 --threads 1,8,16,32,64 --inserter mutex,hybrid,marks \
                  --csv {csv} --svg {svg}",
        full: "--millis 40 --rounds 5",
        quick: "--millis 4 --rounds 5",
        seconds: 20.0,
        quick_seconds: 4.0,
        criteria: buffer::NINE_CORES,
        ours: ours::nine_on_cores,
        ..VIRTUAL
    },
    Experiment {
        figure: "11",
        title: "One large record among small ones",
        ran: "one record of 64 bytes to 64 kB and more after every 60 of 48 bytes: in-order release (CD) against delegated release (CDME)",
        here: "the same on a simulated machine of 64 contexts, outliers up to 256 KiB",
        headline: "alike up to 8 KiB, where release in order stops scaling; delegated release up to double beyond 64 KiB, and 10 % lower normally",
        differs: SIMULATED,
        command: "lab manycore run --machine aether --sweep outlier --csv {csv} --svg {svg}",
        criteria: buffer::ELEVEN,
        ours: ours::eleven,
        ..VIRTUAL
    },
    Experiment {
        figure: "12",
        title: "How many slots the consolidation array needs",
        ran: "throughput over the number of slots and threads",
        here: "1 to 10 slots at 4, 16 and 64 threads on a simulated machine of 64 contexts",
        headline: "three or four slots are best, fewer for fewer threads",
        differs: SIMULATED,
        command: "lab manycore run --machine aether --sweep slots --csv {csv} --svg {svg}",
        criteria: buffer::TWELVE,
        ours: ours::twelve,
        ..VIRTUAL
    },
    Experiment {
        figure: "13",
        title: "Dependences between the parts of a distributed log",
        ran: "a log of TPC-C, 100 kB of it, dealt among eight logs: a drawing of the records and their dependences, no numbers",
        here: "the logs of our TPC-C, standard mix, and TPC-B, dealt among eight logs by transaction and by page; counted instead of drawn",
        headline: "dependences are widespread and frequent, and many are tight; most transactions would have to flush several logs at commit; no assignment of records \
                   to logs reduces that",
        differs: "our pages of 8 KiB and our change records instead of Shore-MT's; 8 warehouses, 100 branches; the paper names neither threads nor warehouses",
        command: "lab dependences --logs 8 --threads 8 --csv {csv} --svg {svg}",
        full: "--rounds 5 --seconds 0.3",
        quick: "--rounds 5 --seconds 0.05",
        seconds: 25.0,
        quick_seconds: 12.0,
        criteria: distributed::THIRTEEN,
        ours: ours::thirteen,
        ..REAL
    },
];

pub const NOT_RUN: &[SkippedFigure] = &[SkippedFigure {
    paper: Paper::Aether,
    figures: "Figures 1, 6, 10",
    why: "drawings of timelines, designs and states: nothing is measured",
}];
