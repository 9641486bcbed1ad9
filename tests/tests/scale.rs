//! As many cores and VCPUs as are legal: admitted, simulated and written down within seconds.

use maracas_core::contract::{Entry, Observer};
use maracas_core::journal::{Header, Reader, Record, Recorder};
use maracas_core::params::Params;
use maracas_core::{
    Arrival, CoreId, Cost, Duration, Event, Instant, MAX_CORES, Plan, Program, System, Vcpu,
    VcpuId, Workload,
};
use maracas_scenario::Scenario;
use maracas_sim::{Options, run};

/// Where the compiler does not optimize, a tenth of them takes as long.
const VCPUS: u32 = if cfg!(debug_assertions) { 10_000 } else { 100_000 };

/// Periods of 10 to 29 ms, released one after the other; together 60 % of the cores.
fn system() -> (System, Vec<Program>) {
    let vcpu = |id: u32| {
        let period = Duration::from_millis(10 + u64::from(id % 20));
        let all = Duration::from_ticks(period.ticks() * MAX_CORES as u64 * 6 / 10);
        let budget = Duration::from_ticks(all.ticks() / u64::from(VCPUS));
        let offset = Duration::from_ticks(period.ticks() / 1_000 * u64::from(id % 1_000));
        Vcpu { arrival: Arrival::Periodic { offset }, ..Vcpu::new(id, budget, period) }
    };
    let vcpus: Vec<Vcpu> = (0..VCPUS).map(vcpu).collect();
    let program = |vcpu: &Vcpu| {
        Program::new(vcpu.id, Workload::Periodic { cost: Cost::Fixed(vcpu.reservation.budget) })
    };
    let programs = vcpus.iter().map(program).collect();
    (System::new(MAX_CORES, vcpus), programs)
}

/// The highest VCPU that ran.
#[derive(Default)]
struct Highest(u32);

impl Observer for Highest {
    fn event(&mut self, _: Instant, event: &Event) {
        if let Event::Ran(segment) = event {
            self.0 = self.0.max(segment.vcpu.0);
        }
    }
    fn planned(&mut self, _: Instant, _: &Plan) {}
}

fn journal(entry: &Entry, system: &System, programs: &[Program]) -> Vec<u8> {
    let params = Params::new();
    let mut policy = (entry.build)(system, &params).unwrap_or_else(|why| {
        panic!("{} refuses: {:?} {:?}", entry.name, why.objections, why.refused.first())
    });
    let header = Header {
        policy: entry.name.into(),
        params,
        system: system.clone(),
        names: system.vcpus.iter().map(|vcpu| vcpu.id.to_string()).collect(),
        machine: "sim".into(),
        version: String::new(),
        seed: 0,
    };
    let mut observers = (Recorder::new(&header), Highest::default());
    let until = Instant::ZERO + Duration::from_millis(20);
    let outcome = run(system, programs, policy.as_mut(), &Options::new(until), &mut observers);
    let (mut recorder, highest) = observers;
    let name = entry.name;
    assert_eq!(outcome.missed, 0, "{name}");
    assert!(outcome.completed > u64::from(VCPUS / 3), "{name}: {}", outcome.completed);
    assert!(highest.0 > VCPUS / 10 * 9, "{name}: none above {} ran", highest.0);
    recorder.end(until);
    std::mem::take(recorder.bytes())
}

#[test]
fn as_much_as_is_legal_is_admitted_and_simulated() {
    let (system, programs) = system();
    for name in ["p-edf", "p-rm", "maracas"] {
        let entry = maracas_policies::find(name).expect("a policy of ours");
        let bytes = journal(entry, &system, &programs);
        let (header, reader) = Reader::open(&bytes).expect("a journal");
        assert_eq!(header.system.cores.len(), MAX_CORES);
        assert_eq!(header.system.vcpus.len(), VCPUS as usize);
        let mut last = None;
        for record in reader {
            last = Some(record.expect("every record can be read"));
        }
        assert!(matches!(last, Some(Record::End(_))), "{name}: {last:?}");
    }
}

/// A VCPU that demands a core beyond the platform is refused by number, and alone.
#[test]
fn a_core_too_many_is_refused_in_one_line() {
    let (mut system, _) = system();
    let budget = Duration::from_millis(1);
    let beyond = Vcpu::new(VCPUS, budget, budget * 10).periodic();
    system.vcpus.push(Vcpu { pinned: Some(CoreId(MAX_CORES as u16)), ..beyond });
    for name in ["p-edf", "p-rm", "maracas"] {
        let entry = maracas_policies::find(name).expect("a policy of ours");
        let refused = (entry.admit)(&system, &Params::new()).refused;
        let [(vcpu, why)] = &refused[..] else { panic!("{name}: {} refused", refused.len()) };
        let says = format!("vcpu{VCPUS} demands core1024, but the cores are core0 to core1023");
        assert_eq!((*vcpu, &why.reason), (VcpuId(VCPUS), &says), "{name}");
    }
}

/// `count` programs as a file has them.
fn file(count: u32) -> String {
    let mut text = "version = 1\n[platform]\ncores = 1024\n".to_string();
    for id in 0..count {
        text += &format!(
            "[[program]]\nname = \"p{id}\"\ncommand = [\"true\"]\nbudget = \"1ms\"\n\
             period = \"{}ms\"\nworkload = {{ kind = \"periodic\", cost = \"1ms\" }}\n",
            100 + id % 300
        );
    }
    text
}

/// Where lines are counted from the file's start for each VCPU, or programs are looked through for
/// each, ten times as many take a hundred times as long.
#[test]
fn a_file_is_read_in_time_linear_in_its_programs() {
    let [few, many] = [VCPUS / 50, VCPUS / 5].map(file);
    let read = |text: &str| {
        let begun = std::time::Instant::now();
        let scenario = Scenario::parse(text, "many.toml").unwrap_or_else(|why| panic!("{why}"));
        (begun.elapsed(), scenario.programs.len())
    };
    // By turns, so that a busy host delays both alike.
    let mut ratios: Vec<f64> = (0..5)
        .map(|_| {
            let ((short, one), (long, ten)) = (read(&few), read(&many));
            assert_eq!(ten, 10 * one);
            long.as_secs_f64() / short.as_secs_f64()
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    assert!(ratios[2] < 30.0, "ten times as many programs take {ratios:.1?} times as long");
}
