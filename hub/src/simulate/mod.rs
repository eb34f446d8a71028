//! The workload simulator and the fleet harness: hub, agents and members in one process.
