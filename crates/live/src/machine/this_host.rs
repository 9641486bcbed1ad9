//! This host as the decider sees it: cores behind locks, the mailbox, the clock, the journal, the
//! sensor. It decides nothing.

use super::ask;
use super::handle::{Mailbox, Request};
use crate::executor::lock;
use crate::executor::vcpu::ThisVcpu;
use crate::executor::{AnyCore, VcpuHandle};
use crate::journal::Scribe;
use crate::sense::{Reading, Sensor};
use crate::setup::Setup;
use maracas_core::contract::{Observer, Sample};
use maracas_core::journal::Record;
use maracas_core::{CoreId, CoreSet, Event, Instant, Job, Plan, VcpuId};
use maracas_live_core::Host;
use std::io;
use std::ops::DerefMut;
use std::sync::{Arc, Mutex};

/// The decider of this host.
pub(crate) type Decider = maracas_live_core::Decider<ThisHost>;

/// What the decider asks on this host.
pub(crate) struct ThisHost {
    cores: Vec<Arc<Mutex<AnyCore>>>,
    mailbox: Arc<Mailbox>,
    scribe: Scribe,
    sampler: Option<Sampler>,
    /// The group of cores that is decided for; `None` = all.
    own: Option<CoreSet>,
}

impl ThisHost {
    /// A host whose samples are answered by `sampler`.
    pub(crate) fn new(
        cores: Vec<Arc<Mutex<AnyCore>>>,
        mailbox: Arc<Mailbox>,
        scribe: Scribe,
        sampler: Option<Sampler>,
    ) -> Self {
        Self { cores, mailbox, scribe, sampler, own: None }
    }
    /// The same host for the decider of a group of cores.
    pub(crate) fn of_group(&self, group: &CoreSet, scribe: Scribe) -> Self {
        let (cores, mailbox) = (self.cores.clone(), Arc::clone(&self.mailbox));
        Self { cores, mailbox, scribe, sampler: None, own: Some(*group) }
    }
    /// Jobs that are done on its cores.
    fn take_done(&self, into: &mut Vec<Request>) {
        let is_own = |core: u16| self.own.is_none_or(|own| own.contains(CoreId(core)));
        let done = (0..).zip(&*self.mailbox.jobs.done);
        for (_, done) in done.filter(|(core, _)| is_own(*core)) {
            done.take(|(job, at)| into.push(Request::Completed { job, at }));
        }
    }
}

impl Host for ThisHost {
    type Handle = ThisVcpu;
    type Core = AnyCore;
    type Reply<T> = ask::Reply<T>;

    fn core(&mut self, core: CoreId) -> impl DerefMut<Target = AnyCore> {
        lock(&self.cores[usize::from(core.0)])
    }
    fn now(&self) -> Instant {
        self.mailbox.clock.now()
    }
    fn take_requests(&mut self, into: &mut Vec<Request>) {
        self.take_done(into);
        if self.own.is_none() {
            self.mailbox.take(into);
        }
    }
    fn release(&mut self, job: &Job) {
        self.mailbox.jobs.gate.get().inspect(|gate| gate.release(job));
    }
    fn leave(&mut self, vcpu: VcpuId, handle: Option<Box<VcpuHandle>>) {
        self.mailbox.leave(vcpu, handle);
    }
    fn can_sample(&self) -> bool {
        self.sampler.is_some()
    }
    fn sample(&mut self, now: Instant) -> io::Result<Option<Sample>> {
        self.sampler.as_mut().map(|sampler| sampler.sample(now)).transpose()
    }
    fn sample_remark(&self) -> Option<String> {
        self.sampler.as_ref()?.sensor.remark()
    }
    fn record(&mut self, record: &Record) {
        self.scribe.recorder.record(record);
    }
    fn hand_over(&mut self) {
        self.scribe.flush();
    }
    fn sits(&mut self, vcpu: VcpuId, core: CoreId) {
        self.mailbox.jobs.sits(vcpu, core);
    }
    fn end(&mut self, at: Instant) {
        self.scribe.recorder.end(at);
        self.scribe.flush();
    }
}

impl Observer for ThisHost {
    fn event(&mut self, at: Instant, event: &Event) {
        self.scribe.recorder.event(at, event);
    }
    /// Written down when it is carried out, so that no dispatch waits for it.
    fn planned(&mut self, now: Instant, plan: &Plan) {
        self.scribe.recorder.planned(now, plan);
        self.scribe.flush();
    }
}

