//! What users say to MemGuard, read for one system, and what is wrong with it.

use crate::parts::priority::serves_requests;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::num::NonZeroU64;
use maracas_core::admission::{Objection, ReadLimit, Readers, Regulation};
use maracas_core::contract::{Metered, Meters};
use maracas_core::memory::LINE_BYTES;
use maracas_core::params::{Item, Kind, ParamSpec, Params, parse_bandwidth};
use maracas_core::{CoreId, Duration, MAX_CORES, Rate, System, Vcpu};

pub(super) const BANDWIDTH: ParamSpec = ParamSpec {
    name: "bandwidth",
    kind: Kind::List(Item::Bandwidth, MAX_CORES),
    help: "bandwidth reserved for each core: one value for all, or one a core, such as \
           \"1000MiB/s, 200MiB/s, none\" (the MemGuard module's MB are MiB); empty = none",
};
pub(super) const WEIGHTS: ParamSpec = ParamSpec {
    name: "weights",
    kind: Kind::List(Item::Whole(1_000_000), MAX_CORES),
    help: "shares of r_min in place of bandwidth: one weight a core, such as \"1, 2, 4, 8\"; 0 = \
           not regulated",
};
pub(super) const R_MIN: ParamSpec = ParamSpec {
    name: "r_min",
    kind: Kind::List(Item::Bandwidth, 1),
    help: "guaranteed bandwidth of the memory, which the reservations together may not exceed; \
           empty = not checked",
};
pub(super) const RESERVATION: ParamSpec = ParamSpec {
    name: "reservation",
    kind: Kind::List(Item::Word(&["soft", "hard"]), MAX_CORES),
    help: "one word for all cores, or one a core; soft (default): donates what it is predicted \
           not to use; hard: never donates nor reclaims",
};
// Yun et al. 2013, section IV: 1 ms.
pub(super) const PERIOD: ParamSpec = ParamSpec {
    name: "period",
    kind: Kind::Time("1ms"),
    help: "regulation period; the default is the paper's",
};
pub(super) const PREDICTOR: ParamSpec = ParamSpec {
    name: "predictor",
    kind: Kind::Choice(&["ewma", "ewma-1/4", "last"]),
    help: "what a core is predicted to use: moving average with weight 1/2 (the paper's) or 1/4 \
           on the newest period, or what it used last",
};
pub(super) const RECLAIM: ParamSpec = ParamSpec {
    name: "reclaim",
    kind: Kind::Flag(true),
    help: "whether soft reservations donate and reclaim; without it all are hard",
};
// 1000 transactions in the authors' module of 2013.
pub(super) const Q_MIN: ParamSpec = ParamSpec {
    name: "q_min",
    kind: Kind::Whole(1000, 1, 1_000_000_000),
    help: "memory requests that a core reclaims at once beyond its own reservation; the default is \
           the authors' module's",
};
pub(super) const SPARE: ParamSpec = ParamSpec {
    name: "spare",
    kind: Kind::Choice(&["off", "share", "proportional"]),
    help: "once all active cores used their budgets: off: they wait for the next period; share: \
           nothing is regulated until then; proportional: a new period begins at once",
};

pub(super) const FOREGROUND: ParamSpec = ParamSpec {
    name: "foreground",
    kind: Kind::List(Item::Bandwidth, MAX_CORES),
    help: "what of each core's bandwidth surplus time may not use, nor ever the last request, so \
           that it never closes the core: one value for all, or one a core; empty = nothing, as \
           in the paper",
};

pub(super) const COUNT: ParamSpec = ParamSpec {
    name: "count",
    kind: Kind::Choice(&["reads", "requests"]),
    help: "what bandwidths are of: reads of memory, as in the paper, or reads and write-backs",
};
pub(super) const REGULATE: ParamSpec = ParamSpec {
    name: "regulate",
    kind: Kind::Choice(&["bandwidth", "banks", "utilization"]),
    help: "bandwidth: what a core reads in all, as in the paper; banks: what it reads of any one \
           bank of the memory; utilization: the same as bandwidth, but beyond the reservations all \
           budgets rise together until the memory controller is as busy as `utilization` says",
};
// Ours: beside a controller that is idle for a fifth of the time a read waits little longer than on
// an idle one. Saeed et al. choose theirs by platform and application.
pub(super) const UTILIZATION: ParamSpec = ParamSpec {
    name: "utilization",
    kind: Kind::Fraction(4, 5),
    help: "with regulate = \"utilization\": the share of time for which the memory controller may \
           have reads waiting; the default is ours",
};

