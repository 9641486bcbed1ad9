//! The rows. Codes are those of the vendors' tables in the kernel's tools/perf/pmu-events/arch but
//! where a row says otherwise.

use super::{Clock, CoreEvents, Pair, Processor, Processors, Source};
use crate::sense::SensorKind;
use crate::sense::sysfs::Reach;

// Models of Intel's family 6 (the kernel's arch/x86/include/asm/intel-family.h).
/// Sandy Bridge, Ivy Bridge, Haswell and Broadwell clients.
const CLIENTS_BEFORE_SKYLAKE: &[u32] = &[0x2a, 0x3a, 0x3c, 0x45, 0x46, 0x3d, 0x47];
/// The same as servers.
const SERVERS_BEFORE_SKYLAKE: &[u32] = &[0x2d, 0x3e, 0x3f, 0x4f, 0x56];
/// Skylake, Kaby Lake, Coffee Lake and Comet Lake clients.
const SKYLAKE_CLIENTS: &[u32] = &[0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6];
const SKYLAKE_SERVERS: &[u32] = &[0x55];
const ICE_LAKE_CLIENTS: &[u32] = &[0x7d, 0x7e, 0x9d];
const ICE_LAKE_SERVERS: &[u32] = &[0x6a, 0x6c];
/// Tiger Lake and Rocket Lake.
const TIGER_LAKE: &[u32] = &[0x8c, 0x8d, 0xa7];
/// Alder Lake and Raptor Lake, with those that have efficient cores alone.
const ALDER_LAKE: &[u32] = &[0x97, 0x9a, 0xbe, 0xb7, 0xba, 0xbf];
/// Meteor Lake, Arrow Lake, Lunar Lake and Panther Lake.
const METEOR_LAKE: &[u32] = &[0xaa, 0xac, 0xb5, 0xc5, 0xc6, 0xbd, 0xcc];
/// Sapphire Rapids and Emerald Rapids.
const SAPPHIRE_RAPIDS: &[u32] = &[0x8f, 0xcf];
/// Granite Rapids and Sierra Forest.
const GRANITE_RAPIDS: &[u32] = &[0xad, 0xae, 0xaf];

// Families and models of AMD (the kernel's arch/x86/kernel/cpu/amd.c).
const ZEN_1: &[(u32, u32, u32)] = &[(0x17, 0x00, 0x2f), (0x17, 0x50, 0x5f)];
const ZEN_2: &[(u32, u32, u32)] =
    &[(0x17, 0x30, 0x4f), (0x17, 0x60, 0x7f), (0x17, 0x90, 0x91), (0x17, 0xa0, 0xaf)];
const ZEN_3: &[(u32, u32, u32)] = &[(0x19, 0x00, 0x0f), (0x19, 0x20, 0x5f)];
const ZEN_4: &[(u32, u32, u32)] = &[(0x19, 0x10, 0x1f), (0x19, 0x60, 0xaf)];
const ZEN_5: &[(u32, u32, u32)] =
    &[(0x1a, 0x00, 0x2f), (0x1a, 0x40, 0x4f), (0x1a, 0x60, 0x7f), (0x1a, 0xd0, 0xd7)];

/// Neoverse V3, V3AE and N3.
const ARM_PER_CYCLE: &[u32] = &[0xd84, 0xd83, 0xd8e];

/// What most rows have in common.
const UNCORE: Pair = Pair {
    platform: "",
    processors: Processors::Intel(&[]),
    sensor_kind: SensorKind::Uncore,
    units: &[],
    reach: Reach::Package,
    occupancy: &[],
    scale: 1,
    less: &[],
    requests: &[],
    sampled: &[],
    clock: Clock::None,
    meaning: "",
    source: Source::Tables,
};
const OFFCORE: Pair = Pair {
    sensor_kind: SensorKind::Offcore,
    units: &["cpu", "cpu_core"],
    reach: Reach::Core,
    clock: Clock::Core,
    meaning: "demand reads of data, from when the core knows that the last-level cache missed",
    ..UNCORE
};
const OFFCORE_ALL: Pair =
    Pair { meaning: "reads that miss the L2, answered by the L3 or by memory", ..OFFCORE };
