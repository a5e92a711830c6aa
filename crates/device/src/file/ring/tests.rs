use super::*;

fn piece(first: usize, count: usize, offset: u64, bytes: usize, outcome: Option<i32>) -> WritePiece {
    WritePiece { first, count, offset, bytes, outcome }
}

fn errno(errno: Errno) -> Option<i32> {
    Some(-errno.raw_os_error())
}

#[test]
#[cfg_attr(miri, ignore = "megabytes, one byte after the other")]
fn a_write_is_cut_into_pieces_without_losing_a_byte() {
    let bytes: Vec<u8> = (0..3 * PIECE_BYTES + 8192).map(|at| (at / 4096) as u8).collect();
    let lists: [Vec<IoSlice<'_>>; 4] = [
        vec![IoSlice::new(&bytes)],
        vec![IoSlice::new(&bytes[..4096]), IoSlice::new(&[]), IoSlice::new(&bytes[4096..])],
        bytes.chunks(4096).map(IoSlice::new).collect(),
        Vec::new(),
    ];
    for list in lists {
        let parts = cut(&list);
        let pieces = gather(&parts, 4096);
        let mut at = 4096;
        let mut found = Vec::new();
        for piece in &pieces {
            assert_eq!(piece.offset, at);
            assert!(piece.bytes <= PIECE_BYTES && piece.count <= PARTS_MAX);
            let own = &parts[piece.first..piece.first + piece.count];
            assert_eq!(own.iter().map(|part| part.len()).sum::<usize>(), piece.bytes);
            own.iter().for_each(|part| found.extend_from_slice(part));
            at += piece.bytes as u64;
        }
        assert_eq!(found, list.iter().flat_map(|part| part.to_vec()).collect::<Vec<_>>());
    }
    let small = [0; 8];
    let many = vec![IoSlice::new(&small); PARTS_MAX + 1];
    assert_eq!(gather(&cut(&many), 0).len(), 2);
}

#[test]
fn what_is_missing_is_written_and_what_failed_is_not_tried_again() {
    let parts = [IoSlice::new(b"abcd"), IoSlice::new(b"efgh"), IoSlice::new(b"ijkl")];
    let run = |outcomes: [Option<i32>; 2]| {
        let pieces = [piece(0, 2, 10, 8, outcomes[0]), piece(2, 1, 18, 4, outcomes[1])];
        let mut rests = Vec::new();
        let result = finish(&parts, &pieces, |left, at| {
            rests.push((left.iter().flat_map(|part| part.to_vec()).collect::<Vec<u8>>(), at));
            if at == 20 { Err("no") } else { Ok(()) }
        });
        (result, rests)
    };
    let (result, rests) = run([Some(8), Some(4)]);
    assert!(matches!(result, Ok(RingSupport::Yes)) && rests.is_empty());
    let (result, rests) = run([Some(5), None]);
    assert!(matches!(result, Ok(RingSupport::Yes)));
    assert_eq!(rests, [(b"fgh".to_vec(), 15), (b"ijkl".to_vec(), 18)]);
    let (result, rests) = run([errno(Errno::AGAIN), Some(4)]);
    assert!(matches!(result, Ok(RingSupport::Yes)));
    assert_eq!(rests, [(b"abcdefgh".to_vec(), 10)]);
    let (result, rests) = run([errno(Errno::OPNOTSUPP), None]);
    assert!(matches!(result, Ok(RingSupport::Refused)));
    assert_eq!(rests.len(), 2);
    let (result, rests) = run([Some(3), errno(Errno::IO)]);
    assert!(matches!(result, Err(Failed::Piece(Errno::IO))) && rests.is_empty(), "the failure comes first");
    let (result, rests) = run([Some(8), Some(2)]);
    assert!(matches!(result, Err(Failed::Rest("no"))));
    assert_eq!(rests, [(b"kl".to_vec(), 20)]);
}

