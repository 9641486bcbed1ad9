//! Runs on made-up clocks: healthy ones are never taken for stuck, whatever the host does, and
//! stuck ones are in time.

use super::*;

const MS: u64 = 1_000_000;
const LOOK_NS: u64 = 125 * MS;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn heartbeats(agents: u32) -> Heartbeats {
    let heartbeats = Heartbeats::new().expect("memory can be had");
    let cores: Vec<_> = (0..agents).map(crate::host::HardwareCore).collect();
    heartbeats.watch(&cores);
    heartbeats
}

/// What the guardian does at which look of a run, where `play` moves the agents up to a time.
fn patrol(looks: u64, sight: Sight, mut play: impl FnMut(u64) -> Heartbeats) -> Vec<(u64, Act)> {
    let mut patrol = Patrol::new();
    let mut acts = Vec::new();
    for look in 1..=looks {
        let now_ns = look * LOOK_NS;
        let heartbeats = play(now_ns);
        acts.extend(
            patrol.look(&heartbeats, now_ns, sight).into_iter().map(|act| (now_ns / MS, act)),
        );
    }
    acts
}

/// The first act that `is` what is looked for: when, in milliseconds.
fn first(acts: &[(u64, Act)], is: impl Fn(&Act) -> bool) -> Option<u64> {
    acts.iter().find(|(_, act)| is(act)).map(|(at, _)| *at)
}

/// An agent that works and sleeps by turns of lengths that vary, and wakes late by up to a bound.
struct Healthy {
    agent: usize,
    /// When it goes to sleep or wakes next.
    next_ns: u64,
    is_awake: bool,
    random: u64,
    latest_ns: u64,
}

