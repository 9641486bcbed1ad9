use super::judge::Periods;
use super::story::{Raise, Story};
use super::{Measured, Round, SCENARIO, Script};
use maracas_core::contract::{End, Mode, Segment, Usage};
use maracas_core::journal::Recorder;
use maracas_core::memory::CachePart;
use maracas_core::{CoreId, Duration, Instant, System, Vcpu, VcpuId};
use maracas_scenario::Scenario;
use maracas_session::case::{Case, Machine, Overrides};
use maracas_sim::{Options, Overheads, run};

const US: Duration = Duration::from_micros(1);

/// The same sixteen VCPUs in the simulator, decided up to `late` after their causes; a move takes
/// 20 us.
fn simulated(balance: &str, late: Duration) -> (Script, Story) {
    let text = SCENARIO.replace("\"vlb\"", &format!("\"{balance}\""));
    let scenario = Scenario::parse(&text, "test").unwrap();
    let case = Case::of(scenario, Machine::Sim, &Overrides::default()).unwrap();
    let mut policy = (case.entry.build)(&case.start, &case.params).ok().unwrap();
    let mut recorder = Recorder::new(&case.header());
    let script = Script::of(&case).unwrap();
    let until = script.end;
    let overheads = Overheads { lock: US * 5, structure: US * 10, ..Overheads::FREE };
    let options = Options { overheads, late, ..Options::new(until) };
    run(&case.system, &case.programs, policy.as_mut(), &options, &mut recorder);
    recorder.end(until);
    (script, Story::read(recorder.bytes()).unwrap())
}

#[test]
fn a_simulated_run_keeps_every_promise() {
    for late in [Duration::ZERO, US * 200] {
        let (script, story) = simulated("vlb", late);
        let round = Round::of(script, &story, None).unwrap();
        assert!(round.exact && round.moved && round.is_due && round.given_up.is_empty());
        let answer = round.moves.iter().find(|moved| moved.what.ordered >= round.reported).unwrap();
        let took = answer.what.done.unwrap() - round.reported;
        assert!(took < Duration::from_millis(1), "{took}");
        for moved in &round.moves {
            assert_eq!(moved.what.cost, US * 20);
            assert!(moved.late.len() <= 1, "{moved:?}");
            assert!(moved.late.iter().all(|late| late.vcpu == moved.what.vcpu), "{moved:?}");
        }
        assert_eq!((round.most, round.late_elsewhere), (US * 20, vec![]));
        // 16 VCPUs, T of 40 to 100 ms, 5 s.
        assert!(round.periods > 1000, "{}", round.periods);
        let gap = |[one, other]: [f64; 2]| (one - other).abs();
        assert!(gap(round.slack[2]) < gap(round.slack[1]), "{:?}", round.slack);
        for (slack, surplus) in
            [0, 2].map(|place| round.slack[place]).into_iter().zip(round.surplus)
        {
            for (slack, surplus) in slack.into_iter().zip(surplus) {
                let surplus = surplus.unwrap();
                assert!((slack - surplus).abs() < 0.01, "{slack} {surplus}");
            }
        }
    }
}

#[test]
fn where_nothing_moves_the_verdict_says_so() {
    let (script, story) = simulated("static", Duration::ZERO);
    let round = Round::of(script, &story, None).unwrap();
    assert!(round.moves.is_empty() && !round.moved && round.is_due && round.exact);
    assert_eq!((round.slack[1], round.late_elsewhere.len()), (round.slack[2], 0));
    let measured =
        Measured { host: String::new(), colors: true, notes: Vec::new(), rounds: vec![round] };
    let broken: Vec<_> = measured
        .verdicts()
        .into_iter()
        .filter(|verdict| !verdict.holds)
        .map(|it| it.name)
        .collect();
    assert_eq!(broken, ["moves", "cost", "evened", "recolored", "content"]);
}