pub(super) const PARAMS: &[ParamSpec] = &[
    BANDWIDTH,
    WEIGHTS,
    R_MIN,
    RESERVATION,
    PERIOD,
    PREDICTOR,
    RECLAIM,
    Q_MIN,
    SPARE,
    FOREGROUND,
    COUNT,
    REGULATE,
    UTILIZATION,
];

/// One reclaim for each of these is bearable: an interrupt at the end of an allowance costs a core
/// 8 to 19 us (`docs/sensing.md`), and four cores share them.
const INTERRUPT: Duration = Duration::from_micros(5);
/// So many a period always are: periods of simulated systems may be a few ticks long.
const INTERRUPTS_MIN: u64 = 200;

/// What is done with bandwidth beyond the reservations.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Spare {
    Off,
    Share,
    Proportional,
}

/// A core's reservation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Reserved {
    /// Q: requests a period.
    pub(super) quota: u64,
    /// Whether it donates and reclaims.
    pub(super) soft: bool,
    /// Requests a period that surplus time leaves to the foreground; `None` = it counts as any
    /// other.
    pub(super) foreground: Option<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct Settings {
    /// By core; `None` = not regulated.
    pub(super) cores: Vec<Option<Reserved>>,
    pub(super) period: Duration,
    ticks_per_s: u128,
    /// The newest sample counts 1 in so many.
    pub(super) newest: u64,
    pub(super) q_min: u64,
    pub(super) spare: Spare,
    pub(super) counts: Metered,
    /// The utilization of the memory controller that budgets follow.
    pub(super) utilization: Option<Rate>,
}

impl Settings {
    /// What must be counted.
    pub(super) const fn meters(&self) -> Meters {
        Meters { counts: self.counts, controller: self.utilization.is_some() }
    }

    /// What every core may read in a period: Q, whether it is hard or soft, since a soft core that
    /// lacks what it donated gets that back (an underrun).
    pub(super) fn regulation(&self, system: &System) -> Regulation {
        let reads = self.cores.iter().map(|core| core.map(|reserved| reserved.quota));
        // A quota of the bank that gets most says little of all reads.
        let vcpus = system.vcpus.iter().filter(|_| !self.counts.is_of_banks());
        let vcpus = vcpus.filter_map(|vcpu| {
            let reads = self.quota(vcpu.bandwidth)?;
            Some(ReadLimit { whose: Readers::Vcpu(vcpu.id), reads })
        });
        let most = self.most().into_iter().chain(vcpus).collect();
        let meters = self.meters();
        Regulation { period: self.period, meters, reads: reads.collect(), most }
    }

    /// What cores read at most in a period. A soft core donates all but one of Q at most, so beyond
    /// its own Q it may reclaim as much as all other soft cores have in Q. Those may have theirs
    /// all the same, by underruns: so together they may read what was donated twice.
    fn most(&self) -> Vec<ReadLimit> {
        let bounded = !self.counts.is_of_banks() && self.utilization.is_none();
        if self.spare != Spare::Off || !bounded {
            return Vec::new();
        }
        let donated = |core: &Reserved| if core.soft { core.quota.saturating_sub(1) } else { 0 };
        let limited: Vec<_> =
            (0..).map(CoreId).zip(&self.cores).filter_map(|(id, it)| Some((id, (*it)?))).collect();
        let pool: u64 = limited.iter().map(|(_, core)| donated(core)).sum();
        let of = |(id, core): &(CoreId, Reserved)| {
            let reclaims = if core.soft { pool - donated(core) } else { 0 };
            let whose = Readers::Cores([*id].into_iter().collect());
            ReadLimit { whose, reads: core.quota + reclaims }
        };
        let mut most: Vec<ReadLimit> = limited.iter().map(of).collect();
        if limited.len() > 1 {
            let whose = Readers::Cores(limited.iter().map(|(id, _)| *id).collect());
            let sum: u64 = limited.iter().map(|(_, core)| core.quota).sum();
            most.push(ReadLimit { whose, reads: sum + pool });
        }
        most
    }

