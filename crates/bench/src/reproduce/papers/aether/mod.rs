//! Aether's figures.

mod judge;

use crate::reproduce::experiment::{Experiment, Paper, SkippedFigure, Threads};

const REAL: Experiment = Experiment { seconds: 60.0, quick_seconds: 20.0, ..Experiment::real(Paper::Aether) };

const VIRTUAL: Experiment =
    Experiment { seconds: 30.0, quick_seconds: 4.0, ..Experiment::simulated(Paper::Aether) };

pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        figure: "3",
        title: "What early lock release gains over skew and device latency",
        ran: "TPC-B in Shore-MT with 60 clients, log devices of 0 to 10 ms, zipfian skews of 0 to 5; speed-up of early lock release",
        here: "TPC-B in the paged engine with 128 clients that block, delays of 0, 100 us, 1 ms and 10 ms added to each durable write, four skews",
        headline: "no gain without contention; up to 35 times at 10 ms with a skew around 1; about 2 times at 100 us",
        command: "lab commit --figure aether3 --dir {dir} --csv {csv} --svg {svg}",
        quick_seconds: 35.0,
        seconds: 75.0,
        judge: judge::three,
        ..REAL
    },
    Experiment {
        figure: "4",
        title: "Context switches and processor use, without and with flush pipelining",
        ran: "TPC-B over client threads; context switches a second, and total and system processor use",
        here: "TPC-B over 1 to 64 clients, blocking in each commit or with 100 commits in flight",
        headline: "without pipelining switches grow with the clients and processors idle; with it they stay nearly constant and low",
        command: "lab commit --figure aether4 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 40.0,
        quick_seconds: 14.0,
        judge: judge::four,
        ..REAL
    },
    Experiment {
        figure: "5",
        title: "Flush pipelining beside asynchronous commit",
        ran: "TPC-B over client threads: baseline, asynchronous commit, flush pipelining",
        here: "TPC-B over 1 to 64 clients: one sync a commit, ours blocking, 100 in flight, and the unsafe commits `written` and `buffered`",
        headline: "flush pipelining matches asynchronous commit, up to 22 % above the baseline",
        command: "lab commit --figure aether5 --dir {dir} --csv {csv} --svg {svg}",
        seconds: 45.0,
        quick_seconds: 14.0,
        judge: judge::five,
        ..REAL
    },
    Experiment {
        figure: "7",
        title: "The share of time lost to one log as threads grow",
        ran: "TATP UpdateLocation in Shore-MT with early release and flush pipelining; a breakdown of time over load",
        here: "transactions of 1 us and one record of 120 bytes on 64 simulated contexts, with the log's real code; what one log behind a lock loses \
               against none",
        headline: "the log buffer takes more than 35 % of the time at full load",
        threads: Threads::Virtual,
        command: "lab manycore txn --machine aether --record 120 --csv {csv} --svg {svg}/txn.svg",
        full: "--millis 20",
        quick: "",
        seconds: 10.0,
        quick_seconds: 2.0,
        judge: judge::seven,
        ..REAL
    },
    Experiment {
        figure: "8-left",
        title: "Designs of the log buffer over threads",
        ran: "threads that insert records of 120 bytes into the log buffer, 1 to 64 hardware contexts",
        here: "the same on a simulated machine of 64 contexts, with the inserters' real code",
        headline: "the baseline saturates at about 140 MB/s; the hybrid scales nearly linearly",
        command: "lab manycore run --machine aether --sweep threads --csv {csv} --svg {svg}",
        judge: judge::eight_left,
        ..VIRTUAL
    },
    Experiment {
        figure: "8-right",
        title: "Designs of the log buffer over sizes of records",
        ran: "64 threads, records of 48 bytes to 12 kB; once more into storage that stays in the cache",
        here: "the same on a simulated machine of 64 contexts",
        headline: "the hybrid is best at every size; 21 GB/s with storage in the cache",
        command: "lab manycore run --machine aether --sweep size,size-cached --csv {csv} --svg {svg}",
        seconds: 60.0,
        quick_seconds: 6.0,
        judge: judge::eight_right,
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
        command: "lab commit --figure aether9 --keys 20000 --dir {dir} --csv {csv} --svg {svg}",
        quick: "--rounds 1 --seconds 0.15 --threads 1,16",
        seconds: 50.0,
        quick_seconds: 8.0,
        judge: judge::nine,
        ..REAL
    },
    Experiment {
        figure: "9-cores",
        title: "What the scalable log buffer adds on many contexts",
        ran: "the last step of Figure 9: the hybrid log buffer in place of one lock, 64 hardware contexts",
        here: "one record of 120 bytes every 50 us from each of up to 64 simulated contexts, with the inserters' real code: at 64 about the 1.2 \
               million inserts a second that Shore-MT reached",
        headline: "7 % more at most clients, nothing where there is no contention",
        command: "lab manycore run --machine aether --sweep threads --work 50000 --record 120 --threads 1,8,16,32,64 --inserter mutex,hybrid,marks \
                  --csv {csv} --svg {svg}",
        full: "--millis 40 --rounds 3",
        quick: "--millis 10",
        seconds: 10.0,
        quick_seconds: 2.0,
        judge: judge::nine_on_cores,
        ..VIRTUAL
    },
    Experiment {
        figure: "11",
        title: "One large record among small ones",
        ran: "one record of 64 bytes to 64 kB and more after every 60 of 48 bytes: in-order release (CD) against delegated release (CDME)",
        here: "the same on a simulated machine of 64 contexts, outliers up to 256 KiB",
        headline: "delegated release stays flat where in-order release falls behind",
        command: "lab manycore run --machine aether --sweep outlier --csv {csv} --svg {svg}",
        seconds: 50.0,
        quick_seconds: 5.0,
        judge: judge::eleven,
        ..VIRTUAL
    },
    Experiment {
        figure: "12",
        title: "How many slots the consolidation array needs",
        ran: "throughput over the number of slots and threads",
        here: "1 to 10 slots at 4, 16 and 64 threads on a simulated machine of 64 contexts",
        headline: "three or four slots are enough; more gain little",
        command: "lab manycore run --machine aether --sweep slots --csv {csv} --svg {svg}",
        seconds: 40.0,
        quick_seconds: 5.0,
        judge: judge::twelve,
        ..VIRTUAL
    },
];

pub const NOT_RUN: &[SkippedFigure] = &[
    SkippedFigure {
        paper: Paper::Aether,
        figures: "Figures 1, 6, 10",
        why: "drawings of timelines, designs and states: nothing is measured",
    },
    SkippedFigure {
        paper: Paper::Aether,
        figures: "Figure 2",
        why: "a profile of Shore-MT with 60 clients as parts of it are taken away; Figures 3, 4, 5 and 7 show what each part costs here",
    },
    SkippedFigure {
        paper: Paper::Aether,
        figures: "Figure 13",
        why: "dependences between eight logs in a trace of Shore-MT; what they cost the memory engine's streams is Cicada's Figure 4",
    },
];