#[test]
#[cfg_attr(miri, ignore = "needs files")]
fn without_rings_everything_is_left_to_the_caller() {
    let rings = Rings::made_by(|| Err(io::ErrorKind::PermissionDenied.into()));
    assert!(!rings.work());
    let null = std::fs::File::open("/dev/null").expect("open");
    let bytes = vec![7; PIECE_BYTES + 4096];
    let mut written = 0;
    let taken = rings.write(&null, &[IoSlice::new(&bytes)], 0, WriteMode::Durable, |left, at| {
        assert_eq!(at, written);
        written += left.iter().map(|part| part.len() as u64).sum::<u64>();
        Ok::<(), ()>(())
    });
    assert!(matches!(taken, Ok(RingSupport::Yes)));
    assert_eq!(written, bytes.len() as u64);
}

#[test]
fn a_verdict_tells_what_is_left_to_read() {
    let cases = [
        (None, Verdict::After(0)),
        (Some(0), Verdict::After(0)),
        (Some(511), Verdict::After(511)),
        (Some(512), Verdict::Whole),
        (errno(Errno::AGAIN), Verdict::After(0)),
        (errno(Errno::INTR), Verdict::After(0)),
        (errno(Errno::CANCELED), Verdict::After(0)),
        (errno(Errno::OPNOTSUPP), Verdict::Refused),
        (errno(Errno::INVAL), Verdict::Refused),
        (errno(Errno::IO), Verdict::Failed(Errno::IO)),
    ];
    for (outcome, verdict) in cases {
        assert_eq!(Verdict::on(outcome, 512), verdict, "{outcome:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "needs files")]
fn without_rings_every_read_is_left_to_the_caller() {
    let rings = Rings::made_by(|| Err(io::ErrorKind::PermissionDenied.into()));
    let zero = std::fs::File::open("/dev/zero").expect("open");
    let (mut one, mut other) = ([7; 4096], [7; 4096]);
    let verdicts = rings.read(&zero, &mut [(0, &mut one), (4096, &mut other)]);
    assert_eq!(verdicts, [Verdict::After(0); 2]);
    assert_eq!((one, other), ([7; 4096], [7; 4096]));
}

#[test]
#[cfg_attr(miri, ignore = "needs files")]
fn each_read_has_an_outcome_of_its_own() {
    let rings = Rings::new();
    if !rings.work() {
        println!("skipped: this kernel gives out no rings");
        return;
    }
    let write_only = std::fs::File::options().write(true).open("/dev/null").expect("open");
    let mut memory = vec![[7; 4096]; 3 * READ_DEPTH as usize + 1];
    let mut reads: Vec<(u64, &mut [u8])> = memory.iter_mut().map(|buffer| (0, &mut buffer[..])).collect();
    for _ in 0..3 {
        let verdicts = rings.read(&write_only, &mut reads);
        assert!(verdicts.iter().all(|verdict| *verdict == Verdict::Failed(Errno::BADF)), "{verdicts:?}");
        assert_eq!(verdicts.len(), reads.len());
    }
    assert_eq!(rings.idle.lock().expect("idle").len(), 1, "the ring is sound and kept");
}

#[test]
#[cfg_attr(miri, ignore = "needs files")]
fn a_file_that_cannot_be_written_is_an_error_of_the_first_piece() {
    let rings = Rings::new();
    if !rings.work() {
        println!("skipped: this kernel gives out no rings");
        return;
    }
    let read_only = std::fs::File::open("/dev/null").expect("open");
    let bytes = vec![7; 20 * PIECE_BYTES];
    for _ in 0..3 {
        let rest = |_: &[IoSlice<'_>], _| -> Result<(), ()> { panic!("not after a failure") };
        let failed = rings.write(&read_only, &[IoSlice::new(&bytes)], 0, WriteMode::Written, rest);
        assert!(matches!(failed, Err(Failed::Piece(Errno::BADF))), "{failed:?}");
    }
    assert_eq!(rings.idle.lock().expect("idle").len(), 1, "the ring is sound and kept");
}
