/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Reads of memory as a machine inside the kernel learns of them: an event of the core overflows
 * after so many, at any instant, and what runs then is charged for them where time is charged next.
 *
 * So the core alone writes the meters, and each read that is counted is one of exactly one segment:
 * a core's meter is the sum of what its segments read. What overflows while a core holds no VCPU is
 * not counted.
 *
 * As law.h it calls nothing and compiles for BPF and for user space.
 */
#ifndef MARACAS_MEMORY_H
#define MARACAS_MEMORY_H

#include "law.h"

/* Beside a core. */
struct law_memory {
	/* Reads by what it holds that are not charged yet: all that an overflow changes. */
	__u64 pending;
	/*
	 * The allowance of which it was told that it is spent; LAW_NEVER = it is not. At first 0, as
	 * nothing is told of the run queue of a core to which none was sent.
	 */
	__u64 told;
};

/*
 * So many more reads, at whatever instant. Whether the core is to choose again, as the allowance or
 * what it holds may be spent by them.
 */
LAW_FN bool law_overflow(const struct law_core *core, struct law_memory *memory,
			 struct law_vcpu *vcpus, const struct law_queue *queue, __u64 reads)
{
	__u32 vcpu = core->now.vcpu;
	__u64 pending;

	if (vcpu == LAW_NONE)
		return false;
	pending = __sync_fetch_and_add(&memory->pending, reads) + reads;
	return core->reads + pending >= queue->allowance ||
	       (core->now.memory != LAW_NEVER &&
		law_vcpu(vcpus, vcpu)->reads + pending >= core->now.memory);
}

/* Charges what the core holds for what is pending. To be called wherever time is charged. */
LAW_FN void law_charge_reads(struct law_core *core, struct law_memory *memory,
			     struct law_vcpu *vcpus)
{
	__u64 reads = __atomic_exchange_n(&memory->pending, 0, __ATOMIC_SEQ_CST);

	if (core->now.vcpu != LAW_NONE)
		law_count_reads(core, vcpus, reads);
}

/*
 * Whether it is to be told that the core's allowance is spent: once for each, and not before the
 * segment is that spent it.
 */
LAW_FN bool law_tells_spent(const struct law_core *core, struct law_memory *memory,
			    const struct law_queue *queue)
{
	__u64 spent = core->reads >= queue->allowance ? queue->allowance : LAW_NEVER;
	bool is_news = spent != LAW_NEVER && spent != memory->told;

	if (core->now.vcpu != LAW_NONE)
		return false;
	memory->told = spent;
	return is_news;
}

#endif
