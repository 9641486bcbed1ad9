/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads of memory, by overflows of an event of each core, where they are to be counted. For
 * maracas.bpf.c alone.
 */
#ifndef MARACAS_READS_H
#define MARACAS_READS_H

#include "kernel.h"
#include "law.h"
#include "memory.h"
#include "shared.h"
#include "state.h"
#include "threads.h"

/*
 * After how many reads an event overflows; 0 = nothing is counted, and the verifier drops all that
 * is for it. Set by the loader before it loads.
 */
const volatile __u64 reads_chunk SEC(".rodata.reads");

/* The run queue that a core reads. */
static inline struct law_queue *queue_of(const struct core *core, __u32 cpu)
{
	__u32 key = (cpu & (CORES_MAX - 1)) * LAW_QUEUES + (core->slots.read & LAW_SLOT);

	return bpf_map_lookup_elem(&queues, &key);
}

/*
 * An event of this core overflowed: it may have interrupted anything but itself. Nothing is to be
 * recorded of it.
 */
SEC("perf_event")
int overflow(void *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	struct core *core = core_of(cpu);
	struct law_queue *queue = queue_of(core, cpu);

	if (queue && law_overflow(&core->law, &core->memory, vcpus, queue, reads_chunk))
		scx_bpf_kick_cpu(cpu, FIND(scx_kick_flags, SCX_KICK_PREEMPT));
	return 0;
}

static void charge_reads(struct core *core)
{
	if (reads_chunk)
		law_charge_reads(&core->law, &core->memory, vcpus);
}

/* Says that the core's allowance is spent, where it is and that was not told. */
static void tell_spent(struct core *core, __u32 cpu, __u64 now)
{
	struct event event = { .kind = EVENT_SPENT, .core = cpu, .vcpu = LAW_NONE, .at = now };
	struct law_queue *queue;

	if (!reads_chunk)
		return;
	queue = queue_of(core, cpu);
	if (queue && law_tells_spent(&core->law, &core->memory, queue))
		report(&event, true);
}

#endif
