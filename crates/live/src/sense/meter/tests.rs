use super::*;
use crate::host::hardware::ThisHardware;
use std::collections::VecDeque;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex};

/// A counter that gives what it is set to and remembers what it is asked.
#[derive(Clone, Default)]
struct Scripted {
    counts: Arc<Mutex<VecDeque<Count>>>,
    asked: Arc<Mutex<Vec<String>>>,
    fd: Option<RawFd>,
}

impl Scripted {
    fn ask(&self, what: String) -> io::Result<()> {
        self.asked.lock().unwrap().push(what);
        Ok(())
    }
}

impl Counter for Scripted {
    fn read(&mut self) -> io::Result<Count> {
        let gone = io::Error::from(io::ErrorKind::UnexpectedEof);
        self.counts.lock().unwrap().pop_front().ok_or(gone)
    }
    fn arm(&mut self, rest: u64) -> io::Result<()> {
        self.ask(format!("arm {rest}"))
    }
    fn disarm(&mut self) -> io::Result<()> {
        self.ask("disarm".into())
    }
    fn fd(&self) -> Option<RawFd> {
        self.fd
    }
}

fn meter(counts: &[(u64, u64, u64)], fd: Option<RawFd>) -> (CoreMeter, Scripted) {
    let count = |&(value, wanted_ns, counted_ns)| Count { value, wanted_ns, counted_ns };
    let counts = Arc::new(Mutex::new(counts.iter().map(count).collect()));
    let counter = Scripted { counts, fd, ..Scripted::default() };
    (CoreMeter::new(Box::new(counter.clone())), counter)
}

