/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Of which VCPU a thread is, and whether it counts among its runnable ones; and what is said of
 * that and of all else that happens. For maracas.bpf.c alone.
 */
#ifndef MARACAS_THREADS_H
#define MARACAS_THREADS_H

#include "kernel.h"
#include "law.h"
#include "shared.h"
#include "state.h"

static void report(const struct event *event, bool is_news)
{
	struct event *entry = bpf_ringbuf_reserve(&events, sizeof(*entry), 0);

	if (!entry) {
		__sync_fetch_and_add(&ending.lost, 1);
		return;
	}
	*entry = *event;
	/*
	 * The reader is woken where a policy may have an answer. What was preempted was so by the
	 * law and the run queue that the policy made, and after a silent end it goes on by that: it
	 * is read with what comes next, or when half of the ring is full.
	 */
	is_news = is_news || bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > RING / 2;
	bpf_ringbuf_submit(entry, is_news ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP);
}

/* Counts the thread among the runnable ones of its VCPU. */
static void count(struct thread *thread)
{
	/*
	 * Its core learns of it, wherever the thread woke: user space takes no event of another than
	 * the managed ones, and counts wakes for what lapses by one.
	 */
	struct event event = {
		.kind = EVENT_WOKE,
		.vcpu = thread->vcpu,
		.core = homes[thread->vcpu & (LAW_VCPUS - 1)],
	};

	if (thread->counted != LAW_NONE)
		return;
	thread->counted = thread->vcpu;
	if (law_wake(vcpus, thread->vcpu)) {
		event.at = bpf_ktime_get_ns();
		report(&event, true);
	}
}

static void uncount(struct thread *thread)
{
	/* Exchanged, as tend() may be at it on another core. */
	__u32 counted = __atomic_exchange_n(&thread->counted, LAW_NONE, __ATOMIC_SEQ_CST);

	if (counted != LAW_NONE)
		law_block(vcpus, counted);
}

/*
 * A thread that was forked becomes runnable for the first time, by its parent (wake_up_new_task in
 * the kernel). That may have joined a VCPU since init_task(), before this thread was in the list of
 * its control group by which threads are joined. By now it is in it: so either the parent joined
 * before this, or the list that is read after that has this thread.
 */
static void inherit(struct thread *thread)
{
	struct thread *parent = thread_of(bpf_get_current_task_btf());

	thread->is_new = 0;
	if (parent && thread->vcpu == LAW_NONE)
		thread->vcpu = parent->vcpu;
}

#endif