    /// A VCPU's reads per period, one at least; `None` where it has no bandwidth of its own.
    pub(super) fn quota(&self, bandwidth: Option<NonZeroU64>) -> Option<u64> {
        bandwidth.map(|bandwidth| self.requests(bandwidth).max(1))
    }

    /// Requests that `bandwidth` bytes per second are in one period, rounded down; at most 2^48,
    /// more than any memory serves, so that sums over cores stay within 64 bits.
    pub(super) fn requests(&self, bandwidth: NonZeroU64) -> u64 {
        let bytes = u128::from(bandwidth.get()) * u128::from(self.period.ticks());
        (bytes / (self.ticks_per_s * u128::from(LINE_BYTES))).min(1 << 48) as u64
    }

    /// Reads parameters that have passed their check, and says what is wrong with them here.
    pub(super) fn read(system: &System, params: &Params) -> (Self, Vec<Objection>) {
        let mut wrong = Vec::new();
        let period = params.time(&PERIOD).filter(|period| !period.is_zero());
        if period.is_none() {
            let why = "is 0; give a time above 0, such as \"1ms\"";
            wrong.push(Objection::to(PERIOD.name, why));
        }
        let mut settings = Self {
            cores: Vec::new(),
            period: period.unwrap_or(Duration::from_ticks(1)) * system.ticks_per_ns,
            ticks_per_s: 1_000_000_000 * u128::from(system.ticks_per_ns),
            newest: match params.choice(&PREDICTOR) {
                "last" => 1,
                "ewma-1/4" => 4,
                _ => 2,
            },
            q_min: params.whole(&Q_MIN),
            spare: match params.choice(&SPARE) {
                "share" => Spare::Share,
                "proportional" => Spare::Proportional,
                _ => Spare::Off,
            },
            counts: counts(params),
            utilization: None,
        };
        if params.choice(&REGULATE) == "utilization" {
            settings.utilization = Some(params.fraction(&UTILIZATION));
            wrong.extend(not_followed(params));
        }
        let bandwidths = bandwidths(system, params, &mut wrong);
        let kinds = each(&RESERVATION, system, params, &mut wrong);
        let soft = |core: usize| {
            // What is not used shows in the utilization, and raises all budgets.
            params.flag(&RECLAIM)
                && settings.utilization.is_none()
                && kinds.get(core).is_none_or(|kind| kind != "hard")
        };
        let foregrounds = foregrounds(system, params, &bandwidths, &mut wrong);
        let reserve = |core| {
            let of = |list: &[Bandwidth]| list.get(core).copied().flatten();
            let quota = settings.requests(of(&bandwidths)?);
            let foreground = settings.quota(of(&foregrounds));
            Some(Reserved { quota, soft: soft(core), foreground })
        };
        settings.cores = (0..system.cores.len()).map(reserve).collect();
        if wrong.is_empty() {
            settings.too_small(system, &bandwidths, &mut wrong);
            wrong.extend(settings.too_often(system));
            wrong.extend(unlimited(system, params, &settings.cores));
        }
        (settings, wrong)
    }

    /// Each time that a core reclaims it is interrupted, and again when it has used that: what all
    /// donate in a period, by `q_min` at a time, bounds how often.
    fn too_often(&self, system: &System) -> Option<Objection> {
        let donors = self.cores.iter().flatten().filter(|core| core.soft);
        let donated: u64 = donors.map(|core| core.quota).sum();
        let pause = INTERRUPT * system.ticks_per_ns;
        let most = (self.period.ticks() / pause.ticks()).max(INTERRUPTS_MIN);
        let times = donated / self.q_min;
        (times > most).then(|| {
            let (q_min, floor) = (self.q_min, donated / (most + 1) + 1);
            let why = format!(
                "is {q_min}, which lets cores reclaim {times} times in a period, each time by an \
                 interrupt, and {most} times are bearable; set q_min to {floor} at least, or \
                 reclaim = false"
            );
            Objection::to(Q_MIN.name, why)
        })
    }

