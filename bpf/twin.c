/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * law.h in user space: carries out the steps that tests/tests/twin.rs writes to its standard input,
 * and says after each what every core holds and what every meter reads.
 *
 * A step is a line of numbers behind a letter:
 *   c CORES VCPUS LEAST                        once, at the beginning
 *   q CORE ALLOWANCE BG NF NB (VCPU UNTIL MEMORY FROM WAKES)...   another run queue,
 *                                            foreground first; WAKES one more than how often the
 *                                            VCPU woke, where the grant lapses, else 0
 *   w VCPU    b VCPU                           a thread wakes, blocks
 *   W VCPU    B VCPU                           the same of one that is confined elsewhere
 *   a VCPU    h VCPU                           a runnable one is confined elsewhere, is not any more
 *   l VCPU                                     it leaves its slot
 *   n VCPU                                     nothing is left in its slot: one that comes has it
 *   r CORE READS                               reads of memory
 *   t NS                                       time passes
 * After a step all cores are charged, then stop what may not go on, then start what may.
 *   o CORE READS                               an event of the core overflows after so many reads:
 *                                            nothing else happens until the next step
 *   x CORE                                     the same, with what is pending lost: a mistake
 * The last number of a core is 1 where its allowance is to be told as spent, and 2 where an overflow
 * has it choose again.
 *
 * `twin move N`: a VCPU of N threads runs on core 0 and has moved to core 1, which waits for it,
 * when one of its threads blocks: says whether core 1 chose it before, is to choose again, and
 * chooses it then.
 *
 * `twin pass`: VCPUs 0 and 1 stand on the run queue of either core, 0 before 1: says what both
 * choose, by marks of this choice and of any, at first and after core 0 passed over VCPU 0, began
 * another choice, passed over it once more, and it was taken back; and at last after core 1 passed
 * over both.
 *
 * `twin send N`: one thread writes and sends N run queues while another reads them; says how many
 * the reader found to be written while it read them, or older than one before.
 */
#include <inttypes.h>
#include <linux/types.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "law.h"
#include "memory.h"

#define CORES 8

static struct law_vcpu vcpus[LAW_VCPUS];
static struct law_core cores[CORES];
static struct law_memory memories[CORES];
static struct law_slots slots[CORES];
static struct law_queue queues[CORES][LAW_QUEUES];
/* How many of a VCPU's runnable threads its core cannot run. */
static __u32 away[LAW_VCPUS];

static __u64 number(void)
{
	uint64_t value;

	if (scanf("%" SCNu64, &value) != 1)
		exit(2);
	return value;
}

static void grants(struct law_grant *into, __u32 entries)
{
	for (__u32 i = 0; i < entries; i++) {
		into[i].vcpu = number();
		into[i].until = number();
		into[i].memory = number();
		into[i].from = number();
		__u64 wakes = number();

		into[i].lapses = wakes > 0;
		into[i].wakes = wakes - into[i].lapses;
	}
}

static void run_queue(void)
{
	__u32 core = number() % CORES;
	struct law_queue *queue = &queues[core][slots[core].spare];

	queue->allowance = number();
	queue->background_allowed = number();
	queue->foreground_entries = number();
	queue->background_entries = number();
	if (queue->foreground_entries > LAW_FOREGROUND_MAX ||
	    queue->background_entries > LAW_BACKGROUND_MAX)
		exit(3);
	grants(queue->foreground, queue->foreground_entries);
	grants(queue->background, queue->background_entries);
	law_send(&slots[core]);
}

/* The run queue that a core reads. */
static const struct law_queue *queue_of(const struct law_core *core)
{
	return &queues[core->id][law_receive(&slots[core->id])];
}

/* As user space does where a slot is used again. */
static void clear(__u32 number)
{
	struct law_vcpu *vcpu = law_vcpu(vcpus, number);

	if (vcpu->threads || vcpu->holder || !law_is_there(vcpus, number))
		exit(7);
	*vcpu = (struct law_vcpu){ .left = vcpu->left };
}

/* Another one, or one less, of the runnable threads of a VCPU is confined elsewhere. */
static __u32 confine(__u32 number, __u32 more)
{
	away[number & (LAW_VCPUS - 1)] += more;
	return number;
}

