//! The worked examples of RUN, checked by an independent exact program. Times are in ticks, `scale`
//! of them for a unit of the example, so that every budget is a whole number.

pub(super) struct Vector {
    pub(super) name: &'static str,
    /// (C, T) in units.
    pub(super) tasks: &'static [(u64, u64)],
    pub(super) cores: usize,
    pub(super) packing: &'static str,
    pub(super) scale: u64,
    /// In units.
    pub(super) until: u64,
    /// The number of reductions, p.
    pub(super) depth: u32,
    /// Each subsystem: a server as `rate(clients)`, a dual as `rate*(primal)`, a task as `t0`.
    pub(super) trees: &'static [&'static str],
    /// Each core: `task.job from-to`, in ticks.
    pub(super) schedule: &'static [&'static str],
    pub(super) preemptions: usize,
    pub(super) migrations: usize,
}

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        name: "A1",
        tasks: &[(2, 3), (2, 3), (2, 3)],
        cores: 2,
        packing: "wfd",
        scale: 1,
        until: 3,
        depth: 1,
        trees: &["1(1/3*(2/3(t0)) 1/3*(2/3(t1)) 1/3*(2/3(t2)))"],
        schedule: &["t1.0 0-1, t0.0 1-3", "t2.0 0-2, t1.0 2-3"],
        preemptions: 1,
        migrations: 1,
    },
    Vector {
        name: "A2",
        tasks: &[(2, 5), (2, 5), (2, 5), (2, 5), (2, 5)],
        cores: 2,
        packing: "ffd",
        scale: 1,
        until: 5,
        depth: 1,
        trees: &["1(3/5*(2/5(t4)) 1/5*(4/5(t0 t1)) 1/5*(4/5(t2 t3)))"],
        schedule: &["t0.0 0-2, t1.0 2-3, t4.0 3-5", "t2.0 0-2, t3.0 2-4, t1.0 4-5"],
        preemptions: 1,
        migrations: 1,
    },
    Vector {
        name: "A3",
        tasks: &[(3, 5), (3, 5), (3, 5), (3, 5), (3, 5)],
        cores: 3,
        packing: "ffd",
        scale: 1,
        until: 5,
        depth: 2,
        trees: &["1(3/5*(2/5(2/5*(3/5(t4)))) 1/5*(4/5(2/5*(3/5(t0)) 2/5*(3/5(t1)))) \
             1/5*(4/5(2/5*(3/5(t2)) 2/5*(3/5(t3)))))"],
        schedule: &["t4.0 0-3, t1.0 3-4, t3.0 4-5", "t1.0 0-2, t0.0 2-5", "t3.0 0-2, t2.0 2-5"],
        preemptions: 2,
        migrations: 2,
    },
    Vector {
        name: "A4",
        tasks: &[(1, 2), (1, 3), (1, 6), (2, 4), (3, 6)],
        cores: 2,
        packing: "ffd",
        scale: 1,
        until: 12,
        depth: 0,
        trees: &["1(t0 t3)", "1(t4 t1 t2)"],
        schedule: &[
            "t0.0 0-1, t3.0 1-3, t0.1 3-4, t0.2 4-5, t3.1 5-7, t0.3 7-8, t0.4 8-9, t3.2 9-11, \
             t0.5 11-12",
            "t1.0 0-1, t2.0 1-2, t4.0 2-5, t1.1 5-6, t1.2 6-7, t2.1 7-8, t4.1 8-11, t1.3 11-12",
        ],
        preemptions: 0,
        migrations: 0,
    },
    Vector {
        name: "A5",
        tasks: &[(2, 3), (2, 4), (4, 6), (1, 6)],
        cores: 2,
        packing: "ffd",
        scale: 2,
        until: 12,
        depth: 1,
        trees: &["1(1/2*(1/2(t1)) 1/3*(2/3(t2)) 1/6*(5/6(t0 t3)))"],
        schedule: &[
            "t1.0 0-1, t0.0 1-5, t3.0 5-7, t0.1 7-9, t2.0 9-12, t2.1 12-15, t0.2 15-17, t3.1 \
             17-19, t0.3 19-23, t1.2 23-24",
            "t2.0 0-5, t1.0 5-8, t1.1 8-10, t0.1 10-12, t0.2 12-14, t1.1 14-16, t1.2 16-19, \
             t2.1 19-24",
        ],
        preemptions: 7,
        migrations: 6,
    },
];
