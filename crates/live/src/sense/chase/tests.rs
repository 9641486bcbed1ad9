use super::*;
use crate::host::hardware::ThisHardware;
use crate::host::sched;
use maracas_core::CoreId;

#[test]
fn it_is_believed_only_beyond_its_own_drift() {
    let rounds = |alone: [u64; ROUNDS], loaded: [u64; ROUNDS]| {
        judge(std::array::from_fn(|i| (alone[i], loaded[i])))
    };
    let steady = [100, 101, 99, 100, 102, 98, 100, 101, 300];
    assert!(rounds(steady, steady.map(|ns| ns * 2)).unwrap().contains("100 ns alone and 200 ns"));
    assert!(rounds(steady, steady.map(|ns| ns + 8)).is_err(), "less than a tenth");
    let wild = [100, 150, 90, 160, 100, 155, 99, 145, 100];
    assert!(rounds(wild, wild.map(|ns| ns + 30)).is_err(), "it drifts by more");
    assert!(rounds(steady, steady.map(|ns| ns - 50)).is_err());
}

#[test]
fn one_core_cannot_show_it() {
    let why = usable(&ThisHardware, &[(CoreId(0), HardwareCore(0))]).unwrap_err();
    assert!(why.starts_with("no second managed core"), "{why}");
}

#[test]
fn this_host_says_whether_it_can_be_used() {
    let cores = sched::affinity_of(0).unwrap();
    let [first, second, ..] = cores[..] else { return crate::host::tests::skip("two cores") };
    let begun = time::Instant::now();
    let said = usable(&ThisHardware, &[(CoreId(0), first), (CoreId(1), second)]);
    eprintln!("{said:?} after {:?}", begun.elapsed());
    let (Ok(text) | Err(text)) = said;
    assert!(text.contains("ns alone") || text.contains("cannot be run"), "{text}");
}

/// Counts a thousand at every reading.
struct Thousands(u64);

impl Counter for Thousands {
    fn read(&mut self) -> io::Result<Count> {
        self.0 += 1000;
        Ok(Count { value: self.0, wanted_ns: self.0, counted_ns: self.0 })
    }
    fn arm(&mut self, _rest: u64) -> io::Result<()> {
        Ok(())
    }
    fn disarm(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn fd(&self) -> Option<std::os::fd::RawFd> {
        None
    }
}

#[test]
fn a_sample_is_a_walk_and_then_a_rest() {
    let mut sensor = match open(2, vec![Box::new(Thousands(0)), Box::new(Thousands(500))]) {
        Ok(sensor) => sensor,
        Err(error) => return crate::host::tests::refused(&error, "64 MiB of memory"),
    };
    let at = |us| Instant::ZERO + Duration::from_micros(us);
    let mut read = |us| {
        let mut reading = Reading::default();
        sensor.read(at(us), &mut reading).unwrap();
        reading
    };
    let (first, soon, later) = (read(100), read(150), read(600));
    assert_eq!((first.requests, soon.requests, later.requests), (200, 200, 400));
    assert_eq!(first.occupancy, soon.occupancy, "it rests");
    // 200 lines in less than a microsecond would be no memory at all.
    assert!(first.occupancy > 1000 && later.occupancy > first.occupancy + 1000);
    assert_eq!(later.by_core, [3000, 3500]);
}
