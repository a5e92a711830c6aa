//! The overlay is a directory like any other, and the directory beneath never changes.

use katydid_device::testing::{conformance, seed};
use katydid_device::{
    Create, Directory, File, MemoryDirectory, Method, OverlayDirectory, SimDevice, WriteMode,
};
use std::io::IoSlice;
use std::sync::Arc;

#[test]
fn an_overlay_conforms() {
    conformance(|| Arc::new(OverlayDirectory::over(Arc::new(MemoryDirectory::new()))));
}

fn write(file: &dyn File, bytes: &[u8], offset: u64) {
    file.write_at(&[IoSlice::new(bytes)], offset, WriteMode::Durable).expect("write");
}

fn all(file: &dyn File) -> Vec<u8> {
    let mut bytes = vec![0xee; file.len().expect("length") as usize + 100];
    let count = file.read_at(&mut bytes, 0).expect("read");
    bytes.truncate(count);
    bytes
}

#[test]
fn bytes_beneath_are_shown_until_they_are_written_over_and_stay_as_they_are() {
    let mut rng = fastrand::Rng::with_seed(seed());
    for _ in 0..200 {
        let device = SimDevice::new(1);
        let beneath = device.directory();
        let file = beneath.open("a", Create::New, Method::Buffered).expect("create");
        let mut model: Vec<u8> = (0..rng.usize(..40_000)).map(|_| rng.u8(1..)).collect();
        write(&*file, &model, 0);
        beneath.sync().expect("sync");
        let (before, steps) = (device.image(), device.steps());
        let overlay = OverlayDirectory::over(beneath);
        let file = overlay.open("a", Create::Never, Method::Direct).expect("open");
        for step in 0..30 {
            let from = rng.usize(..45_000);
            let to = from + rng.usize(..12_000);
            match rng.u8(..4) {
                0 if from <= model.len() => {
                    file.truncate(from as u64).expect("truncate");
                    model.truncate(from);
                }
                1 => {
                    file.prepare(from as u64, to as u64).expect("prepare");
                    if from < to {
                        model.resize(model.len().max(to), 0);
                        model[from..to].fill(0);
                    }
                }
                _ => {
                    let bytes: Vec<u8> = (from..to).map(|_| rng.u8(1..)).collect();
                    write(&*file, &bytes, from as u64);
                    if from < to {
                        model.resize(model.len().max(to), 0);
                        model[from..to].copy_from_slice(&bytes);
                    }
                }
            }
            assert!(all(&*file) == model, "step {step}");
            let at = rng.usize(..50_000);
            let mut part = vec![0xee; rng.usize(..9000)];
            let count = file.read_at(&mut part, at as u64).expect("read");
            assert!(
                part[..count]
                    == model
                        [at.min(model.len())..(at + part.len()).min(model.len()).max(at.min(model.len()))]
            );
        }
        assert!(device.image() == before && device.steps() == steps, "something beneath was changed");
    }
}

#[test]
fn names_beneath_are_shown_until_they_are_taken_away_and_stay_as_they_are() {
    let beneath = MemoryDirectory::new();
    for name in ["a", "b", "c"] {
        write(&*beneath.open(name, Create::New, Method::Buffered).expect("create"), name.as_bytes(), 0);
    }
    let inner = beneath.subdirectory("inner").expect("make");
    write(&*inner.open("x", Create::New, Method::Buffered).expect("create"), b"x", 0);
    let overlay = OverlayDirectory::over(Arc::new(beneath.clone()));
    overlay.remove("a").expect("remove");
    overlay.rename("b", "c").expect("rename");
    overlay.open("d", Create::New, Method::Buffered).expect("create");
    assert_eq!(overlay.list().expect("list"), ["c", "d"]);
    assert_eq!(all(&*overlay.open_read_only("c").expect("open")), b"b");
    assert!(overlay.open("a", Create::Never, Method::Buffered).expect_err("removed").is_not_found());
    assert!(all(&*overlay.open("a", Create::New, Method::Buffered).expect("create")).is_empty());
    let folder = overlay.existing_subdirectory("inner").expect("look").expect("it is beneath");
    folder.remove("x").expect("remove");
    overlay.subdirectory("new").expect("make");
    assert_eq!(
        overlay.existing_subdirectory("inner").expect("look").expect("the same").list().expect("list"),
        [""; 0]
    );
    let kept = overlay.open("d", Create::Never, Method::Buffered).expect("open");
    overlay.seal();
    for file in [&kept, &folder.open("y", Create::New, Method::Buffered).expect("create")] {
        assert!(file.write_at(&[IoSlice::new(b"1")], 0, WriteMode::Written).is_err());
        assert!(file.prepare(0, 1).is_err());
    }
    let lock = overlay.lock().expect("lock");
    drop(beneath.lock().expect("what is beneath is not locked"));
    drop(lock);
    assert_eq!(beneath.list().expect("list"), ["a", "b", "c"]);
    assert_eq!(all(&*beneath.open_read_only("c").expect("open")), b"c");
    assert_eq!(inner.list().expect("list"), ["x"]);
    assert!(beneath.existing_subdirectory("new").expect("look").is_none());
}