    /// A VCPU that gets less than one request a period would never run.
    fn too_small(&self, system: &System, bandwidths: &[Bandwidth], wrong: &mut Vec<Objection>) {
        let of_core = |(core, bandwidth): (u16, &Bandwidth)| {
            bandwidth.map(|bandwidth| (CoreId(core).to_string(), bandwidth))
        };
        let own = |vcpu: &Vcpu| Some((vcpu.id.to_string(), vcpu.bandwidth?));
        let cores = (0..).zip(bandwidths).filter_map(of_core);
        let mut all = cores.chain(system.vcpus.iter().filter_map(own));
        if let Some((reader, bandwidth)) = all.find(|(_, b)| self.requests(*b) == 0) {
            let shown = shown(bandwidth.get());
            let why = format!(
                "of {reader} is {shown}, less than one request of {LINE_BYTES} bytes in a period; \
                 raise it or the period"
            );
            wrong.push(Objection::to(BANDWIDTH.name, why));
        }
    }
}

/// What the meters count.
fn counts(params: &Params) -> Metered {
    match (params.choice(&REGULATE), params.choice(&COUNT)) {
        ("banks", "requests") => Metered::BankRequests,
        ("banks", _) => Metered::BankReads,
        (_, "requests") => Metered::Requests,
        _ => Metered::Reads,
    }
}

/// Why budgets cannot follow the utilization.
fn not_followed(params: &Params) -> Option<Objection> {
    let target = params.fraction(&UTILIZATION);
    if target.num() == 0 || target.num() > target.den() {
        let (num, den) = (target.num(), target.den());
        let why = format!(
            "is {num}/{den}, and the controller is busy for 0 to 1 of the time; give a share above \
             0, such as 0.8"
        );
        return Some(Objection::to(UTILIZATION.name, why));
    }
    let spare = params.choice(&SPARE);
    (spare != "off").then(|| {
        let why = format!(
            "is {spare}, which lets through what regulate = \"utilization\" holds back; leave one \
             of them out"
        );
        Objection::to(SPARE.name, why)
    })
}

/// Bytes per second; `None` where there is no such bandwidth. Users write that as 0 or "none".
type Bandwidth = Option<NonZeroU64>;

fn parsed(item: &str) -> Bandwidth {
    parse_bandwidth(item).ok().and_then(NonZeroU64::new)
}

fn all_parsed(items: &[String]) -> Vec<Bandwidth> {
    items.iter().map(|item| parsed(item)).collect()
}

/// The reserved bandwidth of each core; empty where nothing is said.
fn bandwidths(system: &System, params: &Params, wrong: &mut Vec<Objection>) -> Vec<Bandwidth> {
    let r_min = params.list(&R_MIN).first().and_then(|item| parsed(item));
    let bandwidths = all_parsed(&each(&BANDWIDTH, system, params, wrong));
    let weights: Vec<u64> = each(&WEIGHTS, system, params, wrong)
        .iter()
        .map(|weight| weight.parse().unwrap_or(0))
        .collect();
    if !weights.is_empty() {
        if !bandwidths.is_empty() {
            let why = "and weights are both given; leave out one of them";
            wrong.push(Objection::to(BANDWIDTH.name, why));
        } else if r_min.is_none() {
            let why = "share r_min, and none is given; add r_min = \"1200MB/s\"";
            wrong.push(Objection::to(WEIGHTS.name, why));
        }
        // algorithms.md D.3: B_i = r_min w_i / sum of w.
        let sum: u64 = weights.iter().sum();
        let share = |weight| {
            let all = u128::from(r_min?.get());
            NonZeroU64::new((all * u128::from(weight) / u128::from(sum.max(1))) as u64)
        };
        return weights.into_iter().map(share).collect();
    }
    let sum: u128 = bandwidths.iter().flatten().map(|bandwidth| u128::from(bandwidth.get())).sum();
    if let Some(most) = r_min.map(NonZeroU64::get).filter(|most| sum > u128::from(*most)) {
        let sum = u64::try_from(sum).unwrap_or(u64::MAX);
        let (sum, most, over) = (shown(sum), shown(most), shown(sum - most));
        let why = format!(
            "reserved bandwidths are {sum} together and exceed r_min = {most} by {over}; lower one"
        );
        wrong.push(why.into());
    }
    bandwidths
}

