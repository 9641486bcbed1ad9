// SchedCAT's side of `cargo xtask bench peers`, which compiles it beside SchedCAT's own source.
//
// Reads one case a line from standard input and answers each with one line:
//
//     POLICY CORES HORIZON COST:PERIOD[@CORE] ...   ->   JOBS LATE SECONDS | failed WHY
//
// What is timed is its simulation of global EDF, which counts late jobs and by how much they were,
// in CPU time. JOBS are those completed. Partitioned EDF is that simulation for the tasks of each
// core alone, one core after the other; SchedCAT packs no tasks, so CORE says where each runs.

#include "tasks.h"

#include "edf/sim.h"

#include <cstdio>
#include <ctime>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

static double cpu_time() {
    timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        std::istringstream words(line);
        std::string policy, word;
        unsigned int cores;
        unsigned long horizon;
        words >> policy >> cores >> horizon;
        bool partitioned = policy == "p-edf";
        if (!partitioned && policy != "g-edf") {
            std::cout << "failed it simulates EDF alone" << std::endl;
            continue;
        }
        // One partition has all cores under global EDF.
        std::vector<TaskSet> parts(partitioned ? cores : 1);
        bool placed = true;
        while (words >> word) {
            unsigned long cost, period;
            unsigned int core;
            int read = std::sscanf(word.c_str(), "%lu:%lu@%u", &cost, &period, &core);
            if (partitioned && (read != 3 || core >= cores)) {
                placed = false;
            } else if (read >= 2) {
                parts[partitioned ? core : 0].add_task(cost, period);
            }
        }
        if (!placed) {
            std::cout << "failed no partition is given" << std::endl;
            continue;
        }
        unsigned long jobs = 0, late = 0;
        double start = cpu_time();
        for (TaskSet &tasks : parts) {
            Stats stats = edf_observe_tardiness(partitioned ? 1 : cores, tasks, horizon);
            jobs += stats.num_ok_jobs + stats.num_tardy_jobs;
            late += stats.num_tardy_jobs;
        }
        double seconds = cpu_time() - start;
        std::printf("%lu %lu %.9f\n", jobs, late, seconds);
        std::fflush(stdout);
    }
}
