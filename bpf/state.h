/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The state of the scheduler in the kernel, and the maps that user space reaches it by. For
 * maracas.bpf.c alone.
 */
#ifndef MARACAS_STATE_H
#define MARACAS_STATE_H

#include "kernel.h"
#include "law.h"
#include "memory.h"
#include "shared.h"

/* Set by the loader before it loads. */
const volatile struct sizes sizes SEC(".rodata.sizes");

/* A turn of a thread, where no timer ends it before: the kernel ends it at a tick. */
#define TURN (4ULL * 1000 * 1000)

struct core {
	struct law_core law;
	/* When what the core holds, or a turn, ends; LAW_NEVER = it does not. */
	__u64 ends;
	/* When a grant begins to count for which the core is to choose again; LAW_NEVER = none. */
	__u64 due;
	/* By how much the timer is set early for an end. */
	__u64 margin;
	/* When what the core holds began to run. */
	__u64 from;
	/* Since when a thread that belongs to no VCPU runs; 0 = none does. */
	__u64 others_from;
	/* What such threads may have before the background, and as of when. */
	__u64 share;
	__u64 share_at;
	/* What they are owed whatever is planned, whether they get it now, and whether any waits. */
	__u64 owed;
	__u32 is_paid;
	__u32 waits;
	/* What they had in all. */
	__u64 others_ran;
	struct law_slots slots;
	/* The thread of no VCPU that comes next was put here by dispatch(). */
	__u32 is_chosen;
	/* Whether the last end was late. */
	__u32 was_late;
	struct law_memory memory;
	/* By how much it is set early for a start, by how much that grows, and what a switch takes. */
	__u32 lead;
	__u32 lead_step;
	__u32 reach;
	/* By how much the margin moves. */
	__u32 margin_step;
	/* The instant for which the core has chosen before it came; 0 = none. */
	__u64 begins;
	/* When dispatch() chose for that instant a VCPU that has not run since; 0 = it has. */
	__u64 chosen_at;
	/* Of threads that belong to no VCPU one of the runtime's is next. */
	__u32 is_runtime_next;
	__u32 unused;
} __attribute__((aligned(64)));

/* crates/kernel/src/layout.rs has these numbers. */
_Static_assert(sizeof(struct law_grant) == 32 && sizeof(struct core) == 256 &&
	       sizeof(struct law_vcpu) == 48, "sizes");
_Static_assert(__builtin_offsetof(struct core, margin) == 88, "margin");
_Static_assert(__builtin_offsetof(struct core, others_ran) == 144, "others_ran");

/* Each in a section, and so a map, of its own, which the loader reads or writes whole. */
struct law_vcpu vcpus[LAW_VCPUS] SEC(".bss.vcpus");
/* Where the VCPU of a slot stands: its threads are woken there. Written by the loader. */
__u32 homes[LAW_VCPUS] SEC(".bss.homes");
struct core cores[CORES_MAX] SEC(".bss.cores");
struct ending ending SEC(".bss.ending");

struct thread {
	/* Since when it waits in the queue of its VCPU. */
	__u64 since;
	/* Its VCPU, and the one among whose runnable threads it is counted; LAW_NONE = none. */
	__u32 vcpu;
	__u32 counted;
	/* It is being put back by the core that ran it, which has chosen already. */
	__u32 is_put;
	/* Whenever it wakes it goes before all others. */
	__u32 is_first;
	/* It belongs to no VCPU and was put on a core past dispatch(), for a turn or until it sleeps. */
	__u32 is_served;
	/* It was forked and has not been runnable yet. */
	__u32 is_new;
};

struct alarm {
	struct bpf_timer timer;
};

struct {
	MAP_UINT(type, BPF_MAP_TYPE_TASK_STORAGE);
	MAP_UINT(map_flags, BPF_F_NO_PREALLOC);
	MAP_TYPE(key, int);
	MAP_TYPE(value, struct thread);
} threads SEC(".maps");

struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(max_entries, CORES_MAX);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct alarm);
} alarms SEC(".maps");

/* LAW_QUEUES run queues a core; `slots` of the core says which is which. */
struct {
	MAP_UINT(type, BPF_MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, BPF_F_MMAPABLE);
	MAP_UINT(max_entries, LAW_QUEUES * CORES_MAX);
	MAP_TYPE(key, __u32);
	MAP_TYPE(value, struct law_queue);
} queues SEC(".maps");

/* Bytes; an event takes 72. */
#define RING (1 << 20)

struct {
	MAP_UINT(type, BPF_MAP_TYPE_RINGBUF);
	MAP_UINT(max_entries, RING);
} events SEC(".maps");

static inline struct core *core_of(__u32 cpu)
{
	return &cores[cpu & (CORES_MAX - 1)];
}

static inline struct thread *thread_of(struct task_struct *p)
{
	return bpf_task_storage_get(&threads, p, NULL, 0);
}

/* Whether it belongs to a VCPU that is there. */
static inline bool is_managed(const struct thread *thread)
{
	return thread && thread->vcpu != LAW_NONE && law_is_there(vcpus, thread->vcpu);
}

_Static_assert(__builtin_offsetof(struct core, memory.pending) == 176, "pending");

#endif