const AMD_CORE: Pair = Pair {
    sensor_kind: SensorKind::Amd,
    units: &["cpu"],
    reach: Reach::Core,
    occupancy: &["event=0x5f"],
    requests: &["event=0x41,umask=0x7f"],
    clock: Clock::Core,
    meaning: "misses of the first-level data cache, answered by L2, L3 or memory",
    ..UNCORE
};
/// Of the misses of the first-level cache those that the L2 answered are taken off: they are most
/// of them, and would make memory look fast. Each of them is under way for 12 cycles (measured on
/// Zen 5: 11 to 13, one at a time and many).
const AMD_BEYOND_L2: Pair = Pair {
    less: &[("event=0x44,umask=0x1", 12)],
    requests: &["event=0x44,umask=0xde"],
    meaning: "fills of the first-level data cache from the L3 or from memory",
    ..AMD_CORE
};
const ARM_CORE: Pair = Pair {
    sensor_kind: SensorKind::Arm,
    units: ARM_UNITS,
    reach: Reach::Core,
    clock: Clock::Core,
    ..UNCORE
};
const RATE: Pair =
    Pair { sensor_kind: SensorKind::Rate, meaning: "reads of memory controllers", ..UNCORE };
const ARM_UNITS: &[&str] = &["armv8_*", "armv9_*"];

/// Of `filter_opc0`: DRd, which with the four other filters is 0x40433 in the box's second filter
/// register (the tables' `config1`).
const SKYLAKE_OCCUPANCY: &str = "event=0x36,umask=0x21,filter_opc0=0x202,filter_rem=1,\
                                 filter_loc=1,filter_nm=1,filter_not_nm=1";
const SKYLAKE_REQUESTS: &str = "event=0x35,umask=0x21,filter_opc0=0x202,filter_rem=1,\
                                filter_loc=1,filter_nm=1,filter_not_nm=1";
const MISS_OCCUPANCY: &str = "event=0x36,umask=0xc817fe01";
const MISS_REQUESTS: &str = "event=0x35,umask=0xc817fe01";
/// Every core and every slice of an L3.
const SAMPLED_LATENCY: &str =
    "event=0xac,umask=0x3f,enallcores=1,enallslices=1,sliceid=3,threadmask=3";
const SAMPLED_REQUESTS: &str =
    "event=0xad,umask=0x3f,enallcores=1,enallslices=1,sliceid=3,threadmask=3";
const L3_MISSES: &str = "event=0x4,umask=0x1,enallcores=1,enallslices=1,sliceid=3,threadmask=3";

const ARBITER_ALL: Pair = Pair {
    units: &["uncore_arb"],
    occupancy: &["event=0x80,umask=0x1"],
    requests: &["event=0x81,umask=0x1"],
    meaning: "requests of cores, graphics and cache to the memory controller, writes too",
    ..UNCORE
};
const QUEUE: &str = "the queue of the memory controller alone, until a read is issued";