/// What of its bandwidth each core keeps for the foreground; empty where nothing is said.
fn foregrounds(
    system: &System,
    params: &Params,
    bandwidths: &[Bandwidth],
    wrong: &mut Vec<Objection>,
) -> Vec<Bandwidth> {
    let kept = all_parsed(&each(&FOREGROUND, system, params, wrong));
    // One value for all is about those cores that have a reservation.
    let all = params.list(&FOREGROUND).len() == 1;
    for (core, kept) in kept.iter().enumerate() {
        let reserved = bandwidths.get(core).copied().flatten();
        let is_for_others = all && reserved.is_none() && bandwidths.iter().any(Option::is_some);
        // No bandwidth is less than any.
        if *kept > reserved && !is_for_others {
            let [kept, reserved] = [*kept, reserved].map(|it| shown(it.map_or(0, |it| it.get())));
            let why = format!(
                "of core{core} is {kept} and its bandwidth {reserved}; lower the one or raise the \
                 other"
            );
            wrong.push(Objection::to(FOREGROUND.name, why));
            break;
        }
    }
    kept
}

/// With an r_min some core counts on getting its part in each period. Whatever reads beside that
/// without limit takes it.
pub(super) fn unlimited(
    system: &System,
    params: &Params,
    cores: &[Option<Reserved>],
) -> Option<Objection> {
    if params.list(&R_MIN).is_empty() || cores.iter().all(Option::is_none) {
        return None;
    }
    let open = (0..).map(CoreId).zip(cores).filter(|(_, core)| core.is_none());
    let comes = |core: CoreId| {
        let mut users = system.vcpus.iter().filter(|vcpu| !serves_requests(vcpu.role));
        users.find(|vcpu| vcpu.pinned.is_none_or(|pinned| pinned == core))
    };
    let (core, vcpu) = open.filter_map(|(core, _)| Some((core, comes(core)?))).next()?;
    let why = format!(
        "{} may run on {core}, which has no limit, so no reservation is sure of its part of r_min; \
         give {core} a bandwidth, pin the VCPU elsewhere, or leave out r_min",
        vcpu.id
    );
    Some(why.into())
}

/// The items of a list, one for each core.
fn each(
    spec: &ParamSpec,
    system: &System,
    params: &Params,
    wrong: &mut Vec<Objection>,
) -> Vec<String> {
    let (items, cores) = (params.list(spec), system.cores.len());
    match items.len() {
        1 => alloc::vec![items[0].clone(); cores],
        n if n == 0 || n == cores => items,
        n => {
            let why = format!(
                "has {n} values and the system {cores} cores; give one value for all or one a core"
            );
            wrong.push(Objection::to(spec.name, why));
            Vec::new()
        }
    }
}

/// A bandwidth in the largest unit in which it is a whole number.
fn shown(bandwidth: u64) -> String {
    let units = [
        ("GB/s", 1_000_000_000),
        ("GiB/s", 1 << 30),
        ("MB/s", 1_000_000),
        ("MiB/s", 1 << 20),
        ("kB/s", 1_000),
        ("KiB/s", 1 << 10),
    ];
    let whole = units.iter().find(|(_, scale)| bandwidth.is_multiple_of(*scale));
    let (unit, scale) = whole.unwrap_or(&("B/s", 1));
    format!("{}{unit}", bandwidth / scale)
}
