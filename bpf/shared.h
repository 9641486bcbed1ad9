/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the scheduler in the kernel and its loader say to each other, beside law.h. crates/kernel
 * has the same in Rust.
 */
#ifndef MARACAS_SHARED_H
#define MARACAS_SHARED_H

/* The most cores of a host; a power of two, as numbers are masked by it. */
#define CORES_MAX 64

/* How many there are; of VCPUs, slots. And the number of the process that loads it. */
struct sizes {
	__u32 cores;
	__u32 vcpus;
	__s32 runtime;
};

/* What is to be said at the end. */
struct ending {
	/* Events for which there was no room. */
	__u64 lost;
	/* Why the kernel ended the scheduler; empty where it did not. */
	char reason[64];
	char message[128];
};

/* What happened. */
enum event_kind {
	/* A VCPU ran from `from` to `at`. */
	EVENT_RAN,
	/* A VCPU became runnable at `at`. */
	EVENT_WOKE,
	/* The core's allowance of reads was found spent at `at`, after what spent it was said. */
	EVENT_SPENT,
};

/* An entry of the ring buffer, in the order in which things happened on a core. */
struct event {
	/* Nanoseconds of CLOCK_MONOTONIC. */
	__u64 from;
	__u64 at;
	/* What the meter of `mode` reads at `at`, and the reading at which the grant ends. */
	__u64 meter;
	__u64 until;
	/* What its meter of reads does. */
	__u64 reads;
	__u32 kind;
	__u32 core;
	__u32 vcpu;
	__u32 mode;
	/* enum law_end */
	__u32 end;
	__u32 unused;
};

/*
 * Argument of the program `take`: the core follows its spare run queue from now on. It returns
 * which one is to be written next; at first that is number 2.
 */
struct take {
	__u32 core;
};

/*
 * Argument of the program `tend`: what has waited for `waited` ns in the queue of a VCPU may run
 * once in the time of threads that belong to none; returns how many these are. A thread that is
 * not let go on by the law is off the core again at once, and has not waited for longer than the
 * kernel's watchdog allows. `leaves`: the threads belong to no VCPU from now on, so that they can
 * end. It may be called again for a VCPU that has left, until nothing of it is left in its slot.
 */
struct tend {
	__u32 vcpu;
	__u32 leaves;
	__u64 waited;
};

/*
 * Argument of the program `join`: a thread, and what it will fork, belongs to a VCPU; to none where
 * that is LAW_NONE: then this thread alone goes before all others whenever it wakes. So does what
 * sends the run queues where it may not be real-time.
 */
struct join {
	__u32 pid;
	__u32 vcpu;
};

#endif