impl Healthy {
    fn new(agent: usize, seed: u64, latest_ns: u64) -> Self {
        Self { agent, next_ns: 1, is_awake: false, random: seed * 77 + agent as u64, latest_ns }
    }
    fn random(&mut self, below: u64) -> u64 {
        // Xorshift (Marsaglia, 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }
    /// Lives on until `now_ns`.
    fn live(&mut self, heartbeats: &Heartbeats, now_ns: u64) {
        while self.next_ns <= now_ns {
            if self.is_awake {
                let due_ns = self.next_ns + 10_000 + self.random(90 * MS);
                heartbeats.sleeps_from(self.agent, self.next_ns, due_ns);
                self.next_ns = due_ns + self.random(self.latest_ns);
            } else {
                heartbeats.wakes(self.agent, self.next_ns);
                self.next_ns += self.random(300_000);
            }
            self.is_awake = !self.is_awake;
        }
    }
}

#[test]
fn a_healthy_run_is_never_touched() {
    for seed in 1..20 {
        let heartbeats = heartbeats(2);
        // As late as when the fair server of the kernel takes real-time threads off a core.
        let mut agents = [0, 1].map(|agent| Healthy::new(agent, seed, 54 * MS));
        let acts = patrol(8 * 60, Sight::default(), |now_ns| {
            agents.iter_mut().for_each(|agent| agent.live(&heartbeats, now_ns));
            heartbeats.clone()
        });
        assert_eq!(acts, [], "seed {seed}");
    }
}

#[test]
fn a_pause_of_the_machine_makes_no_agent_look_stuck() {
    let heartbeats = heartbeats(2);
    let (mut patrol, mut neighbour) = (Patrol::new(), Neighbours::default());
    let mut now_ns = MS;
    for pause_ms in [10_000, 130, 251, 400, 3_000, 5_000, 5_000] {
        for agent in 0..2 {
            heartbeats.wakes(agent, now_ns);
            heartbeats.sleeps_from(agent, now_ns + 50_000, now_ns + 2 * MS);
        }
        assert_eq!(patrol.look(&heartbeats, now_ns + MS, Sight::default()), []);
        assert_eq!(neighbour.overdue(&heartbeats, 0, now_ns + MS, ms(30)).next(), None);
        now_ns += pause_ms * MS;
        // The observers are the first to go on.
        assert_eq!(patrol.look(&heartbeats, now_ns, Sight::default()), [], "{pause_ms} ms");
        assert_eq!(neighbour.overdue(&heartbeats, 0, now_ns, ms(30)).next(), None, "{pause_ms} ms");
        now_ns += 3 * MS;
    }
}

#[test]
fn an_agent_that_sleeps_for_ever_is_relieved_and_the_run_ends() {
    let heartbeats = heartbeats(2);
    heartbeats.wakes(1, 90 * MS);
    heartbeats.sleeps_from(1, 91 * MS, 100 * MS);
    let acts = patrol(45, Sight::default(), |now_ns| {
        heartbeats.wakes(0, now_ns - MS);
        heartbeats.sleeps_from(0, now_ns - MS / 2, now_ns + MS);
        heartbeats.clone()
    });
    let relieved = first(&acts, |act| matches!(act, Act::Relieve { first: true, .. }));
    assert!((350..=475).contains(&relieved.expect("relieved")), "{relieved:?}");
    let others = acts.iter().any(|(_, act)| matches!(act, Act::Relieve { agent: 0, .. }));
    assert!(!others, "the other core is left alone: {acts:?}");
    let firsts = acts.iter().filter(|(_, act)| matches!(act, Act::Relieve { first: true, .. }));
    assert_eq!(firsts.count(), 1, "once: {acts:?}");
    let asked = first(&acts, |act| matches!(act, Act::Ask(_))).expect("asked to end");
    assert!((3_100..3_400).contains(&asked), "{asked}");
    let killed = first(&acts, |act| matches!(act, Act::Kill(_))).expect("killed");
    assert!((5_100..5_400).contains(&killed), "{killed}");
    let why =
        acts.iter().find_map(|(_, act)| if let Act::Ask(why) = act { Some(*why) } else { None });
    let why = why.expect("with a reason");
    assert_eq!((why.cause, why.agent), (Cause::Late, 1));
    assert!((3_000..3_200).contains(&why.lasted.as_millis()), "{why}");
}

#[test]
fn an_agent_that_spins_is_seen_though_it_says_that_it_sleeps() {
    for turns in [false, true] {
        let heartbeats = heartbeats(1);
        heartbeats.wakes(0, MS);
        let mut at_ns = MS;
        let acts = patrol(45, Sight::default(), |now_ns| {
            // Each of its turns ends in a sleep of 2 us, in the midst of which it is looked at.
            while turns && at_ns + MS <= now_ns {
                heartbeats.wakes(0, at_ns + 2_000);
                at_ns += MS;
                heartbeats.sleeps_from(0, at_ns, at_ns - MS);
            }
            heartbeats.clone()
        });
        let relieved = first(&acts, |act| matches!(act, Act::Relieve { agent: 0, .. }));
        assert!((250..=376).contains(&relieved.expect("relieved")), "{turns}: {relieved:?}");
        let killed = first(&acts, |act| matches!(act, Act::Kill(_))).expect("killed");
        assert!((5_000..5_400).contains(&killed), "{turns}: {killed}");
    }
}

#[test]
fn an_agent_that_moves_again_is_let_alone() {
    let heartbeats = heartbeats(1);
    heartbeats.wakes(0, MS);
    // Stuck from 1 to 900 ms and from 2,000 to 2,900.
    let acts = patrol(60, Sight::default(), |now_ns| {
        if !(2_000 * MS..2_900 * MS).contains(&now_ns) && now_ns > 900 * MS {
            heartbeats.sleeps_from(0, now_ns - 40 * MS, now_ns - MS);
            heartbeats.wakes(0, now_ns - MS);
        }
        heartbeats.clone()
    });
    let reported = acts.iter().filter(|(_, act)| matches!(act, Act::Relieve { first: true, .. }));
    assert_eq!(reported.count(), 2, "{acts:?}");
    assert!(acts.iter().all(|(_, act)| matches!(act, Act::Relieve { .. })), "{acts:?}");
    let late = acts.iter().any(|(at, _)| (1_000..2_100).contains(at) || *at > 3_000);
    assert!(!late, "{acts:?}");
}

#[test]
fn a_stopped_runtime_is_asked_to_end_even_where_nothing_was_due() {
    let heartbeats = heartbeats(2);
    (0..2).for_each(|agent| heartbeats.wakes(agent, MS));
    (0..2).for_each(|agent| heartbeats.sleeps_from(agent, 2 * MS, u64::MAX));
    let sight = Sight { is_stopped: true, ..Sight::default() };
    let acts = patrol(45, sight, |_| heartbeats.clone());
    for agent in 0..2 {
        let relieved = |act: &Act| matches!(act, Act::Relieve { agent: it, .. } if *it == agent);
        let at = first(&acts, relieved).expect("relieved");
        assert!((375..=500).contains(&at), "{at}");
    }
    let asked = |act: &Act| matches!(act, Act::Ask(Ending { cause: Cause::Stopped, .. }));
    assert!((3_000..3_400).contains(&first(&acts, asked).expect("asked")));
    assert!(first(&acts, |act| matches!(act, Act::Kill(_))).is_some_and(|at| at < 5_500));
}

#[test]
fn the_thread_that_decides_for_the_kernel_is_watched_and_no_core_relieved() {
    let heartbeats = heartbeats(2);
    heartbeats.is_in_kernel();
    heartbeats.wakes(0, 90 * MS);
    heartbeats.sleeps_from(0, 91 * MS, 100 * MS);
    let acts = patrol(45, Sight::default(), |_| heartbeats.clone());
    let relieved = first(&acts, |act| matches!(act, Act::Relieve { .. }));
    assert_eq!(relieved, None, "budgets are held without it: {acts:?}");
    let asked = first(&acts, |act| matches!(act, Act::Ask(_))).expect("asked to end");
    let killed = first(&acts, |act| matches!(act, Act::Kill(_))).expect("killed");
    assert!((3_100..3_400).contains(&asked) && (5_100..5_400).contains(&killed), "{acts:?}");
    // Core 1 has no thread of its own, and is missed all the same.
    let sight = Sight { off_line: Some(1), ..Sight::default() };
    let healthy = |now_ns: u64| {
        heartbeats.wakes(0, now_ns - MS);
        heartbeats.sleeps_from(0, now_ns, now_ns + MS);
        heartbeats.clone()
    };
    let acts = patrol(4, sight, healthy);
    let asked = |act: &Act| matches!(act, Act::Ask(Ending { cause: Cause::OffLine, agent: 1, .. }));
    assert_eq!(first(&acts, asked), Some(250));
    heartbeats.rest(0);
    assert_eq!(patrol(4, sight, |_| heartbeats.clone()), []);
}

#[test]
fn a_core_off_line_ends_the_run() {
    let sight = Sight { off_line: Some(1), ..Sight::default() };
    let healthy = |heartbeats: &Heartbeats, now_ns: u64| {
        (0..2).for_each(|agent| heartbeats.wakes(agent, now_ns - MS));
        (0..2).for_each(|agent| heartbeats.sleeps_from(agent, now_ns, now_ns + MS));
    };
    let those = heartbeats(2);
    let acts = patrol(60, sight, |now_ns| {
        healthy(&those, now_ns);
        those.clone()
    });
    let asked = |act: &Act| matches!(act, Act::Ask(Ending { cause: Cause::OffLine, agent: 1, .. }));
    assert_eq!(first(&acts, asked), Some(250));
    assert!(first(&acts, |act| *act == Act::RelieveAll).is_some_and(|at| at == 250));
    let killed = first(&acts, |act| matches!(act, Act::Kill(_))).expect("it does not end");
    assert!((5_250..=5_500).contains(&killed), "{killed}");
    // One that ends in order may write its journal for as long as it takes.
    let those = heartbeats(2);
    let acts = patrol(200, sight, |now_ns| {
        healthy(&those, now_ns);
        if now_ns >= 1_000 * MS {
            (0..2).for_each(|agent| those.rest(agent));
        }
        those.clone()
    });
    assert!(first(&acts, asked).is_some());
    assert_eq!(first(&acts, |act| matches!(act, Act::Kill(_))), None);
}

#[test]
fn a_run_that_does_not_begin_to_end_is_ended() {
    let those = heartbeats(1);
    those.ends_at(1_000 * MS);
    let play = |heartbeats: &Heartbeats, now_ns: u64| {
        heartbeats.wakes(0, now_ns - MS);
        heartbeats.sleeps_from(0, now_ns, now_ns + MS);
    };
    let acts = patrol(8 * 25, Sight::default(), |now_ns| {
        play(&those, now_ns);
        those.clone()
    });
    let asked = |act: &Act| matches!(act, Act::Ask(Ending { cause: Cause::Overdue, .. }));
    let asked = first(&acts, asked).expect("asked");
    assert!((16_000..16_300).contains(&asked), "{asked}");
    let killed = first(&acts, |act| matches!(act, Act::Kill(_))).expect("killed");
    assert!((asked + 5_000..asked + 5_300).contains(&killed), "{killed}");
    // One whose agents have ended may write for as long as it takes.
    let those = heartbeats(1);
    those.ends_at(1_000 * MS);
    let acts = patrol(8 * 25, Sight::default(), |now_ns| {
        if now_ns < 10_000 * MS {
            play(&those, now_ns)
        } else {
            those.rest(0)
        }
        those.clone()
    });
    assert_eq!(acts, []);
}

#[test]
fn a_neighbour_sees_what_is_late_and_nothing_else() {
    let heartbeats = heartbeats(3);
    for agent in 0..3 {
        heartbeats.wakes(agent, MS);
    }
    heartbeats.sleeps_from(2, 2 * MS, 5 * MS);
    let mut neighbour = Neighbours::default();
    let mut seen = Vec::new();
    for now in (3..100).step_by(2) {
        for agent in 0..2 {
            heartbeats.sleeps_from(agent, (now - 1) * MS, now * MS);
            heartbeats.wakes(agent, now * MS);
        }
        let found: Vec<_> =
            neighbour.overdue(&heartbeats, 0, now * MS, NEIGHBOUR_PATIENCE).collect();
        assert!(found.iter().all(|(agent, _)| *agent == 2), "{found:?}");
        seen.extend(found.first().map(|(_, late)| (now, *late)));
        let again = neighbour.look_again_ns(0);
        assert_eq!(again.is_some(), now >= 7, "no wakes for nothing: {now}");
    }
    let (at, late) = seen.first().copied().expect("it is seen");
    assert!((35..=39).contains(&at), "{at}");
    assert_eq!(late, ms(at - 5));
    for agent in 0..3 {
        heartbeats.wakes(agent, 100 * MS);
        heartbeats.sleeps_from(agent, 100 * MS, 200 * MS);
    }
    assert_eq!(neighbour.overdue(&heartbeats, 0, 101 * MS, NEIGHBOUR_PATIENCE).count(), 0);
    assert_eq!(neighbour.look_again_ns(0), None);
}

#[test]
fn neighbours_of_a_healthy_run_do_nothing() {
    for seed in 1..20 {
        let heartbeats = heartbeats(2);
        let mut agents = [0, 1].map(|agent| Healthy::new(agent, seed, 29 * MS));
        let mut neighbour = Neighbours::default();
        for step in 1..20_000 {
            let now_ns = step * MS;
            agents.iter_mut().for_each(|agent| agent.live(&heartbeats, now_ns));
            let found = neighbour.overdue(&heartbeats, 0, now_ns, NEIGHBOUR_PATIENCE).next();
            assert_eq!(found, None, "seed {seed}, {step} ms");
        }
    }
}
