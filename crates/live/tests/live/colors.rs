//! Page colours of programs that use the client library: those of the core where they begin, and
//! those of the core to which they are moved.

use crate::support::bounds::found;
use crate::support::witness::repeated;
use crate::support::{replays, run_beside, setup, shell, system};
use maracas_client::color::{Buffer, ColorSet, Means, Pagemap};
use maracas_core::contract::{Grant, Limit, ServiceRequest};
use maracas_core::journal::{Note, Recolored, Record};
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, Duration, Event, Instant, Plan, Policy, Role, Vcpu, VcpuId};
use maracas_live::machine::CacheParts;
use std::path::Path;
use std::sync::atomic::Ordering;

/// Under this variable this test program is one that looks at the colours of its own memory, and
/// writes them into the file that it names.
const LOOK: &str = "MARACAS_TEST_COLORS";
/// How many colours pages have here.
const COLORS: u32 = 16;
/// The colours of the two cores.
const OF_CORES: [u64; 2] = [0x00ff, 0xff00];
const BYTES: usize = 1 << 20;

/// Says where a megabyte of its memory is, spins over that, and counts on in the file how often its
/// content was what it is to be.
fn look(path: &Path) -> ! {
    let content = |at: usize| (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) as u8;
    let memory: Vec<u8> = (0..BYTES).map(content).collect();
    for round in 0.. {
        assert!((0..BYTES).all(|at| memory[at] == content(at)), "in round {round}");
        let text = format!("{} {} {round}", std::process::id(), memory.as_ptr() as usize);
        // A reader must find it whole.
        let new = path.with_extension("new");
        std::fs::write(&new, text).expect("the directory is ours");
        std::fs::rename(&new, path).expect("the directory is ours");
        let began = std::time::Instant::now();
        while began.elapsed().as_millis() < 10 {
            std::hint::spin_loop();
        }
    }
    unreachable!("it is ended before")
}

/// How many pages of a program's memory have each core's colours, and how often it found its
/// content right.
fn looked(path: &Path) -> Option<([usize; 2], u64)> {
    let text = std::fs::read_to_string(path).ok()?;
    let words: Vec<u64> = text.split(' ').map_while(|word| word.parse().ok()).collect();
    let [pid, start, rounds] = words[..] else { return None };
    let (map, start) = (Pagemap::of(pid as u32).ok()?, start as usize);
    let sets = OF_CORES.map(|mask| ColorSet::new(mask, COLORS).expect("there are such colours"));
    let right = |set| {
        let report = map.verify(start..start + BYTES, set).ok()?;
        Some(report.pages - report.wrong - report.unseen)
    };
    Some(([right(sets[0])?, right(sets[1])?], rounds))
}

/// Has its one VCPU moved from core 0 to core 1, and recoloured, when this time has passed; the
/// service VCPU is VCPU 1.
#[derive(Default)]
struct Mover {
    home: CoreId,
    away: bool,
}

impl Mover {
    const AFTER: Instant = Instant::from_ticks(2_000_000_000);
}

impl Policy for Mover {
    fn on_event(&mut self, _: Instant, event: &Event) {
        if let Event::ServiceDone(ServiceRequest::Move { to, .. }) = event {
            (self.home, self.away) = (*to, false);
        }
    }
    fn plan(&mut self, now: Instant, plan: &mut Plan) {
        self.away |= self.home == CoreId(0) && now >= Self::AFTER;
        let colors = CachePart::new(OF_CORES[1]);
        let service_request = ServiceRequest::Move { vcpu: VcpuId(0), to: CoreId(1), colors };
        plan.service_request = self.away.then_some((VcpuId(1), service_request));
        plan.wake = if now < Self::AFTER { Self::AFTER } else { Instant::NEVER };
        for core in (0..2).map(CoreId) {
            plan.run_queue_mut(core).background.clear();
        }
        plan.run_queue_mut(self.home).background.push(Grant::new(VcpuId(0), Limit::NEVER));
        let run_queue = plan.run_queue_mut(CoreId(0));
        run_queue.foreground.clear();
        run_queue.foreground.push(Grant::new(VcpuId(1), Limit::NEVER));
    }
}

#[test]
fn a_program_takes_its_cores_colours_and_those_of_the_core_it_is_moved_to() {
    repeated(|| {
        if let Some(path) = std::env::var_os(LOOK) {
            look(Path::new(&path));
        }
        let set = ColorSet::new(OF_CORES[0], COLORS).expect("there are such colours");
        let moved = Buffer::by(Means::Move, 1, set);
        if found(moved, "sight of page frames and the right to move pages").is_none() {
            return;
        }
        let mut system = system(2, &[]);
        let ms = Duration::from_millis;
        let service_vcpu = Vcpu { role: Role::Migration, ..Vcpu::new(1, ms(5), ms(100)) };
        system.vcpus = vec![Vcpu::best_effort(0), service_vcpu];
        let parts = OF_CORES.map(CachePart::new);
        system.cores.iter_mut().zip(parts).for_each(|(core, part)| core.colors = part);
        let own = std::env::current_exe().expect("this program has a path");
        let name = "colors::a_program_takes_its_cores_colours_and_those_of_the_core_it_is_moved_to";
        let path = std::env::temp_dir().join(format!("maracas-colors-{}", std::process::id()));
        let mut program = shell(0, "");
        program.command.argv = vec![own.into(), "--exact".into(), name.into()];
        program.command.env.insert(LOOK.into(), path.clone().into());
        let mut setup = setup(&system, vec![program], 4);
        setup.steering.cache = CacheParts::Colors(COLORS);
        let ran = run_beside(setup, Box::new(Mover::default()), |over| {
            let mut seen = Vec::new();
            while !over.load(Ordering::Acquire) {
                seen.extend(looked(&path));
                std::thread::sleep(std::time::Duration::from_millis(200));
            }
            seen
        });
        let _ = std::fs::remove_file(&path);
        let Some((ran, seen)) = ran else { return };
        let records = ran.untroubled();
        assert!(replays(records, &mut Mover::default(), 2), "a fresh policy decides the same");
        let moved = records.iter().find_map(|record| match record {
            Record::Event { at, event: Event::ServiceDone(_) } => Some(*at),
            Record::Event { .. }
            | Record::Planned(_)
            | Record::Gap(_)
            | Record::Note { .. }
            | Record::End(_) => None,
        });
        let noted = records.iter().find_map(|record| match record {
            Record::Note { note: Note::Recolored { what, .. }, .. } => Some(what.clone()),
            Record::Event { .. }
            | Record::Planned(_)
            | Record::Gap(_)
            | Record::Note { .. }
            | Record::End(_) => None,
        });
        eprintln!("moved at {moved:?}, recoloured: {noted:?}; {seen:?}");
        assert!(moved.is_some_and(|at| at >= Mover::AFTER), "moved at {moved:?}");
        let Some(Ok(Recolored { pages, left, error: None, .. })) = noted else {
            panic!("it was not recoloured: {noted:?}")
        };
        let right =
            |core: usize| move |seen: &&([usize; 2], u64)| seen.0[core] > (BYTES / 4096) * 95 / 100;
        assert!(seen.iter().any(|one| right(0)(&one)), "not in its core's colours");
        assert!(
            seen.last().is_some_and(|last| right(1)(&last)),
            "not recoloured when it was moved"
        );
        assert!(pages as usize > BYTES / 4096 && left < pages / 10, "{pages} pages, {left} left");
        let rounds: Vec<_> = seen.iter().filter(right(1)).map(|(_, rounds)| rounds).collect();
        assert!(rounds.last() > rounds.first(), "it stands still since");
    });
}