/// Makes samples of what a sensor counts.
pub(crate) struct Sampler {
    sensor: Box<dyn Sensor>,
    /// How many cores are distinguished.
    cores: usize,
    /// The clock in which occupancy is given; `None` = the sensor's own.
    cycles_per_us: Option<u64>,
    /// What was reported of the sensor's counts.
    reported: Reading,
    reading: Reading,
}

impl Sampler {
    /// Of this sensor, as the setup steers memory. To be called when the clock has begun.
    pub(crate) fn new(sensor: Box<dyn Sensor>, setup: &Setup) -> Self {
        let (cores, cycles_per_us) = (setup.system.cores.len(), setup.steering.cycles_per_us);
        let (reported, reading) = (Reading::default(), Reading::default());
        let mut sampler = Self { sensor, cores, cycles_per_us, reported, reading };
        // What was counted while it was tried is of no VCPU. Should it be refused, so will samples.
        let _ = sampler.sample(Instant::ZERO);
        sampler
    }

    /// What the sensor counted since this was asked last.
    fn sample(&mut self, now: Instant) -> io::Result<Sample> {
        self.sensor.read(now, &mut self.reading)?;
        // Converted before the difference is taken, so that what is rounded off is not lost.
        let own = self.sensor.cycles_per_us();
        self.reading.occupancy = converted(self.reading.occupancy, own, self.cycles_per_us);
        self.reading.by_core.resize(self.cores, 0);
        let before = self.reported.by_core.iter().chain(std::iter::repeat(&0));
        let by_core = self.reading.by_core.iter().zip(before);
        let sample = Sample {
            requests: self.reading.requests.saturating_sub(self.reported.requests),
            occupancy: self.reading.occupancy.saturating_sub(self.reported.occupancy),
            by_core: by_core.map(|(now, reported)| now.saturating_sub(*reported)).collect(),
        };
        std::mem::swap(&mut self.reported, &mut self.reading);
        Ok(sample)
    }
}

/// Cycles of a clock of `from` per microsecond as cycles of one of `to`, rounded down; `None` = the
/// same clock.
fn converted(cycles: u64, from: u64, to: Option<u64>) -> u64 {
    let Some(to) = to.filter(|to| *to != from && from > 0) else { return cycles };
    let cycles = u128::from(cycles) * u128::from(to) / u128::from(from);
    u64::try_from(cycles).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sense::SensorKind;

    #[test]
    fn occupancy_is_reported_in_the_policys_cycles() {
        assert_eq!(converted(3300, 3300, Some(1000)), 1000);
        assert_eq!(converted(3299, 3300, Some(1000)), 999, "rounded down");
        assert_eq!(converted(5, 0, Some(7)), 5);
        assert_eq!(converted(5, 7, None), 5);
        assert_eq!(converted(u64::MAX, 1, Some(2)), u64::MAX);
        assert_eq!(converted(u64::MAX, 2, Some(1)), u64::MAX / 2);
    }

    /// Counts 7 requests and 100 cycles of waiting a call, on the first core, three times.
    struct Steps(u64);

    impl Sensor for Steps {
        fn sensor_kind(&self) -> SensorKind {
            SensorKind::Replay
        }
        fn describe(&self) -> String {
            String::new()
        }
        fn cycles_per_us(&self) -> u64 {
            4
        }
        fn read(&mut self, _: Instant, into: &mut Reading) -> io::Result<()> {
            self.0 += 1;
            if self.0 > 3 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            (into.requests, into.occupancy) = (self.0 * 7, self.0 * 100);
            into.by_core = vec![self.0 * 7];
            Ok(())
        }
        fn remark(&self) -> Option<String> {
            None
        }
    }

    #[test]
    fn a_sample_is_what_was_counted_since_the_last_by_core() {
        let mut sampler = Sampler {
            sensor: Box::new(Steps(0)),
            cores: 2,
            cycles_per_us: Some(3),
            reported: Reading::default(),
            reading: Reading::default(),
        };
        for _ in 0..3 {
            let Sample { requests, occupancy, by_core } =
                sampler.sample(Instant::ZERO).expect("three times");
            // 100 cycles of the sensor's 4 a microsecond are 75 of the policy's 3.
            assert_eq!((requests, occupancy, by_core), (7, 75, vec![7, 0]));
        }
        assert!(sampler.sample(Instant::ZERO).is_err(), "it is broken");
    }
}