#[test]
fn what_no_move_makes_more_even_is_not_asked_for() {
    // Four of a tenth each, the first so many of them on core 0.
    let could_even = |on_first: usize| {
        let ms = Duration::from_millis;
        let vcpus = (0..4).map(|number| Vcpu::new(number, ms(10), ms(100))).collect();
        let mut story = Story::nothing(System::new(2, vcpus));
        for number in 0..4 {
            let core = CoreId(u16::from(number >= on_first));
            story.lives.entry(VcpuId(number as u32)).or_default().foreground.push(Segment {
                vcpu: VcpuId(number as u32),
                core,
                mode: Mode::Foreground,
                from: at(0),
                to: at(10),
                usage: Usage { service: ms(10), ..Usage::default() },
                end: End::LimitReached,
            });
        }
        story.could_even(at(100), at(100))
    };
    assert_eq!([1, 2, 3, 4].map(could_even), [true, false, true, true]);
}

#[test]
fn the_split_scenario_is_a_good_one() {
    let scenario = Scenario::parse(&super::with_colors(), "test").unwrap();
    let case = Case::of(scenario, Machine::Sim, &Overrides::default()).unwrap();
    assert!(case.verdict.accepted());
    let sixteen = |part: CachePart| part.get().count_ones() == 16;
    assert!(case.system.cores.iter().all(|core| core.colors.is_some_and(sixteen)));
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A VCPU of 10 ms every 100 ms that was granted and served so, in milliseconds.
fn life(granted: &[(u64, u64)], served: &[(u64, u64)]) -> Story {
    let ms = Duration::from_millis;
    let mut story = Story::nothing(System::new(2, vec![Vcpu::new(0, ms(10), ms(100))]));
    let raises = granted.iter().map(|(when, limit)| Raise { at: at(*when), limit: ms(*limit) });
    let segments = served.iter().map(|(from, to)| Segment {
        vcpu: VcpuId(0),
        core: CoreId(0),
        mode: Mode::Foreground,
        from: at(*from),
        to: at(*to),
        usage: Usage { service: ms(to - from), ..Usage::default() },
        end: End::LimitReached,
    });
    let life = story.lives.entry(VcpuId(0)).or_default();
    life.raises.extend(raises);
    life.foreground.extend(segments);
    story.end = at(400);
    story
}

#[test]
fn a_period_is_late_where_its_budget_or_the_next_one_is() {
    let late = |granted: &[(u64, u64)], served: &[(u64, u64)]| {
        let periods = Periods::of(&life(granted, served));
        let late = periods.late.iter().map(|late| (late.begin, late.by)).collect::<Vec<_>>();
        (periods.judged, late)
    };
    let ms = Duration::from_millis;
    // But for the 200th part of it, a budget has been received.
    let rest = US * 50;
    let on_time = [(0, 10), (100, 20), (200, 30), (300, 40)];
    let served = [(0, 10), (190, 200), (200, 210), (350, 360)];
    assert_eq!(late(&on_time, &served), (3, vec![]), "whenever within its period");
    // It waited with its budget, here and where it came to at 60: that counts from then on.
    let moved = [(0, 10), (160, 20), (260, 30), (360, 40)];
    let served = [(140, 150), (160, 170), (260, 270), (360, 370)];
    assert_eq!(late(&moved, &served), (3, vec![(at(0), ms(60))]));
    // Received too late, by 30 ms; granted again in time.
    let served = [(120, 130), (130, 140), (200, 210), (300, 310)];
    assert_eq!(late(&on_time, &served), (3, vec![(at(0), ms(30) - rest)]));
    // What is granted in pieces is late once.
    let pieces =
        [(0, 4), (5, 10), (130, 14), (135, 20), (230, 24), (235, 30), (330, 34), (335, 40)];
    let served = [(0, 4), (5, 11), (130, 134), (135, 141), (230, 234), (235, 241)];
    assert_eq!(late(&pieces, &served), (6, vec![(at(0), ms(30))]));
}
