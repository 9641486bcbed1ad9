/* MARACAS: a VCPU of its own for the calling thread, in a running system (`maracas run`), and memory
 * in page frames of chosen colours.
 *
 * Link with -lmaracas_client. Calls that create, destroy or wait return false on failure;
 * maracas_last_error then says why, in one sentence. Every call concerns the calling thread alone,
 * but for maracas_progress; any number of threads may call at once. Times are in nanoseconds.
 *
 * SPDX-License-Identifier: Apache-2.0 OR MIT
 */
#ifndef MARACAS_H
#define MARACAS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One job of a task. Release and deadline count from the start of the run. */
struct maracas_job {
    uint32_t index;
    uint64_t release_ns;
    uint64_t deadline_ns;
};

/* Creates a VCPU with budget_ns in every period_ns and at least `colors` page colours (0 = any)
 * and binds the calling thread to it. From its return on the thread has its reservation. The VCPU
 * ends with the thread or by maracas_vcpu_destroy. Refused where it would not be admitted (the
 * admission numbers are in maracas_last_error), where no run is found (the one that the variable
 * MARACAS_SOCKET names, else the only one), and in programs that the run itself started. */
bool maracas_vcpu_create(uint64_t budget_ns, uint64_t period_ns, uint32_t colors);

/* Like maracas_vcpu_create, with a job released every period_ns, beginning now. */
bool maracas_task_create(uint64_t budget_ns, uint64_t period_ns, uint32_t colors);

/* How the demand of a VCPU arrives: as threads run and block; as jobs, one every period; as jobs at
 * least a period apart. */
enum maracas_jobs { MARACAS_NO_JOBS = 0, MARACAS_PERIODIC_JOBS = 1, MARACAS_SPORADIC_JOBS = 2 };

/* All that can be said of a VCPU. Begin with MARACAS_VCPU and change what is to differ. */
struct maracas_vcpu {
    uint64_t budget_ns;
    uint64_t period_ns;
    uint64_t deadline_ns;   /* at most the period */
    uint64_t offset_ns;     /* of the first periodic job, from now; at least 20 ms count */
    uint64_t bandwidth;     /* of memory, of its own, in bytes a second; 0 = none */
    const char *name;       /* NULL: the run chooses one */
    int32_t core;           /* on which it must be; -1 = any */
    int32_t core_class;     /* on which its budget is meant, 0 the fastest; -1 = whichever core */
    uint32_t colors;        /* least number of page colours; 0 = any */
    uint32_t weight;        /* share among equals, 1 to 10000 */
    uint32_t speedup_milli; /* of the fastest class over the slowest, in thousandths; 0 = unknown */
    int32_t jobs;           /* one of MARACAS_*_JOBS */
    bool is_io;             /* it serves the requests of other VCPUs */
    bool is_low;            /* of low criticality: others may take its page colours */
};

/* A VCPU without jobs and demands: struct maracas_vcpu mine = MARACAS_VCPU(2000000, 10000000); */
#define MARACAS_VCPU(budget_ns, period_ns) \
    { (budget_ns), (period_ns), (period_ns), 0, 0, NULL, -1, -1, 0, 1, 0, MARACAS_NO_JOBS, false, \
      false }

/* Like maracas_vcpu_create, or with jobs like maracas_task_create. */
bool maracas_create_vcpu(const struct maracas_vcpu *vcpu);

/* Ends the calling thread's VCPU; the thread goes on as an ordinary one. A forked child has no VCPU
 * of its parent's. Where the runtime does not answer, the thread has its VCPU still. */
bool maracas_vcpu_destroy(void);

/* Waits for the next job of the calling thread's task, or of the VCPU on which the run started
 * this program, and writes it to *job unless that is null. A job begun before counts as done. */
bool maracas_job_wait(struct maracas_job *job);

/* Says that the job which maracas_job_wait gave has received all its service. */
bool maracas_job_done(void);

/* Whether the calling thread now runs on its budget (the foreground) or, false, on surplus time.
 * One cheap system call. False for a thread without a VCPU, and for every thread where the scheduler
 * is in the kernel (--backend sched-ext) or the host gives no real-time class. */
bool maracas_in_foreground(void);

/* Adds `units` to the progress of the VCPU on which the run started this program, so that a host
 * without instruction counters can tell how much faster the program runs on a fast core than on a
 * slow one. A few nanoseconds; all threads and forked children add to one count. Does nothing where
 * no run asks for it. A unit is a fixed amount of work, the same on whatever core (an iteration, a
 * frame, a request; never a time), and there should be a thousand a second or more. */
void maracas_progress(uint64_t units);

/* Whether maracas_progress counts. It never changes while the program runs. */
bool maracas_counts_progress(void);

/* Memory in page frames of chosen colours; zero at first. */
struct maracas_buffer {
    void *memory;
    void *own;
};

/* Finds frames for `bytes` of memory whose numbers modulo `colors` (1 to 64) are bits of `mask`.
 * Needs visible frame numbers (CAP_SYS_ADMIN). Several pages are taken for each that is kept; fails
 * where half of the available memory does not hold enough. */
bool maracas_buffer_create(struct maracas_buffer *buffer, size_t bytes, uint64_t mask,
                           uint32_t colors);

/* Gives the memory back; harmless where it was already. */
void maracas_buffer_destroy(struct maracas_buffer *buffer);

/* Puts private anonymous memory into frames of the colours: same addresses, same content, while any
 * thread uses it. Needs Linux 6.8 and CAP_SYS_ADMIN. Frames that are shared with a forked process or
 * pinned for a device stay: maracas_wrong_pages counts. */
bool maracas_recolor(const void *memory, size_t bytes, uint64_t mask, uint32_t colors);

/* How many pages lie in frames of other colours; -1 where that cannot be seen. */
int64_t maracas_wrong_pages(const void *memory, size_t bytes, uint64_t mask, uint32_t colors);

/* Why the calling thread's last failed call failed. Empty if none has, and in the destructors of a
 * thread's data (pthread_key_create), where calls that concern its VCPU fail. Valid until the
 * thread's next failing call. */
const char *maracas_last_error(void);

#ifdef __cplusplus
}
#endif

#endif