#[test]
fn a_meter_adds_up_what_was_counted_and_what_was_missed() {
    let counts = [(100, 10, 10), (200, 30, 20), (200, 40, 20), (250, 50, 30)];
    let (mut meter, _) = meter(&counts, None);
    let mut read = || meter.read(Instant::ZERO);
    // The second stretch was counted half of its time; the third not at all.
    assert_eq!([read().unwrap(), read().unwrap(), read().unwrap()], [100, 300, 300]);
    assert_eq!(read().unwrap(), 350);
    assert_eq!(read().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

/// An alarm that lost its counter rings, and must not be taken for one that will.
#[test]
fn what_rang_is_set_again_at_the_same_limit() {
    let (mut meter, counter) = meter(&[(100, 1, 1); 3], Some(3));
    meter.arm(Some(10_000)).unwrap();
    meter.arm(Some(10_000)).unwrap();
    assert_eq!(*counter.asked.lock().unwrap(), ["arm 9900"]);
    meter.rang();
    meter.arm(Some(10_000)).unwrap();
    assert_eq!(*counter.asked.lock().unwrap(), ["arm 9900", "arm 9900"]);
}

/// Arms at each limit when so much was counted, and returns what the kernel was asked for.
fn asked(steps: &[(u64, Option<u64>)]) -> Vec<String> {
    let asked = |&(count, limit): &(u64, Option<u64>)| limit.map(|_| (count, 1, 1));
    let counts: Vec<_> = steps.iter().filter_map(asked).collect();
    let (mut meter, counter) = meter(&counts, Some(3));
    steps.iter().for_each(|(_, limit)| meter.arm(*limit).unwrap());
    counter.asked.lock().unwrap().clone()
}

#[test]
fn an_alarm_is_set_to_what_is_left() {
    assert_eq!(
        asked(&[(100, Some(10_000)), (100, Some(5000)), (8000, Some(5000))]),
        ["arm 9900", "arm 4900", "arm 500"]
    );
    let (mut silent, counter) = meter(&[], None);
    silent.arm(Some(1000)).unwrap();
    assert!(counter.asked.lock().unwrap().is_empty(), "one that cannot signal is left alone");
}

#[test]
fn an_alarm_that_comes_before_the_mark_stays() {
    // A budget of 10,000 each period, of which a tenth is used: the first alarm serves five times.
    let light: Vec<_> = (0..7).map(|i| (i * 1000, Some(i * 1000 + 10_000))).collect();
    assert_eq!(asked(&light), ["arm 10000", "arm 10000"]);
    // All of it is used: it rang, and rings no more by itself.
    let heavy: Vec<_> = (0..3).map(|i| (i * 10_000, Some(i * 10_000 + 10_000))).collect();
    assert_eq!(asked(&heavy), ["arm 10000"; 3]);
    // What would be left after it is too little to set another to.
    assert_eq!(asked(&[(0, Some(10_000)), (0, Some(10_600))]), ["arm 10000", "arm 10600"]);
    // It comes after the limit.
    assert_eq!(asked(&[(0, Some(10_000)), (0, Some(9000))]), ["arm 10000", "arm 9000"]);
}

#[test]
fn an_alarm_is_forgotten_before_it_is_taken_away() {
    let at = Some(10_000);
    assert_eq!(asked(&[(0, at), (0, None), (0, at), (0, None)]), ["arm 10000"]);
    let twice = asked(&[(0, at), (0, None), (0, None), (0, None), (5, at)]);
    assert_eq!(twice, ["arm 10000", "disarm", "arm 9995"]);
    assert!(asked(&[(0, None)]).is_empty());
}

/// The cores' monitor counts these as the kernel translates them: misses of the last level.
const MISSES: EventCode = EventCode { unit: 0, config: 3, config1: 0, config2: 0 };
const INSTRUCTIONS: EventCode = EventCode { config: 1, ..MISSES };

/// This host without alarms, or with such as never ring.
struct Silent {
    mute: Option<RawFd>,
}

impl Hardware for Silent {
    fn read(&self, path: &std::path::Path) -> io::Result<String> {
        ThisHardware.read(path)
    }
    fn write(&self, path: &std::path::Path, text: &str) -> io::Result<()> {
        ThisHardware.write(path, text)
    }
    fn list(&self, dir: &std::path::Path) -> io::Result<Vec<String>> {
        ThisHardware.list(dir)
    }
    fn make_dir(&self, dir: &std::path::Path) -> io::Result<()> {
        ThisHardware.make_dir(dir)
    }
    fn remove_dir(&self, dir: &std::path::Path) -> io::Result<()> {
        ThisHardware.remove_dir(dir)
    }
    fn open(&self, event: &EventCode, scope: Scope<'_>) -> io::Result<Box<dyn Counter>> {
        match (scope, self.mute) {
            (Scope::AlarmedCore(_), None) => Err(io::ErrorKind::Unsupported.into()),
            (Scope::AlarmedCore(_), fd) => Ok(Box::new(Scripted { fd, ..Scripted::default() })),
            (scope, _) => ThisHardware.open(event, scope),
        }
    }
    fn load(&self, core: HardwareCore, load: Load) -> io::Result<Duration> {
        ThisHardware.load(core, load)
    }
}

#[test]
fn a_unit_without_alarms_or_with_mute_ones_is_asked() {
    let core = sched::affinity_of(0).unwrap()[0];
    // It is never written.
    let (mute, _writer) = io::pipe().unwrap();
    let mut meter = match open(&Silent { mute: Some(mute.as_raw_fd()) }, &INSTRUCTIONS, core) {
        Ok(meter) => meter,
        Err(error) => return crate::host::tests::refused(&error, "a PMU"),
    };
    assert_eq!(meter.fd(), None);
    assert_eq!(open(&Silent { mute: None }, &INSTRUCTIONS, core).unwrap().fd(), None);
    let before = meter.read(Instant::ZERO).unwrap();
    meter.arm(Some(before + 1)).unwrap();
    ThisHardware.load(core, Load::Compute(Duration::from_millis(2))).unwrap();
    assert!(meter.read(Instant::ZERO).unwrap() > before + 100_000);
    assert_eq!(meter.due(before + 1), None);
}

#[test]
fn reactions_are_measured_by_alarm_and_by_polling() {
    let core = sched::affinity_of(0).unwrap()[0];
    let period = Duration::from_micros(200);
    let mut noticed = Vec::new();
    for (hardware, name) in
        [(&ThisHardware as &dyn Hardware, "alarm"), (&Silent { mute: None }, "polling")]
    {
        match reaction(hardware, &MISSES, core, period) {
            Ok(reaction) => {
                eprintln!("{name}: {reaction}");
                assert!(reaction.p50 <= reaction.p99 && reaction.p99 <= reaction.longest);
                assert!(reaction.n >= FEWEST && reaction.longest < LONGEST);
                noticed.push(reaction.noticing);
            }
            Err(error) => crate::host::tests::refused(&error, "a PMU"),
        }
    }
    // Each that can signal was asked to.
    let (alarm, polling) = (Noticing::Alarm, Noticing::Polling(period));
    assert!([&[][..], &[polling], &[polling; 2], &[alarm, polling]].contains(&&noticed[..]));
}
