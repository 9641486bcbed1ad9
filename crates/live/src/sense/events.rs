//! The event tables: which codes count occupancy, requests, references and misses on which machine.