/* Carries out one step, and says which: 0 at the end of the input. */
static char step(__u64 *now, __u32 *says)
{
	char letter;
	__u32 core;

	if (scanf(" %c", &letter) != 1)
		return 0;
	switch (letter) {
	case 'q': run_queue(); break;
	case 'w': law_wake(vcpus, number()); break;
	case 'b': law_block(vcpus, number()); break;
	case 'W': law_wake(vcpus, confine(number(), 1)); break;
	case 'B': law_block(vcpus, confine(number(), -1)); break;
	case 'a': confine(number(), 1); break;
	case 'h': confine(number(), -1); break;
	case 'l': law_leave(vcpus, number()); break;
	case 'n': clear(number()); break;
	case 'r': core = number(); law_count_reads(&cores[core % CORES], vcpus, number()); break;
	case 't': *now += number(); break;
	case 'o':
		core = number() % CORES;
		if (law_overflow(&cores[core], &memories[core], vcpus, queue_of(&cores[core]),
				 number()))
			says[core] = 2;
		break;
	case 'x': memories[number() % CORES].pending = 0; break;
	default: exit(4);
	}
	return letter;
}

static void say(__u32 n_cores, __u32 n_vcpus, const __u32 *ends, const __u32 *says)
{
	for (__u32 i = 0; i < n_cores; i++) {
		const struct law_core *core = &cores[i];

		printf("%" PRId64 " %u %u %" PRIu64 " %" PRIu64 " %" PRIu64 " %u ",
		       core->now.vcpu == LAW_NONE ? (int64_t)-1 : (int64_t)core->now.vcpu,
		       core->now.vcpu == LAW_NONE ? 0 : core->now.mode, ends[i],
		       (uint64_t)law_spent_at(core, vcpus), (uint64_t)core->now.due,
		       (uint64_t)core->reads, says[i]);
	}
	for (__u32 i = 0; i < n_vcpus; i++)
		printf("%" PRIu64 " %" PRIu64 " %" PRIu64 " ", (uint64_t)vcpus[i].meter[0],
		       (uint64_t)vcpus[i].meter[1], (uint64_t)vcpus[i].reads);
	printf("\n");
}

/* What the core is to run: the law's choice of what has a thread that can run here. */
static struct law_choice choose(struct law_core *core, __u64 now)
{
	const struct law_queue *queue = queue_of(core);
	struct law_choice next;

	law_begin_pass(core);
	for (;;) {
		next = law_next(core, queue, vcpus, now, LAW_PASSED_NOW);
		if (next.vcpu == LAW_NONE ||
		    law_vcpu(vcpus, next.vcpu)->threads > away[next.vcpu & (LAW_VCPUS - 1)])
			return next;
		law_pass_over(core, vcpus, next.vcpu);
	}
}

/* Ends what the core holds where the law has something else there, which is returned. */
static struct law_choice stop(struct law_core *core, __u64 now, __u32 *end)
{
	struct law_choice next = choose(core, now);

	if (core->now.vcpu != LAW_NONE && !law_goes_on(&core->now, &next))
		*end = law_let_go(core, vcpus);
	return next;
}

/* All entries of a run queue have the number of the sending, so that a torn one shows. */
static void *send_queues(void *sendings)
{
	for (__u64 sending = 1; sending <= *(__u64 *)sendings; sending++) {
		struct law_queue *queue = &queues[0][slots[0].spare];

		for (__u32 i = 0; i < LAW_FOREGROUND_MAX; i++)
			*(volatile __u64 *)&queue->foreground[i].until = sending;
		law_send(&slots[0]);
	}
	return NULL;
}

static int try_sending(__u64 sendings)
{
	__u64 newest = 0, torn = 0, older = 0;
	pthread_t sender;

	law_clear_slots(&slots[0]);
	if (pthread_create(&sender, NULL, send_queues, &sendings))
		return 6;
	while (newest < sendings) {
		const struct law_queue *queue = &queues[0][law_receive(&slots[0])];
		__u64 first = *(volatile __u64 *)&queue->foreground[0].until;

		for (__u32 i = 1; i < LAW_FOREGROUND_MAX; i++)
			torn += *(volatile __u64 *)&queue->foreground[i].until != first;
		older += first < newest;
		newest = first;
	}
	pthread_join(sender, NULL);
	printf("torn %" PRIu64 " older %" PRIu64 "\n", (uint64_t)torn, (uint64_t)older);
	return 0;
}

static bool chooses(const struct law_core *core)
{
	struct law_queue queue = {
		.allowance = LAW_NEVER,
		.foreground_entries = 1,
		.foreground = { { .until = LAW_NEVER, .memory = LAW_NEVER } },
	};

	return law_next(core, &queue, vcpus, 0, LAW_PASSED_NOW).vcpu == 0;
}