/// Pairs by sensor, for each the best first.
pub const PAIRS: &[Pair] = &[
    // The whole way of a miss, as the caching agents see it: preferred to the controllers' queues.
    Pair {
        platform: "Skylake-SP, Cascade Lake",
        processors: Processors::Intel(SKYLAKE_SERVERS),
        units: &["uncore_cha"],
        occupancy: &[SKYLAKE_OCCUPANCY],
        requests: &[SKYLAKE_REQUESTS],
        clock: Clock::Own("event=0x0"),
        ..UNCORE
    },
    Pair {
        platform: "Ice Lake-SP",
        processors: Processors::Intel(ICE_LAKE_SERVERS),
        units: &["uncore_cha"],
        occupancy: &[MISS_OCCUPANCY],
        requests: &[MISS_REQUESTS],
        clock: Clock::Own("event=0x0"),
        ..UNCORE
    },
    Pair {
        platform: "Sapphire Rapids, Emerald Rapids",
        processors: Processors::Intel(SAPPHIRE_RAPIDS),
        units: &["uncore_cha"],
        occupancy: &[MISS_OCCUPANCY],
        requests: &[MISS_REQUESTS],
        clock: Clock::Own("event=0x1"),
        ..UNCORE
    },
    Pair {
        platform: "Granite Rapids, Sierra Forest",
        processors: Processors::Intel(GRANITE_RAPIDS),
        units: &["uncore_cha"],
        occupancy: &[MISS_OCCUPANCY],
        requests: &[MISS_REQUESTS],
        clock: Clock::Own("event=0x1"),
        source: Source::Unverified("as on Sapphire Rapids"),
        ..UNCORE
    },
    Pair {
        platform: "Skylake-SP, Cascade Lake",
        processors: Processors::Intel(SKYLAKE_SERVERS),
        units: &["uncore_imc"],
        occupancy: &["event=0x80"],
        requests: &["event=0x10"],
        clock: Clock::Own("event=0x0"),
        meaning: QUEUE,
        ..UNCORE
    },
    Pair {
        platform: "Ice Lake-SP",
        processors: Processors::Intel(ICE_LAKE_SERVERS),
        units: &["uncore_imc"],
        occupancy: &["event=0x80", "event=0x81"],
        requests: &["event=0x10,umask=0x1", "event=0x10,umask=0x2"],
        clock: Clock::Own("event=0x0"),
        meaning: QUEUE,
        ..UNCORE
    },
    Pair {
        platform: "Sapphire Rapids, Emerald Rapids",
        processors: Processors::Intel(SAPPHIRE_RAPIDS),
        units: &["uncore_imc"],
        occupancy: &["event=0x80", "event=0x81"],
        requests: &["event=0x10,umask=0x1", "event=0x10,umask=0x2"],
        clock: Clock::Own("event=0x1,umask=0x1"),
        meaning: QUEUE,
        ..UNCORE
    },
    // Four queues and four counters: two queues give the latency, all of them the requests.
    Pair {
        platform: "Granite Rapids, Sierra Forest",
        processors: Processors::Intel(GRANITE_RAPIDS),
        units: &["uncore_imc"],
        occupancy: &["event=0x80", "event=0x81"],
        sampled: &["event=0x10,umask=0x30"],
        requests: &["event=0x10,umask=0xf0"],
        clock: Clock::Own("event=0x1,umask=0x1"),
        meaning: QUEUE,
        source: Source::Unverified("unit masks of the four queues taken together"),
        ..UNCORE
    },
    Pair {
        platform: "Sandy Bridge to Broadwell",
        processors: Processors::Intel(CLIENTS_BEFORE_SKYLAKE),
        clock: Clock::Of("uncore_cbox_0", "event=0xff"),
        ..ARBITER_ALL
    },
    Pair {
        platform: "Skylake to Comet Lake",
        processors: Processors::Intel(SKYLAKE_CLIENTS),
        clock: Clock::Of("uncore_cbox_0", "event=0xff"),
        ..ARBITER_ALL
    },
    Pair {
        platform: "Skylake to Comet Lake",
        processors: Processors::Intel(SKYLAKE_CLIENTS),
        occupancy: &["event=0x80,umask=0x2"],
        requests: &["event=0x81,umask=0x2"],
        clock: Clock::Of("uncore_cbox_0", "event=0xff"),
        meaning: "reads of data by cores",
        ..ARBITER_ALL
    },
    Pair {
        platform: "Tiger Lake, Rocket Lake",
        processors: Processors::Intel(TIGER_LAKE),
        clock: Clock::Of("uncore_clock", "event=0xff"),
        ..ARBITER_ALL
    },
    Pair {
        platform: "Alder Lake, Raptor Lake",
        processors: Processors::Intel(ALDER_LAKE),
        clock: Clock::Of("uncore_clock", "event=0xff"),
        ..ARBITER_ALL
    },
    // What each core waits for.
    Pair {
        platform: "Skylake to Comet Lake, Cascade Lake",
        processors: Processors::Intel(&[0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6, 0x55]),
        occupancy: &["event=0x60,umask=0x10"],
        requests: &["event=0xb0,umask=0x10"],
        ..OFFCORE
    },
    Pair {
        platform: "Ice Lake, Tiger Lake, Rocket Lake",
        processors: Processors::Intel(&[0x7d, 0x7e, 0x9d, 0x6a, 0x6c, 0x8c, 0x8d, 0xa7]),
        occupancy: &["event=0x60,umask=0x10"],
        requests: &["event=0xb0,umask=0x10"],
        source: Source::Unverified("clients' tables lack the occupancy"),
        ..OFFCORE
    },
    Pair {
        platform: "Alder Lake, Sapphire Rapids and later",
        processors: Processors::Intel(&[
            0x97, 0x9a, 0xb7, 0xba, 0xbf, 0x8f, 0xcf, 0xad, 0xae, 0xaa, 0xac, 0xb5, 0xc5, 0xc6,
            0xbd, 0xcc,
        ]),
        occupancy: &["event=0x20,umask=0x10"],
        requests: &["event=0x21,umask=0x10"],
        ..OFFCORE
    },
    Pair {
        platform: "Sandy Bridge to Broadwell",
        processors: Processors::Intel(CLIENTS_BEFORE_SKYLAKE),
        occupancy: &["event=0x60,umask=0x8"],
        requests: &["event=0xb0,umask=0x8"],
        ..OFFCORE_ALL
    },
    Pair {
        platform: "Sandy Bridge-EP to Broadwell-EP",
        processors: Processors::Intel(SERVERS_BEFORE_SKYLAKE),
        occupancy: &["event=0x60,umask=0x8"],
        requests: &["event=0xb0,umask=0x8"],
        ..OFFCORE_ALL
    },
    Pair {
        platform: "Skylake to Rocket Lake",
        processors: Processors::Intel(&[
            0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6, 0x55, 0x7d, 0x7e, 0x9d, 0x6a, 0x6c, 0x8c, 0x8d,
            0xa7,
        ]),
        occupancy: &["event=0x60,umask=0x8"],
        requests: &["event=0xb0,umask=0x8"],
        ..OFFCORE_ALL
    },
    Pair {
        platform: "Alder Lake, Sapphire Rapids and later",
        processors: Processors::Intel(&[
            0x97, 0x9a, 0xb7, 0xba, 0xbf, 0x8f, 0xcf, 0xad, 0xae, 0xaa, 0xac, 0xb5, 0xc5, 0xc6,
            0xbd, 0xcc,
        ]),
        occupancy: &["event=0x20,umask=0x8"],
        requests: &["event=0x21,umask=0x8"],
        ..OFFCORE_ALL
    },
    // AMD: what the L3 knows of its fills, then what the cores know of theirs.
    Pair {
        platform: "Zen 1, Zen 2",
        processors: Processors::Amd(ZEN_1_AND_2),
        sensor_kind: SensorKind::Amd,
        units: &["amd_l3"],
        reach: Reach::Cache,
        occupancy: &["event=0x90"],
        scale: 16,
        requests: &["event=0x9a,umask=0x3f"],
        clock: Clock::Core,
        ..UNCORE
    },
    Pair {
        platform: "Zen 3",
        processors: Processors::Amd(ZEN_3),
        sensor_kind: SensorKind::Amd,
        units: &["amd_l3"],
        reach: Reach::Cache,
        occupancy: &["event=0x90"],
        scale: 16,
        requests: &["event=0x9a,umask=0xff"],
        clock: Clock::Core,
        ..UNCORE
    },
    Pair {
        platform: "Zen 4, Zen 5",
        processors: Processors::Amd(ZEN_4_AND_5),
        sensor_kind: SensorKind::Amd,
        units: &["amd_l3"],
        reach: Reach::Cache,
        occupancy: &[SAMPLED_LATENCY],
        scale: 10,
        sampled: &[SAMPLED_REQUESTS],
        requests: &[L3_MISSES],
        clock: Clock::NanosecondsOrCore,
        ..UNCORE
    },
    // Counted in fourths, rounded down each cycle: fewer than four misses at once are none.
    Pair { platform: "Zen 3", processors: Processors::Amd(ZEN_3), scale: 4, ..AMD_CORE },
    Pair {
        platform: "Zen 4",
        processors: Processors::Amd(ZEN_4),
        source: Source::Unverified("how long a hit of the L2 takes was measured on Zen 5"),
        ..AMD_BEYOND_L2
    },
    Pair { platform: "Zen 5", processors: Processors::Amd(ZEN_5), ..AMD_BEYOND_L2 },
    Pair { platform: "Zen 4", processors: Processors::Amd(ZEN_4), ..AMD_CORE },
    Pair {
        platform: "Zen 5",
        processors: Processors::Amd(ZEN_5),
        requests: &["event=0x41,umask=0xf"],
        ..AMD_CORE
    },
    Pair {
        platform: "Neoverse V3, N3",
        processors: Processors::Arm(ARM_PER_CYCLE),
        occupancy: &["event=0x8121"],
        requests: &["event=0x66"],
        meaning: "all loads, most of them answered by caches",
        ..ARM_CORE
    },
    Pair {
        platform: "Arm",
        processors: Processors::AnyArm,
        occupancy: &["event=0x8321"],
        requests: &["event=0x17"],
        meaning: "refills of the L2, by the L3 or by memory",
        source: Source::Unverified("few cores implement it"),
        ..ARM_CORE
    },
    Pair {
        platform: "Arm",
        processors: Processors::AnyArm,
        occupancy: &["event=0x8121"],
        requests: &["event=0x66"],
        meaning: "all loads, most of them answered by caches",
        source: Source::Unverified("few cores implement it"),
        ..ARM_CORE
    },
    // Memory controllers that count lines without latency.
    Pair {
        platform: "Sandy Bridge to Comet Lake",
        processors: Processors::Intel(&[
            0x2a, 0x3a, 0x3c, 0x45, 0x46, 0x3d, 0x47, 0x4e, 0x5e, 0x8e, 0x9e, 0xa5, 0xa6,
        ]),
        units: &["uncore_imc"],
        requests: &["event=0x1"],
        ..RATE
    },
    Pair {
        platform: "Tiger Lake and later",
        processors: Processors::Intel(&[
            0x8c, 0x8d, 0xa7, 0x97, 0x9a, 0xbe, 0xb7, 0xba, 0xbf, 0xaa, 0xac, 0xb5, 0xc5, 0xc6,
        ]),
        units: &["uncore_imc_free_running"],
        requests: &["event=0xff,umask=0x20"],
        ..RATE
    },
    Pair {
        platform: "Zen 4, Zen 5",
        processors: Processors::Amd(ZEN_4_AND_5),
        units: &["amd_umc"],
        requests: &["event=0xa,rdwrmask=0x1"],
        ..RATE
    },
];

