// SchedCAT's side of `cargo xtask bench peers`, which compiles it beside SchedCAT's own source.
//
// Reads one case a line from standard input and answers each with one line:
//
//     POLICY CORES HORIZON COST:PERIOD COST:PERIOD ...   ->   JOBS LATE SECONDS
//
// What is timed is its simulation of global EDF, which counts late jobs and by how much they were,
// in CPU time. JOBS are those completed; it simulates no other policy.

#include "tasks.h"

#include "edf/sim.h"

#include <cstdio>
#include <ctime>
#include <iostream>
#include <sstream>
#include <string>

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
        unsigned long horizon, cost, period;
        TaskSet tasks;
        words >> policy >> cores >> horizon;
        while (words >> word) {
            if (std::sscanf(word.c_str(), "%lu:%lu", &cost, &period) == 2) {
                tasks.add_task(cost, period);
            }
        }
        if (policy != "g-edf" || tasks.get_task_count() == 0) {
            std::cout << "failed it simulates global EDF alone" << std::endl;
            continue;
        }
        double start = cpu_time();
        Stats stats = edf_observe_tardiness(cores, tasks, horizon);
        double seconds = cpu_time() - start;
        std::printf("%lu %lu %.9f\n", stats.num_ok_jobs + stats.num_tardy_jobs,
                    stats.num_tardy_jobs, seconds);
        std::fflush(stdout);
    }
}