static int try_moving(__u64 threads)
{
	const struct law_grant grant = { .until = LAW_NEVER, .memory = LAW_NEVER };
	bool before, is_awaited;

	for (__u32 i = 0; i < 2; i++)
		cores[i] = (struct law_core){ .id = i, .pass = i + 1, .now = law_idle() };
	while (threads--)
		law_wake(vcpus, 0);
	if (!law_hold(&cores[0], vcpus, law_running(&grant, LAW_FOREGROUND), 0))
		return 5;
	before = chooses(&cores[1]);
	law_block(vcpus, 0);
	law_let_go(&cores[0], vcpus);
	is_awaited = law_is_awaited(&cores[0], vcpus, 0, 1);
	printf("before %d awaited %d after %d stays %d\n", before, is_awaited, chooses(&cores[1]),
	       law_is_awaited(&cores[0], vcpus, 0, 0));
	return 0;
}

/* What both cores choose, by both kinds of marks: -1 = nothing. */
static void say_chosen(const char *when)
{
	static const __u32 which[2] = { LAW_PASSED_NOW, LAW_PASSED_EVER };
	const struct law_queue queue = {
		.allowance = LAW_NEVER,
		.background_allowed = 1,
		.foreground_entries = 1,
		.background_entries = 1,
		.foreground = { { .until = LAW_NEVER, .memory = LAW_NEVER } },
		.background = { { .until = LAW_NEVER, .memory = LAW_NEVER, .vcpu = 1 } },
	};

	printf("%s", when);
	for (__u32 i = 0; i < 4; i++)
		printf(" %d", (int)law_next(&cores[i / 2], &queue, vcpus, 0, which[i % 2]).vcpu);
	printf("\n");
}

static int try_passing(void)
{
	for (__u32 i = 0; i < 2; i++) {
		cores[i] = (struct law_core){ .id = i, .pass = i + 1, .now = law_idle() };
		law_wake(vcpus, i);
		law_begin_pass(&cores[i]);
	}
	say_chosen("first");
	law_pass_over(&cores[0], vcpus, 0);
	say_chosen("passed");
	law_begin_pass(&cores[0]);
	say_chosen("next");
	law_pass_over(&cores[0], vcpus, 0);
	law_take_back(vcpus, 0);
	say_chosen("back");
	law_pass_over(&cores[1], vcpus, 0);
	law_pass_over(&cores[1], vcpus, 1);
	say_chosen("none");
	return 0;
}

/* All cores are charged, then stop what may not go on, then start what may. */
static bool settle(__u32 n_cores, __u64 now, __u32 *ends, __u32 *says)
{
	for (__u32 i = 0; i < n_cores; i++) {
		law_charge(&cores[i], vcpus, now);
		law_charge_reads(&cores[i], &memories[i], vcpus);
	}
	for (__u32 i = 0; i < n_cores; i++)
		stop(&cores[i], now, &ends[i]);
	for (__u32 i = 0; i < n_cores; i++) {
		/* What another core let go of may stand before what is held here. */
		struct law_choice next = stop(&cores[i], now, &ends[i]);

		if (!law_hold(&cores[i], vcpus, next, now))
			return false;
		says[i] = law_tells_spent(&cores[i], &memories[i], queue_of(&cores[i]));
	}
	return true;
}

int main(int argc, char **argv)
{
	__u32 n_cores, n_vcpus, ends[CORES], says[CORES];
	__u64 least, now = 0;
	char letter;

	if (argc == 2)
		return try_passing();
	if (argc == 3 && argv[1][0] == 'm')
		return try_moving(strtoull(argv[2], NULL, 10));
	if (argc == 3)
		return try_sending(strtoull(argv[2], NULL, 10));
	if (scanf(" %c", &letter) != 1 || letter != 'c')
		return 2;
	n_cores = number();
	n_vcpus = number();
	least = number();
	if (n_cores > CORES || n_vcpus > LAW_VCPUS)
		return 3;
	for (__u32 i = 0; i < n_cores; i++) {
		cores[i] = (struct law_core){
			.id = i, .pass = i + 1, .least = least, .soon = least, .now = law_idle(),
		};
		law_clear_slots(&slots[i]);
		queues[i][slots[i].read].allowance = LAW_NEVER;
		queues[i][slots[i].read].background_allowed = 1;
	}
	/* Who writes the next step may have to read this one's outcome before. */
	setvbuf(stdout, NULL, _IOLBF, 0);
	while (memset(says, 0, sizeof(says)), memset(ends, 0, sizeof(ends)),
	       (letter = step(&now, says))) {
		if (letter != 'o' && letter != 'x' && !settle(n_cores, now, ends, says))
			return 5;
		say(n_cores, n_vcpus, ends, says);
	}
	return 0;
}