const ZEN_1_AND_2: &[(u32, u32, u32)] =
    &[ZEN_1[0], ZEN_1[1], ZEN_2[0], ZEN_2[1], ZEN_2[2], ZEN_2[3]];
const ZEN_4_AND_5: &[(u32, u32, u32)] =
    &[ZEN_4[0], ZEN_4[1], ZEN_5[0], ZEN_5[1], ZEN_5[2], ZEN_5[3]];

/// What cores count of their own reads, the first row that fits.
pub const CORES: &[CoreEvents] = &[
    // LONGEST_LAT_CACHE.MISS and .REFERENCE, the same on all cores since 2006 (Intel SDM, volume
    // 3B, "pre-defined architectural performance events"); prefetches into the L3 are left out.
    CoreEvents {
        platform: "Intel",
        processors: Processors::AnyIntel,
        units: &["cpu", "cpu_core", "cpu_atom", "cpu_lowpower"],
        reads: &["event=0x2e,umask=0x41"],
        references: &["event=0x2e,umask=0x4f"],
        cycles: "event=0x3c",
    },
    // Fills of the first-level data cache by where they came from: memory, near or far; and all but
    // the own L2. What a prefetcher first brought into the L2 is not among them.
    CoreEvents {
        platform: "Zen 1, Zen 2",
        processors: Processors::Amd(ZEN_1_AND_2),
        units: &["cpu"],
        reads: &["event=0x43,umask=0x48"],
        references: &["event=0x43,umask=0x5a"],
        cycles: "event=0x76",
    },
    CoreEvents {
        platform: "Zen 3",
        processors: Processors::Amd(ZEN_3),
        units: &["cpu"],
        reads: &["event=0x44,umask=0x48"],
        references: &["event=0x44,umask=0x5e"],
        cycles: "event=0x76",
    },
    CoreEvents {
        platform: "Zen 4, Zen 5",
        processors: Processors::Amd(ZEN_4_AND_5),
        units: &["cpu"],
        reads: &["event=0x44,umask=0x48"],
        references: &["event=0x44,umask=0xde"],
        cycles: "event=0x76",
    },
    // LL_CACHE_MISS_RD, L3D_CACHE_REFILL, BUS_ACCESS, L2D_CACHE_REFILL; LL_CACHE_RD, L3D_CACHE,
    // L2D_CACHE (Arm Architecture Reference Manual, "common event numbers"): which of them a core
    // implements differs, and one that it does not stands still.
    CoreEvents {
        platform: "Arm",
        processors: Processors::AnyArm,
        units: ARM_UNITS,
        reads: &["event=0x37", "event=0x2a", "event=0x19", "event=0x17"],
        references: &["event=0x36", "event=0x2b", "event=0x16"],
        cycles: "event=0x11",
    },
];

/// Why processors have no unit outside the cores that counts both, where that is known.
pub fn absent(processor: &Processor) -> Option<&'static str> {
    const WHY: &[(Processors, &str)] = &[
        (
            Processors::Intel(ICE_LAKE_CLIENTS),
            "an Ice Lake client's arbiter counts no occupancy: the kernel gives it one counter",
        ),
        (
            Processors::Intel(METEOR_LAKE),
            "from Meteor Lake on occupancy and requests are counted in different boxes, or not at \
             all",
        ),
        (
            Processors::Intel(SERVERS_BEFORE_SKYLAKE),
            "the tables have no row for the boxes of servers before Skylake-SP",
        ),
    ];
    WHY.iter().find(|(processors, _)| processors.hold(processor)).map(|(_, why)| *why)
}
