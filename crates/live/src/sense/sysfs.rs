//! Units of counters as sysfs shows them: their numbers, their formats, their cores.
